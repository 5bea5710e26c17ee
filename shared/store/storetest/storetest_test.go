package storetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
	"github.com/convoke-hpc/convoke/shared/store/embedded"
)

// openEmbedded opens the store that wrong ones are made of.
func openEmbedded(t testing.TB, line *Line) store.Store {
	s, err := embedded.Open(t.TempDir(), embedded.Options{NoSync: true, Fault: func(at embedded.Stage) error {
		if at == embedded.BeforeWrite {
			return line.Before()
		}
		return line.After()
	}})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// TestTeeth leaves out one clause of the contract at a time, and wants the check that is about it to fail. Without that
// fault the same check must pass.
func TestTeeth(t *testing.T) {
	tests := []struct {
		without string
		check   string // a check that must find it
		wrong   func(*scene)
	}{
		{"an event that exists goes on to the lease", "an event that exists still goes on to the lease",
			func(s *scene) { s.wrong.stopsAtDuplicates = true }},
		{"the inbox is listed once more after the release", "an event posted between the last look and the release is seen",
			func(s *scene) { s.wrong.looksOnce = true }},
		{"the lease sets the next look", "a dead holder is found by a tick",
			func(s *scene) { s.Store = &leaseSetsNoLook{Store: s.Store, looks: map[cluster.Key]time.Time{}} }},
		{"the lease sets the next look", "a dead holder is found also when it died before its first commit",
			func(s *scene) { s.Store = &leaseSetsNoLook{Store: s.Store, looks: map[cluster.Key]time.Time{}} }},
		{"every commit changes the document", "every commit changes the cluster's document",
			func(s *scene) { s.Store = emptyCommitsChangeNothing{s.Store} }},
		{"a commit is conditioned on the document's update", "of two writers one is fenced",
			func(s *scene) { s.Store = &unconditioned{Store: s.Store} }},
		{"a commit is conditioned on the document's update", "a holder that comes back after its lease was taken over is fenced",
			func(s *scene) { s.Store = &unconditioned{Store: s.Store} }},
		{"a commit is known by its id", "a commit whose answer is lost is recognized",
			func(s *scene) { s.Store = withoutCommitIDs{s.Store, s.line, store.ErrFenced} }},
		{"a commit is known by its id", "a release whose answer is lost is recognized behind the next holder's commits",
			func(s *scene) { s.Store = withoutCommitIDs{s.Store, s.line, ErrLost} }},
		{"a live lease keeps others out", "a live lease keeps others out, and one that has run out does not",
			func(s *scene) { s.Store = clockIs{s.Store, s.at(1_000_000)} }},
		{"a live lease keeps others out", "one of many gets the lease",
			func(s *scene) { s.Store = clockIs{s.Store, s.at(1_000_000)} }},
		{"a lease runs out", "a dead holder is found by a tick",
			func(s *scene) { s.Store = clockIs{s.Store, s.at(-1_000_000)} }},
		{"events that are dealt with go", "an event that comes twice is there once",
			func(s *scene) { s.Store = consumesNothing{s.Store} }},
		{"events go with the commit or not at all", "a holder that comes back after its lease was taken over is fenced",
			func(s *scene) { s.Store = consumesTooEarly{s.Store} }},
		{"events go with the commit or not at all", "of two writers one is fenced",
			func(s *scene) { s.Store = consumesTooEarly{s.Store} }},
		{"the newest snapshot wins", "the newest Slurm snapshot wins",
			func(s *scene) { s.Store = &lastSnapshotWins{Store: s.Store} }},
	}
	for _, tt := range tests {
		t.Run(tt.without+"/"+tt.check, func(t *testing.T) {
			at := slices.IndexFunc(checks(), func(c check) bool { return c.name == tt.check })
			if at < 0 {
				t.Fatalf("there is no check %q", tt.check)
			}
			c := checks()[at]
			if r := record(t, c, func(*scene) {}); r.failed() {
				t.Fatalf("a right store fails: %s", r)
			}
			r := record(t, c, tt.wrong)
			if !r.failed() {
				t.Error("the check does not find it")
			}
			t.Log(r)
		})
	}
}

// record runs a check on a store that may be wrong, and returns what it found.
func record(t *testing.T, c check, wrong func(*scene)) *recorder {
	r := &recorder{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s := newScene(r, openEmbedded)
		wrong(s)
		c.run(r, s)
	}()
	<-ended
	return r
}

// recorder is a test whose failures are only noted.
type recorder struct {
	testing.TB
	mu    sync.Mutex
	found []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = append(r.found, fmt.Sprintf(format, args...))
}

func (r *recorder) Error(args ...any)                 { r.Errorf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }

func (r *recorder) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.found) > 0
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return "found: " + strings.Join(r.found, "\n")
}

