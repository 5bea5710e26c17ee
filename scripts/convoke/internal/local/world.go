package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	filestore "cloud.google.com/go/filestore/apiv1"
	"cloud.google.com/go/filestore/apiv1/filestorepb"
	"google.golang.org/api/googleapi"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
	"github.com/convoke-hpc/convoke/shared/sim/machines"
)

// world is what is simulated: the cloud, and the machines that run in it.
type world struct {
	cloud  *gcp.Server
	guests *machines.Guests
	pubsub *machines.PubSub
	roads  *auditRoads
}

// openWorld goes on with what the data folder holds, machines included, or begins with a project that has a network and the
// Filestore instances that specs may name.
func openWorld(ctx context.Context, o Options, b *bus, functions http.Handler) (*world, error) {
	disks := filepath.Join(o.DataDir, "disks")
	if err := os.MkdirAll(disks, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder for the controllers' disks, %w", err)
	}
	w := &world{pubsub: machines.NewPubSub(b.client, o.Logger), roads: openRoads(b.client.Publisher(events.TopicInstances), functions, o.Logger)}
	var err error
	w.guests, err = machines.New(machines.Options{
		Publisher: w.pubsub, Commands: w.pubsub, Delays: &o.Pace.Machines, Timing: &o.Pace.Slurm, Folder: disks, Logger: o.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	seeding := o.Pace.Cloud
	seeding.Filestore = 0
	w.cloud, err = gcp.New(gcp.Options{
		Project: o.Project, Seed: o.Seed, Delays: &seeding, Events: w.roads.take, Machines: w.guests,
		File: filepath.Join(o.DataDir, "cloud.db"), Logger: o.Logger,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the simulated cloud, %w", err), w.close())
	}
	for _, name := range o.Filestores {
		if err := w.ensureFilestore(ctx, o.Project, name); err != nil {
			return nil, errors.Join(fmt.Errorf("making the Filestore instance %s, %w", name, err), w.close())
		}
	}
	if err := w.cloud.SetDelays(func(d *gcp.Delays) { *d = o.Pace.Cloud }); err != nil { // the data folder has those of its first run
		return nil, errors.Join(fmt.Errorf("setting the pace of the simulated cloud, %w", err), w.close())
	}
	return w, nil
}

// ensureFilestore makes the instance LOCATION/ID unless it is there.
func (w *world) ensureFilestore(ctx context.Context, project, name string) error {
	location, id, ok := strings.Cut(name, "/")
	if !ok {
		return errors.New("want LOCATION/ID, such as us-central1-a/home")
	}
	c, err := filestore.NewCloudFilestoreManagerRESTClient(ctx, w.cloud.ClientOptions()...)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // there is no connection
	tier := filestorepb.Instance_ZONAL
	if cluster.Region(location) == location {
		tier = filestorepb.Instance_REGIONAL
	}
	op, err := c.CreateInstance(ctx, &filestorepb.CreateInstanceRequest{
		Parent: "projects/" + project + "/locations/" + location, InstanceId: id,
		Instance: &filestorepb.Instance{
			Tier:       tier,
			FileShares: []*filestorepb.FileShareConfig{{Name: "nfsshare", CapacityGb: 1024}},
			Networks:   []*filestorepb.NetworkConfig{{Network: "default", Modes: []filestorepb.NetworkConfig_AddressMode{filestorepb.NetworkConfig_MODE_IPV4}}},
		},
	})
	if e := (*googleapi.Error)(nil); errors.As(err, &e) && e.Code == http.StatusConflict {
		return nil
	}
	if err != nil {
		return err
	}
	for !op.Done() && err == nil { // at once: it takes no time yet
		_, err = op.Poll(ctx)
	}
	return err
}

// halt turns the machines off without telling anybody; they go on where they stopped.
func (w *world) halt() {
	if w.guests != nil {
		w.guests.Close()
	}
}

func (w *world) close() error {
	w.halt()
	w.roads.close()
	var err error
	if w.cloud != nil {
		err = w.cloud.Close()
	}
	w.pubsub.Close()
	return err
}
