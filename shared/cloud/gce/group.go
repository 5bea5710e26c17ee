package gce

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// createGroup makes an empty managed instance group, or sees to it that the one that is there has the right template. All groups have one shape, the one that resize requests ask for: no
// repair, no autoscaler, updates on request only, no instances in stand-by.
func (c *Client) createGroup(ctx context.Context, i cluster.CreateGroup) (result, error) {
	op, err := mutate(ctx, c, "zones/"+i.Zone, c.groups.Insert, &computepb.InsertInstanceGroupManagerRequest{
		Project: c.project, Zone: i.Zone, RequestId: requestID(i),
		InstanceGroupManagerResource: &computepb.InstanceGroupManager{
			Name: &i.Group, Description: &i.Description, BaseInstanceName: new(baseName(i.Group)), TargetSize: new(int32(0)),
			InstanceTemplate:            new(c.path("global", "instanceTemplates", i.Template)),
			ListManagedInstancesResults: new("PAGELESS"),
			UpdatePolicy:                &computepb.InstanceGroupManagerUpdatePolicy{Type: new("OPPORTUNISTIC")},
			StandbyPolicy:               &computepb.InstanceGroupManagerStandbyPolicy{Mode: new("MANUAL")},
			InstanceLifecyclePolicy: &computepb.InstanceGroupManagerInstanceLifecyclePolicy{
				DefaultActionOnFailure: new("DO_NOTHING"),
			},
		},
	})
	found := cluster.Found{Link: c.path("zones", i.Zone, "instanceGroupManagers", i.Group)}
	if taken(err) {
		there, look := c.group(ctx, i.Zone, i.Group)
		if look != nil {
			return result{}, vanished(look)
		}
		if there.GetDescription() != i.Description {
			return result{}, foreign("managed instance group", whose(there.GetDescription(), nil))
		}
		if last(there.GetInstanceTemplate()) != i.Template {
			op, err = c.switchTemplate(ctx, i)
			return result{operation: op, found: found}, err
		}
		return result{found: found}, nil
	}
	if err != nil {
		return result{}, err
	}
	return result{operation: op, found: found}, nil
}

// switchTemplate gives a group of ours another template, which holds for the instances that it makes from now on. A pool's own
// group outlives the templates that its pool has had.
func (c *Client) switchTemplate(ctx context.Context, i cluster.CreateGroup) (string, error) {
	return mutate(ctx, c, "zones/"+i.Zone, c.groups.Patch, &computepb.PatchInstanceGroupManagerRequest{
		Project: c.project, Zone: i.Zone, InstanceGroupManager: i.Group, RequestId: new(cluster.RequestID(i.ID, "template")),
		InstanceGroupManagerResource: &computepb.InstanceGroupManager{
			InstanceTemplate: new(c.path("global", "instanceTemplates", i.Template)),
		},
	})
}

func (c *Client) group(ctx context.Context, zone, name string) (*computepb.InstanceGroupManager, error) {
	return read(ctx, c, c.groups.Get, &computepb.GetInstanceGroupManagerRequest{Project: c.project, Zone: zone, InstanceGroupManager: name})
}

// baseName is what names that a group invents begin with. Ours invent none, but a group must have one, of at most 58
// characters.
func baseName(group string) string {
	return strings.TrimRight(group[:min(len(group), 58)], "-")
}

func (c *Client) deleteGroup(ctx context.Context, i cluster.DeleteGroup) (result, error) {
	return removal(mutate(ctx, c, "zones/"+i.Zone, c.groups.Delete, &computepb.DeleteInstanceGroupManagerRequest{
		Project: c.project, Zone: i.Zone, InstanceGroupManager: i.Group, RequestId: requestID(i),
	}))
}

