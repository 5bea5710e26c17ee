package decide

import "time"

// Policy is every waiting time and limit that decisions use, in one place.
type Policy struct {
	// SweepEvery is how often the instances of a resting cluster are listed: the longest that a loss of which no event
	// came stays unnoticed is this plus one tick.
	SweepEvery time.Duration
	// OrphanEvery is how often the cloud is searched for groups and templates that no record knows.
	OrphanEvery time.Duration
	// OrphanAge is how long a thing of ours that no record knows is left alone. It must be longer than the longest
	// time between a thing's making and its record's commit: since records are committed first, a lease's length.
	OrphanAge time.Duration
	// PollMin and PollMax bound how often a thing in motion is looked at; between them the pause grows with the time
	// that it has been in motion.
	PollMin, PollMax time.Duration
	// PollFirst is the first pause before a group that is being made is looked at: a job waits behind it.
	PollFirst time.Duration
	// Retry is when an intent whose outcome was never folded in is decided again. It is longer than an intent's deadline.
	Retry time.Duration
	// RetryMax bounds the growing pause after failures that may pass by themselves.
	RetryMax time.Duration
	// PermanentRetry is the pause after failures that a person must mend.
	PermanentRetry time.Duration

	// ProvisionTimeout is from the grant of capacity to RUNNING, BootTimeout from RUNNING to registered with Slurm.
	// GPU machines of 2 TB memory take minutes to start, and their drivers minutes more.
	ProvisionTimeout, BootTimeout time.Duration
	// ControllerTimeout is from the controller's making to the report of its agent.
	ControllerTimeout time.Duration
	// TellTimeout is how long a machine that is broken waits for its job to be taken off it. One that still works waits for as
	// long as its job takes.
	TellTimeout time.Duration
	// SilentTimeout is how long a node that Slurm has given up, since its slurmd does not answer, may take to come back.
	SilentTimeout time.Duration
	// TellEvery is how often Slurm is told the same thing while its snapshot does not show it.
	TellEvery time.Duration
	// DeleteEvery is how often the removal of the same machine or group is asked for.
	DeleteEvery time.Duration
	// RefreshEvery is how often Slurm's power-up clock is refreshed for queued nodes. ResumeTimeout is 16 bits of
	// seconds at most: 18.2 hours.
	RefreshEvery time.Duration
	// SteerTimeout is how long a job that lost its waiting nodes to ResumeTimeout is expected back on them.
	SteerTimeout time.Duration
	// SnapshotStale is the age at which a snapshot of Slurm no longer supports doing anything to a node.
	SnapshotStale time.Duration
	// HookSlack is how much older than a snapshot a hook call may be and still count against it: a snapshot is taken in several calls.
	HookSlack time.Duration

	// BreakerAfter failures in a row that a person must mend open a pool's breaker for BreakerPause.
	BreakerAfter int
	BreakerPause time.Duration
	// ActiveRequests is the project's limit of active resize requests per region.
	ActiveRequests int
	// RequestSize is the most instances in one resize request, or in one call of createInstances.
	RequestSize int
	// CallsPerHour and CallsPerNode bound a pool's mutating calls in an hour: the former plus the latter times its size.
	CallsPerHour, CallsPerNode int
	// ConfirmAtOnce is how many single instances are looked at in one step, ConfirmEvery when one is looked at again that
	// could not be.
	ConfirmAtOnce int
	ConfirmEvery  time.Duration
	// Tombstone is how long a deleted cluster is remembered, so that a late create does not rebuild it. Pub/Sub keeps messages up to 31 days.
	Tombstone time.Duration

	// ControllerMachine, ControllerDiskGB and Image are what the spec does not say.
	ControllerMachine string
	ControllerDiskGB  int
	StateDiskGB       int
	Image             string
	// ControllerAccount is the email of the service account of controllers, which may do what no node may; "" for the spec's.
	ControllerAccount string
}

// Defaults are the values of a real deployment.
func Defaults() Policy {
	return Policy{
		SweepEvery:        time.Minute,
		OrphanEvery:       10 * time.Minute,
		OrphanAge:         10 * time.Minute,
		PollMin:           time.Second,
		PollFirst:         30 * time.Millisecond,
		PollMax:           time.Minute,
		Retry:             45 * time.Second,
		RetryMax:          5 * time.Minute,
		PermanentRetry:    10 * time.Minute,
		ProvisionTimeout:  30 * time.Minute,
		BootTimeout:       20 * time.Minute,
		ControllerTimeout: 20 * time.Minute,
		TellTimeout:       90 * time.Second,
		SilentTimeout:     5 * time.Minute,
		TellEvery:         45 * time.Second,
		DeleteEvery:       2 * time.Minute,
		RefreshEvery:      4 * time.Hour,
		SteerTimeout:      5 * time.Minute,
		SnapshotStale:     5 * time.Minute,
		HookSlack:         5 * time.Second,
		BreakerAfter:      3,
		BreakerPause:      15 * time.Minute,
		ActiveRequests:    100,
		RequestSize:       1000,
		CallsPerHour:      200,
		CallsPerNode:      10,
		ConfirmAtOnce:     100,
		ConfirmEvery:      10 * time.Second,
		Tombstone:         31 * 24 * time.Hour,
		ControllerMachine: "n2-standard-8",
		ControllerDiskGB:  100,
		StateDiskGB:       100,
		Image:             "projects/debian-cloud/global/images/family/debian-12",
	}
}

// poll is the pause before a thing that has been in motion since then is looked at again: a third of the time so far.
func (p Policy) poll(since, now time.Time) time.Duration {
	return min(max((now.Sub(since)/3).Truncate(time.Millisecond), p.PollMin), p.PollMax)
}

// pause is the growing pause before try n+1.
func (p Policy) pause(tries int) time.Duration {
	d := 2 * time.Second
	for range min(tries, 12) {
		d *= 2
	}
	return min(d, p.RetryMax)
}
