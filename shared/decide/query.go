package decide

import (
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// Query says what of the cloud must be seen before it can be decided: what is in motion and due, what is suspected, and
// now and then everything. It is empty when nothing is due.
func (t *Turn) Query() cluster.Query {
	switch t.s.Phase {
	case cluster.PhaseNone, cluster.PhaseDeleted:
		return cluster.Query{}
	}
	q := cluster.Query{Owner: t.s.Owner(), Zones: t.zones()}
	q.Sweep = !t.s.Swept.Add(t.policy.OrphanEvery).After(t.now)
	q.Instances = len(t.claims) > 0 || !t.s.Seen.Add(t.policy.SweepEvery).After(t.now)
	if t.s.Phase == cluster.PhaseStopping && !t.s.Emptied.IsZero() {
		q.Sweep, q.Instances = true, true
	}
	t.queryResources(&q)
	t.queryAllocations(&q)
	t.queryNodes(&q)
	t.query = q
	return q
}

// zones are those that the cluster's machines may be in: a list that has seen them all is complete.
func (t *Turn) zones() []string {
	zones := map[string]bool{t.controllerZone(): true}
	for i := range t.s.Spec.NodePools {
		zones[t.s.Spec.NodePools[i].Zone] = true
	}
	for _, p := range t.s.Pools {
		for i := range p.Allocations {
			zones[p.Allocations[i].Zone] = true
		}
	}
	return sortedKeys(zones)
}

func (t *Turn) queryResources(q *cluster.Query) {
	for i := range t.s.Resources {
		r := &t.s.Resources[i]
		if r.Look.After(t.now) {
			continue
		}
		if r.Operation != "" {
			q.Operations = append(q.Operations, r.Operation)
		}
		if r.Kind == cluster.KindInstance && r.Phase == cluster.ResourceCreating {
			q.Machines = append(q.Machines, cluster.MachineQuery{Zone: r.Zone, Name: r.Name})
		}
		if r.Kind == cluster.KindInstance && r.Phase == cluster.ResourceReady && !r.Look.IsZero() {
			q.Machines = append(q.Machines, cluster.MachineQuery{Zone: r.Zone, Name: r.Name})
		}
	}
}

func (t *Turn) queryAllocations(q *cluster.Query) {
	asked := map[string]bool{}
	for _, id := range t.poolIDs() {
		for i := range t.s.Pools[id].Allocations {
			a := &t.s.Pools[id].Allocations[i]
			if a.Phase == cluster.Granted && t.waitsFor(a) && !asked[a.Group] {
				asked[a.Group] = true
				q.Groups = append(q.Groups, cluster.GroupQuery{Zone: a.Zone, Group: a.Group})
				q.Instances = true
			}
			if a.Look.After(t.now) {
				continue
			}
			switch a.Phase {
			case cluster.Grouping:
				if a.Operation != "" {
					q.Operations = append(q.Operations, a.Operation)
				}
			case cluster.Queued, cluster.Cancelling, cluster.Closing:
				if asked[a.Group] {
					continue
				}
				asked[a.Group] = true
				g := cluster.GroupQuery{Zone: a.Zone, Group: a.Group}
				if a.Method == cluster.ByRequest {
					g.Request = a.Name
				}
				q.Groups = append(q.Groups, g)
			}
		}
	}
}

// waitsFor reports whether the time has come to ask the allocation's group about one of its members: one whose machine has not
// been seen yet, or one without a machine that the group is to forget.
func (t *Turn) waitsFor(a *cluster.Allocation) bool {
	for _, i := range a.Nodes {
		n := t.s.Node(cluster.NodeID{Pool: a.Pool, Index: i})
		if n == nil || n.Allocation != a.Name {
			continue
		}
		if n.Phase == cluster.Requested && !a.Look.After(t.now) || memberOnly(a, n) && !n.Look.After(t.now) {
			return true
		}
	}
	return false
}

func (t *Turn) queryNodes(q *cluster.Query) {
	for pool, nodes := range t.eachPool() {
		for i := range nodes {
			n := &nodes[i]
			switch n.Phase {
			case cluster.Provisioning, cluster.Booting, cluster.Deleting:
				if !n.Look.After(t.now) {
					q.Instances = true
				}
			}
			if n.Suspect != "" && n.Phase.Machine() && !n.Look.After(t.now) && len(q.Machines) < t.policy.ConfirmAtOnce {
				id := cluster.NodeID{Pool: pool, Index: n.Index}
				mark(&t.looked, id)
				q.Machines = append(q.Machines, cluster.MachineQuery{Zone: t.machineZone(id, n), Name: t.s.Name(id)})
			}
		}
	}
}

func mark(m *map[cluster.NodeID]bool, id cluster.NodeID) {
	if *m == nil {
		*m = map[cluster.NodeID]bool{}
	}
	(*m)[id] = true
}

// machineZone is where a node's machine is: where its allocation was made, since the spec may have changed.
func (t *Turn) machineZone(id cluster.NodeID, n *cluster.Node) string {
	if a := t.lookup(id.Pool, n.Allocation); a != nil {
		return a.Zone
	}
	return t.zone(id.Pool)
}

// eachPool yields the node records of every pool, pools in order.
func (t *Turn) eachPool() func(yield func(string, []cluster.Node) bool) {
	return func(yield func(string, []cluster.Node) bool) {
		for _, id := range sortedKeys(t.s.Nodes) {
			if !yield(id, t.s.Nodes[id]) {
				return
			}
		}
	}
}
