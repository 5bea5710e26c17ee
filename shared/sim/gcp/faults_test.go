package gcp_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"github.com/google/uuid"

	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

func requestID(n int) *string {
	return new(uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, n)).String())
}

// The same request id asks for the same thing once, however often it is sent.
func TestRequestIDs(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.flexGroup()
		ask := func(id *string, size int32) (string, error) {
			op, err := w.requests.Insert(w.ctx, &computepb.InsertInstanceGroupManagerResizeRequestRequest{
				Project: project, Zone: zone, InstanceGroupManager: "mig", RequestId: id,
				InstanceGroupManagerResizeRequestResource: &computepb.InstanceGroupManagerResizeRequest{Name: new("r1"), ResizeBy: new(size)},
			})
			if err != nil {
				return "", err
			}
			return op.Name(), nil
		}
		first, err := ask(requestID(1), 2)
		w.ok("asking", err)
		for range 5 {
			again, err := ask(requestID(1), 2)
			w.ok("asking again", err)
			if again != first {
				t.Errorf("the same request started operation %s, and then %s", first, again)
			}
		}
		if size := w.group().GetTargetSize(); size != 2 {
			t.Errorf("the target size is %d, want 2", size)
		}
		_, err = ask(requestID(1), 3)
		if message := w.refused(err, 400, "invalid"); !strings.Contains(message, "different parameters") {
			t.Errorf("the refusal is %q", message)
		}
		for _, bad := range []string{"not-a-uuid", uuid.Nil.String()} {
			_, err = ask(&bad, 2)
			w.refused(err, 400, "invalid")
		}
		_, err = ask(requestID(2), 2)
		w.refused(err, 409, "alreadyExists")
		w.pass(2 * time.Hour) // ids are not remembered for ever
		_, err = ask(requestID(1), 2)
		w.refused(err, 409, "alreadyExists")

		journal := w.cloud.Journal("compute.instanceGroupManagerResizeRequests.insert")
		if len(journal) != 11 || journal[0].RequestID != *requestID(1) || journal[6].Status != 400 {
			t.Errorf("the journal has %d lines, the first %+v", len(journal), journal[0])
		}
	})
}

func TestOperations(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		op, err := w.insert("vm", nil)
		w.ok("inserting", err)
		get := func() (*computepb.Operation, error) {
			return w.operations.Get(w.ctx, &computepb.GetZoneOperationRequest{Project: project, Zone: zone, Operation: op.Name()})
		}
		running, err := get()
		w.ok("getting", err)
		if running.GetStatus() != computepb.Operation_RUNNING || running.GetProgress() != 0 || running.EndTime != nil || running.GetOperationType() != "insert" {
			t.Errorf("the operation is %v", running)
		}
		del := &computepb.DeleteZoneOperationRequest{Project: project, Zone: zone, Operation: op.Name()}
		_, err = w.operations.Delete(w.ctx, del)
		w.refused(err, 400, "resourceNotReady")

		// One wait is enough: it is answered when the operation is done.
		before := w.cloud.Count("compute.operations.*")
		done, err := w.operations.Wait(w.ctx, &computepb.WaitZoneOperationRequest{Project: project, Zone: zone, Operation: op.Name()})
		w.ok("waiting", err)
		if done.GetStatus() != computepb.Operation_DONE || done.GetProgress() != 100 || done.GetEndTime() == "" {
			t.Errorf("the operation is %v", done)
		}
		if calls := w.cloud.Count("compute.operations.*") - before; calls != 1 {
			t.Errorf("waiting took %d calls", calls)
		}
		list := all(w, w.operations.List(w.ctx, &computepb.ListZoneOperationsRequest{Project: project, Zone: zone, Filter: new("status = DONE")}).Next)
		if len(list) != 1 {
			t.Errorf("there are %d operations, want 1", len(list))
		}
		_, err = w.operations.Delete(w.ctx, del)
		w.ok("deleting", err)
		_, err = get()
		w.refused(err, 404, "notFound")
	})
}

