// Package clusters is the function of the topic cluster-requests: create, update, delete, report a fault. It takes typed
// events, and bare specs with no more than the message's attributes around them. What may not live here: whether a
// request can be met. A spec with faults is delivered as it is, and refused in the operation, where whoever asked will
// look.
package clusters

import (
	"context"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/functions/delivery"
	"github.com/convoke-hpc/convoke/functions/internal/request"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// Config is what the function is made of.
type Config struct {
	Steward delivery.Poster
	// Project is the one project whose clusters are made; empty: any.
	Project string
	// Defaults are the project and location of a bare spec that names none.
	Defaults cluster.Key
	Now      func() time.Time
}

// New makes the function.
func New(c Config) delivery.Func {
	return func(ctx context.Context, d *delivery.Delivery) error {
		e, err := c.read(d)
		if err != nil {
			return err
		}
		if p := e.Key().Project; c.Project != "" && p != c.Project {
			return delivery.Refusedf("the request is for project %q; this service makes clusters in project %s alone", p, c.Project)
		}
		return delivery.Post(ctx, c.Steward, e, c.Now())
	}
}

func (c Config) read(d *delivery.Delivery) (*events.Event, error) {
	if d.Event == nil {
		e, err := request.FromMessage(*d.Message, c.Defaults)
		if err != nil {
			return nil, delivery.Refused(err)
		}
		return e, nil
	}
	e, err := d.Decode()
	if err != nil {
		return nil, err
	}
	if !events.IsRequest(e.Type) {
		return nil, delivery.Ignored(delivery.NotOurs, e.Type)
	}
	return e, nil
}
