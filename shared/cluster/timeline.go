package cluster

import "time"

// Entry is one line of a cluster's timeline: what was decided, refused, waited for or failed, and why, in words that a
// person can act on.
type Entry struct {
	At time.Time `json:"at"`
	// Kind groups entries for filters: cluster, resource, allocation, node, job, breaker, orphan, request.
	Kind string `json:"kind"`
	// About names the thing: a node, an allocation, a pool, a resource. Empty for the cluster itself.
	About string `json:"about,omitempty"`
	// Text is a sentence without a final stop.
	Text string `json:"text"`
	// Problem is there when something failed.
	Problem *Problem `json:"problem,omitempty"`
}

// Verb is what an operation does to its cluster.
type Verb string

// The verbs.
const (
	VerbCreate Verb = "create"
	VerbUpdate Verb = "update"
	VerbDelete Verb = "delete"
	VerbReport Verb = "reportFaultyNodes"
)

// Operation is a long-running operation: a request of a person, followed to its end.
type Operation struct {
	ID       string    `json:"id"`
	Key      Key       `json:"key"`
	Verb     Verb      `json:"verb"`
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
	Progress string    `json:"progress,omitempty"`
	Done     bool      `json:"done,omitempty"`
	// Error is set when it is done and failed. Faults are the single faults of a refused spec.
	Error  *Problem `json:"error,omitempty"`
	Faults []string `json:"faults,omitempty"`
}
