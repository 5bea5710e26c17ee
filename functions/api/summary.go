package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/slurm"
	"github.com/convoke-hpc/convoke/shared/store"
)

// Summary is a cluster as those see it who keep it: not the product's resource, but what is recorded and what is in motion. It is as
// long as there are different things to say, whatever the number of nodes.
type Summary struct {
	Name       string              `json:"name"`
	Phase      cluster.Phase       `json:"phase"`
	Problem    *cluster.Problem    `json:"problem,omitempty"`
	Created    time.Time           `json:"created,omitzero"`
	Started    time.Time           `json:"started,omitzero"` // first time RUNNING
	Conditions []cluster.Condition `json:"conditions"`
	// Resources are those of the cluster itself that are not ready.
	Resources []cluster.Resource `json:"resources"`
	Pools     []PoolSummary      `json:"pools"`
	// SnapshotTaken is when Slurm told of the jobs.
	SnapshotTaken time.Time    `json:"snapshotTaken,omitzero"`
	Jobs          []JobSummary `json:"jobs"`
}

// PoolSummary is one pool.
type PoolSummary struct {
	ID                string                    `json:"id"`
	Login             bool                      `json:"login,omitempty"`
	MachineType       string                    `json:"machineType"`
	ProvisioningModel cluster.ProvisioningModel `json:"provisioningModel"`
	MinNodeCount      int                       `json:"minNodeCount"`
	MaxNodeCount      int                       `json:"maxNodeCount"`
	// Nodes are grouped by phase, in the order in which nodes pass them. Nodes without a machine are left out.
	Nodes       []NodeGroup          `json:"nodes"`
	Allocations []cluster.Allocation `json:"allocations"`
	Breaker     cluster.Breaker      `json:"breaker,omitzero"`
}

// NodeGroup are the nodes of a pool that are in one phase for one reason.
type NodeGroup struct {
	Phase  cluster.NodePhase `json:"phase"`
	Reason string            `json:"reason,omitempty"`
	Count  int               `json:"count"`
	Nodes  string            `json:"nodes"` // hostlist
	// Since is when the first of them came into the phase, LeaseEnd when the first lease among them ends.
	Since    time.Time `json:"since,omitzero"`
	LeaseEnd time.Time `json:"leaseEnd,omitzero"`
}

// JobSummary is a job that is not finished.
type JobSummary struct {
	ID        int64     `json:"id"`
	State     string    `json:"state"`
	Partition string    `json:"partition,omitempty"`
	User      string    `json:"user,omitempty"`
	Name      string    `json:"name,omitempty"`
	Nodes     string    `json:"nodes,omitempty"` // hostlist
	Reason    string    `json:"reason,omitempty"`
	Comment   string    `json:"comment,omitempty"`
	Submitted time.Time `json:"submitted,omitzero"`
	Started   time.Time `json:"started,omitzero"`
	Restarts  int       `json:"restarts,omitempty"`
}

func (a *api) summary(r *http.Request) (any, error) {
	k, err := a.find(r)
	if err != nil {
		return nil, err
	}
	s, err := a.State(r.Context(), k)
	if errors.Is(err, store.ErrNoCluster) {
		return nil, problem(codeNotFound, "there is no cluster %s", k)
	}
	if err != nil {
		return nil, fmt.Errorf("reading cluster %s, %w", k, err)
	}
	return Summarize(s), nil
}

// Summarize makes the summary of a cluster.
func Summarize(s *cluster.State) Summary {
	out := Summary{
		Name: s.Key.String(), Phase: s.Phase, Problem: s.Problem, Created: s.Created, Started: s.Started,
		Conditions: append([]cluster.Condition{}, s.Conditions...), Resources: []cluster.Resource{}, Pools: []PoolSummary{}, Jobs: []JobSummary{},
	}
	for _, r := range s.Resources {
		if r.Phase != cluster.ResourceReady {
			out.Resources = append(out.Resources, r)
		}
	}
	if s.Spec != nil {
		for i := range s.Spec.NodePools {
			out.Pools = append(out.Pools, summarizePool(s, &s.Spec.NodePools[i]))
		}
	}
	if s.Slurm == nil {
		return out
	}
	out.SnapshotTaken = s.Slurm.Taken
	for _, j := range s.Slurm.Jobs {
		var names []string
		for _, n := range j.Nodes {
			names = append(names, s.Name(n))
		}
		out.Jobs = append(out.Jobs, JobSummary{
			ID: j.ID, State: j.State, Partition: j.Partition, User: j.User, Name: j.Name, Nodes: slurm.CompressHostlist(names),
			Reason: j.Reason, Comment: j.Comment, Submitted: j.Submitted, Started: j.Started, Restarts: j.Restarts,
		})
	}
	return out
}

// phases are in the order in which nodes pass them.
var phases = []cluster.NodePhase{
	cluster.Requested, cluster.Provisioning, cluster.Booting, cluster.Ready, cluster.Draining, cluster.Failed, cluster.Deleting,
}

func summarizePool(s *cluster.State, p *cluster.NodePool) PoolSummary {
	out := PoolSummary{
		ID: p.ID, Login: s.Spec.IsLogin(p.ID), MachineType: p.MachineSpec.MachineType, ProvisioningModel: p.ProvisioningModel,
		MinNodeCount: p.ScalingSpec.MinNodeCount, MaxNodeCount: p.ScalingSpec.MaxNodeCount,
		Nodes: []NodeGroup{}, Allocations: []cluster.Allocation{},
	}
	if record := s.Pools[p.ID]; record != nil {
		out.Allocations = append(out.Allocations, record.Allocations...)
		out.Breaker = record.Breaker
	}
	type group struct {
		phase  cluster.NodePhase
		reason string
	}
	names := map[group][]string{}
	groups := map[group]*NodeGroup{}
	var order []group
	for _, n := range s.Nodes[p.ID] {
		if n.Phase == cluster.Absent {
			continue
		}
		g := group{n.Phase, n.Reason}
		if groups[g] == nil {
			groups[g] = &NodeGroup{Phase: n.Phase, Reason: n.Reason, Since: n.Since, LeaseEnd: n.LeaseEnd}
			order = append(order, g)
		}
		names[g] = append(names[g], s.Name(cluster.NodeID{Pool: p.ID, Index: n.Index}))
		groups[g].Since = earlier(groups[g].Since, n.Since)
		groups[g].LeaseEnd = earlier(groups[g].LeaseEnd, n.LeaseEnd)
	}
	slices.SortStableFunc(order, func(a, b group) int { return slices.Index(phases, a.phase) - slices.Index(phases, b.phase) })
	for _, g := range order {
		groups[g].Count, groups[g].Nodes = len(names[g]), slurm.CompressHostlist(names[g])
		out.Nodes = append(out.Nodes, *groups[g])
	}
	return out
}

// earlier is the earlier of two times of which either may not be known.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
