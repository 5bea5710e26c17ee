package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

func leaseChecks() []check {
	return []check{
		{"a cluster begins with a lease that makes it", checkFirstLease},
		{"a cluster that cannot be is not there, and is not made", checkBadKeys},
		{"a live lease keeps others out, and one that has run out does not", checkHeld},
		{"one of many gets the lease", checkRace},
		{"a lease is good for one commit after another", checkCommits},
		{"every commit changes the cluster's document", checkEmptyCommits},
		{"of two writers one is fenced", checkTwoWriters},
		{"a holder that comes back after its lease was taken over is fenced", checkTakeover},
		{"a holder whose lease ran out may commit until another takes over", checkLateHolder},
		{"a commit is all or nothing", checkAtomic},
		{"a released lease is of no more use", checkReleased},
		{"a cluster is looked at when its last commit said", checkNextLook},
		{"the lease, extended, puts the next look off", checkExtended},
		{"a cluster of which there is nothing to know is forgotten", checkForget},
		{"a tombstone is forgotten in its time, and not if the cluster lives again", checkExpire},
	}
}

func checkFirstLease(t testing.TB, s *scene) {
	_, err := s.Lease(t.Context(), s.key, "holder", s.at(0), s.at(60), false)
	wantErr(t, "leasing a cluster that is not there", err, store.ErrNoCluster)
	_, _, err = s.Read(t.Context(), s.key)
	wantErr(t, "reading a cluster that is not there", err, store.ErrNoCluster)

	l := s.lease(t, "holder", 0)
	if l.Key != s.key || l.Holder != "holder" || l.Epoch != 1 || !l.Until.Equal(s.at(60)) || l.Data != nil || l.Steps != 0 {
		t.Errorf("first lease: %+v", l)
	}
	data, listed, err := s.Read(t.Context(), s.key)
	must(t, err)
	if data != nil || listed.Key != s.key || listed.Epoch != 1 || !listed.Held || !listed.NextLook.Equal(s.at(60)) {
		t.Errorf("read %q, %+v", data, listed)
	}
	s.commit(t, l, store.Change{Cluster: []byte("one"), Now: s.start, Release: true})

	l, err = s.Lease(t.Context(), s.key, "another", s.at(1), s.at(61), false)
	must(t, err)
	if l.Epoch != 2 || string(l.Data) != "one" || l.Steps != 0 {
		t.Errorf("second lease: %+v", l)
	}
}

func checkBadKeys(t testing.TB, s *scene) {
	for _, k := range []cluster.Key{{}, {Project: "../x", Location: "a/b", ID: "c/pools/p"}} {
		_, _, err := s.Read(t.Context(), k)
		wantErr(t, "reading a cluster that cannot be", err, store.ErrNoCluster)
		if _, err := s.Lease(t.Context(), k, "holder", s.at(0), s.at(60), true); err == nil {
			t.Errorf("a cluster was made of %q", k)
		}
	}
}

func checkHeld(t testing.TB, s *scene) {
	s.lease(t, "holder", 0)
	for _, create := range []bool{false, true} {
		_, err := s.Lease(t.Context(), s.key, "another", s.at(59), s.at(119), create)
		wantErr(t, "leasing what is held", err, store.ErrHeld)
	}
	l := s.lease(t, "another", 60)
	if l.Epoch != 2 || !l.Until.Equal(s.at(120)) {
		t.Errorf("lease after the first ran out: %+v", l)
	}
	_, err := s.Lease(t.Context(), s.key, "holder", s.at(61), s.at(121), true)
	wantErr(t, "leasing what has been taken over", err, store.ErrHeld)
}

func checkRace(t testing.TB, s *scene) {
	for round := range 5 {
		const racers = 20
		errs := make([]error, racers)
		var all sync.WaitGroup
		for i := range racers {
			all.Go(func() {
				from := s.at(round * 60)
				_, errs[i] = s.Lease(t.Context(), s.key, fmt.Sprintf("%d-%d", round, i), from, from.Add(time.Minute), true)
			})
		}
		all.Wait()
		winners := 0
		for _, err := range errs {
			if err == nil {
				winners++
			} else {
				wantErr(t, "losing the race", err, store.ErrHeld)
			}
		}
		if winners != 1 {
			t.Fatalf("%d racers of round %d have the lease, want 1", winners, round)
		}
		_, listed, err := s.Read(t.Context(), s.key)
		must(t, err)
		if listed.Epoch != int64(round+1) {
			t.Fatalf("epoch %d after round %d", listed.Epoch, round)
		}
	}
}

