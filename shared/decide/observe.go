package decide

import (
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// Observe takes in what the cloud was seen to hold. What is missing from an observation was not seen, and says nothing.
func (t *Turn) Observe(o cluster.Observation) {
	t.observeOperations(o)
	t.observeGroups(o)
	if o.Instances != nil {
		t.observeInstances(o)
	}
	t.observeMachines(o)
	t.observeOrphans(o)
}

// observeOperations follows long operations to their ends.
func (t *Turn) observeOperations(o cluster.Observation) {
	for _, ref := range t.refs() {
		r := t.resourceByRef(ref)
		if v, ended := ended(o, r.Operation); ended {
			r.Operation = ""
			t.operationEnded(r, v)
		}
	}
	for _, id := range t.poolIDs() {
		p := t.s.Pools[id]
		for i := range p.Allocations {
			a := &p.Allocations[i]
			v, ended := ended(o, a.Operation)
			switch {
			case !ended:
			case v.Error != nil:
				t.allocationFailed(p, a, v.Error)
			default:
				t.grouped(p, a)
			}
		}
	}
}

// refs names the resources that are recorded now: following one may remove it.
func (t *Turn) refs() []cluster.ResourceRef {
	refs := make([]cluster.ResourceRef, len(t.s.Resources))
	for i := range t.s.Resources {
		refs[i] = t.s.Resources[i].ResourceRef
	}
	return refs
}

// ended reports whether an operation was looked at and is at its end, or has been forgotten by its service.
func ended(o cluster.Observation, operation string) (cluster.OperationView, bool) {
	v, looked := o.Operations[operation]
	return v, operation != "" && looked && (v.Done || !v.Found)
}

func (t *Turn) operationEnded(r *cluster.Resource, v cluster.OperationView) {
	leaving := r.Phase == cluster.ResourceLeaving
	switch {
	case leaving && v.Error != nil:
		r.Problem, r.Look = v.Error, t.now.Add(t.policy.pause(r.Tries))
	case leaving && v.Found:
		t.removed(r)
	case v.Error != nil:
		t.failed(r, v.Error)
	case !v.Found: // ask for it again: the answer tells
		r.Look = t.now
		if !leaving {
			r.Phase = cluster.ResourceWanted
		}
	case r.Kind != cluster.KindInstance:
		t.made(r)
	}
}

func (t *Turn) observeGroups(o cluster.Observation) {
	for _, id := range t.poolIDs() {
		p := t.s.Pools[id]
		for i := range p.Allocations {
			a := &p.Allocations[i]
			g, looked := o.Groups[a.Group]
			if !looked {
				continue
			}
			switch a.Phase {
			case cluster.Closing:
				if !g.Found {
					t.closed(a)
				}
			case cluster.Queued, cluster.Cancelling:
				t.observeRequest(p, a, g)
			case cluster.Granted:
				t.observeManaged(p, a, g)
			}
		}
	}
}

// observeRequest follows a resize request.
func (t *Turn) observeRequest(p *cluster.Pool, a *cluster.Allocation, g cluster.Group) {
	if !g.Found {
		t.cancelled(a) // someone has removed the group, and the request with it
		return
	}
	r := g.Request
	if r == nil {
		return
	}
	before := a.Request
	a.Request = r.State
	switch {
	case !r.Found:
		t.requestMissing(a, before)
	case r.State == "SUCCEEDED":
		t.requestGranted(p, a)
	case r.State == "FAILED":
		t.requestFailed(p, a, r)
	case r.State == "CANCELLED":
		if a.Phase == cluster.Queued {
			a.Retired = "someone has cancelled its resize request"
		}
		t.say(kindAllocation, a.Name, "its resize request is cancelled")
		t.cancelled(a)
	default:
		t.requestWaits(a, r, before)
	}
}

// requestWaits tells what a request that is not at its end is waiting for.
func (t *Turn) requestWaits(a *cluster.Allocation, r *cluster.Request, before string) {
	if r.State != before && a.Phase == cluster.Queued {
		t.say(kindAllocation, a.Name, "its resize request is %s", r.State)
	}
	if r.Attempt != nil && (a.Problem == nil || a.Problem.Message != r.Attempt.Message) {
		a.Problem = r.Attempt
		t.sayProblem(kindAllocation, a.Name, r.Attempt, "still waiting; the last attempt says: %s", r.Attempt.Message)
	}
}

// requestMissing: there is no such request. Someone has cancelled and deleted it, or it never came to be.
func (t *Turn) requestMissing(a *cluster.Allocation, before string) {
	a.Request = before
	switch {
	case a.Phase == cluster.Cancelling:
		t.cancelled(a)
	case before != "":
		a.Retired = "someone has removed its resize request"
		t.say(kindAllocation, a.Name, "its resize request is not there any more")
		t.cancelled(a)
	case t.now.Sub(a.Since) > t.policy.Retry:
		t.setPhase(a, cluster.Requesting)
		a.Tries++ // it may still appear
	}
}

func (t *Turn) requestGranted(p *cluster.Pool, a *cluster.Allocation) {
	if a.Phase != cluster.Queued && !t.wantedAgain(a) {
		// It came after the cancel, and nobody needs it: it goes with its group.
		t.say(kindAllocation, a.Name, "capacity came although nobody needs it any more; removing it")
		t.withdrawn(a)
		return
	}
	t.poolAnswered(p)
	t.say(kindAllocation, a.Name, "capacity granted for %s, %s after it was asked for", t.hostlist(a.Pool, a.Nodes),
		t.now.Sub(a.Made).Round(time.Second))
	t.setPhase(a, cluster.Granted)
	a.Retired = ""
	t.comment(a, "convoke: "+t.hostlist(a.Pool, a.Nodes)+" granted, machines are starting")
}

func (t *Turn) requestFailed(p *cluster.Pool, a *cluster.Allocation, r *cluster.Request) {
	if a.Phase == cluster.Queued {
		problem := r.Error
		if problem == nil {
			problem = &cluster.Problem{Class: cluster.Unknown, Doing: "waiting for resize request", Resource: a.Name, Message: "it failed without saying why"}
		}
		problem.At = t.now
		t.sayProblem(kindAllocation, a.Name, problem, "its resize request failed: %s", problem.Message)
		t.poolFailed(p, problem)
		a.Retired = oneLine(problem.Message, 300)
	}
	t.withdrawn(a) // machines that had come already are being taken back
}

// wantedAgain reports whether a job needs what is being cancelled.
func (t *Turn) wantedAgain(a *cluster.Allocation) bool {
	if t.s.Phase == cluster.PhaseStopping {
		return false
	}
	pool := t.s.Spec.Pool(a.Pool)
	for _, i := range a.Nodes {
		n := t.s.Node(cluster.NodeID{Pool: a.Pool, Index: i})
		if pool != nil && n != nil && n.Allocation == a.Name && t.demand(pool, n).wanted {
			return true
		}
	}
	return false
}

// observeManaged reads what a group says of machines that have not come yet.
func (t *Turn) observeManaged(p *cluster.Pool, a *cluster.Allocation, g cluster.Group) {
	managed := make(map[string]*cluster.Managed, len(g.Managed))
	for i := range g.Managed {
		managed[g.Managed[i].Name] = &g.Managed[i]
	}
	if !g.Found && !a.Method.OwnGroup() {
		p.GroupMade = false
	}
	var refused *cluster.Problem
	for _, i := range a.Nodes {
		id := cluster.NodeID{Pool: a.Pool, Index: i}
		if n := t.s.Node(id); n != nil && n.Allocation == a.Name {
			if p := t.observeMember(a, id, n, g.Found, managed[t.s.Name(id)]); p != nil {
				refused = p
			}
		}
	}
	if refused != nil {
		t.poolFailed(p, refused)
	}
}

// observeMember reads what a group, if it was found, says of one of its members; nil when it does not count on it. The result
// is why the member was taken back, nil if it was not.
func (t *Turn) observeMember(a *cluster.Allocation, id cluster.NodeID, n *cluster.Node, found bool, m *cluster.Managed) *cluster.Problem {
	switch {
	case memberOnly(a, n) && m == nil:
		t.certainlyGone(id, n)
	case n.Phase != cluster.Requested:
	case !found:
		t.clear(n)
	case m == nil && t.now.Sub(a.Since) > t.policy.Retry:
		// The group no longer counts on it: it came and went before we looked, or someone has deleted it.
		t.say(kindNode, t.s.Name(id), "its machine was granted and is gone already")
		n.Reason = "lost: its machine is gone"
		t.tellNode(cluster.CommandLost, id, n)
		t.clear(n)
	case m != nil && m.Problem != nil && a.Method != cluster.ByRequest:
		return t.managedFailed(a, id, n, m.Problem)
	}
	return nil
}

// managedFailed takes in that a machine that was asked for by name cannot be made now. The group would try for ever; when only a
// person can mend it, it is taken back.
func (t *Turn) managedFailed(a *cluster.Allocation, id cluster.NodeID, n *cluster.Node, problem *cluster.Problem) *cluster.Problem {
	if a.Problem == nil || a.Problem.Message != problem.Message {
		problem.At = t.now
		a.Problem = problem
		t.sayProblem(kindNode, t.s.Name(id), problem, "its machine cannot be made: %s", problem.Message)
	}
	if !problem.Class.Permanent() {
		return nil
	}
	t.move(n, cluster.Deleting, problem.Message)
	return problem
}

func (t *Turn) observeInstances(o cluster.Observation) {
	if o.At.After(t.s.Seen) {
		t.s.Seen = cluster.Moment(o.At)
	}
	for pool, nodes := range t.eachPool() {
		for i := range nodes {
			n := &nodes[i]
			if n.Phase == cluster.Absent {
				continue
			}
			id := cluster.NodeID{Pool: pool, Index: n.Index}
			if inst, there := o.Instances[t.s.Name(id)]; there {
				t.seen(id, n, &inst)
				continue
			}
			// It is not in the list. A list may lag behind, so it is looked at by itself before anything follows.
			if n.Phase.Machine() && n.Suspect == "" && (n.InstanceID != 0 || n.Phase == cluster.Deleting) && o.At.After(n.Since) {
				n.Suspect = notListed
				mark(&t.raised, id)
			}
		}
	}
	if r := t.s.Resource(cluster.KindInstance, roleController); r != nil && r.Phase == cluster.ResourceReady {
		inst, there := o.Instances[r.Name]
		if !there || inst.Status != vmRunning {
			r.Look = t.now // Query asks for the machine itself
			t.at(t.now)
		}
	}
}

// notListed is the suspicion that a list raises.
const notListed = "not in the list of instances"

// observeMachines reads what single looks at suspected machines say: this is what counts.
func (t *Turn) observeMachines(o cluster.Observation) {
	for _, name := range sortedKeys(o.Machines) {
		inst := o.Machines[name]
		if r := t.s.Resource(cluster.KindInstance, roleController); r != nil && r.Name == name {
			t.observeController(r, inst)
			continue
		}
		clusterID, id, ok := cluster.ParseNodeName(name)
		if !ok || clusterID != t.s.Key.ID {
			continue
		}
		n := t.s.Node(id)
		if n == nil || !n.Phase.Machine() {
			continue
		}
		if inst == nil {
			t.gone(id, n)
			continue
		}
		n.Suspect = ""
		t.seen(id, n, inst)
	}
}

// seen takes in a machine that is there.
func (t *Turn) seen(id cluster.NodeID, n *cluster.Node, inst *cluster.Instance) {
	a := t.lookup(id.Pool, n.Allocation)
	if a == nil || inst.Group != "" && inst.Group != a.Group {
		return // of an earlier allocation, on its way out: an orphan, if it stays
	}
	if n.Phase == cluster.Requested && (a.Phase != cluster.Granted || inst.Status == "PENDING") {
		// What a request has got before it is granted may be taken back; what is pending waits in the queue.
		if a.Phase == cluster.Queued {
			a.Look = t.now
			t.at(t.now)
		}
		return
	}
	t.identify(id, n, inst)
	n.Status = inst.Status
	if !inst.LeaseEnd.IsZero() {
		n.LeaseEnd = cluster.Moment(inst.LeaseEnd)
	}
	switch inst.Status {
	case "PROVISIONING", "STAGING":
		if n.Phase == cluster.Requested {
			t.move(n, cluster.Provisioning, "")
			t.say(kindNode, t.s.Name(id), "Compute Engine is making its machine")
		}
	case vmRunning:
		n.Suspect = ""
		if n.Phase == cluster.Requested || n.Phase == cluster.Provisioning {
			t.poolAnswered(t.s.Pool(id.Pool))
			t.move(n, cluster.Booting, "")
			t.say(kindNode, t.s.Name(id), "its machine runs and is starting up%s", until(n.LeaseEnd))
		}
	case "REPAIRING":
		n.Suspect = ""
	default: // STOPPING, STOPPED, TERMINATED, SUSPENDING, …: it will not come back by itself
		t.stopped(id, n)
	}
}

// identify notes which machine stands behind a node, and that it is another one than before.
func (t *Turn) identify(id cluster.NodeID, n *cluster.Node, inst *cluster.Instance) {
	if n.InstanceID == inst.ID {
		return
	}
	if n.InstanceID != 0 {
		// Compute Engine, or a person, has made it anew under its name.
		t.say(kindNode, t.s.Name(id), "it is another machine now: instance %d in place of %d", inst.ID, n.InstanceID)
		if n.Phase != cluster.Deleting {
			t.tellNode(cluster.CommandLost, id, n)
			n.Generation++
			t.move(n, cluster.Provisioning, "")
		}
	}
	n.InstanceID, n.Created, n.Booted = inst.ID, cluster.Moment(inst.Created), time.Time{}
}

// stopped takes in that a machine is there but does not run, and takes its name.
func (t *Turn) stopped(id cluster.NodeID, n *cluster.Node) {
	if n.Phase != cluster.Deleting && n.Phase != cluster.Failed {
		why := "its machine is " + n.Status
		if n.Suspect != "" && n.Suspect != notListed {
			why += " (" + n.Suspect + ")"
		}
		t.fail(id, n, why)
	}
	n.Suspect = ""
}

func until(end time.Time) string {
	if end.IsZero() {
		return ""
	}
	return "; its lease ends at " + end.Format(time.RFC3339)
}

// halted reports whether a machine of that status will not run again by itself.
func halted(status string) bool {
	switch status {
	case vmRunning, "PENDING", "PROVISIONING", "STAGING", "REPAIRING":
		return false
	}
	return true
}

// observeController follows the controller's machine.
func (t *Turn) observeController(r *cluster.Resource, inst *cluster.Instance) {
	switch {
	case inst == nil && r.Phase == cluster.ResourceCreating && r.Operation == "" && t.now.Sub(r.Since) > t.policy.Retry,
		inst == nil && r.Phase == cluster.ResourceReady:
		t.controllerFailed(r, &cluster.Problem{Class: cluster.Unknown, Doing: "looking for", Resource: r.Name, At: t.now,
			Message: "the controller's machine is gone", Remedy: "it is made anew; its state is on a disk of its own"})
		r.Look = t.now
	case inst == nil:
	case (r.Phase == cluster.ResourceReady || r.Phase == cluster.ResourceCreating) && halted(inst.Status):
		t.controllerFailed(r, &cluster.Problem{Class: cluster.Unknown, Doing: "looking for", Resource: r.Name, At: t.now,
			Message: "the controller's machine is " + inst.Status, Remedy: "it is deleted and made anew; its state is on a disk of its own"})
		t.intend(cluster.Remove{Ref: r.ResourceRef, Owner: t.s.Owner(), ID: t.requestID("remove", r.Name, itoa(r.Generation), itoa(int64(r.Tries)))})
	default:
		if r.Found.InstanceID != inst.ID && r.Found.InstanceID != 0 {
			r.Booted = time.Time{}
		}
		r.Found.InstanceID, r.Found.Status, r.Found.Address = inst.ID, inst.Status, inst.Address
		if r.Phase == cluster.ResourceReady {
			r.Look = time.Time{}
		}
	}
}
