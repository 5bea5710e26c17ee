package console

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/slurm"
	"github.com/convoke-hpc/convoke/shared/store"
)

// clusterView is what the page of one cluster is given.
type clusterView struct {
	frame
	State       *cluster.State
	Pools       []poolView
	Moving      []nodeView
	MovingMore  int
	Allocations []allocationView
	Slurm       *cluster.Snapshot
	Jobs        []jobView
	JobsMore    int
	Timeline    []store.TimelineEntry
	Before      string
}

type poolView struct {
	ID      string
	What    string
	Picture template.HTML
	Legend  []legend
	Breaker *cluster.Breaker
}

type legend struct {
	Class string
	Name  string
	Count int
}

type nodeView struct {
	Name string
	cluster.Node
}

type allocationView struct {
	cluster.Allocation
	Hostlist string
}

type jobView struct {
	cluster.SlurmJob
	Hostlist string
}

func clusterPage(f frame, s *cluster.State, entries []store.TimelineEntry) clusterView {
	v := clusterView{frame: f, State: s, Timeline: entries, Slurm: s.Slurm}
	if len(entries) == timelineShown {
		v.Before = entries[len(entries)-1].ID
	}
	if s.Spec != nil {
		for i := range s.Spec.NodePools {
			v.Pools = append(v.Pools, viewPool(s, &s.Spec.NodePools[i]))
		}
	}
	v.Moving, v.MovingMore = moving(s)
	for _, id := range sortedKeys(s.Pools) {
		for _, a := range s.Pools[id].Allocations {
			v.Allocations = append(v.Allocations, allocationView{Allocation: a, Hostlist: hostlist(s, id, a.Nodes)})
		}
	}
	if s.Slurm != nil {
		for i := range s.Slurm.Jobs[:min(len(s.Slurm.Jobs), rowsShown)] {
			j := s.Slurm.Jobs[i]
			v.Jobs = append(v.Jobs, jobView{SlurmJob: j, Hostlist: slurm.HostlistOf(s.Key.ID, j.Nodes)})
		}
		v.JobsMore = len(s.Slurm.Jobs) - len(v.Jobs)
	}
	return v
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func hostlist(s *cluster.State, pool string, indices []int) string {
	ids := make([]cluster.NodeID, len(indices))
	for i, n := range indices {
		ids[i] = cluster.NodeID{Pool: pool, Index: n}
	}
	return slurm.HostlistOf(s.Key.ID, ids)
}

// moving lists nodes that are neither absent nor simply ready: those that went wrong first, then those that have been
// under way the longest.
func moving(s *cluster.State) (shown []nodeView, more int) {
	for _, pool := range sortedKeys(s.Nodes) {
		for _, n := range s.Nodes[pool] {
			if n.Phase != cluster.Absent && (n.Phase != cluster.Ready || n.Suspect != "") {
				shown = append(shown, nodeView{Name: s.Name(cluster.NodeID{Pool: pool, Index: n.Index}), Node: n})
			}
		}
	}
	slices.SortStableFunc(shown, func(a, b nodeView) int {
		bad := func(n nodeView) int {
			if n.Phase == cluster.Failed {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(bad(a), bad(b)), a.Since.Compare(b.Since))
	})
	more = max(len(shown)-rowsShown, 0)
	return shown[:len(shown)-more], more
}

func viewPool(s *cluster.State, p *cluster.NodePool) poolView {
	phases := make([]cluster.NodePhase, p.ScalingSpec.MaxNodeCount)
	for _, n := range s.Nodes[p.ID] {
		if n.Index < len(phases) {
			phases[n.Index] = n.Phase
		}
	}
	v := poolView{ID: p.ID, What: what(s, p)}
	v.Picture, v.Legend = picture(phases)
	if pool := s.Pools[p.ID]; pool != nil && pool.Breaker.State != cluster.BreakerClosed {
		v.Breaker = &pool.Breaker
	}
	return v
}

func what(s *cluster.State, p *cluster.NodePool) string {
	parts := []string{p.MachineSpec.MachineType, string(p.ProvisioningModel), p.Zone,
		fmt.Sprintf("%d to %d nodes", p.ScalingSpec.MinNodeCount, p.ScalingSpec.MaxNodeCount)}
	if s.Spec.IsLogin(p.ID) {
		parts = append(parts, "login")
	}
	return strings.Join(parts, " · ")
}

// The picture's measures, in its own units.
const (
	cell = 10
	gap  = 2
)

// picture draws a pool: a square for each node in the order of indices, in rows that are multiples of ten. All nodes of one phase
// are one path, so that ten thousand of them are a page of 200 KB and not of two megabytes.
func picture(phases []cluster.NodePhase) (template.HTML, []legend) {
	if len(phases) == 0 {
		return "", nil
	}
	columns := columnsFor(len(phases))
	paths := map[cluster.NodePhase]*strings.Builder{}
	counts := map[cluster.NodePhase]int{}
	for i, p := range phases {
		if paths[p] == nil {
			paths[p] = &strings.Builder{}
		}
		fmt.Fprintf(paths[p], "M%d %dh%dv%dh-%dz", i%columns*(cell+gap), i/columns*(cell+gap), cell, cell, cell)
		counts[p]++
	}
	rows := (len(phases) + columns - 1) / columns
	width, height := columns*(cell+gap)-gap, rows*(cell+gap)-gap
	var b strings.Builder
	fmt.Fprintf(&b, `<svg width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="nodes by phase">`, width, height, width, height)
	var all []legend
	for _, p := range phaseOrder() {
		if counts[p] == 0 {
			continue
		}
		fmt.Fprintf(&b, `<path class="%s" d="%s"><title>%d %s</title></path>`, nodeClass(p), paths[p], counts[p], phaseName(p))
		all = append(all, legend{Class: nodeClass(p), Name: phaseName(p), Count: counts[p]})
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()), all //nolint:gosec // made of numbers and of words of ours alone
}

// columnsFor keeps pictures wider than high.
func columnsFor(n int) int {
	for _, c := range []int{10, 20, 50} {
		if n <= c*c {
			return min(c, n)
		}
	}
	return 100
}

func phaseOrder() []cluster.NodePhase {
	return []cluster.NodePhase{
		cluster.Ready, cluster.Draining, cluster.Booting, cluster.Provisioning, cluster.Requested, cluster.Deleting,
		cluster.Failed, cluster.Absent,
	}
}

func phaseName(p cluster.NodePhase) string {
	if p == cluster.Absent {
		return "absent"
	}
	return string(p)
}

func nodeClass(p cluster.NodePhase) string {
	switch p {
	case cluster.Ready:
		return "ready"
	case cluster.Booting, cluster.Provisioning:
		return "coming"
	case cluster.Requested:
		return "waiting"
	case cluster.Draining, cluster.Deleting:
		return "going"
	case cluster.Failed:
		return "bad"
	}
	return "none"
}
