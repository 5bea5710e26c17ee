package gcp

import (
	"fmt"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
)

// What befalls instances. Each of these is done to a running instance, unless
// it says otherwise, and answers with an error if there is none.

func (s *Server) befall(zone, name string, running bool, do func(*instance)) error {
	var failed error
	err := s.locked(func() {
		r := s.instances.get("zones/" + zone + "/instances/" + name)
		switch {
		case r == nil:
			failed = notFound(s.relative("zones/" + zone + "/instances/" + name))
		case running && r.Wire.GetStatus() != statusRunning:
			failed = invalid("The instance '%s' is not running: it is %s.", name, r.Wire.GetStatus())
		default:
			do(r)
		}
	})
	if err != nil {
		return err
	}
	return failed
}

// Preempt takes an instance away as Compute Engine does from Spot VMs: the
// guest gets its notice, and the VM is stopped or deleted as its
// instanceTerminationAction says.
func (s *Server) Preempt(zone, name string) error {
	return s.befall(zone, name, true, func(r *instance) {
		s.systemEvent(r, "compute.instances.preempted", "", nil)
		r.State.Preempted = true
		then := thenTerminated
		if r.Wire.GetScheduling().GetInstanceTerminationAction() == actionDelete {
			then = thenDelete
		}
		s.stop(r, s.delays().PreemptionNotice, then, "preempted")
	})
}

// FailHost breaks the machine under an instance: the guest is gone at once,
// and the VM restarts on another host if it has automaticRestart, or else is
// TERMINATED.
func (s *Server) FailHost(zone, name string) error {
	return s.befall(zone, name, true, func(r *instance) {
		s.systemEvent(r, "compute.instances.hostError", "Instance terminated by Compute Engine.", nil)
		s.retract(r, "hostError")
		then := thenTerminated
		if r.Wire.GetScheduling().GetAutomaticRestart() {
			then = thenRestart
		}
		s.stop(r, s.delays().Stopping, then, "hostError")
	})
}

// EndLease lets the run time of an instance be over now. It must have a
// limited one.
func (s *Server) EndLease(zone, name string) error {
	var failed error
	err := s.befall(zone, name, true, func(r *instance) {
		if r.State.LeaseEnd.IsZero() {
			failed = invalid("The run time of instance '%s' is not limited.", name)
			return
		}
		s.agenda.cancel(r.Key, "instance.lease")
		s.endLease(task{Owner: r.Key})
	})
	if err != nil {
		return err
	}
	return failed
}

// PowerOff is what happens when the guest shuts itself down.
func (s *Server) PowerOff(zone, name string) error {
	return s.befall(zone, name, true, func(r *instance) {
		s.systemEvent(r, "compute.instances.guestTerminate", "Instance terminated by guest OS shutdown.", nil)
		s.stop(r, s.delays().Operation, thenTerminated, "guestTerminate")
	})
}

// Vanish makes an instance disappear, in whatever state, without a trace in
// the audit log.
func (s *Server) Vanish(zone, name string) error {
	return s.befall(zone, name, false, func(r *instance) { s.vanish(r, "vanished") })
}

// DeleteByHand deletes an instance, in whatever state, as a person would who
// does not ask its owner.
func (s *Server) DeleteByHand(zone, name string) error {
	return s.befall(zone, name, false, func(r *instance) {
		op := s.startOn(nil, r, "delete", author{"someone@example.com", "Mozilla/5.0"})
		s.remove(r, op.Key, "delete")
	})
}

// Maintenance is a planned interruption of an instance.
type Maintenance struct {
	Status        string // "PENDING", the default, "ONGOING" or "COMPLETE"
	Type          string // "SCHEDULED", the default, or "UNSCHEDULED"
	Start         time.Time
	End           time.Time
	LatestStart   time.Time
	CanReschedule bool
	Reasons       []string // "FAILURE_GPU_XID", "PLANNED_UPDATE", …
}