func checkCommits(t testing.TB, s *scene) {
	l := s.lease(t, "holder", 0)
	summary := store.Summary{Phase: cluster.PhaseRunning, UID: "u1", Nodes: 4, Problem: "none that matters", Created: s.at(-100)}
	s.commit(t, l, store.Change{Cluster: []byte("one"), Summary: summary, Timeline: said("one", "two"), Now: s.at(1)})
	s.commit(t, l, store.Change{Put: store.Documents{"pools/a3u": []byte("p")}, Timeline: said("three"), Now: s.at(2)})
	s.commit(t, l, store.Change{Timeline: said("four"), Now: s.at(3)})
	if l.Steps != 3 {
		t.Errorf("%d steps, want 3", l.Steps)
	}
	s.wantTimeline(t, "one", "two", "three", "four")
	data, listed, err := s.Read(t.Context(), s.key)
	must(t, err)
	if string(data) != "one" {
		t.Errorf("the cluster's data is %q: a commit without any must leave it", data)
	}
	if !listed.Created.Equal(summary.Created) {
		t.Errorf("created %s, want %s", listed.Created, summary.Created)
	}
	if listed.Created = summary.Created; listed.Summary != summary {
		t.Errorf("summary:\n got %+v\nwant %+v: a commit without one must leave it", listed.Summary, summary)
	}
}

// An empty commit still moves what the next is conditioned on: a second holder of the same token must not get through.
func checkEmptyCommits(t testing.TB, s *scene) {
	l := s.lease(t, "holder", 0)
	for range 3 {
		stale := *l
		s.commit(t, l, store.Change{Now: s.start})
		wantErr(t, "committing again on the same token", s.Commit(t.Context(), &stale, store.Change{Now: s.start}), store.ErrFenced)
	}
	s.commit(t, l, store.Change{Timeline: said("still the holder"), Now: s.start})
	s.wantTimeline(t, "still the holder")
}

func checkTwoWriters(t testing.TB, s *scene) {
	first := s.lease(t, "holder", 0)
	second := *first
	s.post(t, "a", "b")
	s.commit(t, first, store.Change{Cluster: []byte("first"), Consume: []string{"a"}, Now: s.start})
	err := s.Commit(t.Context(), &second, store.Change{Cluster: []byte("second"), Consume: []string{"b"}, Timeline: said("never"), Now: s.start})
	wantErr(t, "the second of two writers", err, store.ErrFenced)
	s.wantInbox(t, "b")
	s.wantTimeline(t)
	data, _, err := s.Read(t.Context(), s.key)
	must(t, err)
	if string(data) != "first" {
		t.Errorf("the cluster's data is %q", data)
	}
}

func checkTakeover(t testing.TB, s *scene) {
	stalled := s.lease(t, "stalled", 0)
	s.post(t, "a")
	s.commit(t, stalled, store.Change{Cluster: []byte("by stalled"), Now: s.start})

	l := s.lease(t, "next", 60)
	if string(l.Data) != "by stalled" {
		t.Errorf("the next holder begins with %q", l.Data)
	}
	late := store.Change{Cluster: []byte("too late"), Consume: []string{"a"}, Put: store.Documents{"pools/p": nil}, Timeline: said("never"), Now: s.at(61)}
	wantErr(t, "committing after the takeover", s.Commit(t.Context(), stalled, late), store.ErrFenced)
	wantErr(t, "committing once more", s.Commit(t.Context(), stalled, late), store.ErrFenced)
	s.wantInbox(t, "a")
	s.commit(t, l, store.Change{Cluster: []byte("by next"), Consume: []string{"a"}, Timeline: said("once"), Now: s.at(61), Release: true})

	// However many have held the cluster since, the stalled one must not get through.
	stalled = s.lease(t, "stalled", 100)
	for i := range 40 {
		l := s.lease(t, fmt.Sprint("holder ", i), 200+60*i)
		s.commit(t, l, store.Change{Now: s.at(200 + 60*i), Release: true})
	}
	if err := s.Commit(t.Context(), stalled, late); err == nil {
		t.Error("a holder of 40 epochs ago committed")
	}
	s.wantTimeline(t, "once")
	data, _, err := s.Read(t.Context(), s.key)
	must(t, err)
	if string(data) != "by next" {
		t.Errorf("the cluster's data is %q", data)
	}
}

