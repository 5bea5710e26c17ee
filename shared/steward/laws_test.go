package steward_test

import (
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/events"
)

// Law 6: any event may be lost. Each scenario is run with every event of a kind lost, and must end as ever: snapshots,
// ticks and looks at the cloud make up for it. (A person's request is not lost: who sent it sees no operation and sends it again.)
func TestLaw6AnyEventMayBeLost(t *testing.T) {
	for _, lost := range []string{events.TypeNodeBoot, events.TypeInstanceLost, events.TypeNodesResume, events.TypeNodesSuspend} {
		for _, s := range scenarios {
			if lost == events.TypeNodeBoot {
				continue // see below: a login node has nothing but its own word
			}
			t.Run(lost+" lost, "+s.name, func(t *testing.T) {
				t.Parallel()
				inWorld(t, 0, func(w *world) {
					w.lost = func(typ string) bool { return typ == lost }
					s.run(w)
				})
			})
		}
	}
	t.Run("the first reports of a start lost", func(t *testing.T) {
		inWorld(t, 0, func(w *world) {
			until := time.Now().Add(4 * time.Minute)
			w.lost = func(typ string) bool { return typ == events.TypeNodeBoot && time.Now().Before(until) }
			scenarioGrowAndShrink(w)
		})
	})
}

// Law 7: any event may come twice, late, or out of order.
func TestLaw7AnyEventMayComeAgainAndLate(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				w.again = []time.Duration{time.Millisecond, 90 * time.Second, 17 * time.Minute}
				s.run(w)
			})
		})
	}
}
