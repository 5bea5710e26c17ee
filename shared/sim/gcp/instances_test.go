package gcp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

func TestInstanceLife(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		op, err := w.insert("vm", func(i *computepb.Instance) {
			i.NetworkInterfaces[0].AccessConfigs = []*computepb.AccessConfig{{Type: new("ONE_TO_ONE_NAT")}}
		})
		w.ok("inserting", err)
		w.wantStatus("vm", "PROVISIONING")
		w.done(op, nil)
		i, err := w.instance("vm")
		w.ok("getting", err)
		nic := i.GetNetworkInterfaces()[0]
		if !strings.HasPrefix(nic.GetNetworkIP(), "10.128.0.") || nic.GetAccessConfigs()[0].GetNatIP() == "" || !strings.HasSuffix(nic.GetSubnetwork(), "/regions/us-central1/subnetworks/default") {
			t.Errorf("the interface is %v", nic)
		}
		if got := i.GetMachineType(); got != "https://www.googleapis.com/compute/v1/projects/my-project/zones/us-central1-a/machineTypes/n2-standard-8" {
			t.Errorf("the machine type is %s", got)
		}
		if op.Proto().GetTargetId() != i.GetId() {
			t.Errorf("the operation is about %d, and the instance is %d", op.Proto().GetTargetId(), i.GetId())
		}

		stop := &computepb.StopInstanceRequest{Project: project, Zone: zone, Instance: "vm"}
		w.done(w.instances.Stop(w.ctx, stop))
		w.wantStatus("vm", "TERMINATED")
		w.done(w.instances.Start(w.ctx, &computepb.StartInstanceRequest{Project: project, Zone: zone, Instance: "vm"}))
		w.wantStatus("vm", "RUNNING")
		again, err := w.instance("vm")
		w.ok("getting", err)
		if again.GetId() != i.GetId() {
			t.Errorf("starting gave another id: %d, then %d", i.GetId(), again.GetId())
		}
		w.done(w.instances.Reset(w.ctx, &computepb.ResetInstanceRequest{Project: project, Zone: zone, Instance: "vm"}))
		w.done(w.instances.Delete(w.ctx, &computepb.DeleteInstanceRequest{Project: project, Zone: zone, Instance: "vm"}))
		w.wantStatus("vm", "gone")
		_, err = w.disks.Get(w.ctx, &computepb.GetDiskRequest{Project: project, Zone: zone, Disk: "vm"})
		w.refused(err, 404, "notFound") // its boot disk went with it

		w.done(w.insert("vm", nil))
		next, err := w.instance("vm")
		w.ok("getting", err)
		if next.GetId() == i.GetId() {
			t.Error("a new instance has the id of the one before it")
		}
		want := []string{
			"vm runs", "vm changed: STOPPING", "vm is gone: stop", "vm runs", "vm is gone: reset", "vm runs",
			"vm changed: STOPPING", "vm is gone: delete", "vm runs",
		}
		if got := w.heardNews(); !slices.Equal(got, want) {
			t.Errorf("the guests heard %q,\nwant %q", got, want)
		}
	})
}

func TestInstanceFromTemplate(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.template("plain", plainProperties())
		w.done(w.instances.Insert(w.ctx, &computepb.InsertInstanceRequest{
			Project: project, Zone: zone, SourceInstanceTemplate: new("global/instanceTemplates/plain"),
			InstanceResource: &computepb.Instance{Name: new("vm"), Labels: map[string]string{"role": "login"}},
		}))
		i, err := w.instance("vm")
		w.ok("getting", err)
		if i.GetLabels()["role"] != "login" || len(i.GetDisks()) != 1 || i.GetMetadata().GetItems()[0].GetKey() != "startup-script" {
			t.Errorf("the instance is %v", i)
		}
	})
}

