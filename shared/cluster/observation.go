package cluster

import "time"

// Query is what is to be looked at. The zero Query looks at nothing.
type Query struct {
	Owner Owner
	// Zones are those that a list over all zones must have seen to count as complete. Empty: all, so that an outage
	// anywhere in the world makes every list incomplete.
	Zones []string
	// Instances asks for all instances with the owner's label.
	Instances bool
	// Groups asks for single groups with their resize request and managed instances.
	Groups []GroupQuery
	// Machines asks for single instances, to be certain that one is there or not.
	Machines []MachineQuery
	// Operations asks for long operations by name.
	Operations []string
	// Sweep asks for every group and template that bears the owner's description.
	Sweep bool
}

// Empty reports whether there is nothing to look at.
func (q *Query) Empty() bool {
	return !q.Instances && !q.Sweep && len(q.Groups) == 0 && len(q.Machines) == 0 && len(q.Operations) == 0
}

// GroupQuery names a group, and its resize request when it has one.
type GroupQuery struct {
	Zone    string
	Group   string
	Request string
}

// MachineQuery names an instance.
type MachineQuery struct {
	Zone string
	Name string
}

// Observation is what was seen. What could not be looked at is absent from it, and listed under Problems: unknown is not gone.
type Observation struct {
	// At is a time before the first look: what was changed after it may not have been seen.
	At time.Time
	// Instances by name; nil when they were not asked for or the list was not complete.
	Instances map[string]Instance
	// Groups by name. A group that was looked at and is not there has Found false.
	Groups map[string]Group
	// Machines by name; a nil value is an instance that certainly is not there.
	Machines map[string]*Instance
	// Operations by name.
	Operations map[string]OperationView
	// Owned is the result of a sweep; nil when there was none or it was not complete.
	Owned    *Owned
	Problems []Problem
}

// Instance is a VM as Compute Engine shows it.
type Instance struct {
	Name     string
	ID       uint64
	Zone     string
	Status   string // PROVISIONING, STAGING, RUNNING, STOPPING, TERMINATED, …
	Created  time.Time
	LeaseEnd time.Time // termination timestamp; zero when there is none
	Labels   map[string]string
	Group    string // the managed instance group that made it, "" for none
	Host     string // physical host, as block/subblock/host, where it is exposed
	Address  string // primary internal IPv4 address
}

// Group is a managed instance group as Compute Engine shows it.
type Group struct {
	Found    bool
	Stable   bool
	Target   int64
	Template string
	// Managed are its instances, also those that are still to come.
	Managed []Managed
	// Request is the resize request that was asked about; nil when none was, or it could not be looked at.
	Request *Request
}

// Managed is a managed instance.
type Managed struct {
	Name    string
	ID      uint64
	Action  string // NONE, CREATING, DELETING, …
	Status  string // "" when there is no VM
	Problem *Problem
}

// Request is a resize request as Compute Engine shows it.
type Request struct {
	Found   bool
	State   string // CREATING, ACCEPTED, SUCCEEDED, FAILED, CANCELLED
	Created time.Time
	// Error is the final one of a failed request, Attempt that of the last attempt, which may pass by itself.
	Error   *Problem
	Attempt *Problem
}

// OperationView is a long operation as its service shows it.
type OperationView struct {
	Found bool
	Done  bool
	Error *Problem
}

// Owned is every group and template that bears an owner's mark.
type Owned struct {
	Groups    []OwnedGroup
	Templates []string
}

// OwnedGroup is a group found by a sweep.
type OwnedGroup struct {
	Zone    string
	Name    string
	Created time.Time
}
