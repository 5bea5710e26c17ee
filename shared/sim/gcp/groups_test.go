package gcp_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

func (w *world) create(names ...string) (*compute.Operation, error) {
	in := &computepb.InstanceGroupManagersCreateInstancesRequest{}
	for _, name := range names {
		in.Instances = append(in.Instances, &computepb.PerInstanceConfig{Name: new(name)})
	}
	return w.groups.CreateInstances(w.ctx, &computepb.CreateInstancesInstanceGroupManagerRequest{
		Project: project, Zone: zone, InstanceGroupManager: mig, InstanceGroupManagersCreateInstancesRequestResource: in,
	})
}

func (w *world) deleteMembers(skip bool, names ...string) (*compute.Operation, error) {
	return w.groups.DeleteInstances(w.ctx, &computepb.DeleteInstancesInstanceGroupManagerRequest{
		Project: project, Zone: zone, InstanceGroupManager: mig,
		InstanceGroupManagersDeleteInstancesRequestResource: &computepb.InstanceGroupManagersDeleteInstancesRequest{Instances: names, SkipInstancesOnValidationError: new(skip)},
	})
}

// A group's operation is DONE when its VMs are merely scheduled.
func TestGroupOperationsAreDoneWhenScheduled(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.plainGroup("mig", 0)
		start := time.Now()
		op, err := w.create("node-0")
		w.ok("creating", err)
		w.at(start, 4*time.Second)
		w.ok("polling", op.Poll(w.ctx))
		if !op.Done() {
			t.Error("the operation still runs")
		}
		w.wantMembers("node-0 CREATING PROVISIONING")
		if g := w.group(); g.GetStatus().GetIsStable() || g.GetCurrentActions().GetCreating() != 1 || g.GetTargetSize() != 1 {
			t.Errorf("the group is stable %t, creates %d, and is to have %d", g.GetStatus().GetIsStable(), g.GetCurrentActions().GetCreating(), g.GetTargetSize())
		}
		w.at(start, time.Minute)
		w.wantMembers("node-0 NONE RUNNING")
		if g := w.group(); !g.GetStatus().GetIsStable() || g.GetCurrentActions().GetNone() != 1 {
			t.Errorf("the group is not stable: %v", g.GetCurrentActions())
		}

		start = time.Now()
		op, err = w.deleteMembers(false, "node-0")
		w.ok("deleting", err)
		w.at(start, 4*time.Second)
		w.ok("polling", op.Poll(w.ctx))
		if !op.Done() {
			t.Error("the operation still runs")
		}
		w.wantMembers("node-0 DELETING STOPPING")
		w.at(start, time.Minute)
		w.wantMembers()
		w.wantStatus("node-0", "gone")
	})
}

// A VM that does not fit is tried again and again, and says why; so does the
// group.
func TestGroupRetries(t *testing.T) {
	inVirtualTime(t, gcp.Options{Capacity: map[string]int{zone + "/n2-standard-8": 1}}, func(w *world) {
		w.plainGroup("mig", 0)
		w.done(w.create("node-0", "node-1"))
		w.pass(10 * time.Minute)
		w.wantMembers("node-0 NONE RUNNING", "node-1 CREATING  ZONE_RESOURCE_POOL_EXHAUSTED")
		list := all(w, w.groups.ListErrors(w.ctx, &computepb.ListErrorsInstanceGroupManagersRequest{Project: project, Zone: zone, InstanceGroupManager: "mig"}).Next)
		if len(list) < 10 || list[0].GetError().GetCode() != "ZONE_RESOURCE_POOL_EXHAUSTED" || !strings.HasSuffix(list[0].GetInstanceActionDetails().GetInstance(), "/instances/node-1") {
			t.Errorf("the group tells of %d errors, the latest being %v", len(list), list[:min(1, len(list))])
		}
		w.ok("setting capacity", w.cloud.SetCapacity(zone, "n2-standard-8", 2))
		w.pass(2 * time.Minute)
		w.wantMembers("node-0 NONE RUNNING", "node-1 NONE RUNNING")
	})
}