func TestInstanceIsChecked(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		for name, c := range map[string]struct {
			change func(*computepb.Instance)
			names  string
		}{
			"name":           {func(i *computepb.Instance) { i.Name = new("Vm") }, "resource.name"},
			"machine type":   {func(i *computepb.Instance) { i.MachineType = new("n9-huge-1") }, "resource.machineType"},
			"network":        {func(i *computepb.Instance) { i.NetworkInterfaces[0].Network = new("global/networks/none") }, "resource.networkInterfaces[0].network"},
			"subnetwork":     {func(i *computepb.Instance) { i.NetworkInterfaces[0].Subnetwork = new("none") }, "resource.networkInterfaces[0].subnetwork"},
			"address":        {func(i *computepb.Instance) { i.NetworkInterfaces[0].NetworkIP = new("10.0.0.1") }, "networkIP"},
			"no disk":        {func(i *computepb.Instance) { i.Disks = nil }, "resource.disks"},
			"tiny disk":      {func(i *computepb.Instance) { i.Disks[0].InitializeParams.DiskSizeGb = new(int64(1)) }, "diskSizeGb"},
			"label":          {func(i *computepb.Instance) { i.Labels = map[string]string{"Key": "v"} }, "resource.labels"},
			"label value":    {func(i *computepb.Instance) { i.Labels = map[string]string{"k": "A B"} }, "resource.labels[k]"},
			"metadata twice": {func(i *computepb.Instance) { i.Metadata.Items = append(i.Metadata.Items, i.Metadata.Items[0]) }, "resource.metadata.items[1].key"},
			"model":          {func(i *computepb.Instance) { i.Scheduling = &computepb.Scheduling{ProvisioningModel: new("CHEAP")} }, "provisioningModel"},
			"flex without end": {func(i *computepb.Instance) {
				i.Scheduling = &computepb.Scheduling{ProvisioningModel: new("FLEX_START")}
			}, "maxRunDuration"},
			"short run": {func(i *computepb.Instance) {
				i.Scheduling = &computepb.Scheduling{MaxRunDuration: &computepb.Duration{Seconds: new(int64(29))}}
			}, "maxRunDuration"},
			"spot that restarts": {func(i *computepb.Instance) {
				i.Scheduling = &computepb.Scheduling{ProvisioningModel: new("SPOT"), AutomaticRestart: new(true)}
			}, "automaticRestart"},
			"GPU that migrates": {func(i *computepb.Instance) {
				i.MachineType = new(h200)
				i.Scheduling = &computepb.Scheduling{OnHostMaintenance: new("MIGRATE")}
			}, "onHostMaintenance"},
			"GPU on a slow disk": {func(i *computepb.Instance) { i.MachineType = new(h200) }, "pd-ssd"},
		} {
			t.Run(name, func(t *testing.T) {
				_, err := w.insert("vm", c.change)
				if message := w.refused(err, 400, ""); !strings.Contains(message, c.names) {
					t.Errorf("the refusal does not name %s: %s", c.names, message)
				}
			})
		}
		if left := w.leftovers(); len(left) > 0 {
			t.Errorf("refused instances left %q", left)
		}
		w.done(w.insert("vm", nil))
		_, err := w.insert("vm", nil)
		w.refused(err, 409, "alreadyExists")
		_, err = w.instances.Get(w.ctx, &computepb.GetInstanceRequest{Project: "other", Zone: zone, Instance: "vm"})
		w.refused(err, 404, "notFound")
		_, err = w.instances.Get(w.ctx, &computepb.GetInstanceRequest{Project: project, Zone: "mars-north1-a", Instance: "vm"})
		w.refused(err, 400, "invalid")
	})
}

// What is short is told in the operation, and leaves nothing behind.
func TestInstanceDoesNotFit(t *testing.T) {
	inVirtualTime(t, gcp.Options{Capacity: map[string]int{zone + "/n2-standard-8": 0}}, func(w *world) {
		for _, code := range []string{"ZONE_RESOURCE_POOL_EXHAUSTED", "QUOTA_EXCEEDED"} {
			op, err := w.insert("vm", nil)
			w.ok("inserting", err)
			if err := op.Wait(w.ctx); err == nil || !strings.Contains(err.Error(), code) {
				t.Errorf("the operation ended with %v, want %s", err, code)
			}
			if got := op.Proto().GetError().GetErrors()[0].GetCode(); got != code {
				t.Errorf("the operation's error is %s, want %s", got, code)
			}
			if left := w.leftovers(); len(left) > 0 {
				t.Errorf("there is %q", left)
			}
			w.ok("setting capacity", w.cloud.SetCapacity(zone, "n2-standard-8", gcp.Unlimited))
			w.ok("setting a quota", w.cloud.SetQuota("CPUS", 7))
		}
	})
}

