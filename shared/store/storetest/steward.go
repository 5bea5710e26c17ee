package storetest

import (
	"context"
	"errors"
	"slices"
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
	wrong  wrongs
}

// wrongs are the clauses of the protocol that a wrong steward leaves out. Right ones leave out none.
type wrongs struct {
	stopsAtDuplicates bool // an event that exists is thought to be dealt with
	looksOnce         bool // the inbox is not listed once more after the release
}

// deliver is what a function does with an event.
func (st *steward) deliver(ctx context.Context, events ...store.Event) error {
	if st.wrong.stopsAtDuplicates {
		there, err := st.store.Inbox(ctx, st.key, 0)
		known := func(e store.Event) bool { return slices.Contains(idsOf(there), e.ID) }
		if err != nil || slices.ContainsFunc(events, known) {
			return err
		}
	}
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
		if st.wrong.looksOnce {
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
	return &steward{store: s.Store, key: s.key, holder: holder, now: s.at(at), batch: 100, wrong: s.wrong}
}

// mustDeliver delivers an event, which must succeed.
func (st *steward) mustDeliver(t testing.TB, id string) {
	t.Helper()
	must(t, st.deliver(t.Context(), store.Event{ID: id, Type: "test", Time: st.now, Received: st.now}))
}
