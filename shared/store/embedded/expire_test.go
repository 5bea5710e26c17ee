package embedded_test

import (
	"errors"
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
	"github.com/convoke-hpc/convoke/shared/store/embedded"
)

// TestExpiry lets time pass over a tombstone, its timeline, an operation and something quarantined.
func TestExpiry(t *testing.T) {
	const day = 24 * time.Hour
	ctx := t.Context()
	s := open(t, t.TempDir(), embedded.Options{NoSync: true, TimelineTTL: 10 * day})
	began := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	op := cluster.Operation{ID: "op", Key: key, Created: began, Updated: began}
	lease := func(now time.Time) *store.Lease {
		l, err := s.Lease(ctx, key, "holder", now, now, true)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	commit := func(l *store.Lease, c store.Change) {
		if err := s.Commit(ctx, l, c); err != nil {
			t.Fatal(err)
		}
	}
	commit(lease(began), store.Change{
		Cluster: []byte("tombstone"), Timeline: []cluster.Entry{{Text: "deleted"}}, Operations: []cluster.Operation{op},
		Expire: began.Add(5 * day), Release: true, Now: began,
	})
	if err := s.Quarantine(ctx, store.Quarantined{ID: "q", Received: began}); err != nil {
		t.Fatal(err)
	}
	// The operation changes later, and its time begins anew.
	other := key
	other.ID = "c2"
	l, err := s.Lease(ctx, other, "holder", began, began, true)
	if err != nil {
		t.Fatal(err)
	}
	op.Updated = began.Add(80 * day)
	commit(l, store.Change{Operations: []cluster.Operation{op}, Release: true, Now: op.Updated})

	there := func() (what [4]bool) {
		_, _, err := s.Read(ctx, key)
		what[0] = !errors.Is(err, store.ErrNoCluster)
		entries, err := s.Timeline(ctx, key, "", 0)
		what[1] = err != nil || len(entries) > 0
		_, err = s.Operation(ctx, "op")
		what[2] = !errors.Is(err, store.ErrNotFound)
		quarantined, err := s.Quarantined(ctx, 0)
		what[3] = err != nil || len(quarantined) > 0
		return what
	}
	for _, tt := range []struct {
		after time.Duration
		want  [4]bool // tombstone, timeline, operation, quarantined
	}{
		{5*day - 1, [4]bool{true, true, true, true}},
		{5 * day, [4]bool{false, true, true, true}},
		{10 * day, [4]bool{false, false, true, true}},
		{30 * day, [4]bool{false, false, true, false}},
		{169 * day, [4]bool{false, false, true, false}},
		{170 * day, [4]bool{}},
	} {
		if _, err := s.Due(ctx, began.Add(tt.after), 10); err != nil {
			t.Fatal(err)
		}
		if got := there(); got != tt.want {
			t.Errorf("after %s: got %v, want %v", tt.after, got, tt.want)
		}
	}
	ops, err := s.Operations(ctx, "", "", 10)
	if err != nil || len(ops) != 0 {
		t.Errorf("operations after all: %v, %v", ops, err)
	}
}