func TestInstanceFingerprints(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.done(w.insert("vm", nil))
		i, err := w.instance("vm")
		w.ok("getting", err)
		labels := func(fingerprint string) error {
			op, err := w.instances.SetLabels(w.ctx, &computepb.SetLabelsInstanceRequest{Project: project, Zone: zone, Instance: "vm", InstancesSetLabelsRequestResource: &computepb.InstancesSetLabelsRequest{
				LabelFingerprint: new(fingerprint), Labels: map[string]string{"a": "b"},
			}})
			if err != nil {
				return err
			}
			return op.Wait(w.ctx)
		}
		w.refused(labels("AAAAAAAAAAA="), 412, "conditionNotMet")
		w.ok("setting labels", labels(i.GetLabelFingerprint()))
		w.refused(labels(i.GetLabelFingerprint()), 412, "conditionNotMet")

		metadata := func(fingerprint string) error {
			op, err := w.instances.SetMetadata(w.ctx, &computepb.SetMetadataInstanceRequest{Project: project, Zone: zone, Instance: "vm", MetadataResource: &computepb.Metadata{
				Fingerprint: new(fingerprint), Items: []*computepb.Items{{Key: new("note"), Value: new("hello")}},
			}})
			if err != nil {
				return err
			}
			return op.Wait(w.ctx)
		}
		w.refused(metadata("stale"), 412, "conditionNotMet")
		w.ok("setting metadata", metadata(i.GetMetadata().GetFingerprint()))
		if got := w.guest("vm").Metadata["note"]; got != "hello" {
			t.Errorf("the guest reads %q in its metadata, want hello", got)
		}
	})
}

func TestSpotPreemption(t *testing.T) {
	for _, action := range []string{"STOP", "DELETE"} {
		t.Run(action, func(t *testing.T) {
			inVirtualTime(t, gcp.Options{}, func(w *world) {
				w.done(w.insert("vm", func(i *computepb.Instance) {
					i.Scheduling = &computepb.Scheduling{ProvisioningModel: new("SPOT"), InstanceTerminationAction: new(action)}
				}))
				w.ok("preempting", w.cloud.Preempt(zone, "vm"))
				if g := w.guest("vm"); !g.Preempted || g.Status != "STOPPING" {
					t.Errorf("the guest has no notice: preempted %t, %s", g.Preempted, g.Status)
				}
				w.pass(time.Minute)
				w.wantStatus("vm", map[string]string{"STOP": "TERMINATED", "DELETE": "gone"}[action])
				if got := w.methods("vm"); !slices.Contains(got, "compute.instances.preempted") {
					t.Errorf("the audit log says %q", got)
				}
				if err := w.cloud.Preempt(zone, "vm"); err == nil {
					t.Error("a VM that does not run was preempted")
				}
			})
		})
	}
}

func TestHostError(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		restarts := func(yes bool) func(*computepb.Instance) {
			return func(i *computepb.Instance) { i.Scheduling = &computepb.Scheduling{AutomaticRestart: new(yes)} }
		}
		w.done(w.insert("phoenix", restarts(true)))
		w.done(w.insert("mortal", restarts(false)))
		w.ok("breaking", w.cloud.FailHost(zone, "phoenix"))
		w.ok("breaking", w.cloud.FailHost(zone, "mortal"))
		w.pass(time.Minute)
		w.wantStatus("phoenix", "RUNNING")
		w.wantStatus("mortal", "TERMINATED")
		if got := w.methods("phoenix")[2:]; !slices.Equal(got, []string{"compute.instances.hostError", "compute.instances.automaticRestart"}) {
			t.Errorf("the audit log says %q", got)
		}
		want := []string{"phoenix runs", "mortal runs", "phoenix is gone: hostError", "mortal is gone: hostError", "phoenix runs"}
		if got := w.heardNews(); !slices.Equal(got, want) {
			t.Errorf("the guests heard %q, want %q", got, want)
		}
	})
}

