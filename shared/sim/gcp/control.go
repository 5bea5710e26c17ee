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

// Summary is everything that exists in the project.
type Summary struct {
	Time          time.Time           `json:"time"`
	Networks      []string            `json:"networks"`    // but the default one
	Subnetworks   []string            `json:"subnetworks"` // but those of auto-mode networks
	Templates     []string            `json:"templates"`
	Groups        []GroupSummary      `json:"groups"`
	Requests      []RequestSummary    `json:"requests"`
	Instances     []InstanceSummary   `json:"instances"`
	Disks         []string            `json:"disks"`
	Filestores    []string            `json:"filestores"`
	Secrets       []string            `json:"secrets"`
	Operations    int                 `json:"operations"` // that run
	Capacity      map[string]Capacity `json:"capacity"`   // of what is limited or in use, by "ZONE/MACHINE_TYPE"
	ActiveQuotas  map[string]int      `json:"quotas"`
	StaleAnswers  []string            `json:"staleAnswers,omitempty"`
	PlannedFaults int                 `json:"plannedFaults"`
}

// GroupSummary is a managed instance group.
type GroupSummary struct {
	Zone       string `json:"zone"`
	Name       string `json:"name"`
	TargetSize int    `json:"targetSize"`
	Members    int    `json:"members"`
	Deleting   bool   `json:"deleting,omitempty"`
}

// RequestSummary is a resize request.
type RequestSummary struct {
	Zone      string   `json:"zone"`
	Group     string   `json:"group"`
	Name      string   `json:"name"`
	State     string   `json:"state"`
	Instances []string `json:"instances"`
}

// InstanceSummary is a VM.
type InstanceSummary struct {
	Zone            string            `json:"zone"`
	Name            string            `json:"name"`
	ID              uint64            `json:"id,string"`
	Status          string            `json:"status"`
	MachineType     string            `json:"machineType"`
	Group           string            `json:"group,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	TerminationTime time.Time         `json:"terminationTime,omitzero"`
}

// Capacity of a machine type in a zone.
type Capacity struct {
	Limit int `json:"limit"` // Unlimited, or how many VMs there can be
	Used  int `json:"used"`
}

// Summarize states everything that exists: what is left over, at the end of a
// test.
func (s *Server) Summarize() (Summary, error) {
	out := Summary{Capacity: map[string]Capacity{}}
	err := s.locked(func() {
		out.Time = s.now
		s.summarizeNetworks(&out)
		out.Templates, out.Disks = namesOf(s.templates.keys), append([]string{}, s.disks.keys...)
		out.Filestores, out.Secrets = append([]string{}, s.filestores.keys...), namesOf(s.secrets.keys)
		s.summarizeGroups(&out)
		for r := range s.instances.under("") {
			out.Instances = append(out.Instances, InstanceSummary{
				Zone: zoneOf(r.Key), Name: r.Wire.GetName(), ID: r.Wire.GetId(), Status: r.Wire.GetStatus(),
				MachineType: lastSegment(r.Wire.GetMachineType()), Group: lastSegment(r.State.Group),
				Labels: clonedLabels(r.Wire.GetLabels()), TerminationTime: r.State.LeaseEnd,
			})
		}
		out.Operations = len(s.operations.keys) - len(s.ended)
		for stock, used := range s.stock {
			if used > 0 {
				out.Capacity[stock] = Capacity{Limit: Unlimited, Used: used}
			}
		}
		for stock, limit := range s.settings.Capacity {
			out.Capacity[stock] = Capacity{Limit: limit, Used: s.stock[stock]}
		}
		out.ActiveQuotas = copyOf(s.settings.Quotas)
		for _, stale := range []struct {
			name string
			is   bool
		}{{"instances", s.instances.stale}, {"instanceGroupManagers", s.groups.stale}, {"managedInstances", s.managed.stale}, {"resizeRequests", s.requests.stale}} {
			if stale.is {
				out.StaleAnswers = append(out.StaleAnswers, stale.name)
			}
		}
	})
	out.PlannedFaults = s.faults.count()
	return out, err
}

func (s *Server) summarizeNetworks(out *Summary) {
	auto := map[string]bool{}
	for n := range s.networks.under("") {
		auto[n.Wire.GetSelfLink()] = n.Wire.GetAutoCreateSubnetworks()
		if n.Wire.GetName() != "default" {
			out.Networks = append(out.Networks, n.Wire.GetName())
		}
	}
	for sub := range s.subnetworks.under("") {
		if !auto[sub.Wire.GetNetwork()] {
			out.Subnetworks = append(out.Subnetworks, sub.Key)
		}
	}
}

func (s *Server) summarizeGroups(out *Summary) {
	for g := range s.groups.under("") {
		out.Groups = append(out.Groups, GroupSummary{
			Zone: zoneOf(g.Key), Name: g.Wire.GetName(), TargetSize: int(g.Wire.GetTargetSize()),
			Members: len(s.managed.span(g.Key + "/")), Deleting: g.State.DeleteOp != "",
		})
	}
	for r := range s.requests.under("") {
		out.Requests = append(out.Requests, RequestSummary{
			Zone: zoneOf(r.Key), Group: lastSegment(requestGroup(r)), Name: r.Wire.GetName(), State: r.Wire.GetState(),
			Instances: append([]string(nil), r.State.Names...),
		})
	}
}

// Leftovers lists, one a line, what a project that was cleaned up should not
// have: everything but the default network, finished operations, and
// finished resize requests, which go with their group.
func (sum Summary) Leftovers() []string {
	var out []string
	add := func(kind string, names ...string) {
		for _, name := range names {
			out = append(out, kind+" "+name)
		}
	}
	add("network", sum.Networks...)
	add("subnetwork", sum.Subnetworks...)
	add("template", sum.Templates...)
	for _, g := range sum.Groups {
		add("group", fmt.Sprintf("%s/%s of target size %d with %d members", g.Zone, g.Name, g.TargetSize, g.Members))
	}
	for _, i := range sum.Instances {
		add("instance", fmt.Sprintf("%s/%s %s", i.Zone, i.Name, i.Status))
	}
	add("disk", sum.Disks...)
	add("filestore", sum.Filestores...)
	add("secret", sum.Secrets...)
	return out
}

func namesOf(keys []string) []string {
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = lastSegment(key)
	}
	return out
}

func (f *faults) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.planned)
}
