package pubsub

import (
	"context"
	"net/http"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// bench is a broker in a synctest bubble: without sockets, in virtual time.
type bench struct {
	*Broker
	t *testing.T
	publisher
	subscriber
}

func inBubble(t *testing.T, o Options, test func(t *testing.T, b bench)) {
	t.Helper()
	o.Logger = quiet()
	synctest.Test(t, func(t *testing.T) {
		broker, err := open(o)
		if err != nil {
			t.Fatal(err)
		}
		b := bench{Broker: broker, t: t, publisher: publisher{b: broker}, subscriber: subscriber{b: broker}}
		for _, name := range []string{topicName, deadName} {
			if _, err := b.CreateTopic(t.Context(), &pubsubpb.Topic{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		test(t, b)
		if err := broker.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func (b bench) subscribe(config *pubsubpb.Subscription) {
	b.t.Helper()
	config.Name, config.Topic = subName, topicName
	if _, err := b.CreateSubscription(b.t.Context(), config); err != nil {
		b.t.Fatal(err)
	}
}

func (b bench) publish(words ...string) {
	b.t.Helper()
	req := &pubsubpb.PublishRequest{Topic: topicName}
	for _, w := range words {
		req.Messages = append(req.Messages, &pubsubpb.PubsubMessage{Data: []byte(w)})
	}
	if _, err := b.Publish(b.t.Context(), req); err != nil {
		b.t.Fatal(err)
	}
}

func (b bench) pull() []*pubsubpb.ReceivedMessage {
	b.t.Helper()
	res, err := b.Pull(b.t.Context(), &pubsubpb.PullRequest{Subscription: subName, MaxMessages: 10})
	if err != nil {
		b.t.Fatal(err)
	}
	return res.ReceivedMessages
}

func TestPushBackoffInTime(t *testing.T) {
	var begun time.Time
	var at []time.Duration
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		at = append(at, time.Since(begun))
		if len(at) < 6 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	inBubble(t, Options{Handlers: map[string]http.Handler{"h": handler}}, func(t *testing.T, b bench) {
		begun = time.Now()
		b.subscribe(&pubsubpb.Subscription{PushConfig: pushTo("http://h/"), RetryPolicy: &pubsubpb.RetryPolicy{
			MinimumBackoff: durationpb.New(10 * time.Second), MaximumBackoff: durationpb.New(50 * time.Second),
		}})
		b.publish("x")
		if err := b.Idle(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	want := []time.Duration{0, 10 * time.Second, 30 * time.Second, 70 * time.Second, 120 * time.Second, 170 * time.Second}
	if !reflect.DeepEqual(at, want) {
		t.Errorf("pushed at %v, want %v", at, want)
	}
}

// TestPushTimeout: an endpoint that does not answer within the ack deadline has refused, even if it goes on working.
func TestPushTimeout(t *testing.T) {
	var calls atomic.Int32
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if calls.Add(1) == 1 {
			time.Sleep(time.Hour) // deaf to its context
		}
	})
	inBubble(t, Options{Handlers: map[string]http.Handler{"h": handler}}, func(t *testing.T, b bench) {
		begun := time.Now()
		b.subscribe(&pubsubpb.Subscription{PushConfig: pushTo("http://h/"), AckDeadlineSeconds: 20})
		b.publish("x")
		if err := b.Idle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took, want := time.Since(begun), 20*time.Second+promptMinimumBackoff; took != want {
			t.Errorf("delivered after %v, want %v", took, want)
		}
		// Closing waits for the deaf handler.
		if err := b.Close(context.Background()); err != nil || time.Since(begun) != time.Hour {
			t.Errorf("closed after %v, %v", time.Since(begun), err)
		}
	})
}

// TestPushPause: an endpoint that refuses everything is asked ever more rarely, and flooded again once it recovers.
func TestPushPause(t *testing.T) {
	var calls, ill atomic.Int32
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(10 * time.Millisecond)
		calls.Add(1)
		if ill.Load() == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	inBubble(t, Options{Handlers: map[string]http.Handler{"h": handler}}, func(t *testing.T, b bench) {
		b.subscribe(&pubsubpb.Subscription{PushConfig: pushTo("http://h/"), RetryPolicy: promptly()})
		words := make([]string, 1000)
		for i := range words {
			words[i] = "x"
		}
		ill.Store(1)
		b.publish(words...)
		time.Sleep(5 * time.Minute)
		if n := calls.Load(); n > 80 {
			t.Errorf("an endpoint that refuses everything was called %d times in 5 minutes", n)
		}
		ill.Store(0)
		recovered := time.Now()
		if err := b.Idle(t.Context()); err != nil {
			t.Fatal(err)
		}
		// At most the longest pause, then a window that doubles every 10 ms up to 64.
		if took := time.Since(recovered); took > maximumPushPause+400*time.Millisecond {
			t.Errorf("recovering took %v", took)
		}
	})
}

func TestAckDeadlineInTime(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, b bench) {
		b.subscribe(&pubsubpb.Subscription{
			AckDeadlineSeconds: 15,
			DeadLetterPolicy:   &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadName},
			RetryPolicy:        &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Second)},
		})
		begun := time.Now()
		b.publish("x")
		first := b.pull()
		second := b.pull() // waits for the deadline and the back-off
		if took := time.Since(begun); took != 16*time.Second || first[0].DeliveryAttempt != 1 || second[0].DeliveryAttempt != 2 {
			t.Errorf("attempts %d and %d after %v", first[0].DeliveryAttempt, second[0].DeliveryAttempt, took)
		}
		_, err := b.ModifyAckDeadline(t.Context(), &pubsubpb.ModifyAckDeadlineRequest{
			Subscription: subName, AckIds: []string{second[0].AckId}, AckDeadlineSeconds: 100,
		})
		if err != nil {
			t.Fatal(err)
		}
		begun = time.Now()
		if none := b.pull(); len(none) != 0 || time.Since(begun) != pullPatience {
			t.Errorf("pulled %v after %v", none, time.Since(begun))
		}
		third := b.pull()
		if took := time.Since(begun); took != 102*time.Second || third[0].DeliveryAttempt != 3 {
			t.Errorf("attempt %d after %v", third[0].DeliveryAttempt, took)
		}
		// Two more, and it is a dead letter.
		for range 2 {
			b.pull()
		}
		time.Sleep(time.Hour)
		if s := statsOf(t, b.Broker, subName); s.DeadLettered != 1 || s.Backlog != 0 || s.Expired != 5 {
			t.Errorf("statistics %+v", s)
		}
	})
}

func TestRetention(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, b bench) {
		b.subscribe(&pubsubpb.Subscription{MessageRetentionDuration: durationpb.New(time.Hour)})
		b.publish("old")
		time.Sleep(time.Hour + time.Second)
		b.publish("new")
		got := b.pull()
		if len(got) != 1 || string(got[0].Message.Data) != "new" {
			t.Errorf("pulled %v", got)
		}
		if s := statsOf(t, b.Broker, subName); s.Dropped != 1 || s.Backlog != 1 || !s.OldestUnacked.Equal(time.Now()) {
			t.Errorf("statistics %+v", s)
		}
	})
}

// TestPushIsRepeatable: the same messages and handlers give the same deliveries at the same times.
func TestPushIsRepeatable(t *testing.T) {
	run := func() (trace []time.Duration) {
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			trace = append(trace, time.Duration(r.ContentLength)+time.Duration(time.Now().UnixNano()))
			if len(trace)%3 == 0 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		inBubble(t, Options{MaxPushes: 1, Handlers: map[string]http.Handler{"h": handler}}, func(t *testing.T, b bench) {
			b.subscribe(&pubsubpb.Subscription{PushConfig: pushTo("http://h/")})
			b.publish("1", "22", "333", "4444", "55555")
			if err := b.Idle(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
		return trace
	}
	first := run()
	for range 3 {
		if again := run(); !reflect.DeepEqual(again, first) {
			t.Fatalf("%v, and then %v", first, again)
		}
	}
}