// A wait is answered after two minutes although the operation still runs.
func TestOperationWaitExpires(t *testing.T) {
	delays := gcp.DefaultDelays()
	delays.Staging = 10 * time.Minute
	inVirtualTime(t, gcp.Options{Delays: &delays}, func(w *world) {
		op, err := w.insert("vm", nil)
		w.ok("inserting", err)
		start := time.Now()
		waited, err := w.operations.Wait(w.ctx, &computepb.WaitZoneOperationRequest{Project: project, Zone: zone, Operation: op.Name()})
		w.ok("waiting", err)
		if took := time.Since(start); waited.GetStatus() != computepb.Operation_RUNNING || took != 2*time.Minute {
			t.Errorf("after %s the operation is %s", took, waited.GetStatus())
		}
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		if _, err := w.operations.Wait(ctx, &computepb.WaitZoneOperationRequest{Project: project, Zone: zone, Operation: op.Name()}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait that was given up ended with %v", err)
		}
	})
}

func TestPlannedFaults(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.cloud.FailNext("compute.instances.insert", 2, 429)
		for range 2 {
			_, err := w.insert("vm", nil)
			w.refused(err, 429, "rateLimitExceeded")
		}
		w.done(w.insert("vm", nil))

		// The answer is lost, but not what it answers.
		w.cloud.LoseNext("compute.instances.insert", 1)
		_, err := w.insert("vm-2", nil)
		w.refused(err, 503, "backendError")
		w.wantStatus("vm-2", "PROVISIONING")
		w.cloud.AddFault(gcp.Fault{Method: "compute.instances.insert", Times: 1, After: true, Drop: true})
		if _, err := w.insert("vm-3", nil); err == nil {
			t.Error("a request whose connection was cut has an answer")
		}
		w.wantStatus("vm-3", "PROVISIONING")
		w.cloud.AddFault(gcp.Fault{Method: "compute.instances.*", Path: "zones/*/instances/vm-2", Times: 1, Skip: 1, Status: 403, Reason: "quotaExceeded", Message: "enough"})
		w.wantStatus("vm-2", "PROVISIONING")
		_, err = w.instance("vm-2")
		if message := w.refused(err, 403, "quotaExceeded"); message != "enough" {
			t.Errorf("the message is %q", message)
		}

		// Reads are retried by the client itself.
		w.pass(time.Minute)
		w.cloud.FailNext("compute.instances.get", 2, 503)
		w.wantStatus("vm-2", "RUNNING")

		late := w.cloud.AddFault(gcp.Fault{Method: "compute.instances.get", Latency: 3 * time.Second})
		start := time.Now()
		w.wantStatus("vm", "RUNNING")
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("the answer took %s", took)
		}
		if !w.cloud.RemoveFault(late) || w.cloud.RemoveFault(late) {
			t.Error("a fault is to be removed once")
		}

		hold := w.cloud.AddFault(gcp.Fault{Method: "compute.instances.delete", Hold: true, Times: 1})
		answered := make(chan error)
		go func() {
			_, err := w.instances.Delete(w.ctx, &computepb.DeleteInstanceRequest{Project: project, Zone: zone, Instance: "vm"})
			answered <- err
		}()
		w.pass(time.Minute)
		w.wantStatus("vm", "RUNNING")
		w.cloud.RemoveFault(hold)
		w.ok("deleting", <-answered)
		w.wantStatus("vm", "STOPPING")
		w.cloud.ClearFaults()
	})
}

// names of all instances in the zone.
func (w *world) names() []string {
	w.t.Helper()
	var out []string
	for _, i := range all(w, w.instances.List(w.ctx, &computepb.ListInstancesRequest{Project: project, Zone: zone}).Next) {
		out = append(out, i.GetName())
	}
	return out
}

func TestPartialLists(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.plainGroup("mig", 0)
		w.done(w.create("node-0", "node-1", "node-2", "node-3"))
		w.pass(time.Minute)
		w.cloud.AddFault(gcp.Fault{Method: "compute.instances.list", Omit: []string{"node-[12]"}, Times: 1})
		if got := w.names(); !slices.Equal(got, []string{"node-0", "node-3"}) {
			t.Errorf("the partial list is %q", got)
		}
		w.cloud.AddFault(gcp.Fault{Method: "compute.instances.list", OmitEvery: 2, Times: 1})
		if got := w.names(); !slices.Equal(got, []string{"node-0", "node-2"}) {
			t.Errorf("the partial list is %q", got)
		}
		if got := w.names(); len(got) != 4 {
			t.Errorf("the whole list is %q", got)
		}

		// A zone that cannot be reached.
		w.cloud.AddFault(gcp.Fault{Method: "compute.instances.aggregatedList", Unreachable: []string{zone}, Times: 1})
		it := w.instances.AggregatedList(w.ctx, &computepb.AggregatedListInstancesRequest{Project: project})
		for _, scope := range all(w, it.Next) {
			code := scope.Value.GetWarning().GetCode()
			if want := map[bool]string{true: "UNREACHABLE", false: "NO_RESULTS_ON_PAGE"}[scope.Key == "zones/"+zone]; code != want || len(scope.Value.GetInstances()) > 0 {
				t.Errorf("%s has %d instances and warning %s, want %s", scope.Key, len(scope.Value.GetInstances()), code, want)
			}
		}
		if answer, _ := it.Response.(*computepb.InstanceAggregatedList); !slices.Equal(answer.GetUnreachables(), []string{zone}) {
			t.Errorf("the list lacks %q, want %s", answer.GetUnreachables(), zone)
		}
	})
}

