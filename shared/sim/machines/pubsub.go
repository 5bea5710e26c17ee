package machines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// PubSub is a Publisher and Commands over Pub/Sub, with the official client.
type PubSub struct {
	client *pubsub.Client
	logger *slog.Logger

	mu         sync.Mutex
	publishers map[string]*pubsub.Publisher
}

// NewPubSub works with a client that stays the caller's. The logger is told of commands that cannot be read.
func NewPubSub(client *pubsub.Client, logger *slog.Logger) *PubSub {
	return &PubSub{client: client, logger: logger, publishers: map[string]*pubsub.Publisher{}}
}

// Close sends what is still on its way.
func (p *PubSub) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for topic, publisher := range p.publishers {
		publisher.Stop()
		delete(p.publishers, topic)
	}
}

// Publish implements Publisher: one message in the binary mode of the CloudEvents binding. It returns when Pub/Sub has it.
func (p *PubSub) Publish(ctx context.Context, topic string, e *events.Event) error {
	m, err := events.ToMessage(e)
	if err != nil {
		return err
	}
	if _, err := p.publisher(topic).Publish(ctx, &pubsub.Message{Data: m.Data, Attributes: m.Attributes}).Get(ctx); err != nil {
		return fmt.Errorf("publishing to %s, %w", topic, err)
	}
	return nil
}

func (p *PubSub) publisher(topic string) *pubsub.Publisher {
	p.mu.Lock()
	defer p.mu.Unlock()
	publisher := p.publishers[topic]
	if publisher == nil {
		publisher = p.client.Publisher(topic)
		publisher.PublishSettings.DelayThreshold = time.Millisecond // every caller waits for its own message
		p.publishers[topic] = publisher
	}
	return publisher
}

func (p *PubSub) subscription(key cluster.Key) string {
	return fmt.Sprintf("projects/%s/subscriptions/%s", p.client.Project(), CommandSubscription(key))
}

// CommandSubscription is the id of a controller's own subscription of the commands' topic.
func CommandSubscription(key cluster.Key) string {
	return events.TopicCommands + "-" + key.ID + "-" + cluster.Hash("commands", key.Doc())
}

const (
	// commandRetention is longer than any command is good for.
	commandRetention = time.Hour
	// commandDeadline is how soon a command comes again that was on its way to a controller which has gone.
	commandDeadline = 10 * time.Second
)

// Receive implements Commands: it makes the cluster's subscription unless it is there, and receives one command at a time.
func (p *PubSub) Receive(ctx context.Context, key cluster.Key, handle func(*events.SlurmCommand)) error {
	name := p.subscription(key)
	if err := p.subscribe(ctx, key, name); err != nil {
		return err
	}
	subscriber := p.client.Subscriber(name)
	subscriber.ReceiveSettings.MaxOutstandingMessages = 1 // as they come: a command is a few scontrol calls
	subscriber.ReceiveSettings.NumGoroutines = 1
	subscriber.ReceiveSettings.MaxDurationPerAckExtension = commandDeadline
	err := subscriber.Receive(ctx, func(ctx context.Context, m *pubsub.Message) {
		// What cannot be read today cannot be read tomorrow either: nothing is ever sent back.
		defer m.Ack()
		cmd, err := command(m)
		if err != nil {
			p.logger.ErrorContext(ctx, "a command is dropped", "cluster", key.ID, "message", m.ID, "error", err)
			return
		}
		// An emulator that ignores filters brings other clusters' commands too.
		if cmd.Cluster == key {
			handle(cmd)
		}
	})
	if err != nil {
		return fmt.Errorf("receiving from %s, %w", name, err)
	}
	return nil
}

// subscribe makes a cluster's subscription of the commands, unless it is there.
func (p *PubSub) subscribe(ctx context.Context, key cluster.Key, name string) error {
	_, err := p.client.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name:                     name,
		Topic:                    fmt.Sprintf("projects/%s/topics/%s", p.client.Project(), events.TopicCommands),
		Filter:                   fmt.Sprintf("attributes.%s = %q", events.AttributeCluster, key.Doc()),
		AckDeadlineSeconds:       int32(commandDeadline / time.Second),
		MessageRetentionDuration: durationpb.New(commandRetention),
	})
	if err != nil && status.Code(err) != codes.AlreadyExists {
		return fmt.Errorf("making subscription %s, %w", name, err)
	}
	return nil
}

// command is the command that a message carries.
func command(m *pubsub.Message) (*events.SlurmCommand, error) {
	raw, carried, err := events.FromMessage(events.Message{
		ID: m.ID, Published: m.PublishTime, Data: m.Data, Attributes: m.Attributes, OrderingKey: m.OrderingKey,
	}, events.TopicCommands)
	if err != nil {
		return nil, err
	}
	if !carried {
		return nil, errors.New("the message carries no CloudEvent")
	}
	e, err := events.Decode(raw)
	if err != nil {
		return nil, err
	}
	cmd, ok := e.Payload.(*events.SlurmCommand)
	if !ok {
		return nil, fmt.Errorf("%s is not a command", e.Type)
	}
	return cmd, nil
}
