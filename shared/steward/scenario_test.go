package steward_test

import (
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
	"github.com/convoke-hpc/convoke/shared/sim/slurm"
)

// comeUp creates the cluster and waits until it runs.
func comeUp(w *world, edits ...string) {
	w.create(edits...)
	w.until("the cluster runs", 15*time.Minute, w.phase(cluster.PhaseRunning))
	w.fuse.up.Store(w.fuse.calls.Load())
}

// noNodes is so when no compute node has a machine and no allocation is left.
func noNodes(s *cluster.State) bool {
	for _, n := range s.Nodes["a3u"] {
		if n.Phase != cluster.Absent {
			return false
		}
	}
	return s.Pools["a3u"] == nil || len(s.Pools["a3u"].Allocations) == 0
}

func remove(w *world) {
	w.send(events.TypeClusterDelete, "delete-1", &events.ClusterDelete{Cluster: key})
	w.until("the cluster is deleted", 30*time.Minute, w.phase(cluster.PhaseDeleted))
	nothingLeft(w)
}

// nothingLeft checks law 1 at the end: the cloud holds nothing of the cluster.
func nothingLeft(w *world) {
	w.t.Helper()
	sum, err := w.cloud.Summarize()
	if err != nil {
		w.t.Fatal(err)
	}
	if len(sum.Instances)+len(sum.Groups)+len(sum.Templates)+len(sum.Disks)+len(sum.Secrets) > 0 {
		w.dump()
		w.t.Fatalf("law 1: something is left over (the process died after %v)", w.fuse.where.Load())
	}
}

// machine is a VM as the cloud has it.
func (w *world) machine(name string) gcp.InstanceSummary {
	w.t.Helper()
	sum, err := w.cloud.Summarize()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, i := range sum.Instances {
		if i.Name == name {
			return i
		}
	}
	w.t.Fatalf("there is no machine %s", name)
	return gcp.InstanceSummary{}
}

// onlyTheFrame checks that between jobs the cloud holds controller and login node and nothing else.
func onlyTheFrame(w *world) {
	w.t.Helper()
	sum, err := w.cloud.Summarize()
	if err != nil {
		w.t.Fatal(err)
	}
	if len(sum.Instances) != 2 || len(sum.Groups) != 1 {
		w.dump()
		w.t.Fatalf("law 1: more is left than controller and login node (the process died after %v)", w.fuse.where.Load())
	}
}

// The scenarios. Each must end the same wherever the process dies.

func scenarioCreateAndDelete(w *world) {
	comeUp(w)
	onlyTheFrame(w)
	remove(w)
}

func scenarioGrowAndShrink(w *world) {
	comeUp(w)
	id := w.submit(2, 2*time.Minute)
	w.until("the job has ended", 30*time.Minute, func(*cluster.State) bool { w.checkBounds(); return w.job(id).State == slurm.Completed })
	w.until("the nodes are given back", 15*time.Minute, noNodes)
	onlyTheFrame(w)
}

func scenarioCancelWhileQueued(w *world) {
	if err := w.cloud.SetCapacity(zone, "a3-ultragpu-8g", 0); err != nil {
		w.t.Fatal(err)
	}
	comeUp(w)
	id := w.submit(2, time.Minute)
	w.until("the request is queued", 10*time.Minute, func(s *cluster.State) bool {
		p := s.Pools["a3u"]
		return p != nil && len(p.Allocations) == 1 && p.Allocations[0].Phase == cluster.Queued
	})
	if err := w.slurmctld().Cancel(id); err != nil {
		w.t.Fatal(err)
	}
	w.until("the request is cancelled and its group removed", 15*time.Minute, noNodes)
	onlyTheFrame(w)
}

func scenarioLeaseEndOfAStaticNode(w *world) {
	comeUp(w, `"min_node_count": 0`, `"min_node_count": 1`)
	w.until("the static node is ready", 15*time.Minute, w.nodePhase("a3u", 0, cluster.Ready))
	first := w.machine("flexvm-a3u-0").ID
	if err := w.cloud.EndLease(zone, "flexvm-a3u-0"); err != nil {
		w.t.Fatal(err)
	}
	w.until("the static node is back", 15*time.Minute, func(s *cluster.State) bool {
		w.checkBounds()
		n := s.Node(cluster.NodeID{Pool: "a3u"})
		return n.Phase == cluster.Ready && n.InstanceID != first
	})
	w.until("Slurm has it idle", 5*time.Minute, func(*cluster.State) bool { return w.slurmctld().Nodes()[0].State == "IDLE" })
}

