package cluster

import "time"

// Snapshot is what slurmctld holds, as its agent last told. It replaces the one before it when it is newer: a later
// sequence of the same boot, or a boot that began later.
type Snapshot struct {
	// Boot is when the agent started, Sequence rises with every snapshot since then.
	Boot     time.Time
	Sequence int64
	// Taken is the controller's clock when Slurm was asked.
	Taken time.Time
	// Config is the generation of the spec that slurmctld runs with.
	Config int64
	// Nodes by pool, sorted by index. Unknown lists node names that are not of this cluster's form.
	Nodes   map[string][]SlurmNode
	Unknown []string
	Jobs    []SlurmJob
}

// Newer reports whether s is to replace old.
func (s *Snapshot) Newer(old *Snapshot) bool {
	if old == nil {
		return true
	}
	if !s.Boot.Equal(old.Boot) {
		return s.Boot.After(old.Boot)
	}
	return s.Sequence > old.Sequence
}

// SlurmNode is a node as Slurm sees it.
type SlurmNode struct {
	Index int
	// State is the base state in Slurm's capitals: IDLE, ALLOCATED, MIXED, DOWN, FUTURE, UNKNOWN …
	State string
	Flags SlurmFlags
	// Reason is the text without its bracket, ReasonAt when it was set.
	Reason   string
	ReasonAt time.Time
	// Booted is when the node's machine started, as slurmd registered it; zero before that.
	Booted time.Time
}

// SlurmFlags are the state flags that matter here.
type SlurmFlags uint16

// The flags, named as Slurm names them.
const (
	FlagCloud SlurmFlags = 1 << iota
	FlagDrain
	FlagPoweringUp
	FlagPoweringDown
	FlagPoweredDown
	FlagNotResponding
	FlagCompleting
	FlagReserved
	FlagMaint
	FlagFail
	FlagInvalid // INVALID_REG
	FlagRebooting
)

// SlurmFlagNames gives each flag's name in Slurm's own spelling.
var SlurmFlagNames = [...]string{
	"CLOUD", "DRAIN", "POWERING_UP", "POWERING_DOWN", "POWERED_DOWN", "NOT_RESPONDING", "COMPLETING", "RESERVED",
	"MAINTENANCE", "FAIL", "INVALID_REG", "REBOOT_ISSUED",
}

// Has reports whether all flags of f are set.
func (s SlurmFlags) Has(f SlurmFlags) bool { return s&f == f }

// Any reports whether one of the flags of f is set.
func (s SlurmFlags) Any(f SlurmFlags) bool { return s&f != 0 }

// Up reports whether slurmd of the node is registered and answers.
func (n *SlurmNode) Up() bool {
	return (n.State == "IDLE" || n.State == "ALLOCATED" || n.State == "MIXED") &&
		!n.Flags.Any(FlagPoweringUp|FlagPoweredDown|FlagPoweringDown|FlagNotResponding)
}

// SlurmJob is a job as Slurm sees it.
type SlurmJob struct {
	ID        int64
	State     string // Slurm's capitals: PENDING, CONFIGURING, RUNNING, COMPLETING, …
	Partition string
	User      string
	Name      string
	// Nodes are those it has been given; empty while it is pending.
	Nodes []NodeID
	// Limit is its time limit, 0 for none.
	Limit     time.Duration
	Submitted time.Time
	Started   time.Time
	Restarts  int
	Comment   string
	Reason    string // why it waits
	Requeue   bool   // it may be requeued
	WholeNode bool   // it uses all GPUs of its nodes
}

// Live reports whether the job holds the nodes it has been given.
func (j *SlurmJob) Live() bool {
	switch j.State {
	case "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "SIGNALING", "STOPPED", "RESIZING":
		return len(j.Nodes) > 0
	}
	return false
}

// Working reports whether the job's processes may be running on its nodes.
func (j *SlurmJob) Working() bool { return j.Live() && j.State != "CONFIGURING" }
