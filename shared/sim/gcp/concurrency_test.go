package gcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"

	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

// Many clients at once over real sockets, while machines break: everything
// stays in order, and what is deleted is gone.
func TestConcurrentClients(t *testing.T) {
	delays := gcp.QuickDelays()
	w := newWorld(t, gcp.Options{Delays: &delays})
	server := httptest.NewServer(w.cloud)
	defer server.Close()
	ctx := context.Background()
	instances, err := compute.NewInstancesRESTClient(ctx, option.WithEndpoint(server.URL), option.WithoutAuthentication())
	w.ok("connecting", err)
	operations, err := compute.NewZoneOperationsRESTClient(ctx, option.WithEndpoint(server.URL), option.WithoutAuthentication())
	w.ok("connecting", err)
	wait := func(op *compute.Operation, err error) error {
		if err != nil {
			return err
		}
		_, err = operations.Wait(ctx, &computepb.WaitZoneOperationRequest{Project: project, Zone: zone, Operation: op.Name()})
		return err
	}
	var wg sync.WaitGroup
	failed := make(chan error, 100)
	for n := range 20 {
		wg.Go(func() {
			name := fmt.Sprintf("vm-%d", n)
			p := plainProperties()
			failed <- wait(instances.Insert(ctx, &computepb.InsertInstanceRequest{Project: project, Zone: zone, InstanceResource: &computepb.Instance{
				Name: new(name), MachineType: p.MachineType, Disks: p.Disks, NetworkInterfaces: p.NetworkInterfaces,
			}}))
			if n%3 == 0 {
				failed <- w.cloud.Preempt(zone, name)
			}
			_, err := instances.List(ctx, &computepb.ListInstancesRequest{Project: project, Zone: zone}).Next()
			if err != nil && !errors.Is(err, iterator.Done) {
				failed <- err
			}
			failed <- wait(instances.Delete(ctx, &computepb.DeleteInstanceRequest{Project: project, Zone: zone, Instance: name}))
		})
	}
	wg.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			t.Error(err)
		}
	}
	if left := w.leftovers(); len(left) > 0 {
		t.Errorf("there is still %q", left)
	}
	news := w.heardNews()
	for n := range 20 {
		name := fmt.Sprintf("vm-%d", n)
		runs, gone := slices.Index(news, name+" runs"), slices.IndexFunc(news, func(s string) bool { return s == name+" is gone: delete" || s == name+" is gone: preempted" })
		if runs < 0 || gone < runs {
			t.Errorf("the guests heard that %s runs at %d, and that it is gone at %d", name, runs, gone)
		}
	}
	w.ok("closing", w.cloud.Close())
}

// The same seed and the same requests give the same cloud, to the last id.
func TestDeterminism(t *testing.T) {
	trace := func(seed uint64) string {
		var out string
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, gcp.Options{Seed: seed, Capacity: map[string]int{zone + "/" + h200: 3}})
			step := func(_ *compute.Operation, err error) {
				t.Helper()
				w.ok("a step", err)
				w.pass(time.Minute)
			}
			step(w.templates.Insert(w.ctx, &computepb.InsertInstanceTemplateRequest{Project: project, InstanceTemplateResource: &computepb.InstanceTemplate{Name: new("mig"), Properties: flexProperties()}}))
			step(w.groups.Insert(w.ctx, &computepb.InsertInstanceGroupManagerRequest{Project: project, Zone: zone, InstanceGroupManagerResource: &computepb.InstanceGroupManager{
				Name: new("mig"), InstanceTemplate: new("global/instanceTemplates/mig"), TargetSize: new(int32(0)),
				InstanceLifecyclePolicy: &computepb.InstanceGroupManagerInstanceLifecyclePolicy{DefaultActionOnFailure: new("DO_NOTHING")},
			}}))
			step(w.requests.Insert(w.ctx, &computepb.InsertInstanceGroupManagerResizeRequestRequest{Project: project, Zone: zone, InstanceGroupManager: "mig", InstanceGroupManagerResizeRequestResource: &computepb.InstanceGroupManagerResizeRequest{Name: new("r1"), ResizeBy: new(int32(3))}}))
			for _, i := range all(w, w.instances.List(w.ctx, &computepb.ListInstancesRequest{Project: project, Zone: zone}).Next) {
				out += fmt.Sprintln(i.GetName(), i.GetId(), i.GetResourceStatus(), i.GetFingerprint(), i.GetNetworkInterfaces()[0].GetNetworkIP())
			}
			w.pass(25 * time.Hour)
			w.ok("flushing", w.cloud.Flush())
			for _, e := range w.entries {
				out += string(e.JSON) + "\n"
			}
			w.ok("closing", w.cloud.Close())
		})
		return out
	}
	first := trace(1)
	if again := trace(1); again != first {
		t.Errorf("the same seed gave\n%s\nand then\n%s", first, again)
	}
	if other := trace(2); other == first {
		t.Error("another seed gave the same")
	}
}

