package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// agent is what stands beside slurmctld on the controller: it publishes what the hooks wrote into the spool, and
// snapshots, and carries commands out.
type agent struct {
	boot     time.Time
	numbered int64 // events of this boot so far
	sequence int64 // snapshots of this boot so far
	spool    []spooled

	// tellBy is when a snapshot must be published, told when the last one was.
	tellBy time.Time
	told   time.Time
	// unsaved: the state has changed since it was last saved.
	unsaved bool

	errands []*errand
	answers map[string]answer
	order   []string // ids of answers, the oldest first

	// The last beats of slurmctld's periodic checks that were kept.
	pinged  time.Time
	checked time.Time
}

// spooled is an event that is still to be published, as the file in the spool folder holds it.
type spooled struct {
	ID   string          `json:"id"`
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
	// snapshot is what is told instead of Data.
	snapshot *events.SlurmSnapshot
}

// payload is what is to be told, a new value each time, since whoever publishes it may bring it into another form.
func (e *spooled) payload() (events.Payload, error) {
	if e.snapshot != nil {
		return e.snapshot, nil
	}
	return events.Read(e.Type, e.Data)
}

func (a *agent) start(now time.Time) {
	a.boot, a.pinged, a.checked = now, now, now
	a.answers = map[string]answer{}
	a.tellBy = now
	a.unsaved = true
}

// id is an event id that no other event of this controller has: the boot, and a number.
func (c *Controller) id() string {
	c.agent.numbered++
	return fmt.Sprintf("%d-%d", c.agent.boot.UnixMilli(), c.agent.numbered)
}

// spool keeps an event until it is published.
func (c *Controller) spool(typ string, data any) {
	c.spoolAs(c.id(), typ, data)
}

func (c *Controller) spoolAs(id, typ string, data any) {
	body, err := json.Marshal(data)
	if err != nil {
		c.options.Logger.Error("an event is dropped", "cluster", c.options.Key.ID, "id", id, "error", err)
		return
	}
	c.agent.spool = append(c.agent.spool, spooled{ID: id, Type: typ, Data: body})
	c.agent.unsaved = true
	signal(c.publish)
}

// changed notes that a snapshot would say something else now.
func (c *Controller) changed(now time.Time) {
	c.agent.unsaved = true
	if at := now.Add(c.timing.SnapshotDelay); c.agent.tellBy.After(at) || c.agent.tellBy.IsZero() {
		c.agent.tellBy = at
	}
}

func (c *Controller) snapshotDue(now time.Time) bool {
	return !c.agent.tellBy.IsZero() && !c.agent.tellBy.After(now)
}

// nextSnapshot is when the publisher must be woken. A snapshot that is due is the publisher's business already.
func (c *Controller) nextSnapshot() time.Time {
	if c.snapshotDue(c.now()) {
		return time.Time{}
	}
	return c.agent.tellBy
}

// keepPublishing publishes what there is until the context ends.
func (c *Controller) keepPublishing(ctx context.Context) error {
	for wait := c.timing.Retry; ; {
		err := c.Flush(ctx)
		if ctx.Err() != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.save()
		}
		if err == nil {
			wait = c.timing.Retry
			select {
			case <-ctx.Done():
			case <-c.publish:
			}
			continue
		}
		c.options.Logger.WarnContext(ctx, "the agent will try again", "cluster", c.options.Key.ID, "in", wait, "error", err)
		retry := make(chan struct{})
		timer := c.options.AfterFunc(wait, func() { close(retry) })
		select {
		case <-ctx.Done():
		case <-retry:
		}
		timer.Stop()
		wait = min(2*wait, c.timing.RetryMax)
	}
}

// Flush publishes the spool and the snapshot that is due, each after the state it tells of has been saved. It stops at the
// first failure; what was not published stays.
func (c *Controller) Flush(ctx context.Context) error {
	for {
		e, found, err := c.head()
		if err != nil || !found {
			return err
		}
		if err := c.send(ctx, e); err != nil {
			if invalid := (*events.Invalid)(nil); !errors.As(err, &invalid) {
				return err
			}
			// Nobody would ever take it, and it must not hold back the others.
			c.options.Logger.ErrorContext(ctx, "an event is dropped", "cluster", c.options.Key.ID, "id", e.ID, "error", err)
		}
		c.sent(e)
	}
}

