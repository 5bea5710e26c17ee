package gcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	filestore "cloud.google.com/go/filestore/apiv1"
	secretmanager "cloud.google.com/go/secretmanager/apiv1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"

	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

const (
	project = "my-project"
	zone    = "us-central1-a"
	region  = "us-central1"
	h200    = "a3-ultragpu-8g"
)

// A world is a simulated cloud and the official clients of it.
type world struct {
	t     *testing.T
	ctx   context.Context
	cloud *gcp.Server

	instances   *compute.InstancesClient
	templates   *compute.InstanceTemplatesClient
	groups      *compute.InstanceGroupManagersClient
	requests    *compute.InstanceGroupManagerResizeRequestsClient
	operations  *compute.ZoneOperationsClient
	global      *compute.GlobalOperationsClient
	networks    *compute.NetworksClient
	subnetworks *compute.SubnetworksClient
	disks       *compute.DisksClient
	types       *compute.MachineTypesClient
	filestores  *filestore.CloudFilestoreManagerClient
	secrets     *secretmanager.Client

	mu      sync.Mutex
	entries []gcp.LogEntry
	news    []string
	guests  map[string]gcp.Instance
}

// inVirtualTime runs a test against a new cloud, in a bubble whose time passes
// when everybody waits.
func inVirtualTime(t *testing.T, opts gcp.Options, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, opts)
		test(w)
		if err := w.cloud.Close(); err != nil {
			t.Errorf("closing the cloud: %v", err)
		}
	})
}

func newWorld(t *testing.T, opts gcp.Options) *world {
	t.Helper()
	w := &world{t: t, ctx: context.Background(), guests: map[string]gcp.Instance{}}
	if opts.Events == nil {
		opts.Events = w.heard
	}
	if opts.Machines == nil {
		opts.Machines = w
	}
	opts.Logger = slog.New(slog.NewTextHandler(testLog{t}, nil))
	cloud, err := gcp.New(opts)
	if err != nil {
		t.Fatalf("starting the cloud: %v", err)
	}
	w.connect(cloud)
	return w
}

// testLog fails the test at anything the simulator could not tell a client.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Errorf("the simulator logged: %s", p)
	return len(p), nil
}

func (w *world) connect(cloud *gcp.Server) {
	w.cloud = cloud
	opts := cloud.ClientOptions()
	w.instances = client(w, compute.NewInstancesRESTClient, opts)
	w.templates = client(w, compute.NewInstanceTemplatesRESTClient, opts)
	w.groups = client(w, compute.NewInstanceGroupManagersRESTClient, opts)
	w.requests = client(w, compute.NewInstanceGroupManagerResizeRequestsRESTClient, opts)
	w.operations = client(w, compute.NewZoneOperationsRESTClient, opts)
	w.global = client(w, compute.NewGlobalOperationsRESTClient, opts)
	w.networks = client(w, compute.NewNetworksRESTClient, opts)
	w.subnetworks = client(w, compute.NewSubnetworksRESTClient, opts)
	w.disks = client(w, compute.NewDisksRESTClient, opts)
	w.types = client(w, compute.NewMachineTypesRESTClient, opts)
	w.filestores = client(w, filestore.NewCloudFilestoreManagerRESTClient, opts)
	w.secrets = client(w, secretmanager.NewRESTClient, opts)
}

func client[C io.Closer](w *world, connect func(context.Context, ...option.ClientOption) (C, error), opts []option.ClientOption) C {
	w.t.Helper()
	c, err := connect(w.ctx, opts...)
	if err != nil {
		w.t.Fatalf("connecting: %v", err)
	}
	return c
}

func (w *world) heard(_ context.Context, e gcp.LogEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entries = append(w.entries, e)
}

func (w *world) InstanceRunning(_ context.Context, i gcp.Instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.news = append(w.news, i.Name+" runs")
	w.guests[i.Name] = i
}

func (w *world) InstanceGone(_ context.Context, i gcp.Instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.news = append(w.news, i.Name+" is gone: "+i.Reason)
	delete(w.guests, i.Name)
}

func (w *world) InstanceChanged(_ context.Context, i gcp.Instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.news = append(w.news, i.Name+" changed: "+i.Status)
	w.guests[i.Name] = i
}

// methods heard about an instance, with "first" and "last" for those that come
// in two.
func (w *world) methods(instance string) []string {
	w.t.Helper()
	if err := w.cloud.Flush(); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, e := range w.entries {
		if e.Instance != instance {
			continue
		}
		switch {
		case e.First && !e.Last:
			out = append(out, e.Method+" first")
		case e.Last && !e.First:
			out = append(out, e.Method+" last")
		default:
			out = append(out, e.Method)
		}
	}
	return out
}

