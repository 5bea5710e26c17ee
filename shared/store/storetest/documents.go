package storetest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"testing"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

func documentChecks() []check {
	return []check{
		{"documents below a cluster's are its own", checkDocuments},
		{"10,000 nodes are kept in 50 pages", checkNodePages},
		{"what is too large is refused, whole", checkSizes},
		{"the newest Slurm snapshot wins", checkSlurm},
		{"of snapshots that come at once the newest stays", checkSlurmRace},
	}
}

func checkDocuments(t testing.TB, s *scene) {
	docs, err := s.Documents(t.Context(), s.key)
	must(t, err)
	if docs == nil || len(docs) != 0 {
		t.Errorf("documents of no cluster: %v", docs)
	}
	other := s.key
	other.ID = "c10"
	l, err := s.Lease(t.Context(), other, "holder", s.at(0), s.at(60), true)
	must(t, err)
	s.commit(t, l, store.Change{Put: store.Documents{"pools/theirs": []byte("x")}, Now: s.start})

	l = s.lease(t, "holder", 0)
	all := store.Documents{"pools/a3u": {0, 1, 0xff}, "pools/a3u-2": []byte("b"), "nodes/a3u-0": []byte("c"), "nodes/a3u-2-0": {}}
	s.commit(t, l, store.Change{Put: all, Now: s.start})
	s.post(t, "an event is no document")
	s.wantDocuments(t, all)
	s.commit(t, l, store.Change{Put: store.Documents{"pools/a3u": []byte("a")}, Delete: []string{"nodes/a3u-0"}, Now: s.start})
	s.wantDocuments(t, store.Documents{"pools/a3u": []byte("a"), "pools/a3u-2": []byte("b"), "nodes/a3u-2-0": {}})
}

func (s *scene) wantDocuments(t testing.TB, want store.Documents) {
	t.Helper()
	got, err := s.Documents(t.Context(), s.key)
	must(t, err)
	if len(got) != len(want) {
		t.Errorf("%d documents, want %d", len(got), len(want))
	}
	for path, data := range want {
		if g, ok := got[path]; !ok || !bytes.Equal(g, data) {
			t.Errorf("%s: got %q (there: %v), want %q", path, g, ok, data)
		}
	}
}

// The sizes that the store is made for.
const (
	pageCount = 50
	pageNodes = 200
)

// nodePages is 10,000 nodes in 50 compressed pages, of about the size that a steward's have.
func nodePages(t testing.TB) store.Documents {
	docs := store.Documents{}
	for page := range pageCount {
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		must(t, err)
		for i := range pageNodes {
			index := page*pageNodes + i
			_, err := fmt.Fprintf(w, `{"i":%d,"p":"ready","g":%d,"s":"2026-03-01T12:%02d:%02dZ","a":"c1-a3u-%s","id":%d,"st":"RUNNING","j":%d},`,
				index, 1+index%7, index/60%60, index%60, cluster.Hash(fmt.Sprint(index/16)), 1<<62+index*7919*7919, index/16)
			must(t, err)
		}
		must(t, w.Close())
		docs[fmt.Sprint("nodes/a3u-", page)] = b.Bytes()
	}
	return docs
}

func checkNodePages(t testing.TB, s *scene) {
	pages := nodePages(t)
	s.commit(t, s.lease(t, "holder", 0), store.Change{Put: pages, Now: s.start})
	s.wantDocuments(t, pages)
}

