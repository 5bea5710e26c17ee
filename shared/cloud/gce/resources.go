package gce

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"cloud.google.com/go/compute/apiv1/computepb"
	"cloud.google.com/go/filestore/apiv1/filestorepb"
	"google.golang.org/protobuf/proto"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// check looks at what the cluster needs and does not own. The names are full ones, and may be in other projects, such as
// the host project of a Shared VPC.
func (c *Client) check(ctx context.Context, ref cluster.ResourceRef) (result, error) {
	switch ref.Kind {
	case cluster.KindNetwork:
		return c.checkNetwork(ctx, ref.Name)
	case cluster.KindSubnetwork:
		return c.checkSubnetwork(ctx, ref.Name)
	case cluster.KindFilestore:
		return c.checkFilestore(ctx, ref.Name)
	}
	return result{}, &cluster.Problem{Class: cluster.Configuration, Message: fmt.Sprintf("a %s is not among the things that a cluster needs and does not own", ref.Kind)}
}

func misnamed(kind, form string) error {
	return &cluster.Problem{
		Class:   cluster.Configuration,
		Message: fmt.Sprintf("this is not the full name of a %s", kind),
		Remedy:  "write it as " + form + " in the cluster spec",
	}
}

func (c *Client) checkNetwork(ctx context.Context, name string) (result, error) {
	at, ok := match(name, "projects/*/global/networks/*")
	if !ok {
		return result{}, misnamed("network", "projects/PROJECT/global/networks/NAME")
	}
	got, err := read(ctx, c, c.networks.Get, &computepb.GetNetworkRequest{Project: at[0], Network: at[1]})
	if err != nil {
		return result{}, err
	}
	return result{found: cluster.Found{Link: relative(got.GetSelfLink()), Network: relative(got.GetSelfLink())}}, nil
}

func (c *Client) checkSubnetwork(ctx context.Context, name string) (result, error) {
	at, ok := match(name, "projects/*/regions/*/subnetworks/*")
	if !ok {
		return result{}, misnamed("subnetwork", "projects/PROJECT/regions/REGION/subnetworks/NAME")
	}
	got, err := read(ctx, c, c.subnetworks.Get, &computepb.GetSubnetworkRequest{Project: at[0], Region: at[1], Subnetwork: at[2]})
	if err != nil {
		return result{}, err
	}
	return result{found: cluster.Found{
		Link: relative(got.GetSelfLink()), Network: relative(got.GetNetwork()), Status: got.GetState(),
	}}, nil
}

// checkFilestore finds the address and the share that machines mount. An instance that is not READY is a problem that says
// so: one that passes, or one that does not.
func (c *Client) checkFilestore(ctx context.Context, name string) (result, error) {
	if _, ok := match(name, "projects/*/locations/*/instances/*"); !ok {
		return result{}, misnamed("Filestore instance", "projects/PROJECT/locations/LOCATION/instances/NAME")
	}
	got, err := read(ctx, c, c.files.GetInstance, &filestorepb.GetInstanceRequest{Name: relative(name)})
	if err != nil {
		return result{}, err
	}
	state := got.GetState()
	switch state {
	case filestorepb.Instance_READY:
	case filestorepb.Instance_CREATING, filestorepb.Instance_REPAIRING, filestorepb.Instance_RESTORING,
		filestorepb.Instance_REVERTING, filestorepb.Instance_RESUMING, filestorepb.Instance_PROMOTING:
		return result{}, &cluster.Problem{
			Class:   cluster.Unknown,
			Message: fmt.Sprintf("the Filestore instance is %s and cannot be mounted yet", state),
			Remedy:  "nothing needs to be done, it is looked at again",
		}
	default:
		return result{}, &cluster.Problem{
			Class:   cluster.Configuration,
			Message: oneLine(fmt.Sprintf("the Filestore instance is %s and cannot be mounted: %s", state, orNothing(got.GetStatusMessage()))),
			Remedy:  "bring the instance to READY, or name another one in the cluster spec",
		}
	}
	found := cluster.Found{Link: got.GetName(), Status: state.String()}
	for _, n := range got.GetNetworks() {
		if addresses := n.GetIpAddresses(); len(addresses) > 0 && found.Address == "" {
			found.Address, found.Network = addresses[0], n.GetNetwork()
		}
	}
	if shares := got.GetFileShares(); len(shares) > 0 {
		found.Share = shares[0].GetName()
	}
	if net.ParseIP(found.Address) == nil || found.Share == "" {
		return result{}, &cluster.Problem{
			Class:   cluster.Unknown,
			Message: fmt.Sprintf("the Filestore instance is READY but shows no address and file share to mount (%q, %q)", found.Address, found.Share),
			Remedy:  "look at the instance; it is looked at again by itself",
		}
	}
	return result{found: found}, nil
}

