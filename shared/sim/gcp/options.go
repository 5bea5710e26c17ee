package gcp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"time"
)

// Unlimited is the capacity of a machine type that is never short, and the
// limit of a quota that is never reached.
const Unlimited = -1

// Options say what kind of cloud to simulate. The zero value is a project
// with plenty of everything and realistic delays, in memory.
type Options struct {
	// Project is the project's id; "my-project" when empty. Requests for any
	// other project are answered with 404. The project's number is accepted
	// in its place.
	Project string
	// ProjectNumber is the project's number; 123456789012 when zero.
	ProjectNumber uint64
	// User is the principal that operations and audit-log entries name.
	User string

	// Clock is the simulated time; RealTime when nil.
	Clock Clock
	// Seed decides ids, fingerprints, generated names, hosts and how late a
	// lease ends. The same seed, clock and requests give the same cloud.
	Seed uint64

	// Regions maps each region to its zones; DefaultRegions when nil.
	Regions map[string][]string
	// MachineTypes is the catalog that every zone offers;
	// DefaultMachineTypes when nil.
	MachineTypes []MachineType
	// Delays say how long things take; DefaultDelays when nil.
	Delays *Delays
	// Behavior settles what the public documentation leaves open.
	Behavior Behavior

	// Capacity is how many VMs of a machine type a zone can hold at a time,
	// by "ZONE/MACHINE_TYPE". A type that is not named is unlimited.
	Capacity map[string]int
	// Quotas are limits in each region by the metric's name, such as
	// "PREEMPTIBLE_NVIDIA_H200_GPUS", "CPUS", "INSTANCES" or
	// "ACTIVE_RESIZE_REQUESTS". A metric that is not named is unlimited, but
	// for ACTIVE_RESIZE_REQUESTS, whose default is 100 as in the real
	// service.
	Quotas map[string]int

	// Events receives every audit-log entry, one at a time and in order, in
	// a goroutine of its own. It may call the simulator.
	Events func(context.Context, LogEntry)
	// Machines is told when guests start to run and cease to.
	Machines Machines

	// File is where the state is kept. A simulator that is killed and
	// started again on the same file carries on: every mutation is on disk
	// before its answer goes out, and what was pending becomes due at its
	// time. Empty: in memory.
	File string

	// Logger gets what cannot be told to a client. slog.Default when nil.
	Logger *slog.Logger
}

// Behavior settles what the public documentation leaves open, so that a
// client can be tried against either truth.
type Behavior struct {
	// KeepTargetSizeAtLeaseEnd leaves a group's target size as it is when the
	// group deletes a VM whose run time is over. By default it falls by one.
	KeepTargetSizeAtLeaseEnd bool
	// LeaseEndEvent is the audit-log entry that follows when a group's VM has
	// reached the end of its run time.
	LeaseEndEvent LeaseEndEvent
	// RefuseDeleteOfBusyGroup makes the deletion of a group with an active
	// resize request fail with 400 resourceInUseByAnotherResource. By default
	// the deletion is accepted, and waits until the request is no longer
	// active.
	RefuseDeleteOfBusyGroup bool
	// OneActiveRequest refuses a resize request while the same group has
	// another active one. By default they queue side by side.
	OneActiveRequest bool
	// NumberInResourceName makes audit-log entries name the project by its
	// number, as the real log sometimes does.
	NumberInResourceName bool
}

// LeaseEndEvent is what the audit log says at the end of a group's VM.
type LeaseEndEvent string

// The entries that may follow when a group's VM reaches the end of its run
// time.
const (
	LeaseEndDelete         LeaseEndEvent = ""               // activity: v1.compute.instances.delete, issued by the group
	LeaseEndDeferredDelete LeaseEndEvent = "deferredDelete" // system_event: compute.instances.deferredDelete
	LeaseEndBoth           LeaseEndEvent = "both"
	LeaseEndSilent         LeaseEndEvent = "silent"
)

