package gce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// instanceFields are the parts of an instance that are looked at. Without a choice, most of a list of thousands would be
// disks and their licenses. The metadata is needed for one item, the group that made the instance.
const instanceFields = "items/*/instances(id,name,zone,status,creationTimestamp,labels,metadata/items," +
	"networkInterfaces/networkIP,resourceStatus)," + scopeFields

const scopeFields = "items/*/warning,nextPageToken,unreachables,warning"

// instances lists the owner's instances in all zones at once, since there may be some in zones that no record names any more.
// Zones that cannot be reached make the list incomplete, unless the query says that they do not matter.
func (o *observer) instances(ctx context.Context) {
	c := o.client
	owner := o.query.Owner
	const doing = "listing instances"
	filter := fmt.Sprintf("labels.%s = %q AND labels.%s = %q", cluster.LabelCluster, owner.Cluster, cluster.LabelUID, owner.UID)
	request := &computepb.AggregatedListInstancesRequest{Project: c.project, Filter: &filter}
	out := map[string]cluster.Instance{}
	complete := o.scopes(doing)
	err := pages(ctx, c, func(ctx context.Context) (page[compute.InstancesScopedListPair], error) {
		client, err := listing(ctx, c, instanceFields, compute.NewInstancesRESTClient)
		if err != nil {
			return nil, err
		}
		it := client.AggregatedList(ctx, request, once)
		return func(size int, token string) ([]compute.InstancesScopedListPair, string, error) {
			entries, next, err := it.InternalFetch(size, token)
			if list, ok := it.Response.(*computepb.InstanceAggregatedList); ok && err == nil {
				complete.whole(list.GetWarning(), list.GetUnreachables())
			}
			return entries, next, err
		}, nil
	}, func(entries []compute.InstancesScopedListPair) {
		for _, scope := range entries {
			complete.scope(scope.Key, scope.Value.GetWarning())
			for _, i := range scope.Value.GetInstances() {
				o.enter(out, instanceView(i))
			}
		}
	})
	if err != nil {
		o.unseen(doing, "", err)
		return
	}
	if complete.done() {
		o.note(func(seen *cluster.Observation) { seen.Instances = out })
	}
}

// enter adds an instance to those that were listed. Names are unique in a zone only: of two instances of one name the
// elder counts, and the other is told of.
func (o *observer) enter(out map[string]cluster.Instance, i cluster.Instance) {
	other, twice := out[i.Name]
	if !twice {
		out[i.Name] = i
		return
	}
	if other.Zone == i.Zone { // the list moved between two pages
		out[i.Name] = i
		return
	}
	elder, younger := other, i
	if i.Created.Before(other.Created) {
		elder, younger = i, other
	}
	out[i.Name] = elder
	o.unseen("listing instances", i.Name, &cluster.Problem{
		Class:   cluster.Conflict,
		Message: fmt.Sprintf("there are two instances of this name: one in %s since %s, another in %s since %s", elder.Zone, elder.Created.Format(time.RFC3339), younger.Zone, younger.Created.Format(time.RFC3339)),
		Remedy:  "delete one of them",
	})
}

// sweep finds every group and template that bears the owner's mark.
func (o *observer) sweep(ctx context.Context) {
	const doing = "searching for what nobody owns"
	owned := &cluster.Owned{}
	complete := o.scopes(doing)
	if err := errors.Join(o.sweepGroups(ctx, complete, owned), o.sweepTemplates(ctx, complete, owned)); err != nil {
		o.unseen(doing, "", err)
		return
	}
	if complete.done() {
		slices.SortFunc(owned.Groups, func(a, b cluster.OwnedGroup) int { return strings.Compare(a.Zone+"/"+a.Name, b.Zone+"/"+b.Name) })
		slices.Sort(owned.Templates)
		o.note(func(seen *cluster.Observation) { seen.Owned = owned })
	}
}

func (o *observer) marked() string {
	return fmt.Sprintf("description = %q", o.query.Owner.Description())
}

func (o *observer) sweepGroups(ctx context.Context, complete *scopes, owned *cluster.Owned) error {
	c := o.client
	const fields = "items/*/instanceGroupManagers(name,zone,description,creationTimestamp)," + scopeFields
	request := &computepb.AggregatedListInstanceGroupManagersRequest{Project: c.project, Filter: new(o.marked())}
	return pages(ctx, c, func(ctx context.Context) (page[compute.InstanceGroupManagersScopedListPair], error) {
		client, err := listing(ctx, c, fields, compute.NewInstanceGroupManagersRESTClient)
		if err != nil {
			return nil, err
		}
		it := client.AggregatedList(ctx, request, once)
		return func(size int, token string) ([]compute.InstanceGroupManagersScopedListPair, string, error) {
			entries, next, err := it.InternalFetch(size, token)
			if list, ok := it.Response.(*computepb.InstanceGroupManagerAggregatedList); ok && err == nil {
				complete.whole(list.GetWarning(), list.GetUnreachables())
			}
			return entries, next, err
		}, nil
	}, func(entries []compute.InstanceGroupManagersScopedListPair) {
		for _, scope := range entries {
			complete.scope(scope.Key, scope.Value.GetWarning())
			for _, g := range scope.Value.GetInstanceGroupManagers() {
				if g.GetDescription() == o.query.Owner.Description() && g.GetZone() != "" {
					owned.Groups = append(owned.Groups, cluster.OwnedGroup{Zone: last(g.GetZone()), Name: g.GetName(), Created: moment(g.GetCreationTimestamp())})
				}
			}
		}
	})
}