func checkLateHolder(t testing.TB, s *scene) {
	l := s.lease(t, "holder", 0)
	s.commit(t, l, store.Change{Timeline: said("late, and alone"), Now: s.at(1000)})
	s.wantTimeline(t, "late, and alone")
	again, err := s.Lease(t.Context(), s.key, "holder", s.at(1), s.at(61), true)
	must(t, err)
	if again.Epoch != 2 {
		t.Errorf("a holder that leases again has epoch %d, want 2", again.Epoch)
	}
	wantErr(t, "committing with its older lease", s.Commit(t.Context(), l, store.Change{Now: s.at(2)}), store.ErrFenced)
}

func checkAtomic(t testing.TB, s *scene) {
	s.post(t, "a", "b")
	l := s.lease(t, "holder", 0)
	s.commit(t, l, store.Change{Put: store.Documents{"pools/old": []byte("x"), "nodes/old-0": []byte("y")}, Now: s.start})
	op := cluster.Operation{ID: "op", Key: s.key, Verb: cluster.VerbCreate, Created: s.start, Updated: s.start, Done: true}
	all := store.Change{
		Cluster: []byte("c"), Put: store.Documents{"pools/new": []byte("z")}, Delete: []string{"pools/old", "nodes/never"},
		Consume: []string{"a"}, Timeline: said("said"), Operations: []cluster.Operation{op}, Now: s.start,
	}
	bad := all
	bad.Put = store.Documents{"pools/new": []byte("z"), "elsewhere/new": nil}
	for _, path := range []string{"elsewhere/new", "pools", "pools/", "pools/a/b", "pools/../x", "pools/..", "inbox/a", "pools/__x__", ""} {
		bad.Put = store.Documents{"pools/new": []byte("z"), path: nil}
		if err := s.Commit(t.Context(), l, bad); err == nil || errors.Is(err, store.ErrFenced) || !strings.Contains(err.Error(), path) {
			t.Errorf("putting %q: error %v", path, err)
		}
	}
	s.wantInbox(t, "a", "b")
	s.wantTimeline(t)

	s.commit(t, l, all)
	s.wantInbox(t, "b")
	s.wantTimeline(t, "said")
	docs, err := s.Documents(t.Context(), s.key)
	must(t, err)
	if len(docs) != 2 || string(docs["pools/new"]) != "z" || string(docs["nodes/old-0"]) != "y" {
		t.Errorf("documents: %q", docs)
	}
	got, err := s.Operation(t.Context(), "op")
	must(t, err)
	if !got.Done || got.Key != s.key {
		t.Errorf("operation: %+v", got)
	}
}

func checkReleased(t testing.TB, s *scene) {
	l := s.lease(t, "holder", 0)
	s.commit(t, l, store.Change{Now: s.start, Release: true})
	err := s.Commit(t.Context(), l, store.Change{Timeline: said("never"), Now: s.start})
	wantErr(t, "committing with a lease that was released", err, store.ErrFenced)
	s.wantTimeline(t)
	_, listed, err := s.Read(t.Context(), s.key)
	must(t, err)
	if listed.Held {
		t.Error("a released cluster is held")
	}
	s.lease(t, "another", 0) // at the same moment
}

func checkNextLook(t testing.TB, s *scene) {
	var keys []cluster.Key
	for i, next := range []int{30, 10, 20, 0} {
		k := s.key
		k.ID = fmt.Sprint("c", i)
		keys = append(keys, k)
		l, err := s.Lease(t.Context(), k, "holder", s.at(0), s.at(60), true)
		must(t, err)
		change := store.Change{Now: s.start, Release: true}
		if next > 0 {
			change.NextLook = s.at(next)
		}
		s.commit(t, l, change)
	}
	s.wantDue(t, 9)
	s.wantDue(t, 10, keys[1])
	s.wantDue(t, 29, keys[1], keys[2])
	s.wantDue(t, 1_000_000, keys[1], keys[2], keys[0]) // the last is never looked at by itself
	first, err := s.Due(t.Context(), s.at(100), 2)
	must(t, err)
	equal(t, "the two longest overdue", first, []cluster.Key{keys[1], keys[2]})

	l, err := s.Lease(t.Context(), keys[1], "holder", s.at(11), s.at(40), false)
	must(t, err)
	s.wantDue(t, 39, keys[2], keys[0]) // it is being looked at
	s.commit(t, l, store.Change{Now: s.at(12)})
	s.wantDue(t, 39, keys[2], keys[0])
	s.commit(t, l, store.Change{Now: s.at(12), Release: true})
	s.wantDue(t, 1_000_000, keys[2], keys[0])
}

