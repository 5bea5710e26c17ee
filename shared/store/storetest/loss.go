package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/shared/store"
)

func lossChecks() []check {
	return []check{
		{"a commit whose answer is lost is recognized", checkLostCommit},
		{"a commit that is lost on its way is made once or not at all", checkLostOnTheWay},
		{"a release whose answer is lost is recognized behind the next holder's commits", checkLostRelease},
		{"a commit whose answer is lost, and then the lease, is recognized and the next is fenced", checkLostThenOvertaken},
		{"a commit that is lost on its way, and overtaken, is fenced", checkOvertaken},
		{"a lease whose answer is lost is recognized", checkLostLease},
		{"a cluster that is forgotten, the answer lost, is gone", checkLostForget},
		{"a post whose answer is lost is there once", checkLostPost},
		{"a snapshot whose answer is lost still wakes", checkLostSlurm},
		{"without a line nothing is claimed", checkDeadLine},
	}
}

// losses is how often each loss is tried. A line may lose answers in several ways, one after another.
const losses = 6

func checkLostCommit(t testing.TB, s *scene) {
	l := s.lease(t, "holder", 0)
	var want []string
	for i := range losses {
		id := fmt.Sprint("event ", i)
		want = append(want, id)
		s.post(t, id)
		s.line.CutAfter(1, nil)
		s.commit(t, l, store.Change{Cluster: []byte(id), Consume: []string{id}, Timeline: said(id), Now: s.start})
		s.wantInbox(t)
	}
	s.wantTimeline(t, want...)
	if l.Steps != losses {
		t.Errorf("%d steps, want %d", l.Steps, losses)
	}
}

func checkLostOnTheWay(t testing.TB, s *scene) {
	var want []string
	for i := range losses {
		l := s.lease(t, "holder", i)
		id := fmt.Sprint("event ", i)
		s.post(t, id)
		s.line.CutBefore(1, nil)
		change := store.Change{Consume: []string{id}, Timeline: said(id), Now: s.start, Release: true}
		err := s.Commit(t.Context(), l, change)
		if errors.Is(err, store.ErrFenced) {
			t.Fatal("nobody else was there, and the holder was fenced")
		}
		if err != nil {
			s.wantTimeline(t, want...)
			s.commit(t, s.lease(t, "holder", i), change)
		}
		want = append(want, id)
		s.wantTimeline(t, want...)
		s.wantInbox(t)
	}
}

func checkLostRelease(t testing.TB, s *scene) {
	for i := range losses {
		l := s.lease(t, "holder", i)
		s.line.CutAfter(1, func() {
			for range 3 {
				next := s.lease(t, "next", i)
				s.commit(t, next, store.Change{Cluster: []byte("next"), Now: s.at(i)})
				s.commit(t, next, store.Change{Now: s.at(i), Release: true})
			}
		})
		s.commit(t, l, store.Change{Cluster: []byte("holder"), Timeline: said("released"), Now: s.at(i), Release: true})
		data, _, err := s.Read(t.Context(), s.key)
		must(t, err)
		if string(data) != "next" {
			t.Fatalf("the cluster's data is %q", data)
		}
	}
	entries, err := s.Timeline(t.Context(), s.key, "", 100)
	must(t, err)
	if len(entries) != losses {
		t.Errorf("%d entries on the timeline, want %d", len(entries), losses)
	}
}

func checkLostThenOvertaken(t testing.TB, s *scene) {
	for i := range losses {
		from := i * 200
		l := s.lease(t, "holder", from)
		s.line.CutAfter(1, func() {
			s.commit(t, s.lease(t, "next", from+60), store.Change{Cluster: []byte("next"), Now: s.at(from + 60), Release: true})
		})
		s.commit(t, l, store.Change{Cluster: []byte("holder"), Now: s.at(from)})
		err := s.Commit(t.Context(), l, store.Change{Cluster: []byte("too late"), Timeline: said("never"), Now: s.at(from + 61)})
		wantErr(t, "committing behind the next holder", err, store.ErrFenced)
		data, _, err := s.Read(t.Context(), s.key)
		must(t, err)
		if string(data) != "next" {
			t.Fatalf("the cluster's data is %q", data)
		}
	}
	s.wantTimeline(t)
}

