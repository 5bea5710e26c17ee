package gcp

import (
	"fmt"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/reflect/protoreflect"
)

type (
	protoMessage = protoreflect.Message
	protoField   = protoreflect.FieldDescriptor
	protoValue   = protoreflect.Value
)

const (
	statusPending      = "PENDING" // waits for capacity
	statusProvisioning = "PROVISIONING"
	statusStaging      = "STAGING"
	statusRunning      = "RUNNING"
	statusStopping     = "STOPPING"
	statusTerminated   = "TERMINATED"
	statusRepairing    = "REPAIRING"

	minRequestValid = 90 * time.Second
	maxRequestValid = 2 * time.Hour
)

// What follows when an instance has stopped.
const (
	thenTerminated = "terminated"
	thenDelete     = "delete"
	thenRestart    = "restart"
)

type instanceState struct {
	Group   string // key of the managed instance group, or ""
	Managed string // key of its entry there
	Request string // key of the resize request that asked for it

	Holds  bool   // capacity and quota
	Stock  string // "ZONE/MACHINE_TYPE" of what it holds
	Queued bool   // waits for capacity
	Ticket uint64 // its place in the queue

	InsertOp  string   // the operation that ends when it runs
	EndOps    []string // the operations that end when it has stopped
	Then      string   // what follows when it has stopped
	Reason    string   // why it stops
	RunFor    time.Duration
	LeaseEnd  time.Time // the termination timestamp, while it runs
	Preempted bool
	Announced bool // the machines know that it runs
	BootImage string
}

type instance = record[*computepb.Instance, instanceState]

func (s *Server) setStatus(r *instance, status string) {
	r.Wire.Status = new(status)
	s.instances.changed(r)
	s.mirror(r)
}

// forget cancels what was to befall an instance. A report of its host fails.
func (s *Server) forget(r *instance) {
	for _, op := range s.agenda.args(r.Key, "instance.repair") {
		s.finish(op, &failure{Code: "RESOURCE_NOT_READY", Message: "The instance was stopped or deleted before its host was repaired.", HTTP: 400})
	}
	s.agenda.cancel(r.Key)
}

// queueInstance lets a flex-start instance wait for capacity until it expires.
func (s *Server) queueInstance(r *instance, valid time.Duration) {
	s.setStatus(r, statusPending)
	s.settings.Counter++
	r.State.Queued, r.State.Ticket = true, s.settings.Counter
	s.after(valid, "instance.expire", r.Key, "")
	s.offerAfter(s.delays().Queue)
}

// tryInstance places an instance that waits, if it fits.
func (s *Server) tryInstance(r *instance) {
	if s.instances.get(r.Key) != r || s.shortage(zoneOf(r.Key), propertiesOf(r.Wire), 1) != nil {
		return
	}
	r.State.Queued = false
	s.agenda.cancel(r.Key, "instance.expire")
	s.provision(r)
}

func (s *Server) expireInstance(t task) {
	if r := s.instances.get(t.Owner); r != nil {
		s.abandonInsert(r, &failure{
			Code: "REQUEST_VALID_FOR_DURATION_EXPIRED", HTTP: 400,
			Message: fmt.Sprintf("Capacity for the instance '%s' was not found within the requested duration.", r.Wire.GetName()),
		})
	}
}

// placeInstance gives an instance its capacity, or fails its insertion.
func (s *Server) placeInstance(t task) {
	r := s.instances.get(t.Owner)
	if r == nil {
		return
	}
	if failed := s.shortage(zoneOf(r.Key), propertiesOf(r.Wire), 1); failed != nil {
		s.abandonInsert(r, failed)
		return
	}
	s.provision(r)
}

// abandonInsert undoes an instance that never ran. One that was stopped and
// cannot start stays as it was.
func (s *Server) abandonInsert(r *instance, failed *failure) {
	s.finish(r.State.InsertOp, failed)
	r.State.InsertOp = ""
	if r.Wire.LastStartTimestamp != nil {
		s.setStatus(r, statusTerminated)
		return
	}
	s.vanish(r, "")
}

// provision starts an instance that fits.
func (s *Server) provision(r *instance) {
	s.hold(r)
	s.setStatus(r, statusProvisioning)
	s.after(s.delays().Provisioning, "instance.stage", r.Key, "")
}

func (s *Server) stageInstance(t task) {
	r := s.instances.get(t.Owner)
	if r == nil {
		return
	}
	s.setStatus(r, statusStaging)
	s.after(s.delays().Staging, "instance.run", r.Key, "")
	s.requestProgress(r)
}

func (s *Server) runInstance(t task) {
	r := s.instances.get(t.Owner)
	if r == nil {
		return
	}
	s.setStatus(r, statusRunning)
	r.Wire.CpuPlatform = new("Intel Emerald Rapids")
	r.Wire.LastStartTimestamp = new(timestamp(s.now))
	s.beginLease(r)
	s.finish(r.State.InsertOp, nil)
	r.State.InsertOp = ""
	s.managedRuns(r)
	s.announce(r, false)
	s.instances.changed(r)
	s.mirror(r)
}

// beginLease plans the end of a limited run.
func (s *Server) beginLease(r *instance) {
	sched := r.Wire.GetScheduling()
	run := r.State.RunFor
	if run == 0 {
		run = seconds(sched.GetMaxRunDuration())
	}
	end := s.now.Add(run)
	if at, err := time.Parse(time.RFC3339, sched.GetTerminationTime()); err == nil {
		end = at
	} else if run == 0 {
		return
	}
	r.State.LeaseEnd = end
	status := resourceStatus(r)
	status.Scheduling = &computepb.ResourceStatusScheduling{TerminationTimestamp: new(timestamp(end))}
	s.after(end.Sub(s.now)+s.lateness(r), "instance.lease", r.Key, "")
}

