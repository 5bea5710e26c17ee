package slurm

// Refusal is why slurmctld does not do what it is asked, in its own words.
type Refusal string

// Error implements error.
func (r Refusal) Error() string { return string(r) }

// The refusals.
const (
	ErrJobID             Refusal = "Invalid job id specified"
	ErrJobDone           Refusal = "Job/step already completing or completed"
	ErrPartition         Refusal = "Invalid partition name specified"
	ErrConfiguration     Refusal = "Requested node configuration is not available"
	ErrNodeCount         Refusal = "Node count specification invalid"
	ErrDisabled          Refusal = "Requested operation is presently disabled"
	ErrJobPending        Refusal = "Job is pending execution"
	ErrArraySize         Refusal = "Invalid job array specification"
	ErrTime              Refusal = "Requested time limit is invalid (missing or exceeds some limit)"
	ErrNodeName          Refusal = "Invalid node name specified"
	ErrTransition        Refusal = "Invalid node state transition requested"
	ErrReasonMissing     Refusal = "You must specify a reason when DOWNING a node."
	ErrReservationExists Refusal = "Requested reservation name already exists"
	ErrReservation       Refusal = "Requested reservation is invalid"
)
