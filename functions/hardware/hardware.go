// Package hardware is the function that hears of broken machines: what nodes report of their own health, and host errors in
// Compute Engine's audit log. What may not live here: what a finding means for a node and its job.
package hardware

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
		case *events.NodeHealth:
		case *events.InstanceLost:
			if !p.HostError {
				return delivery.Ignored(delivery.NotOurs, p.Method)
			}
		default:
			return delivery.Ignored(delivery.NotOurs, e.Type)
		}
		return delivery.Post(ctx, steward, e, now())
	}
}
