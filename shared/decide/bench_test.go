package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// busy is a cluster of n nodes, the login node among them, the others at work for jobs of 16 nodes each.
func busy(b *testing.B, n int) *world {
	b.Helper()
	n--
	w := running(b, func(s string) string {
		return strings.Replace(s, `"max_node_count": 2`, fmt.Sprintf(`"max_node_count": %d`, n), 1)
	})
	if w.s.Phase != cluster.PhaseRunning {
		b.Fatalf("the cluster is %s: %v", w.s.Phase, w.log)
	}
	w.now = w.now.Add(time.Hour)
	snap := &cluster.Snapshot{Boot: start, Sequence: 1, Taken: w.now, Nodes: map[string][]cluster.SlurmNode{}}
	p := w.s.Pool("a3u")
	for i := range n {
		if i%16 == 0 {
			p.Allocations = append(p.Allocations, cluster.Allocation{Name: fmt.Sprintf("flexvm-a3u-%010d", i), Pool: "a3u",
				Group: fmt.Sprintf("flexvm-a3u-%010d", i), Method: cluster.ByRequest, Phase: cluster.Granted, Job: int64(1 + i/16), Since: w.now, Made: w.now})
			snap.Jobs = append(snap.Jobs, cluster.SlurmJob{ID: int64(1 + i/16), State: "RUNNING"})
		}
		a, j := &p.Allocations[i/16], &snap.Jobs[i/16]
		a.Nodes = append(a.Nodes, i)
		id := cluster.NodeID{Pool: "a3u", Index: i}
		j.Nodes = append(j.Nodes, id)
		snap.Nodes["a3u"] = append(snap.Nodes["a3u"], cluster.SlurmNode{Index: i, State: "ALLOCATED", Flags: cluster.FlagCloud, Booted: w.now})
		*w.s.EnsureNode(id) = cluster.Node{Index: i, Phase: cluster.Ready, Generation: 1, Since: w.now, Allocation: a.Name,
			InstanceID: uint64(1000 + i), Created: w.now, Status: "RUNNING", Asked: w.now.Add(-time.Hour), Job: a.Job}
	}
	w.s.Slurm = snap
	return w
}

// BenchmarkDecide measures a whole turn: begin (which arranges the snapshot), fold one hook call, and decide.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			w := busy(b, n)
			b.ReportAllocs()
			for b.Loop() {
				turn := Begin(w.s, w.now.Add(time.Second), w.p)
				turn.Fold("r", &events.NodesResume{Cluster: key, Nodes: "flexvm-a3u-0", Time: w.now.Add(-time.Hour),
					Jobs: []events.ResumeJob{{ID: 1, Nodes: "flexvm-a3u-0"}}})
				if turn.Query(); len(turn.Decide().Intents) != 0 {
					b.Fatal("a cluster at rest was given something to do")
				}
			}
		})
	}
}

// BenchmarkObserve measures folding in a complete list of instances.
func BenchmarkObserve(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			w := busy(b, n)
			o := cluster.Observation{At: w.now.Add(time.Second), Instances: map[string]cluster.Instance{}}
			for i := range w.s.Nodes["a3u"] {
				node := &w.s.Nodes["a3u"][i]
				name := fmt.Sprintf("flexvm-a3u-%d", i)
				o.Instances[name] = cluster.Instance{Name: name, ID: node.InstanceID, Status: "RUNNING", Created: node.Created, Group: node.Allocation}
			}
			b.ReportAllocs()
			for b.Loop() {
				Begin(w.s, w.now.Add(time.Second), w.p).Observe(o)
			}
		})
	}
}
