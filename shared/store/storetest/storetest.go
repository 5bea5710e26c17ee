// Package storetest proves that a store keeps the contract of package store. Its checks are about what would go wrong
// in a cluster's life: wake-ups that are lost, holders that die or come back too late, answers that never arrive. Both stores
// pass them, and the package's own test shows that a store or a steward that leaves one clause of the contract out does
// not.
//
// What may not live here: anything that only one store can do, and policy: its steward is the smallest that keeps the
// protocol.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

// Open makes an empty store that ends with the test. Every write of it goes over the line, which a check may cut.
type Open func(t testing.TB, line *Line) store.Store

// Run runs all checks, each on a store of its own.
func Run(t *testing.T, open Open) {
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) { c.run(t, newScene(t, open)) })
	}
}

// check is one thing that a store must do right.
type check struct {
	name string
	run  func(t testing.TB, s *scene)
}

func checks() []check {
	return slices.Concat(mailboxChecks(), leaseChecks(), lossChecks(), actorChecks(), documentChecks(), listChecks())
}

// scene is what a check plays on: an empty store, a cluster's key, and a clock that stands still.
type scene struct {
	store.Store
	line  *Line
	key   cluster.Key
	start time.Time
	wrong wrongs // of its stewards
}

func newScene(t testing.TB, open Open) *scene {
	line := &Line{}
	return &scene{
		Store: open(t, line), line: line,
		key:   cluster.Key{Project: "example", Location: "us-central1", ID: "c1"},
		start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

// at is a moment, some seconds after the start.
func (s *scene) at(seconds int) time.Time { return s.start.Add(time.Duration(seconds) * time.Second) }

// post puts events into the inbox, a second apart.
func (s *scene) post(t testing.TB, ids ...string) {
	t.Helper()
	events := make([]store.Event, len(ids))
	for i, id := range ids {
		events[i] = store.Event{ID: id, Type: "test", Time: s.start, Received: s.at(i), Data: []byte(`{"id":"` + id + `"}`)}
	}
	must(t, s.Post(t.Context(), s.key, events...))
}

// lease takes the lease for a minute from a moment on, which must succeed.
func (s *scene) lease(t testing.TB, holder string, from int) *store.Lease {
	t.Helper()
	l, err := s.Lease(t.Context(), s.key, holder, s.at(from), s.at(from+60), true)
	must(t, err)
	return l
}

// commit commits, which must succeed.
func (s *scene) commit(t testing.TB, l *store.Lease, c store.Change) {
	t.Helper()
	must(t, s.Commit(t.Context(), l, c))
}

// wantInbox says which events must be in the inbox, in order.
func (s *scene) wantInbox(t testing.TB, ids ...string) {
	t.Helper()
	events, err := s.Inbox(t.Context(), s.key, 0)
	must(t, err)
	equal(t, "inbox", idsOf(events), ids)
}

// wantTimeline says which texts must be on the timeline, in the order in which they happened.
func (s *scene) wantTimeline(t testing.TB, texts ...string) {
	t.Helper()
	entries, err := s.Timeline(t.Context(), s.key, "", 10_000)
	must(t, err)
	var got []string
	for _, e := range slices.Backward(entries) {
		got = append(got, e.Text)
	}
	equal(t, "timeline", got, texts)
}

// wantDue says which clusters must be due at a moment, in order.
func (s *scene) wantDue(t testing.TB, at int, keys ...cluster.Key) {
	t.Helper()
	due, err := s.Due(t.Context(), s.at(at), 100)
	must(t, err)
	equal(t, fmt.Sprintf("due after %d s", at), due, keys)
}

// said makes timeline entries of texts.
func said(texts ...string) []cluster.Entry {
	var entries []cluster.Entry
	for _, text := range texts {
		entries = append(entries, cluster.Entry{Kind: "test", Text: text})
	}
	return entries
}

func idsOf(events []store.Event) []string {
	var ids []string
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantErr says which error must have come.
func wantErr(t testing.TB, doing string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s: got error %v, want %v", doing, got, want)
	}
}

func equal[E comparable](t testing.TB, what string, got, want []E) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s:\n got %s\nwant %s", what, shown(got), shown(want))
	}
}

// shown is a list as a person can read it, however long it is.
func shown[E any](list []E) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d:", len(list))
	for _, e := range list[:min(len(list), 50)] {
		fmt.Fprintf(&b, " %.60q", fmt.Sprint(e))
	}
	return b.String()
}

// ErrLost stands in for an answer that never came. A store that talks over a network may turn it into the network's own.
var ErrLost = errors.New("the answer was lost")

// Line is the way between a store and the place where it keeps things. A store under test calls Before and After
// around each write.
type Line struct {
	mu            sync.Mutex
	before, after int
	meanwhile     func()
	lost          int // answers so far
}

// CutBefore lets the next n writes be lost before they are applied. meanwhile, when it is not nil, runs at the first.
func (l *Line) CutBefore(n int, meanwhile func()) { l.cut(n, 0, meanwhile) }

// CutAfter lets the answers of the next n writes be lost after they were applied. meanwhile, when it is not nil, runs
// at the first.
func (l *Line) CutAfter(n int, meanwhile func()) { l.cut(0, n, meanwhile) }

// Mend makes the line whole.
func (l *Line) Mend() { l.cut(0, 0, nil) }

func (l *Line) cut(before, after int, meanwhile func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before, l.after, l.meanwhile = before, after, meanwhile
}

// Before is called before a write; the error, if any, is its answer, and the write is not made.
func (l *Line) Before() error { return l.pass(&l.before) }

// After is called after a write that was made; the error, if any, is its answer.
func (l *Line) After() error { return l.pass(&l.after) }

func (l *Line) pass(cuts *int) error {
	l.mu.Lock()
	lost := *cuts > 0
	var meanwhile func()
	if lost {
		*cuts--
		l.lost++
		meanwhile, l.meanwhile = l.meanwhile, nil
	}
	l.mu.Unlock()
	if meanwhile != nil {
		meanwhile()
	}
	if lost {
		return ErrLost
	}
	return nil
}

// canceled is a context that has ended.
func canceled(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