// Maintain announces a maintenance, that it has begun or, with Status
// COMPLETE, that it is over: resourceStatus.upcomingMaintenance, what the guest
// can read, and the audit log's compute.instances.upcomingMaintenance.
func (s *Server) Maintain(zone, name string, m Maintenance) error {
	if m.Status == "" {
		m.Status = "PENDING"
	}
	if m.Type == "" {
		m.Type = "SCHEDULED"
	}
	messages := map[string]string{
		"PENDING": "Maintenance is scheduled.", "ONGOING": "Maintenance window has started: maintenance is ongoing.",
		"COMPLETE": "Maintenance window has completed for this instance.",
	}
	message, ok := messages[m.Status]
	if !ok {
		return invalidField("status", m.Status, "Must be PENDING, ONGOING or COMPLETE.")
	}
	return s.befall(zone, name, false, func(r *instance) {
		metadata := map[string]any{"maintenanceStatus": m.Status, "type": m.Type, "canReschedule": m.CanReschedule, "maintenanceReasons": m.Reasons}
		notice := &computepb.UpcomingMaintenance{
			MaintenanceStatus: new(m.Status), Type: new(m.Type), CanReschedule: new(m.CanReschedule), MaintenanceReasons: m.Reasons,
		}
		for _, t := range []struct {
			name  string
			at    time.Time
			field **string
		}{
			{"windowStartTime", m.Start, &notice.WindowStartTime},
			{"windowEndTime", m.End, &notice.WindowEndTime},
			{"latestWindowStartTime", m.LatestStart, &notice.LatestWindowStartTime},
		} {
			if !t.at.IsZero() {
				*t.field = new(t.at.UTC().Format(time.RFC3339))
				metadata[t.name] = **t.field
			}
		}
		if m.Status == "COMPLETE" {
			notice = nil
		}
		resourceStatus(r).UpcomingMaintenance = notice
		s.instances.changed(r)
		s.systemEvent(r, "compute.instances.upcomingMaintenance", message, metadata)
		s.notice(r)
	})
}

// TerminateForMaintenance is what a host maintenance does to an instance that
// cannot migrate: it restarts if it has automaticRestart, or else is
// TERMINATED.
func (s *Server) TerminateForMaintenance(zone, name string) error {
	return s.befall(zone, name, true, func(r *instance) {
		s.systemEvent(r, "compute.instances.terminateOnHostMaintenance", "Instance terminated during Compute Engine maintenance.", nil)
		then := thenTerminated
		if r.Wire.GetScheduling().GetAutomaticRestart() {
			then = thenRestart
		}
		s.stop(r, s.delays().Stopping, then, "terminateOnHostMaintenance")
	})
}

// FailRequest ends an active resize request as FAILED, with that error; VMs
// that it has got are rolled back.
func (s *Server) FailRequest(zone, group, name, code, message string) error {
	var failed error
	err := s.locked(func() {
		key := "zones/" + zone + "/instanceGroupManagers/" + group + "/resizeRequests/" + name
		r := s.requests.get(key)
		switch {
		case r == nil:
			failed = notFound(s.relative(key))
		case !active(r):
			failed = invalid("The resize request '%s' is no longer active: it is %s.", name, r.Wire.GetState())
		default:
			s.failRequest(r, &failure{Code: code, Message: message})
		}
	})
	if err != nil {
		return err
	}
	return failed
}

// FailNextRequests lets the next n resize requests fail in place of being
// accepted.
func (s *Server) FailNextRequests(n int, code, message string) error {
	return s.locked(func() {
		for range n {
			s.failures = append(s.failures, &failure{Code: code, Message: message})
		}
	})
}

func (s *Server) plannedFailure() *failure {
	if len(s.failures) == 0 {
		return nil
	}
	first := s.failures[0]
	s.failures = s.failures[1:]
	return first
}

// Freeze makes answers stale: until Thaw, get and list requests show what is
// there now. kind is a collection: "instances", "instanceGroupManagers",
// "managedInstances", "resizeRequests", "operations", "disks",
// "instanceTemplates", "networks", "subnetworks" or "filestoreInstances".
func (s *Server) Freeze(kind string) error { return s.eachFrozen(kind, freezer.freeze) }

// Thaw ends what Freeze began; for every kind, if it is "".
func (s *Server) Thaw(kind string) error { return s.eachFrozen(kind, freezer.thaw) }

type freezer interface {
	tableName() string
	freeze()
	thaw()
}

// freezableGroups keep what their instances did when they were frozen.
type freezableGroups struct{ s *Server }

func (f freezableGroups) tableName() string { return f.s.groups.tableName() }

func (f freezableGroups) freeze() {
	rows := f.s.shownGroups("")
	f.s.groups.freeze()
	f.s.groups.frozen = rows
}

func (f freezableGroups) thaw() { f.s.groups.thaw() }

func (s *Server) eachFrozen(kind string, do func(freezer)) error {
	found := false
	err := s.locked(func() {
		for _, f := range []freezer{
			s.instances, freezableGroups{s}, s.managed, s.requests, s.operations, s.disks, s.templates, s.networks, s.subnetworks, s.filestores,
		} {
			if kind == "" || f.tableName() == kind {
				do(f)
				found = true
			}
		}
	})
	if err == nil && !found {
		err = fmt.Errorf("there is no collection %q", kind)
	}
	return err
}
