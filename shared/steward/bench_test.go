package steward_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
	"github.com/convoke-hpc/convoke/shared/store"
	"github.com/convoke-hpc/convoke/shared/store/embedded"
	"github.com/convoke-hpc/convoke/shared/store/firestore"
)

// counted counts what Firestore would bill: every document that is read, and every one that is written or deleted. A query
// that finds nothing is billed as one read.
type counted struct {
	store.Store
	reads, writes atomic.Int64
}

func (c *counted) Post(ctx context.Context, key cluster.Key, evs ...store.Event) error {
	c.writes.Add(int64(len(evs)))
	return c.Store.Post(ctx, key, evs...)
}

func (c *counted) Lease(ctx context.Context, key cluster.Key, holder string, now, until time.Time, create bool) (*store.Lease, error) {
	c.reads.Add(1)
	l, err := c.Store.Lease(ctx, key, holder, now, until, create)
	if err == nil {
		c.writes.Add(1)
	}
	return l, err
}

func (c *counted) Documents(ctx context.Context, key cluster.Key) (store.Documents, error) {
	d, err := c.Store.Documents(ctx, key)
	c.reads.Add(int64(max(2, len(d)))) // two queries: pools and nodes
	return d, err
}

func (c *counted) Inbox(ctx context.Context, key cluster.Key, limit int) ([]store.Event, error) {
	e, err := c.Store.Inbox(ctx, key, limit)
	c.reads.Add(int64(max(1, len(e))))
	return e, err
}

func (c *counted) Commit(ctx context.Context, l *store.Lease, ch store.Change) error {
	c.writes.Add(int64(1 + len(ch.Put) + len(ch.Delete) + len(ch.Consume) + len(ch.Timeline) + len(ch.Operations)))
	return c.Store.Commit(ctx, l, ch)
}

func (c *counted) Slurm(ctx context.Context, key cluster.Key) (store.Slurm, error) {
	c.reads.Add(1)
	return c.Store.Slurm(ctx, key)
}

func (c *counted) PutSlurm(ctx context.Context, key cluster.Key, s store.Slurm) (newer, changed bool, err error) {
	c.reads.Add(1)
	c.writes.Add(1)
	return c.Store.PutSlurm(ctx, key, s)
}

func (c *counted) Read(ctx context.Context, key cluster.Key) ([]byte, store.Listed, error) {
	c.reads.Add(1)
	return c.Store.Read(ctx, key)
}

func (c *counted) Due(ctx context.Context, now time.Time, limit int) ([]cluster.Key, error) {
	due, err := c.Store.Due(ctx, now, limit)
	c.reads.Add(int64(max(1, len(due))))
	return due, err
}

// stores are what is measured on; the emulator only where it runs.
func stores(b *testing.B, measure func(b *testing.B, st *counted)) {
	b.Run("store=embedded", func(b *testing.B) {
		st, err := embedded.Open(b.TempDir(), embedded.Options{})
		if err != nil {
			b.Fatal(err)
		}
		measure(b, &counted{Store: st})
	})
	b.Run("store=firestore-emulator", func(b *testing.B) {
		if os.Getenv("FIRESTORE_EMULATOR_HOST") == "" {
			b.Skip("FIRESTORE_EMULATOR_HOST is not set")
		}
		st, err := firestore.Open(b.Context(), fmt.Sprintf("bench-%d", time.Now().UnixNano()), firestore.Options{})
		if err != nil {
			b.Fatal(err)
		}
		measure(b, &counted{Store: st})
	})
}

// up is a running cluster in real time, in a cloud that takes no time.
func up(b *testing.B, st store.Store) (*world, func()) {
	b.Helper()
	w, stop := newWorld(b, st, &gcp.Delays{RequestID: time.Hour, FinishedRequest: time.Hour, Operations: time.Hour, Retry: time.Second}, 0)
	w.boot = 0
	w.create(`"max_node_count": 2`, `"max_node_count": 1000`)
	w.until("the cluster runs", time.Minute, w.phase(cluster.PhaseRunning))
	return w, stop
}

// BenchmarkEvent is one event to a cluster at rest, from its delivery to the end of the invocation: post, lease, read,
// fold, decide, commit, look once more. It reports the documents read and written.
func BenchmarkEvent(b *testing.B) {
	stores(b, func(b *testing.B, st *counted) {
		w, stop := up(b, st)
		defer stop()
		w.sleep(5 * time.Second) // until the cluster rests
		reads, writes := st.reads.Load(), st.writes.Load()
		n := 0
		for b.Loop() {
			n++
			e := store.Event{ID: fmt.Sprint("e-", n), Type: events.TypeNodesSuspend, Time: time.Now(), Received: time.Now(),
				Data: []byte(`{"cluster":{"project":"my-project","location":"us-central1","id":"flexvm"},"nodes":"flexvm-a3u-7","time":"2026-11-30T12:00:00Z"}`)}
			if err := w.steward().Deliver(w.ctx, key, false, e); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(st.reads.Load()-reads)/float64(n), "reads/op")
		b.ReportMetric(float64(st.writes.Load()-writes)/float64(n), "writes/op")
	})
}

// BenchmarkResumeToRequest is from the delivery of Slurm's resume call to the HTTP call that makes the resize request. The requests
// of earlier rounds stay in the queue, so that the cluster is as busy as one is that waits for capacity.
func BenchmarkResumeToRequest(b *testing.B) {
	stores(b, func(b *testing.B, st *counted) {
		w, stop := up(b, st)
		defer stop()
		if err := errors.Join(w.cloud.SetCapacity(zone, "a3-ultragpu-8g", 0), w.cloud.SetQuota("ACTIVE_RESIZE_REQUESTS", 1000)); err != nil {
			b.Fatal(err)
		}
		made := make(chan time.Time, 16)
		w.onRequest = func(r *http.Request) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/resizeRequests") {
				made <- time.Now()
			}
		}
		var took []time.Duration
		for n := 0; b.Loop(); n++ {
			node := fmt.Sprintf("flexvm-a3u-%d", n%900)
			began := time.Now()
			w.send(events.TypeNodesResume, fmt.Sprint("resume-", n), &events.NodesResume{Cluster: key, Nodes: node, Time: began,
				Jobs: []events.ResumeJob{{ID: int64(1000 + n), Nodes: node}}})
			took = append(took, (<-made).Sub(began))
			b.StopTimer()
			w.sleep(200 * time.Millisecond)
			b.StartTimer()
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	})
}

// TestAnIdleClusterCostsNextToNothing counts what an hour of an idle cluster reads and writes, with a tick a minute and a
// snapshot of Slurm every 30 s. The bounds are what the README's table says, with room for a tick more or less.
func TestAnIdleClusterCostsNextToNothing(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		st := &counted{Store: w.st}
		w.st = st
		w.restart()
		comeUp(w)
		w.sleep(10 * time.Minute)
		calls := func() (n int) {
			for _, c := range w.cloud.Counts() {
				n += c
			}
			return n
		}
		reads, writes, before := st.reads.Load(), st.writes.Load(), calls()
		w.sleep(time.Hour)
		reads, writes = st.reads.Load()-reads, st.writes.Load()-writes
		made := calls() - before
		t.Logf("an idle hour: %d reads, %d writes, %d calls to Google Cloud", reads, writes, made)
		if reads > 1000 || writes > 600 || made > 120 {
			t.Errorf("an idle hour took %d reads, %d writes and %d calls", reads, writes, made)
		}
	})
}