// leaseSetsNoLook knows only the next looks of releases.
type leaseSetsNoLook struct {
	store.Store
	mu    sync.Mutex
	looks map[cluster.Key]time.Time
}

func (w *leaseSetsNoLook) Commit(ctx context.Context, l *store.Lease, c store.Change) error {
	err := w.Store.Commit(ctx, l, c)
	if err == nil && c.Release {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.looks[l.Key] = c.NextLook
	}
	return err
}

func (w *leaseSetsNoLook) Due(_ context.Context, now time.Time, _ int) ([]cluster.Key, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var due []cluster.Key
	for key, look := range w.looks {
		if !look.IsZero() && !look.After(now) {
			due = append(due, key)
		}
	}
	return due, nil
}

// emptyCommitsChangeNothing is what Firestore does with an update that changes no field.
type emptyCommitsChangeNothing struct{ store.Store }

func (w emptyCommitsChangeNothing) Commit(ctx context.Context, l *store.Lease, c store.Change) error {
	if c.Cluster == nil && len(c.Put)+len(c.Delete)+len(c.Consume)+len(c.Timeline)+len(c.Operations) == 0 && !c.Release {
		return nil
	}
	return w.Store.Commit(ctx, l, c)
}

// unconditioned commits on whatever the document is.
type unconditioned struct {
	store.Store
	mu    sync.Mutex
	token any
}

func (w *unconditioned) Lease(ctx context.Context, key cluster.Key, holder string, now, until time.Time, create bool) (*store.Lease, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, err := w.Store.Lease(ctx, key, holder, now, until, create)
	if err == nil {
		w.token = l.Token
	}
	return l, err
}

func (w *unconditioned) Commit(ctx context.Context, l *store.Lease, c store.Change) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.Token = w.token
	err := w.Store.Commit(ctx, l, c)
	if l.Token != nil {
		w.token = l.Token
	}
	return err
}

// withoutCommitIDs cannot tell its own commit from another's when the answer was lost.
type withoutCommitIDs struct {
	store.Store
	line *Line
	says error
}

func (w withoutCommitIDs) Commit(ctx context.Context, l *store.Lease, c store.Change) error {
	before := w.line.losses()
	err := w.Store.Commit(ctx, l, c)
	if err == nil && w.line.losses() > before {
		return w.says
	}
	return err
}

func (l *Line) losses() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// clockIs takes leases by a clock that is wrong.
type clockIs struct {
	store.Store
	now time.Time
}

func (w clockIs) Lease(ctx context.Context, key cluster.Key, holder string, _, until time.Time, create bool) (*store.Lease, error) {
	return w.Store.Lease(ctx, key, holder, w.now, until, create)
}

// consumesTooEarly deletes events beside the commit, not in it.
type consumesTooEarly struct{ store.Store }

func (w consumesTooEarly) Commit(ctx context.Context, l *store.Lease, c store.Change) error {
	if err := w.Discard(ctx, l.Key, c.Consume...); err != nil {
		return err
	}
	c.Consume = nil
	return w.Store.Commit(ctx, l, c)
}

// consumesNothing leaves events in the inbox.
type consumesNothing struct{ store.Store }

func (w consumesNothing) Commit(ctx context.Context, l *store.Lease, c store.Change) error {
	c.Consume = nil
	return w.Store.Commit(ctx, l, c)
}

// lastSnapshotWins keeps whatever comes last.
type lastSnapshotWins struct {
	store.Store
	kept store.Slurm
}

func (w *lastSnapshotWins) PutSlurm(_ context.Context, _ cluster.Key, s store.Slurm) (newer, changed bool, err error) {
	changed = s.Digest != w.kept.Digest
	w.kept = s
	return true, changed, nil
}

func (w *lastSnapshotWins) Slurm(context.Context, cluster.Key) (store.Slurm, error) {
	if w.kept.Boot.IsZero() {
		return store.Slurm{}, store.ErrNotFound
	}
	return w.kept, nil
}
