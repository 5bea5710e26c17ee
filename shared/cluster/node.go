package cluster

import "time"

// NodePhase is where a node is on its way from nothing to a working machine and back.
type NodePhase string

// The phases, in the order in which a node passes them. Every phase but Absent and Ready has a deadline.
const (
	Absent       NodePhase = ""             // no machine, and none asked for
	Requested    NodePhase = "requested"    // an allocation asks for it; no machine yet
	Provisioning NodePhase = "provisioning" // Compute Engine is making the machine
	Booting      NodePhase = "booting"      // the machine runs; its start-up has not ended or Slurm has not seen it
	Ready        NodePhase = "ready"        // it works
	Draining     NodePhase = "draining"     // it is to go when its work has ended
	Failed       NodePhase = "failed"       // it is lost or broken; Slurm is told before the machine goes
	Deleting     NodePhase = "deleting"     // the machine is being removed and its name is still taken
)

// Machine reports whether a machine of a node in this phase may exist.
func (p NodePhase) Machine() bool { return p != Absent && p != Requested }

// Node is the record of one node. It holds only comparable values: two records are the same when they are ==.
type Node struct {
	Index int       `json:"i"`
	Phase NodePhase `json:"p,omitempty"`
	// Generation rises with every new machine of this name; events and observations of an older one are history.
	Generation int64 `json:"g,omitempty"`
	// Since is when the phase began, and Look when the record must be looked at next at the latest.
	Since time.Time `json:"s,omitzero"`
	Look  time.Time `json:"l,omitzero"`
	// Allocation is the name of the allocation that the node's machine belongs to.
	Allocation string `json:"a,omitempty"`
	// InstanceID is the machine's, 0 until it has been seen.
	InstanceID uint64 `json:"id,omitempty"`
	// Created is when Compute Engine made the machine: what Slurm says of an earlier boot is of another machine.
	Created time.Time `json:"c,omitzero"`
	// Status is the machine's as last seen (RUNNING, …).
	Status string `json:"st,omitempty"`
	// LeaseEnd is the termination timestamp that Compute Engine states, zero for a machine without one.
	LeaseEnd time.Time `json:"end,omitzero"`
	// Booted is when the agent reported that start-up ended well.
	Booted time.Time `json:"b,omitzero"`
	// Asked and Returned are the times (the controller's clock) of the newest hook calls that asked for the node and gave
	// it back. Only the newest counts, so calls may come twice, late and in any order.
	Asked    time.Time `json:"ask,omitzero"`
	Returned time.Time `json:"ret,omitzero"`
	// Job is the job for which the node was last asked for, 0 for none.
	Job int64 `json:"j,omitempty"`
	// Suspect is why the machine is thought to be lost; it must be looked at itself before anything follows.
	Suspect string `json:"sus,omitempty"`
	// Reason is why the node is draining, failed or being deleted; Broken says that its machine is of no use to work on it.
	Reason string `json:"r,omitempty"`
	Broken bool   `json:"br,omitempty"`
	// Told is when Slurm was last told what the phase needs, Deleted when the machine's removal was last asked for.
	Told    time.Time `json:"told,omitzero"`
	Deleted time.Time `json:"del,omitzero"`
	// Tries counts how often what the phase needs has been asked for.
	Tries int `json:"n,omitempty"`
}

// AllocationPhase is where an allocation is.
type AllocationPhase string

// The phases of an allocation.
const (
	Admitting  AllocationPhase = "admitting"  // waits for its turn: too many requests are active, or the pool's breaker is open
	Grouping   AllocationPhase = "grouping"   // its managed instance group is being made
	Requesting AllocationPhase = "requesting" // the resize request, or the instances, are being asked for
	Queued     AllocationPhase = "queued"     // the resize request waits for capacity
	Granted    AllocationPhase = "granted"    // its machines are coming, are there, or are going
	Cancelling AllocationPhase = "cancelling" // the request is being cancelled since nobody needs it or it failed
	Closing    AllocationPhase = "closing"    // its group is being removed
)

