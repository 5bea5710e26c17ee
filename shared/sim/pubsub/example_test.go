package pubsub_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"

	client "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/convoke-hpc/convoke/shared/sim/pubsub"
)

// A function that is served in this process gets what is published with the official client.
func Example() {
	ctx := context.Background()
	broker, err := pubsub.New(pubsub.Options{
		Handlers: map[string]http.Handler{
			"functions.local": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				fmt.Println(r.Method, r.URL.Path, len(body) > 0, err)
				w.WriteHeader(http.StatusNoContent)
			}),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := os.Setenv("PUBSUB_EMULATOR_HOST", broker.Addr()); err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.Unsetenv("PUBSUB_EMULATOR_HOST") }()

	c, err := client.NewClient(ctx, "local")
	if err != nil {
		log.Fatal(err)
	}
	topic, err := c.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: "projects/local/topics/slurm-events"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name:       "projects/local/subscriptions/resize",
		Topic:      topic.Name,
		PushConfig: &pubsubpb.PushConfig{PushEndpoint: "http://functions.local/resize"},
	})
	if err != nil {
		log.Fatal(err)
	}
	id, err := c.Publisher(topic.Name).Publish(ctx, &client.Message{Data: []byte("{}")}).Get(ctx)
	fmt.Println("published", id != "", err)

	if err := broker.Idle(ctx); err != nil {
		log.Fatal(err)
	}
	for _, s := range broker.Stats() {
		fmt.Println(s.Name, "acknowledged", s.Acked, "backlog", s.Backlog)
	}
	_ = c.Close()
	fmt.Println("closed", broker.Close(ctx))
	// Unordered output:
	// POST /resize true <nil>
	// published true <nil>
	// projects/local/subscriptions/resize acknowledged 1 backlog 0
	// closed <nil>
}
