package slurm

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// scontrol carries out one change on each of some nodes, or none if one of them is unknown. The first refusal is what is
// returned; the other nodes are changed all the same, as scontrol does.
func (c *Controller) scontrol(nodes []string, change func(n *node, now time.Time) error) error {
	return c.do(func(now time.Time) error {
		found := make([]*node, len(nodes))
		for i, name := range nodes {
			if found[i] = c.byName[name]; found[i] == nil {
				return fmt.Errorf("updating node %s: %w", name, ErrNodeName)
			}
		}
		var refused error
		for _, n := range found {
			if err := change(n, now); err != nil {
				refused = errors.Join(refused, fmt.Errorf("updating node %s: %w", n.name, err))
			}
		}
		if refused != nil {
			c.changed(now)
		}
		return refused
	})
}

// Drain is scontrol update state=drain: no new job; what runs goes on.
func (c *Controller) Drain(nodes []string, reason, user string) error {
	if reason == "" {
		return ErrReasonMissing
	}
	return c.scontrol(nodes, func(n *node, now time.Time) error {
		c.drain(n, reason, user, now)
		return nil
	})
}

func (c *Controller) drain(n *node, reason, user string, now time.Time) {
	n.Flags |= cluster.FlagDrain
	n.setReason(reason, user, now)
}

// Down is scontrol update state=down: at once; the job on it is requeued. A node whose slurmd lives comes back by itself.
func (c *Controller) Down(nodes []string, reason, user string) error {
	if reason == "" {
		return ErrReasonMissing
	}
	return c.scontrol(nodes, func(n *node, now time.Time) error {
		c.down(n, reason, user, now)
		return nil
	})
}

func (c *Controller) down(n *node, reason, user string, now time.Time) {
	n.Down = true
	n.setReason(reason, user, now)
	c.failJob(n, now)
}

// Resume is scontrol update state=resume: it ends DOWN and DRAIN, and a power-down at once. It is refused for a node that is
// powered down or powering up and neither DOWN nor DRAIN, and for one that has nothing to be resumed from.
func (c *Controller) Resume(nodes []string) error {
	return c.scontrol(nodes, c.resume)
}

func (c *Controller) resume(n *node, now time.Time) error {
	switch {
	case n.Flags.Has(cluster.FlagPoweringDown):
		n.Flags &^= cluster.FlagPoweringDown
		n.Flags |= cluster.FlagPoweredDown
		n.Booted, n.Released, n.Sticky = time.Time{}, time.Time{}, false
	case n.Down, n.Flags.Any(cluster.FlagDrain | cluster.FlagInvalid):
		n.Idle = now
	default:
		return ErrTransition
	}
	if n.Down && !n.Flags.Any(powerFlags) {
		n.Heard = now // it has SlurmdTimeout to be heard of
	}
	n.Down = false
	n.Flags &^= cluster.FlagDrain | cluster.FlagInvalid | cluster.FlagNotResponding
	n.clearReason()
	return nil
}

// PowerUp is scontrol update state=power_up. On a node that is powering up it resets the clock, and ResumeProgram is
// called again, for no job.
func (c *Controller) PowerUp(nodes []string) error {
	return c.scontrol(nodes, func(n *node, now time.Time) error {
		switch {
		case n.Flags.Has(cluster.FlagPoweringUp):
			c.repeatPowerUp(n, now)
		case n.Flags.Has(cluster.FlagPoweredDown):
			c.powerUp(n, now)
		default:
			return ErrTransition
		}
		return nil
	})
}

// PowerDownForce is scontrol update state=power_down_force: it works from every state, clears a drain and requeues the
// job.
func (c *Controller) PowerDownForce(nodes []string) error {
	return c.scontrol(nodes, func(n *node, now time.Time) error {
		c.powerDownForce(n, now)
		return nil
	})
}

// SetComment is scontrol update jobid=… comment=….
func (c *Controller) SetComment(id int64, text string) error {
	return c.do(func(time.Time) error { return c.comment(id, text) })
}

func (c *Controller) comment(id int64, text string) error {
	j := c.byID[id]
	if j == nil || j.State.Finished() {
		return fmt.Errorf("updating job %d: %w", id, ErrJobID)
	}
	j.Comment = text
	return nil
}

// Reservation keeps jobs off its nodes that might still run when it starts (flags maint and ignore_jobs, users=root, duration
// infinite).
type Reservation struct {
	Name  string    `json:"name"`
	Nodes []string  `json:"nodes"`
	Start time.Time `json:"start"`
}

// Reserve makes a reservation. Overlapping ones are allowed, as are powered-down nodes; a name can be used once.
func (c *Controller) Reserve(r Reservation) error {
	return c.do(func(time.Time) error {
		for _, name := range r.Nodes {
			if c.byName[name] == nil {
				return fmt.Errorf("reserving %s: %w", name, ErrNodeName)
			}
		}
		if r.Name == "" || len(r.Nodes) == 0 || r.Start.IsZero() {
			return ErrReservation
		}
		if slices.ContainsFunc(c.reservations, func(o Reservation) bool { return o.Name == r.Name }) {
			return fmt.Errorf("reservation %s: %w", r.Name, ErrReservationExists)
		}
		r.Start = cluster.Moment(r.Start)
		r.Nodes = slices.Clone(r.Nodes)
		c.reservations = append(c.reservations, r)
		return nil
	})
}

// Unreserve deletes a reservation.
func (c *Controller) Unreserve(name string) error {
	return c.do(func(time.Time) error {
		at := slices.IndexFunc(c.reservations, func(r Reservation) bool { return r.Name == name })
		if at < 0 {
			return fmt.Errorf("reservation %s: %w", name, ErrReservation)
		}
		c.reservations = slices.Delete(c.reservations, at, at+1)
		return nil
	})
}

// open reports whether no reservation keeps the job off the node.
func (c *Controller) open(n *node, j *job, now time.Time) bool {
	for _, r := range c.reservations {
		if !slices.Contains(r.Nodes, n.name) {
			continue
		}
		if j.Spec.TimeLimit == 0 || now.Add(j.Spec.TimeLimit).After(r.Start) {
			return false
		}
	}
	return true
}

// reserved reports whether a reservation of the node has begun.
func (c *Controller) reserved(n *node, now time.Time) bool {
	for _, r := range c.reservations {
		if !r.Start.After(now) && slices.Contains(r.Nodes, n.name) {
			return true
		}
	}
	return false
}