// Gradual flex-start: each VM comes when there is capacity for it.
func TestGradualFlexGroup(t *testing.T) {
	inVirtualTime(t, gcp.Options{Capacity: map[string]int{zone + "/" + h200: 1}}, func(w *world) {
		w.flexGroup()
		w.done(w.create("node-0", "node-1", "node-2"))
		w.pass(5 * time.Minute)
		w.wantMembers("node-0 NONE RUNNING", "node-1 CREATING PENDING ZONE_RESOURCE_POOL_EXHAUSTED", "node-2 CREATING PENDING ZONE_RESOURCE_POOL_EXHAUSTED")
		w.done(w.deleteMembers(false, "node-1")) // by name: what is queued has no URL
		w.ok("setting capacity", w.cloud.SetCapacity(zone, h200, 2))
		w.pass(5 * time.Minute)
		w.wantMembers("node-0 NONE RUNNING", "node-2 NONE RUNNING")
		if size := w.group().GetTargetSize(); size != 2 {
			t.Errorf("the target size is %d, want 2", size)
		}

		// Flex-start VMs cannot be stopped or recreated.
		_, err := w.instances.Stop(w.ctx, &computepb.StopInstanceRequest{Project: project, Zone: zone, Instance: "node-0"})
		w.refused(err, 400, "invalid")
		_, err = w.groups.RecreateInstances(w.ctx, &computepb.RecreateInstancesInstanceGroupManagerRequest{Project: project, Zone: zone, InstanceGroupManager: "mig", InstanceGroupManagersRecreateInstancesRequestResource: &computepb.InstanceGroupManagersRecreateInstancesRequest{Instances: []string{"zones/" + zone + "/instances/node-0"}}})
		w.refused(err, 400, "invalid")
	})
}

func TestBulkGroup(t *testing.T) {
	inVirtualTime(t, gcp.Options{Capacity: map[string]int{zone + "/" + h200: 1}}, func(w *world) {
		w.template("bulk", flexProperties())
		w.done(w.groups.Insert(w.ctx, &computepb.InsertInstanceGroupManagerRequest{Project: project, Zone: zone, InstanceGroupManagerResource: &computepb.InstanceGroupManager{
			Name: new("mig"), InstanceTemplate: new("global/instanceTemplates/bulk"), TargetSize: new(int32(0)),
			InstanceLifecyclePolicy: &computepb.InstanceGroupManagerInstanceLifecyclePolicy{DefaultActionOnFailure: new("DO_NOTHING")},
			TargetSizePolicy:        &computepb.InstanceGroupManagerTargetSizePolicy{Mode: new("BULK")},
		}}))
		w.done(w.create("node-0", "node-1"))
		w.pass(5 * time.Minute)
		if got := w.status("node-0"); got != "gone" {
			t.Errorf("one VM of two is %s, although they are to come together", got)
		}
		w.ok("setting capacity", w.cloud.SetCapacity(zone, h200, 2))
		w.pass(5 * time.Minute)
		w.wantMembers("node-0 NONE RUNNING", "node-1 NONE RUNNING")
	})
}

func TestGroupRepairs(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.plainGroup("mig", 0)
		w.done(w.create("node-0", "node-1"))
		w.pass(time.Minute)
		before, err := w.instance("node-0")
		w.ok("getting", err)
		w.ok("powering off", w.cloud.PowerOff(zone, "node-0"))
		w.ok("losing", w.cloud.Vanish(zone, "node-1"))
		w.pass(5 * time.Minute)
		w.wantMembers("node-0 NONE RUNNING", "node-1 NONE RUNNING")
		after, err := w.instance("node-0")
		w.ok("getting", err)
		if before.GetId() == after.GetId() {
			t.Error("the VM was not replaced")
		}
		if got := w.methods("node-0"); !slices.Contains(got, "compute.instances.repair.recreateInstance") {
			t.Errorf("the audit log says %q", got)
		}
	})
}

// With repairs off, a VM that was deleted by somebody else stays a member
// until it is deleted by name.
func TestGroupThatDoesNotRepair(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.flexGroup()
		w.done(w.create("node-0", "node-1"))
		w.pass(5 * time.Minute)
		w.ok("deleting", w.cloud.DeleteByHand(zone, "node-0"))
		w.ok("breaking", w.cloud.FailHost(zone, "node-1"))
		w.pass(5 * time.Minute)
		w.wantMembers("node-0 NONE ", "node-1 NONE TERMINATED")
		w.mu.Lock()
		principals := 0
		for _, e := range w.entries {
			if e.Instance == "node-0" && strings.Contains(string(e.JSON), "someone@example.com") {
				principals++
			}
		}
		w.mu.Unlock()
		if principals != 2 {
			t.Errorf("the audit log names the person %d times, want in both entries", principals)
		}
		w.done(w.deleteMembers(false, "node-0", "node-1"))
		w.pass(time.Minute)
		w.wantMembers()
		if size := w.group().GetTargetSize(); size != 0 {
			t.Errorf("the target size is %d, want 0", size)
		}
	})
}

