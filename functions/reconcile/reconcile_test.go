package reconcile_test

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/functions/delivery"
	"github.com/convoke-hpc/convoke/functions/internal/functest"
	"github.com/convoke-hpc/convoke/functions/reconcile"
	"github.com/convoke-hpc/convoke/shared/store"
)

func TestKinds(t *testing.T) {
	s := &functest.Steward{}
	functest.TakesOnly(t, s, reconcile.New(s, slog.New(slog.DiscardHandler)), events.TypeTick, events.TypeClusterWake)
}

// TestTicksOfAnyLook: a message on the topic is a tick, whatever Cloud Scheduler was told to put into it.
func TestTicksOfAnyLook(t *testing.T) {
	for _, c := range []struct {
		name, body string
		attributes map[string]string
	}{
		{"the deployment's", "{}", map[string]string{
			"ce-specversion": "1.0", "ce-type": "convoke.tick.v1", "content-type": "application/json",
			"ce-source": "//cloudscheduler.googleapis.com/projects/team-train/locations/us-central1/jobs/convoke-tick"}},
		{"words", "tick", nil},
		{"nothing but an attribute", "", map[string]string{"why": "because"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &functest.Steward{}
			b := functest.New(t, reconcile.New(s, slog.New(slog.DiscardHandler)))
			if status := b.Push("1", []byte(c.body), c.attributes); status != 204 {
				t.Fatal(status, b.Log)
			}
			if calls := s.Calls(); len(calls) != 1 || calls[0].Verb != "tick" {
				t.Errorf("%+v", calls)
			}
		})
	}
}

func TestTickThatFails(t *testing.T) {
	s := &functest.Steward{Err: errors.New("listing clusters that are due, no answer")}
	b := functest.New(t, reconcile.New(s, slog.New(slog.DiscardHandler)))
	if status := b.Push("1", nil, map[string]string{"a": "b"}); status != 503 {
		t.Errorf("no cluster was looked at: %d", status)
	}
	s.Woken = 3
	if status := b.Push("1", nil, map[string]string{"a": "b"}); status != 204 {
		t.Errorf("some were looked at: %d", status)
	}
}

func TestWake(t *testing.T) {
	s := &functest.Steward{}
	b := functest.New(t, reconcile.New(s, slog.New(slog.DiscardHandler)))
	b.Event(functest.Example(t, events.TypeClusterWake))
	if calls := s.Calls(); len(calls) != 1 || calls[0].Verb != "wake" || calls[0].Key != functest.Key() {
		t.Errorf("%+v", calls)
	}
	s.Err = store.ErrNoCluster
	if status := b.Event(functest.Example(t, events.TypeClusterWake)); status != 204 || b.Ignored(delivery.NoCluster) != 1 {
		t.Errorf("of a cluster that is gone: %d", status)
	}
}
