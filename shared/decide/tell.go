package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// teller gathers what concerns many nodes at once: one command, or one call, for all nodes that need the same.
type teller struct {
	commands []gathered
	removals []removal
}

type gathered struct {
	command cluster.Command
	keys    []string // what each node adds to the command's id
}

type removal struct {
	zone, group string
	nodes       []doomed
}

// doomed is a node whose machine is to be deleted, with what tells this request from an earlier one.
type doomed struct {
	id  cluster.NodeID
	key string
}

// command adds a node to the command of that kind and reason.
func (w *teller) command(c cluster.Command, id cluster.NodeID, key string) {
	for i := range w.commands {
		g := &w.commands[i]
		if g.command.Kind == c.Kind && g.command.Reason == c.Reason && g.command.Dynamic == c.Dynamic && g.command.Job == c.Job {
			g.command.Nodes = append(g.command.Nodes, id)
			g.keys = append(g.keys, key)
			return
		}
	}
	c.Nodes = []cluster.NodeID{id}
	w.commands = append(w.commands, gathered{command: c, keys: []string{key}})
}

// remove adds a node's machine to the call that deletes machines of its group. A machine without a group that we know
// is deleted by itself.
func (w *teller) remove(a *cluster.Allocation, zone string, node doomed) {
	group := ""
	if a != nil {
		group, zone = a.Group, a.Zone
	}
	for i := range w.removals {
		if r := &w.removals[i]; r.zone == zone && r.group == group {
			r.nodes = append(r.nodes, node)
			return
		}
	}
	w.removals = append(w.removals, removal{zone: zone, group: group, nodes: []doomed{node}})
}

// intents are the commands and calls that were gathered.
func (w *teller) intents(t *Turn) []cluster.Intent {
	var out []cluster.Intent
	for _, g := range w.commands {
		slices.SortFunc(g.command.Nodes, compareNodes)
		slices.Sort(g.keys)
		g.command.ID = t.requestID(append([]string{"command", string(g.command.Kind), g.command.Reason}, g.keys...)...)
		out = append(out, g.command)
	}
	for _, r := range w.removals {
		slices.SortFunc(r.nodes, func(a, b doomed) int { return compareNodes(a.id, b.id) })
		if r.group == "" {
			for _, n := range r.nodes {
				out = append(out, cluster.DeleteInstance{Zone: r.zone, Name: t.s.Name(n.id), ID: t.requestID("delete", n.key)})
			}
			continue
		}
		for chunk := range slices.Chunk(r.nodes, t.policy.RequestSize) {
			names := make([]string, len(chunk))
			parts := []string{"delete", r.group}
			for i, n := range chunk {
				names[i] = t.s.Name(n.id)
				parts = append(parts, n.key)
			}
			out = append(out, cluster.DeleteInstances{Pool: chunk[0].id.Pool, Zone: r.zone, Group: r.group, Instances: names,
				ID: t.requestID(parts...)})
		}
	}
	return out
}

func compareNodes(a, b cluster.NodeID) int {
	return cmp.Or(strings.Compare(a.Pool, b.Pool), cmp.Compare(a.Index, b.Index))
}

// tellNode tells Slurm about a node, again and again while its snapshot does not show it.
func (t *Turn) tellNode(kind cluster.CommandKind, id cluster.NodeID, n *cluster.Node) {
	if t.s.Spec.IsLogin(id.Pool) {
		return
	}
	if next := n.Told.Add(t.policy.TellEvery); !n.Told.IsZero() && next.After(t.now) {
		t.at(next)
		return
	}
	n.Told = t.now
	pool := t.s.Spec.Pool(id.Pool)
	t.tell.command(cluster.Command{Kind: kind, Reason: t.reason(kind, n),
		Dynamic: pool != nil && !pool.Static(id.Index)}, id, fmt.Sprintf("%s/%d/%d/%d", t.s.Name(id), n.Generation, n.Since.UnixMilli(), n.Told.UnixMilli()))
	t.at(t.now.Add(t.policy.TellEvery))
}

// reason is what Slurm shows as the node's reason: ours to recognise, with the generation that it was said of.
func (t *Turn) reason(kind cluster.CommandKind, n *cluster.Node) string {
	word := "repair"
	switch kind {
	case cluster.CommandLost:
		word = "lost"
	case cluster.CommandGiveBack:
		word = "unneeded"
	}
	return fmt.Sprintf("%s%s gen=%d %s", cluster.ReasonPrefix, word, n.Generation, oneLine(n.Reason, 120))
}

// giveBack has Slurm end the power-up of a node that has no machine and that nobody needs: by itself Slurm would keep
// it powering up, and so out of use, until ResumeTimeout.
func (t *Turn) giveBack(id cluster.NodeID, n *cluster.Node) {
	v := t.slurm.node(id)
	if v == nil || !v.Flags.Any(cluster.FlagPoweringUp) || !t.slurm.fresh(t.now, t.policy) ||
		!t.slurm.taken().After(n.Asked) || t.slurm.held[id] != nil {
		return
	}
	n.Reason = "no job needs it"
	t.tellNode(cluster.CommandGiveBack, id, n)
}

