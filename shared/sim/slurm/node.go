package slurm

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// The reasons that slurmctld itself gives.
const (
	reasonResumeTimeout = "ResumeTimeout reached"
	reasonNotResponding = "Not responding"
	userSlurm           = "slurm"
)

// node is a node as slurmctld has it.
type node struct {
	id     cluster.NodeID
	name   string
	static bool // excluded from suspension
	nodeState
	slurmd slurmd
}

// nodeState is what the controller's disk keeps of a node.
type nodeState struct {
	Down     bool               `json:"down,omitempty"` // the base state is DOWN
	Flags    cluster.SlurmFlags `json:"flags,omitempty"`
	Reason   string             `json:"reason,omitempty"`
	ReasonBy string             `json:"reasonBy,omitempty"`
	ReasonAt time.Time          `json:"reasonAt,omitzero"`
	Booted   time.Time          `json:"booted,omitzero"`
	// Job holds the node, 0 for none.
	Job int64 `json:"job,omitempty"`
	// Requested is when it was last asked to power up: ResumeTimeout counts from here, and what booted before it is not
	// what was asked for. Repeated is when that request was last repeated.
	Requested time.Time `json:"requested,omitzero"`
	Repeated  time.Time `json:"repeated,omitzero"`
	// Sticky: it registered so soon after a repeated request that the request was kept for its next suspend.
	Sticky bool `json:"sticky,omitempty"`
	// Released is when it began to power down.
	Released time.Time `json:"released,omitzero"`
	// Idle is since when it has had nothing to do.
	Idle time.Time `json:"idle,omitzero"`
	// Heard is when slurmd last answered.
	Heard time.Time `json:"heard,omitzero"`
	// What the power-saving thread has been asked for and has not done yet: to call ResumeProgram, to call it for a
	// repeated request, to power down by force.
	WantUp    bool `json:"wantUp,omitempty"`
	WantAgain bool `json:"wantAgain,omitempty"`
	WantDown  bool `json:"wantDown,omitempty"`
}

// slurmd is what runs on the node's machine; slurmctld learns of it only by messages.
type slurmd struct {
	alive bool
	boot  time.Time
}

const powerFlags = cluster.FlagPoweringUp | cluster.FlagPoweringDown | cluster.FlagPoweredDown

func newNode(clusterID string, id cluster.NodeID, static bool) *node {
	return &node{id: id, name: cluster.NodeName(clusterID, id), static: static, nodeState: freshNode()}
}

// freshNode is a CLOUD node that slurmctld has never heard of.
func freshNode() nodeState {
	return nodeState{Flags: cluster.FlagCloud | cluster.FlagPoweredDown}
}

func compareIDs(a, b cluster.NodeID) int {
	return cmp.Or(strings.Compare(a.Pool, b.Pool), cmp.Compare(a.Index, b.Index))
}

// up reports whether the node is where jobs can run: its slurmd has registered.
func (n *node) up() bool { return !n.Down && !n.Flags.Any(powerFlags) }

// vacant reports whether the scheduler may give the node to a job.
func (n *node) vacant() bool {
	const not = cluster.FlagDrain | cluster.FlagPoweringDown | cluster.FlagNotResponding | cluster.FlagInvalid
	return n.Job == 0 && !n.Down && !n.WantDown && !n.Flags.Any(not)
}

// suspendable reports whether power saving may take the node when it has been idle for long enough.
func (n *node) suspendable() bool {
	return !n.static && n.Job == 0 && n.up() && !n.WantDown && !n.Flags.Has(cluster.FlagNotResponding)
}

// pinged reports whether slurmctld expects the node's slurmd to answer.
func (n *node) pinged() bool { return !n.Flags.Any(powerFlags) }

// awaitsPing reports whether the next ping may change something.
func (n *node) awaitsPing() bool {
	switch {
	case !n.pinged():
		return false
	case n.slurmd.alive:
		return n.Down || n.Flags.Has(cluster.FlagNotResponding)
	}
	return !n.Down || !n.Flags.Has(cluster.FlagNotResponding)
}

// setReason writes a reason unless the node bears the same already, whose time then stays.
func (n *node) setReason(reason, by string, now time.Time) {
	if n.Reason == reason {
		return
	}
	n.Reason, n.ReasonBy, n.ReasonAt = reason, by, now
}

func (n *node) clearReason() { n.Reason, n.ReasonBy, n.ReasonAt = "", "", time.Time{} }

// settleReason forgets the reason of a node that is neither down nor drained any more.
func (n *node) settleReason() {
	if !n.Down && !n.Flags.Any(cluster.FlagDrain|cluster.FlagInvalid) {
		n.clearReason()
	}
}

// nodeDue is when something happens to the node by itself, apart from pings.
func (c *Controller) nodeDue(n *node) time.Time {
	switch {
	case n.Flags.Has(cluster.FlagPoweringUp):
		return n.Requested.Add(c.timing.ResumeTimeout)
	case n.Flags.Has(cluster.FlagPoweringDown):
		return n.Released.Add(c.timing.SuspendTimeout)
	case n.suspendable() && c.timing.SuspendTime >= 0:
		return n.Idle.Add(c.timing.SuspendTime)
	}
	return time.Time{}
}