func scenarioLeaseEndOfADynamicNode(w *world) {
	comeUp(w)
	id := w.submit(1, 0)
	w.until("the job runs", 15*time.Minute, func(*cluster.State) bool { return w.job(id).State == slurm.Running })
	first := w.machine("flexvm-a3u-0").ID
	if err := w.cloud.EndLease(zone, "flexvm-a3u-0"); err != nil {
		w.t.Fatal(err)
	}
	w.until("the requeued job runs on a new machine", 20*time.Minute, func(s *cluster.State) bool {
		w.checkBounds()
		for _, n := range s.Nodes["a3u"] {
			if n.Phase == cluster.Ready && n.InstanceID != first && w.job(id).State == slurm.Running && w.job(id).Restarts == 1 {
				return true
			}
		}
		return false
	})
	if err := w.slurmctld().Cancel(id); err != nil {
		w.t.Fatal(err)
	}
	w.until("the nodes are given back", 15*time.Minute, noNodes)
	onlyTheFrame(w)
}

func scenarioHostError(w *world) {
	comeUp(w)
	id := w.submit(1, 0)
	w.until("the job runs", 15*time.Minute, func(*cluster.State) bool { return w.job(id).State == slurm.Running })
	if err := w.cloud.FailHost(zone, "flexvm-a3u-0"); err != nil {
		w.t.Fatal(err)
	}
	w.until("the job runs again", 30*time.Minute, func(*cluster.State) bool { return w.job(id).State == slurm.Running && w.job(id).Restarts == 1 })
}

func scenarioHealthReport(w *world) {
	comeUp(w)
	id := w.submit(1, 0)
	w.until("the job runs", 15*time.Minute, func(*cluster.State) bool { return w.job(id).State == slurm.Running })
	sick := w.machine("flexvm-a3u-0").ID
	w.send(events.TypeNodeHealth, "sick-1", &events.NodeHealth{Cluster: key, Node: "flexvm-a3u-0", InstanceID: sick, Verdict: events.Broken,
		Check: "gpu.xid", Evidence: "Xid 79: GPU has fallen off the bus", Time: time.Now()})
	w.until("the job runs again on another machine", 30*time.Minute, func(s *cluster.State) bool {
		for _, m := range s.Nodes["a3u"] {
			if m.Phase == cluster.Ready && m.InstanceID != sick && w.job(id).State == slurm.Running && w.job(id).Restarts == 1 {
				return true
			}
		}
		return false
	})
	w.until("the node of the broken machine can be used again", 10*time.Minute, func(*cluster.State) bool {
		for _, n := range w.slurmctld().Nodes() {
			if n.Name == "flexvm-a3u-0" && (n.State == "DOWN" || n.Flags.Any(cluster.FlagDrain)) {
				return false
			}
		}
		return true
	})
}

func scenarioLostMachineOfAPoolsGroup(w *world) {
	comeUp(w, onDemand...)
	id := w.submit(1, 0)
	w.until("the job runs", 15*time.Minute, func(*cluster.State) bool { return w.job(id).State == slurm.Running })
	if err := w.cloud.Vanish(zone, "flexvm-a3u-0"); err != nil {
		w.t.Fatal(err)
	}
	w.until("the job runs again", 20*time.Minute, func(*cluster.State) bool {
		w.checkBounds()
		return w.job(id).State == slurm.Running && w.job(id).Restarts == 1
	})
	if err := w.slurmctld().Cancel(id); err != nil {
		w.t.Fatal(err)
	}
	w.until("the nodes are given back", 15*time.Minute, noNodes)
	remove(w)
}

func scenarioLostController(w *world) {
	comeUp(w)
	first := w.machine("flexvm-controller").ID
	if err := w.cloud.PowerOff(zone, "flexvm-controller"); err != nil {
		w.t.Fatal(err)
	}
	w.until("the controller is back", 10*time.Minute, func(s *cluster.State) bool {
		r := s.Resource(cluster.KindInstance, "controller")
		return r.Phase == cluster.ResourceReady && r.Found.InstanceID != first && r.Found.InstanceID != 0
	})
	w.lively()
}

var scenarios = []struct {
	name string
	run  func(*world)
}{
	{"create and delete", scenarioCreateAndDelete},
	{"grow and shrink", scenarioGrowAndShrink},
	{"cancel while queued", scenarioCancelWhileQueued},
	{"lease end of a static node", scenarioLeaseEndOfAStaticNode},
	{"lease end of a dynamic node", scenarioLeaseEndOfADynamicNode},
	{"host error", scenarioHostError},
	{"health report", scenarioHealthReport},
	{"lost machine of a pool's group", scenarioLostMachineOfAPoolsGroup},
	{"lost controller", scenarioLostController},
}

func TestScenarios(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			began := time.Now()
			calls, _ := inWorld(t, 0, s.run)
			t.Logf("%d calls, %s", calls, time.Since(began).Round(time.Millisecond))
		})
	}
}