// reconcileSlurm tells Slurm what its snapshot shows that it does not know. Only what a fresh snapshot shows counts, and only
// if it was taken after the node came into its phase.
func (t *Turn) reconcileSlurm(pool *cluster.NodePool, id cluster.NodeID, n *cluster.Node) {
	if t.s.Spec.IsLogin(pool.ID) || n.Generation == 0 || !t.slurm.fresh(t.now, t.policy) || !t.slurm.taken().After(n.Since) {
		return
	}
	v := t.slurm.node(id)
	if v == nil {
		return
	}
	switch n.Phase {
	case cluster.Absent, cluster.Requested, cluster.Provisioning:
		switch {
		case v.Booted.Before(n.Since) && believed(v):
			if n.Reason == "" {
				n.Reason = "its machine is gone"
			}
			t.tellNode(cluster.CommandLost, id, n)
		case n.Phase == cluster.Absent && !pool.Static(id.Index):
			t.reopen(id, n, v)
		}
	case cluster.Ready, cluster.Booting:
		// A drain of ours that was said of an earlier machine is over. A person's drain is not ours to end.
		if v.Flags.Any(cluster.FlagDrain) && staleReason(v.Reason, n.Generation) {
			t.tellResume(id, n, v.Reason, 0)
		}
	}
}

// believed reports whether Slurm believes in a node's machine. If it is not there, Slurm would find out by itself, after
// SlurmdTimeout, and until then place work on it. (A machine that booted after the node came into its phase is the new one, which
// Slurm saw before we did.)
func believed(v *cluster.SlurmNode) bool {
	return v.Up() || v.State == "ALLOCATED" && v.Flags.Any(cluster.FlagNotResponding)
}

// reopen gives a dynamic node without a machine back to Slurm, which never places work on a node that is drained or down: by us, when
// its machine was replaced, or by slurmctld, whose patience ran out.
func (t *Turn) reopen(id cluster.NodeID, n *cluster.Node, v *cluster.SlurmNode) {
	down := v.State == "DOWN"
	switch {
	case !down && !v.Flags.Any(cluster.FlagDrain):
	case down && v.Reason == resumeTimedOut:
		t.tellResume(id, n, v.Reason, 0)
	case !strings.HasPrefix(v.Reason, cluster.ReasonPrefix) && v.Reason != notResponding: // a person's
	case v.Flags.Any(cluster.FlagPoweredDown):
		t.tellResume(id, n, v.Reason, 0)
	default:
		if n.Reason == "" {
			n.Reason = "its machine is gone"
		}
		t.tellNode(cluster.CommandLost, id, n)
	}
}

// The reasons that slurmctld itself gives to a node that did not come in time, and to one that has gone.
const (
	resumeTimedOut = "ResumeTimeout reached"
	notResponding  = "Not responding"
)

// steer brings the job of a request that still waits back to its nodes, whose power-up clock has run out: another request would lose
// its place in the queue.
func (t *Turn) steer(a *cluster.Allocation) {
	for _, i := range a.Nodes {
		id := cluster.NodeID{Pool: a.Pool, Index: i}
		if n := t.s.Node(id); n != nil && n.Allocation == a.Name && t.timedOut(id) {
			t.tellResume(id, n, resumeTimedOut, a.Job)
			a.Refreshed = t.now
		}
	}
}

func (t *Turn) timedOut(id cluster.NodeID) bool {
	v := t.slurm.node(id)
	return v != nil && v.State == "DOWN" && v.Reason == resumeTimedOut
}

// strayed reports whether the job that an allocation was made for still waits, and was put off its nodes since their power-up
// clock ran out, so that it is to be brought back to them.
func (t *Turn) strayed(a *cluster.Allocation) bool {
	if a.Phase != cluster.Queued || a.Job == 0 || t.slurm.snapshot == nil {
		return false
	}
	waits := func(j cluster.SlurmJob) bool { return j.ID == a.Job && j.State == "PENDING" }
	if !slices.ContainsFunc(t.slurm.snapshot.Jobs, waits) {
		return false
	}
	out := slices.ContainsFunc(a.Nodes, func(i int) bool { return t.timedOut(cluster.NodeID{Pool: a.Pool, Index: i}) })
	return out || !a.Refreshed.IsZero() && t.now.Sub(a.Refreshed) < t.policy.SteerTimeout
}

// tellResume ends a drain that is ours, and only that: the agent checks the reason at the last moment.
func (t *Turn) tellResume(id cluster.NodeID, n *cluster.Node, reason string, job int64) {
	if next := n.Told.Add(t.policy.TellEvery); !n.Told.IsZero() && next.After(t.now) {
		t.at(next)
		return
	}
	n.Told = t.now
	t.tell.command(cluster.Command{Kind: cluster.CommandResume, Reason: reason, Job: job}, id,
		fmt.Sprintf("%s/%d/%d", t.s.Name(id), n.Generation, n.Told.UnixMilli()))
	t.at(t.now.Add(t.policy.TellEvery))
}

// staleReason reports whether a node's reason is ours and was said of an earlier generation.
func staleReason(reason string, generation int64) bool {
	rest, ours := strings.CutPrefix(reason, cluster.ReasonPrefix)
	if !ours {
		return false
	}
	_, rest, found := strings.Cut(rest, "gen=")
	if !found {
		return false
	}
	var gen int64
	if _, err := fmt.Sscanf(rest, "%d", &gen); err != nil {
		return false
	}
	return gen < generation
}