func TestDeleteInstancesIsChecked(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.plainGroup("mig", 0)
		w.done(w.create("node-0", "node-1"))
		w.pass(time.Minute)
		url := "https://www.googleapis.com/compute/v1/projects/my-project/zones/" + zone + "/instances/node-1"
		for name, links := range map[string][]string{
			"nothing":        {},
			"a stranger":     {"node-7"},
			"mixed":          {"node-0", url},
			"another zone":   {"zones/us-central1-b/instances/node-0"},
			"malformed":      {"zones/" + zone + "/disks/node-0"},
			"a bad name":     {"Node"},
			"too many names": make([]string, 1001),
		} {
			_, err := w.deleteMembers(false, links...)
			if err == nil {
				t.Errorf("%s: accepted", name)
				continue
			}
			w.refused(err, 400, "")
		}
		w.wantMembers("node-0 NONE RUNNING", "node-1 NONE RUNNING")
		w.done(w.deleteMembers(true, "node-0", "node-7"))
		w.done(w.deleteMembers(false, url))
		_, err := w.deleteMembers(false, "node-1")
		w.refused(err, 400, "invalid") // it is being deleted
		w.pass(time.Minute)
		w.wantMembers()

		_, err = w.create("node-0", "node-0")
		w.refused(err, 400, "invalid")
		w.done(w.create("node-0"))
		_, err = w.create("node-1", "node-0")
		w.refused(err, 409, "alreadyExists")
	})
}

func TestGroupResizePatchAbandonRecreate(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.plainGroup("mig", 2)
		w.pass(time.Minute)
		if got := len(w.members()); got != 2 {
			t.Fatalf("the group has %d members, want 2", got)
		}
		w.done(w.groups.Resize(w.ctx, &computepb.ResizeInstanceGroupManagerRequest{Project: project, Zone: zone, InstanceGroupManager: "mig", Size: 4}))
		w.done(w.groups.Resize(w.ctx, &computepb.ResizeInstanceGroupManagerRequest{Project: project, Zone: zone, InstanceGroupManager: "mig", Size: 1}))
		w.pass(time.Minute)
		members := all(w, w.groups.ListManagedInstances(w.ctx, &computepb.ListManagedInstancesInstanceGroupManagersRequest{Project: project, Zone: zone, InstanceGroupManager: "mig"}).Next)
		if len(members) != 1 {
			t.Fatalf("the group has %d members, want 1", len(members))
		}
		name := members[0].GetName()

		w.done(w.groups.RecreateInstances(w.ctx, &computepb.RecreateInstancesInstanceGroupManagerRequest{Project: project, Zone: zone, InstanceGroupManager: "mig", InstanceGroupManagersRecreateInstancesRequestResource: &computepb.InstanceGroupManagersRecreateInstancesRequest{Instances: []string{members[0].GetInstance()}}}))
		w.pass(2 * time.Minute)
		after, err := w.instance(name)
		w.ok("getting", err)
		if after.GetId() == members[0].GetId() {
			t.Error("the VM was not recreated")
		}

		w.done(w.groups.AbandonInstances(w.ctx, &computepb.AbandonInstancesInstanceGroupManagerRequest{Project: project, Zone: zone, InstanceGroupManager: "mig", InstanceGroupManagersAbandonInstancesRequestResource: &computepb.InstanceGroupManagersAbandonInstancesRequest{Instances: []string{after.GetSelfLink()}}}))
		w.wantMembers()
		w.wantStatus(name, "RUNNING")

		g := w.group()
		patch := func(fingerprint *string) error {
			op, err := w.groups.Patch(w.ctx, &computepb.PatchInstanceGroupManagerRequest{Project: project, Zone: zone, InstanceGroupManager: "mig", InstanceGroupManagerResource: &computepb.InstanceGroupManager{
				Fingerprint: fingerprint, TargetSize: new(int32(1)), UpdatePolicy: &computepb.InstanceGroupManagerUpdatePolicy{Type: new("PROACTIVE")},
			}})
			if err != nil {
				return err
			}
			return op.Wait(w.ctx)
		}
		w.refused(patch(new("c3RhbGU=")), 412, "conditionNotMet")
		w.ok("patching", patch(g.Fingerprint))
		w.refused(patch(g.Fingerprint), 412, "conditionNotMet")
		if after := w.group(); after.GetTargetSize() != 1 || after.GetUpdatePolicy().GetType() != "PROACTIVE" || after.GetUpdatePolicy().GetMinimalAction() != g.GetUpdatePolicy().GetMinimalAction() {
			t.Errorf("the group is to have %d, with policy %v", after.GetTargetSize(), after.GetUpdatePolicy())
		}

		_, err = w.templates.Delete(w.ctx, &computepb.DeleteInstanceTemplateRequest{Project: project, InstanceTemplate: "mig"})
		w.refused(err, 400, "resourceInUseByAnotherResource")
		w.done(w.groups.Delete(w.ctx, &computepb.DeleteInstanceGroupManagerRequest{Project: project, Zone: zone, InstanceGroupManager: "mig"}))
		w.done(w.templates.Delete(w.ctx, &computepb.DeleteInstanceTemplateRequest{Project: project, InstanceTemplate: "mig"}))
		w.done(w.instances.Delete(w.ctx, &computepb.DeleteInstanceRequest{Project: project, Zone: zone, Instance: name}))
		if left := w.leftovers(); len(left) > 0 {
			t.Errorf("there is still %q", left)
		}
	})
}

