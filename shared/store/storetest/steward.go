package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

// steward is the smallest one that keeps the protocol: post, lease, inbox, commit, release, and list the inbox once more.
// What it decides is to write each event on the timeline.
type steward struct {
	store  store.Store
	key    cluster.Key
	holder string
	now    time.Time
	batch  int // events in a step
	// noRecheck is how a wrong one is made: it does not list the inbox once more after its release.
	noRecheck bool
}

// deliver is what a function does with an event.
func (st *steward) deliver(ctx context.Context, events ...store.Event) error {
	if err := st.store.Post(ctx, st.key, events...); err != nil {
		return err
	}
	return st.run(ctx)
}

// run steps the cluster until there is nothing left to do, unless another does.
func (st *steward) run(ctx context.Context) error {
	for {
		lease, err := st.store.Lease(ctx, st.key, st.holder, st.now, st.now.Add(time.Minute), true)
		if errors.Is(err, store.ErrHeld) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := st.hold(ctx, lease); err != nil {
			return err
		}
		if st.noRecheck {
			return nil
		}
		events, err := st.store.Inbox(ctx, st.key, 1)
		if err != nil || len(events) == 0 {
			return err
		}
	}
}

// hold steps under one lease, to its release.
func (st *steward) hold(ctx context.Context, lease *store.Lease) error {
	for {
		events, err := st.store.Inbox(ctx, st.key, st.batch)
		if err != nil {
			return err
		}
		change := store.Change{Consume: idsOf(events), Now: st.now, Release: len(events) < st.batch}
		for _, e := range events {
			change.Timeline = append(change.Timeline, cluster.Entry{At: e.Time, Kind: "test", Text: e.ID})
		}
		if err := st.store.Commit(ctx, lease, change); err != nil || change.Release {
			return err
		}
	}
}

// steward is a new invocation on the scene.
func (s *scene) steward(holder string, at int) *steward {
	return &steward{store: s.Store, key: s.key, holder: holder, now: s.at(at), batch: 100, noRecheck: s.noRecheck}
}

// mustDeliver delivers an event, which must succeed.
func (st *steward) mustDeliver(t testing.TB, id string) {
	t.Helper()
	must(t, st.deliver(t.Context(), store.Event{ID: id, Type: "test", Time: st.now, Received: st.now}))
}
