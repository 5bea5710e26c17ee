// Package resize is the function that hears Slurm: nodes that are wanted, given back or did not come, what became of
// commands, snapshots of all that Slurm holds, and machines that have started. What may not live here: what follows from
// any of it.
package resize

import (
	"context"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/functions/delivery"
)

// Steward is what the function delivers to.
type Steward interface {
	delivery.Poster
	// Snapshot keeps a snapshot and, if it says something new, wakes its cluster.
	Snapshot(ctx context.Context, s *events.SlurmSnapshot) error
}

// New makes the function.
func New(steward Steward, now func() time.Time) delivery.Func {
	return func(ctx context.Context, d *delivery.Delivery) error {
		e, err := d.Decode()
		if err != nil {
			return err
		}
		switch p := e.Payload.(type) {
		case *events.NodesResume, *events.NodesSuspend, *events.NodesResumeFailed, *events.CommandDone, *events.NodeBoot:
			return delivery.Post(ctx, steward, e, now())
		case *events.SlurmSnapshot:
			return snapshot(ctx, steward, p)
		}
		return delivery.Ignored(delivery.NotOurs, e.Type)
	}
}

// snapshot sees to it that what is kept can be read: a snapshot that cannot would stop its cluster until a better one comes.
func snapshot(ctx context.Context, steward Steward, s *events.SlurmSnapshot) error {
	if _, err := s.Model(); err != nil {
		return delivery.Refused(err)
	}
	return delivery.Concluded(s.Cluster, steward.Snapshot(ctx, s))
}