// Method is how an allocation's machines are obtained.
type Method string

// The methods.
const (
	// ByRequest makes a group of the allocation's own and one resize request with named instances: all or nothing.
	ByRequest Method = "request"
	// ByGradual makes a group of the allocation's own and creates named instances in it: each comes as capacity does. For
	// Flex Start runs shorter than a resize request can carry.
	ByGradual Method = "gradual"
	// ByName creates named instances in the pool's one group.
	ByName Method = "named"
)

// OwnGroup reports whether the allocation's group is its own and goes with it.
func (m Method) OwnGroup() bool { return m == ByRequest || m == ByGradual }

// Allocation is nodes asked for together, of one pool.
type Allocation struct {
	// Name is derived from the cluster's incarnation, the pool, the nodes, their generations and the attempt; it is the resize request's name.
	Name     string          `json:"name"`
	Pool     string          `json:"pool"`
	Zone     string          `json:"zone"`
	Group    string          `json:"group"`
	Template string          `json:"template"`
	Method   Method          `json:"method"`
	Nodes    []int           `json:"nodes"`
	Job      int64           `json:"job,omitempty"` // 0: static nodes
	Phase    AllocationPhase `json:"phase"`
	Since    time.Time       `json:"since"`
	Look     time.Time       `json:"look,omitzero"`
	Made     time.Time       `json:"made"`
	// Run is how long each machine may run; 0 for no limit.
	Run Duration `json:"run,omitempty"`
	// Request is the resize request's state as last seen.
	Request string `json:"request,omitempty"`
	// Refreshed is when Slurm's power-up clock was last refreshed for the waiting nodes.
	Refreshed time.Time `json:"refreshed,omitzero"`
	Operation string    `json:"operation,omitempty"`
	Tries     int       `json:"tries,omitempty"`
	Problem   *Problem  `json:"problem,omitempty"`
	// Retired says why the allocation is cancelled or closed.
	Retired string `json:"retired,omitempty"`
}

// Active reports whether a resize request of the allocation counts against the limit of active requests.
func (a *Allocation) Active() bool {
	return a.Method == ByRequest && (a.Phase == Grouping || a.Phase == Requesting || a.Phase == Queued || a.Phase == Cancelling)
}

// BreakerState is closed, open or half open.
type BreakerState string

// The states of a breaker.
const (
	BreakerClosed   BreakerState = ""
	BreakerOpen     BreakerState = "open"
	BreakerHalfOpen BreakerState = "half open"
)

// Breaker stops a pool that fails for good from asking for ever.
type Breaker struct {
	State    BreakerState `json:"state,omitempty"`
	Failures int          `json:"failures,omitempty"` // in a row
	Until    time.Time    `json:"until,omitzero"`     // when one attempt may be made again
	Problem  *Problem     `json:"problem,omitempty"`
}

// Pool is the record of one pool: everything about it but its nodes.
type Pool struct {
	ID          string       `json:"id"`
	Allocations []Allocation `json:"allocations,omitempty"`
	Breaker     Breaker      `json:"breaker,omitzero"`
	// Backoff is when the pool may ask for capacity again after a failure that passes by itself.
	Backoff time.Time `json:"backoff,omitzero"`
	// Attempt rises with every failed allocation, so that a new one has a new name.
	Attempt int `json:"attempt,omitempty"`
	// Calls counts the mutating calls since Hour began.
	Hour  time.Time `json:"hour,omitzero"`
	Calls int       `json:"calls,omitempty"`
	// GroupMade says that the pool's own group (ByName) exists.
	GroupMade bool `json:"groupMade,omitempty"`
}

// Allocation finds an allocation by name; nil when the pool has none of that name.
func (p *Pool) Allocation(name string) *Allocation {
	for i := range p.Allocations {
		if p.Allocations[i].Name == name {
			return &p.Allocations[i]
		}
	}
	return nil
}
