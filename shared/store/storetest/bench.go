package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/convoke-hpc/convoke/shared/store"
)

// Bench measures what a store is used for most: posting, a step, reading the nodes of a large cluster, and many
// posters at once.
func Bench(b *testing.B, open Open) {
	b.Run("post", func(b *testing.B) { benchPost(b, newScene(b, open)) })
	b.Run("post/parallel", func(b *testing.B) { benchPostParallel(b, newScene(b, open)) })
	b.Run("step", func(b *testing.B) { benchStep(b, newScene(b, open)) })
	b.Run("load/nodes=10000", func(b *testing.B) { benchLoad(b, newScene(b, open)) })
	for _, events := range []int{1_000, 15_000} {
		b.Run(fmt.Sprintf("storm/posters=200/events=%d", events), func(b *testing.B) {
			if testing.Short() && events > 1_000 {
				b.Skip("takes its time on an emulator")
			}
			var epochs int64
			for b.Loop() {
				epochs += benchStorm(b, newScene(b, open), events)
			}
			b.ReportMetric(float64(epochs)/float64(b.N), "epochs/op")
			b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func (s *scene) event(id string) store.Event {
	return store.Event{ID: id, Type: "convoke.slurm.resume", Time: s.start, Received: s.start, Data: []byte(`{"nodes":["c1-a3u-0","c1-a3u-1"],"job":4711}`)}
}

func benchPost(b *testing.B, s *scene) {
	for i := 0; b.Loop(); i++ {
		must(b, s.Post(b.Context(), s.key, s.event(fmt.Sprint(i))))
	}
}

func benchPostParallel(b *testing.B, s *scene) {
	var mu sync.Mutex
	n := 0
	b.SetParallelism(100)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			n++
			id := fmt.Sprint(n)
			mu.Unlock()
			if err := s.Post(b.Context(), s.key, s.event(id)); err != nil {
				b.Error(err)
			}
		}
	})
}

// benchStep is what one event costs on a cluster at rest: post, lease, inbox, a commit that writes the cluster's
// document, a page of nodes and a line of the timeline and releases, and the last look.
func benchStep(b *testing.B, s *scene) {
	record := make([]byte, 4<<10)
	page := make([]byte, 8<<10)
	for i := 0; b.Loop(); i++ {
		must(b, s.Post(b.Context(), s.key, s.event(fmt.Sprint(i))))
		l, err := s.Lease(b.Context(), s.key, fmt.Sprint("holder ", i), s.start, s.at(60), true)
		must(b, err)
		events, err := s.Inbox(b.Context(), s.key, 0)
		must(b, err)
		must(b, s.Commit(b.Context(), l, store.Change{
			Cluster: record, Put: store.Documents{"nodes/a3u-0": page}, Consume: idsOf(events), Timeline: said("a node came"),
			Release: true, NextLook: s.at(300), Now: s.start,
		}))
		_, err = s.Inbox(b.Context(), s.key, 1)
		must(b, err)
	}
}

func benchLoad(b *testing.B, s *scene) {
	pages := nodePages(b)
	size := 0
	for _, data := range pages {
		size += len(data)
	}
	must(b, s.Commit(b.Context(), s.lease(b, "holder", 0), store.Change{Put: pages, Now: s.start}))
	for b.Loop() {
		docs, err := s.Documents(b.Context(), s.key)
		must(b, err)
		if len(docs) != pageCount {
			b.Fatalf("%d pages", len(docs))
		}
	}
	b.ReportMetric(float64(size), "bytes")
}

// benchStorm is 200 invocations that deliver events to one cluster at once, to the last event's end. It returns how many of
// them held the cluster.
func benchStorm(b *testing.B, s *scene, events int) int64 {
	const posters = 200
	var all sync.WaitGroup
	for p := range posters {
		all.Go(func() {
			st := s.steward(fmt.Sprint("invocation ", p), 0)
			st.batch = store.MaxInbox
			for i := p; i < events; i += posters {
				if err := st.deliver(b.Context(), s.event(fmt.Sprint(i))); err != nil {
					b.Errorf("delivering: %v", err)
				}
			}
		})
	}
	all.Wait()
	s.wantInbox(b)
	_, listed, err := s.Read(b.Context(), s.key)
	must(b, err)
	return listed.Epoch
}