func checkExtended(t testing.TB, s *scene) {
	l := s.lease(t, "holder", 0)
	s.commit(t, l, store.Change{Until: s.at(90), Now: s.at(30)})
	if !l.Until.Equal(s.at(90)) {
		t.Errorf("the lease is until %s, want %s", l.Until, s.at(90))
	}
	_, err := s.Lease(t.Context(), s.key, "another", s.at(89), s.at(149), true)
	wantErr(t, "leasing what was extended", err, store.ErrHeld)
	s.wantDue(t, 89)
	s.wantDue(t, 90, s.key)
	s.lease(t, "another", 90)
}

func checkForget(t testing.TB, s *scene) {
	s.post(t, "a", "b")
	l := s.lease(t, "holder", 0)
	if err := s.Commit(t.Context(), l, store.Change{Forget: true, Now: s.start}); err == nil || errors.Is(err, store.ErrFenced) {
		t.Errorf("forgetting a cluster that is not released: error %v", err)
	}
	_, _, err := s.PutSlurm(t.Context(), s.key, store.Slurm{Boot: s.start, Sequence: 7})
	must(t, err)
	stale := *l
	s.commit(t, l, store.Change{Forget: true, Release: true, NextLook: s.at(1), Consume: []string{"a"}, Now: s.start})
	_, _, err = s.Read(t.Context(), s.key)
	wantErr(t, "reading a cluster that was forgotten", err, store.ErrNoCluster)
	_, err = s.Lease(t.Context(), s.key, "another", s.at(0), s.at(60), false)
	wantErr(t, "leasing a cluster that was forgotten", err, store.ErrNoCluster)
	_, err = s.Slurm(t.Context(), s.key)
	wantErr(t, "reading the snapshot of a cluster that was forgotten", err, store.ErrNotFound)
	listed, err := s.List(t.Context(), "", "", "", 10)
	must(t, err)
	if len(listed) != 0 {
		t.Errorf("listed: %+v", listed)
	}
	s.wantDue(t, 1_000_000)
	s.wantInbox(t, "b") // what came since is for a new one
	if err := s.Commit(t.Context(), &stale, store.Change{Cluster: []byte("risen"), Now: s.start}); err == nil {
		t.Error("a former holder made a forgotten cluster anew")
	}

	l = s.lease(t, "another", 0)
	if l.Epoch != 1 || l.Data != nil {
		t.Errorf("the lease of a cluster made anew: %+v", l)
	}
	stale = *l
	stale.Token = nil
	wantErr(t, "committing without a token", s.Commit(t.Context(), &stale, store.Change{Now: s.start}), store.ErrFenced)
	s.commit(t, l, store.Change{Consume: []string{"b"}, Now: s.start})
}

// When a store forgets is its own affair (Firestore may take a day); what it must not do is forget what lives.
func checkExpire(t testing.TB, s *scene) {
	l := s.lease(t, "holder", 0)
	s.commit(t, l, store.Change{Cluster: []byte("tombstone"), Expire: s.at(100), Now: s.start})
	s.commit(t, l, store.Change{Now: s.start, Release: true})
	l = s.lease(t, "another", 1)
	if string(l.Data) != "tombstone" {
		t.Errorf("the tombstone is %q", l.Data)
	}
	s.commit(t, l, store.Change{Cluster: []byte("alive"), Now: s.at(2), Release: true})
	s.wantDue(t, 1000) // a store that forgets by itself does it here
	data, _, err := s.Read(t.Context(), s.key)
	must(t, err)
	if string(data) != "alive" {
		t.Errorf("the cluster's data is %q", data)
	}
}