func (s *Server) lateness(r *instance) time.Duration {
	latest := s.delays().LeaseLateness
	if latest <= 0 {
		return 0
	}
	return time.Duration(s.dice(uint64(latest), "lateness", r.Wire.GetId())) //nolint:gosec // below latest
}

func resourceStatus(r *instance) *computepb.ResourceStatus {
	if r.Wire.ResourceStatus == nil {
		r.Wire.ResourceStatus = &computepb.ResourceStatus{}
	}
	return r.Wire.ResourceStatus
}

// endLease acts upon the end of a limited run.
func (s *Server) endLease(t task) {
	r := s.instances.get(t.Owner)
	if r == nil || r.Wire.GetStatus() != statusRunning {
		return
	}
	if r.Wire.GetScheduling().GetInstanceTerminationAction() != actionDelete {
		s.systemEvent(r, "compute.instances.deferredStop", "Instance reached its maximum run duration.", nil)
		s.stop(r, s.delays().Stopping, thenTerminated, "leaseEnd")
		return
	}
	if r.State.Managed == "" {
		s.systemEvent(r, "compute.instances.deferredDelete", "Instance reached its maximum run duration.", nil)
		s.stop(r, s.delays().Stopping, thenDelete, "leaseEnd")
		return
	}
	event := s.opts.Behavior.LeaseEndEvent
	if event == LeaseEndDeferredDelete || event == LeaseEndBoth {
		s.systemEvent(r, "compute.instances.deferredDelete", "Instance reached its maximum run duration.", nil)
	}
	s.managedLeaseEnds(r)
	if event == LeaseEndDelete || event == LeaseEndBoth {
		s.remove(r, s.startOn(nil, r, "delete", s.theGroup()).Key, "leaseEnd")
		return
	}
	s.remove(r, "", "leaseEnd")
}

// stop begins to stop an instance. One that stops already goes on doing so,
// and perhaps is deleted in the end.
func (s *Server) stop(r *instance, d time.Duration, then, reason string) {
	if r.Wire.GetStatus() == statusStopping {
		if r.State.Then != thenDelete {
			r.State.Then = then
		}
		s.instances.changed(r)
		return
	}
	s.forget(r)
	r.State.Then, r.State.Reason, r.State.Queued = then, reason, false
	s.endLeaseOf(r)
	s.setStatus(r, statusStopping)
	s.notice(r)
	s.after(d, "instance.stopped", r.Key, "")
}

func (s *Server) endLeaseOf(r *instance) {
	r.State.LeaseEnd = time.Time{}
	if status := r.Wire.GetResourceStatus(); status != nil {
		status.Scheduling = nil
	}
}

// remove deletes an instance; op, if there is one, ends when it is gone.
func (s *Server) remove(r *instance, op, reason string) {
	if op != "" {
		r.State.EndOps = append(r.State.EndOps, op)
	}
	d := s.delays().Stopping
	if !r.State.Holds { // TERMINATED, or never placed: nothing has to shut down
		d = s.delays().Operation
	}
	s.stop(r, d, thenDelete, reason)
}

// stoppedInstance is when an instance is off.
func (s *Server) stoppedInstance(t task) {
	r := s.instances.get(t.Owner)
	if r == nil {
		return
	}
	s.retract(r, r.State.Reason)
	then := r.State.Then
	r.State.Then, r.State.Preempted = "", false
	switch then {
	case thenDelete:
		s.vanish(r, r.State.Reason)
	case thenRestart:
		s.systemEvent(r, "compute.instances.automaticRestart", "Instance automatically restarted by Compute Engine.", nil)
		s.place(r)
		s.setStatus(r, statusStaging)
		s.after(s.delays().Staging, "instance.run", r.Key, "")
	default:
		s.release(r)
		r.Wire.LastStopTimestamp = new(timestamp(s.now))
		s.setStatus(r, statusTerminated)
		s.finishEnd(r, nil)
		s.managedStops(r)
	}
}

// finishEnd ends what waited for an instance to stop, and what waited for it
// to run.
func (s *Server) finishEnd(r *instance, failed *failure) {
	ops := r.State.EndOps
	r.State.EndOps = nil
	for _, op := range ops {
		s.finish(op, failed)
	}
	if r.State.InsertOp != "" {
		s.finish(r.State.InsertOp, nil)
		r.State.InsertOp = ""
	}
	s.instances.changed(r)
}

// vanish drops an instance and what goes with it.
func (s *Server) vanish(r *instance, reason string) {
	s.forget(r)
	s.retract(r, reason)
	s.release(r)
	s.freeAddresses(r)
	s.detach(r)
	s.finishEnd(r, nil)
	s.instances.drop(r.Key)
	s.managedLeaves(r)
}

// repairHost begins the repair of a host that was reported.
func (s *Server) repairHost(t task) {
	s.finish(t.Arg, nil)
	r := s.instances.get(t.Owner)
	if r == nil {
		return
	}
	s.retract(r, "hostRepair")
	s.endLeaseOf(r)
	if !r.Wire.GetScheduling().GetAutomaticRestart() {
		s.stop(r, s.delays().Stopping, thenTerminated, "hostRepair")
		return
	}
	s.setStatus(r, statusRepairing)
	s.after(s.delays().HostRepair, "instance.repaired", r.Key, "")
}

func (s *Server) repairedHost(t task) {
	if r := s.instances.get(t.Owner); r != nil {
		s.place(r)
		s.setStatus(r, statusStaging)
		s.after(s.delays().Staging, "instance.run", r.Key, "")
	}
}
