package resize_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/functions/delivery"
	"github.com/convoke-hpc/convoke/functions/internal/functest"
	"github.com/convoke-hpc/convoke/functions/resize"
	"github.com/convoke-hpc/convoke/shared/store"
)

func TestKinds(t *testing.T) {
	s := &functest.Steward{}
	functest.TakesOnly(t, s, resize.New(s, functest.Now), events.TypeNodesResume, events.TypeNodesSuspend, events.TypeNodesResumeFailed,
		events.TypeSlurmSnapshot, events.TypeCommandDone, events.TypeNodeBoot)
}

func TestResume(t *testing.T) {
	s := &functest.Steward{}
	b := functest.New(t, resize.New(s, functest.Now))
	e := functest.Example(t, events.TypeNodesResume)
	for range 2 {
		if status := b.Event(e); status != 204 {
			t.Fatal(status, b.Log)
		}
	}
	calls := s.Calls()
	if len(calls) != 2 || calls[0].Event.ID != calls[1].Event.ID || !strings.HasPrefix(calls[0].Event.ID, "nodes.resume-") {
		t.Fatalf("one event, told twice: %+v", calls)
	}
	if calls[0].Key != functest.Key() || calls[0].Create || !calls[0].Event.Received.Equal(functest.Now()) {
		t.Errorf("%+v", calls[0])
	}
}

func TestSnapshot(t *testing.T) {
	s := &functest.Steward{}
	b := functest.New(t, resize.New(s, functest.Now))
	e := functest.Example(t, events.TypeSlurmSnapshot)
	b.Event(e)
	if calls := s.Calls(); len(calls) != 1 || calls[0].Verb != "snapshot" || calls[0].Key != functest.Key() {
		t.Errorf("%+v", calls)
	}
	e.Payload.(*events.SlurmSnapshot).Jobs[0].Nodes = "flexvm-a3u-["
	if status := b.Event(e); status != 204 || len(s.Calls()) != 0 || len(b.Quarantined()) != 1 {
		t.Errorf("one that cannot be read: %d, quarantined %q", status, b.Quarantined())
	}
}

func TestUnknownCluster(t *testing.T) {
	s := &functest.Steward{Err: errors.Join(store.ErrNoCluster, errors.New("discarding"))}
	b := functest.New(t, resize.New(s, functest.Now))
	for _, typ := range []string{events.TypeNodesSuspend, events.TypeSlurmSnapshot} {
		if status := b.Event(functest.Example(t, typ)); status != 204 {
			t.Errorf("%s: %d", typ, status)
		}
	}
	if b.Ignored(delivery.NoCluster) != 2 || len(b.Quarantined()) != 0 {
		t.Errorf("ignored %d, quarantined %q", b.Ignored(delivery.NoCluster), b.Quarantined())
	}
}

func TestUnknownKind(t *testing.T) {
	b := functest.New(t, resize.New(&functest.Steward{}, functest.Now))
	status := b.Push("1", []byte(`{"a":1}`), map[string]string{"ce-type": "convoke.node.dreamt.v1", "ce-id": "1", "ce-source": "//x"})
	if status != http.StatusNoContent || b.Ignored("unknown kind") != 1 || len(b.Quarantined()) != 0 {
		t.Errorf("%d, log %s", status, b.Log)
	}
}

func TestBareMessage(t *testing.T) {
	b := functest.New(t, resize.New(&functest.Steward{}, functest.Now))
	if status := b.Push("1", []byte(`{"nodes":"flexvm-a3u-0"}`), nil); status != 204 || len(b.Quarantined()) != 1 {
		t.Errorf("%d, quarantined %q", status, b.Quarantined())
	}
}
