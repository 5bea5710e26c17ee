package slurm

import (
	"fmt"
	"strings"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	hostlist "github.com/convoke-hpc/convoke/shared/slurm"
)

// userAgent is whom slurmctld names as the author of what the agent does: it runs scontrol as root.
const userAgent = "root"

// errand is a command that is under way.
type errand struct {
	Command events.SlurmCommand `json:"command"`
	// Waiting are nodes that were asked to power down by force and are resumed as soon as they do.
	Waiting []waiting `json:"waiting,omitempty"`
	Notes   []note    `json:"notes,omitempty"`
	Failed  bool      `json:"failed,omitempty"`
}

// waiting is a node on its way to powered down. Drain and By are a person's drain, which the way there clears and which is set
// again at its end.
type waiting struct {
	Node  string `json:"node"`
	Drain string `json:"drain,omitempty"`
	By    string `json:"by,omitempty"`
}

// note is what is to be said of some nodes.
type note struct {
	Text  string   `json:"text"`
	Nodes []string `json:"nodes,omitempty"`
}

// answer is what came of a command.
type answer struct {
	EventID string             `json:"eventId"`
	Done    events.CommandDone `json:"done"`
}

// keptAnswers is how many commands are remembered, to tell a duplicate from a new one.
const keptAnswers = 2000

// Command carries a command out, once however often it comes; what came of it is published as events.CommandDone. Conditions are
// checked here, at the last moment: what was decided from a snapshot may no longer be so. A node that a command finds
// otherwise is left alone, which the answer says and which is no failure.
func (c *Controller) Command(cmd events.SlurmCommand) {
	_ = c.do(func(now time.Time) error {
		if a, known := c.agent.answers[cmd.ID]; known {
			c.spoolAs(a.EventID, events.TypeCommandDone, a.Done)
			return nil
		}
		for _, e := range c.agent.errands {
			if e.Command.ID == cmd.ID {
				return nil
			}
		}
		e := &errand{Command: cmd}
		c.begin(e, now)
		if len(e.Waiting) > 0 {
			c.agent.errands = append(c.agent.errands, e)
			return nil
		}
		c.answer(e, now)
		return nil
	})
}

// begin does what can be done at once.
func (c *Controller) begin(e *errand, now time.Time) {
	cmd := e.Command
	if cmd.Cluster != c.options.Key {
		e.Command.Nodes = "" // an answer is about our own nodes
		e.fail("this is the controller of %s, not of %s", c.options.Key, cmd.Cluster)
		return
	}
	if !cmd.Expires.IsZero() && !now.Before(cmd.Expires) {
		e.fail("it came at %s, after it had expired at %s", now.Format(time.RFC3339), cmd.Expires.UTC().Format(time.RFC3339))
		return
	}
	kind := cluster.CommandKind(cmd.Kind)
	if kind == cluster.CommandComment {
		if err := c.comment(cmd.Job, cmd.Reason); err != nil {
			e.fail("%v", err)
		}
		return
	}
	carry := c.carrier(kind)
	if carry == nil {
		e.fail("%q is not a command that this agent knows", cmd.Kind)
		return
	}
	ids, foreign, err := hostlist.Nodes(c.options.Key.ID, cmd.Nodes)
	if err != nil {
		e.Command.Nodes = ""
		e.fail("%v", err)
		return
	}
	for _, id := range ids {
		n := c.byName[cluster.NodeName(c.options.Key.ID, id)]
		if n == nil {
			foreign = append(foreign, cluster.NodeName(c.options.Key.ID, id))
			continue
		}
		carry(e, n, now)
	}
	if kind == cluster.CommandResume && cmd.Job != 0 {
		c.carrySteer(e, ids)
	}
	for _, name := range foreign {
		e.Failed = true
		e.note(name, "slurmctld does not know it")
	}
}