func orNothing(s string) string {
	if s == "" {
		return "it does not say why"
	}
	return s
}

// ensureTemplate makes an instance template. Its name holds a digest of its content and templates never change, so one that
// is there already and bears the owner's mark is the one that is wanted.
func (c *Client) ensureTemplate(ctx context.Context, i cluster.EnsureTemplate) (result, error) {
	link := c.path("global", "instanceTemplates", i.Ref.Name)
	op, err := mutate(ctx, c, "global", c.templates.Insert, &computepb.InsertInstanceTemplateRequest{
		Project: c.project, RequestId: requestID(i),
		InstanceTemplateResource: instanceTemplate(c.project, i.Ref.Name, &i.Template),
	})
	if taken(err) {
		there, look := c.template(ctx, i.Ref.Name)
		if look != nil {
			return result{}, vanished(look)
		}
		if there.GetDescription() != i.Template.Description {
			return result{}, foreign("instance template", whose(there.GetDescription(), there.GetProperties().GetLabels()))
		}
		op, err = "", nil
	}
	if err != nil {
		return result{}, err
	}
	return result{operation: op, found: cluster.Found{Link: link}}, nil
}

func (c *Client) template(ctx context.Context, name string) (*computepb.InstanceTemplate, error) {
	return read(ctx, c, c.templates.Get, &computepb.GetInstanceTemplateRequest{Project: c.project, InstanceTemplate: name})
}

func (c *Client) deleteTemplate(ctx context.Context, name string, id *string) (result, error) {
	return removal(mutate(ctx, c, "global", c.templates.Delete, &computepb.DeleteInstanceTemplateRequest{
		Project: c.project, InstanceTemplate: name, RequestId: id,
	}))
}

// ensureDisk makes an empty disk.
func (c *Client) ensureDisk(ctx context.Context, i cluster.EnsureDisk) (result, error) {
	link := c.path("zones", i.Ref.Zone, "disks", i.Ref.Name)
	op, err := mutate(ctx, c, "zones/"+i.Ref.Zone, c.disks.Insert, &computepb.InsertDiskRequest{
		Project: c.project, Zone: i.Ref.Zone, RequestId: requestID(i),
		DiskResource: &computepb.Disk{
			Name: &i.Ref.Name, SizeGb: new(int64(i.SizeGB)), Labels: i.Labels,
			Type: new(c.path("zones", i.Ref.Zone, "diskTypes", i.Type)),
		},
	})
	if taken(err) {
		there, look := c.disk(ctx, i.Ref)
		if look != nil {
			return result{}, vanished(look)
		}
		if !bears(there.GetLabels(), i.Labels) {
			return result{}, foreign("disk", whose(there.GetDescription(), there.GetLabels()))
		}
		return result{found: cluster.Found{Link: link, Status: there.GetStatus()}}, nil
	}
	if err != nil {
		return result{}, err
	}
	return result{operation: op, found: cluster.Found{Link: link}}, nil
}

func (c *Client) disk(ctx context.Context, ref cluster.ResourceRef) (*computepb.Disk, error) {
	return read(ctx, c, c.disks.Get, &computepb.GetDiskRequest{Project: c.project, Zone: ref.Zone, Disk: ref.Name})
}

// DataDevice is the device name of the disk that outlives an instance: the guest finds it as
// /dev/disk/by-id/google-convoke-data.
const DataDevice = "convoke-data"

