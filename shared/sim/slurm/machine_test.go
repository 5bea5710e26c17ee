package slurm

import (
	"context"
	"fmt"
	"math/bits"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// walk is a controller that is handled at random: by people, machines, the steward, and time.
type walk struct {
	c    *Controller
	now  time.Time
	jobs map[int64]bool
	acts int
	told map[string]int // answers by command
	ids  map[string]bool
}

func (w *walk) controller(t *rapid.T) *Controller {
	timing := DefaultTiming()
	timing.ResumeTimeout = 10 * time.Minute
	timing.Keep = 1000 * time.Hour
	timing.Snapshot = time.Hour
	c, err := New(Options{Spec: testSpec(), Key: testSpec().Key(), Timing: &timing, Now: func() time.Time { return w.now },
		Publish: func(_ context.Context, typ, id string, data events.Payload) error {
			if w.ids[id] && typ != events.TypeCommandDone {
				t.Errorf("the id %s came twice", id)
			}
			w.ids[id] = true
			if d, ok := data.(*events.CommandDone); ok {
				w.told[d.Command]++
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRandomWalk checks after each of many random acts that no job is lost, that no node is powered down under a running job, and
// that jobs and nodes agree on who holds whom.
func TestRandomWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &walk{now: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC), jobs: map[int64]bool{}, told: map[string]int{}, ids: map[string]bool{}}
		w.c = w.controller(t)
		node := rapid.SampledFrom(names(w.c.nodes))
		act := func(f func(string) error) func(*rapid.T) {
			return func(t *rapid.T) { _ = f(node.Draw(t, "node")) }
		}
		t.Repeat(map[string]func(*rapid.T){
			"": w.check,
			"submit": func(t *rapid.T) {
				id, err := w.c.Submit(JobSpec{
					Partition: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "partition"), Nodes: rapid.IntRange(1, 3).Draw(t, "nodes"),
					RunFor: time.Duration(rapid.IntRange(0, 60).Draw(t, "run")) * time.Minute, NoRequeue: rapid.Bool().Draw(t, "norequeue"),
					TimeLimit: time.Duration(rapid.IntRange(0, 60).Draw(t, "limit")) * time.Minute,
				})
				if err != nil {
					t.Fatal(err)
				}
				w.jobs[id] = true
			},
			"cancel":  func(t *rapid.T) { _ = w.c.Cancel(int64(rapid.IntRange(1, len(w.jobs)+1).Draw(t, "job"))) },
			"requeue": func(t *rapid.T) { _ = w.c.Requeue(int64(rapid.IntRange(1, len(w.jobs)+1).Draw(t, "job"))) },
			"register": act(func(n string) error {
				_, err := w.c.Register(n, w.now)
				return err
			}),
			"registerInvalid": act(func(n string) error {
				_, err := w.c.RegisterInvalid(n, w.now, "gres/gpu count reported lower than configured (0 < 8)")
				return err
			}),
			"vanish":    act(func(n string) error { w.c.Unregister(n); return nil }),
			"drain":     act(func(n string) error { return w.c.Drain([]string{n}, "cable", "alice") }),
			"down":      act(func(n string) error { return w.c.Down([]string{n}, "cable", "alice") }),
			"resume":    act(func(n string) error { return w.c.Resume([]string{n}) }),
			"powerUp":   act(func(n string) error { return w.c.PowerUp([]string{n}) }),
			"powerDown": act(func(n string) error { return w.c.PowerDownForce([]string{n}) }),
			"command": func(t *rapid.T) {
				w.acts++
				w.c.Command(events.SlurmCommand{
					Cluster: testSpec().Key(), ID: fmt.Sprintf("c%d", rapid.IntRange(max(0, w.acts-3), w.acts).Draw(t, "id")), Time: w.now,
					Kind:  rapid.SampledFrom([]string{"lost", "drain", "evict", "giveBack", "resume", "refresh"}).Draw(t, "kind"),
					Nodes: node.Draw(t, "node"), Reason: "convoke:test", Dynamic: rapid.Bool().Draw(t, "dynamic"),
				})
			},
			"wait": func(t *rapid.T) {
				until := w.now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "seconds")) * time.Second)
				for {
					w.c.Step()
					_ = w.c.Flush(context.Background())
					next := w.c.Step()
					if next.IsZero() || next.After(until) {
						break
					}
					if !next.After(w.now) {
						t.Fatalf("at %s it is due again at %s", w.now, next)
					}
					w.now = next
				}
				w.now = until
				w.c.Step()
			},
			"restart": func(t *rapid.T) {
				data, err := w.c.Save()
				if err != nil {
					t.Fatal(err)
				}
				w.c = w.controller(t)
				if err := w.c.Load(data); err != nil {
					t.Fatal(err)
				}
			},
		})
		// Left alone, commands come to their ends and the spool to its.
		for range 50 {
			w.c.Step()
			_ = w.c.Flush(context.Background())
			next := w.c.Step()
			if next.IsZero() {
				break
			}
			w.now = next
		}
		w.check(t)
		if len(w.c.agent.errands) > 0 || len(w.c.agent.spool) > 0 {
			t.Errorf("commands %v and events %v are left", w.c.agent.errands, w.c.agent.spool)
		}
		for id := range w.c.agent.answers {
			if w.told[id] == 0 {
				t.Errorf("command %s was never answered", id)
			}
		}
	})
}

