package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/convoke-hpc/convoke/events"
	broker "github.com/convoke-hpc/convoke/shared/sim/pubsub"
)

// functionsHost is the host whose push endpoints the broker serves without a socket.
const functionsHost = "functions.local"

// bus is Pub/Sub: a broker in this process, or Google's emulator.
type bus struct {
	broker *broker.Broker // nil with the emulator
	addr   string
	client *pubsub.Client
}

// openBus starts the broker, or connects to the emulator, and has all topics and subscriptions made. In this process the
// functions are called directly; the emulator reaches them at url.
func openBus(ctx context.Context, o Options, functions http.Handler, url string) (*bus, error) {
	b := &bus{addr: o.PubSubEmulator}
	base := url
	if b.addr == "" {
		var err error
		b.broker, err = broker.New(broker.Options{
			Addr: o.PubSubAddr, File: filepath.Join(o.DataDir, "pubsub.db"), Handlers: map[string]http.Handler{functionsHost: functions},
			MaxPushes: maxPushes, Logger: o.Logger,
		})
		if err != nil {
			return nil, err
		}
		b.addr, base = b.broker.Addr(), "http://"+functionsHost
	} else if err := answers(ctx, b.addr); err != nil {
		return nil, fmt.Errorf("%s is %s, and nothing answers there (unset it to use the broker of this process), %w", EnvPubSub, b.addr, err)
	}
	var client *pubsub.Client
	err := withEnv(EnvPubSub, b.addr, func() (err error) {
		client, err = pubsub.NewClient(ctx, o.Project)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connecting to Pub/Sub, %w", err), b.abandon(ctx))
	}
	b.client = client
	if err := b.set(ctx, o, base); err != nil {
		return nil, errors.Join(err, b.abandon(ctx))
	}
	return b, nil
}

var environment sync.Mutex

// withEnv does something with a variable of the environment set. Google's clients look there for emulators when they are made,
// whatever else they are told: in a shell that has exported the address of one deployment, another would talk to it.
func withEnv(name, value string, do func() error) error {
	environment.Lock()
	defer environment.Unlock()
	old, was := os.LookupEnv(name)
	if err := os.Setenv(name, value); err != nil {
		return err
	}
	err := do()
	if was {
		return errors.Join(err, os.Setenv(name, old))
	}
	return errors.Join(err, os.Unsetenv(name))
}

// maxPushes is how many pushes of one subscription are under way at once. Those of one cluster wait for each other's disk
// writes in the store, which takes them together.
const maxPushes = 64

// answers tells within seconds whether something listens.
func answers(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return c.Close()
}

// set makes the topics and subscriptions, and brings those that are there already up to date.
func (b *bus) set(ctx context.Context, o Options, base string) error {
	for _, t := range topics(o.Project) {
		if _, err := b.client.TopicAdminClient.CreateTopic(ctx, t); err != nil && status.Code(err) != codes.AlreadyExists {
			return fmt.Errorf("making %s, %w", t.GetName(), err)
		}
	}
	for _, s := range subscriptions(o.Project, base, o.Pace) {
		_, err := b.client.SubscriptionAdminClient.CreateSubscription(ctx, s)
		if status.Code(err) == codes.AlreadyExists && s.GetPushConfig() != nil {
			_, err = b.client.SubscriptionAdminClient.UpdateSubscription(ctx, &pubsubpb.UpdateSubscriptionRequest{
				Subscription: s, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"push_config", "retry_policy"}},
			})
		}
		if err != nil && status.Code(err) != codes.AlreadyExists {
			return fmt.Errorf("making %s, %w", s.GetName(), err)
		}
	}
	return nil
}

// ticks is a publisher of the scheduler's topic.
func (b *bus) ticks() *pubsub.Publisher { return b.client.Publisher(events.TopicTicks) }

// drain stops pushing, and waits for the pushes under way, while what they publish is still taken. What is left in the
// broker stays in its file.
func (b *bus) drain(ctx context.Context) error {
	if b.broker == nil {
		return nil
	}
	return b.broker.Close(ctx)
}

func (b *bus) disconnect() error {
	if b.client == nil {
		return nil
	}
	return ignoreClosing(b.client.Close())
}

// abandon ends a bus that could not be opened.
func (b *bus) abandon(ctx context.Context) error { return errors.Join(b.drain(ctx), b.disconnect()) }

// ignoreClosing leaves out that a connection was closed before by the other side.
func ignoreClosing(err error) error {
	if status.Code(err) == codes.Canceled {
		return nil
	}
	return err
}

// publish sends one message and returns when Pub/Sub has it.
func publish(ctx context.Context, p *pubsub.Publisher, data []byte, attributes map[string]string) error {
	_, err := p.Publish(ctx, &pubsub.Message{Data: data, Attributes: attributes}).Get(ctx)
	return err
}

// Publish sends one message to a topic, as anybody may with Pub/Sub's client, and returns when Pub/Sub has it.
func (l *Local) Publish(ctx context.Context, topic string, data []byte, attributes map[string]string) error {
	p := l.bus.client.Publisher(topic)
	defer p.Stop()
	if err := publish(ctx, p, data, attributes); err != nil {
		return fmt.Errorf("publishing to %s, %w", topic, err)
	}
	return nil
}
