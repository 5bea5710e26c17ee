package pubsub

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	client "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

func wantStatus(t *testing.T, err error, code codes.Code, parts ...string) {
	t.Helper()
	if status.Code(err) != code {
		t.Fatalf("error is %v, want %v", err, code)
	}
	for _, part := range parts {
		if !strings.Contains(status.Convert(err).Message(), part) {
			t.Errorf("error is %v, want one with %q", err, part)
		}
	}
}

func TestTopics(t *testing.T) {
	c := connect(t, start(t, Options{}))
	ctx := patiently(t)
	admin := c.TopicAdminClient

	_, err := admin.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: topicName})
	wantStatus(t, err, codes.NotFound, topicName)
	createTopic(t, c, topicName)
	_, err = admin.CreateTopic(ctx, &pubsubpb.Topic{Name: topicName})
	wantStatus(t, err, codes.AlreadyExists, topicName)
	_, err = admin.CreateTopic(ctx, &pubsubpb.Topic{Name: "projects/test/topics/goog-x", MessageRetentionDuration: durationpb.New(time.Second)})
	wantStatus(t, err, codes.InvalidArgument, "name: ", "not with goog", "message_retention_duration: is 1s")
	_, err = admin.CreateTopic(ctx, &pubsubpb.Topic{Name: "events"})
	wantStatus(t, err, codes.InvalidArgument, "projects/PROJECT/topics/ID")
	_, err = admin.CreateTopic(ctx, &pubsubpb.Topic{Name: deadName, SchemaSettings: &pubsubpb.SchemaSettings{}})
	wantStatus(t, err, codes.Unimplemented, "schemas")

	updated, err := admin.UpdateTopic(ctx, &pubsubpb.UpdateTopicRequest{
		Topic:      &pubsubpb.Topic{Name: topicName, Labels: map[string]string{"team": "ml"}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}},
	})
	if err != nil || updated.Labels["team"] != "ml" {
		t.Fatalf("updated to %v, %v", updated, err)
	}
	_, err = admin.UpdateTopic(ctx, &pubsubpb.UpdateTopicRequest{
		Topic: &pubsubpb.Topic{Name: topicName}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}},
	})
	wantStatus(t, err, codes.InvalidArgument, `"name" cannot be updated`)

	createTopic(t, c, "projects/other/topics/elsewhere")
	for i := range 5 {
		createTopic(t, c, fmt.Sprintf("projects/test/topics/more-%d", i))
	}
	var names []string
	topics := admin.ListTopics(ctx, &pubsubpb.ListTopicsRequest{Project: "projects/test", PageSize: 2})
	for {
		topic, err := topics.Next()
		if err == iterator.Done { //nolint:errorlint // the iterator's contract
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, topic.Name)
	}
	if len(names) != 6 || !slices.IsSorted(names) {
		t.Fatalf("listed %v", names)
	}

	// A subscription outlives its topic, with its backlog.
	subscribe(t, c, &pubsubpb.Subscription{Name: subName, Topic: topicName})
	subs := admin.ListTopicSubscriptions(ctx, &pubsubpb.ListTopicSubscriptionsRequest{Topic: topicName})
	if name, err := subs.Next(); err != nil || name != subName {
		t.Fatalf("subscription %q, %v", name, err)
	}
	publish(t, c, texts("kept")...)
	if err := admin.DeleteTopic(ctx, &pubsubpb.DeleteTopicRequest{Topic: topicName}); err != nil {
		t.Fatal(err)
	}
	createTopic(t, c, topicName)
	publish(t, c, texts("not for the old subscription")...)
	sub, err := c.SubscriptionAdminClient.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: subName})
	if err != nil || sub.Topic != "_deleted-topic_" {
		t.Fatalf("subscription %v, %v", sub, err)
	}
	if got := receive(t, c, subName, 1); string(got[0].Data) != "kept" {
		t.Fatalf("received %q", got[0].Data)
	}
	wantStatus(t, admin.DeleteTopic(ctx, &pubsubpb.DeleteTopicRequest{Topic: deadName}), codes.NotFound)
}

