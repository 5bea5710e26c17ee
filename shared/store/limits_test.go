package store_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

func TestChangeValidate(t *testing.T) {
	large := make([]byte, store.MaxDocument)
	long := strings.Repeat("x", store.MaxDocument)
	tests := []struct {
		name   string
		change store.Change
		want   string // in the error; empty: none
		large  bool   // the error is ErrTooLarge
	}{
		{"nothing", store.Change{}, "", false},
		{"as much as may be", store.Change{Cluster: large, Put: store.Documents{"pools/a": large, "nodes/a-0": large}}, "", false},
		{"a document too large", store.Change{Put: store.Documents{"pools/a": append(large, 0)}}, "pools/a", true},
		{"a cluster too large", store.Change{Cluster: append(large, 0)}, "the cluster's document", true},
		{"too much of operations", store.Change{Operations: slices.Repeat([]cluster.Operation{{ID: "o", Faults: []string{long}}}, 4)}, "of which 3145728", true},
		{"too much of problems", store.Change{Timeline: slices.Repeat([]cluster.Entry{{Problem: &cluster.Problem{Message: long}}}, 4)}, "of which", true},
		{"too many events", store.Change{Consume: slices.Repeat([]string{strings.Repeat("x", store.MaxID)}, 1000)}, "of which", true},
		{"an event without an id", store.Change{Consume: []string{"a", ""}}, "an event's id is empty", false},
		{"an operation without an id", store.Change{Operations: []cluster.Operation{{}}}, "an operation's id is empty", false},
		{"a path that is none", store.Change{Delete: []string{"inbox/a"}}, `"inbox/a"`, false},
		{"forgetting what is held", store.Change{Forget: true}, "must release", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.change.Validate()
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, store.ErrTooLarge) != tt.large {
				t.Errorf("error %v, want %q, too large: %v", err, tt.want, tt.large)
			}
		})
	}
}

func TestTimelineIDsSortAsEntriesHappened(t *testing.T) {
	var ids []string
	for _, epoch := range []int64{1, 2, 9, 10, 1_000_000} {
		for _, step := range []int{1, 9, 10, 500} {
			for _, n := range []int{0, 9, 10, 999} {
				ids = append(ids, store.TimelineID(epoch, step, n))
			}
		}
	}
	if !slices.IsSorted(ids) {
		t.Errorf("%q", ids)
	}
}

func TestSnapshotNewer(t *testing.T) {
	boot := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	s := store.Slurm{Boot: boot, Sequence: 5}
	for _, tt := range []struct {
		boot     time.Time
		sequence int64
		want     bool
	}{
		{boot, 4, true}, {boot, 5, false}, {boot, 6, false}, {boot.Add(-1), 99, true}, {boot.Add(1), 1, false}, {boot.Local(), 4, true},
	} {
		if got := s.Newer(tt.boot, tt.sequence); got != tt.want {
			t.Errorf("newer than %v, %d: %v", tt.boot, tt.sequence, got)
		}
	}
}

func FuzzSplitPath(f *testing.F) {
	for _, s := range []string{"pools/a3u", "nodes/a3u-0", "nodes/..", "pools/__x__", "inbox/a", "pools/a/b", "", "/", "nodes/\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		collection, id, err := store.SplitPath(path)
		if err != nil {
			return
		}
		if collection+"/"+id != path || !slices.Contains(store.Collections(), collection) {
			t.Errorf("%q came apart as %q and %q", path, collection, id)
		}
		if id == "" || strings.ContainsAny(id, "/\x00") || strings.HasPrefix(id, ".") || strings.HasPrefix(id, "__") || len(id) > 1500 {
			t.Errorf("%q: Firestore would refuse %q", path, id)
		}
	})
}