// carrier is what a kind of command does with one node.
func (c *Controller) carrier(kind cluster.CommandKind) func(*errand, *node, time.Time) {
	switch kind {
	case cluster.CommandLost:
		return c.carryLost
	case cluster.CommandDrain:
		return c.carryDrain
	case cluster.CommandEvict:
		return c.carryEvict
	case cluster.CommandGiveBack:
		return c.carryGiveBack
	case cluster.CommandResume:
		return c.carryResume
	case cluster.CommandRefresh:
		return c.carryRefresh
	}
	return nil
}

// carryLost: the machine is gone. A dynamic node ends powered down, a static one DOWN until its new machine registers.
func (c *Controller) carryLost(e *errand, n *node, now time.Time) {
	if n.up() && n.Booted.After(e.Command.Time) {
		e.note(n.name, "left alone: a newer machine has registered")
		return
	}
	person := n.personsDrain()
	reason := e.Command.Reason
	if person {
		reason = n.Reason // what a person wrote stays
	}
	if n.Flags.Any(cluster.FlagPoweredDown) && !n.Down && n.Job == 0 {
		e.note(n.name, "left alone: powered down already")
		return
	}
	c.down(n, reason, n.reasonBy(person), now)
	if e.Command.Dynamic {
		c.towardsPoweredDown(e, n, now)
	}
}

// carryGiveBack: nobody needs the node that is powering up.
func (c *Controller) carryGiveBack(e *errand, n *node, now time.Time) {
	switch {
	case n.Job != 0:
		e.note(n.name, fmt.Sprintf("left alone: job %d holds it", n.Job))
	case n.Flags.Any(cluster.FlagPoweringUp):
		c.towardsPoweredDown(e, n, now)
	case n.Down && n.Flags.Any(cluster.FlagPoweredDown) && n.Reason == reasonResumeTimeout:
		c.attempt(e, n, now)
	case n.Flags.Any(cluster.FlagPoweredDown | cluster.FlagPoweringDown):
		// nothing to do
	default:
		e.note(n.name, "left alone: it is not powering up")
	}
}

// towardsPoweredDown begins the only way there is to a powered-down node without waiting for a timeout: power_down_force, and
// resume when it powers down.
func (c *Controller) towardsPoweredDown(e *errand, n *node, now time.Time) {
	w := waiting{Node: n.name}
	if n.personsDrain() {
		w.Drain, w.By = n.Reason, n.ReasonBy
	}
	c.powerDownForce(n, now)
	e.Waiting = append(e.Waiting, w)
}

// carryDrain: no new work. A person's drain is drain enough, and keeps its reason.
func (c *Controller) carryDrain(e *errand, n *node, now time.Time) {
	if n.personsDrain() {
		e.note(n.name, "drained already, by a person")
		return
	}
	c.drain(n, e.Command.Reason, userAgent, now)
}

// carryEvict: drain, and take the job off. The node comes back from DOWN when its slurmd lives; the drain stays.
func (c *Controller) carryEvict(e *errand, n *node, now time.Time) {
	c.carryDrain(e, n, now)
	c.down(n, n.Reason, n.ReasonBy, now)
}

// carryResume ends a drain or a down, only if its reason is ours or slurmctld's own, and begins as was said.
func (c *Controller) carryResume(e *errand, n *node, now time.Time) {
	switch {
	case !n.Down && !n.Flags.Any(cluster.FlagDrain):
		e.note(n.name, "neither down nor drained")
	case e.Command.Reason == "" || !strings.HasPrefix(n.Reason, e.Command.Reason) || !ours(n.Reason):
		e.note(n.name, fmt.Sprintf("left alone: its reason is %q", n.Reason))
	default:
		c.attempt(e, n, now)
	}
}

// carrySteer has a pending job start now, on the nodes that were resumed for it: scontrol update jobid=N StartTime=now
// ReqNodeList=…, which steers only a pending job.
func (c *Controller) carrySteer(e *errand, ids []cluster.NodeID) {
	j := c.byID[e.Command.Job]
	if j == nil || j.State != Pending {
		e.fail("job %d is not pending", e.Command.Job)
		return
	}
	j.Begin, j.Required = time.Time{}, nil
	for _, id := range ids {
		n := c.byName[cluster.NodeName(c.options.Key.ID, id)]
		if n != nil && n.vacant() && len(j.Required) < j.Spec.Nodes {
			j.Required = append(j.Required, n.name)
		}
	}
}