func TestSubscriptions(t *testing.T) {
	b := start(t, Options{})
	c := connect(t, b)
	ctx := patiently(t)
	admin := c.SubscriptionAdminClient
	createTopic(t, c, topicName)

	_, err := admin.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name:                     "projects/test/subscriptions/x",
		Topic:                    "events",
		AckDeadlineSeconds:       5,
		PushConfig:               pushTo("localhost/push"),
		Filter:                   "attributes.a",
		MessageRetentionDuration: durationpb.New(time.Hour * 24 * 60),
		RetryPolicy:              &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Hour)},
		DeadLetterPolicy:         &pubsubpb.DeadLetterPolicy{MaxDeliveryAttempts: 3},
	})
	wantStatus(t, err, codes.InvalidArgument, "name: ", "topic: ", "ack_deadline_seconds: is 5s, 10s to 10m0s are allowed",
		"push_config.push_endpoint: ", "filter: ", "message_retention_duration: ", "retry_policy.minimum_backoff: ",
		"retry_policy: minimum_backoff", "dead_letter_policy.dead_letter_topic: ", "dead_letter_policy.max_delivery_attempts: is 3")
	_, err = admin.CreateSubscription(ctx, &pubsubpb.Subscription{Name: subName, Topic: deadName})
	wantStatus(t, err, codes.NotFound, deadName)
	_, err = admin.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name: subName, Topic: topicName, DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadName},
	})
	wantStatus(t, err, codes.NotFound, deadName)
	_, err = admin.CreateSubscription(ctx, &pubsubpb.Subscription{Name: subName, Topic: topicName, EnableExactlyOnceDelivery: true})
	wantStatus(t, err, codes.Unimplemented, "exactly-once")

	config := &pubsubpb.Subscription{Name: subName, Topic: topicName, RetryPolicy: &pubsubpb.RetryPolicy{}}
	created, err := admin.CreateSubscription(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	if created.AckDeadlineSeconds != 10 || created.RetryPolicy.MinimumBackoff.AsDuration() != 10*time.Second ||
		created.RetryPolicy.MaximumBackoff.AsDuration() != 10*time.Minute || created.State != pubsubpb.Subscription_ACTIVE {
		t.Fatalf("defaults of %v", created)
	}
	_, err = admin.CreateSubscription(ctx, config)
	wantStatus(t, err, codes.AlreadyExists, subName)

	_, err = admin.UpdateSubscription(ctx, &pubsubpb.UpdateSubscriptionRequest{
		Subscription: &pubsubpb.Subscription{Name: subName, Filter: "attributes:a"},
		UpdateMask:   &fieldmaskpb.FieldMask{Paths: []string{"filter", "topic"}},
	})
	wantStatus(t, err, codes.InvalidArgument, `"filter" cannot be updated`, `"topic" cannot be updated`)
	updated, err := admin.UpdateSubscription(ctx, &pubsubpb.UpdateSubscriptionRequest{
		Subscription: &pubsubpb.Subscription{Name: subName, AckDeadlineSeconds: 60, Labels: map[string]string{"not": "this"}},
		UpdateMask:   &fieldmaskpb.FieldMask{Paths: []string{"ack_deadline_seconds", "retry_policy"}},
	})
	if err != nil || updated.AckDeadlineSeconds != 60 || updated.RetryPolicy != nil || len(updated.Labels) > 0 {
		t.Fatalf("updated to %v, %v", updated, err)
	}

	listed, err := admin.ListSubscriptions(ctx, &pubsubpb.ListSubscriptionsRequest{Project: "projects/test"}).Next()
	if err != nil || listed.Name != subName {
		t.Fatalf("listed %v, %v", listed, err)
	}
	if err := admin.DeleteSubscription(ctx, &pubsubpb.DeleteSubscriptionRequest{Subscription: subName}); err != nil {
		t.Fatal(err)
	}
	_, err = admin.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: subName})
	wantStatus(t, err, codes.NotFound, subName)
	publish(t, c, texts("to nobody")...)
	if n := len(b.Stats()); n != 0 {
		t.Fatalf("%d subscriptions", n)
	}
}

