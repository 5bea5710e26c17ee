package local

import (
	"context"
	"fmt"
	"slices"
	"strings"

	broker "github.com/convoke-hpc/convoke/shared/sim/pubsub"
)

// Status is what can be said of the deployment as a whole.
type Status struct {
	Project  string `json:"project"`
	Location string `json:"location"` // of requests that name none
	Pace     string `json:"pace"`
	PubSub   string `json:"pubsub"` // the address of its gRPC API
	// Subscriptions are those of the broker; none with Google's emulator.
	Subscriptions []broker.SubscriptionStats `json:"subscriptions"`
	// DeadLetters are the messages that nobody could be made to take, Quarantined those that could not be understood.
	DeadLetters int `json:"deadLetters"`
	Quarantined int `json:"quarantined"`
	// Events are how many messages the functions took since the process started.
	Events int64 `json:"events"`
	// Calls are how many requests the cloud had since the process started, Machines how many there are in it.
	Calls    int `json:"calls"`
	Machines int `json:"machines"`
	// Leftovers is everything that exists in the cloud, but for the Filestore instances that were there from the start.
	Leftovers []string `json:"leftovers"`
}

// maxQuarantined bounds the count.
const maxQuarantined = 1000

// Status is the deployment's state now.
func (l *Local) Status(ctx context.Context) (Status, error) {
	s := Status{Project: l.options.Project, Location: l.options.Location, Pace: l.options.Pace.Name, PubSub: l.PubSubAddr(), Leftovers: []string{}}
	q, err := l.store.Quarantined(ctx, maxQuarantined)
	if err != nil {
		return s, fmt.Errorf("reading the quarantine, %w", err)
	}
	s.Quarantined = len(q)
	sum, err := l.world.cloud.Summarize()
	if err != nil {
		return s, fmt.Errorf("looking into the simulated cloud, %w", err)
	}
	s.Machines = len(sum.Instances)
	sum.Filestores = slices.DeleteFunc(sum.Filestores, func(name string) bool { return slices.Contains(l.options.filestoreKeys(), name) })
	s.Leftovers = append(s.Leftovers, sum.Leftovers()...)
	for _, n := range l.world.cloud.Counts() {
		s.Calls += n
	}
	if l.bus.broker == nil {
		return s, nil
	}
	for _, sub := range l.bus.broker.Stats() {
		s.Subscriptions = append(s.Subscriptions, sub)
		if strings.HasSuffix(sub.Name, "/"+topicDeadLetters) {
			s.DeadLetters = sub.Backlog
		}
		if sub.PushEndpoint != "" {
			s.Events += sub.Acked
		}
	}
	return s, nil
}
