package decide

import (
	"fmt"
	"slices"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// phase works out the cluster's phase and conditions from its records.
func (t *Turn) phase() {
	login, loginAll := t.readyNodes(t.s.Spec.LoginPool())
	t.count("LoginReady", login, loginAll, "login nodes")
	static, staticAll, queued := 0, 0, 0
	for i := range t.s.Spec.NodePools {
		p := &t.s.Spec.NodePools[i]
		if t.s.Spec.IsLogin(p.ID) {
			continue
		}
		ready, all := t.readyNodes(p)
		static, staticAll = static+ready, staticAll+all
		queued += t.queuedStatic(p)
	}
	t.count("StaticNodesReady", static, staticAll, "static nodes")
	t.slurmCondition()
	built := t.controllerReady() && login == loginAll
	problem := t.blocking()
	switch {
	case t.s.Phase == cluster.PhaseProvisioning && built && static+queued == staticAll:
		t.become(cluster.PhaseRunning)
	case t.s.Phase == cluster.PhaseProvisioning && problem != nil:
		t.s.Problem = problem
		t.become(cluster.PhaseError)
	case t.s.Phase == cluster.PhaseError && problem == nil:
		t.s.Problem = nil
		if t.s.Started.IsZero() {
			t.become(cluster.PhaseProvisioning)
		} else {
			t.become(cluster.PhaseRunning)
		}
	}
}

// readyNodes counts a pool's static nodes: those that are ready, and all.
func (t *Turn) readyNodes(p *cluster.NodePool) (ready, all int) {
	for i := range p.ScalingSpec.MinNodeCount {
		if n := t.s.Node(cluster.NodeID{Pool: p.ID, Index: i}); n != nil && n.Phase == cluster.Ready {
			ready++
		}
	}
	return ready, p.ScalingSpec.MinNodeCount
}

// queuedStatic counts static nodes that wait in the queue for capacity. They do not keep a cluster from running: the
// queue may take days, and people can submit jobs meanwhile.
func (t *Turn) queuedStatic(p *cluster.NodePool) int {
	queued := 0
	for i := range p.ScalingSpec.MinNodeCount {
		n := t.s.Node(cluster.NodeID{Pool: p.ID, Index: i})
		if n == nil || n.Phase != cluster.Requested {
			continue
		}
		if a := t.lookup(p.ID, n.Allocation); a != nil && a.Phase == cluster.Queued && a.Request == "ACCEPTED" {
			queued++
		}
	}
	return queued
}

// blocking is the failure that keeps a cluster from being built until a person acts; nil when there is none.
func (t *Turn) blocking() *cluster.Problem {
	for i := range t.s.Resources {
		r := &t.s.Resources[i]
		if r.Problem == nil || r.Phase == cluster.ResourceReady {
			continue
		}
		if r.Problem.Class.Permanent() || r.Problem.Class == cluster.NotFound && !r.Kind.Owned() || r.Problem.Class == cluster.Conflict && r.Tries > 3 {
			return r.Problem
		}
	}
	for _, id := range t.poolIDs() {
		if b := t.s.Pools[id].Breaker; b.State != cluster.BreakerClosed {
			return b.Problem
		}
	}
	return nil
}

// become brings the cluster into a phase, ends the operation that waited for it and tells so.
func (t *Turn) become(phase cluster.Phase) {
	first := t.s.Started.IsZero()
	t.s.Phase, t.s.Updated = phase, t.now
	switch phase {
	case cluster.PhaseRunning:
		t.s.Problem = nil
		if first {
			t.s.Started = t.now
			t.finish(t.s.CreateOperation, cluster.VerbCreate, "the cluster is running")
		}
		t.say(kindCluster, "", "the cluster is RUNNING, %s after it was asked for", t.now.Sub(t.s.Created).Round(1e9))
	case cluster.PhaseError:
		t.sayProblem(kindCluster, "", t.s.Problem, "the cluster cannot be built: %s. It is looked at again every %s, and goes on once that is mended",
			t.s.Problem.Error(), t.policy.PermanentRetry)
		if first {
			t.operation(cluster.Operation{ID: t.s.CreateOperation, Verb: cluster.VerbCreate, Done: true, Error: t.s.Problem})
		}
	default:
		t.say(kindCluster, "", "the cluster is %s again", phase)
	}
}

func (t *Turn) count(condition string, have, want int, what string) {
	if have == want {
		t.condition(condition, "True", "Complete", fmt.Sprintf("%d of %d %s are ready", have, want, what))
		return
	}
	t.condition(condition, "False", "Incomplete", fmt.Sprintf("%d of %d %s are ready", have, want, what))
}

func (t *Turn) slurmCondition() {
	switch {
	case t.slurm.snapshot == nil:
		t.condition("SlurmResponding", "Unknown", "NoSnapshot", "the controller has not told yet what Slurm holds")
	case t.slurm.fresh(t.now, t.policy):
		t.condition("SlurmResponding", "True", "Fresh", "")
	default:
		t.condition("SlurmResponding", "False", "Stale", "the controller last told at "+t.slurm.snapshot.Taken.UTC().Format("2006-01-02T15:04:05Z")+
			" what Slurm holds; until it does again nothing is done to nodes on Slurm's word")
	}
}

// condition sets a condition. Since moves only when the status does.
func (t *Turn) condition(typ, status, reason, message string) {
	for i := range t.s.Conditions {
		c := &t.s.Conditions[i]
		if c.Type != typ {
			continue
		}
		if c.Status != status {
			c.Since = t.now
		}
		c.Status, c.Reason, c.Message = status, reason, oneLine(message, 500)
		return
	}
	t.s.Conditions = append(t.s.Conditions, cluster.Condition{Type: typ, Status: status, Reason: reason,
		Message: oneLine(message, 500), Since: t.now})
}

func (t *Turn) dropCondition(typ string) {
	t.s.Conditions = slices.DeleteFunc(t.s.Conditions, func(c cluster.Condition) bool { return c.Type == typ })
}