// ensureInstance makes one VM from a template. A list in the request replaces the template's, so that a further disk
// needs the template's own beside it, with the full names of disk types that an instance wants and a template does not.
func (c *Client) ensureInstance(ctx context.Context, i cluster.EnsureInstance) (result, error) {
	template, err := c.template(ctx, i.Template)
	if err != nil {
		return result{}, err
	}
	instance := &computepb.Instance{Name: &i.Ref.Name}
	if i.Disk != "" {
		for _, d := range template.GetProperties().GetDisks() {
			d = proto.CloneOf(d)
			if p := d.GetInitializeParams(); p.GetDiskType() != "" && !strings.Contains(p.GetDiskType(), "/") {
				p.DiskType = new(c.path("zones", i.Ref.Zone, "diskTypes", p.GetDiskType()))
			}
			instance.Disks = append(instance.Disks, d)
		}
		instance.Disks = append(instance.Disks, &computepb.AttachedDisk{
			Source: new(c.path("zones", i.Ref.Zone, "disks", i.Disk)), DeviceName: new(DataDevice),
			AutoDelete: new(false), Boot: new(false), Type: new("PERSISTENT"), Mode: new("READ_WRITE"),
		})
	}
	op, err := mutate(ctx, c, "zones/"+i.Ref.Zone, c.instances.Insert, &computepb.InsertInstanceRequest{
		Project: c.project, Zone: i.Ref.Zone, RequestId: requestID(i), InstanceResource: instance,
		SourceInstanceTemplate: new(c.path("global", "instanceTemplates", i.Template)),
	})
	found := cluster.Found{Link: c.path("zones", i.Ref.Zone, "instances", i.Ref.Name)}
	if taken(err) {
		there, look := c.instance(ctx, i.Ref.Zone, i.Ref.Name)
		if look != nil {
			return result{}, vanished(look)
		}
		if !bears(there.GetLabels(), ownerLabels(template.GetProperties().GetLabels())) {
			return result{}, foreign("VM", whose(there.GetDescription(), there.GetLabels()))
		}
		found.InstanceID, found.Status = there.GetId(), there.GetStatus()
		return result{found: found}, nil
	}
	if err != nil {
		return result{}, err
	}
	return result{operation: op, found: found}, nil
}

// ownerLabels are those labels that say whose a thing is, and no others.
func ownerLabels(labels map[string]string) map[string]string {
	return cluster.Owner{Cluster: labels[cluster.LabelCluster], UID: labels[cluster.LabelUID]}.Labels()
}

func (c *Client) instance(ctx context.Context, zone, name string) (*computepb.Instance, error) {
	return read(ctx, c, c.instances.Get, &computepb.GetInstanceRequest{Project: c.project, Zone: zone, Instance: name})
}

func (c *Client) deleteInstance(ctx context.Context, zone, name string, id *string) (result, error) {
	return removal(mutate(ctx, c, "zones/"+zone, c.instances.Delete, &computepb.DeleteInstanceRequest{
		Project: c.project, Zone: zone, Instance: name, RequestId: id,
	}))
}

// remove removes a resource of the cluster itself.
func (c *Client) remove(ctx context.Context, i cluster.Remove) (result, error) {
	if gone, err := c.notOwned(ctx, i); gone || err != nil {
		return result{}, err
	}
	switch i.Ref.Kind {
	case cluster.KindInstance:
		return c.deleteInstance(ctx, i.Ref.Zone, i.Ref.Name, requestID(i))
	case cluster.KindDisk:
		return removal(mutate(ctx, c, "zones/"+i.Ref.Zone, c.disks.Delete, &computepb.DeleteDiskRequest{
			Project: c.project, Zone: i.Ref.Zone, Disk: i.Ref.Name, RequestId: requestID(i),
		}))
	case cluster.KindTemplate:
		return c.deleteTemplate(ctx, i.Ref.Name, requestID(i))
	case cluster.KindSecret:
		return c.deleteSecret(ctx, i.Ref.Name)
	}
	return result{}, &cluster.Problem{Class: cluster.Configuration, Message: fmt.Sprintf("a %s is not the cluster's to remove", i.Ref.Kind)}
}

// notOwned reports whether what a removal names is somebody else's, or gone: there is nothing of ours to remove. Names of a
// cluster's own resources can be guessed, so the name alone is no proof.
func (c *Client) notOwned(ctx context.Context, i cluster.Remove) (bool, error) {
	if i.Owner == (cluster.Owner{}) {
		return false, nil
	}
	labels, err := c.labels(ctx, i.Ref)
	if missing(err) {
		return true, nil
	}
	if err != nil || bears(labels, i.Owner.Labels()) {
		return false, err
	}
	c.logger.LogAttrs(ctx, slog.LevelWarn, "left alone what is not this cluster's",
		slog.String("kind", string(i.Ref.Kind)), slog.String("name", i.Ref.Name), slog.String("since", whose("", labels)))
	return true, nil
}

func (c *Client) labels(ctx context.Context, ref cluster.ResourceRef) (map[string]string, error) {
	switch ref.Kind {
	case cluster.KindInstance:
		got, err := c.instance(ctx, ref.Zone, ref.Name)
		return got.GetLabels(), err
	case cluster.KindDisk:
		got, err := c.disk(ctx, ref)
		return got.GetLabels(), err
	case cluster.KindTemplate:
		got, err := c.template(ctx, ref.Name)
		return got.GetProperties().GetLabels(), err
	case cluster.KindSecret:
		got, err := c.secret(ctx, ref.Name)
		return got.GetLabels(), err
	}
	return nil, nil
}