func TestLimitedRunOutsideOfAGroup(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		for action, want := range map[string]string{"STOP": "compute.instances.deferredStop", "DELETE": "compute.instances.deferredDelete"} {
			name := "vm-" + strings.ToLower(action)
			w.done(w.insert(name, func(i *computepb.Instance) {
				i.Scheduling = &computepb.Scheduling{MaxRunDuration: &computepb.Duration{Seconds: new(int64(600))}, InstanceTerminationAction: new(action)}
			}))
			w.pass(9 * time.Minute)
			w.wantStatus(name, "RUNNING")
			w.pass(2 * time.Minute)
			w.wantStatus(name, map[string]string{"STOP": "TERMINATED", "DELETE": "gone"}[action])
			if got := w.methods(name)[2:]; !slices.Equal(got, []string{want}) {
				t.Errorf("the audit log says %q, want %s", got, want)
			}
		}
	})
}

func TestGuestShutdownAndMaintenance(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.done(w.insert("vm", nil))
		start := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		w.ok("announcing", w.cloud.Maintain(zone, "vm", gcp.Maintenance{Start: start, CanReschedule: true, Reasons: []string{"FAILURE_GPU_XID"}}))
		i, err := w.instance("vm")
		w.ok("getting", err)
		if m := i.GetResourceStatus().GetUpcomingMaintenance(); m.GetWindowStartTime() != start.Format(time.RFC3339) || m.GetMaintenanceStatus() != "PENDING" {
			t.Errorf("the upcoming maintenance is %v", m)
		}
		if !strings.Contains(w.guest("vm").Maintenance, "FAILURE_GPU_XID") {
			t.Errorf("the guest reads %q", w.guest("vm").Maintenance)
		}
		w.ok("completing", w.cloud.Maintain(zone, "vm", gcp.Maintenance{Status: "COMPLETE"}))
		if err := w.cloud.Maintain(zone, "vm", gcp.Maintenance{Status: "SOON"}); err == nil {
			t.Error("a status that does not exist was accepted")
		}
		w.ok("powering off", w.cloud.PowerOff(zone, "vm"))
		w.pass(time.Minute)
		w.wantStatus("vm", "TERMINATED")
		want := []string{"compute.instances.upcomingMaintenance", "compute.instances.upcomingMaintenance", "compute.instances.guestTerminate"}
		if got := w.methods("vm")[2:]; !slices.Equal(got, want) {
			t.Errorf("the audit log says %q, want %q", got, want)
		}
	})
}

func TestReportHostAsFaulty(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		bound := func(model string) func(*computepb.Instance) {
			return func(i *computepb.Instance) {
				i.MachineType, i.Disks[0].InitializeParams.DiskType = new(h200), new("hyperdisk-balanced")
				i.Scheduling = &computepb.Scheduling{ProvisioningModel: new(model), AutomaticRestart: new(true)}
			}
		}
		w.done(w.insert("bound", bound("RESERVATION_BOUND")))
		w.done(w.insert("plain", bound("STANDARD")))
		report := func(name, schedule string) error {
			op, err := w.instances.ReportHostAsFaulty(w.ctx, &computepb.ReportHostAsFaultyInstanceRequest{
				Project: project, Zone: zone, Instance: name,
				InstancesReportHostAsFaultyRequestResource: &computepb.InstancesReportHostAsFaultyRequest{
					DisruptionSchedule: new(schedule),
					FaultReasons:       []*computepb.InstancesReportHostAsFaultyRequestFaultReason{{Behavior: new("UNRECOVERABLE_GPU_ERROR"), Description: new("XID 79")}},
				},
			})
			if err != nil {
				return err
			}
			return op.Wait(w.ctx)
		}
		w.refused(report("plain", "IMMEDIATE"), 400, "invalid")
		w.refused(report("bound", "FUTURE"), 400, "invalid")
		before, err := w.instance("bound")
		w.ok("getting", err)
		w.ok("reporting", report("bound", "IMMEDIATE"))
		w.wantStatus("bound", "REPAIRING")
		w.pass(4 * 24 * time.Hour)
		w.wantStatus("bound", "RUNNING")
		after, err := w.instance("bound")
		w.ok("getting", err)
		if before.GetResourceStatus().GetPhysicalHost() == after.GetResourceStatus().GetPhysicalHost() {
			t.Error("the instance is on the host that was reported")
		}

		// Deleting the VM meanwhile fails the report.
		w.done(w.insert("doomed", bound("RESERVATION_BOUND")))
		time.AfterFunc(time.Minute, func() {
			_, err := w.instances.Delete(w.ctx, &computepb.DeleteInstanceRequest{Project: project, Zone: zone, Instance: "doomed"})
			if err != nil {
				t.Errorf("deleting: %v", err)
			}
		})
		w.refused(report("doomed", "IMMEDIATE"), 400, "")
	})
}

