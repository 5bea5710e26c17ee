package decide

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// ask forms allocations for the nodes of a pool that need a machine: one for the nodes of one job, in chunks of what one
// request may hold. Nothing is asked for while the pool's breaker is open or its back-off lasts.
func (t *Turn) ask(pool *cluster.NodePool, a *asks) {
	if len(a.jobs) == 0 {
		return
	}
	p := t.s.Pool(pool.ID)
	if until, why := t.mayAsk(p); until.After(t.now) {
		t.at(until)
		t.waits(pool.ID, why)
		return
	}
	slices.Sort(a.jobs) // static nodes, whose job is 0, first; then older jobs
	for _, job := range a.jobs {
		if p.Breaker.State == cluster.BreakerHalfOpen && t.probing(p) {
			t.at(t.now.Add(t.policy.PollMax))
			return
		}
		for chunk := range slices.Chunk(a.nodes[job], t.policy.RequestSize) {
			t.allocate(pool, p, job, slices.Clone(chunk))
		}
	}
}

// mayAsk says until when a pool may not ask for machines, and why.
func (t *Turn) mayAsk(p *cluster.Pool) (time.Time, string) {
	b := &p.Breaker
	switch {
	case b.State == cluster.BreakerOpen && b.Until.After(t.now):
		return b.Until, "its breaker is open until " + b.Until.Format(time.RFC3339) + problemText(b.Problem)
	case b.State == cluster.BreakerOpen:
		b.State = cluster.BreakerHalfOpen
		t.say(kindBreaker, p.ID, "the breaker of pool %s is half open: one attempt is made", p.ID)
	case b.State == cluster.BreakerHalfOpen && t.probing(p):
		return t.now.Add(t.policy.PollMax), "one attempt is under way to see whether its breaker can close"
	}
	return p.Backoff, "the last attempt failed" + problemText(b.Problem)
}

// probing reports whether an attempt is under way that shows whether a half-open breaker can close: one that may still be
// refused. One that waits in the queue has been accepted, and may wait for days.
func (t *Turn) probing(p *cluster.Pool) bool {
	for i := range p.Allocations {
		a := &p.Allocations[i]
		switch a.Phase {
		case cluster.Admitting, cluster.Grouping, cluster.Requesting:
			return true
		case cluster.Queued:
			if a.Request != "ACCEPTED" {
				return true
			}
		case cluster.Granted:
			if t.now.Sub(a.Since) < t.policy.ProvisionTimeout+t.policy.BootTimeout && t.arriving(a) {
				return true
			}
		}
	}
	return false
}

// arriving reports whether one of the allocation's machines is neither there nor going.
func (t *Turn) arriving(a *cluster.Allocation) bool {
	for _, i := range a.Nodes {
		n := t.s.Node(cluster.NodeID{Pool: a.Pool, Index: i})
		if n == nil || n.Allocation != a.Name {
			continue
		}
		switch n.Phase {
		case cluster.Requested, cluster.Provisioning, cluster.Booting:
			return true
		}
	}
	return false
}

func problemText(p *cluster.Problem) string {
	if p == nil {
		return ""
	}
	return ": " + p.Message
}

// waits says once, as a condition of the cluster, why a pool's nodes are not asked for.
func (t *Turn) waits(pool, why string) {
	t.condition("PoolWaiting/"+pool, "True", "Waiting", "nodes of pool "+pool+" are not asked for: "+why)
}

func (t *Turn) allocate(pool *cluster.NodePool, p *cluster.Pool, job int64, indices []int) {
	gens := ""
	for _, i := range indices {
		n := t.s.Node(cluster.NodeID{Pool: pool.ID, Index: i})
		n.Generation++
		gens += "," + itoa(n.Generation)
	}
	name := t.s.Key.ID + "-" + pool.ID + "-" + cluster.Hash(t.s.UID, pool.ID, join(indices), gens, strconv.Itoa(p.Attempt))
	a := cluster.Allocation{Name: name, Pool: pool.ID, Zone: pool.Zone, Group: name, Template: t.templateName(pool.ID),
		Method: method(pool), Nodes: indices, Job: job, Phase: cluster.Admitting, Since: t.now, Made: t.now}
	if a.Method == cluster.ByName {
		a.Group = t.poolGroup(pool.ID)
	}
	if pool.ProvisioningModel == cluster.FlexStart {
		a.Run = pool.FlexStartMaxDuration
	}
	for _, i := range indices {
		n := t.s.Node(cluster.NodeID{Pool: pool.ID, Index: i})
		t.move(n, cluster.Requested, "")
		n.Allocation, n.InstanceID, n.Status, n.LeaseEnd, n.Created = name, 0, "", time.Time{}, time.Time{}
		n.Booted, n.Suspect, n.Broken, n.Job = time.Time{}, "", false, job
	}
	p.Allocations = append(p.Allocations, a)
	t.dropCondition("PoolWaiting/" + pool.ID)
	t.say(kindAllocation, name, "asking for %s of pool %s (%s) %s", t.hostlist(pool.ID, indices), pool.ID, pool.ProvisioningModel, forWhom(job))
}

func forWhom(job int64) string {
	if job == 0 {
		return "since static nodes always exist"
	}
	return fmt.Sprintf("for job %d", job)
}

// shortestRequest is the shortest run that a resize request can carry.
const shortestRequest = 10 * time.Minute

// method is how a pool's machines are obtained.
func method(p *cluster.NodePool) cluster.Method {
	switch {
	case p.ProvisioningModel != cluster.FlexStart:
		return cluster.ByName
	case p.FlexStartMaxDuration.D() < shortestRequest:
		return cluster.ByGradual
	default:
		return cluster.ByRequest
	}
}