func (w *world) heardNews() []string {
	w.t.Helper()
	if err := w.cloud.Flush(); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.news)
}

// guest is what a running instance knows of itself.
func (w *world) guest(name string) gcp.Instance {
	w.t.Helper()
	if err := w.cloud.Flush(); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	g, ok := w.guests[name]
	if !ok {
		w.t.Fatalf("there is no guest %s", name)
	}
	return g
}

func (w *world) leftovers() []string {
	w.t.Helper()
	sum, err := w.cloud.Summarize()
	w.ok("summarizing", err)
	return sum.Leftovers()
}

// ok ends the test at an error.
func (w *world) ok(what string, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

// done waits for an operation that must succeed.
func (w *world) done(op *compute.Operation, err error) {
	w.t.Helper()
	w.ok("starting an operation", err)
	w.ok("waiting for "+op.Proto().GetOperationType(), op.Wait(w.ctx))
}

// refused expects an error of that status and reason, and returns its message.
func (w *world) refused(err error, status int, reason string) string {
	w.t.Helper()
	var e *googleapi.Error
	if !errors.As(err, &e) {
		w.t.Fatalf("got %v, want an API error %d %s", err, status, reason)
	}
	got := ""
	if len(e.Errors) > 0 {
		got = e.Errors[0].Reason
	}
	if e.Code != status || (reason != "" && got != reason) {
		w.t.Fatalf("got %d %s (%s), want %d %s", e.Code, got, e.Message, status, reason)
	}
	return e.Message
}

func all[T any](w *world, next func() (T, error)) []T {
	w.t.Helper()
	var out []T
	for {
		item, err := next()
		if errors.Is(err, iterator.Done) {
			return out
		}
		w.ok("listing", err)
		out = append(out, item)
	}
}

// flexProperties are of a flex-start H200 VM that runs for a day.
func flexProperties() *computepb.InstanceProperties {
	return &computepb.InstanceProperties{
		MachineType: new(h200),
		Labels:      map[string]string{"cluster": "c1"},
		Metadata:    &computepb.Metadata{Items: []*computepb.Items{{Key: new("startup-script"), Value: new("#!/bin/bash\necho up")}}},
		Disks: []*computepb.AttachedDisk{{
			Boot: new(true), AutoDelete: new(true),
			InitializeParams: &computepb.AttachedDiskInitializeParams{
				SourceImage: new("projects/debian-cloud/global/images/family/debian-12"), DiskType: new("hyperdisk-balanced"), DiskSizeGb: new(int64(100)),
			},
		}},
		NetworkInterfaces: []*computepb.NetworkInterface{{Network: new("global/networks/default")}},
		Scheduling: &computepb.Scheduling{
			ProvisioningModel: new("FLEX_START"), InstanceTerminationAction: new("DELETE"), OnHostMaintenance: new("TERMINATE"),
			AutomaticRestart: new(false), MaxRunDuration: &computepb.Duration{Seconds: new(int64(24 * 3600))},
		},
		ReservationAffinity: &computepb.ReservationAffinity{ConsumeReservationType: new("NO_RESERVATION")},
	}
}

// plainProperties are of an on-demand CPU VM.
func plainProperties() *computepb.InstanceProperties {
	p := flexProperties()
	p.MachineType = new("n2-standard-8")
	p.Disks[0].InitializeParams.DiskType = new("pd-ssd")
	p.Scheduling, p.ReservationAffinity = nil, nil
	return p
}

func (w *world) template(name string, p *computepb.InstanceProperties) {
	w.t.Helper()
	w.done(w.templates.Insert(w.ctx, &computepb.InsertInstanceTemplateRequest{
		Project: project, InstanceTemplateResource: &computepb.InstanceTemplate{Name: new(name), Properties: p},
	}))
}

// mig is the group that most tests are about.
const mig = "mig"

// flexGroup makes it an empty group as resize requests want it.
func (w *world) flexGroup() {
	w.t.Helper()
	w.template(mig, flexProperties())
	w.done(w.groups.Insert(w.ctx, &computepb.InsertInstanceGroupManagerRequest{
		Project: project, Zone: zone, InstanceGroupManagerResource: &computepb.InstanceGroupManager{
			Name: new(mig), InstanceTemplate: new("global/instanceTemplates/" + mig), TargetSize: new(int32(0)),
			InstanceLifecyclePolicy: &computepb.InstanceGroupManagerInstanceLifecyclePolicy{DefaultActionOnFailure: new("DO_NOTHING")},
		},
	}))
}

// plainGroup is a group of on-demand VMs that are repaired.
func (w *world) plainGroup(name string, size int32) {
	w.t.Helper()
	w.template(name, plainProperties())
	w.done(w.groups.Insert(w.ctx, &computepb.InsertInstanceGroupManagerRequest{
		Project: project, Zone: zone, InstanceGroupManagerResource: &computepb.InstanceGroupManager{
			Name: new(name), InstanceTemplate: new("global/instanceTemplates/" + name), TargetSize: new(size),
		},
	}))
}

func (w *world) group() *computepb.InstanceGroupManager {
	w.t.Helper()
	g, err := w.groups.Get(w.ctx, &computepb.GetInstanceGroupManagerRequest{Project: project, Zone: zone, InstanceGroupManager: mig})
	w.ok("getting the group", err)
	return g
}

// request asks for VMs by name.
func (w *world) request(group, name string, instances ...string) (*compute.Operation, error) {
	r := &computepb.InstanceGroupManagerResizeRequest{Name: new(name), RequestedRunDuration: &computepb.Duration{Seconds: new(int64(3600))}}
	for _, i := range instances {
		r.Instances = append(r.Instances, &computepb.PerInstanceConfig{Name: new(i)})
	}
	return w.requests.Insert(w.ctx, &computepb.InsertInstanceGroupManagerResizeRequestRequest{
		Project: project, Zone: zone, InstanceGroupManager: group, InstanceGroupManagerResizeRequestResource: r,
	})
}

func (w *world) requestState(name string) *computepb.InstanceGroupManagerResizeRequest {
	w.t.Helper()
	r, err := w.requests.Get(w.ctx, &computepb.GetInstanceGroupManagerResizeRequestRequest{Project: project, Zone: zone, InstanceGroupManager: mig, ResizeRequest: name})
	w.ok("getting resize request "+name, err)
	return r
}

func (w *world) wantState(name, state string) {
	w.t.Helper()
	if got := w.requestState(name).GetState(); got != state {
		w.t.Fatalf("resize request %s is %s, want %s", name, got, state)
	}
}

func (w *world) members() []string {
	w.t.Helper()
	var out []string
	for _, m := range all(w, w.groups.ListManagedInstances(w.ctx, &computepb.ListManagedInstancesInstanceGroupManagersRequest{
		Project: project, Zone: zone, InstanceGroupManager: mig,
	}).Next) {
		line := fmt.Sprintf("%s %s %s", m.GetName(), m.GetCurrentAction(), m.GetInstanceStatus())
		for _, e := range m.GetLastAttempt().GetErrors().GetErrors() {
			line += " " + e.GetCode()
		}
		out = append(out, line)
	}
	return out
}

func (w *world) wantMembers(want ...string) {
	w.t.Helper()
	if got := w.members(); !slices.Equal(got, want) {
		w.t.Fatalf("the members are %q, want %q", got, want)
	}
}

func (w *world) instance(name string) (*computepb.Instance, error) {
	return w.instances.Get(w.ctx, &computepb.GetInstanceRequest{Project: project, Zone: zone, Instance: name})
}

func (w *world) status(name string) string {
	w.t.Helper()
	i, err := w.instance(name)
	if err != nil {
		w.refused(err, http.StatusNotFound, "notFound")
		return "gone"
	}
	return i.GetStatus()
}

func (w *world) wantStatus(name, want string) {
	w.t.Helper()
	if got := w.status(name); got != want {
		w.t.Fatalf("instance %s is %s, want %s", name, got, want)
	}
}

// insert starts an on-demand VM.
func (w *world) insert(name string, change func(*computepb.Instance)) (*compute.Operation, error) {
	p := plainProperties()
	i := &computepb.Instance{
		Name: new(name), MachineType: new("zones/" + zone + "/machineTypes/n2-standard-8"), Disks: p.Disks,
		NetworkInterfaces: p.NetworkInterfaces, Labels: p.Labels, Metadata: p.Metadata,
	}
	if change != nil {
		change(i)
	}
	return w.instances.Insert(w.ctx, &computepb.InsertInstanceRequest{Project: project, Zone: zone, InstanceResource: i})
}

// at lets time pass until d after start: what waits for operations takes a
// time of its own, since the clients poll at random intervals.
func (w *world) at(start time.Time, d time.Duration) {
	w.t.Helper()
	left := time.Until(start.Add(d))
	if left < 0 {
		w.t.Fatalf("it is %s past the time that the test is about", -left)
	}
	w.pass(left)
}

func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