// createRequest asks for named instances, all or nothing.
func (c *Client) createRequest(ctx context.Context, i cluster.CreateRequest) (result, error) {
	resource := &computepb.InstanceGroupManagerResizeRequest{Name: &i.Name, Instances: perInstance(i.Instances)}
	if i.Run > 0 {
		resource.RequestedRunDuration = duration(i.Run)
	}
	op, err := mutate(ctx, c, "zones/"+i.Zone, c.requests.Insert, &computepb.InsertInstanceGroupManagerResizeRequestRequest{
		Project: c.project, Zone: i.Zone, InstanceGroupManager: i.Group, RequestId: requestID(i),
		InstanceGroupManagerResizeRequestResource: resource,
	})
	if taken(err) {
		there, look := c.request(ctx, i.Zone, i.Group, i.Name)
		if look != nil {
			return result{}, vanished(look)
		}
		var names []string
		for _, n := range there.GetInstances() {
			names = append(names, n.GetName())
		}
		if !sameNames(names, i.Instances) {
			return result{}, &cluster.Problem{
				Class:   cluster.Conflict,
				Message: oneLine(fmt.Sprintf("a resize request of this name exists and asks for other instances: %s", strings.Join(names, ", "))),
				Remedy:  "nothing needs to be done, another attempt has another name",
			}
		}
		return result{found: cluster.Found{Status: there.GetState()}}, nil
	}
	if err != nil {
		return result{}, err
	}
	return result{operation: op}, nil
}

func (c *Client) request(ctx context.Context, zone, group, name string) (*computepb.InstanceGroupManagerResizeRequest, error) {
	return read(ctx, c, c.requests.Get, &computepb.GetInstanceGroupManagerResizeRequestRequest{
		Project: c.project, Zone: zone, InstanceGroupManager: group, ResizeRequest: name,
	})
}

func perInstance(names []string) []*computepb.PerInstanceConfig {
	out := make([]*computepb.PerInstanceConfig, len(names))
	for i := range names {
		out[i] = &computepb.PerInstanceConfig{Name: &names[i]}
	}
	return out
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// cancelRequest cancels a resize request. One that is over already, in whatever way, needs no cancelling; one that is not yet
// ACCEPTED cannot be cancelled, which passes within seconds.
func (c *Client) cancelRequest(ctx context.Context, i cluster.CancelRequest) (result, error) {
	op, err := mutate(ctx, c, "zones/"+i.Zone, c.requests.Cancel, &computepb.CancelInstanceGroupManagerResizeRequestRequest{
		Project: c.project, Zone: i.Zone, InstanceGroupManager: i.Group, ResizeRequest: i.Name, RequestId: requestID(i),
	})
	if err == nil {
		return result{operation: op}, nil
	}
	if missing(err) {
		return result{}, nil
	}
	if class := classOf(err); class != cluster.Configuration && class != cluster.Conflict {
		return result{}, err
	}
	there, look := c.request(ctx, i.Zone, i.Group, i.Name)
	if look != nil {
		return removal("", look)
	}
	switch there.GetState() {
	case "SUCCEEDED", "FAILED", "CANCELLED":
		return result{found: cluster.Found{Status: there.GetState()}}, nil
	}
	faults := faultsOf(err)
	return result{}, &cluster.Problem{
		Class:   cluster.Conflict,
		Message: oneLine(fmt.Sprintf("the resize request is %s and could not be cancelled: %s", there.GetState(), faults[worst(faults)].message)),
		Remedy:  "nothing needs to be done, it is tried again",
	}
}

// maxInstances is how many instances one call to a group may name.
const maxInstances = 1000

// chunks cuts a list of instances into what single calls may name, each with a request id of its own. The first has the
// intent's: nearly always it is the only one.
func chunks(id string, instances []string, call func(id *string, names []string) (string, error)) (string, error) {
	operation := ""
	n := 0
	for names := range slices.Chunk(instances, maxInstances) {
		each := id
		if n > 0 && id != "" {
			each = cluster.RequestID(id, strconv.Itoa(n))
		}
		n++
		var pointer *string
		if each != "" {
			pointer = &each
		}
		op, err := call(pointer, names)
		if err != nil {
			return "", err
		}
		operation = op
	}
	return operation, nil
}

// createInstances makes named instances in a group. Instances that the group has already, from a call whose answer was
// lost and whose request id is forgotten, are left out of a second call.
func (c *Client) createInstances(ctx context.Context, i cluster.CreateInstances) (result, error) {
	op, err := chunks(i.ID, i.Instances, func(id *string, names []string) (string, error) {
		op, err := c.create(ctx, i, id, names)
		if class := classOf(err); err == nil || !taken(err) && class != cluster.Configuration && class != cluster.Conflict {
			return op, err
		}
		rest, look := c.without(ctx, i, names)
		if look != nil || len(rest) == len(names) {
			return "", err
		}
		if len(rest) == 0 {
			return "", nil
		}
		return c.create(ctx, i, new(cluster.RequestID(append([]string{i.ID}, rest...)...)), rest)
	})
	return result{operation: op}, err
}

func (c *Client) create(ctx context.Context, i cluster.CreateInstances, id *string, names []string) (string, error) {
	return mutate(ctx, c, "zones/"+i.Zone, c.groups.CreateInstances, &computepb.CreateInstancesInstanceGroupManagerRequest{
		Project: c.project, Zone: i.Zone, InstanceGroupManager: i.Group, RequestId: id,
		InstanceGroupManagersCreateInstancesRequestResource: &computepb.InstanceGroupManagersCreateInstancesRequest{
			Instances: perInstance(names),
		},
	})
}

// without leaves out the names of instances that a group has and that are not on their way out.
func (c *Client) without(ctx context.Context, i cluster.CreateInstances, names []string) ([]string, error) {
	there, err := c.managed(ctx, i.Zone, i.Group)
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for _, m := range there {
		have[managedName(m)] = m.GetCurrentAction() != "DELETING" && m.GetCurrentAction() != "ABANDONING"
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return have[name] }), nil
}

