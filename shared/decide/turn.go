package decide

import (
	"fmt"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/slurm"
)

// Turn is one step of one cluster. Its methods are called in this order: Fold, Settle and, after Query, Observe, each any
// number of times; then Decide, once. The state that it was begun with is changed in place.
type Turn struct {
	s      *cluster.State
	now    time.Time
	policy Policy

	timeline   []cluster.Entry
	operations []cluster.Operation
	plan       Plan
	tell       teller
	slurm      slurmView
	places     map[string]int
	claims     []func() // of machines that have not been seen yet
	decided    bool

	failedStarts []string // pools in which a machine did not come to work

	query  cluster.Query           // what this turn has had looked at
	looked map[cluster.NodeID]bool // machines that this turn has had looked at by themselves
	raised map[cluster.NodeID]bool // machines that this turn's list has raised a suspicion of
}

// Plan is what a turn decided.
type Plan struct {
	// Intents are to be carried out once the state is saved, in any order, side by side.
	Intents []cluster.Intent
	// Look is when the cluster must be looked at next, whatever happens; zero for a cluster at its end.
	Look time.Time
	// Timeline and Operations are to be saved with the state.
	Timeline   []cluster.Entry
	Operations []cluster.Operation
	// Forget says that there is nothing to know about this cluster.
	Forget bool
}

// Begin begins a turn at a time.
func Begin(s *cluster.State, now time.Time, p Policy) *Turn {
	t := &Turn{s: s, now: cluster.Moment(now), policy: p}
	t.slurm.index(s)
	return t
}

// Decide moves the records to where the facts put them and says what they need now.
func (t *Turn) Decide() Plan {
	t.settleClaims()
	switch t.s.Phase {
	case cluster.PhaseNone:
		t.plan.Forget = true
	case cluster.PhaseDeleted:
		// A tombstone rests until its store forgets it.
	case cluster.PhaseStopping:
		t.stop()
	default:
		t.resources()
		t.nodes()
		t.allocations()
		t.orphans()
		t.phase()
		t.lookAgain(t.s.Seen, t.policy.SweepEvery, t.query.Instances)
		t.lookAgain(t.s.Swept, t.policy.OrphanEvery, t.query.Sweep)
	}
	t.plan.Intents = append(t.plan.Intents, t.tell.intents(t)...)
	t.plan.Timeline, t.plan.Operations = t.told(), t.operations
	return t.plan
}

// lookup finds an allocation by name; nil when the pool has none of that name. A pool may have hundreds of them, and every node asks
// for its own, so their places are remembered, and checked when they are used.
func (t *Turn) lookup(pool, name string) *cluster.Allocation {
	p := t.s.Pools[pool]
	if p == nil || name == "" {
		return nil
	}
	if i, known := t.places[name]; known && i < len(p.Allocations) && p.Allocations[i].Name == name {
		return &p.Allocations[i]
	}
	if t.places == nil {
		t.places = map[string]int{}
	}
	var found *cluster.Allocation
	for i := range p.Allocations {
		t.places[p.Allocations[i].Name] = i
		if p.Allocations[i].Name == name {
			found = &p.Allocations[i]
		}
	}
	return found
}

// at makes sure that the cluster is looked at at that time at the latest.
func (t *Turn) at(when time.Time) {
	if t.plan.Look.IsZero() || when.Before(t.plan.Look) {
		t.plan.Look = when
	}
}

// lookAgain sees to it that a look at everything is repeated. One that has just failed, or was not complete, is repeated after a
// pause: an outage may last for hours.
func (t *Turn) lookAgain(last time.Time, every time.Duration, asked bool) {
	next := last.Add(every)
	if asked && !next.After(t.now) {
		next = t.now.Add(t.policy.poll(last, t.now))
	}
	t.at(next)
}

// due reports whether a record's time has come, and sees to it that it will.
func (t *Turn) due(look time.Time) bool {
	if look.After(t.now) {
		t.at(look)
		return false
	}
	return true
}

// intend adds an intent.
func (t *Turn) intend(i cluster.Intent) { t.plan.Intents = append(t.plan.Intents, i) }

// say adds a line to the timeline.
func (t *Turn) say(kind, about, format string, args ...any) {
	t.timeline = append(t.timeline, cluster.Entry{At: t.now, Kind: kind, About: about, Text: fmt.Sprintf(format, args...)})
}

// sayProblem adds a line about a failure to the timeline.
func (t *Turn) sayProblem(kind, about string, p *cluster.Problem, format string, args ...any) {
	t.timeline = append(t.timeline, cluster.Entry{At: t.now, Kind: kind, About: about, Text: fmt.Sprintf(format, args...), Problem: p})
}

// toldTogether is how many nodes may have the same line of a turn each for themselves.
const toldTogether = 20

// told is the turn's timeline. What is the same for many nodes is one line: thousands that change at once would be more than a
// person can read, or a commit can hold.
func (t *Turn) told() []cluster.Entry {
	if len(t.timeline) <= toldTogether {
		return t.timeline
	}
	same := map[string][]cluster.NodeID{}
	for i := range t.timeline {
		if id, ok := t.aboutNode(&t.timeline[i]); ok {
			same[t.timeline[i].Text] = append(same[t.timeline[i].Text], id)
		}
	}
	out := make([]cluster.Entry, 0, len(t.timeline))
	for _, e := range t.timeline {
		ids := same[e.Text]
		if _, ok := t.aboutNode(&e); ok && len(ids) > toldTogether {
			e.About = slurm.HostlistOf(t.s.Key.ID, ids)
			same[e.Text] = nil
		} else if ok && len(ids) == 0 {
			continue // told with the first of them
		}
		out = append(out, e)
	}
	return out
}

func (t *Turn) aboutNode(e *cluster.Entry) (cluster.NodeID, bool) {
	if e.Kind != kindNode || e.Problem != nil {
		return cluster.NodeID{}, false
	}
	_, id, ok := cluster.ParseNodeName(e.About)
	return id, ok
}

// Kinds of timeline entries.
const (
	kindCluster    = "cluster"
	kindRequest    = "request"
	kindResource   = "resource"
	kindAllocation = "allocation"
	kindNode       = "node"
	kindBreaker    = "breaker"
	kindOrphan     = "orphan"
	kindSlurm      = "slurm"
)

// Notes is a plan that decides nothing: what was folded in is kept, and the cluster is to be looked at now.
func (t *Turn) Notes() Plan {
	return Plan{Timeline: t.told(), Operations: t.operations, Look: t.now}
}