func (o *observer) sweepTemplates(ctx context.Context, complete *scopes, owned *cluster.Owned) error {
	c := o.client
	request := &computepb.ListInstanceTemplatesRequest{Project: c.project, Filter: new(o.marked())}
	return pages(ctx, c, func(ctx context.Context) (page[*computepb.InstanceTemplate], error) {
		client, err := listing(ctx, c, "items(name,description),nextPageToken,warning", compute.NewInstanceTemplatesRESTClient)
		if err != nil {
			return nil, err
		}
		it := client.List(ctx, request, once)
		return func(size int, token string) ([]*computepb.InstanceTemplate, string, error) {
			entries, next, err := it.InternalFetch(size, token)
			if list, ok := it.Response.(*computepb.InstanceTemplateList); ok && err == nil {
				complete.whole(list.GetWarning(), nil)
			}
			return entries, next, err
		}, nil
	}, func(entries []*computepb.InstanceTemplate) {
		for _, t := range entries {
			if t.GetDescription() == o.query.Owner.Description() {
				owned.Templates = append(owned.Templates, t.GetName())
			}
		}
	})
}

// scopes keeps account of whether a list over all zones says all that matters.
type scopes struct {
	o        *observer
	doing    string
	missing  bool
	reported map[string]bool
}

func (o *observer) scopes(doing string) *scopes {
	return &scopes{o: o, doing: doing, reported: map[string]bool{}}
}

// harmless warnings say nothing about what is missing.
var harmless = []string{"", "NO_RESULTS_ON_PAGE", "DEPRECATED_RESOURCE_USED"}

// scope takes note of the warning that one scope, such as zones/us-central1-a, came with.
func (s *scopes) scope(name string, w *computepb.Warning) {
	if slices.Contains(harmless, w.GetCode()) {
		return
	}
	s.gap(name, fmt.Sprintf("the list is not complete: %s (%s)", w.GetMessage(), w.GetCode()))
}

// whole takes note of what a whole page came with.
func (s *scopes) whole(w *computepb.Warning, unreachable []string) {
	s.scope("", w)
	for _, name := range unreachable {
		s.gap(name, "the list is not complete: this part could not be reached")
	}
}

func (s *scopes) gap(name, message string) {
	s.missing = s.missing || s.matters(name)
	if s.reported[name] {
		return
	}
	s.reported[name] = true
	s.o.unseen(s.doing, last(name), &cluster.Problem{
		Class: cluster.Unknown, Message: oneLine(message), Remedy: "nothing needs to be done, the list is made again",
	})
}

// matters reports whether a list without a scope leaves out what the query asks for.
func (s *scopes) matters(name string) bool {
	zones := s.o.query.Zones
	return len(zones) == 0 || name == "" || slices.Contains(zones, last(name))
}

func (s *scopes) done() bool { return !s.missing }

// instanceView is what is looked at of an instance.
func instanceView(i *computepb.Instance) cluster.Instance {
	view := cluster.Instance{
		Name: i.GetName(), ID: i.GetId(), Zone: last(i.GetZone()), Status: i.GetStatus(), Labels: i.GetLabels(),
		Created:  moment(i.GetCreationTimestamp()),
		LeaseEnd: moment(i.GetResourceStatus().GetScheduling().GetTerminationTimestamp()),
		Host:     host(i.GetResourceStatus()),
	}
	for _, item := range i.GetMetadata().GetItems() {
		if item.GetKey() == "created-by" && strings.Contains(item.GetValue(), "/instanceGroupManagers/") {
			view.Group = last(item.GetValue())
		}
	}
	if nics := i.GetNetworkInterfaces(); len(nics) > 0 {
		view.Address = nics[0].GetNetworkIP()
	}
	return view
}

// host is the place of an instance's machine, as BLOCK/SUBBLOCK/HOST, in whichever form it is stated.
func host(s *computepb.ResourceStatus) string {
	if h := strings.Trim(s.GetPhysicalHost(), "/"); h != "" {
		return h
	}
	t := s.GetPhysicalHostTopology()
	return strings.Trim(t.GetBlock()+"/"+t.GetSubblock()+"/"+t.GetHost(), "/")
}

// moment reads a timestamp; one that cannot be read is as good as none.
func moment(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return cluster.Moment(t)
}
