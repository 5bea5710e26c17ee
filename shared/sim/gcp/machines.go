package gcp

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
)

// Machines simulates what runs on the instances. Its methods are called one
// at a time and in order, outside of the simulator's lock, in a goroutine of
// their own: they may call the simulator. A method that blocks holds up the
// news of other instances: start what takes long in a goroutine.
type Machines interface {
	// InstanceRunning is called when an instance becomes RUNNING, and, for
	// those that are, when the simulator starts with a file.
	InstanceRunning(ctx context.Context, i Instance)
	// InstanceGone is called when a running instance is off: stopped,
	// preempted, broken or deleted.
	InstanceGone(ctx context.Context, i Instance)
}

// MachineWatcher is what Machines may be as well, to hear of changes to a
// running instance.
type MachineWatcher interface {
	// InstanceChanged is called when a running instance begins to stop, and
	// when its metadata, labels or notices change.
	InstanceChanged(ctx context.Context, i Instance)
}

// Instance is what a guest can know of itself, from its metadata server.
type Instance struct {
	Name        string
	ID          uint64
	Zone        string
	Project     string
	Hostname    string // "NAME.ZONE.c.PROJECT.internal"
	MachineType string // "a3-ultragpu-8g"
	GPUs        int
	Status      string            // "RUNNING", "STOPPING", "TERMINATED"
	Metadata    map[string]string // attributes, such as "startup-script"
	Labels      map[string]string
	Tags        []string

	Network        string // "projects/P/global/networks/N"
	Subnetwork     string
	InternalIP     string
	ExternalIP     string // "" without one
	ServiceAccount string // e-mail, or ""
	BootImage      string

	Group             string // the managed instance group's name, or ""
	ProvisioningModel string // "STANDARD", "SPOT", "FLEX_START", "RESERVATION_BOUND"
	PhysicalHost      string // "block/subblock/host"
	TerminationTime   time.Time
	Preempted         bool   // what instance/preempted says
	Maintenance       string // what instance/upcoming-maintenance says, as JSON with the API's field names; or ""
	Resumed           bool   // it was running before the simulator started
	Reason            string // of InstanceGone: "delete", "stop", "preempted", "hostError", "guestTerminate", "leaseEnd", "reset", "vanished", …
}

// guest is a copy of what the instance knows, safe to keep.
func (s *Server) guest(r *instance) Instance {
	w := r.Wire
	mt := s.machineTypes[lastSegment(w.GetMachineType())]
	out := Instance{
		Name: w.GetName(), ID: w.GetId(), Zone: zoneOf(r.Key), Project: s.opts.Project,
		Hostname:    w.GetName() + "." + zoneOf(r.Key) + ".c." + s.opts.Project + ".internal",
		MachineType: mt.Name, GPUs: mt.GPUs, Status: w.GetStatus(),
		Metadata: metadataMap(w.GetMetadata()), Labels: maps.Clone(w.GetLabels()), Tags: slices.Clone(w.GetTags().GetItems()),
		Group: lastSegment(r.State.Group), ProvisioningModel: w.GetScheduling().GetProvisioningModel(),
		PhysicalHost: w.GetResourceStatus().GetPhysicalHost(), TerminationTime: r.State.LeaseEnd, Preempted: r.State.Preempted,
	}
	if nics := w.GetNetworkInterfaces(); len(nics) > 0 {
		_, out.Network, _ = strings.Cut(nics[0].GetNetwork(), "/compute/v1/")
		_, out.Subnetwork, _ = strings.Cut(nics[0].GetSubnetwork(), "/compute/v1/")
		out.InternalIP = nics[0].GetNetworkIP()
		if access := nics[0].GetAccessConfigs(); len(access) > 0 {
			out.ExternalIP = access[0].GetNatIP()
		}
	}
	if accounts := w.GetServiceAccounts(); len(accounts) > 0 {
		out.ServiceAccount = accounts[0].GetEmail()
	}
	out.BootImage = r.State.BootImage
	if m := w.GetResourceStatus().GetUpcomingMaintenance(); m != nil {
		if text, err := protojson.Marshal(m); err == nil {
			out.Maintenance = string(text)
		}
	}
	return out
}

// announce tells the machines that an instance runs.
func (s *Server) announce(r *instance, resumed bool) {
	r.State.Announced = true
	if s.opts.Machines == nil {
		return
	}
	g := s.guest(r)
	g.Resumed = resumed
	s.outbox = append(s.outbox, letter{s.machines, func(ctx context.Context) { s.opts.Machines.InstanceRunning(ctx, g) }})
}

// retract tells the machines that an instance is off.
func (s *Server) retract(r *instance, reason string) {
	if !r.State.Announced {
		return
	}
	r.State.Announced = false
	if s.opts.Machines == nil {
		return
	}
	g := s.guest(r)
	g.Reason = reason
	s.outbox = append(s.outbox, letter{s.machines, func(ctx context.Context) { s.opts.Machines.InstanceGone(ctx, g) }})
}

// notice tells the machines that an instance has changed.
func (s *Server) notice(r *instance) {
	watcher, ok := s.opts.Machines.(MachineWatcher)
	if !ok || !r.State.Announced {
		return
	}
	g := s.guest(r)
	s.outbox = append(s.outbox, letter{s.machines, func(ctx context.Context) { watcher.InstanceChanged(ctx, g) }})
}
