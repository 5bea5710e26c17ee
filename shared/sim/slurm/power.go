package slurm

import (
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	hostlist "github.com/convoke-hpc/convoke/shared/slurm"
)

// powerUp asks for a powered-down node. ResumeProgram is called when the power-saving thread comes round.
func (c *Controller) powerUp(n *node, now time.Time) {
	n.Flags &^= cluster.FlagPoweredDown
	n.Flags |= cluster.FlagPoweringUp
	n.Requested, n.Repeated, n.WantUp = now, time.Time{}, true
	c.askPower(now)
}

// repeatPowerUp resets the clock of a node that is powering up.
func (c *Controller) repeatPowerUp(n *node, now time.Time) {
	n.Requested, n.Repeated, n.WantAgain = now, now, true
	c.askPower(now)
}

// powerDownForce takes a node down whatever its state. It clears any drain, and requeues the job on it.
func (c *Controller) powerDownForce(n *node, now time.Time) {
	n.Flags &^= cluster.FlagDrain | cluster.FlagInvalid
	n.settleReason()
	n.WantDown, n.WantUp, n.WantAgain = true, false, false
	c.strandJob(n, now)
	c.askPower(now)
}

func (c *Controller) askPower(now time.Time) {
	if c.powerAt.IsZero() {
		c.powerAt = now.Add(c.timing.PowerSave)
	}
}

// power is the power-saving thread: it calls ResumeProgram and SuspendProgram for what has been asked since it last came
// round.
func (c *Controller) power(now time.Time) bool {
	if c.powerAt.IsZero() || c.powerAt.After(now) {
		return false
	}
	c.powerAt = time.Time{}
	var up, again, down []*node
	for _, n := range c.nodes {
		switch {
		case n.WantDown:
			down = append(down, n)
		case n.WantUp:
			up = append(up, n)
		case n.WantAgain:
			again = append(again, n)
		}
		n.WantUp, n.WantAgain, n.WantDown = false, false, false
	}
	c.callSuspend(down, now)
	c.callResume(up, c.resumeJobs(up), now)
	c.callResume(again, nil, now)
	return true
}

// resumeJobs are the configuring jobs that hold some of the nodes, each with all its nodes, as 22.05 writes them into the resume file.
func (c *Controller) resumeJobs(nodes []*node) []events.ResumeJob {
	var jobs []events.ResumeJob
	told := map[int64]bool{0: true}
	for _, n := range nodes {
		j := c.byID[n.Job]
		if told[n.Job] || j == nil || j.State != Configuring {
			continue
		}
		told[n.Job] = true
		jobs = append(jobs, events.ResumeJob{ID: j.ID, Nodes: hostlist.HostlistOf(c.options.Key.ID, j.ids())})
	}
	return jobs
}

func (c *Controller) callResume(nodes []*node, jobs []events.ResumeJob, now time.Time) {
	if len(nodes) == 0 {
		return
	}
	c.spool(events.TypeNodesResume, events.NodesResume{
		Cluster: c.options.Key, Nodes: hostlist.CompressHostlist(names(nodes)), Jobs: jobs, Time: now,
	})
}

// callSuspend begins to power nodes down.
func (c *Controller) callSuspend(nodes []*node, now time.Time) {
	if len(nodes) == 0 {
		return
	}
	for _, n := range nodes {
		n.Flags &^= cluster.FlagPoweringUp | cluster.FlagPoweredDown | cluster.FlagNotResponding
		n.Flags |= cluster.FlagPoweringDown
		n.Released = now
	}
	c.spool(events.TypeNodesSuspend, events.NodesSuspend{
		Cluster: c.options.Key, Nodes: hostlist.CompressHostlist(names(nodes)), Time: now,
	})
}

// suspendIdle powers down the dynamic nodes that have been idle for SuspendTime. A drain stays on a node that is
// suspended.
func (c *Controller) suspendIdle(now time.Time) bool {
	if c.timing.SuspendTime < 0 {
		return false
	}
	var idle []*node
	for _, n := range c.nodes {
		if n.suspendable() && !n.Idle.Add(c.timing.SuspendTime).After(now) {
			idle = append(idle, n)
		}
	}
	c.callSuspend(idle, now)
	return len(idle) > 0
}

// timeouts ends what has taken too long: powering down is over by definition, powering up has failed.
func (c *Controller) timeouts(now time.Time) (changed bool) {
	var failed []*node
	for _, n := range c.nodes {
		if due := c.nodeDue(n); due.IsZero() || due.After(now) {
			continue
		}
		switch {
		case n.Flags.Has(cluster.FlagPoweringUp):
			failed = append(failed, n)
		case n.Flags.Has(cluster.FlagPoweringDown):
			c.poweredDown(n, now)
			changed = true
		}
	}
	for _, n := range failed {
		c.resumeFailed(n, now)
	}
	if len(failed) > 0 {
		c.spool(events.TypeNodesResumeFailed, events.NodesResumeFailed{
			Cluster: c.options.Key, Nodes: hostlist.CompressHostlist(names(failed)), Time: now,
		})
	}
	return changed || len(failed) > 0
}

// poweredDown ends a power-down.
func (c *Controller) poweredDown(n *node, now time.Time) {
	n.Flags &^= cluster.FlagPoweringDown | cluster.FlagNotResponding
	n.Flags |= cluster.FlagPoweredDown
	n.Booted, n.Released = time.Time{}, time.Time{}
	if n.Sticky {
		n.Sticky = false
		c.powerUp(n, now)
	}
}

// resumeFailed gives up a node that has not come within ResumeTimeout.
func (c *Controller) resumeFailed(n *node, now time.Time) {
	n.Down = true
	n.Flags &^= cluster.FlagPoweringUp
	n.Flags |= cluster.FlagPoweredDown | cluster.FlagNotResponding
	n.WantUp, n.WantAgain = false, false
	if n.Reason == "" {
		n.setReason(reasonResumeTimeout, userSlurm, now)
	}
	c.failJob(n, now)
}
