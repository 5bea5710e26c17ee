package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

func listChecks() []check {
	return []check{
		{"the timeline is read newest first, in pages", checkTimeline},
		{"clusters are listed in pages, and filtered", checkList},
		{"an operation is written once and then by commits", checkOperations},
		{"operations are listed newest first, and filtered", checkOperationList},
		{"what could not be understood is kept once, with the reason", checkQuarantine},
	}
}

func checkTimeline(t testing.TB, s *scene) {
	problem := &cluster.Problem{Class: cluster.Quota, Doing: "creating instance", Resource: "c1-a3u-0", Message: "no more", Remedy: "ask for more", At: s.at(-1)}
	full := cluster.Entry{At: s.at(3), Kind: "node", About: "c1-a3u-0", Text: "the quota is used up", Problem: problem}
	var want []string
	for epoch := range 3 {
		l := s.lease(t, "holder", epoch*100)
		for step := range 2 {
			var texts []string
			for n := range 2 {
				texts = append(texts, fmt.Sprintf("epoch %d, step %d, entry %d", epoch, step, n))
			}
			want = append(want, texts...)
			s.commit(t, l, store.Change{Timeline: said(texts...), Now: s.at(epoch * 100)})
		}
	}
	l := s.lease(t, "holder", 1000)
	s.commit(t, l, store.Change{Timeline: []cluster.Entry{full}, Now: s.at(1000)})
	want = append(want, full.Text)
	s.wantTimeline(t, want...)

	slices.Reverse(want)
	var got []string
	before := ""
	for {
		page, err := s.Timeline(t.Context(), s.key, before, 4)
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if before != "" && e.ID >= before {
				t.Errorf("%s comes after %s", e.ID, before)
			}
			before = e.ID
			got = append(got, e.Text)
		}
	}
	equal(t, "timeline in pages of 4", got, want)

	s.wantNewestEntry(t, full)
	other := s.key
	other.ID = "c10"
	none, err := s.Timeline(t.Context(), other, "", 10)
	must(t, err)
	if len(none) != 0 {
		t.Errorf("another cluster's timeline: %+v", none)
	}
}

// wantNewestEntry says what the newest entry must be, problem and all: the first of the fourth epoch.
func (s *scene) wantNewestEntry(t testing.TB, full cluster.Entry) {
	t.Helper()
	newest, err := s.Timeline(t.Context(), s.key, "", 1)
	must(t, err)
	e, problem := newest[0], full.Problem
	if e.ID != store.TimelineID(4, 1, 0) || !e.At.Equal(full.At) || e.Kind != full.Kind || e.About != full.About || e.Problem == nil {
		t.Fatalf("the newest entry is %+v", e)
	}
	if !e.Problem.At.Equal(problem.At) {
		t.Errorf("its problem is of %s, want %s", e.Problem.At, problem.At)
	}
	if e.Problem.At = problem.At; *e.Problem != *problem {
		t.Errorf("its problem:\n got %+v\nwant %+v", *e.Problem, *problem)
	}
}

func checkList(t testing.TB, s *scene) {
	var keys []cluster.Key
	for _, project := range []string{"example", "example-2"} {
		for _, location := range []string{"europe-west4", "us-central1"} {
			for _, id := range []string{"c1", "c10", "c2"} {
				keys = append(keys, cluster.Key{Project: project, Location: location, ID: id})
			}
		}
	}
	slices.SortFunc(keys, func(a, b cluster.Key) int { return bytes.Compare([]byte(a.Doc()), []byte(b.Doc())) })
	for i, k := range keys {
		l, err := s.Lease(t.Context(), k, "holder", s.at(0), s.at(60), true)
		must(t, err)
		summary := store.Summary{Phase: cluster.PhaseRunning, UID: k.ID, Nodes: i, Created: s.at(i)}
		s.commit(t, l, store.Change{Cluster: []byte(k.Doc()), Summary: summary, Release: i%2 == 0, NextLook: s.at(1000), Now: s.start})
	}
	where := func(match func(cluster.Key) bool) []cluster.Key {
		return slices.DeleteFunc(slices.Clone(keys), func(k cluster.Key) bool { return !match(k) })
	}
	equal(t, "all in pages of 5", s.list(t, "", "", 5), keys)
	equal(t, "all in pages of 6", s.list(t, "", "", 6), keys)
	equal(t, "of a project", s.list(t, "example-2", "", 4), where(func(k cluster.Key) bool { return k.Project == "example-2" }))
	equal(t, "of a location", s.list(t, "", "europe-west4", 4), where(func(k cluster.Key) bool { return k.Location == "europe-west4" }))
	equal(t, "of both", s.list(t, "example", "us-central1", 2),
		where(func(k cluster.Key) bool { return k.Project == "example" && k.Location == "us-central1" }))
	equal(t, "of none", s.list(t, "example-3", "", 2), nil)
	s.wantLines(t)
}

// wantLines looks at what each line of the list says.
func (s *scene) wantLines(t testing.TB) {
	t.Helper()
	all, err := s.List(t.Context(), "", "", "", 100)
	must(t, err)
	for i, l := range all {
		next, held := s.at(1000), i%2 == 1
		if held {
			next = s.at(60)
		}
		if l.Nodes != i || l.UID != l.Key.ID || l.Phase != cluster.PhaseRunning || !l.Created.Equal(s.at(i)) || l.Held != held || !l.NextLook.Equal(next) || l.Epoch != 1 {
			t.Errorf("line %d: %+v", i, l)
		}
	}
}

