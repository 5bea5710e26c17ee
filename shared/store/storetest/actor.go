package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/convoke-hpc/convoke/shared/store"
)

func actorChecks() []check {
	return []check{
		{"of 200 posters' events each is dealt with once", checkPosters},
		{"an event that exists still goes on to the lease", checkRedelivery},
		{"an event posted between the last look and the release is seen", checkRecheck},
		{"an event posted while the holder works is the holder's", checkPostedToHolder},
		{"a dead holder is found by a tick", checkDeadHolder},
		{"a dead holder is found also when it died before its first commit", checkDeadMaker},
		{"a stalled holder loses no events and writes none twice", checkStalledHolder},
	}
}

func checkPosters(t testing.TB, s *scene) {
	const posters, each = 200, 2
	var want []string
	var all sync.WaitGroup
	for p := range posters {
		for i := range each {
			want = append(want, fmt.Sprintf("%03d-%d", p, i))
		}
		all.Go(func() {
			st := s.steward(fmt.Sprint("invocation ", p), 0)
			for i := range each {
				e := store.Event{ID: fmt.Sprintf("%03d-%d", p, i), Received: s.at(i)}
				if err := st.deliver(t.Context(), e); err != nil {
					t.Errorf("delivering %s: %v", e.ID, err)
				}
			}
		})
	}
	all.Wait()
	s.wantInbox(t)
	entries, err := s.Timeline(t.Context(), s.key, "", 10_000)
	must(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Text)
	}
	slices.Sort(got)
	equal(t, "what was dealt with", got, want)
	_, listed, err := s.Read(t.Context(), s.key)
	must(t, err)
	if listed.Held {
		t.Error("all have gone, and the cluster is held")
	}
}

// The first delivery posted its event and died. The second finds the event there, and must not think it is dealt with.
func checkRedelivery(t testing.TB, s *scene) {
	s.post(t, "a")
	s.steward("second delivery", 0).mustDeliver(t, "a")
	s.wantInbox(t)
	s.wantTimeline(t, "a")
}

// meddled is a store in which something happens at the worst moment: when the holder has seen the whole inbox and is
// about to release.
type meddled struct {
	store.Store
	beforeRelease func()
}

func (m *meddled) Commit(ctx context.Context, l *store.Lease, c store.Change) error {
	if c.Release && m.beforeRelease != nil {
		meddle := m.beforeRelease
		m.beforeRelease = nil
		meddle()
	}
	return m.Store.Commit(ctx, l, c)
}

func checkRecheck(t testing.TB, s *scene) {
	st := s.steward("holder", 0)
	st.store = &meddled{Store: s.Store, beforeRelease: func() { s.steward("poster", 0).mustDeliver(t, "late") }}
	st.mustDeliver(t, "early")
	s.wantInbox(t)
	s.wantTimeline(t, "early", "late")
}

func checkPostedToHolder(t testing.TB, s *scene) {
	l := s.lease(t, "holder", 0)
	for i := range 5 {
		s.steward(fmt.Sprint("poster ", i), i).mustDeliver(t, fmt.Sprint(i))
	}
	s.wantInbox(t, "0", "1", "2", "3", "4")
	must(t, s.steward("holder", 0).hold(t.Context(), l))
	s.wantTimeline(t, "0", "1", "2", "3", "4")
}

// tick wakes what is due, as a scheduled function does.
func (s *scene) tick(t testing.TB, at int) {
	t.Helper()
	due, err := s.Due(t.Context(), s.at(at), 100)
	must(t, err)
	for _, key := range due {
		st := s.steward(fmt.Sprint("tick at ", at), at)
		st.key = key
		must(t, st.run(t.Context()))
	}
}

func checkDeadHolder(t testing.TB, s *scene) {
	s.steward("first", 0).mustDeliver(t, "a")
	s.lease(t, "dead", 1) // and nothing more is heard of it
	s.steward("poster", 2).mustDeliver(t, "b")
	s.wantInbox(t, "b")
	s.tick(t, 60)
	s.wantInbox(t, "b") // the holder may yet live
	s.tick(t, 61)
	s.wantInbox(t)
	s.wantTimeline(t, "a", "b")
	s.wantDue(t, 1_000_000)
}

func checkDeadMaker(t testing.TB, s *scene) {
	s.post(t, "a")
	s.lease(t, "dead", 0)
	s.wantDue(t, 59)
	s.wantDue(t, 60, s.key)
	s.tick(t, 60)
	s.wantInbox(t)
	s.wantTimeline(t, "a")
}

func checkStalledHolder(t testing.TB, s *scene) {
	s.post(t, "a", "b")
	stalled := s.lease(t, "stalled", 0)
	events, err := s.Inbox(t.Context(), s.key, 100) // and here its machine is taken away for a minute
	must(t, err)
	s.steward("poster", 60).mustDeliver(t, "c")
	s.wantTimeline(t, "a", "b", "c")
	err = s.Commit(t.Context(), stalled, store.Change{Consume: idsOf(events), Timeline: said(idsOf(events)...), Now: s.at(61)})
	wantErr(t, "committing what another has done", err, store.ErrFenced)
	s.wantTimeline(t, "a", "b", "c")
	s.wantInbox(t)
}
