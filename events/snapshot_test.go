package events_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

func TestSnapshotModel(t *testing.T) {
	s := &events.SlurmSnapshot{
		Cluster: key, Boot: now, Sequence: 7, Taken: now.Add(time.Minute), Config: 3,
		Nodes: []events.SnapshotNodes{
			{Nodes: "flexvm-a3u-[2-3]", State: "idle", Flags: []string{"CLOUD", "powering_up", "SOMETHING_NEW"}},
			{Nodes: "flexvm-a3u-0,flexvm-cpu-pool-0", State: "DOWN", Flags: []string{"DRAIN"}, Reason: "convoke: broken", ReasonAt: now, Booted: time.Unix(0, 0)},
			{Nodes: "flexvm-a3u-0", State: "IDLE"},
			{Nodes: "other-a3u-0,bastion", State: "IDLE"},
		},
		Jobs: []events.SnapshotJob{
			{ID: 9, State: "running", Nodes: "flexvm-a3u-[2-3]", Limit: 3600, Started: now, Requeue: true},
			{ID: 10, State: "PENDING", Reason: "Resources"},
		},
	}
	got, err := s.Model()
	if err != nil {
		t.Fatal(err)
	}
	down := cluster.SlurmNode{State: "DOWN", Flags: cluster.FlagDrain, Reason: "convoke: broken", ReasonAt: now}
	want := &cluster.Snapshot{
		Boot: now, Sequence: 7, Taken: now.Add(time.Minute), Config: 3,
		Nodes: map[string][]cluster.SlurmNode{
			"a3u": {
				down, // named twice, believed the first time
				{Index: 2, State: "IDLE", Flags: cluster.FlagCloud | cluster.FlagPoweringUp},
				{Index: 3, State: "IDLE", Flags: cluster.FlagCloud | cluster.FlagPoweringUp},
			},
			"cpu-pool": {down},
		},
		Unknown: []string{"other-a3u-0", "bastion"},
		Jobs: []cluster.SlurmJob{
			{ID: 9, State: "RUNNING", Nodes: []cluster.NodeID{{Pool: "a3u", Index: 2}, {Pool: "a3u", Index: 3}}, Limit: time.Hour, Started: now, Requeue: true},
			{ID: 10, State: "PENDING", Reason: "Resources"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSnapshotThatMeansTooMuch(t *testing.T) {
	snapshot := func(nodes []events.SnapshotNodes, jobs []events.SnapshotJob) error {
		_, err := (&events.SlurmSnapshot{Cluster: key, Boot: now, Taken: now, Nodes: nodes, Jobs: jobs}).Model()
		return err
	}
	all := "flexvm-a3u-[0-99999]"
	var nodes []events.SnapshotNodes
	var jobs []events.SnapshotJob
	for i := range 1000 {
		nodes = append(nodes, events.SnapshotNodes{Nodes: all, State: "IDLE"})
		jobs = append(jobs, events.SnapshotJob{ID: int64(i + 1), State: "RUNNING", Nodes: all})
	}
	if err := snapshot(nodes, nil); err == nil || !strings.Contains(err.Error(), "more than 100000 nodes") {
		t.Errorf("nodes without end: %v", err)
	}
	if err := snapshot(nil, jobs); err == nil || !strings.Contains(err.Error(), "jobs hold more") {
		t.Errorf("jobs without end: %v", err)
	}
	if err := snapshot([]events.SnapshotNodes{{Nodes: "a[", State: "IDLE"}}, nil); err == nil || !strings.Contains(err.Error(), "nodes[0]") {
		t.Errorf("no hostlist: %v", err)
	}
	if err := snapshot(nil, []events.SnapshotJob{{ID: 12, State: "RUNNING", Nodes: "a["}}); err == nil || !strings.Contains(err.Error(), "job 12") {
		t.Errorf("no hostlist: %v", err)
	}
}

// TestSnapshotThereAndBack: a model survives being told, and telling it again is the same news.
func TestSnapshotThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawSnapshot(t)
		s := events.SnapshotOf(key, m)
		wire, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		p, err := events.Read(events.TypeSlurmSnapshot, wire)
		if err != nil {
			t.Fatal(err)
		}
		read := p.(*events.SlurmSnapshot)
		got, err := read.Model()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Fatal(diff)
		}
		later := *got
		later.Boot, later.Sequence, later.Taken = now.Add(time.Hour), 99, now.Add(2*time.Hour)
		a, b := digest(t, read), digest(t, events.SnapshotOf(key, &later))
		if a != b {
			t.Fatal("the same news, told later, has another digest")
		}
		later.Config++
		if digest(t, events.SnapshotOf(key, &later)) == a {
			t.Fatal("other news has the same digest")
		}
	})
}