// list lists clusters, page after page.
func (s *scene) list(t testing.TB, project, location string, limit int) []cluster.Key {
	t.Helper()
	var got []cluster.Key
	after := ""
	for {
		page, err := s.List(t.Context(), project, location, after, limit)
		must(t, err)
		if len(page) > limit {
			t.Fatalf("a page of %d, want at most %d", len(page), limit)
		}
		if len(page) == 0 {
			return got
		}
		for _, l := range page {
			got = append(got, l.Key)
		}
		after = got[len(got)-1].Doc()
	}
}

func (s *scene) operation(id string, key cluster.Key, created int) cluster.Operation {
	return cluster.Operation{ID: id, Key: key, Verb: cluster.VerbCreate, Created: s.at(created), Updated: s.at(created)}
}

func checkOperations(t testing.TB, s *scene) {
	_, err := s.Operation(t.Context(), "operation-1")
	wantErr(t, "reading an operation that is not there", err, store.ErrNotFound)
	op := s.operation("operation-1", s.key, 0)
	op.Progress = "accepted"
	must(t, s.PutOperation(t.Context(), op))

	done := op
	done.Updated, done.Done, done.Progress = s.at(5), true, ""
	done.Error = &cluster.Problem{Class: cluster.Configuration, Message: "the spec is refused"}
	done.Faults = []string{"pools[0].id: must not be empty", "pools[1].id: given twice"}
	fresh := s.operation("projects/p/operations/2", s.key, 1)
	s.commit(t, s.lease(t, "holder", 0), store.Change{Operations: []cluster.Operation{done, fresh}, Now: s.at(5)})
	must(t, s.PutOperation(t.Context(), op)) // the request is delivered again

	got, err := s.Operation(t.Context(), op.ID)
	must(t, err)
	if !got.Done || got.Error == nil || *got.Error != *done.Error || !slices.Equal(got.Faults, done.Faults) || got.Verb != op.Verb ||
		got.Key != s.key || got.ID != op.ID || !got.Created.Equal(op.Created) || !got.Updated.Equal(done.Updated) || got.Progress != "" {
		t.Errorf("operation:\n got %+v\nwant %+v", got, done)
	}
	if got, err = s.Operation(t.Context(), fresh.ID); err != nil || got.ID != fresh.ID {
		t.Errorf("the other operation: %+v, %v", got, err)
	}
	_, err = s.Operation(t.Context(), "")
	wantErr(t, "reading an operation without a name", err, store.ErrNotFound)
	if err := s.PutOperation(t.Context(), cluster.Operation{Key: s.key}); err == nil {
		t.Error("an operation without an id was taken")
	}
}

func checkOperationList(t testing.TB, s *scene) {
	elsewhere, theirs := s.key, s.key
	elsewhere.Location, theirs.Project = "us-central10", "example-2"
	for _, op := range []cluster.Operation{
		s.operation("b", s.key, 2), s.operation("d", elsewhere, 4), s.operation("a", s.key, 1),
		s.operation("c", s.key, 3), s.operation("e", theirs, 5), s.operation("0", s.key, -1_000_000_000),
	} {
		must(t, s.PutOperation(t.Context(), op))
	}
	for _, tt := range []struct {
		project, location string
		limit             int
		want              []string
	}{
		{"example", "us-central1", 10, []string{"c", "b", "a", "0"}},
		{"example", "us-central1", 2, []string{"c", "b"}},
		{"example", "", 10, []string{"d", "c", "b", "a", "0"}},
		{"", "us-central1", 3, []string{"e", "c", "b"}},
		{"", "", 10, []string{"e", "d", "c", "b", "a", "0"}},
		{"example-3", "us-central1", 10, nil},
	} {
		ops, err := s.Operations(t.Context(), tt.project, tt.location, tt.limit)
		must(t, err)
		var got []string
		for _, op := range ops {
			got = append(got, op.ID)
		}
		equal(t, fmt.Sprintf("operations of %q in %q", tt.project, tt.location), got, tt.want)
	}
}

func checkQuarantine(t testing.TB, s *scene) {
	q := store.Quarantined{
		ID: "//pubsub/a subscription/17", Source: "resize", Reason: "not JSON: unexpected end", Received: s.at(1), Type: "convoke.slurm.resume",
		Data: []byte{'{', 0xff}, Size: 2,
	}
	must(t, s.Quarantine(t.Context(), q))
	again := q
	again.Reason, again.Received = "another", s.at(9)
	must(t, s.Quarantine(t.Context(), again))
	large := store.Quarantined{ID: "large", Received: s.at(2), Data: bytes.Repeat([]byte("x"), store.MaxQuarantined+5)}
	must(t, s.Quarantine(t.Context(), large))
	must(t, s.Quarantine(t.Context(), store.Quarantined{ID: "oldest", Received: s.at(0)}))
	if err := s.Quarantine(t.Context(), store.Quarantined{}); err == nil {
		t.Error("something without an id was quarantined")
	}

	got, err := s.Quarantined(t.Context(), 10)
	must(t, err)
	var ids []string
	for _, g := range got {
		ids = append(ids, g.ID)
	}
	equal(t, "quarantined", ids, []string{"large", q.ID, "oldest"})
	if len(got[0].Data) != store.MaxQuarantined || got[0].Size != store.MaxQuarantined+5 {
		t.Errorf("of %d bytes, %d were kept", got[0].Size, len(got[0].Data))
	}
	g := got[1]
	if g.Source != q.Source || g.Reason != q.Reason || g.Type != q.Type || !g.Received.Equal(q.Received) || !bytes.Equal(g.Data, q.Data) || g.Size != q.Size {
		t.Errorf("quarantined:\n got %+v\nwant %+v", g, q)
	}
	newest, err := s.Quarantined(t.Context(), 1)
	must(t, err)
	if len(newest) != 1 || newest[0].ID != "large" {
		t.Errorf("the newest: %+v", newest)
	}
}
