package machines

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
	"github.com/convoke-hpc/convoke/shared/sim/slurm"
)

// Publisher sends events to a topic of package events.
type Publisher interface {
	Publish(ctx context.Context, topic string, e *events.Event) error
}

// Commands receives what the steward tells the agent on a cluster's controller.
type Commands interface {
	// Receive calls handle for every command to the cluster until the context ends. A command is handled when handle
	// returns; it may come again.
	Receive(ctx context.Context, key cluster.Key, handle func(*events.SlurmCommand)) error
}

// Options say how machines behave. Publisher and Commands are needed.
type Options struct {
	Publisher Publisher
	Commands  Commands
	// Clock is the simulated time; gcp.RealTime when nil.
	Clock gcp.Clock
	// Delays say how long starting takes; nil: DefaultDelays. Timing are Slurm's clocks; nil: slurm.DefaultTiming.
	Delays *Delays
	Timing *slurm.Timing
	// Repeat is how often controllers and login nodes say again that they are up, since nothing else tells of them: a lost
	// report must not matter. A minute when zero.
	Repeat time.Duration
	// Folder holds the state disks of the controllers, one file each. Empty: they are kept in memory.
	Folder string
	// Logger gets what is tried again. slog.Default when nil.
	Logger *slog.Logger
}

// Delays say how long a machine takes from RUNNING to the end of its start-up.
type Delays struct {
	Controller time.Duration
	Login      time.Duration
	Compute    time.Duration
	// Spread is how much longer it takes at most; how much is each instance's own.
	Spread time.Duration
}

// DefaultDelays are of the real machines' order of magnitude.
func DefaultDelays() Delays {
	return Delays{Controller: 40 * time.Second, Login: 30 * time.Second, Compute: 60 * time.Second, Spread: 20 * time.Second}
}

func (o Options) withDefaults() (Options, error) {
	if o.Publisher == nil || o.Commands == nil {
		return o, errors.New("machines need a publisher and commands")
	}
	if o.Clock == nil {
		o.Clock = gcp.RealTime()
	}
	if o.Delays == nil {
		d := DefaultDelays()
		o.Delays = &d
	}
	if o.Timing == nil {
		t := slurm.DefaultTiming()
		o.Timing = &t
	}
	if o.Repeat <= 0 {
		o.Repeat = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}
