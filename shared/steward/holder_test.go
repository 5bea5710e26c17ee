package steward_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/decide"
	"github.com/convoke-hpc/convoke/shared/steward"
	"github.com/convoke-hpc/convoke/shared/store"
)

// stuckStore lets holders wait for as long as the gate is closed, and counts them.
type stuckStore struct {
	store.Store
	gate    chan struct{}
	holders atomic.Int32
}

func (s *stuckStore) Documents(ctx context.Context, key cluster.Key) (store.Documents, error) {
	s.holders.Add(1)
	<-s.gate
	return s.Store.Documents(ctx, key)
}

// Functions serve several requests at once: those of one process must keep out of each other's way as those of two do.
func TestInvocationsOfOneProcessKeepEachOtherOut(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		w.create()
		w.until("running", 10*time.Minute, w.phase(cluster.PhaseRunning))
		stuck := &stuckStore{Store: w.st, gate: make(chan struct{})}
		s := steward.New(steward.Config{Store: stuck, Cloud: w.gc, Commands: w, Waker: w, Policy: decide.Defaults(), Now: time.Now, Log: quiet(), Holder: "one"})
		time.Sleep(20 * time.Second) // until the other process has let go
		for range 3 {
			w.wg.Go(func() { _ = s.Wake(w.ctx, key) }) // that it is held is no error
		}
		synctest.Wait()
		if n := stuck.holders.Load(); n != 1 {
			t.Errorf("%d invocations hold the cluster at once", n)
		}
		close(stuck.gate)
	})
}

// A controller's clock that runs ahead does not make its word newer than it is: a snapshot of a controller that has died since
// would be believed for as long as it ran ahead.
func TestASnapshotFromTheFutureIsOfNow(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		comeUp(w)
		s := w.slurmctld().Snapshot()
		s.Sequence += 1000
		s.Taken = time.Now().Add(time.Hour)
		if err := w.steward().Snapshot(w.ctx, s); err != nil {
			t.Fatal(err)
		}
		if got := w.state().Slurm; got.Sequence != s.Sequence || got.Taken.After(time.Now()) {
			t.Errorf("the snapshot kept is number %d, taken at %s, which is yet to come", got.Sequence, got.Taken)
		}
	})
}

// lateStore posts an event in the last moment in which the cluster is held: whoever posted it then goes away.
type lateStore struct {
	store.Store
	late *store.Event
}

func (s *lateStore) Commit(ctx context.Context, l *store.Lease, c store.Change) error {
	if c.Release && s.late != nil {
		e := *s.late
		s.late = nil
		if err := s.Post(ctx, l.Key, e); err != nil {
			return err
		}
	}
	return s.Store.Commit(ctx, l, c)
}

// Whoever lets go of a cluster looks into its inbox once more.
func TestWhoeverLetsGoLooksOnceMore(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		comeUp(w)
		time.Sleep(5 * time.Second) // until the cluster rests
		late := &lateStore{Store: w.st, late: &store.Event{ID: "late", Type: events.TypeNodesSuspend, Time: time.Now(), Received: time.Now(),
			Data: []byte(`{"cluster":{"project":"my-project","location":"us-central1","id":"flexvm"},"nodes":"flexvm-a3u-0","time":"2000-01-01T00:00:00Z"}`)}}
		s := steward.New(steward.Config{Store: late, Cloud: w.gc, Commands: w, Waker: w, Policy: decide.Defaults(), Now: time.Now, Log: quiet(), Holder: "one"})
		if err := s.Wake(w.ctx, key); err != nil {
			t.Fatal(err)
		}
		rest, err := w.st.Inbox(w.ctx, key, 1)
		if err != nil || late.late != nil || len(rest) != 0 {
			t.Errorf("left in the inbox: %v (%v)", rest, err)
		}
	})
}
