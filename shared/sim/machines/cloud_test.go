package machines

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/bootstrap"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
	"github.com/convoke-hpc/convoke/shared/sim/slurm"
)

var _ gcp.MachineWatcher = (*Guests)(nil)

// TestOnTheSimulatedCloud makes VMs with the official client and sees them become a cluster.
func TestOnTheSimulatedCloud(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour) // the bubble's first moment is one that events do not believe in
		s := newSky(t)
		defer s.close()
		s.insert("c1-controller", map[string]string{bootstrap.KeyRole: bootstrap.RoleController, bootstrap.KeySpec: specJSON})
		s.insert("c1-a3u-0", map[string]string{bootstrap.KeyRole: bootstrap.RoleCompute, bootstrap.KeyPool: "a3u"})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		ctl, ok := s.guests.Slurm(testKey("c1"))
		if !ok {
			t.Fatal("slurmctld does not run")
		}
		if n, _ := ctl.Node("c1-a3u-0"); n.String() != "IDLE+CLOUD" {
			t.Fatalf("the node is %s", n)
		}
		seen, err := s.instances.Get(t.Context(), &computepb.GetInstanceRequest{Project: s.project, Zone: s.zone, Instance: "c1-a3u-0"})
		if err != nil || seen.GetId() != s.booted("c1-a3u-0") || s.booted("c1-controller") == 0 {
			t.Errorf("the machine said it is %d, the cloud has %d, %v", s.booted("c1-a3u-0"), seen.GetId(), err)
		}
		if _, err := ctl.Submit(slurm.JobSpec{RunFor: 24 * time.Hour}); err != nil {
			t.Fatal(err)
		}

		s.done(s.instances.Delete(t.Context(), &computepb.DeleteInstanceRequest{Project: s.project, Zone: s.zone, Instance: "c1-a3u-0"}))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n, _ := ctl.Node("c1-a3u-0"); n.String() != "DOWN+CLOUD+NOT_RESPONDING" {
			t.Errorf("the node is %s", n)
		}
		if j, _ := ctl.Job(1); j.Restarts != 1 {
			t.Errorf("the job is %s", j.State)
		}
	})
}

// sky is a simulated cloud with machines on it.
type sky struct {
	*testing.T
	project, zone string
	guests        *Guests
	cloud         *gcp.Server
	instances     *compute.InstancesClient

	mu  sync.Mutex
	ids map[string]uint64 // by name, as the machines' boot reports say
}

func newSky(t *testing.T) *sky {
	t.Helper()
	s := &sky{T: t, project: "team-train", zone: "us-central1-a", ids: map[string]uint64{}}
	bus := &Memory{Deliver: func(_ context.Context, _ string, e *events.Event) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if b, ok := e.Payload.(*events.NodeBoot); ok && b.OK {
			s.ids[b.Node] = b.InstanceID
		}
		return nil
	}}
	var err error
	if s.guests, err = New(Options{Publisher: bus, Commands: bus, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	if s.cloud, err = gcp.New(gcp.Options{Project: s.project, Machines: s.guests, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	if s.instances, err = compute.NewInstancesRESTClient(t.Context(), s.cloud.ClientOptions()...); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sky) close() {
	if err := s.cloud.Close(); err != nil {
		s.Error(err)
	}
	s.guests.Close()
}

func (s *sky) booted(name string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[name]
}

func (s *sky) done(op *compute.Operation, err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	if err := op.Wait(s.Context()); err != nil {
		s.Fatal(err)
	}
}

func (s *sky) insert(name string, metadata map[string]string) {
	s.Helper()
	metadata[bootstrap.KeyCluster], metadata[bootstrap.KeyUID] = testKey("c1").String(), "u1"
	s.done(s.instances.Insert(s.Context(), &computepb.InsertInstanceRequest{
		Project: s.project, Zone: s.zone, InstanceResource: instance(name, metadata),
	}))
}

func instance(name string, metadata map[string]string) *computepb.Instance {
	i := &computepb.Instance{
		Name: new(name), MachineType: new("zones/us-central1-a/machineTypes/n2-standard-8"), Metadata: &computepb.Metadata{},
		Disks: []*computepb.AttachedDisk{{Boot: new(true), InitializeParams: &computepb.AttachedDiskInitializeParams{
			SourceImage: new("projects/debian-cloud/global/images/family/debian-12"), DiskSizeGb: new(int64(100)),
		}}},
		NetworkInterfaces: []*computepb.NetworkInterface{{Network: new("global/networks/default")}},
	}
	for k, v := range metadata {
		i.Metadata.Items = append(i.Metadata.Items, &computepb.Items{Key: new(k), Value: new(v)})
	}
	return i
}
