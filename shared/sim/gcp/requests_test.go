package gcp_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

// The whole life of a resize request: two VMs by name, all at once, for an
// hour.
func TestResizeRequestLife(t *testing.T) {
	inVirtualTime(t, gcp.Options{Seed: 1}, func(w *world) {
		w.flexGroup()
		start := time.Now()
		op, err := w.request("mig", "r1", "node-0", "node-1")
		w.ok("asking", err)
		if op.Done() {
			t.Error("the operation is done at once")
		}
		w.wantState("r1", "CREATING")
		if size := w.group().GetTargetSize(); size != 2 {
			t.Errorf("the target size is %d while the request is being created, want 2", size)
		}
		w.at(start, 4*time.Second)
		w.ok("polling", op.Poll(w.ctx))
		if !op.Done() {
			t.Error("the operation is not done, although the request is recorded")
		}
		w.wantState("r1", "CREATING")
		w.at(start, 6*time.Second)
		w.wantState("r1", "ACCEPTED")
		w.wantMembers("node-0 CREATING PENDING", "node-1 CREATING PENDING")

		w.at(start, 26*time.Second)
		w.wantMembers("node-0 CREATING PROVISIONING", "node-1 CREATING PROVISIONING")
		w.at(start, 36*time.Second)
		w.wantState("r1", "SUCCEEDED")
		w.wantStatus("node-0", "STAGING")
		w.at(start, 51*time.Second)
		w.wantMembers("node-0 NONE RUNNING", "node-1 NONE RUNNING")

		i, err := w.instance("node-0")
		w.ok("getting the VM", err)
		end, err := time.Parse(time.RFC3339, i.GetResourceStatus().GetScheduling().GetTerminationTimestamp())
		w.ok("reading the termination timestamp", err)
		if left := time.Until(end); left > time.Hour || left < time.Hour-time.Minute {
			t.Errorf("the VM ends in %s, want the requested hour, not the template's day", left)
		}
		if i.GetLabels()["cluster"] != "c1" || i.GetMetadata().GetItems()[0].GetKey() != "startup-script" {
			t.Errorf("the VM lacks what its template says: labels %v, metadata %v", i.GetLabels(), i.GetMetadata())
		}
		if i.GetResourceStatus().GetPhysicalHost() == "" || i.GetResourceStatus().GetPhysicalHostTopology().GetBlock() == "" {
			t.Error("the VM does not know its host")
		}

		w.pass(time.Hour + 2*time.Minute)
		w.wantStatus("node-0", "gone")
		w.wantMembers()
		if size := w.group().GetTargetSize(); size != 0 {
			t.Errorf("the target size is %d after the end, want 0", size)
		}
		want := []string{
			"v1.compute.instances.insert first", "v1.compute.instances.insert last",
			"v1.compute.instances.delete first", "v1.compute.instances.delete last",
		}
		if got := w.methods("node-0"); !slices.Equal(got, want) {
			t.Errorf("the audit log says %q, want %q", got, want)
		}
		w.pass(14 * 24 * time.Hour)
		list := all(w, w.requests.List(w.ctx, &computepb.ListInstanceGroupManagerResizeRequestsRequest{Project: project, Zone: zone, InstanceGroupManager: "mig"}).Next)
		if len(list) != 0 {
			t.Errorf("after 14 days there still are %d requests", len(list))
		}
	})
}

// Capacity for one of two: the request waits and says why, and gets both when
// they are there.
func TestResizeRequestWaitsForCapacity(t *testing.T) {
	inVirtualTime(t, gcp.Options{Capacity: map[string]int{zone + "/" + h200: 1}}, func(w *world) {
		w.flexGroup()
		w.done(w.request("mig", "r1", "node-0", "node-1"))
		w.pass(3 * 24 * time.Hour)
		w.wantState("r1", "ACCEPTED")
		last := w.requestState("r1").GetStatus().GetLastAttempt().GetError().GetErrors()
		if len(last) != 1 || last[0].GetCode() != "ZONE_RESOURCE_POOL_EXHAUSTED" {
			t.Errorf("the last attempt says %v, want a stockout", last)
		}
		w.ok("setting capacity", w.cloud.SetCapacity(zone, h200, 2))
		w.pass(time.Minute)
		w.wantState("r1", "SUCCEEDED")
		if status := w.requestState("r1").GetStatus(); status.GetLastAttempt() != nil {
			t.Errorf("the last attempt's error is still there: %v", status)
		}
	})
}