// Instances follow each other through thousands of hours in no time.
func TestVirtualTimeIsFast(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.flexGroup()
		for n := range 50 {
			w.done(w.request("mig", fmt.Sprintf("r%d", n), "node-0"))
			w.pass(2 * time.Hour)
			w.wantStatus("node-0", "gone")
		}
		if n := len(w.heardNews()); n != 150 { // runs, changed, is gone
			t.Errorf("the guests heard %d news, want 150", n)
		}
	})
}

// BenchmarkList10000 reads all of 10,000 instances, 500 a page.
func BenchmarkList10000(b *testing.B) {
	delays := gcp.QuickDelays()
	cloud, err := gcp.New(gcp.Options{Delays: &delays})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = cloud.Close() }()
	ctx := context.Background()
	opts := cloud.ClientOptions()
	templates, err := compute.NewInstanceTemplatesRESTClient(ctx, opts...)
	if err != nil {
		b.Fatal(err)
	}
	groups, err := compute.NewInstanceGroupManagersRESTClient(ctx, opts...)
	if err != nil {
		b.Fatal(err)
	}
	instances, err := compute.NewInstancesRESTClient(ctx, opts...)
	if err != nil {
		b.Fatal(err)
	}
	wait := func(op *compute.Operation, err error) {
		if err != nil {
			b.Fatal(err)
		}
		if err := op.Wait(ctx); err != nil {
			b.Fatal(err)
		}
	}
	p := plainProperties()
	p.NetworkInterfaces[0].Subnetwork = nil
	wait(templates.Insert(ctx, &computepb.InsertInstanceTemplateRequest{Project: project, InstanceTemplateResource: &computepb.InstanceTemplate{Name: new("t"), Properties: p}}))
	for n := range 3 { // an auto-mode subnetwork has 4,092 addresses
		networks := []string{"us-central1-a", "us-east4-a", "us-west1-a"}
		wait(groups.Insert(ctx, &computepb.InsertInstanceGroupManagerRequest{Project: project, Zone: networks[n], InstanceGroupManagerResource: &computepb.InstanceGroupManager{
			Name: new("mig"), InstanceTemplate: new("global/instanceTemplates/t"), TargetSize: new([]int32{3400, 3300, 3300}[n]),
		}}))
	}
	count := func() int {
		n := 0
		it := instances.AggregatedList(ctx, &computepb.AggregatedListInstancesRequest{Project: project})
		for {
			scope, err := it.Next()
			if errors.Is(err, iterator.Done) {
				return n
			}
			if err != nil {
				b.Fatal(err)
			}
			n += len(scope.Value.GetInstances())
		}
	}
	for count() < 10000 {
		time.Sleep(10 * time.Millisecond)
	}
	b.ReportAllocs()
	for b.Loop() {
		if n := count(); n != 10000 {
			b.Fatalf("there are %d instances", n)
		}
	}
}

// handClock shows the time that it is set to.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

func (c *handClock) AfterFunc(time.Duration, func()) gcp.Timer { return noTimer{} }

type noTimer struct{}

func (noTimer) Stop() bool { return true }

// A clock without timers is enough: what is due is carried out when somebody
// looks. If the clock steps back, what has happened has happened, and what
// comes next is planned from there.
func TestClockStepsBack(t *testing.T) {
	clock := &handClock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w := newWorld(t, gcp.Options{Clock: clock})
	_, err := w.insert("vm", nil)
	w.ok("inserting", err)
	clock.set(clock.Now().Add(time.Minute))
	w.wantStatus("vm", "RUNNING")
	first, err := w.instance("vm")
	w.ok("getting", err)
	clock.set(clock.Now().Add(-time.Hour))
	_, err = w.insert("vm-2", nil)
	w.ok("inserting", err)
	second, err := w.instance("vm-2")
	w.ok("getting", err)
	if second.GetCreationTimestamp() < first.GetLastStartTimestamp() {
		t.Errorf("vm-2 was created at %s, before what came before it at %s", second.GetCreationTimestamp(), first.GetLastStartTimestamp())
	}
	w.ok("closing", w.cloud.Close())
}