func checkSizes(t testing.TB, s *scene) {
	largest := bytes.Repeat([]byte{0xa5}, store.MaxDocument)
	tooLarge := append(bytes.Clone(largest), 0)
	s.post(t, "a")
	l := s.lease(t, "holder", 0)
	for name, change := range map[string]store.Change{
		"the cluster's document": {Cluster: tooLarge},
		"a document below it":    {Put: store.Documents{"nodes/a3u-0": tooLarge}},
		"all together":           {Put: store.Documents{"nodes/0": largest, "nodes/1": largest, "nodes/2": largest, "nodes/3": largest}},
		"the timeline":           {Timeline: said(string(largest), string(largest), string(largest), string(largest))},
	} {
		change.Consume, change.Now = []string{"a"}, s.start
		wantErr(t, "committing too much: "+name, s.Commit(t.Context(), l, change), store.ErrTooLarge)
	}
	s.wantInbox(t, "a")
	s.wantTimeline(t)

	// The lease is still good, and what is as large as may be is taken.
	all := store.Documents{"nodes/a3u-0": largest, "pools/a3u": largest}
	s.commit(t, l, store.Change{Cluster: largest, Put: all, Consume: []string{"a"}, Now: s.start})
	s.wantInbox(t)
	s.wantDocuments(t, all)
	data, _, err := s.Read(t.Context(), s.key)
	must(t, err)
	if !bytes.Equal(data, largest) {
		t.Errorf("%d bytes came back, want %d", len(data), len(largest))
	}
	_, _, err = s.PutSlurm(t.Context(), s.key, store.Slurm{Boot: s.start, Data: tooLarge})
	wantErr(t, "keeping too large a snapshot", err, store.ErrTooLarge)
}

func checkSlurm(t testing.TB, s *scene) {
	_, err := s.Slurm(t.Context(), s.key)
	wantErr(t, "reading a snapshot that is not there", err, store.ErrNotFound)
	steps := []struct {
		boot           int
		sequence       int64
		digest         string
		newer, changed bool
	}{
		{0, 5, "a", true, true},
		{0, 5, "a", false, false}, // twice
		{0, 4, "b", false, false}, // late
		{0, 6, "a", true, false},  // says the same
		{0, 7, "b", true, true},
		{-10, 99, "c", false, false}, // of an earlier boot
		{10, 1, "b", true, false},    // of the next boot, and says the same
		{0, 8, "d", false, false},
		{10, 2, "e", true, true},
	}
	for i, step := range steps {
		data := fmt.Sprint("snapshot ", i)
		newer, changed, err := s.PutSlurm(t.Context(), s.key, store.Slurm{
			Boot: s.at(step.boot), Sequence: step.sequence, Digest: step.digest, Data: []byte(data),
		})
		must(t, err)
		if newer != step.newer || changed != step.changed {
			t.Errorf("snapshot %d: newer %v and changed %v, want %v and %v", i, newer, changed, step.newer, step.changed)
		}
		got, err := s.Slurm(t.Context(), s.key)
		must(t, err)
		if kept := string(got.Data) == data; kept != step.newer {
			t.Errorf("snapshot %d: kept is %q", i, got.Data)
		}
	}
	got, err := s.Slurm(t.Context(), s.key)
	must(t, err)
	if !got.Boot.Equal(s.at(10)) || got.Sequence != 2 || got.Digest != "e" {
		t.Errorf("kept at the end: %+v", got)
	}
	s.wantInbox(t)
	s.wantDue(t, 1_000_000)
}

func checkSlurmRace(t testing.TB, s *scene) {
	const snapshots = 12
	changes := make(chan bool, snapshots)
	errs := make(chan error, snapshots)
	for i := range snapshots {
		go func() {
			_, changed, err := s.PutSlurm(t.Context(), s.key, store.Slurm{Boot: s.start, Sequence: int64(i), Digest: fmt.Sprint(i)})
			changes <- changed
			errs <- err
		}()
	}
	woken := 0
	for range snapshots {
		must(t, <-errs)
		if <-changes {
			woken++
		}
	}
	if woken == 0 {
		t.Error("nothing was said to have changed")
	}
	got, err := s.Slurm(t.Context(), s.key)
	must(t, err)
	if got.Sequence != snapshots-1 {
		t.Errorf("snapshot %d stayed, want %d", got.Sequence, snapshots-1)
	}
}