func TestStaleAnswers(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.plainGroup("mig", 0)
		w.done(w.create("node-0", "node-1", "node-2", "node-3"))
		w.pass(time.Minute)
		for _, kind := range []string{"instances", "managedInstances", "instanceGroupManagers"} {
			w.ok("freezing", w.cloud.Freeze(kind))
		}
		if err := w.cloud.Freeze("nonsense"); err == nil {
			t.Error("a collection that does not exist was frozen")
		}
		w.done(w.deleteMembers(false, "node-0"))
		w.pass(time.Minute)
		if got := w.names(); len(got) != 4 {
			t.Errorf("the stale list is %q", got)
		}
		w.wantStatus("node-0", "RUNNING")
		if got := len(w.members()); got != 4 {
			t.Errorf("the stale group has %d members", got)
		}
		if g := w.group(); g.GetTargetSize() != 4 || !g.GetStatus().GetIsStable() {
			t.Errorf("the stale group is to have %d", g.GetTargetSize())
		}
		w.ok("thawing", w.cloud.Thaw(""))
		if got := w.names(); !slices.Equal(got, []string{"node-1", "node-2", "node-3"}) {
			t.Errorf("the list is %q", got)
		}
		w.wantStatus("node-0", "gone")
	})
}

// Everything in the audit log has the form that the real one has.
func TestAuditLogEntries(t *testing.T) {
	inVirtualTime(t, gcp.Options{ProjectNumber: 4711, Behavior: gcp.Behavior{NumberInResourceName: true}}, func(w *world) {
		w.done(w.insert("vm", func(i *computepb.Instance) {
			i.Scheduling = &computepb.Scheduling{ProvisioningModel: new("SPOT"), InstanceTerminationAction: new("DELETE")}
		}))
		i, err := w.instance("vm")
		w.ok("getting", err)
		w.ok("preempting", w.cloud.Preempt(zone, "vm"))
		w.done(w.instances.Delete(w.ctx, &computepb.DeleteInstanceRequest{Project: project, Zone: zone, Instance: "vm", RequestId: requestID(1)}))
		w.pass(time.Minute)
		if err := w.cloud.Flush(); err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		compareEntries(t, w.entries, i.GetId(), *requestID(1))
		seen := map[string]bool{}
		for _, e := range w.entries {
			if seen[e.InsertID] {
				t.Errorf("the insert id %s is there twice", e.InsertID)
			}
			seen[e.InsertID] = true
		}
	})
}

func TestQuickDelaysInRealTime(t *testing.T) {
	delays := gcp.QuickDelays()
	w := newWorld(t, gcp.Options{Delays: &delays, Clock: gcp.ScaledTime(50)})
	defer func() { w.ok("closing", w.cloud.Close()) }()
	op, err := w.insert("vm", nil)
	w.ok("inserting", err)
	_, err = w.operations.Wait(w.ctx, &computepb.WaitZoneOperationRequest{Project: project, Zone: zone, Operation: op.Name()})
	w.ok("waiting", err)
	w.wantStatus("vm", "RUNNING")
}

func TestClosedCloudAnswersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gcp.Options{})
		op, err := w.insert("vm", nil)
		w.ok("inserting", err)
		ended := make(chan error, 1)
		go func() {
			_, err := w.operations.Wait(w.ctx, &computepb.WaitZoneOperationRequest{Project: project, Zone: zone, Operation: op.Name()})
			ended <- err
		}()
		synctest.Wait()
		w.ok("closing", w.cloud.Close())
		w.ok("closing again", w.cloud.Close())
		w.refused(<-ended, 503, "backendError")
	})
}