// managed lists what a group has or is to have. The answer comes whole, unless somebody changed the group's way to list.
func (c *Client) managed(ctx context.Context, zone, group string) ([]*computepb.ManagedInstance, error) {
	var out []*computepb.ManagedInstance
	request := &computepb.ListManagedInstancesInstanceGroupManagersRequest{Project: c.project, Zone: zone, InstanceGroupManager: group}
	err := pages(ctx, c, func(ctx context.Context) (page[*computepb.ManagedInstance], error) {
		client, err := listing(ctx, c, "", compute.NewInstanceGroupManagersRESTClient)
		if err != nil {
			return nil, err
		}
		return client.ListManagedInstances(ctx, request, once).InternalFetch, nil
	}, func(entries []*computepb.ManagedInstance) { out = append(out, entries...) })
	return out, err
}

// managedName is a managed instance's name, which is a field of its own or the end of its URL.
func managedName(m *computepb.ManagedInstance) string {
	if m.GetName() != "" {
		return m.GetName()
	}
	return last(m.GetInstance())
}

// deleteInstances removes instances through their group, by name: those that wait for capacity have no URL. The group passes
// over names that it does not have.
func (c *Client) deleteInstances(ctx context.Context, i cluster.DeleteInstances) (result, error) {
	return removal(chunks(i.ID, i.Instances, func(id *string, names []string) (string, error) {
		return mutate(ctx, c, "zones/"+i.Zone, c.groups.DeleteInstances, &computepb.DeleteInstancesInstanceGroupManagerRequest{
			Project: c.project, Zone: i.Zone, InstanceGroupManager: i.Group, RequestId: id,
			InstanceGroupManagersDeleteInstancesRequestResource: &computepb.InstanceGroupManagersDeleteInstancesRequest{
				Instances: names, SkipInstancesOnValidationError: new(true),
			},
		})
	}))
}