// head is what is to be published next.
func (c *Controller) head() (spooled, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.save(); err != nil {
		return spooled{}, false, err
	}
	if len(c.agent.spool) > 0 {
		return c.agent.spool[0], true, nil
	}
	now := c.now()
	if !c.snapshotDue(now) {
		return spooled{}, false, nil
	}
	c.agent.sequence++
	c.agent.told, c.agent.tellBy = now, now.Add(c.timing.Snapshot)
	signal(c.wake)
	return spooled{ID: c.id(), Type: events.TypeSlurmSnapshot, snapshot: c.snapshot(now)}, true, nil
}

func (c *Controller) send(ctx context.Context, e spooled) error {
	for range c.options.Copies(e.Type, e.ID) {
		data, err := e.payload()
		if err != nil {
			return fmt.Errorf("reading %s from the spool, %w", e.Type, err)
		}
		if err := c.options.Publish(ctx, e.Type, e.ID, data); err != nil {
			if e.snapshot != nil {
				c.mu.Lock()
				c.agent.tellBy = c.agent.told // still due: the next one will say it
				c.mu.Unlock()
			}
			return fmt.Errorf("publishing %s, %w", e.Type, err)
		}
	}
	return nil
}

func (c *Controller) sent(e spooled) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.agent.spool) > 0 && c.agent.spool[0].ID == e.ID {
		c.agent.spool = c.agent.spool[1:]
		c.agent.unsaved = true
	}
}

// save hands the state to whoever keeps it.
func (c *Controller) save() error {
	if c.options.Save == nil || !c.agent.unsaved {
		return nil
	}
	data, err := c.state()
	if err != nil {
		return err
	}
	if err := c.options.Save(data); err != nil {
		return fmt.Errorf("saving the controller's state, %w", err)
	}
	c.agent.unsaved = false
	return nil
}

// Snapshot is what the agent would tell now. Its sequence is that of the last one published.
func (c *Controller) Snapshot() *events.SlurmSnapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.settle(now)
	return c.snapshot(now)
}

func (c *Controller) snapshot(now time.Time) *events.SlurmSnapshot {
	m := &cluster.Snapshot{
		Boot: c.agent.boot, Sequence: c.agent.sequence, Taken: now, Config: c.options.Config,
		Nodes: map[string][]cluster.SlurmNode{},
	}
	for _, n := range c.nodes {
		state, flags := c.look(n, now)
		m.Nodes[n.id.Pool] = append(m.Nodes[n.id.Pool], cluster.SlurmNode{
			Index: n.id.Index, State: state, Flags: flags, Reason: n.Reason, ReasonAt: n.ReasonAt, Booted: n.Booted,
		})
	}
	for _, j := range c.jobs {
		if j.State.Finished() {
			continue
		}
		m.Jobs = append(m.Jobs, cluster.SlurmJob{
			ID: j.ID, State: string(j.State), Partition: j.Spec.Partition, User: j.Spec.User, Name: j.Spec.Name,
			Nodes: j.ids(), Limit: j.Spec.TimeLimit, Submitted: j.Submitted, Started: j.Started, Restarts: j.Restarts,
			Comment: j.Comment, Reason: j.Reason, Requeue: !j.Spec.NoRequeue, WholeNode: j.Spec.WholeNode,
		})
	}
	return events.SnapshotOf(c.options.Key, m)
}

// look is a node's base state and flags as Slurm shows them.
func (c *Controller) look(n *node, now time.Time) (string, cluster.SlurmFlags) {
	flags := n.Flags
	if c.reserved(n, now) {
		flags |= cluster.FlagReserved | cluster.FlagMaint
	}
	j := c.byID[n.Job]
	if j != nil && j.State == Completing {
		flags |= cluster.FlagCompleting
	}
	switch {
	case n.Down:
		return "DOWN", flags
	case j == nil || j.State == Completing:
		return "IDLE", flags
	case !j.Spec.WholeNode:
		return "MIXED", flags
	}
	return "ALLOCATED", flags
}