func (w *walk) check(t *rapid.T) {
	if len(w.c.jobs) != len(w.jobs) {
		t.Fatalf("%d jobs were submitted, %d are known", len(w.jobs), len(w.c.jobs))
	}
	for _, j := range w.c.jobs {
		w.checkJob(t, j)
	}
	for _, n := range w.c.nodes {
		w.checkNode(t, n)
	}
}

func (w *walk) checkJob(t *rapid.T, j *job) {
	for _, n := range j.nodes {
		switch {
		case n.Job != j.ID:
			t.Fatalf("job %d has %s, which has job %d", j.ID, n.name, n.Job)
		case j.State == Running && !n.up():
			t.Fatalf("job %d runs on %s, which is %s", j.ID, n.name, w.c.view(n, w.now))
		case j.State == Configuring && !n.up() && !n.Flags.Has(cluster.FlagPoweringUp):
			t.Fatalf("job %d waits for %s, which is %s", j.ID, n.name, w.c.view(n, w.now))
		}
	}
	switch j.State {
	case Running, Configuring:
		if len(j.nodes) != j.Spec.Nodes {
			t.Fatalf("job %d is %s on %d nodes of %d", j.ID, j.State, len(j.nodes), j.Spec.Nodes)
		}
	case Completing:
	default:
		if len(j.nodes) != 0 {
			t.Fatalf("job %d is %s on %v", j.ID, j.State, names(j.nodes))
		}
	}
}

func (w *walk) checkNode(t *rapid.T, n *node) {
	if j := w.c.byID[n.Job]; n.Job != 0 && (j == nil || j.State.Finished() || j.State == Pending) {
		t.Fatalf("%s is held by job %d, which is over", n.name, n.Job)
	}
	if bits.OnesCount16(uint16(n.Flags&powerFlags)) > 1 {
		t.Fatalf("%s is %s", n.name, w.c.view(n, w.now))
	}
	if n.Reason != "" && n.ReasonAt.IsZero() {
		t.Fatalf("%s has a reason without a time", n.name)
	}
}

// bigSpec is a cluster with ten thousand nodes in two pools.
func bigSpec() *cluster.Spec {
	s := testSpec()
	s.NodePools[1].ScalingSpec = cluster.ScalingSpec{MaxNodeCount: 5000}
	s.NodePools[2].ScalingSpec = cluster.ScalingSpec{MaxNodeCount: 5000}
	return s
}

func BenchmarkTenThousandNodes(b *testing.B) {
	now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	c, err := New(Options{Spec: bigSpec(), Key: bigSpec().Key(), Now: func() time.Time { return now }})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		if _, err := c.Submit(JobSpec{Partition: []string{"a", "b"}[i%2], Nodes: 1 + i%20, TimeLimit: time.Hour}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			c.Snapshot()
		}
	})
	b.Run("step", func(b *testing.B) {
		for b.Loop() {
			c.Step()
		}
	})
	b.Run("save", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Save(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