func TestGroupIsChecked(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.template("plain", plainProperties())
		for name, c := range map[string]struct {
			change func(*computepb.InstanceGroupManager)
			status int
		}{
			"no size":       {func(g *computepb.InstanceGroupManager) { g.TargetSize = nil }, 400},
			"negative size": {func(g *computepb.InstanceGroupManager) { g.TargetSize = new(int32(-1)) }, 400},
			"no template":   {func(g *computepb.InstanceGroupManager) { g.InstanceTemplate = nil }, 400},
			"template":      {func(g *computepb.InstanceGroupManager) { g.InstanceTemplate = new("global/instanceTemplates/none") }, 404},
			"base name":     {func(g *computepb.InstanceGroupManager) { g.BaseInstanceName = new("Base") }, 400},
			"update policy": {func(g *computepb.InstanceGroupManager) {
				g.UpdatePolicy = &computepb.InstanceGroupManagerUpdatePolicy{Type: new("SOON")}
			}, 400},
		} {
			g := &computepb.InstanceGroupManager{Name: new("mig"), InstanceTemplate: new("global/instanceTemplates/plain"), TargetSize: new(int32(0))}
			c.change(g)
			_, err := w.groups.Insert(w.ctx, &computepb.InsertInstanceGroupManagerRequest{Project: project, Zone: zone, InstanceGroupManagerResource: g})
			if err == nil {
				t.Errorf("%s: accepted", name)
				continue
			}
			w.refused(err, c.status, "")
		}
	})
}

func TestNumberedNames(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.template("plain", plainProperties())
		w.done(w.groups.Insert(w.ctx, &computepb.InsertInstanceGroupManagerRequest{Project: project, Zone: zone, InstanceGroupManagerResource: &computepb.InstanceGroupManager{
			Name: new("mig"), BaseInstanceName: new("node-###[7]"), InstanceTemplate: new("global/instanceTemplates/plain"), TargetSize: new(int32(2)),
		}}))
		w.pass(time.Minute)
		w.wantMembers("node-007 NONE RUNNING", "node-008 NONE RUNNING")
	})
}

func TestManagedInstancePages(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.plainGroup("mig", 5)
		w.pass(time.Minute)
		list := func(token string) (int, string, error) {
			it := w.groups.ListManagedInstances(w.ctx, &computepb.ListManagedInstancesInstanceGroupManagersRequest{Project: project, Zone: zone, InstanceGroupManager: "mig", MaxResults: new(uint32(2)), OrderBy: new("nothing")})
			page, next, err := it.InternalFetch(2, token)
			return len(page), next, err
		}
		if n, next, err := list(""); n != 5 || next != "" || err != nil {
			t.Errorf("a PAGELESS group answers %d, %q, %v; want all 5", n, next, err)
		}
		_, _, err := list("bm9kZQ==")
		w.refused(err, 400, "invalid")
		w.done(w.groups.Patch(w.ctx, &computepb.PatchInstanceGroupManagerRequest{Project: project, Zone: zone, InstanceGroupManager: "mig", InstanceGroupManagerResource: &computepb.InstanceGroupManager{ListManagedInstancesResults: new("PAGINATED")}}))
		n, next, err := list("")
		if n != 2 || next == "" || err != nil {
			t.Errorf("a PAGINATED group answers %d, %q, %v; want 2 and a token", n, next, err)
		}
		if n, _, err := list(next); n != 2 || err != nil {
			t.Errorf("the second page has %d, %v; want 2", n, err)
		}
	})
}
