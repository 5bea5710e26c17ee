package cluster

import "time"

// Intent is something to be carried out. It is decided from the records and never stored: the records that it was
// decided from are saved first, and the same records give the same intent again until its outcome has been folded in.
// So carrying one out twice must be harmless: names and RequestID are derived from what the intent is for.
type Intent interface {
	// Do says what it does, for logs and problems: "creating managed instance group c1-a3u-…".
	Do() string
	// Request is its id, derived from what it is for.
	Request() string
	intent()
}

// Check looks whether a resource that the cluster needs and does not own is there and fit.
type Check struct{ Ref ResourceRef }

// EnsureSecret makes a Secret Manager secret and gives it one version of Bytes random bytes when it has none. The value never
// leaves the edge.
type EnsureSecret struct {
	Ref    ResourceRef
	Bytes  int
	Labels map[string]string
	ID     string
}

// EnsureTemplate makes an instance template.
type EnsureTemplate struct {
	Ref      ResourceRef
	Template Template
	ID       string
}

// EnsureDisk makes a persistent disk.
type EnsureDisk struct {
	Ref    ResourceRef
	Type   string
	SizeGB int
	Labels map[string]string
	ID     string
}

// EnsureInstance makes one VM outside of any group, from a template, with an optional disk attached that outlives it.
type EnsureInstance struct {
	Ref      ResourceRef
	Template string
	Disk     string
	ID       string
}

// Remove removes a resource of the cluster itself. That it is gone already is success, and so is that what bears the name is
// another owner's: it stays.
type Remove struct {
	Ref ResourceRef
	// Owner is whose the resource must be; the zero Owner asks for no proof.
	Owner Owner
	ID    string
}

// CreateGroup makes an empty managed instance group as resize requests need it: no repair, no autoscaler, opportunistic.
type CreateGroup struct {
	Allocation  string // for which it is made; "" for a pool's own group
	Pool        string
	Zone        string
	Group       string
	Template    string
	Description string
	ID          string
}

// CreateRequest asks for named instances, all or nothing, through a resize request.
type CreateRequest struct {
	Allocation string
	Pool       string
	Zone       string
	Group      string
	Name       string
	Instances  []string
	Run        time.Duration
	ID         string
}

// CancelRequest cancels a resize request.
type CancelRequest struct {
	Allocation string
	Pool       string
	Zone       string
	Group      string
	Name       string
	ID         string
}

// CreateInstances makes named instances in a group.
type CreateInstances struct {
	Allocation string
	Pool       string
	Zone       string
	Group      string
	Instances  []string
	ID         string
}

// DeleteInstances removes instances through their group. Those that are gone already are no failure.
type DeleteInstances struct {
	Pool      string
	Zone      string
	Group     string
	Instances []string
	ID        string
}

// DeleteInstance removes one VM that is in no group that we know.
type DeleteInstance struct {
	Zone string
	Name string
	ID   string
}

// DeleteGroup removes a group with all that is in it. That it is gone already is success.
type DeleteGroup struct {
	Allocation string // "" for an orphan or a pool's own group
	Pool       string
	Zone       string
	Group      string
	ID         string
}

// DeleteTemplate removes an instance template that no record knows.
type DeleteTemplate struct {
	Name string
	ID   string
}

// CommandKind is what the agent on the controller is asked to do with nodes. Each is a short recipe with a condition that is checked
// at the last moment, and an end.
type CommandKind string

// The commands.
const (
	// CommandLost: the machine is gone. down with the reason; dynamic nodes then go to powered down.
	CommandLost CommandKind = "lost"
	// CommandDrain: no new work; what runs goes on.
	CommandDrain CommandKind = "drain"
	// CommandEvict: drain, and take the running job off by requeueing it, since the machine is broken for it.
	CommandEvict CommandKind = "evict"
	// CommandGiveBack: nobody needs the node that is powering up; make it powered down at once.
	CommandGiveBack CommandKind = "giveBack"
	// CommandResume: end a drain or a down that is ours (reason begins with the given one) or slurmctld's own ("ResumeTimeout
	// reached"), and only that. With a job that is pending, it is then told to start at once and on these nodes: the way back to
	// nodes whose request still waits when their power-up clock ran out.
	CommandResume CommandKind = "resume"
	// CommandRefresh: reset the power-up clock of nodes that wait for capacity.
	CommandRefresh CommandKind = "refresh"
	// CommandComment: write the text on the job, where squeue shows it.
	CommandComment CommandKind = "comment"
)

// Command is one message to the agent on the controller.
type Command struct {
	Kind  CommandKind
	Nodes []NodeID
	Job   int64
	// Reason goes onto the nodes, or onto the job. Ours begin with ReasonPrefix.
	Reason string
	// Dynamic says that the nodes are to end powered down.
	Dynamic bool
	ID      string
}

