// Package preemption is the function that hears of capacity taken away: Compute Engine's audit log, by Eventarc and through
// a log sink, and what machines were told by their metadata server. Host errors are package hardware's. What may not live
// here: whether an instance is really gone; an event is a reason to look.
package preemption

import (
	"context"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/functions/delivery"
	"github.com/convoke-hpc/convoke/functions/internal/losses"
)

// New makes the function.
func New(steward delivery.Poster, now func() time.Time) delivery.Func {
	return func(ctx context.Context, d *delivery.Delivery) error {
		e, err := losses.Read(d)
		if err != nil {
			return err
		}
		switch p := e.Payload.(type) {
		case *events.InstanceLost:
			if p.HostError {
				return delivery.Ignored(delivery.NotOurs, p.Method)
			}
		case *events.NodeNotice:
		default:
			return delivery.Ignored(delivery.NotOurs, e.Type)
		}
		return delivery.Post(ctx, steward, e, now())
	}
}