// Delays say how long things take.
type Delays struct {
	Operation        time.Duration // an ordinary operation, from RUNNING to DONE
	Group            time.Duration // a group's operation until its actions are scheduled
	Decision         time.Duration // a resize request from CREATING to ACCEPTED
	Queue            time.Duration // the least that an accepted request or a queued VM waits for capacity
	Provisioning     time.Duration // a VM's PROVISIONING
	Staging          time.Duration // a VM's STAGING, after which it is RUNNING
	Stopping         time.Duration // a VM's STOPPING
	Retry            time.Duration // between a group's attempts to create a VM
	LeaseLateness    time.Duration // the latest that the end of a run time is acted upon
	PreemptionNotice time.Duration // between the guest's notice and the end of a preempted VM
	HostReport       time.Duration // reportHostAsFaulty until the repair begins
	HostRepair       time.Duration // the repair of a host
	Filestore        time.Duration // creation and deletion of a Filestore instance
	Audit            time.Duration // between something happening and its audit-log entry
	RequestID        time.Duration // how long a requestId is remembered
	FinishedRequest  time.Duration // how long a finished resize request stays listed
	Operations       time.Duration // how long a finished operation stays listed
}

// DefaultDelays are of the real service's order of magnitude.
func DefaultDelays() Delays {
	return Delays{
		Operation:        2 * time.Second,
		Group:            3 * time.Second,
		Decision:         5 * time.Second,
		Queue:            20 * time.Second,
		Provisioning:     10 * time.Second,
		Staging:          15 * time.Second,
		Stopping:         30 * time.Second,
		Retry:            30 * time.Second,
		LeaseLateness:    30 * time.Second,
		PreemptionNotice: 30 * time.Second,
		HostReport:       10 * time.Minute,
		HostRepair:       3 * 24 * time.Hour,
		Filestore:        2 * time.Minute,
		Audit:            time.Second,
		RequestID:        time.Hour,
		FinishedRequest:  14 * 24 * time.Hour,
		Operations:       14 * 24 * time.Hour,
	}
}

// QuickDelays make everything happen within milliseconds, for tests in real
// time that are not about waiting.
func QuickDelays() Delays {
	const soon = 2 * time.Millisecond
	d := DefaultDelays()
	for _, short := range []*time.Duration{
		&d.Operation, &d.Group, &d.Decision, &d.Queue, &d.Provisioning, &d.Staging, &d.Stopping,
		&d.LeaseLateness, &d.PreemptionNotice, &d.HostReport, &d.HostRepair, &d.Filestore, &d.Audit,
	} {
		*short = soon
	}
	d.Retry = 20 * time.Millisecond
	return d
}

// MarshalJSON writes each delay as a Go duration string, such as "1m30s".
func (d Delays) MarshalJSON() ([]byte, error) {
	v := reflect.ValueOf(d)
	out := make(map[string]string, v.NumField())
	for i := range v.NumField() {
		out[v.Type().Field(i).Name] = time.Duration(v.Field(i).Int()).String()
	}
	return json.Marshal(out)
}

// UnmarshalJSON sets the delays that are named and leaves the others.
func (d *Delays) UnmarshalJSON(data []byte) error {
	var in map[string]string
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("reading delays, %w", err)
	}
	next := *d
	v := reflect.ValueOf(&next).Elem()
	for name, text := range in {
		field := v.FieldByName(name)
		if !field.IsValid() {
			return fmt.Errorf("there is no delay %q", name)
		}
		value, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("reading delay %s, %w", name, err)
		}
		if value < 0 {
			return fmt.Errorf("delay %s is negative: %s", name, text)
		}
		field.SetInt(int64(value))
	}
	*d = next
	return nil
}

func (o Options) withDefaults() Options {
	if o.Project == "" {
		o.Project = "my-project"
	}
	if o.ProjectNumber == 0 {
		o.ProjectNumber = 123456789012
	}
	if o.User == "" {
		o.User = "automation@" + o.Project + ".iam.gserviceaccount.com"
	}
	if o.Clock == nil {
		o.Clock = RealTime()
	}
	if o.Regions == nil {
		o.Regions = DefaultRegions()
	}
	if o.MachineTypes == nil {
		o.MachineTypes = DefaultMachineTypes()
	}
	if o.Delays == nil {
		d := DefaultDelays()
		o.Delays = &d
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}
