package decide

import (
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// need is whether a node should exist, and why.
type need struct {
	wanted bool
	// keep: nothing wants the node, but if its machine works it stays until Slurm gives it back: Slurm's SuspendTime
	// decides how long an idle node is worth having.
	keep bool
	job  int64
}

// slurmView is the newest snapshot, arranged for looking up.
type slurmView struct {
	snapshot *cluster.Snapshot
	// held says which live job holds a node.
	held map[cluster.NodeID]*cluster.SlurmJob
}

func (v *slurmView) index(s *cluster.State) {
	v.snapshot, v.held = nil, nil
	if s.Slurm == nil || s.Slurm.Taken.Before(s.Created) {
		return // there is none, or it is of an earlier cluster of the same name
	}
	v.snapshot = s.Slurm
	n := 0
	for i := range s.Slurm.Jobs {
		n += len(s.Slurm.Jobs[i].Nodes)
	}
	v.held = make(map[cluster.NodeID]*cluster.SlurmJob, n)
	for i := range s.Slurm.Jobs {
		j := &s.Slurm.Jobs[i]
		if !j.Live() {
			continue
		}
		for _, id := range j.Nodes {
			// A working job says more about a node than one that is still configuring.
			if old := v.held[id]; old == nil || (j.Working() && !old.Working()) {
				v.held[id] = j
			}
		}
	}
}

// node is a node as the snapshot has it; nil when it has none.
func (v *slurmView) node(id cluster.NodeID) *cluster.SlurmNode {
	if v.snapshot == nil {
		return nil
	}
	nodes := v.snapshot.Nodes[id.Pool]
	if id.Index < len(nodes) && nodes[id.Index].Index == id.Index {
		return &nodes[id.Index]
	}
	lo, hi := 0, len(nodes)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if nodes[mid].Index < id.Index {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(nodes) && nodes[lo].Index == id.Index {
		return &nodes[lo]
	}
	return nil
}

// taken is when the snapshot was taken; zero when there is none.
func (v *slurmView) taken() time.Time {
	if v.snapshot == nil {
		return time.Time{}
	}
	return v.snapshot.Taken
}

// fresh reports whether the snapshot is new enough to act on.
func (v *slurmView) fresh(now time.Time, p Policy) bool {
	return v.snapshot != nil && now.Sub(v.snapshot.Taken) <= p.SnapshotStale
}

// demand weighs what is known of a node: is it static, which hook call about it is the newest, and does the newest
// snapshot say that a live job holds it. All times are the controller's own clock, so the newest word wins, and hook
// calls may be lost, doubled or late.
func (t *Turn) demand(pool *cluster.NodePool, n *cluster.Node) need {
	if n.Index >= pool.ScalingSpec.MaxNodeCount {
		return need{} // the spec no longer has it
	}
	if pool.Static(n.Index) {
		return need{wanted: true}
	}
	if t.s.Spec.IsLogin(pool.ID) {
		return need{}
	}
	id := cluster.NodeID{Pool: pool.ID, Index: n.Index}
	job, taken := t.slurm.held[id], t.slurm.taken()
	switch {
	case job != nil && !n.Returned.After(taken):
		return need{wanted: true, job: job.ID}
	case n.Asked.After(n.Returned) && n.Asked.Add(t.policy.HookSlack).After(taken):
		return need{wanted: true, job: n.Job} // the hook is newer than the snapshot
	case n.Returned.After(taken):
		return need{}
	}
	if view := t.slurm.node(id); view != nil && view.Flags.Any(cluster.FlagPoweringDown|cluster.FlagPoweredDown) {
		return need{} // Slurm has given it back, whether or not we were told
	}
	return need{keep: true}
}
