package decide

import (
	"cmp"
	"maps"
	"slices"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// observeOrphans notes what bears our mark and no record knows, and forgets what is no longer there. Only complete looks
// count: what was not seen is kept.
func (t *Turn) observeOrphans(o cluster.Observation) {
	found := t.unknownInstances(o)
	if o.Owned != nil {
		t.s.Swept = cluster.Moment(o.At)
		found = append(found, t.unknownOwned(o.Owned)...)
	}
	kept := slices.DeleteFunc(slices.Clone(t.s.Orphans), func(old cluster.Orphan) bool {
		if old.Kind == cluster.OrphanInstance {
			return o.Instances != nil
		}
		return o.Owned != nil
	})
	for _, f := range found {
		f.First = t.now
		for _, old := range t.s.Orphans {
			if old.Kind == f.Kind && old.Name == f.Name && old.ID == f.ID {
				f.First, f.Asked = old.First, old.Asked
			}
		}
		kept = append(kept, f)
	}
	slices.SortFunc(kept, func(a, b cluster.Orphan) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	t.s.Orphans = kept
}

// unknownInstances are those of a complete list, none when there is none, that no record knows.
func (t *Turn) unknownInstances(o cluster.Observation) []cluster.Orphan {
	var found []cluster.Orphan
	for name, inst := range o.Instances { // in any order: what is found is sorted
		if !t.known(&inst) {
			found = append(found, cluster.Orphan{Kind: cluster.OrphanInstance, Name: name, Zone: inst.Zone, ID: inst.ID, Group: inst.Group})
		}
	}
	return found
}

func (t *Turn) unknownOwned(o *cluster.Owned) []cluster.Orphan {
	var found []cluster.Orphan
	groups := t.groups()
	for _, g := range o.Groups {
		if !groups[g.Name] {
			found = append(found, cluster.Orphan{Kind: cluster.OrphanGroup, Name: g.Name, Zone: g.Zone})
		}
	}
	for _, name := range o.Templates {
		if !t.knownTemplate(name) {
			found = append(found, cluster.Orphan{Kind: cluster.OrphanTemplate, Name: name})
		}
	}
	return found
}

// known reports whether a record stands for this very instance, or may come to.
func (t *Turn) known(inst *cluster.Instance) bool {
	if inst.Name == cluster.ControllerName(t.s.Key.ID) {
		return t.s.Resource(cluster.KindInstance, roleController) != nil
	}
	clusterID, id, ok := cluster.ParseNodeName(inst.Name)
	if !ok || clusterID != t.s.Key.ID {
		return false
	}
	n := t.s.Node(id)
	if n == nil || n.Phase == cluster.Absent {
		return false
	}
	a := t.lookup(id.Pool, n.Allocation)
	return a == nil || inst.Group == "" || inst.Group == a.Group
}

// groups are the groups that a record knows.
func (t *Turn) groups() map[string]bool {
	known := map[string]bool{}
	for id, p := range t.s.Pools {
		if p.GroupMade {
			known[t.poolGroup(id)] = true
		}
		for i := range p.Allocations {
			known[p.Allocations[i].Group] = true
		}
	}
	return known
}

// poolGroup is the name of a pool's own group.
func (t *Turn) poolGroup(pool string) string { return t.s.Key.ID + "-" + pool + "-group" }

func (t *Turn) knownTemplate(name string) bool {
	for i := range t.s.Resources {
		if r := &t.s.Resources[i]; r.Kind == cluster.KindTemplate && r.Name == name {
			return true
		}
	}
	for _, p := range t.s.Pools {
		for i := range p.Allocations {
			if p.Allocations[i].Template == name {
				return true // a group is made from it
			}
		}
	}
	return false
}

// orphans has what nobody has owned for longer than the orphan age removed.
func (t *Turn) orphans() {
	for i := range t.s.Orphans {
		o := &t.s.Orphans[i]
		end := o.First.Add(t.policy.OrphanAge)
		if !t.due(end) {
			continue
		}
		t.removeOrphan(o)
	}
}

// removeOrphan asks for an orphan's removal, now and then, until it is no longer seen.
func (t *Turn) removeOrphan(o *cluster.Orphan) {
	if next := o.Asked.Add(t.policy.DeleteEvery); !o.Asked.IsZero() && next.After(t.now) {
		t.at(next)
		return
	}
	if o.Asked.IsZero() {
		t.say(kindOrphan, o.Name, "%s %s belongs to nothing that is recorded; removing it", o.Kind, o.Name)
	}
	o.Asked = t.now
	id := t.requestID("orphan", string(o.Kind), o.Name, itoa(int64(o.ID)), itoa(o.Asked.UnixMilli())) //nolint:gosec // only a part of a hash
	switch {
	case o.Kind == cluster.OrphanGroup:
		t.intend(cluster.DeleteGroup{Zone: o.Zone, Group: o.Name, ID: id})
	case o.Kind == cluster.OrphanTemplate:
		t.intend(cluster.DeleteTemplate{Name: o.Name, ID: id})
	case o.Group != "":
		t.intend(cluster.DeleteInstances{Zone: o.Zone, Group: o.Group, Instances: []string{o.Name}, ID: id})
	default:
		t.intend(cluster.DeleteInstance{Zone: o.Zone, Name: o.Name, ID: id})
	}
	t.at(t.now.Add(t.policy.DeleteEvery))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
