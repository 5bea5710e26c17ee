package wiring

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"github.com/google/uuid"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// publisher publishes events of the catalog. It is the steward's Commander and Waker.
type publisher struct {
	now    func() time.Time
	topics map[string]*pubsub.Publisher
}

func newPublisher(client *pubsub.Client, now func() time.Time) *publisher {
	p := &publisher{now: now, topics: map[string]*pubsub.Publisher{}}
	for _, topic := range []string{events.TopicRequests, events.TopicTicks, events.TopicCommands} {
		t := client.Publisher(topic)
		t.PublishSettings.DelayThreshold = time.Millisecond // every caller waits for its own message
		// Commands of one cluster are to reach its agent as they were decided.
		t.EnableMessageOrdering = topic == events.TopicCommands
		p.topics[topic] = t
	}
	return p
}

func (p *publisher) close() error {
	for _, t := range p.topics {
		t.Stop()
	}
	return nil
}

// publish returns when Pub/Sub has the event.
func (p *publisher) publish(ctx context.Context, topic string, e *events.Event, orderingKey string) error {
	m, err := events.ToMessage(e)
	if err != nil {
		return err
	}
	t := p.topics[topic]
	if _, err := t.Publish(ctx, &pubsub.Message{Data: m.Data, Attributes: m.Attributes, OrderingKey: orderingKey}).Get(ctx); err != nil {
		if orderingKey != "" {
			// After a failure the client holds back everything of the key until it is told to go on. What failed is decided
			// again from the records, so nothing is owed to it.
			t.ResumePublish(orderingKey)
		}
		return fmt.Errorf("publishing %s to topic %s, %w", e.Type, topic, err)
	}
	return nil
}

const sourceSteward = "//convoke/steward"

// Command implements steward.Commander. A command that is sent again is another event about the same command: the agent
// tells commands apart by their own id.
func (p *publisher) Command(ctx context.Context, c *events.SlurmCommand) error {
	return p.publish(ctx, events.TopicCommands, &events.Event{
		ID: c.ID + "~" + strconv.FormatInt(p.now().UnixMilli(), 10), Source: sourceSteward, Type: events.TypeSlurmCommand,
		Time: cluster.Moment(c.Time), Payload: c,
	}, c.Cluster.Doc())
}

// Wake implements steward.Waker.
func (p *publisher) Wake(ctx context.Context, key cluster.Key) error {
	return p.publish(ctx, events.TopicTicks, &events.Event{
		ID: uuid.NewString(), Source: sourceSteward, Type: events.TypeClusterWake, Time: cluster.Moment(p.now()),
		Payload: &events.ClusterWake{Cluster: key},
	}, "")
}

// requests is the API's Publisher.
type requests struct{ p *publisher }

// Publish implements api.Publisher.
func (r requests) Publish(ctx context.Context, e *events.Event) error {
	return r.p.publish(ctx, events.TopicRequests, e, "")
}