func TestResizeRequestWaitsForQuota(t *testing.T) {
	inVirtualTime(t, gcp.Options{Quotas: map[string]int{"PREEMPTIBLE_NVIDIA_H200_GPUS": 8}}, func(w *world) {
		w.flexGroup()
		w.done(w.request("mig", "r1", "node-0"))
		w.done(w.request("mig", "r2", "node-1"))
		w.pass(time.Minute)
		w.wantState("r1", "SUCCEEDED")
		w.wantState("r2", "ACCEPTED")
		if code := w.requestState("r2").GetStatus().GetLastAttempt().GetError().GetErrors()[0].GetCode(); code != "QUOTA_EXCEEDED" {
			t.Errorf("the last attempt failed with %s, want QUOTA_EXCEEDED", code)
		}
		w.pass(2 * time.Hour) // r1's hour is over
		w.wantState("r2", "SUCCEEDED")
	})
}

// Two requests wait; what is freed goes to the older one, unless only the
// younger one fits.
func TestResizeRequestsQueue(t *testing.T) {
	inVirtualTime(t, gcp.Options{Capacity: map[string]int{zone + "/" + h200: 0}}, func(w *world) {
		w.flexGroup()
		w.done(w.request("mig", "big", "big-0", "big-1"))
		w.done(w.request("mig", "small", "small-0"))
		w.pass(time.Hour)
		w.ok("setting capacity", w.cloud.SetCapacity(zone, h200, 1))
		w.pass(time.Minute)
		w.wantState("big", "ACCEPTED")
		w.wantState("small", "SUCCEEDED")
		w.ok("setting capacity", w.cloud.SetCapacity(zone, h200, 3))
		w.pass(time.Minute)
		w.wantState("big", "SUCCEEDED")
	})
}

func TestResizeRequestCancel(t *testing.T) {
	inVirtualTime(t, gcp.Options{Capacity: map[string]int{zone + "/" + h200: 0}}, func(w *world) {
		w.flexGroup()
		cancel := func(name string) error {
			op, err := w.requests.Cancel(w.ctx, &computepb.CancelInstanceGroupManagerResizeRequestRequest{Project: project, Zone: zone, InstanceGroupManager: "mig", ResizeRequest: name})
			if err != nil {
				return err
			}
			return op.Wait(w.ctx)
		}
		_, err := w.request("mig", "r1", "node-0")
		w.ok("asking", err)
		w.refused(cancel("r1"), 400, "invalid") // still CREATING
		w.pass(time.Minute)

		// What waits cannot be deleted behind the request's back.
		_, err = w.groups.DeleteInstances(w.ctx, &computepb.DeleteInstancesInstanceGroupManagerRequest{
			Project: project, Zone: zone, InstanceGroupManager: "mig",
			InstanceGroupManagersDeleteInstancesRequestResource: &computepb.InstanceGroupManagersDeleteInstancesRequest{Instances: []string{"node-0"}},
		})
		w.refused(err, 400, "invalid")
		_, err = w.requests.Delete(w.ctx, &computepb.DeleteInstanceGroupManagerResizeRequestRequest{Project: project, Zone: zone, InstanceGroupManager: "mig", ResizeRequest: "r1"})
		w.refused(err, 400, "invalid")

		w.ok("cancelling", cancel("r1"))
		w.wantState("r1", "CANCELLED")
		w.wantMembers()
		if size := w.group().GetTargetSize(); size != 0 {
			t.Errorf("the target size is %d after the cancellation, want 0", size)
		}
		_, err = w.request("mig", "r1", "node-0")
		w.refused(err, 409, "alreadyExists") // a finished request keeps its name
		w.done(w.requests.Delete(w.ctx, &computepb.DeleteInstanceGroupManagerResizeRequestRequest{Project: project, Zone: zone, InstanceGroupManager: "mig", ResizeRequest: "r1"}))
		w.done(w.request("mig", "r1", "node-0"))
	})
}

// A cancellation that comes too late ends with an error, and the VM is there.
func TestResizeRequestCancelTooLate(t *testing.T) {
	inVirtualTime(t, gcp.Options{Capacity: map[string]int{zone + "/" + h200: 0}}, func(w *world) {
		w.flexGroup()
		w.done(w.request("mig", "r1", "node-0"))
		w.pass(time.Minute)
		op, err := w.requests.Cancel(w.ctx, &computepb.CancelInstanceGroupManagerResizeRequestRequest{Project: project, Zone: zone, InstanceGroupManager: "mig", ResizeRequest: "r1"})
		w.ok("cancelling", err)
		w.ok("setting capacity", w.cloud.SetCapacity(zone, h200, 1))
		w.refused(op.Wait(w.ctx), 400, "")
		w.pass(time.Minute)
		w.wantState("r1", "SUCCEEDED")
		w.wantStatus("node-0", "RUNNING")

		// While its VMs are being created, it can be refused at once.
		w.ok("setting capacity", w.cloud.SetCapacity(zone, h200, 2))
		start := time.Now()
		w.done(w.request("mig", "r2", "node-1"))
		w.at(start, 27*time.Second)
		w.wantState("r2", "ACCEPTED")
		w.wantStatus("node-1", "PROVISIONING")
		_, err = w.requests.Cancel(w.ctx, &computepb.CancelInstanceGroupManagerResizeRequestRequest{Project: project, Zone: zone, InstanceGroupManager: "mig", ResizeRequest: "r2"})
		if message := w.refused(err, 400, "invalid"); !strings.Contains(message, "being provisioned") {
			t.Errorf("the refusal is %q", message)
		}
	})
}

