package decide

import (
	"slices"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/slurm"
)

// allocations moves every allocation on, and forgets those that are over.
func (t *Turn) allocations() {
	active := 0
	for _, pool := range t.poolIDs() {
		forgetOver(t.s.Pools[pool])
		for i := range t.s.Pools[pool].Allocations {
			if t.s.Pools[pool].Allocations[i].Active() {
				active++
			}
		}
	}
	for _, id := range t.poolIDs() {
		p := t.s.Pools[id]
		for i := range p.Allocations {
			t.allocation(p, &p.Allocations[i], &active)
		}
		forgetOver(p)
	}
}

// forgetOver drops allocations that have come to their end.
func forgetOver(p *cluster.Pool) {
	p.Allocations = slices.DeleteFunc(p.Allocations, func(a cluster.Allocation) bool { return a.Phase == over })
}

// over marks an allocation that is to be forgotten.
const over cluster.AllocationPhase = ""

// poolIDs are the pools with a record, in order.
func (t *Turn) poolIDs() []string {
	ids := make([]string, 0, len(t.s.Pools))
	for id := range t.s.Pools {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (t *Turn) allocation(p *cluster.Pool, a *cluster.Allocation, active *int) {
	if a.Phase != cluster.Cancelling && a.Phase != cluster.Closing && !t.neededAllocation(a) {
		why := "no job needs it"
		if a.Job == 0 { // static nodes are always needed
			why = "its machines are gone"
		}
		t.retire(a, why)
	}
	switch a.Phase {
	case cluster.Admitting:
		t.admit(p, a, active)
	case cluster.Grouping:
		t.group(p, a)
	case cluster.Requesting:
		t.request(p, a)
	case cluster.Queued:
		t.queued(a)
	case cluster.Granted:
		t.granted(p, a)
	}
	switch a.Phase { // as it is now
	case cluster.Cancelling:
		t.cancel(p, a)
	case cluster.Closing:
		t.closeGroup(p, a)
	}
}

// setPhase brings an allocation into a phase, to be acted on at once.
func (t *Turn) setPhase(a *cluster.Allocation, phase cluster.AllocationPhase) {
	a.Phase, a.Since, a.Look, a.Tries, a.Operation, a.Problem = phase, t.now, t.now, 0, "", nil
}

// neededAllocation reports whether anything needs one of the allocation's nodes.
func (t *Turn) neededAllocation(a *cluster.Allocation) bool {
	pool := t.s.Spec.Pool(a.Pool)
	if pool == nil {
		return false
	}
	for _, i := range a.Nodes {
		n := t.s.Node(cluster.NodeID{Pool: a.Pool, Index: i})
		if n == nil || n.Allocation != a.Name {
			continue
		}
		if n.Phase.Machine() || t.demand(pool, n).wanted {
			return true
		}
	}
	return t.strayed(a)
}

// retire gives an allocation up: what it asked for is cancelled, its group removed.
func (t *Turn) retire(a *cluster.Allocation, why string) {
	a.Retired = oneLine(why, 300)
	asked := a.Phase == cluster.Queued || a.Phase == cluster.Requesting && a.Tries > 0
	grouped := a.Phase == cluster.Requesting || a.Phase == cluster.Grouping && a.Tries > 0
	switch {
	case asked && a.Method == cluster.ByRequest:
		t.setPhase(a, cluster.Cancelling)
		t.say(kindAllocation, a.Name, "giving up %s: %s; cancelling its resize request", t.hostlist(a.Pool, a.Nodes), why)
	case (asked || a.Phase == cluster.Granted) && a.Method.OwnGroup():
		t.withdrawn(a)
	case asked:
		t.setPhase(a, cluster.Granted) // it is followed until its last machine is gone
		t.withdraw(a)
	case a.Phase == cluster.Granted:
		t.withdraw(a)
	case grouped && a.Method.OwnGroup():
		t.cancelled(a)
	default:
		t.release(a)
		a.Phase = over
	}
}

// release makes the allocation's nodes that have no machine absent; they may be asked for anew.
func (t *Turn) release(a *cluster.Allocation) {
	for _, i := range a.Nodes {
		n := t.s.Node(cluster.NodeID{Pool: a.Pool, Index: i})
		if n != nil && n.Allocation == a.Name && n.Phase == cluster.Requested {
			t.clear(n)
		}
	}
}

// withdraw has the allocation's machines deleted that have been asked for and have not been seen: they may be there already, or
// still come, so that their names are taken until they certainly are not.
func (t *Turn) withdraw(a *cluster.Allocation) {
	for _, i := range a.Nodes {
		id := cluster.NodeID{Pool: a.Pool, Index: i}
		if n := t.s.Node(id); n != nil && n.Allocation == a.Name && n.Phase == cluster.Requested {
			t.move(n, cluster.Deleting, a.Retired)
			t.deleting(id, n)
		}
	}
}

// withdrawn has an allocation's own group removed with machines that may be in it.
func (t *Turn) withdrawn(a *cluster.Allocation) {
	t.setPhase(a, cluster.Closing)
	t.withdraw(a)
}

// memberOnly reports whether a node is being removed that has no machine (any more), from a group that makes a machine for every
// member that it counts on, however long that takes: the node's name is free when its group has forgotten it.
func memberOnly(a *cluster.Allocation, n *cluster.Node) bool {
	return n.Phase == cluster.Deleting && n.InstanceID == 0 && a.Phase == cluster.Granted && a.Method != cluster.ByRequest
}

// admit waits for a turn in the queue of active resize requests.
func (t *Turn) admit(p *cluster.Pool, a *cluster.Allocation, active *int) {
	if a.Method == cluster.ByRequest && *active >= t.policy.ActiveRequests {
		if a.Problem == nil {
			a.Problem = &cluster.Problem{Class: cluster.Quota, Resource: a.Name, At: t.now, Message: "all active resize requests of the region are in use",
				Remedy: "it takes its turn; to wait less, ask for more of the quota ACTIVE_RESIZE_REQUESTS"}
			t.sayProblem(kindAllocation, a.Name, a.Problem, "waits for its turn: %d resize requests are active", *active)
		}
		t.at(t.now.Add(t.policy.PollMax))
		return
	}
	next := cluster.Grouping
	if !a.Method.OwnGroup() && p.GroupMade {
		next = cluster.Requesting
	}
	if a.Method == cluster.ByRequest {
		*active++
	}
	t.setPhase(a, next)
	t.allocationStep(p, a)
}

func (t *Turn) allocationStep(p *cluster.Pool, a *cluster.Allocation) {
	if a.Phase == cluster.Grouping {
		t.group(p, a)
	} else {
		t.request(p, a)
	}
}

// group has the allocation's group made, unless it has been asked for and its operation runs.
func (t *Turn) group(p *cluster.Pool, a *cluster.Allocation) {
	if !t.due(a.Look) || a.Operation != "" && t.pollAllocation(a) || !t.spend(p, a) {
		return
	}
	if !a.Method.OwnGroup() && t.otherGrouping(p, a) {
		return
	}
	t.intend(cluster.CreateGroup{Allocation: a.Name, Pool: a.Pool, Zone: a.Zone, Group: a.Group, Template: a.Template,
		Description: t.s.Owner().Description(), ID: t.requestID("group", a.Group, a.Template, round(a.Since, a.Problem))})
	t.asking(a)
}

// otherGrouping reports whether another allocation is making the pool's group already.
func (t *Turn) otherGrouping(p *cluster.Pool, a *cluster.Allocation) bool {
	if p.GroupMade {
		t.setPhase(a, cluster.Requesting)
		t.request(p, a)
		return true
	}
	for i := range p.Allocations {
		if b := &p.Allocations[i]; b.Phase == cluster.Grouping && b != a {
			if b.Name < a.Name {
				a.Look = t.now.Add(t.policy.PollMin)
				t.at(a.Look)
				return true
			}
		}
	}
	return false
}

// request has the machines asked for.
func (t *Turn) request(p *cluster.Pool, a *cluster.Allocation) {
	if !t.due(a.Look) || !t.spend(p, a) {
		return
	}
	names := t.names(a)
	if a.Method == cluster.ByRequest {
		t.intend(cluster.CreateRequest{Allocation: a.Name, Pool: a.Pool, Zone: a.Zone, Group: a.Group, Name: a.Name,
			Instances: names, Run: a.Run.D(), ID: t.requestID("request", a.Name, round(a.Since, a.Problem))})
	} else {
		t.intend(cluster.CreateInstances{Allocation: a.Name, Pool: a.Pool, Zone: a.Zone, Group: a.Group, Instances: names,
			ID: t.requestID("instances", a.Name, round(a.Since, a.Problem))})
	}
	t.asking(a)
}

// asking notes that an intent is out, and when it is decided again if nothing is heard of it.
func (t *Turn) asking(a *cluster.Allocation) {
	a.Tries++
	a.Look = t.now.Add(t.policy.Retry)
	t.at(a.Look)
}

// pollAllocation sets the next look at an allocation in motion. It reports true, so that it can stand in a condition.
func (t *Turn) pollAllocation(a *cluster.Allocation) bool {
	if !a.Look.After(t.now) {
		a.Look = t.now.Add(t.policy.poll(a.Since, t.now))
	}
	t.at(a.Look)
	return true
}

// queued waits for capacity, keeping Slurm's patience alive.
func (t *Turn) queued(a *cluster.Allocation) {
	t.pollAllocation(a)
	if a.Job == 0 || t.slurm.snapshot == nil {
		return
	}
	t.steer(a)
	since := a.Refreshed
	if since.IsZero() {
		since = a.Made
	}
	if next := since.Add(t.policy.RefreshEvery); next.After(t.now) {
		t.at(next)
		return
	}
	a.Refreshed = t.now
	var ids []cluster.NodeID
	for _, i := range a.Nodes {
		id := cluster.NodeID{Pool: a.Pool, Index: i}
		if v := t.slurm.node(id); v != nil && v.Flags.Any(cluster.FlagPoweringUp) && t.slurm.held[id] != nil {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		t.intend(cluster.Command{Kind: cluster.CommandRefresh, Nodes: ids, ID: t.requestID("refresh", a.Name, a.Refreshed.Format(time.RFC3339Nano))})
	}
}

// granted follows an allocation whose machines are coming, are there or are going, until the last has gone.
func (t *Turn) granted(p *cluster.Pool, a *cluster.Allocation) {
	left, coming, late := 0, false, false
	end := a.Since.Add(t.policy.ProvisionTimeout)
	for _, i := range a.Nodes {
		id := cluster.NodeID{Pool: a.Pool, Index: i}
		n := t.s.Node(id)
		if n == nil || n.Allocation != a.Name {
			continue
		}
		left++
		if n.Phase != cluster.Requested {
			continue
		}
		switch pool := t.s.Spec.Pool(a.Pool); {
		case pool == nil || !t.demand(pool, n).wanted:
			t.move(n, cluster.Deleting, "no job needs it any more")
			t.say(kindNode, t.s.Name(id), "given back before its machine came: no job needs it any more")
			t.deleting(id, n)
		case a.Method == cluster.ByGradual: // it keeps its place in the queue
			coming = true
		case !end.After(t.now):
			late = true
			t.fail(id, n, "its machine has not come within "+t.policy.ProvisionTimeout.String())
			t.failedNode(id, n)
		default:
			coming = true
			t.at(end)
		}
	}
	if late {
		t.poolFailed(p, &cluster.Problem{Class: cluster.Capacity, Doing: "waiting for the machines of", Resource: a.Name, At: t.now,
			Message: "they have not come within " + t.policy.ProvisionTimeout.String(), Remedy: "nothing needs to be done, they are asked for again"})
	}
	switch {
	case left == 0 && a.Method.OwnGroup():
		if a.Retired == "" {
			a.Retired = "its last machine is gone"
		}
		t.setPhase(a, cluster.Closing)
	case left == 0:
		a.Phase = over
	case coming:
		t.pollAllocation(a)
	}
}

// cancel has the allocation's resize request cancelled, until it is seen to be at an end.
func (t *Turn) cancel(p *cluster.Pool, a *cluster.Allocation) {
	if !t.due(a.Look) {
		return
	}
	p.Calls++ // it counts, and is never refused: an end of a queued request cannot wait
	t.intend(cluster.CancelRequest{Allocation: a.Name, Pool: a.Pool, Zone: a.Zone, Group: a.Group, Name: a.Name,
		ID: t.requestID("cancel", a.Name, itoa(int64(a.Tries)))})
	a.Tries++
	a.Look = t.now.Add(t.policy.poll(a.Since, t.now))
	t.at(a.Look)
}

// closeGroup has the allocation's own group removed, with whatever is still in it, until it is certainly gone.
func (t *Turn) closeGroup(p *cluster.Pool, a *cluster.Allocation) {
	if !t.due(a.Look) {
		return
	}
	if a.Tries%deleteEveryNth == 0 && !t.removing(a.Group) {
		p.Calls++
		t.intend(cluster.DeleteGroup{Allocation: a.Name, Pool: a.Pool, Zone: a.Zone, Group: a.Group,
			ID: t.requestID("ungroup", a.Name, itoa(int64(a.Tries)))})
	}
	a.Tries++
	a.Look = t.now.Add(t.policy.poll(a.Since, t.now))
	t.at(a.Look)
}

// removing reports whether this turn asks for a group's removal already: allocations of a pool's own group share it.
func (t *Turn) removing(group string) bool {
	return slices.ContainsFunc(t.plan.Intents, func(i cluster.Intent) bool {
		d, ok := i.(cluster.DeleteGroup)
		return ok && d.Group == group
	})
}

// deleteEveryNth look at a group that is being removed asks for its removal again.
const deleteEveryNth = 8

// closed notes that an allocation's group is certainly gone, and so are its machines.
func (t *Turn) closed(a *cluster.Allocation) {
	for _, i := range a.Nodes {
		id := cluster.NodeID{Pool: a.Pool, Index: i}
		if n := t.s.Node(id); n != nil && n.Allocation == a.Name {
			t.certainlyGone(id, n)
		}
	}
	t.say(kindAllocation, a.Name, "its managed instance group is removed (%s)", a.Retired)
	a.Phase = over
}

// spend counts a mutating call against the pool's hour, and reports whether there was one left.
func (t *Turn) spend(p *cluster.Pool, a *cluster.Allocation) bool {
	limit := t.policy.CallsPerHour
	if pool := t.s.Spec.Pool(p.ID); pool != nil {
		limit += t.policy.CallsPerNode * pool.ScalingSpec.MaxNodeCount
	}
	if t.now.Sub(p.Hour) >= time.Hour {
		p.Hour, p.Calls = t.now, 0
	}
	if p.Calls < limit {
		p.Calls++
		return true
	}
	next := p.Hour.Add(time.Hour)
	if a.Problem == nil || a.Problem.Class != cluster.Throttle {
		a.Problem = &cluster.Problem{Class: cluster.Throttle, Resource: a.Name, At: t.now,
			Message: "the pool has used up its calls of this hour", Remedy: "look at the timeline for what is failing again and again"}
		t.sayProblem(kindBreaker, p.ID, a.Problem, "pool %s has made %d calls within an hour; it goes on at %s", p.ID, p.Calls, next.Format(time.RFC3339))
	}
	a.Look = next
	t.at(next)
	return false
}

// names are the instance names of an allocation.
func (t *Turn) names(a *cluster.Allocation) []string {
	names := make([]string, len(a.Nodes))
	for i, index := range a.Nodes {
		names[i] = t.s.Name(cluster.NodeID{Pool: a.Pool, Index: index})
	}
	return names
}

// hostlist is nodes of a pool as Slurm would write them.
func (t *Turn) hostlist(pool string, indices []int) string {
	ids := make([]cluster.NodeID, len(indices))
	for i, index := range indices {
		ids[i] = cluster.NodeID{Pool: pool, Index: index}
	}
	return slurm.HostlistOf(t.s.Key.ID, ids)
}
