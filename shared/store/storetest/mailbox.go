package storetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

func mailboxChecks() []check {
	return []check{
		{"events are read as they were posted, oldest first", checkInboxOrder},
		{"an event that comes twice is there once", checkDuplicates},
		{"events may come before their cluster", checkPostBeforeCluster},
		{"clusters have mailboxes of their own", checkMailboxesApart},
		{"an event's id may hold any characters", checkOddIDs},
		{"a full inbox is read and consumed in pieces", checkFullInbox},
		{"an event without an id, or too large, is refused", checkBadEvents},
		{"events that nobody will read can be discarded", checkDiscard},
		{"a caller that has gone changes nothing", checkCancelled},
	}
}

func checkInboxOrder(t testing.TB, s *scene) {
	want := []store.Event{
		{ID: "z", Type: "convoke.slurm.resume", Time: s.at(-9), Received: s.at(1), Data: []byte(`{"nodes":["c1-a3u-0"]}`)},
		{ID: "b", Type: "convoke.instance.preempted", Time: s.at(-8), Received: s.at(2), Data: []byte{0, 0xff, '\n'}},
		{ID: "c", Type: "convoke.tick", Time: s.at(-10), Received: s.at(2)},
		{ID: "a", Received: s.at(2).Add(time.Microsecond), Data: []byte("{}")},
	}
	must(t, s.Post(t.Context(), s.key, want[2], want[0]))
	must(t, s.Post(t.Context(), s.key, want[3]))
	must(t, s.Post(t.Context(), s.key, want[1]))
	must(t, s.Post(t.Context(), s.key))

	got, err := s.Inbox(t.Context(), s.key, 10)
	must(t, err)
	equal(t, "ids", idsOf(got), idsOf(want))
	for i, g := range got {
		w := want[i]
		if g.Type != w.Type || !g.Time.Equal(w.Time) || !g.Received.Equal(w.Received) || !bytes.Equal(g.Data, w.Data) {
			t.Errorf("event %d:\n got %+v\nwant %+v", i, g, w)
		}
	}
	got, err = s.Inbox(t.Context(), s.key, 2)
	must(t, err)
	equal(t, "ids of the oldest two", idsOf(got), []string{"z", "b"})
}

func checkDuplicates(t testing.TB, s *scene) {
	s.post(t, "a")
	s.post(t, "a")
	s.post(t, "b", "a", "c") // one of them is there
	s.wantInbox(t, "a", "b", "c")

	l := s.lease(t, "holder", 0)
	s.commit(t, l, store.Change{Consume: []string{"a", "never posted", "c", "c"}, Now: s.start})
	s.wantInbox(t, "b")
	s.post(t, "a") // consumed before: it comes again, and whoever folds it must shrug
	s.wantInbox(t, "a", "b")
}

func checkPostBeforeCluster(t testing.TB, s *scene) {
	s.post(t, "early")
	if _, _, err := s.Read(t.Context(), s.key); err == nil {
		t.Error("posting made a cluster")
	}
	s.wantDue(t, 1000)
	s.wantInbox(t, "early")
	l := s.lease(t, "holder", 0)
	s.commit(t, l, store.Change{Consume: []string{"early"}, Now: s.start, Release: true, Forget: true})
	s.wantInbox(t)
}

func checkMailboxesApart(t testing.TB, s *scene) {
	others := []cluster.Key{
		{Project: "example", Location: "us-central1", ID: "c10"},
		{Project: "example", Location: "us-central2", ID: "c1"},
		{Project: "example1", Location: "us-central1", ID: "c1"},
	}
	s.post(t, "mine")
	for _, k := range others {
		must(t, s.Post(t.Context(), k, store.Event{ID: k.Doc(), Received: s.start}))
	}
	s.wantInbox(t, "mine")
	for _, k := range others {
		got, err := s.Inbox(t.Context(), k, 10)
		must(t, err)
		equal(t, k.Doc(), idsOf(got), []string{k.Doc()})
	}
}

func checkOddIDs(t testing.TB, s *scene) {
	ids := []string{
		".", "..", "__reserved__", "__", "a/b", "a%2Fb", "/", "//", " ", "ü", "\x00", "a\x00b", "~", "~~", "%",
		"projects/p/logs/audit#1", "日本語", "\n", strings.Repeat("x", 1600), strings.Repeat("x", 1601), strings.Repeat("/", 700),
		strings.Repeat("y", store.MaxID), "AbC", "aBc",
	}
	for round := range 2 { // the second is all duplicates
		for i, id := range ids {
			must(t, s.Post(t.Context(), s.key, store.Event{ID: id, Received: s.at(i)}))
		}
		got, err := s.Inbox(t.Context(), s.key, 100)
		must(t, err)
		equal(t, fmt.Sprintf("inbox after round %d", round), idsOf(got), ids)
	}
	l := s.lease(t, "holder", 0)
	s.commit(t, l, store.Change{Consume: ids[:len(ids)-2], Now: s.start})
	s.wantInbox(t, "AbC", "aBc")
	must(t, s.Discard(t.Context(), s.key, "AbC"))
	s.wantInbox(t, "aBc")
}

