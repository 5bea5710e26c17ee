package decide

import (
	"slices"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/slurm"
)

// Fold takes in one event: what it says is noted on the records that it is about, and nothing more. An event that has been
// folded in before, that is older than what is known, or that is about an earlier machine of the same name changes
// nothing.
func (t *Turn) Fold(id string, payload any) {
	switch e := payload.(type) {
	case *events.ClusterCreate:
		t.create(id, e)
	case *events.ClusterUpdate:
		t.update(id, e)
	case *events.ClusterDelete:
		t.remove(id)
	case *events.ReportFaulty:
		t.report(id, e)
	case *events.NodesResume:
		t.asked(e)
	case *events.NodesSuspend:
		t.returned(e.Nodes, e.Time)
	case *events.NodesResumeFailed:
		t.resumeFailed(e)
	case *events.CommandDone:
		if !e.OK {
			t.say(kindSlurm, e.Nodes, "Slurm did not carry out %q: %s", e.Kind, e.Message)
		}
	case *events.NodeBoot:
		t.booted(e)
	case *events.NodeHealth:
		t.health(e)
	case *events.NodeNotice:
		t.suspect(e.Node, e.InstanceID, "the machine was told: "+e.Notice)
	case *events.InstanceLost:
		why := e.Method
		if e.Message != "" {
			why += ": " + e.Message
		}
		t.suspect(e.Name, e.InstanceID, why)
	}
	// Every other type only wakes: to be looked at is all that it asks for.
}

// live reports whether the cluster is one whose nodes events may be about.
func (t *Turn) live() bool {
	switch t.s.Phase {
	case cluster.PhaseNone, cluster.PhaseDeleted, cluster.PhaseStopping:
		return false
	}
	return t.s.Spec != nil
}

// eachNode calls f for the nodes of a hostlist that the spec has; the login pool's are not Slurm's.
func (t *Turn) eachNode(hostlist string, f func(cluster.NodeID, *cluster.Node)) {
	if !t.live() {
		return
	}
	ids, foreign, err := slurm.Nodes(t.s.Key.ID, hostlist)
	if err != nil {
		t.say(kindSlurm, "", "a list of nodes from Slurm cannot be read: %v", err)
		return
	}
	for _, id := range ids {
		pool := t.s.Spec.Pool(id.Pool)
		if pool == nil || t.s.Spec.IsLogin(id.Pool) || id.Index >= pool.ScalingSpec.MaxNodeCount {
			foreign = append(foreign, t.s.Name(id))
			continue
		}
		f(id, t.s.EnsureNode(id))
	}
	if len(foreign) > 0 {
		t.say(kindSlurm, foreign[0], "Slurm named %d node(s) that this cluster does not have, %s first", len(foreign), foreign[0])
	}
}

func (t *Turn) asked(e *events.NodesResume) {
	if !t.live() {
		return
	}
	job := map[cluster.NodeID]int64{}
	for _, j := range e.Jobs {
		ids, _, err := slurm.Nodes(t.s.Key.ID, j.Nodes)
		if err != nil {
			continue // the nodes themselves are in e.Nodes; only the grouping by job is lost
		}
		for _, id := range ids {
			job[id] = j.ID
		}
	}
	at := cluster.Moment(e.Time)
	t.eachNode(e.Nodes, func(id cluster.NodeID, n *cluster.Node) {
		// A call without jobs is Slurm's own repetition (after a refresh of its clock): it asks for nothing by itself.
		if at.After(n.Asked) && len(e.Jobs) > 0 {
			n.Asked, n.Job = at, job[id]
		}
	})
}

func (t *Turn) returned(hostlist string, when time.Time) {
	at := cluster.Moment(when)
	t.eachNode(hostlist, func(_ cluster.NodeID, n *cluster.Node) {
		if at.After(n.Returned) {
			n.Returned = at
		}
	})
}

// resumeFailed notes that Slurm gave up waiting. The job that waited is requeued and will ask again; what it asked for is
// over, unless a snapshot shows a job on the node all the same, or its request waits in the queue: then the job is steered back
// to it.
func (t *Turn) resumeFailed(e *events.NodesResumeFailed) {
	at := cluster.Moment(e.Time)
	t.eachNode(e.Nodes, func(id cluster.NodeID, n *cluster.Node) {
		if at.After(n.Returned) && at.After(n.Asked) {
			if a := t.lookup(id.Pool, n.Allocation); a == nil || a.Phase != cluster.Queued || a.Job == 0 {
				n.Returned = at
			}
			t.say(kindNode, t.s.Name(id), "Slurm stopped waiting for it (ResumeTimeout)")
		}
	})
}