// ReasonPrefix marks what we wrote: only what bears it is ever undone by us.
const ReasonPrefix = "convoke:"

// Template is what an instance template holds.
type Template struct {
	Description    string
	MachineType    string
	Image          string
	DiskType       string
	DiskSizeGB     int
	Network        string
	Subnetwork     string
	PublicIP       bool
	ServiceAccount string
	Labels         map[string]string
	Metadata       map[string]string
	Tags           []string
	Model          ProvisioningModel
	// Run is the longest that a machine may run; at its end it is deleted. 0: no limit.
	Run time.Duration
	// Reservation as the spec has it, for the model Reservation.
	Reservation  *ReservationAffinity
	Confidential string
	// TerminateOnMaintenance for machines that cannot be moved (GPUs, Flex Start).
	TerminateOnMaintenance bool
}

func (i Check) intent()           {}
func (i EnsureSecret) intent()    {}
func (i EnsureTemplate) intent()  {}
func (i EnsureDisk) intent()      {}
func (i EnsureInstance) intent()  {}
func (i Remove) intent()          {}
func (i CreateGroup) intent()     {}
func (i CreateRequest) intent()   {}
func (i CancelRequest) intent()   {}
func (i CreateInstances) intent() {}
func (i DeleteInstances) intent() {}
func (i DeleteInstance) intent()  {}
func (i DeleteGroup) intent()     {}
func (i DeleteTemplate) intent()  {}
func (i Command) intent()         {}

// Request implements Intent.
func (i Check) Request() string { return "" }

// Request implements Intent.
func (i EnsureSecret) Request() string { return i.ID }

// Request implements Intent.
func (i EnsureTemplate) Request() string { return i.ID }

// Request implements Intent.
func (i EnsureDisk) Request() string { return i.ID }

// Request implements Intent.
func (i EnsureInstance) Request() string { return i.ID }

// Request implements Intent.
func (i Remove) Request() string { return i.ID }

// Request implements Intent.
func (i CreateGroup) Request() string { return i.ID }

// Request implements Intent.
func (i CreateRequest) Request() string { return i.ID }

// Request implements Intent.
func (i CancelRequest) Request() string { return i.ID }

// Request implements Intent.
func (i CreateInstances) Request() string { return i.ID }

// Request implements Intent.
func (i DeleteInstances) Request() string { return i.ID }

// Request implements Intent.
func (i DeleteInstance) Request() string { return i.ID }

// Request implements Intent.
func (i DeleteGroup) Request() string { return i.ID }

// Request implements Intent.
func (i DeleteTemplate) Request() string { return i.ID }

// Request implements Intent.
func (i Command) Request() string { return i.ID }

// Do implements Intent.
func (i Check) Do() string { return "checking " + string(i.Ref.Kind) + " " + i.Ref.Name }

// Do implements Intent.
func (i EnsureSecret) Do() string { return "creating secret " + i.Ref.Name }

// Do implements Intent.
func (i EnsureTemplate) Do() string { return "creating instance template " + i.Ref.Name }

// Do implements Intent.
func (i EnsureDisk) Do() string { return "creating disk " + i.Ref.Name }

// Do implements Intent.
func (i EnsureInstance) Do() string { return "creating instance " + i.Ref.Name }

// Do implements Intent.
func (i Remove) Do() string { return "removing " + string(i.Ref.Kind) + " " + i.Ref.Name }

// Do implements Intent.
func (i CreateGroup) Do() string { return "creating managed instance group " + i.Group }

// Do implements Intent.
func (i CreateRequest) Do() string { return "creating resize request " + i.Name }

// Do implements Intent.
func (i CancelRequest) Do() string { return "cancelling resize request " + i.Name }

// Do implements Intent.
func (i CreateInstances) Do() string {
	return "creating instances in managed instance group " + i.Group
}

// Do implements Intent.
func (i DeleteInstances) Do() string {
	return "deleting instances of managed instance group " + i.Group
}

// Do implements Intent.
func (i DeleteInstance) Do() string { return "deleting instance " + i.Name }

// Do implements Intent.
func (i DeleteGroup) Do() string { return "deleting managed instance group " + i.Group }

// Do implements Intent.
func (i DeleteTemplate) Do() string { return "deleting instance template " + i.Name }

// Do implements Intent.
func (i Command) Do() string { return "telling Slurm: " + string(i.Kind) }

// Outcome is what came of an intent.
type Outcome struct {
	Intent Intent
	At     time.Time
	// Problem is nil when the intent was accepted: done, or under way as Operation.
	Problem *Problem
	// Operation is the long operation that was started, "" when there is nothing to follow.
	Operation string
	Found     Found
}