func checkOvertaken(t testing.TB, s *scene) {
	for i := range losses {
		from := i * 200
		l := s.lease(t, "holder", from)
		s.line.CutBefore(1, func() {
			s.commit(t, s.lease(t, "next", from+60), store.Change{Cluster: []byte("next"), Now: s.at(from + 60), Release: true})
		})
		err := s.Commit(t.Context(), l, store.Change{Cluster: []byte("holder"), Timeline: said("never"), Now: s.at(from + 61)})
		wantErr(t, "committing behind the next holder", err, store.ErrFenced)
		data, _, err := s.Read(t.Context(), s.key)
		must(t, err)
		if string(data) != "next" {
			t.Fatalf("the cluster's data is %q", data)
		}
	}
	s.wantTimeline(t)
}

func checkLostLease(t testing.TB, s *scene) {
	for i := range losses {
		s.line.CutAfter(1, nil)
		l := s.lease(t, fmt.Sprint("holder ", i), 0)
		if l.Epoch != int64(i+1) {
			t.Errorf("epoch %d, want %d", l.Epoch, i+1)
		}
		s.line.CutBefore(1, nil)
		err := s.Commit(t.Context(), l, store.Change{Cluster: []byte("x"), Now: s.start, Release: true})
		if err != nil {
			t.Fatal(err)
		}
	}
	// The answer is lost, and before the holder can look, its lease has run out and is another's.
	s.line.CutAfter(1, func() { s.lease(t, "next", 60) })
	l, err := s.Lease(t.Context(), s.key, "holder", s.at(0), s.at(60), true)
	if err == nil {
		err = s.Commit(t.Context(), l, store.Change{Now: s.at(61)})
	}
	if err == nil {
		t.Error("two hold the lease")
	}
}

func checkLostForget(t testing.TB, s *scene) {
	for range losses {
		l := s.lease(t, "holder", 0)
		s.line.CutAfter(1, nil)
		s.commit(t, l, store.Change{Forget: true, Release: true, Now: s.start})
		_, _, err := s.Read(t.Context(), s.key)
		wantErr(t, "reading a cluster that was forgotten", err, store.ErrNoCluster)
	}
	// Before the holder can look, the cluster is there anew.
	l := s.lease(t, "holder", 0)
	s.line.CutAfter(1, func() { s.lease(t, "maker", 0) })
	s.commit(t, l, store.Change{Forget: true, Release: true, Now: s.start})
	_, listed, err := s.Read(t.Context(), s.key)
	must(t, err)
	if !listed.Held || listed.Epoch != 1 {
		t.Errorf("the cluster that was made anew: %+v", listed)
	}
}

func checkLostPost(t testing.TB, s *scene) {
	var want []string
	for i := range losses {
		id := fmt.Sprint("event ", i)
		want = append(want, id)
		event := store.Event{ID: id, Received: s.at(i)}
		s.line.CutAfter(1, nil)
		if i%2 == 0 {
			s.line.CutBefore(1, nil)
		}
		if err := s.Post(t.Context(), s.key, event); err != nil {
			must(t, s.Post(t.Context(), s.key, event)) // the event is delivered again
		}
		s.wantInbox(t, want...)
	}
}

func checkLostSlurm(t testing.TB, s *scene) {
	for i := range losses {
		snapshot := store.Slurm{Boot: s.start, Sequence: int64(i), Digest: fmt.Sprint(i), Data: []byte{byte(i)}}
		s.line.CutAfter(1, nil)
		newer, changed, err := s.PutSlurm(t.Context(), s.key, snapshot)
		if err != nil || !newer || !changed {
			t.Errorf("keeping snapshot %d: newer %v, changed %v, error %v", i, newer, changed, err)
		}
		got, err := s.Slurm(t.Context(), s.key)
		if err != nil || got.Sequence != snapshot.Sequence || !bytes.Equal(got.Data, snapshot.Data) {
			t.Errorf("snapshot %d: got %+v, %v", i, got, err)
		}
	}
}

// When no answer comes at all, a commit must neither be claimed nor be said to be fenced.
func checkDeadLine(t testing.TB, s *scene) {
	l := s.lease(t, "holder", 0)
	s.post(t, "a")
	s.line.CutBefore(1_000_000, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	err := s.Commit(ctx, l, store.Change{Consume: []string{"a"}, Now: s.start})
	if err == nil || errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrTooLarge) {
		t.Errorf("committing without a line: %v", err)
	}
	s.line.Mend()
	s.wantInbox(t, "a")
	wantErr(t, "committing with a lease of which nothing is known", s.Commit(t.Context(), l, store.Change{Now: s.start}), store.ErrFenced)
	s.commit(t, s.lease(t, "holder", 0), store.Change{Consume: []string{"a"}, Now: s.start})
	s.wantInbox(t)
}