// machine finds the record that an instance's name stands for: a node's, or the controller's resource.
func (t *Turn) machine(name string) (cluster.NodeID, *cluster.Node, *cluster.Resource) {
	if !t.live() {
		return cluster.NodeID{}, nil, nil
	}
	if name == cluster.ControllerName(t.s.Key.ID) {
		return cluster.NodeID{}, nil, t.s.Resource(cluster.KindInstance, roleController)
	}
	id, node, ok := cluster.ParseNodeName(name)
	if !ok || id != t.s.Key.ID {
		return cluster.NodeID{}, nil, nil
	}
	return node, t.s.Node(node), nil
}

// attributed reports whether what a node claims is about the machine that its record stands for. When that machine has not
// been seen yet, the claim waits for this turn's look at the cloud: again is then called once more. Claims about any other
// machine are history, or lies.
func (t *Turn) attributed(n *cluster.Node, instance uint64, again func()) bool {
	if n.InstanceID == 0 && (n.Phase == cluster.Requested || n.Phase == cluster.Provisioning) && !t.decided {
		t.claims = append(t.claims, again)
		return false
	}
	return n.InstanceID != 0 && n.InstanceID == instance && n.Phase.Machine()
}

// settleClaims takes in the claims that waited for the cloud to be looked at.
func (t *Turn) settleClaims() {
	t.decided = true
	for _, again := range t.claims {
		again()
	}
	t.claims = nil
}

// booted takes in a machine's report of the end of its start-up.
func (t *Turn) booted(e *events.NodeBoot) {
	id, n, controller := t.machine(e.Node)
	switch {
	case controller != nil:
		t.controllerBooted(controller, e)
	case n == nil || !t.attributed(n, e.InstanceID, func() { t.booted(e) }):
	case e.OK && n.Booted.IsZero():
		n.Booted, n.Look = t.now, t.now
	case !e.OK && (n.Phase == cluster.Provisioning || n.Phase == cluster.Booting):
		t.failStart(id, n, "its start-up failed: "+oneLine(e.Reason, 300))
	}
}

// health takes in a node's health report. Healthy and warning reports are noted by the timeline alone.
func (t *Turn) health(e *events.NodeHealth) {
	id, n, _ := t.machine(e.Node)
	if n == nil || !t.attributed(n, e.InstanceID, func() { t.health(e) }) {
		return
	}
	why := oneLine(e.Check+": "+e.Evidence, 300)
	switch e.Verdict {
	case events.Warning:
		t.say(kindNode, e.Node, "health warning, %s", why)
	case events.Degraded:
		t.drain(id, n, "health check "+why, false)
	case events.Broken:
		t.drain(id, n, "health check "+why, true)
	}
}

// suspect notes a reason to look at a machine. Whether anything happened to it is for the observation to say.
func (t *Turn) suspect(name string, instance uint64, why string) {
	_, n, controller := t.machine(name)
	switch {
	case controller != nil:
		if controller.Found.InstanceID == instance {
			controller.Look = t.now
			t.s.Seen = time.Time{} // list the instances now
		}
	case n != nil && t.attributed(n, instance, func() {}) && n.Phase != cluster.Deleting: // an unseen machine is looked at anyway
		if n.Suspect == "" {
			n.Suspect = oneLine(why, 200)
		}
		n.Look = t.now
	}
}

// report takes in a person's request to replace one node.
func (t *Turn) report(op string, e *events.ReportFaulty) {
	if t.handled(op) {
		return
	}
	id, n, _ := t.machine(e.Node)
	switch {
	case n == nil || !n.Phase.Machine():
		t.refuse(op, cluster.VerbReport, &cluster.Problem{Class: cluster.NotFound, Resource: e.Node,
			Message: "the cluster has no such node, or the node has no machine now"})
	case e.Host:
		t.refuse(op, cluster.VerbReport, &cluster.Problem{Class: cluster.Configuration, Resource: e.Node,
			Message: "reporting a host is possible only for machines bound to a reservation",
			Remedy:  "send the request without reportFaultyHost, and the node is deleted and made anew"})
	default:
		t.drain(id, n, "reported as faulty: "+oneLine(e.Reason, 200), true)
		t.finish(op, cluster.VerbReport, "the node is being replaced")
	}
}

// handled reports whether an operation was carried to an end before, and remembers it if not.
func (t *Turn) handled(op string) bool {
	if slices.Contains(t.s.Handled, op) {
		return true
	}
	t.s.Handled = append(t.s.Handled, op)
	if n := len(t.s.Handled); n > maxHandled {
		t.s.Handled = slices.Clone(t.s.Handled[n-maxHandled:])
	}
	return false
}

// maxHandled is how many ended operations a cluster remembers.
const maxHandled = 100

// oneLine makes text from outside fit for a record: no line breaks or control characters, and bounded.
func oneLine(s string, most int) string {
	out := make([]rune, 0, min(len(s), most))
	for _, r := range s {
		if len(out) == most {
			return string(out) + "…"
		}
		if r < ' ' || r == 0x7f {
			r = ' '
		}
		out = append(out, r)
	}
	return string(out)
}
