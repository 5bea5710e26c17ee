package slurm

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// Options say which cluster is simulated, and how.
type Options struct {
	// Spec gives the nodes and partitions, Key the cluster that events name.
	Spec *cluster.Spec
	Key  cluster.Key
	// Config is the generation of the spec, as snapshots tell it.
	Config int64
	// Now is the clock; nil: time.Now. AfterFunc calls a function when so much of that clock's time has passed; nil:
	// time.AfterFunc.
	Now       func() time.Time
	AfterFunc func(time.Duration, func()) Timer
	// Timing are all the delays; nil: DefaultTiming.
	Timing *Timing
	// Publish sends one event. Until it returns nil it is called again with the same id. Nil: nothing is published.
	Publish func(ctx context.Context, typ, id string, data events.Payload) error
	// Copies says how often an event is published: 0 loses it, 2 doubles it. Nil: once each.
	Copies func(typ, id string) int
	// Save is given the state whenever it has changed, and always before an event that tells of the change goes out. Nil: the
	// state is not kept.
	Save func(state []byte) error
	// Logger is told what could not be published or saved and is tried again. Nil: slog.Default.
	Logger *slog.Logger
}

// Timer is a pending call of Options.AfterFunc.
type Timer interface{ Stop() bool }

// Timing is slurm.conf's clocks and how long things take that slurm.conf does not name.
type Timing struct {
	// SuspendTime is how long a dynamic node is idle before it is powered down; negative: never.
	SuspendTime time.Duration
	// SuspendTimeout is how long a node is powering down, whatever becomes of its machine.
	SuspendTimeout time.Duration
	// ResumeTimeout is how long a node may be powering up. 65,535 s at most: Slurm keeps it in 16 bits.
	ResumeTimeout time.Duration
	// SlurmdTimeout is how long slurmd may be silent until its node is DOWN. Nodes are pinged three times in it.
	SlurmdTimeout time.Duration
	// BeginDelay is how long a requeued job may not begin: cred_expire and a second.
	BeginDelay time.Duration
	// NodeFail is how long a job is COMPLETING after one of its nodes went DOWN.
	NodeFail time.Duration
	// Unkillable is how long a job is COMPLETING whose node was powered down under it without being set DOWN first.
	Unkillable time.Duration
	// Epilog is how long a job is COMPLETING in the ordinary way.
	Epilog time.Duration
	// PowerSave is how late the power-saving thread acts on what it is asked for, and so calls its programs.
	PowerSave time.Duration
	// Configuring is the period of the check that starts jobs whose nodes have all come.
	Configuring time.Duration
	// Sticky is how soon after a repeated power-up request a registering node keeps the request.
	Sticky time.Duration
	// Keep is how long finished jobs are listed.
	Keep time.Duration
	// Snapshot is the longest time between two snapshots, SnapshotDelay how long changes are gathered for one.
	Snapshot      time.Duration
	SnapshotDelay time.Duration
	// Retry is the wait after a publication that failed; it doubles up to RetryMax.
	Retry    time.Duration
	RetryMax time.Duration
}

// maxResumeTimeout is the largest 16-bit number of seconds; slurmctld does not start with more.
const maxResumeTimeout = 65_535 * time.Second

// DefaultTiming is what a controller's slurm.conf says, and what was seen of Slurm 22.05 beyond it.
func DefaultTiming() Timing {
	return Timing{
		SuspendTime:    300 * time.Second,
		SuspendTimeout: 120 * time.Second,
		ResumeTimeout:  maxResumeTimeout,
		SlurmdTimeout:  300 * time.Second,
		BeginDelay:     121 * time.Second,
		NodeFail:       11 * time.Second,
		Unkillable:     300 * time.Second,
		Epilog:         time.Second,
		PowerSave:      time.Second,
		Configuring:    30 * time.Second,
		Sticky:         2 * time.Second,
		Keep:           24 * time.Hour,
		Snapshot:       30 * time.Second,
		SnapshotDelay:  time.Second,
		Retry:          time.Second,
		RetryMax:       30 * time.Second,
	}
}

func (o Options) withDefaults() (Options, error) {
	if o.Spec == nil {
		return o, errors.New("a controller needs a spec")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.AfterFunc == nil {
		o.AfterFunc = func(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
	}
	if o.Timing == nil {
		t := DefaultTiming()
		o.Timing = &t
	}
	if o.Timing.ResumeTimeout <= 0 || o.Timing.ResumeTimeout > maxResumeTimeout {
		return o, errors.New("ResumeTimeout must be between 1 and 65535 seconds")
	}
	if o.Timing.Configuring <= 0 || o.Timing.SlurmdTimeout <= 0 || o.Timing.Snapshot <= 0 {
		return o, errors.New("the periods Configuring, SlurmdTimeout and Snapshot must be positive")
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Publish == nil {
		o.Publish = func(context.Context, string, string, events.Payload) error { return nil }
	}
	if o.Copies == nil {
		o.Copies = func(string, string) int { return 1 }
	}
	return o, nil
}