func checkFullInbox(t testing.TB, s *scene) {
	var ids []string
	for i := range store.MaxInbox + 20 {
		ids = append(ids, fmt.Sprintf("e%04d", i))
	}
	s.post(t, ids...)
	for _, limit := range []int{0, store.MaxInbox, store.MaxInbox + 1000} {
		got, err := s.Inbox(t.Context(), s.key, limit)
		must(t, err)
		equal(t, fmt.Sprintf("inbox of at most %d", limit), idsOf(got), ids[:store.MaxInbox])
	}
	l := s.lease(t, "holder", 0)
	s.commit(t, l, store.Change{Consume: ids[:store.MaxInbox], Now: s.start})
	s.wantInbox(t, ids[store.MaxInbox:]...)

	// However many may be read, they must fit in memory.
	large := bytes.Repeat([]byte("0123456789"), store.MaxDocument/10)
	for i := range store.MaxInboxBytes/len(large) + 3 {
		must(t, s.Post(t.Context(), s.key, store.Event{ID: fmt.Sprintf("large%d", i), Received: s.at(1000 + i), Data: large}))
	}
	got, err := s.Inbox(t.Context(), s.key, 0)
	must(t, err)
	size := 0
	for _, e := range got {
		size += len(e.Data)
	}
	if size < len(large) || size > store.MaxInboxBytes+len(large) {
		t.Errorf("%d bytes were read at once, want up to about %d", size, store.MaxInboxBytes)
	}
}

func checkBadEvents(t testing.TB, s *scene) {
	if err := s.Post(t.Context(), s.key, store.Event{ID: "good"}, store.Event{}); err == nil {
		t.Error("an event without an id was taken")
	}
	large := store.Event{ID: "large", Data: make([]byte, store.MaxDocument+1)}
	wantErr(t, "posting too much", s.Post(t.Context(), s.key, store.Event{ID: "good"}, large), store.ErrTooLarge)
	long := store.Event{ID: strings.Repeat("x", store.MaxID+1)}
	wantErr(t, "posting under too long a name", s.Post(t.Context(), s.key, long), store.ErrTooLarge)
	if err := s.Post(t.Context(), s.key, store.Event{ID: "\xff"}); err == nil {
		t.Error("an event whose id is no text was taken")
	}
	for _, k := range []cluster.Key{{}, {Project: "example", Location: "us-central1", ID: "../c1"}, {Project: "a~b", Location: "us-central1", ID: "c"}} {
		if err := s.Post(t.Context(), k, store.Event{ID: "good"}); err == nil {
			t.Errorf("an event for %q was taken", k)
		}
	}
	s.wantInbox(t)
	large.Data = large.Data[1:]
	must(t, s.Post(t.Context(), s.key, large))
	s.wantInbox(t, "large")
}

func checkDiscard(t testing.TB, s *scene) {
	s.post(t, "a", "b", "c")
	must(t, s.Discard(t.Context(), s.key))
	must(t, s.Discard(t.Context(), s.key, "a", "never posted", "c"))
	must(t, s.Discard(t.Context(), s.key, "a"))
	s.wantInbox(t, "b")
	if _, _, err := s.Read(t.Context(), s.key); err == nil {
		t.Error("discarding made a cluster")
	}
}

func checkCancelled(t testing.TB, s *scene) {
	s.post(t, "a")
	l := s.lease(t, "holder", 0)
	gone := canceled(t)
	op := cluster.Operation{ID: "op", Key: s.key, Created: s.start, Updated: s.start}
	for name, call := range map[string]func(context.Context) error{
		"Post":       func(ctx context.Context) error { return s.Post(ctx, s.key, store.Event{ID: "b"}) },
		"Discard":    func(ctx context.Context) error { return s.Discard(ctx, s.key, "a") },
		"Inbox":      func(ctx context.Context) error { _, err := s.Inbox(ctx, s.key, 1); return err },
		"Documents":  func(ctx context.Context) error { _, err := s.Documents(ctx, s.key); return err },
		"Due":        func(ctx context.Context) error { _, err := s.Due(ctx, s.start, 1); return err },
		"Quarantine": func(ctx context.Context) error { return s.Quarantine(ctx, store.Quarantined{ID: "q"}) },
		"PutSlurm": func(ctx context.Context) error {
			_, _, err := s.PutSlurm(ctx, s.key, store.Slurm{Boot: s.start})
			return err
		},
		"PutOperation": func(ctx context.Context) error { return s.PutOperation(ctx, op) },
		"Lease": func(ctx context.Context) error {
			_, err := s.Lease(ctx, s.key, "another", s.at(100), s.at(200), true)
			return err
		},
		"Commit": func(ctx context.Context) error {
			return s.Commit(ctx, l, store.Change{Consume: []string{"a"}, Timeline: said("never"), Now: s.start})
		},
	} {
		wantErr(t, name+" for a caller that has gone", call(gone), context.Canceled)
	}
	s.wantInbox(t, "a")
	s.wantTimeline(t)
	_, listed, err := s.Read(t.Context(), s.key)
	must(t, err)
	if listed.Epoch != 1 {
		t.Errorf("epoch %d, want 1", listed.Epoch)
	}
	if err := s.Commit(t.Context(), l, store.Change{Now: s.start}); err == nil {
		t.Error("a lease was good for a commit after one of which nothing was known")
	}
	quarantined, err := s.Quarantined(t.Context(), 10)
	must(t, err)
	if slices.ContainsFunc(quarantined, func(q store.Quarantined) bool { return q.ID == "q" }) {
		t.Error("something was quarantined for a caller that had gone")
	}
}