func TestResizeRequestFails(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.flexGroup()
		w.ok("planning", w.cloud.FailNextRequests(1, "INTERNAL_ERROR", "no luck"))
		w.done(w.request("mig", "r1", "node-0"))
		w.pass(10 * time.Second)
		w.wantState("r1", "FAILED")
		if e := w.requestState("r1").GetStatus().GetError().GetErrors()[0]; e.GetCode() != "INTERNAL_ERROR" || e.GetMessage() != "no luck" {
			t.Errorf("the request failed with %v", e)
		}
		w.wantMembers()

		// During provisioning: what there is already is rolled back.
		start := time.Now()
		w.done(w.request("mig", "r2", "node-0", "node-1"))
		w.at(start, 27*time.Second)
		w.wantStatus("node-0", "PROVISIONING")
		w.ok("failing", w.cloud.FailRequest(zone, "mig", "r2", "INTERNAL_ERROR", "no luck"))
		if size := w.group().GetTargetSize(); size != 0 {
			t.Errorf("the target size is %d after the failure, want 0", size)
		}
		w.pass(time.Minute)
		w.wantStatus("node-0", "gone")
		w.wantMembers()

		// A name that somebody else has.
		w.done(w.insert("node-3", nil))
		w.done(w.request("mig", "r3", "node-2", "node-3"))
		w.pass(time.Minute)
		w.wantState("r3", "FAILED")
		if code := w.requestState("r3").GetStatus().GetError().GetErrors()[0].GetCode(); code != "RESOURCE_ALREADY_EXISTS" {
			t.Errorf("the request failed with %s, want RESOURCE_ALREADY_EXISTS", code)
		}
		w.pass(time.Minute)
		w.wantStatus("node-2", "gone")
		w.wantStatus("node-3", "RUNNING")

		// A VM that is lost on the way.
		start = time.Now()
		w.done(w.request("mig", "r4", "node-4", "node-5"))
		w.at(start, 27*time.Second)
		w.ok("losing", w.cloud.Vanish(zone, "node-4"))
		w.wantState("r4", "FAILED")
		w.pass(time.Minute)
		w.wantMembers()
	})
}

func TestResizeRequestIsChecked(t *testing.T) {
	inVirtualTime(t, gcp.Options{Quotas: map[string]int{"ACTIVE_RESIZE_REQUESTS": 1}, Capacity: map[string]int{zone + "/" + h200: 0}}, func(w *world) {
		w.plainGroup("plain", 0)
		_, err := w.request("plain", "r1", "node-0")
		message := w.refused(err, 400, "invalid")
		for _, part := range []string{"DO_NOTHING", "FLEX_START", "maxRunDuration", "instanceTerminationAction"} {
			if !strings.Contains(message, part) {
				t.Errorf("the refusal does not name %s: %s", part, message)
			}
		}
		w.flexGroup()
		ask := func(r *computepb.InstanceGroupManagerResizeRequest) error {
			if r.Name == nil {
				r.Name = new("r1")
			}
			_, err := w.requests.Insert(w.ctx, &computepb.InsertInstanceGroupManagerResizeRequestRequest{Project: project, Zone: zone, InstanceGroupManager: "mig", InstanceGroupManagerResizeRequestResource: r})
			return err
		}
		for name, bad := range map[string]*computepb.InstanceGroupManagerResizeRequest{
			"neither names nor number": {},
			"both":                     {ResizeBy: new(int32(1)), Instances: []*computepb.PerInstanceConfig{{Name: new("a")}}},
			"no VM":                    {ResizeBy: new(int32(0))},
			"too many VMs":             {ResizeBy: new(int32(1001))},
			"a name twice":             {Instances: []*computepb.PerInstanceConfig{{Name: new("a")}, {Name: new("a")}}},
			"a bad VM name":            {Instances: []*computepb.PerInstanceConfig{{Name: new("A_1")}}},
			"a bad name":               {Name: new("-r"), ResizeBy: new(int32(1))},
			"too short":                {ResizeBy: new(int32(1)), RequestedRunDuration: &computepb.Duration{Seconds: new(int64(599))}},
			"too long":                 {ResizeBy: new(int32(1)), RequestedRunDuration: &computepb.Duration{Seconds: new(int64(7*24*3600 + 1))}},
		} {
			if err := ask(bad); err == nil {
				t.Errorf("%s: accepted", name)
			} else {
				w.refused(err, 400, "")
			}
		}
		if size := w.group().GetTargetSize(); size != 0 {
			t.Errorf("refusals have raised the target size to %d", size)
		}
		w.ok("asking", ask(&computepb.InstanceGroupManagerResizeRequest{ResizeBy: new(int32(2))}))
		w.refused(ask(&computepb.InstanceGroupManagerResizeRequest{Name: new("r2"), ResizeBy: new(int32(1))}), 403, "quotaExceeded")

		w.pass(time.Minute)
		_, err = w.groups.Resize(w.ctx, &computepb.ResizeInstanceGroupManagerRequest{Project: project, Zone: zone, InstanceGroupManager: "mig", Size: 5})
		w.refused(err, 400, "invalid") // the size cannot change while a request is active
	})
}

