package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

// Delivery is what was delivered.
type Delivery struct {
	// Form says how, for logs and counters.
	Form Form
	// Event is the CloudEvent, nil for a Pub/Sub message that carries none.
	Event *ce.Event
	// Message is the Pub/Sub message that was pushed, nil for a CloudEvent that came by itself.
	Message *events.Message
	// Subscription is the full name of the subscription, "" where it was not told.
	Subscription string
	// Attempt is which delivery of the message this is, from 1; 0 where it was not told.
	Attempt int
}

// Form is a form of delivery.
type Form string

// The forms.
const (
	Binary     Form = "binary"
	Structured Form = "structured"
	Wrapped    Form = "push"
	Published  Form = "messagePublished"
	Unwrapped  Form = "unwrapped push"
)

// Data is the event's data, or the message's.
func (d *Delivery) Data() []byte {
	if d.Event != nil {
		return d.Event.Data()
	}
	return d.Message.Data
}

// Type is the CloudEvent's type, or that of a bare Pub/Sub message.
func (d *Delivery) Type() string {
	if d.Event != nil {
		return d.Event.Type()
	}
	return TypeMessagePublished
}

// ID identifies what was delivered, over all redeliveries; "" when nothing does.
func (d *Delivery) ID() string {
	if d.Event != nil {
		return d.Event.ID()
	}
	return d.Message.ID
}

// Func deals with a delivery. It returns nil, Ignored, Refused, or the failure of something that it stands on, after which
// the delivery comes again.
type Func func(ctx context.Context, d *Delivery) error

// IgnoredError says that there is nothing to do for a delivery here. It is acknowledged, and counted by reason.
type IgnoredError struct {
	Reason string // one of few
	Detail string
}

func (e *IgnoredError) Error() string {
	if e.Detail == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Detail
}

// Ignored is an IgnoredError. The reason is one of few fixed words, since it is counted by; what differs goes into the
// detail.
func Ignored(reason, detail string) error { return &IgnoredError{Reason: reason, Detail: detail} }

// RefusedError says that a delivery cannot be understood, today or later. It is quarantined and acknowledged.
type RefusedError struct{ err error }

func (e *RefusedError) Error() string { return e.err.Error() }

// Unwrap gives what was wrong.
func (e *RefusedError) Unwrap() error { return e.err }

// Refused is a RefusedError with that reason.
func Refused(err error) error { return &RefusedError{err: err} }

// Refusedf is a RefusedError with that reason.
func Refusedf(format string, args ...any) error {
	return &RefusedError{err: fmt.Errorf(format, args...)}
}

// Decode reads a delivery as an event of the catalog. What it returns as an error is for a Func to return: kinds that
// are not known are ignored, events that are not as they should be are refused.
func (d *Delivery) Decode() (*events.Event, error) {
	if d.Event == nil {
		return nil, Refusedf("the Pub/Sub message carries no CloudEvent (no ce-type attribute)")
	}
	e, err := events.Decode(*d.Event)
	if errors.Is(err, events.ErrUnknownType) {
		return nil, Ignored("unknown kind", d.Event.Type())
	}
	if err != nil {
		return nil, Refused(err)
	}
	return e, nil
}

// The reasons to ignore an event that every function has.
const (
	// NotOurs: another function takes this kind. Topics are shared.
	NotOurs = "another function's kind"
	// NoCluster: nobody knows the cluster; it may have been deleted since.
	NoCluster = "no such cluster"
)

// Poster posts events to a cluster and sees to it that they are dealt with. With create, a cluster that is not there is
// begun; without, it answers store.ErrNoCluster.
type Poster interface {
	Deliver(ctx context.Context, key cluster.Key, create bool, evs ...store.Event) error
}

// Post posts an event to its cluster. What it returns is for a Func to return. Requests are posted whether or not there is
// a cluster, since each has an operation that must come to an end, be it "there is no such cluster".
func Post(ctx context.Context, to Poster, e *events.Event, now time.Time) error {
	posted, err := events.ToInbox(e, now)
	if err != nil {
		return Refused(err)
	}
	return Concluded(e.Key(), to.Deliver(ctx, e.Key(), events.IsRequest(e.Type), posted))
}

// Concluded makes of a cluster that is not there a reason to ignore what was delivered.
func Concluded(key cluster.Key, err error) error {
	if errors.Is(err, store.ErrNoCluster) {
		return Ignored(NoCluster, key.String())
	}
	return err
}
