package losses_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/events/auditlog"
	"github.com/convoke-hpc/convoke/functions/delivery"
	"github.com/convoke-hpc/convoke/functions/hardware"
	"github.com/convoke-hpc/convoke/functions/internal/functest"
	"github.com/convoke-hpc/convoke/functions/preemption"
)

// entry is a captured entry of the audit log, about a machine of ours.
func entry(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../events/auditlog/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.ReplaceAll(string(text), "instances/instance-1", "instances/flexvm-a3u-0"))
}

func eventarc(b *functest.Bench, text []byte) int {
	return b.Post(text, map[string]string{
		"Content-Type": "application/json; charset=utf-8", "Ce-Type": auditlog.Type, "Ce-Specversion": "1.0",
		"Ce-Source": "//cloudaudit.googleapis.com/projects/project-1/logs/system_event",
		"Ce-Id":     "projects/project-1/logs/cloudaudit.googleapis.com%2Fsystem_event1589212604808000", "Ce-Methodname": "compute.instances.preempted",
	})
}

func sink(b *functest.Bench, text []byte) int {
	return b.Push("18446744", text, map[string]string{"logging.googleapis.com/timestamp": "2020-05-11T15:56:44.808Z"})
}

// TestOneLossTwoRoutes: both functions hear every entry by both routes; one of them takes it, as one event.
func TestOneLossTwoRoutes(t *testing.T) {
	for _, c := range []struct {
		file     string
		hardware bool
		method   string
	}{
		{"audit-preempted.json", false, "compute.instances.preempted"},
		{"audit-instance-delete-first.json", false, "compute.instances.delete"},
		{"audit-host-error.json", true, "compute.instances.hostError"},
	} {
		t.Run(c.file, func(t *testing.T) {
			s := &functest.Steward{}
			pb, hb := functest.New(t, preemption.New(s, functest.Now)), functest.New(t, hardware.New(s, functest.Now))
			taker, other := pb, hb
			if c.hardware {
				taker, other = hb, pb
			}
			text := entry(t, c.file)
			for _, b := range []*functest.Bench{taker, other} {
				if one, two := eventarc(b, text), sink(b, text); one != 204 || two != 204 {
					t.Fatalf("%d, %d: %s", one, two, b.Log)
				}
			}
			calls := s.Calls()
			if len(calls) != 2 || calls[0].Event.ID != calls[1].Event.ID || calls[0].Key.ID != "flexvm" || other.Ignored(delivery.NotOurs) != 2 {
				t.Fatalf("%+v", calls)
			}
			p, err := events.Read(calls[0].Event.Type, calls[0].Event.Data)
			if lost, ok := p.(*events.InstanceLost); err != nil || !ok || lost.Method != c.method || lost.HostError != c.hardware {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

func TestEntriesOfNoUse(t *testing.T) {
	s := &functest.Steward{}
	b := functest.New(t, preemption.New(s, functest.Now))
	sink(b, []byte(strings.ReplaceAll(string(entry(t, "audit-preempted.json")), "flexvm-a3u-0", "bastion")))
	sink(b, []byte(strings.ReplaceAll(string(entry(t, "audit-preempted.json")), "instances.preempted", "instances.automaticRestart")))
	if len(s.Calls()) != 0 || b.Ignored(auditlog.ForeignMachine) != 1 || b.Ignored(auditlog.OtherMethod) != 1 || len(b.Quarantined()) != 0 {
		t.Errorf("log %s", b.Log)
	}
	sink(b, []byte("preempted!"))
	if len(b.Quarantined()) != 1 {
		t.Errorf("what is no entry was not put aside: %s", b.Log)
	}
}

func TestKinds(t *testing.T) {
	s := &functest.Steward{}
	functest.TakesOnly(t, s, preemption.New(s, functest.Now), events.TypeNodeNotice)
	functest.TakesOnly(t, s, hardware.New(s, functest.Now), events.TypeNodeHealth, events.TypeInstanceLost) // the example is a host error
}
