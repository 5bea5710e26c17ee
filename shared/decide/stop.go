package decide

import (
	"slices"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// stop removes everything that was made for a cluster: requests and groups with their nodes, then the cluster's own
// resources in the reverse order of their making, then whatever bears its mark and was not recorded. The cluster is
// deleted when a complete look finds nothing.
func (t *Turn) stop() {
	if t.stopNodes() {
		return
	}
	if t.stopResources() {
		return
	}
	if t.s.Emptied.IsZero() {
		t.s.Emptied = t.now
		t.progress("looking for leftovers")
	}
	if !t.s.Swept.After(t.s.Emptied) || !t.s.Seen.After(t.s.Emptied) {
		t.at(t.now.Add(t.policy.poll(t.s.Emptied, t.now))) // Query asks for the last, complete look
		return
	}
	if len(t.s.Orphans) > 0 {
		for i := range t.s.Orphans {
			t.removeOrphan(&t.s.Orphans[i])
		}
		t.at(t.now.Add(t.policy.poll(t.s.DeleteRequested, t.now)))
		return
	}
	t.deleted()
}

// stopNodes retires every allocation and reports whether any node or allocation is left.
func (t *Turn) stopNodes() bool {
	left := false
	for _, id := range t.poolIDs() {
		p := t.s.Pools[id]
		forgetOver(p)
		t.retirePoolGroup(p)
		for i := range p.Allocations {
			a := &p.Allocations[i]
			t.stopAllocation(p, a)
			left = left || a.Phase != over
		}
		forgetOver(p)
	}
	for pool, nodes := range t.eachPool() {
		for i := range nodes {
			n := &nodes[i]
			switch {
			case n.Phase == cluster.Absent:
			case n.Phase == cluster.Requested && t.lookup(pool, n.Allocation) == nil:
				t.clear(n)
			case n.Phase == cluster.Requested:
				left = true
			default:
				left = true
				id := cluster.NodeID{Pool: pool, Index: n.Index}
				if n.Phase != cluster.Deleting {
					t.move(n, cluster.Deleting, deletedReason)
				}
				t.deleting(id, n)
			}
			t.suspected(cluster.NodeID{Pool: pool, Index: n.Index}, n)
		}
	}
	if left {
		t.progress("removing nodes")
	}
	return left
}

const deletedReason = "the cluster is being deleted"

// retirePoolGroup has a pool's own group removed in the way that an allocation's is: one allocation then stands for all that
// were made in it, so that the group and its machines are removed together, once.
func (t *Turn) retirePoolGroup(p *cluster.Pool) {
	whole := cluster.Allocation{Name: t.poolGroup(p.ID), Pool: p.ID, Zone: t.zone(p.ID), Group: t.poolGroup(p.ID),
		Method: cluster.ByName, Phase: cluster.Closing, Since: t.now, Made: t.now, Look: t.now, Retired: deletedReason}
	made := p.GroupMade
	p.GroupMade = false
	for i := range p.Allocations {
		a := &p.Allocations[i]
		if a.Method != cluster.ByName || a.Phase == cluster.Admitting || a.Phase == cluster.Closing {
			continue
		}
		made, whole.Zone = true, a.Zone
		for _, index := range a.Nodes {
			if n := t.s.Node(cluster.NodeID{Pool: p.ID, Index: index}); n != nil && n.Allocation == a.Name {
				n.Allocation = whole.Name
				whole.Nodes = append(whole.Nodes, index)
			}
		}
		a.Phase = over
	}
	if made {
		forgetOver(p)
		p.Allocations = append(p.Allocations, whole)
	}
}

func (t *Turn) stopAllocation(p *cluster.Pool, a *cluster.Allocation) {
	switch a.Phase {
	case cluster.Cancelling, cluster.Closing:
	case cluster.Queued:
		a.Retired = deletedReason
		t.setPhase(a, cluster.Cancelling)
	case cluster.Admitting:
		t.release(a)
		a.Phase = over
	default:
		a.Retired = deletedReason
		if a.Phase == cluster.Requesting && a.Method == cluster.ByRequest {
			t.setPhase(a, cluster.Cancelling)
			break
		}
		t.setPhase(a, cluster.Closing)
	}
	switch a.Phase {
	case cluster.Cancelling:
		t.cancel(p, a)
	case cluster.Closing:
		t.closeGroup(p, a)
	}
}

// stopResources removes the cluster's own resources, the last made first, and reports whether any is left.
func (t *Turn) stopResources() bool {
	for s := len(stages) - 1; s >= 0; s-- {
		for k := len(stages[s].kinds) - 1; k >= 0; k-- {
			kind := stages[s].kinds[k]
			if !kind.Owned() {
				t.s.Resources = slices.DeleteFunc(t.s.Resources, func(r cluster.Resource) bool { return r.Kind == kind })
				continue
			}
			left := false
			for i := range t.s.Resources {
				if r := &t.s.Resources[i]; r.Kind == kind {
					left = true
					t.leave(r)
				}
			}
			if left {
				t.progress("removing " + string(kind) + "s")
				return true
			}
		}
	}
	return false
}

// leave has one resource removed.
func (t *Turn) leave(r *cluster.Resource) {
	if r.Phase == cluster.ResourceCreating && r.Operation != "" {
		t.pollResource(r) // what is still being made might appear after a look that finds nothing to remove
		return
	}
	if r.Phase != cluster.ResourceLeaving {
		r.Phase, r.Since, r.Look, r.Operation, r.Tries = cluster.ResourceLeaving, t.now, t.now, "", 0
	}
	if !t.due(r.Look) {
		return
	}
	if r.Operation != "" {
		t.pollResource(r)
		return
	}
	t.intend(cluster.Remove{Ref: r.ResourceRef, Owner: t.s.Owner(), ID: t.requestID("remove", string(r.Kind), r.Name, itoa(r.Generation), itoa(int64(r.Tries)))})
	r.Tries++
	r.Look = t.now.Add(t.policy.Retry)
	t.at(r.Look)
}

// progress tells how far a deletion is, once for each step.
func (t *Turn) progress(what string) {
	const typ = "Deleting"
	for i := range t.s.Conditions {
		if t.s.Conditions[i].Type == typ && t.s.Conditions[i].Message == what {
			return
		}
	}
	t.condition(typ, "True", "InProgress", what)
	t.operation(cluster.Operation{ID: t.s.DeleteOperation, Verb: cluster.VerbDelete, Progress: what})
}

// deleted makes the cluster a tombstone: it remembers which requests made and removed it, so that a late one does not
// build it again.
func (t *Turn) deleted() {
	t.say(kindCluster, "", "the cluster is deleted, %s after it was asked for; a complete look at the project shows nothing of it left",
		t.now.Sub(t.s.DeleteRequested).Round(time.Second))
	t.finish(t.s.DeleteOperation, cluster.VerbDelete, "everything that was made for the cluster is removed")
	grave := cluster.NewState(t.s.Key)
	grave.Phase, grave.UID = cluster.PhaseDeleted, t.s.UID
	grave.CreateOperation, grave.DeleteOperation = t.s.CreateOperation, t.s.DeleteOperation
	grave.Created, grave.Updated, grave.Handled = t.s.Created, t.now, t.s.Handled
	grave.Expire = t.now.Add(t.policy.Tombstone)
	*t.s = *grave
	t.plan.Look = time.Time{}
}
