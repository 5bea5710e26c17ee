package slurm

import (
	"cmp"
	"slices"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// backfillDepth is how many jobs behind a blocked one are tried in each partition: bf_max_job_test.
const backfillDepth = 500

// schedule gives nodes to pending jobs: first come, first served in each partition; behind the first job that must wait,
// those that do not delay it.
func (c *Controller) schedule(now time.Time) (changed bool) {
	pass := pass{c: c, now: now, partitions: map[string]*queue{}}
	for _, j := range c.jobs {
		if j.State != Pending {
			continue
		}
		before := j.Reason
		if pass.try(j) || j.Reason != before {
			changed = true
		}
	}
	return changed
}

// pass is one look at the whole queue.
type pass struct {
	c          *Controller
	now        time.Time
	partitions map[string]*queue
}

// queue is a partition as one pass sees it.
type queue struct {
	// vacant are nodes that a job may be given, the best first.
	vacant []*node
	// blocked is the first job that must wait; shadow is when it can start as far as is known, zero for never, and kept are the
	// nodes that it will start on.
	blocked *job
	shadow  time.Time
	kept    map[*node]bool
	tested  int
}

func (p *pass) queue(j *job) *queue {
	q := p.partitions[j.Spec.Partition]
	if q == nil {
		q = &queue{}
		if part := p.c.partitions[j.Spec.Partition]; part != nil {
			for _, n := range part.nodes {
				if n.vacant() {
					q.vacant = append(q.vacant, n)
				}
			}
		}
		slices.SortStableFunc(q.vacant, func(a, b *node) int { return cmp.Compare(effort(a), effort(b)) })
		p.partitions[j.Spec.Partition] = q
	}
	return q
}

// effort ranks nodes: those that are up, those that are on their way, those that must be asked for.
func effort(n *node) int {
	switch {
	case n.Flags.Has(cluster.FlagPoweredDown):
		return 2
	case n.Flags.Has(cluster.FlagPoweringUp):
		return 1
	}
	return 0
}

// try starts a job if it can start now, and says why not otherwise.
func (p *pass) try(j *job) (started bool) {
	if j.Begin.After(p.now) {
		j.Reason = whyBegin
		return false
	}
	q := p.queue(j)
	if q.blocked != nil {
		q.tested++
		j.Reason = whyPriority
		if q.tested > backfillDepth {
			return false
		}
	}
	nodes := p.choose(q, j)
	if nodes == nil {
		if q.blocked == nil {
			p.block(q, j)
		}
		return false
	}
	p.c.allocate(j, nodes, p.now)
	q.vacant = slices.DeleteFunc(q.vacant, func(n *node) bool { return n.Job != 0 })
	return true
}

// choose picks nodes for a job, nil when there are not enough.
func (p *pass) choose(q *queue, j *job) []*node {
	want := j.Spec.Nodes
	if len(q.vacant) < want {
		return nil
	}
	patient := q.blocked != nil && !p.endsBy(j, q.shadow)
	usable := func(n *node) bool {
		return n.Job == 0 && (!patient || !q.kept[n]) && p.c.open(n, j, p.now)
	}
	var chosen []*node
	for _, name := range j.Required {
		n := p.c.byName[name]
		if n == nil || !slices.Contains(q.vacant, n) || !usable(n) {
			return nil
		}
		chosen = append(chosen, n)
	}
	for _, n := range q.vacant {
		if len(chosen) == want {
			break
		}
		if usable(n) && !slices.Contains(j.Required, n.name) {
			chosen = append(chosen, n)
		}
	}
	if len(chosen) < want {
		return nil
	}
	return chosen
}

// endsBy reports whether a job that starts now has certainly ended by then; zero is never.
func (p *pass) endsBy(j *job, then time.Time) bool {
	return then.IsZero() || j.Spec.TimeLimit > 0 && !p.now.Add(j.Spec.TimeLimit).After(then)
}

// block makes a job the one that the others of its partition must not delay: it will start on the nodes that are vacant now and on
// those that come free first, as the limits of the jobs on them say.
func (p *pass) block(q *queue, j *job) {
	q.blocked, q.kept = j, map[*node]bool{}
	j.Reason = whyResources
	type coming struct {
		node *node
		at   time.Time
	}
	var all []coming
	part := p.c.partitions[j.Spec.Partition]
	if part == nil {
		j.Reason = whyUnavailable
		return
	}
	serving := 0
	for _, n := range part.nodes {
		if n.Down || n.Flags.Any(cluster.FlagDrain|cluster.FlagInvalid) {
			continue
		}
		serving++
		if n.vacant() {
			all = append(all, coming{n, p.now})
		} else if at := p.c.freeAt(n); !at.IsZero() {
			all = append(all, coming{n, at})
		}
	}
	if serving < j.Spec.Nodes {
		j.Reason = whyUnavailable // until a person acts it cannot start: nothing is kept for it
		return
	}
	if len(all) < j.Spec.Nodes {
		return
	}
	slices.SortStableFunc(all, func(a, b coming) int { return a.at.Compare(b.at) })
	for _, k := range all[:j.Spec.Nodes] {
		q.kept[k.node] = true
		q.shadow = k.at
	}
}

// freeAt is when a node that is not vacant will be, as far as limits tell; zero when nothing tells.
func (c *Controller) freeAt(n *node) time.Time {
	if n.Flags.Has(cluster.FlagPoweringDown) {
		return n.Released.Add(c.timing.SuspendTimeout)
	}
	j := c.byID[n.Job]
	switch {
	case j == nil:
		return time.Time{}
	case j.State == Completing:
		return j.Until
	case j.Spec.TimeLimit > 0: // a configuring job looks like a running one
		return j.Started.Add(j.Spec.TimeLimit)
	}
	return time.Time{}
}