func TestPublishLimits(t *testing.T) {
	c := connect(t, start(t, Options{}))
	createTopic(t, c, topicName)
	many := map[string]string{}
	for i := range 101 {
		many[fmt.Sprint(i)] = ""
	}
	tests := []struct {
		name     string
		topic    string
		messages []*pubsubpb.PubsubMessage
		code     codes.Code
		want     string
	}{
		{"no topic", deadName, []*pubsubpb.PubsubMessage{{Data: []byte("x")}}, codes.NotFound, deadName},
		{"bad topic", "events", []*pubsubpb.PubsubMessage{{Data: []byte("x")}}, codes.InvalidArgument, "topic: "},
		{"nothing", topicName, nil, codes.InvalidArgument, "messages: there are 0"},
		{"empty message", topicName, []*pubsubpb.PubsubMessage{{OrderingKey: "k"}}, codes.InvalidArgument, "messages[0]: has neither data nor attributes"},
		{"too large", topicName, []*pubsubpb.PubsubMessage{{Data: bytes.Repeat([]byte("x"), 10_000_001)}}, codes.InvalidArgument, "at most 10000000"},
		{"too many attributes", topicName, []*pubsubpb.PubsubMessage{{Attributes: many}}, codes.InvalidArgument, "are 101, at most 100"},
		{"long key", topicName, []*pubsubpb.PubsubMessage{{Attributes: map[string]string{strings.Repeat("k", 257): ""}}}, codes.InvalidArgument, "has 257 bytes"},
		{"empty key", topicName, []*pubsubpb.PubsubMessage{{Attributes: map[string]string{"": "v"}}}, codes.InvalidArgument, "has 0 bytes"},
		{"long value", topicName, []*pubsubpb.PubsubMessage{{Attributes: map[string]string{"k": strings.Repeat("v", 1025)}}}, codes.InvalidArgument, "has 1025 bytes"},
		{"long ordering key", topicName, []*pubsubpb.PubsubMessage{{Data: []byte("x"), OrderingKey: strings.Repeat("k", 1025)}}, codes.InvalidArgument, "ordering_key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := c.TopicAdminClient.Publish(patiently(t), &pubsubpb.PublishRequest{Topic: tt.topic, Messages: tt.messages})
			wantStatus(t, err, tt.code, tt.want)
		})
	}
	err := checkPublish(&pubsubpb.PublishRequest{
		Topic: topicName, Messages: []*pubsubpb.PubsubMessage{{Data: bytes.Repeat([]byte("x"), 9_999_900)}},
	})
	if err != nil {
		t.Errorf("almost too large: %v", err)
	}
}