// A group that is being deleted waits for its active request.
func TestGroupDeletionWaitsForRequest(t *testing.T) {
	inVirtualTime(t, gcp.Options{Capacity: map[string]int{zone + "/" + h200: 0}}, func(w *world) {
		w.flexGroup()
		w.done(w.request("mig", "r1", "node-0"))
		w.pass(time.Minute)
		op, err := w.groups.Delete(w.ctx, &computepb.DeleteInstanceGroupManagerRequest{Project: project, Zone: zone, InstanceGroupManager: "mig"})
		w.ok("deleting", err)
		w.pass(24 * time.Hour)
		w.ok("polling", op.Poll(w.ctx))
		if op.Done() {
			t.Fatal("the group was deleted although its request is active")
		}
		w.ok("setting capacity", w.cloud.SetCapacity(zone, h200, 1))
		w.pass(5 * time.Minute)
		w.ok("polling", op.Poll(w.ctx))
		if !op.Done() {
			t.Error("the group is still there after its request has succeeded")
		}
		w.wantStatus("node-0", "gone")
	})
	inVirtualTime(t, gcp.Options{Behavior: gcp.Behavior{RefuseDeleteOfBusyGroup: true}}, func(w *world) {
		w.flexGroup()
		w.done(w.request("mig", "r1", "node-0"))
		_, err := w.groups.Delete(w.ctx, &computepb.DeleteInstanceGroupManagerRequest{Project: project, Zone: zone, InstanceGroupManager: "mig"})
		w.refused(err, 400, "resourceInUseByAnotherResource")
	})
}

func TestThousandVMsInOneRequest(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.flexGroup()
		w.done(w.requests.Insert(w.ctx, &computepb.InsertInstanceGroupManagerResizeRequestRequest{
			Project: project, Zone: zone, InstanceGroupManager: "mig",
			InstanceGroupManagerResizeRequestResource: &computepb.InstanceGroupManagerResizeRequest{Name: new("r1"), ResizeBy: new(int32(1000))},
		}))
		w.pass(2 * time.Minute)
		w.wantState("r1", "SUCCEEDED")
		ids := map[uint64]bool{}
		for _, i := range all(w, w.instances.List(w.ctx, &computepb.ListInstancesRequest{Project: project, Zone: zone}).Next) {
			ids[i.GetId()] = true
		}
		if len(ids) != 1000 {
			t.Errorf("there are %d different VMs, want 1000", len(ids))
		}
	})
}

func TestLeaseEndBehaviors(t *testing.T) {
	for event, want := range map[gcp.LeaseEndEvent][]string{
		gcp.LeaseEndDelete:         {"v1.compute.instances.delete first", "v1.compute.instances.delete last"},
		gcp.LeaseEndDeferredDelete: {"compute.instances.deferredDelete"},
		gcp.LeaseEndBoth:           {"compute.instances.deferredDelete", "v1.compute.instances.delete first", "v1.compute.instances.delete last"},
		gcp.LeaseEndSilent:         nil,
	} {
		t.Run("event "+string(event), func(t *testing.T) {
			inVirtualTime(t, gcp.Options{Behavior: gcp.Behavior{LeaseEndEvent: event, KeepTargetSizeAtLeaseEnd: true}}, func(w *world) {
				w.flexGroup()
				w.done(w.request("mig", "r1", "node-0"))
				w.pass(time.Minute)
				w.ok("ending", w.cloud.EndLease(zone, "node-0"))
				w.pass(time.Minute)
				w.wantMembers()
				if got := w.methods("node-0")[2:]; !slices.Equal(got, want) {
					t.Errorf("the audit log says %q, want %q", got, want)
				}
				if size := w.group().GetTargetSize(); size != 1 {
					t.Errorf("the target size is %d, want it kept at 1", size)
				}
			})
		})
	}
}
