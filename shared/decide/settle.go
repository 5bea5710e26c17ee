package decide

import (
	"slices"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// Settle takes in what came of an intent.
func (t *Turn) Settle(o cluster.Outcome) {
	if ref, ok := ensured(o.Intent); ok {
		t.settleResource(ref, o)
		return
	}
	switch i := o.Intent.(type) {
	case cluster.Remove:
		t.settleRemoval(i.Ref, o)
	case cluster.CreateGroup:
		t.settleAllocation(i.Pool, i.Allocation, cluster.Grouping, o)
	case cluster.CreateRequest:
		t.settleAllocation(i.Pool, i.Allocation, cluster.Requesting, o)
	case cluster.CreateInstances:
		t.settleAllocation(i.Pool, i.Allocation, cluster.Requesting, o)
	case cluster.CancelRequest:
		t.settleAllocation(i.Pool, i.Allocation, cluster.Cancelling, o)
	case cluster.DeleteGroup:
		if i.Allocation != "" {
			t.settleAllocation(i.Pool, i.Allocation, cluster.Closing, o)
		} else {
			t.sayFailure(kindOrphan, i.Group, o)
		}
	case cluster.DeleteInstances:
		t.sayFailure(kindNode, i.Group, o)
	case cluster.DeleteInstance:
		t.sayFailure(kindNode, i.Name, o)
	case cluster.DeleteTemplate:
		t.sayFailure(kindOrphan, i.Name, o)
	case cluster.Command:
		t.sayFailure(kindSlurm, string(i.Kind), o)
	}
}

// ensured is the resource that an intent checks or makes.
func ensured(i cluster.Intent) (cluster.ResourceRef, bool) {
	switch i := i.(type) {
	case cluster.Check:
		return i.Ref, true
	case cluster.EnsureSecret:
		return i.Ref, true
	case cluster.EnsureTemplate:
		return i.Ref, true
	case cluster.EnsureDisk:
		return i.Ref, true
	case cluster.EnsureInstance:
		return i.Ref, true
	}
	return cluster.ResourceRef{}, false
}

// sayFailure puts a failure on the timeline; the record that asked asks again by itself.
func (t *Turn) sayFailure(kind, about string, o cluster.Outcome) {
	if o.Problem != nil && o.Problem.Class != cluster.NotFound {
		t.sayProblem(kind, about, o.Problem, "%s failed: %s", o.Intent.Do(), o.Problem.Message)
	}
}

func (t *Turn) resourceByRef(ref cluster.ResourceRef) *cluster.Resource {
	for i := range t.s.Resources {
		if t.s.Resources[i].ResourceRef == ref {
			return &t.s.Resources[i]
		}
	}
	return nil
}

func (t *Turn) settleResource(ref cluster.ResourceRef, o cluster.Outcome) {
	r := t.resourceByRef(ref)
	switch {
	case r == nil || r.Phase != cluster.ResourceWanted:
		// The answer comes late: the record has moved on since.
	case o.Problem != nil:
		t.failed(r, o.Problem)
		if ref.Kind == cluster.KindInstance && o.Problem.Class == cluster.NotFound {
			t.remake(t.s.Resource(cluster.KindTemplate, r.Role), o.Problem)
			t.remake(t.s.Resource(cluster.KindDisk, r.Role), o.Problem)
		}
	default:
		switch {
		case ref.Kind != cluster.KindInstance:
			r.Found = o.Found
		case o.Found.InstanceID != 0:
			if r.Found.InstanceID != o.Found.InstanceID {
				r.Booted = time.Time{} // what reported was another machine
			}
			r.Found = o.Found
		}
		r.Problem = nil
		if o.Operation == "" && ref.Kind != cluster.KindInstance {
			t.made(r)
			return
		}
		r.Phase, r.Since, r.Look, r.Operation = cluster.ResourceCreating, t.now, t.now.Add(t.policy.PollMin), o.Operation
		t.say(kindResource, r.Name, "creating %s %s", r.Kind, r.Name)
	}
}

func (t *Turn) settleRemoval(ref cluster.ResourceRef, o cluster.Outcome) {
	r := t.resourceByRef(ref)
	if r == nil || r.Phase != cluster.ResourceLeaving {
		t.sayFailure(kindResource, ref.Name, o)
		return
	}
	switch {
	case o.Problem != nil && o.Problem.Class != cluster.NotFound:
		r.Problem, r.Look = o.Problem, t.now.Add(t.policy.pause(r.Tries))
		t.sayFailure(kindResource, ref.Name, o)
	case o.Problem == nil && o.Operation != "":
		r.Operation, r.Look = o.Operation, t.now.Add(t.policy.PollMin)
	default:
		t.removed(r)
	}
}

// removed forgets a resource that is certainly gone.
func (t *Turn) removed(r *cluster.Resource) {
	t.say(kindResource, r.Name, "%s %s is removed", r.Kind, r.Name)
	ref := r.ResourceRef
	t.s.Resources = slices.DeleteFunc(t.s.Resources, func(r cluster.Resource) bool { return r.ResourceRef == ref })
}

func (t *Turn) settleAllocation(pool, name string, phase cluster.AllocationPhase, o cluster.Outcome) {
	p := t.s.Pools[pool]
	if p == nil {
		return
	}
	a := p.Allocation(name)
	if a == nil || a.Phase != phase {
		return // it has moved on since
	}
	if o.Problem != nil {
		t.allocationFailed(p, a, o.Problem)
		return
	}
	a.Problem = nil
	switch phase {
	case cluster.Grouping:
		if o.Operation != "" {
			a.Operation, a.Look = o.Operation, t.now.Add(t.policy.PollFirst)
			return
		}
		t.grouped(p, a)
	case cluster.Requesting:
		t.requestedNow(a)
	case cluster.Cancelling, cluster.Closing:
		a.Look = t.now.Add(t.policy.PollMin)
	}
}

// grouped notes that the allocation's group is there.
func (t *Turn) grouped(p *cluster.Pool, a *cluster.Allocation) {
	if !a.Method.OwnGroup() {
		p.GroupMade = true
	}
	t.setPhase(a, cluster.Requesting)
}

// requestedNow notes that the machines have been asked for.
func (t *Turn) requestedNow(a *cluster.Allocation) {
	if a.Method != cluster.ByRequest {
		t.setPhase(a, cluster.Granted)
		a.Look = t.now.Add(t.policy.PollMin)
		return
	}
	t.setPhase(a, cluster.Queued)
	a.Look = t.now.Add(t.policy.PollMin)
	t.say(kindAllocation, a.Name, "resize request for %s is made; it waits in the queue for capacity", t.hostlist(a.Pool, a.Nodes))
	t.comment(a, "convoke: waiting in the Flex Start queue since "+t.now.Format(time.RFC3339)+" for "+t.hostlist(a.Pool, a.Nodes))
}

// comment puts a line on the allocation's job, where squeue shows it.
func (t *Turn) comment(a *cluster.Allocation, text string) {
	if a.Job != 0 {
		t.intend(cluster.Command{Kind: cluster.CommandComment, Job: a.Job, Reason: text,
			ID: t.requestID("comment", a.Name, text)})
	}
}

// allocationFailed takes in the failure of a call for an allocation: what passes by itself is tried again, what does
// not counts against the pool's breaker.
func (t *Turn) allocationFailed(p *cluster.Pool, a *cluster.Allocation, problem *cluster.Problem) {
	problem.At = t.now
	fresh := a.Problem == nil || a.Problem.Message != problem.Message
	a.Problem, a.Operation = problem, ""
	a.Look = t.now.Add(t.policy.pause(a.Tries))
	ending := a.Phase == cluster.Cancelling || a.Phase == cluster.Closing
	switch {
	case problem.Class == cluster.NotFound && a.Phase == cluster.Closing:
		t.closed(a)
		return
	case problem.Class == cluster.NotFound && a.Phase == cluster.Cancelling:
		t.cancelled(a)
		return
	case problem.Class == cluster.NotFound && a.Phase == cluster.Requesting:
		// Its group is not there (any more).
		p.GroupMade = p.GroupMade && a.Method.OwnGroup()
		tries := a.Tries
		t.setPhase(a, cluster.Grouping)
		a.Tries, a.Look, a.Problem = tries, t.now.Add(t.policy.pause(tries)), problem
	case problem.Class == cluster.NotFound && a.Phase == cluster.Grouping:
		t.templateMissing(a, problem)
	}
	if fresh {
		t.sayProblem(kindAllocation, a.Name, problem, "failed: %s", problem.Message)
	}
	if problem.Class.Permanent() && !ending {
		t.poolFailed(p, problem)
		t.retire(a, problem.Message)
	}
}

// templateMissing has the pool's template made again, since making a group from it says that it is not there.
func (t *Turn) templateMissing(a *cluster.Allocation, problem *cluster.Problem) {
	t.remake(t.s.Resource(cluster.KindTemplate, a.Pool), problem)
}

// remake has a resource made again that was there, since what needs it says that it is not there any more.
func (t *Turn) remake(r *cluster.Resource, problem *cluster.Problem) {
	if r != nil && r.Phase == cluster.ResourceReady {
		r.Phase, r.Since, r.Look, r.Problem = cluster.ResourceWanted, t.now, t.now, problem
	}
}

// cancelled notes that the allocation's request is at an end without machines.
func (t *Turn) cancelled(a *cluster.Allocation) {
	t.release(a)
	t.setPhase(a, cluster.Closing)
}

// poolFailed counts a failed attempt: the pool pauses, and after several that only a person can mend its breaker opens.
func (t *Turn) poolFailed(p *cluster.Pool, problem *cluster.Problem) {
	b := &p.Breaker
	b.Failures++
	b.Problem = problem
	p.Attempt++
	p.Backoff = t.now.Add(t.policy.pause(b.Failures + 2))
	if problem.Class.Permanent() && (b.Failures >= t.policy.BreakerAfter || b.State == cluster.BreakerHalfOpen) {
		b.State, b.Until = cluster.BreakerOpen, t.now.Add(t.policy.BreakerPause)
		t.sayProblem(kindBreaker, p.ID, problem, "the breaker of pool %s opens until %s: %d failures in a row, the last: %s",
			p.ID, b.Until.Format(time.RFC3339), b.Failures, problem.Message)
	}
}

// poolAnswered closes the breaker unless it is for machines that come and do not work: that they come says nothing then.
func (t *Turn) poolAnswered(p *cluster.Pool) {
	if p.Breaker.Problem == nil || p.Breaker.Problem.Doing != starting {
		t.poolWorked(p)
	}
}

// poolWorked closes the breaker.
func (t *Turn) poolWorked(p *cluster.Pool) {
	if p.Breaker.State != cluster.BreakerClosed {
		t.say(kindBreaker, p.ID, "the breaker of pool %s is closed again", p.ID)
	}
	p.Breaker, p.Backoff = cluster.Breaker{}, time.Time{}
}