// TestEmulatorHost: a program that only sets the environment variable reaches the broker, and gets what was published,
// with everything that belongs to it.
func TestEmulatorHost(t *testing.T) {
	b := start(t, Options{})
	t.Setenv("PUBSUB_EMULATOR_HOST", b.Addr())
	c, err := client.NewClient(patiently(t), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	createTopic(t, c, topicName)
	subscribe(t, c, &pubsubpb.Subscription{Name: subName, Topic: topicName})
	before := time.Now().Add(-time.Second)
	published := publish(t, c,
		&client.Message{Data: []byte("one"), Attributes: map[string]string{"k": "v"}, OrderingKey: "o"},
		&client.Message{Attributes: map[string]string{"only": "attributes"}, OrderingKey: "o"},
	)
	if published[0] >= published[1] {
		t.Errorf("ids %v do not rise", published)
	}
	got := receive(t, c, subName, 2)
	slices.SortFunc(got, func(a, b *client.Message) int { return strings.Compare(a.ID, b.ID) })
	m := got[0]
	if m.ID != published[0] || string(m.Data) != "one" || !maps.Equal(m.Attributes, map[string]string{"k": "v"}) ||
		m.OrderingKey != "o" || m.PublishTime.Before(before) || m.DeliveryAttempt != nil {
		t.Errorf("received %+v", m)
	}
	if s := statsOf(t, b, subName); s.Backlog != 0 || s.Acked != 2 || !s.OldestUnacked.IsZero() {
		t.Errorf("statistics %+v", s)
	}
}

func TestFilteredSubscription(t *testing.T) {
	b := start(t, Options{})
	c := connect(t, b)
	createTopic(t, c, topicName)
	subscribe(t, c, &pubsubpb.Subscription{Name: subName, Topic: topicName, Filter: `attributes.kind = "node"`})
	publish(t, c,
		&client.Message{Data: []byte("1"), Attributes: map[string]string{"kind": "pool"}},
		&client.Message{Data: []byte("2")},
		&client.Message{Data: []byte("3"), Attributes: map[string]string{"kind": "node"}},
	)
	if got := receive(t, c, subName, 1); string(got[0].Data) != "3" {
		t.Fatalf("received %q", got[0].Data)
	}
	if s := statsOf(t, b, subName); s.Delivered != 1 || s.Backlog != 0 {
		t.Fatalf("statistics %+v", s)
	}
}

// TestOrderedStreamingPull: when a message is refused, all later ones of its key come again after it, those included
// that were acknowledged meanwhile. So each message is seen for the last time in the order of publication.
func TestOrderedStreamingPull(t *testing.T) {
	b := start(t, Options{})
	c := connect(t, b)
	createTopic(t, c, topicName)
	subscribe(t, c, &pubsubpb.Subscription{Name: subName, Topic: topicName, EnableMessageOrdering: true})
	const keys, each = 5, 20
	var messages []*client.Message
	for i := range keys * each {
		messages = append(messages, &client.Message{Data: fmt.Appendf(nil, "%03d", i), OrderingKey: fmt.Sprint("k", i%keys)})
	}
	publish(t, c, messages...)

	ctx, cancel := context.WithCancel(patiently(t))
	defer cancel()
	go func() {
		defer cancel()
		until(t, "the backlog", func() bool { return ctx.Err() != nil || statsOf(t, b, subName).Backlog == 0 })
	}()
	var mu sync.Mutex
	seen := map[string][]string{} // by key
	refused := map[string]bool{}  // each key's third message is refused once
	err := c.Subscriber(subName).Receive(ctx, func(_ context.Context, m *client.Message) {
		mu.Lock()
		defer mu.Unlock()
		data := string(m.Data)
		if data >= "010" && data < "015" && !refused[data] {
			refused[data] = true
			m.Nack()
			return
		}
		seen[m.OrderingKey] = append(seen[m.OrderingKey], data)
		m.Ack()
	})
	if err != nil {
		t.Fatal(err)
	}
	for key, all := range seen {
		slices.Reverse(all)
		var last []string
		for _, data := range all {
			if !slices.Contains(last, data) {
				last = append(last, data)
			}
		}
		slices.Reverse(last)
		if len(last) != each || !slices.IsSorted(last) {
			t.Errorf("of key %s, the last deliveries are %v", key, last)
		}
	}
	if len(seen) != keys || len(refused) != keys {
		t.Errorf("seen %d keys, refused %v", len(seen), refused)
	}
}

// TestPull follows one message through refusal, expiry and acknowledgement.
func TestPull(t *testing.T) {
	b := start(t, Options{})
	c := connect(t, b)
	createTopic(t, c, topicName)
	subscribe(t, c, &pubsubpb.Subscription{Name: subName, Topic: topicName})
	pull := func() string {
		t.Helper()
		res, err := c.SubscriptionAdminClient.Pull(patiently(t), &pubsubpb.PullRequest{Subscription: subName, MaxMessages: 10})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.ReceivedMessages) != 1 || string(res.ReceivedMessages[0].Message.Data) != "a" {
			t.Fatalf("pulled %v", res)
		}
		return res.ReceivedMessages[0].AckId
	}
	modify := func(ackID string, seconds int32) {
		t.Helper()
		err := c.SubscriptionAdminClient.ModifyAckDeadline(patiently(t), &pubsubpb.ModifyAckDeadlineRequest{
			Subscription: subName, AckIds: []string{ackID}, AckDeadlineSeconds: seconds,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	waiting := make(chan string)
	go func() { waiting <- pull() }() // comes before the message, or after it
	publish(t, c, texts("a")...)
	first := <-waiting

	// A refused message is there again, under another ack id, and the old one can do nothing to it.
	modify(first, 0)
	second := pull()
	modify(first, 0)
	if s := statsOf(t, b, subName); first == second || s.Outstanding != 1 || s.Nacked != 1 || s.Delivered != 2 {
		t.Fatalf("statistics %+v", s)
	}
	// A deadline that runs out makes it available, too.
	modify(second, 1)
	third := pull()
	if s := statsOf(t, b, subName); s.Expired != 1 || s.Delivered != 3 {
		t.Fatalf("statistics %+v", s)
	}
	// A late acknowledgement is one all the same, and a second one no error.
	for _, id := range []string{first, third} {
		err := c.SubscriptionAdminClient.Acknowledge(patiently(t), &pubsubpb.AcknowledgeRequest{Subscription: subName, AckIds: []string{id}})
		if err != nil {
			t.Fatal(err)
		}
		if s := statsOf(t, b, subName); s.Backlog != 0 || s.Acked != 1 {
			t.Fatalf("statistics %+v", s)
		}
	}
}

func TestPullFaults(t *testing.T) {
	b := start(t, Options{})
	c := connect(t, b)
	ctx := patiently(t)
	admin := c.SubscriptionAdminClient
	createTopic(t, c, topicName)
	subscribe(t, c, &pubsubpb.Subscription{Name: subName, Topic: topicName})
	subscribe(t, c, &pubsubpb.Subscription{Name: deadSub, Topic: topicName})
	publish(t, c, texts("a")...)
	res, err := admin.Pull(ctx, &pubsubpb.PullRequest{Subscription: subName, MaxMessages: 1})
	if err != nil {
		t.Fatal(err)
	}
	a := res.ReceivedMessages[0].AckId

	err = admin.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: deadSub, AckIds: []string{"nonsense", a}})
	wantStatus(t, err, codes.InvalidArgument, `ack_ids[0]: "nonsense" is not an ack id`, "ack_ids[1]", "another subscription")
	err = admin.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{Subscription: subName, AckIds: []string{a}, AckDeadlineSeconds: 601})
	wantStatus(t, err, codes.InvalidArgument, "ack_deadline_seconds")
	_, err = admin.Pull(ctx, &pubsubpb.PullRequest{Subscription: subName})
	wantStatus(t, err, codes.InvalidArgument, "max_messages")
	_, err = admin.Pull(ctx, &pubsubpb.PullRequest{Subscription: "projects/test/subscriptions/other", MaxMessages: 1})
	wantStatus(t, err, codes.NotFound, "other")
	err = admin.ModifyPushConfig(ctx, &pubsubpb.ModifyPushConfigRequest{Subscription: subName, PushConfig: pushTo("http://127.0.0.1:1/")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = admin.Pull(ctx, &pubsubpb.PullRequest{Subscription: subName, MaxMessages: 1})
	wantStatus(t, err, codes.FailedPrecondition, "push subscription")
	if s := statsOf(t, b, deadSub); s.Backlog != 1 {
		t.Errorf("a refused request changed something: %+v", s)
	}
}

// TestStreamFlowControl: a stream gets no more than it allows, and more as it settles.
func TestStreamFlowControl(t *testing.T) {
	c := connect(t, start(t, Options{}))
	createTopic(t, c, topicName)
	subscribe(t, c, &pubsubpb.Subscription{Name: subName, Topic: topicName})
	publish(t, c, texts("1", "2", "3", "4", "5")...)
	stream, err := c.SubscriptionAdminClient.StreamingPull(patiently(t))
	if err != nil {
		t.Fatal(err)
	}
	send := func(req *pubsubpb.StreamingPullRequest) {
		t.Helper()
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
	}
	next := func() []*pubsubpb.ReceivedMessage {
		t.Helper()
		for {
			res, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if len(res.ReceivedMessages) > 0 {
				return res.ReceivedMessages
			}
		}
	}
	send(&pubsubpb.StreamingPullRequest{Subscription: subName, StreamAckDeadlineSeconds: 60, MaxOutstandingMessages: 2})
	got := next()
	if len(got) != 2 {
		t.Fatalf("got %d messages, the stream allows 2", len(got))
	}
	send(&pubsubpb.StreamingPullRequest{}) // a ping, answered without messages
	if res, err := stream.Recv(); err != nil || len(res.ReceivedMessages) != 0 {
		t.Fatalf("the ping was answered with %v, %v", res, err)
	}
	send(&pubsubpb.StreamingPullRequest{
		AckIds:               []string{got[0].AckId},
		ModifyDeadlineAckIds: []string{got[1].AckId}, ModifyDeadlineSeconds: []int32{0},
	})
	var again []*pubsubpb.ReceivedMessage
	for len(again) < 2 {
		again = append(again, next()...)
	}
	if len(again) != 2 || again[0].Message.MessageId != got[1].Message.MessageId && again[1].Message.MessageId != got[1].Message.MessageId {
		t.Fatalf("after one ack and one nack came %v", again)
	}
	send(&pubsubpb.StreamingPullRequest{AckIds: []string{"?"}})
	for err == nil {
		_, err = stream.Recv()
	}
	wantStatus(t, err, codes.InvalidArgument, "ack_ids[0]")
}
