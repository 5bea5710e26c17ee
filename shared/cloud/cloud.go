// Package cloud is what the steward needs of Google Cloud: to carry out one intent, and to look. It holds the interface
// alone; package gce carries it out with the official clients. What may not live here: policy, and retries that outlast
// a call. Whoever implements it classifies every failure (cluster.Problem) and gives every mutation the intent's
// request id.
package cloud

import (
	"context"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// Cloud carries out intents and looks.
type Cloud interface {
	// Do carries out one intent, without waiting for long operations: their names are in the outcome. It never panics
	// on an answer it does not understand and never reports a success that it is not sure of: an unclear answer is a
	// problem of class Unknown, and doing it again is harmless. A cluster.Command is not for the cloud.
	Do(ctx context.Context, intent cluster.Intent) cluster.Outcome
	// Observe looks at what the query asks for. What it could not see is missing from the observation and listed in
	// its problems.
	Observe(ctx context.Context, query cluster.Query) cluster.Observation
}