// attempt resumes a node and notes a refusal.
func (c *Controller) attempt(e *errand, n *node, now time.Time) {
	if err := c.resume(n, now); err != nil {
		e.Failed = true
		e.note(n.name, err.Error())
	}
}

// carryRefresh resets the clock of a node that a waiting job needs, and of no other: it would keep the others from their
// end.
func (c *Controller) carryRefresh(e *errand, n *node, now time.Time) {
	j := c.byID[n.Job]
	switch {
	case !n.Flags.Has(cluster.FlagPoweringUp):
		e.note(n.name, "left alone: it is not powering up")
	case j == nil || j.State != Configuring:
		e.note(n.name, "left alone: no configuring job holds it")
	default:
		c.repeatPowerUp(n, now)
	}
}

// errands goes on with commands whose nodes have begun to power down.
func (c *Controller) errands(now time.Time) (changed bool) {
	var open []*errand
	for _, e := range c.agent.errands {
		var still []waiting
		for _, w := range e.Waiting {
			n := c.byName[w.Node]
			switch {
			case n == nil:
			case n.Flags.Has(cluster.FlagPoweringDown):
				c.attempt(e, n, now)
				if w.Drain != "" {
					c.drain(n, w.Drain, w.By, now)
				}
				changed = true
			case n.WantDown:
				still = append(still, w)
			default:
				e.note(n.name, "changed by somebody else on the way to powered down")
				changed = true
			}
		}
		e.Waiting = still
		if len(still) > 0 {
			open = append(open, e)
			continue
		}
		c.answer(e, now)
		changed = true
	}
	c.agent.errands = open
	return changed
}

// answer tells what came of a command, and remembers it.
func (c *Controller) answer(e *errand, now time.Time) {
	a := answer{EventID: c.id(), Done: events.CommandDone{
		Cluster: c.options.Key, Command: e.Command.ID, Kind: e.Command.Kind, Nodes: e.Command.Nodes, Job: e.Command.Job,
		OK: !e.Failed, Message: e.message(), Time: now,
	}}
	c.agent.answers[e.Command.ID] = a
	c.agent.order = append(c.agent.order, e.Command.ID)
	if len(c.agent.order) > keptAnswers {
		delete(c.agent.answers, c.agent.order[0])
		c.agent.order = c.agent.order[1:]
	}
	c.spoolAs(a.EventID, events.TypeCommandDone, a.Done)
}

func (e *errand) fail(format string, args ...any) {
	e.Failed = true
	e.Notes = append(e.Notes, note{Text: fmt.Sprintf(format, args...)})
}

func (e *errand) note(node, text string) {
	for i := range e.Notes {
		if e.Notes[i].Text == text {
			e.Notes[i].Nodes = append(e.Notes[i].Nodes, node)
			return
		}
	}
	e.Notes = append(e.Notes, note{Text: text, Nodes: []string{node}})
}

// message is all notes in one line: "c1-a-[0-1] left alone: …; c1-a-7 …".
func (e *errand) message() string {
	parts := make([]string, len(e.Notes))
	for i, n := range e.Notes {
		parts[i] = strings.TrimSpace(hostlist.CompressHostlist(n.Nodes) + " " + n.Text)
	}
	return strings.Join(parts, "; ")
}

// personsDrain reports whether a person has drained the node: what they wrote is not ours to change.
func (n *node) personsDrain() bool {
	return n.Flags.Has(cluster.FlagDrain) && !n.Flags.Has(cluster.FlagInvalid) && !ours(n.Reason)
}

// reasonBy is whom the node's reason is to name.
func (n *node) reasonBy(person bool) string {
	if person {
		return n.ReasonBy
	}
	return userAgent
}

// ours reports whether a reason was written by us or by slurmctld itself, and not by a person.
func ours(reason string) bool {
	return strings.HasPrefix(reason, cluster.ReasonPrefix) || reason == reasonResumeTimeout || reason == reasonNotResponding
}
