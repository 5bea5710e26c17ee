package pubsub

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	client "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestMain also is the program that TestKilled kills.
func TestMain(m *testing.M) {
	if file := os.Getenv(childFileEnv); file != "" {
		if err := publishUntilKilled(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	topicName = "projects/test/topics/events"
	deadName  = "projects/test/topics/dead"
	subName   = "projects/test/subscriptions/worker"
	deadSub   = "projects/test/subscriptions/undertaker"

	// patience ends tests that would hang; nothing is expected to take long.
	patience = 60 * time.Second
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// start runs a broker until the test ends.
func start(t testing.TB, o Options) *Broker {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet()
	}
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, b) })
	return b
}

func stop(t testing.TB, b *Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Error(err)
	}
}

func patiently(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// connect is the official client, as any program would use it.
func connect(t testing.TB, b *Broker) *client.Client {
	t.Helper()
	c, err := client.NewClient(context.Background(), "test",
		option.WithEndpoint(b.Addr()),
		option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func createTopic(t testing.TB, c *client.Client, name string) {
	t.Helper()
	if _, err := c.TopicAdminClient.CreateTopic(patiently(t), &pubsubpb.Topic{Name: name}); err != nil {
		t.Fatal(err)
	}
}

func subscribe(t testing.TB, c *client.Client, config *pubsubpb.Subscription) {
	t.Helper()
	if _, err := c.SubscriptionAdminClient.CreateSubscription(patiently(t), config); err != nil {
		t.Fatal(err)
	}
}

// publish publishes to the topic of all tests and returns the ids.
func publish(t testing.TB, c *client.Client, messages ...*client.Message) []string {
	t.Helper()
	p := c.Publisher(topicName)
	defer p.Stop()
	p.EnableMessageOrdering = true
	results := make([]*client.PublishResult, len(messages))
	for i, m := range messages {
		results[i] = p.Publish(patiently(t), m)
	}
	ids := make([]string, len(messages))
	for i, r := range results {
		id, err := r.Get(patiently(t))
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = id
	}
	return ids
}

func texts(words ...string) []*client.Message {
	messages := make([]*client.Message, len(words))
	for i, w := range words {
		messages[i] = &client.Message{Data: []byte(w)}
	}
	return messages
}

// receive gets n messages by streaming and acknowledges them.
func receive(t testing.TB, c *client.Client, subscription string, n int) []*client.Message {
	t.Helper()
	ctx, cancel := context.WithCancel(patiently(t))
	defer cancel()
	got := make(chan *client.Message, n)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Subscriber(subscription).Receive(ctx, func(_ context.Context, m *client.Message) {
			select {
			case got <- m:
				m.Ack()
			default:
				m.Nack()
			}
		})
	}()
	var messages []*client.Message
	for len(messages) < n {
		select {
		case m := <-got:
			messages = append(messages, m)
		case err := <-ended:
			t.Fatalf("receiving ended after %d of %d messages: %v", len(messages), n, err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return messages
}

// until waits for something that happens by itself.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for ctx := patiently(t); !done(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func statsOf(t testing.TB, b *Broker, subscription string) SubscriptionStats {
	t.Helper()
	for _, s := range b.Stats() {
		if s.Name == subscription {
			return s
		}
	}
	t.Fatalf("no statistics for %s", subscription)
	return SubscriptionStats{}
}

func pushTo(endpoint string) *pubsubpb.PushConfig {
	return &pubsubpb.PushConfig{PushEndpoint: endpoint}
}

func answer(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}