// A flex-start VM of its own waits for capacity, for as long as it is asked
// to.
func TestStandaloneFlexStart(t *testing.T) {
	inVirtualTime(t, gcp.Options{Capacity: map[string]int{zone + "/" + h200: 0}}, func(w *world) {
		insert := func(name string) (func() error, error) {
			p := flexProperties()
			op, err := w.instances.Insert(w.ctx, &computepb.InsertInstanceRequest{Project: project, Zone: zone, InstanceResource: &computepb.Instance{
				Name: new(name), MachineType: p.MachineType, Disks: p.Disks, NetworkInterfaces: p.NetworkInterfaces, Scheduling: p.Scheduling,
				ReservationAffinity: p.ReservationAffinity, Params: &computepb.InstanceParams{RequestValidForDuration: &computepb.Duration{Seconds: new(int64(3600))}},
			}})
			if err != nil {
				return nil, err
			}
			return func() error { return op.Wait(w.ctx) }, nil
		}
		wait, err := insert("late")
		w.ok("inserting", err)
		w.pass(time.Minute)
		w.wantStatus("late", "PENDING")
		if err := wait(); err == nil {
			t.Error("the instance got capacity that is not there")
		}
		w.wantStatus("late", "gone")

		wait, err = insert("lucky")
		w.ok("inserting", err)
		w.pass(10 * time.Minute)
		w.ok("setting capacity", w.cloud.SetCapacity(zone, h200, 1))
		w.ok("waiting", wait())
		w.wantStatus("lucky", "RUNNING")
	})
}

func TestInstanceLists(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		for n := range 7 {
			w.done(w.insert(fmt.Sprintf("vm-%d", n), func(i *computepb.Instance) {
				i.Labels = map[string]string{"cluster": []string{"a", "b"}[n%2], "uid": "u1"}
			}))
		}
		w.done(w.instances.Stop(w.ctx, &computepb.StopInstanceRequest{Project: project, Zone: zone, Instance: "vm-0"}))
		for filter, want := range map[string]int{
			"":                                      7,
			"labels.cluster=a":                      4,
			`(labels.cluster = "b")`:                3,
			`labels.cluster = "a" AND name = vm-2`:  1,
			`(labels.cluster=a) (labels.uid="u1")`:  4,
			"name eq 'vm-[12]'":                     2,
			"name ne vm-.*":                         0,
			"status = RUNNING":                      6,
			"status != RUNNING":                     1,
			"labels.cluster:*":                      7,
			"NOT labels.cluster:a":                  3,
			"labels.none:*":                         0,
			"scheduling.automaticRestart = true":    7,
			"name = vm-1 OR name = vm-2":            2,
			`labels.cluster = "a" AND status=READY`: 0,
		} {
			got := all(w, w.instances.List(w.ctx, &computepb.ListInstancesRequest{Project: project, Zone: zone, Filter: new(filter), MaxResults: new(uint32(2))}).Next)
			if len(got) != want {
				t.Errorf("filter %s lets %d through, want %d", filter, len(got), want)
			}
		}
		for _, bad := range []string{"name =", "(name = a", "name ~ a", "nonsense.field = 1", "= 3", "name eq '['"} {
			_, err := w.instances.List(w.ctx, &computepb.ListInstancesRequest{Project: project, Zone: zone, Filter: new(bad)}).Next()
			if message := w.refused(err, 400, "invalid"); !strings.Contains(message, "'filter'") {
				t.Errorf("the refusal of %q does not name the field: %s", bad, message)
			}
		}
		it := w.instances.AggregatedList(w.ctx, &computepb.AggregatedListInstancesRequest{Project: project, Filter: new("labels.uid = u1"), MaxResults: new(uint32(3))})
		total := 0
		for _, scope := range all(w, it.Next) {
			total += len(scope.Value.GetInstances())
		}
		if total != 7 {
			t.Errorf("the aggregated list has %d instances, want 7", total)
		}
	})
}

