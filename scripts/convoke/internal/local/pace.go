package local

import (
	"fmt"
	"time"

	"github.com/convoke-hpc/convoke/shared/decide"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
	"github.com/convoke-hpc/convoke/shared/sim/machines"
	"github.com/convoke-hpc/convoke/shared/sim/slurm"
	"github.com/convoke-hpc/convoke/shared/steward"
)

// Pace is how long everything takes: the simulated cloud and machines, Slurm's clocks, and the waiting times of those who decide.
type Pace struct {
	Name     string
	Cloud    gcp.Delays
	Machines machines.Delays
	Slurm    slurm.Timing
	Policy   decide.Policy
	Steward  steward.Timing
	// Tick is how often the scheduler ticks.
	Tick time.Duration
	// RetryMin and RetryMax bound the pause before a message is pushed again.
	RetryMin, RetryMax time.Duration
}

// PaceNamed is the pace of that name: "fast" or "real".
func PaceNamed(name string) (Pace, error) {
	switch name {
	case "fast":
		return Fast(), nil
	case "real":
		return Real(), nil
	}
	return Pace{}, fmt.Errorf("there is no pace %q, want fast or real", name)
}

// Real takes as long as Google Cloud and its machines do, and waits as a deployment does.
func Real() Pace {
	return Pace{
		Name: "real", Cloud: gcp.DefaultDelays(), Machines: machines.DefaultDelays(), Slurm: slurm.DefaultTiming(),
		Policy: decide.Defaults(), Steward: steward.DefaultTiming(), Tick: time.Minute, RetryMin: 10 * time.Second, RetryMax: 10 * time.Minute,
	}
}

// Fast does in seconds what really takes minutes, in the same order. Times that are compared with one another keep their order, too:
// a lease is longer than a call, and an orphan older than a lease.
func Fast() Pace {
	const ms = time.Millisecond
	p := Real()
	p.Name = "fast"
	p.Tick = 5 * time.Second
	p.RetryMin, p.RetryMax = time.Second, time.Minute

	p.Cloud.Operation, p.Cloud.Group, p.Cloud.Decision = 150*ms, 200*ms, 300*ms
	p.Cloud.Queue, p.Cloud.Provisioning, p.Cloud.Staging = 1500*ms, 800*ms, 700*ms
	p.Cloud.Stopping, p.Cloud.Retry, p.Cloud.Audit = 800*ms, time.Second, 100*ms
	p.Cloud.LeaseLateness, p.Cloud.PreemptionNotice = 300*ms, time.Second
	p.Cloud.HostReport, p.Cloud.HostRepair, p.Cloud.Filestore = 10*time.Second, time.Minute, 500*ms

	p.Machines = machines.Delays{Controller: time.Second, Login: 800 * ms, Compute: 1500 * ms, Spread: 500 * ms}

	p.Slurm.SuspendTime, p.Slurm.SuspendTimeout = 4*time.Second, 2*time.Second
	p.Slurm.SlurmdTimeout, p.Slurm.BeginDelay = 15*time.Second, 3*time.Second
	p.Slurm.NodeFail, p.Slurm.Unkillable, p.Slurm.Epilog = time.Second, 5*time.Second, 300*ms
	p.Slurm.PowerSave, p.Slurm.Configuring = 200*ms, 500*ms
	p.Slurm.Snapshot, p.Slurm.SnapshotDelay = 5*time.Second, 200*ms
	p.Slurm.Retry, p.Slurm.RetryMax = 200*ms, 5*time.Second

	p.Policy.SweepEvery, p.Policy.OrphanEvery, p.Policy.OrphanAge = 5*time.Second, 15*time.Second, 30*time.Second
	p.Policy.PollMin, p.Policy.PollMax = 250*ms, 2*time.Second
	p.Policy.Retry, p.Policy.RetryMax, p.Policy.PermanentRetry = 8*time.Second, 15*time.Second, 15*time.Second
	p.Policy.ProvisionTimeout, p.Policy.BootTimeout, p.Policy.ControllerTimeout = 30*time.Second, 30*time.Second, 30*time.Second
	p.Policy.TellTimeout, p.Policy.TellEvery, p.Policy.DeleteEvery = 6*time.Second, 2*time.Second, 4*time.Second
	p.Policy.SnapshotStale, p.Policy.HookSlack = 30*time.Second, time.Second
	p.Policy.BreakerPause = 20 * time.Second

	p.Steward.Lease, p.Steward.Budget = 15*time.Second, 3*time.Second
	p.Steward.Linger, p.Steward.Peek = time.Second, 200*ms
	p.Steward.Call, p.Steward.Margin = 6*time.Second, 3*time.Second
	return p
}

// Quick is as fast as this machine is, for tests that are not about waiting.
func Quick() Pace {
	const ms = time.Millisecond
	p := Fast()
	p.Name = "quick"
	p.Tick = 500 * ms
	p.RetryMin = 100 * ms
	p.Cloud = gcp.QuickDelays()
	p.Cloud.Queue = 50 * ms // long enough to be seen
	p.Machines = machines.Delays{Controller: 20 * ms, Login: 20 * ms, Compute: 20 * ms}
	p.Slurm.SuspendTime, p.Slurm.SuspendTimeout = 300*ms, 200*ms
	p.Slurm.Epilog, p.Slurm.PowerSave, p.Slurm.Configuring, p.Slurm.SnapshotDelay = 20*ms, 20*ms, 50*ms, 20*ms
	p.Policy.PollMin, p.Policy.PollMax = 30*ms, 300*ms
	p.Policy.SweepEvery = 2 * time.Second // longer than a holder lingers, which would never rest otherwise
	p.Steward.Lease, p.Steward.Budget = 4*time.Second, 2*time.Second
	p.Steward.Linger, p.Steward.Peek = 300*ms, 50*ms
	p.Steward.Call, p.Steward.Margin = 2*time.Second, time.Second
	return p
}
