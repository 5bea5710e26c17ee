package decide

import (
	"fmt"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// nodes moves every node on, and gathers those that are to be asked for.
func (t *Turn) nodes() {
	if !t.controllerReady() {
		return // a node without a controller has nobody to register with
	}
	t.ensureRecords()
	for i := range t.s.Spec.NodePools {
		pool := &t.s.Spec.NodePools[i]
		var asks asks
		nodes := t.s.Nodes[pool.ID]
		for j := range nodes {
			t.node(pool, &nodes[j], &asks)
		}
		t.ask(pool, &asks)
	}
}

// controllerReady reports whether nodes have a controller to register with. Once a cluster has run, its nodes are looked
// after while the controller is being replaced, too.
func (t *Turn) controllerReady() bool {
	r := t.s.Resource(cluster.KindInstance, roleController)
	return r != nil && (r.Phase == cluster.ResourceReady || !t.s.Started.IsZero())
}

// zone is where a pool's machines are; "" for a pool that the spec no longer has.
func (t *Turn) zone(pool string) string {
	if p := t.s.Spec.Pool(pool); p != nil {
		return p.Zone
	}
	return ""
}

// ensureRecords makes records for nodes that must exist and have none: static ones, and those that the snapshot shows
// with a job although no hook call came.
func (t *Turn) ensureRecords() {
	for i := range t.s.Spec.NodePools {
		pool := &t.s.Spec.NodePools[i]
		nodes, static := t.s.Nodes[pool.ID], pool.ScalingSpec.MinNodeCount
		if static == 0 || len(nodes) >= static && nodes[static-1].Index == static-1 {
			continue // records are sorted: none is missing
		}
		for index := range pool.ScalingSpec.MinNodeCount {
			t.s.EnsureNode(cluster.NodeID{Pool: pool.ID, Index: index})
		}
	}
	for id := range t.slurm.held {
		if pool := t.s.Spec.Pool(id.Pool); pool != nil && id.Index < pool.ScalingSpec.MaxNodeCount && t.s.Node(id) == nil {
			t.s.EnsureNode(id)
		}
	}
}

// asks are the nodes of a pool that need a machine, by the job that needs them; 0 for static ones.
type asks struct {
	jobs  []int64
	nodes map[int64][]int
}

func (a *asks) add(job int64, index int) {
	if a.nodes == nil {
		a.nodes = map[int64][]int{}
	}
	if _, known := a.nodes[job]; !known {
		a.jobs = append(a.jobs, job)
	}
	a.nodes[job] = append(a.nodes[job], index)
}

// node moves one node on.
func (t *Turn) node(pool *cluster.NodePool, n *cluster.Node, asks *asks) {
	id := cluster.NodeID{Pool: pool.ID, Index: n.Index}
	need := t.demand(pool, n)
	switch n.Phase {
	case cluster.Absent:
		if need.wanted {
			asks.add(need.job, n.Index)
		} else {
			t.giveBack(id, n)
		}
	case cluster.Requested:
		t.requested(id, n)
	case cluster.Provisioning, cluster.Booting:
		t.coming(id, n, need)
	case cluster.Ready:
		t.ready(pool, id, n, need)
	case cluster.Draining:
		t.draining(id, n)
	case cluster.Failed:
		t.failedNode(id, n)
	case cluster.Deleting:
		t.deleting(id, n)
	}
	t.reconcileSlurm(pool, id, n)
	t.suspected(id, n)
}

// suspected has a machine that is thought to be lost looked at by itself: in the next step or, when this step's look has
// failed, after a pause.
func (t *Turn) suspected(id cluster.NodeID, n *cluster.Node) {
	if n.Suspect == "" || !n.Phase.Machine() {
		return
	}
	switch {
	case t.looked[id]:
		n.Look = t.now.Add(t.policy.ConfirmEvery)
	case t.raised[id]:
		n.Look = t.now
	}
	t.at(n.Look)
}

// move brings a node into a phase.
func (t *Turn) move(n *cluster.Node, phase cluster.NodePhase, reason string) {
	n.Phase, n.Reason, n.Since, n.Look, n.Tries = phase, oneLine(reason, 300), t.now, t.now, 0
	n.Told, n.Deleted = time.Time{}, time.Time{}
}

// requested waits for the allocation, which knows when it is to be looked at.
func (t *Turn) requested(id cluster.NodeID, n *cluster.Node) {
	if t.lookup(id.Pool, n.Allocation) == nil {
		t.clear(n)
		t.at(t.now)
	}
}

// ready follows a machine that works, until nobody needs it or Slurm has given it up.
func (t *Turn) ready(pool *cluster.NodePool, id cluster.NodeID, n *cluster.Node, need need) {
	if !need.wanted && !need.keep {
		t.move(n, cluster.Deleting, "no job needs it")
		t.say(kindNode, t.s.Name(id), "given back: no job needs it")
		t.deleting(id, n)
		return
	}
	v := t.slurm.node(id)
	if v == nil || v.State != "DOWN" || v.Reason != notResponding || v.Flags.Any(cluster.FlagDrain) ||
		!t.slurm.fresh(t.now, t.policy) || !v.ReasonAt.After(n.Since) {
		return
	}
	// Its slurmd does not come back by itself, or its machine hangs: Slurm has taken the work off it already.
	end := v.ReasonAt.Add(t.policy.SilentTimeout)
	if end.After(t.slurm.taken()) {
		t.at(t.now.Add(end.Sub(t.slurm.taken())))
		return
	}
	if t.leaving(pool.ID) >= max(1, pool.ScalingSpec.MaxNodeCount/replacedAtOnce) {
		t.at(t.now.Add(t.policy.PollMax)) // what silences many at once is seldom in the machines
		return
	}
	t.fail(id, n, "its slurmd has not answered since "+v.ReasonAt.Format(time.RFC3339))
	t.failedNode(id, n)
}

// replacedAtOnce is the part of a pool, one in so many, that is replaced at a time on no other ground than that it is silent.
const replacedAtOnce = 10

// leaving counts the nodes of a pool whose machines are going.
func (t *Turn) leaving(pool string) (going int) {
	for i := range t.s.Nodes[pool] {
		if p := t.s.Nodes[pool][i].Phase; p == cluster.Failed || p == cluster.Deleting {
			going++
		}
	}
	return going
}

// coming follows a machine that is being made or is starting.
func (t *Turn) coming(id cluster.NodeID, n *cluster.Node, need need) {
	limit := t.policy.ProvisionTimeout
	if n.Phase == cluster.Booting {
		limit = t.policy.BootTimeout
		if t.registered(id, n) {
			t.move(n, cluster.Ready, "")
			t.say(kindNode, t.s.Name(id), "ready")
			t.poolWorked(t.s.Pool(id.Pool))
			return
		}
	}
	end := t.startEnd(id, n, limit)
	switch {
	case !need.wanted && (!need.keep || t.slurm.fresh(t.now, t.policy) && !t.slurmUp(id)):
		t.move(n, cluster.Deleting, "no job needs it any more")
		t.say(kindNode, t.s.Name(id), "given back before it was ready: no job needs it any more")
		t.deleting(id, n)
	case !end.After(t.now):
		t.failStart(id, n, fmt.Sprintf("it was still %s after %s", n.Phase, limit))
		t.failedNode(id, n)
	default:
		t.at(end)
		t.pollNode(n)
	}
}

// startEnd is when a machine that has not come to work must be given up. Whether a compute node works is Slurm's word, so that nothing
// is held against it while the controller is not heard of, and it has its time again when a new one is.
func (t *Turn) startEnd(id cluster.NodeID, n *cluster.Node, limit time.Duration) time.Time {
	end := n.Since.Add(limit)
	if n.Phase != cluster.Booting || t.s.Spec.IsLogin(id.Pool) {
		return end
	}
	if !t.slurm.fresh(t.now, t.policy) {
		return t.now.Add(t.policy.PollMax)
	}
	if again := t.slurm.snapshot.Boot.Add(limit); again.After(end) {
		return again
	}
	return end
}

// registered reports whether this very machine works: a login node has said so itself; a compute node is up in Slurm, from a
// boot of this machine and not of its predecessor.
func (t *Turn) registered(id cluster.NodeID, n *cluster.Node) bool {
	if t.s.Spec.IsLogin(id.Pool) {
		return !n.Booted.IsZero()
	}
	v := t.slurm.node(id)
	return v != nil && v.Up() && !v.Booted.IsZero() && !v.Booted.Before(n.Created.Truncate(time.Second))
}

// slurmUp reports whether Slurm has the node up, whichever machine it thinks of.
func (t *Turn) slurmUp(id cluster.NodeID) bool {
	v := t.slurm.node(id)
	return v != nil && v.Up()
}

// pollNode has the cloud looked at for the node when its time comes.
func (t *Turn) pollNode(n *cluster.Node) {
	if !n.Look.After(t.now) {
		n.Look = t.now.Add(t.policy.poll(n.Since, t.now))
	}
	t.at(n.Look)
}

// fail notes that a node's machine is of no more use: lost, or broken. Slurm is told before anything happens to it.
func (t *Turn) fail(id cluster.NodeID, n *cluster.Node, why string) {
	t.move(n, cluster.Failed, why)
	n.Broken = true
	t.say(kindNode, t.s.Name(id), "failed: %s", n.Reason)
}

// failStart notes that a machine did not come to work. The next one may not either: the pool pauses, and after several in a row
// its breaker opens.
func (t *Turn) failStart(id cluster.NodeID, n *cluster.Node, why string) {
	class := cluster.Configuration
	if n.Phase == cluster.Provisioning {
		class = cluster.Capacity
	}
	t.fail(id, n, why)
	for _, failed := range t.failedStarts {
		if failed == id.Pool {
			return // machines that fail together are one attempt
		}
	}
	t.failedStarts = append(t.failedStarts, id.Pool)
	t.poolFailed(t.s.Pool(id.Pool), &cluster.Problem{Class: class, Doing: starting, Resource: t.s.Name(id), At: t.now, Message: n.Reason,
		Remedy: "read the machine's serial port output, and mend the pool's image or start-up script"})
}

// starting is what a problem says that it happened at when a machine came and did not come to work.
const starting = "starting"

// drain has a node leave: with its work when the machine is broken for it, else after its work.
func (t *Turn) drain(id cluster.NodeID, n *cluster.Node, why string, broken bool) {
	switch n.Phase {
	case cluster.Ready, cluster.Booting, cluster.Provisioning:
	case cluster.Draining:
		if !broken || n.Broken {
			return
		}
	default:
		return // it is on its way out already, or not there
	}
	if broken && n.Phase != cluster.Ready && n.Phase != cluster.Draining {
		t.failStart(id, n, why)
		return
	}
	t.move(n, cluster.Draining, why)
	n.Broken = broken
	after := "when its work has ended"
	if broken {
		after = "at once; its job is requeued"
	}
	t.say(kindNode, t.s.Name(id), "draining, to be deleted %s: %s", after, n.Reason)
}

// draining waits until nothing runs on the node, then has it deleted.
func (t *Turn) draining(id cluster.NodeID, n *cluster.Node) {
	if t.s.Spec.IsLogin(id.Pool) {
		t.move(n, cluster.Deleting, n.Reason)
		t.deleting(id, n)
		return
	}
	kind := cluster.CommandDrain
	if n.Broken {
		kind = cluster.CommandEvict
	}
	if t.emptied(id, n) || n.Broken && !n.Since.Add(t.policy.TellTimeout).After(t.now) {
		reason := n.Reason
		t.move(n, cluster.Deleting, reason)
		t.say(kindNode, t.s.Name(id), "drained; deleting its machine (%s)", reason)
		t.deleting(id, n)
		return
	}
	t.tellNode(kind, id, n)
	if n.Broken {
		t.at(n.Since.Add(t.policy.TellTimeout))
	}
}

// emptied reports whether a snapshot that is newer than our word to Slurm shows the node draining and without work.
func (t *Turn) emptied(id cluster.NodeID, n *cluster.Node) bool {
	if n.Told.IsZero() || !t.slurm.taken().After(n.Since) || !t.slurm.fresh(t.now, t.policy) {
		return false
	}
	v := t.slurm.node(id)
	if v == nil || !v.Flags.Any(cluster.FlagDrain) && v.State != "DOWN" {
		return false
	}
	return t.slurm.held[id] == nil && v.State != "ALLOCATED" && v.State != "MIXED" && !v.Flags.Any(cluster.FlagCompleting)
}

// failedNode tells Slurm that a node is lost, then has what is left of its machine deleted. Nothing is waited for: the
// machine is of no use to anybody.
func (t *Turn) failedNode(id cluster.NodeID, n *cluster.Node) {
	t.tellNode(cluster.CommandLost, id, n)
	reason := n.Reason
	t.move(n, cluster.Deleting, reason)
	n.Broken = true
	t.deleting(id, n)
}

// deleting has a machine removed, until it is certainly gone.
func (t *Turn) deleting(id cluster.NodeID, n *cluster.Node) {
	a := t.lookup(id.Pool, n.Allocation)
	if a != nil && a.Phase == cluster.Closing {
		return // a group that is being removed takes its machines along
	}
	if next := n.Deleted.Add(t.policy.DeleteEvery); n.Deleted.IsZero() || !next.After(t.now) {
		t.tell.remove(a, t.zone(id.Pool), doomed{id: id, key: fmt.Sprintf("%s/%d/%d", t.s.Name(id), n.Generation, n.Tries)})
		n.Deleted = t.now
		n.Tries++
	}
	t.pollNode(n)
}

// gone notes that a node's machine is certainly not there any more.
func (t *Turn) gone(id cluster.NodeID, n *cluster.Node) {
	a := t.lookup(id.Pool, n.Allocation)
	switch {
	case n.Phase == cluster.Deleting && a != nil && a.Phase == cluster.Closing:
		n.Suspect = "" // its name is free when its group is gone
		return
	case n.Phase == cluster.Absent, n.Phase == cluster.Requested:
		return
	case n.Phase != cluster.Deleting:
		why := n.Suspect
		if why == "" {
			why = "Compute Engine does not have it"
		}
		if !n.LeaseEnd.IsZero() && !t.now.Before(n.LeaseEnd) {
			why = "its lease has ended (" + n.LeaseEnd.Format(time.RFC3339) + ")"
		}
		t.say(kindNode, t.s.Name(id), "its machine is gone: %s", why)
		n.Reason = oneLine("lost: "+why, 300)
		t.tellNode(cluster.CommandLost, id, n)
	}
	if a != nil && a.Phase == cluster.Granted && a.Method != cluster.ByRequest {
		t.forget(n)
		return
	}
	t.certainlyGone(id, n)
}

// forget has the group of a machine that is gone forget it: only then can the group make another one of the same name.
func (t *Turn) forget(n *cluster.Node) {
	if n.Phase != cluster.Deleting {
		told := n.Told
		t.move(n, cluster.Deleting, n.Reason)
		n.Told = told
	}
	n.InstanceID, n.Suspect = 0, ""
}

// certainlyGone notes that there is no machine of the node's name, nor one to come.
func (t *Turn) certainlyGone(id cluster.NodeID, n *cluster.Node) {
	if n.Phase == cluster.Deleting && n.Status != "" { // it has been seen
		t.say(kindNode, t.s.Name(id), "its machine is gone")
	}
	t.clear(n)
}

// clear makes a node absent and forgets its machine. What the hooks said of it stays: it is about the node, not the
// machine.
func (t *Turn) clear(n *cluster.Node) {
	*n = cluster.Node{Index: n.Index, Generation: n.Generation, Since: t.now,
		Asked: n.Asked, Returned: n.Returned, Job: n.Job, Told: n.Told}
}