func TestAddressesAreUnique(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.done(w.networks.Insert(w.ctx, &computepb.InsertNetworkRequest{Project: project, NetworkResource: &computepb.Network{Name: new("net"), AutoCreateSubnetworks: new(false), Mtu: new(int32(8896))}}))
		w.done(w.subnetworks.Insert(w.ctx, &computepb.InsertSubnetworkRequest{Project: project, Region: region, SubnetworkResource: &computepb.Subnetwork{Name: new("sub"), Network: new("global/networks/net"), IpCidrRange: new("10.9.0.0/29")}}))
		seen := map[string]bool{}
		in := func(i *computepb.Instance) {
			i.NetworkInterfaces = []*computepb.NetworkInterface{{Subnetwork: new("regions/us-central1/subnetworks/sub")}}
		}
		for n := range 4 {
			name := fmt.Sprintf("vm-%d", n)
			w.done(w.insert(name, in))
			i, err := w.instance(name)
			w.ok("getting", err)
			seen[i.GetNetworkInterfaces()[0].GetNetworkIP()] = true
		}
		if len(seen) != 4 {
			t.Errorf("four instances have the addresses %v", seen)
		}
		_, err := w.insert("vm-4", in)
		w.refused(err, 403, "")
		_, err = w.subnetworks.Delete(w.ctx, &computepb.DeleteSubnetworkRequest{Project: project, Region: region, Subnetwork: "sub"})
		w.refused(err, 400, "resourceInUseByAnotherResource")
		w.done(w.instances.Delete(w.ctx, &computepb.DeleteInstanceRequest{Project: project, Zone: zone, Instance: "vm-1"}))
		w.done(w.insert("vm-4", in))
	})
}

func TestDisks(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		disk := func(name string) (*computepb.Disk, error) {
			return w.disks.Get(w.ctx, &computepb.GetDiskRequest{Project: project, Zone: zone, Disk: name})
		}
		w.done(w.disks.Insert(w.ctx, &computepb.InsertDiskRequest{Project: project, Zone: zone, DiskResource: &computepb.Disk{Name: new("data"), SizeGb: new(int64(100)), Type: new("zones/" + zone + "/diskTypes/pd-ssd")}}))
		with := func(i *computepb.Instance) {
			i.Disks = append(i.Disks, &computepb.AttachedDisk{Source: new("zones/" + zone + "/disks/data")})
		}
		w.done(w.insert("vm", with))
		_, err := w.insert("vm-2", with)
		w.refused(err, 400, "resourceInUseByAnotherResource")
		if d, err := disk("vm-2"); err == nil {
			t.Errorf("the refused instance left its boot disk: %v", d)
		}
		_, err = w.disks.Delete(w.ctx, &computepb.DeleteDiskRequest{Project: project, Zone: zone, Disk: "data"})
		w.refused(err, 400, "resourceInUseByAnotherResource")
		w.done(w.instances.Delete(w.ctx, &computepb.DeleteInstanceRequest{Project: project, Zone: zone, Instance: "vm"}))
		d, err := disk("data")
		w.ok("getting", err)
		if len(d.GetUsers()) != 0 {
			t.Errorf("the disk is still used by %v", d.GetUsers())
		}
		w.done(w.disks.Delete(w.ctx, &computepb.DeleteDiskRequest{Project: project, Zone: zone, Disk: "data"}))

		// A boot disk that was kept is in the way of a new instance.
		w.done(w.insert("vm", func(i *computepb.Instance) { i.Disks[0].AutoDelete = new(false) }))
		w.done(w.instances.Delete(w.ctx, &computepb.DeleteInstanceRequest{Project: project, Zone: zone, Instance: "vm"}))
		_, err = w.insert("vm", nil)
		w.refused(err, 409, "alreadyExists")
	})
}
