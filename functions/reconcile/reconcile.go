// Package reconcile is the function that keeps time: each tick of Cloud Scheduler wakes every cluster that is due, and a
// wake-up wakes one. What may not live here: when a cluster is due; its own record says so.
package reconcile

import (
	"context"
	"log/slog"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/functions/delivery"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// Steward is what the function wakes.
type Steward interface {
	// Wake steps a cluster if there is anything to do.
	Wake(ctx context.Context, key cluster.Key) error
	// Tick wakes every cluster that is due and says how many it took on.
	Tick(ctx context.Context) (woken int, err error)
}

// New makes the function.
func New(steward Steward, log *slog.Logger) delivery.Func {
	return func(ctx context.Context, d *delivery.Delivery) error {
		if d.Event == nil {
			return tick(ctx, steward, log) // a message on the topic of ticks is one, whatever it says
		}
		e, err := d.Decode()
		if err != nil {
			return err
		}
		switch p := e.Payload.(type) {
		case *events.Tick:
			return tick(ctx, steward, log)
		case *events.ClusterWake:
			return delivery.Concluded(p.Cluster, steward.Wake(ctx, p.Cluster))
		}
		return delivery.Ignored(delivery.NotOurs, e.Type)
	}
}

// tick asks for redelivery only when no cluster could be looked at. A tick that got some of them done is over: the next
// one comes within a minute and takes on those that failed, so that a redelivered one would only add to it.
func tick(ctx context.Context, steward Steward, log *slog.Logger) error {
	woken, err := steward.Tick(ctx)
	if woken == 0 {
		return err
	}
	if err != nil {
		log.ErrorContext(ctx, "a tick could not look at every cluster that is due; the next one will", "woken", woken, "error", err)
	}
	return nil
}