// Register is the message that slurmd sends once when it starts. Boot is when its machine, or with -b slurmd itself, started.
// As in Slurm, the only answer that slurmd gets is that the message has come: accepted says what became of it.
func (c *Controller) Register(name string, boot time.Time) (accepted bool, err error) {
	return c.register(name, boot, "")
}

// RegisterInvalid is the registration of a machine that has less than its node is configured with; the reason says what, such as
// "gres/gpu count reported lower than configured (0 < 8)".
func (c *Controller) RegisterInvalid(name string, boot time.Time, reason string) (accepted bool, err error) {
	return c.register(name, boot, reason)
}

func (c *Controller) register(name string, boot time.Time, invalid string) (accepted bool, err error) {
	boot = cluster.Moment(boot)
	err = c.do(func(now time.Time) error {
		n := c.byName[name]
		if n == nil {
			return fmt.Errorf("registering %s: %w", name, ErrNodeName)
		}
		n.slurmd = slurmd{alive: true, boot: boot}
		switch {
		case n.Flags.Has(cluster.FlagPoweringDown):
			return nil // ignored until SuspendTimeout
		case n.Flags.Has(cluster.FlagPoweringUp) && boot.Before(n.Requested):
			return nil // not the boot that was asked for: silently ignored
		}
		accepted = true
		c.admit(n, boot, invalid, now)
		return nil
	})
	return accepted, err
}

// admit takes a registration that counts.
func (c *Controller) admit(n *node, boot time.Time, invalid string, now time.Time) {
	rebooted := n.up() && boot.After(n.Booted)
	if n.Flags.Has(cluster.FlagPoweringUp) && !n.Repeated.IsZero() && now.Sub(n.Repeated) <= c.timing.Sticky {
		n.Sticky = true
	}
	wasUp := n.up()
	n.Flags &^= powerFlags | cluster.FlagNotResponding
	n.Down, n.Booted, n.Heard, n.Repeated = false, boot, now, time.Time{}
	n.WantUp, n.WantAgain = false, false
	if !wasUp {
		n.Idle = now
	}
	if invalid != "" {
		n.Flags |= cluster.FlagInvalid | cluster.FlagDrain
		n.setReason(invalid, userSlurm, now)
		c.failJob(n, now)
	} else {
		n.Flags &^= cluster.FlagInvalid
	}
	n.settleReason()
	if j := c.byID[n.Job]; j != nil && rebooted && j.State == Running && j.Started.Before(boot) {
		c.failJob(n, now) // what ran here died with the machine
	}
}

// Reconnect says that a slurmd which registered earlier runs and will answer pings: what a slurmctld that has been started anew
// finds when it asks.
func (c *Controller) Reconnect(name string, boot time.Time) error {
	return c.do(func(now time.Time) error {
		n := c.byName[name]
		if n == nil {
			return fmt.Errorf("reconnecting %s: %w", name, ErrNodeName)
		}
		n.slurmd = slurmd{alive: true, boot: cluster.Moment(boot)}
		if n.pinged() && !n.Down {
			n.Heard = now
		}
		return nil
	})
}

// Unregister says that the node's slurmd is gone, with its machine or without. slurmctld is not told: it will miss it.
func (c *Controller) Unregister(name string) {
	_ = c.do(func(time.Time) error {
		if n := c.byName[name]; n != nil {
			n.slurmd = slurmd{}
		}
		return nil
	})
}

func (c *Controller) pingPeriod() time.Duration {
	return max(c.timing.SlurmdTimeout/3, time.Millisecond)
}

// ping asks every slurmd whether it is there.
func (c *Controller) ping(now time.Time) (changed bool) {
	if !c.onTick(now, c.pingPeriod(), &c.agent.pinged) {
		return false
	}
	for _, n := range c.nodes {
		if n.pinged() {
			changed = c.pingNode(n, now) || changed
		}
	}
	return changed
}

func (c *Controller) pingNode(n *node, now time.Time) (changed bool) {
	if n.slurmd.alive {
		// ReturnToService=2: a DOWN node whose slurmd answers is not DOWN any more, whoever set it so. Only a drain lasts.
		changed = n.Down || n.Flags.Has(cluster.FlagNotResponding)
		if n.Down {
			n.Idle = now
			n.Booted = n.slurmd.boot
		}
		n.Heard, n.Down = now, false
		n.Flags &^= cluster.FlagNotResponding
		n.settleReason()
		return changed
	}
	changed = !n.Flags.Has(cluster.FlagNotResponding)
	n.Flags |= cluster.FlagNotResponding
	if n.Down || now.Sub(n.Heard) < c.timing.SlurmdTimeout {
		return changed
	}
	n.Down = true
	if n.Reason == "" {
		n.setReason(reasonNotResponding, userSlurm, now)
	}
	c.failJob(n, now)
	return true
}
