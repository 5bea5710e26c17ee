// Package losses reads deliveries that may tell of the loss of an instance: entries of the audit log, by Eventarc or through
// a log sink, and events of the catalog. It exists since two functions take them, each its own kinds. What may not live
// here: which function takes which.
package losses

import (
	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/events/auditlog"
	"github.com/convoke-hpc/convoke/functions/delivery"
)

// Read is the event that was delivered. Its error is one for a delivery.Func to return.
func Read(d *delivery.Delivery) (*events.Event, error) {
	if d.Event != nil && d.Type() != auditlog.Type {
		return d.Decode()
	}
	// A message that carries no CloudEvent is a log sink's: its data is the entry.
	entry, err := auditlog.Read(d.Data())
	if err != nil {
		return nil, delivery.Refused(err)
	}
	if entry.Lost == nil {
		return nil, delivery.Ignored(entry.Ignored, entry.Detail)
	}
	return entry.Lost, nil
}