func digest(t *rapid.T, s *events.SlurmSnapshot) string {
	d, err := s.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func drawSnapshot(t *rapid.T) *cluster.Snapshot {
	moments := rapid.SampledFrom([]time.Time{{}, now, now.Add(time.Second), now.Add(time.Hour)})
	m := &cluster.Snapshot{
		Boot: now, Sequence: rapid.Int64Range(1, 1e6).Draw(t, "sequence"), Taken: now, Config: rapid.Int64Range(0, 9).Draw(t, "config"),
		Nodes: map[string][]cluster.SlurmNode{},
	}
	var ids []cluster.NodeID
	for _, pool := range []string{"a3u", "cpu-2"} {
		for _, index := range rapid.SliceOfNDistinct(rapid.IntRange(0, 300), 0, 40, rapid.ID[int]).Draw(t, "nodes of "+pool) {
			ids = append(ids, cluster.NodeID{Pool: pool, Index: index})
			m.Nodes[pool] = append(m.Nodes[pool], cluster.SlurmNode{
				Index: index, State: rapid.SampledFrom([]string{"IDLE", "DOWN", "ALLOCATED"}).Draw(t, "state"),
				Flags:  cluster.SlurmFlags(rapid.Uint16Range(0, 1<<len(cluster.SlurmFlagNames)-1).Draw(t, "flags")),
				Reason: rapid.SampledFrom([]string{"", "convoke: x", "a person's"}).Draw(t, "reason"), ReasonAt: moments.Draw(t, "at"), Booted: moments.Draw(t, "booted"),
			})
		}
		sortNodes(m.Nodes[pool])
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "jobs") {
		j := cluster.SlurmJob{ID: int64(i + 1), State: "PENDING", Limit: time.Duration(rapid.IntRange(0, 1e6).Draw(t, "limit")) * time.Second, Submitted: moments.Draw(t, "submitted")}
		if len(ids) > 0 && rapid.Bool().Draw(t, "runs") {
			j.State, j.Nodes = "RUNNING", ids[:1+i%len(ids)]
			j.Nodes = sorted(j.Nodes)
		}
		m.Jobs = append(m.Jobs, j)
	}
	return m
}

func TestSnapshotOfTenThousandNodes(t *testing.T) {
	m := &cluster.Snapshot{Boot: now, Taken: now, Sequence: 1, Nodes: map[string][]cluster.SlurmNode{}}
	for i := range 10_000 {
		n := cluster.SlurmNode{Index: i, State: "IDLE", Flags: cluster.FlagCloud}
		if i%2 == 0 {
			n.State, n.Booted = "ALLOCATED", now.Add(time.Duration(i/100)*time.Second)
		}
		m.Nodes["a3u"] = append(m.Nodes["a3u"], n)
	}
	s := events.SnapshotOf(key, m)
	if len(s.Nodes) != 101 {
		t.Errorf("%d groups for 101 looks", len(s.Nodes))
	}
	got, err := s.Model()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkSnapshotModel(b *testing.B) {
	s := &events.SlurmSnapshot{Cluster: key, Boot: now, Taken: now}
	for i := range 10_000 {
		s.Nodes = append(s.Nodes, events.SnapshotNodes{Nodes: fmt.Sprintf("flexvm-a3u-%d", i), State: "IDLE", Flags: []string{"CLOUD"}, Booted: now})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Model(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestCommandThereAndBack(t *testing.T) {
	c := cluster.Command{
		Kind: cluster.CommandLost, Nodes: []cluster.NodeID{{Pool: "a3u", Index: 0}, {Pool: "a3u", Index: 1}}, Job: 7,
		Reason: "convoke: preempted", Dynamic: true, ID: "7b1f",
	}
	e := events.CommandOf(key, c, now, now.Add(time.Minute))
	if e.Nodes != "flexvm-a3u-[0-1]" || !e.Expires.Equal(now.Add(time.Minute)) {
		t.Errorf("%+v", e)
	}
	got, err := e.Model()
	if diff := cmp.Diff(c, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	e.Nodes = "other-a3u-0"
	if _, err := e.Model(); err == nil {
		t.Error("a command about another cluster's node was read")
	}
}
