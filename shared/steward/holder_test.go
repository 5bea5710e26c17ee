package steward_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
