package pubsub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// promptly retries at once, so that tests do not wait.
func promptly() *pubsubpb.RetryPolicy {
	return &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(0), MaximumBackoff: durationpb.New(0)}
}

func idle(t testing.TB, b *Broker) {
	t.Helper()
	if err := b.Idle(patiently(t)); err != nil {
		t.Fatal(err)
	}
}

// TestPushEnvelope compares a push with what the documentation of the real service shows.
func TestPushEnvelope(t *testing.T) {
	type request struct {
		method, path, contentType, agent string
		body                             []byte
	}
	requests := make(chan request, 1)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- request{r.Method, r.URL.String(), r.Header.Get("Content-Type"), r.UserAgent(), body}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer endpoint.Close()
	b := start(t, Options{})
	c := connect(t, b)
	createTopic(t, c, topicName)
	createTopic(t, c, deadName)
	subscribe(t, c, &pubsubpb.Subscription{
		Name: subName, Topic: topicName, PushConfig: pushTo(endpoint.URL + "/reconcile?x=1"),
		DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadName},
	})
	ids := publish(t, c, &client.Message{Data: []byte("Hello there"), Attributes: map[string]string{"key": "value"}, OrderingKey: "o"})
	got := <-requests
	idle(t, b)
	if got.method != "POST" || got.path != "/reconcile?x=1" || got.contentType != "application/json" || got.agent != "CloudPubSub-Google" {
		t.Errorf("request %+v", got)
	}
	var body map[string]any
	if err := json.Unmarshal(got.body, &body); err != nil {
		t.Fatal(err)
	}
	message, _ := body["message"].(map[string]any)
	published, _ := message["publishTime"].(string)
	if _, err := time.Parse(time.RFC3339, published); err != nil || !strings.HasSuffix(published, "Z") {
		t.Errorf("publishTime %q: %v", published, err)
	}
	want := map[string]any{
		"deliveryAttempt": 1.0,
		"subscription":    subName,
		"message": map[string]any{
			"attributes": map[string]any{"key": "value"}, "data": "SGVsbG8gdGhlcmU=", "orderingKey": "o",
			"messageId": ids[0], "message_id": ids[0], "publishTime": published, "publish_time": published,
		},
	}
	if !reflect.DeepEqual(body, want) {
		t.Errorf("body %s\nwant %v", got.body, want)
	}
}

func TestPushUnwrapped(t *testing.T) {
	for _, metadata := range []bool{false, true} {
		t.Run(fmt.Sprint("metadata ", metadata), func(t *testing.T) {
			headers := make(chan http.Header, 1)
			b := start(t, Options{Handlers: map[string]http.Handler{
				"functions.local": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					if body, err := io.ReadAll(r.Body); err != nil || string(body) != "raw" {
						t.Errorf("body %q, %v", body, err)
					}
					headers <- r.Header
				}),
			}})
			c := connect(t, b)
			createTopic(t, c, topicName)
			config := pushTo("http://functions.local/f")
			config.Wrapper = &pubsubpb.PushConfig_NoWrapper_{NoWrapper: &pubsubpb.PushConfig_NoWrapper{WriteMetadata: metadata}}
			subscribe(t, c, &pubsubpb.Subscription{Name: subName, Topic: topicName, PushConfig: config})
			ids := publish(t, c, &client.Message{
				Data: []byte("raw"), OrderingKey: "o", Attributes: map[string]string{"ce-type": "node", "not a header": "x", "evil": "a\r\nb: c"},
			})
			idle(t, b)
			got := <-headers
			want := map[string]string{
				"X-Goog-Pubsub-Subscription-Name": subName, "X-Goog-Pubsub-Message-Id": ids[0],
				"X-Goog-Pubsub-Ordering-Key": "o", "Ce-Type": "node",
			}
			for name, value := range want {
				if !metadata {
					value = ""
				}
				if got.Get(name) != value {
					t.Errorf("%s is %q, want %q", name, got.Get(name), value)
				}
			}
			if got.Get("evil") != "" || len(got["not a header"]) > 0 {
				t.Errorf("an attribute that cannot be a header became one: %v", got)
			}
		})
	}
}

// TestPushStatus: which answers acknowledge, over the network and in process.
func TestPushStatus(t *testing.T) {
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answerByPath(w, r) }))
	defer endpoint.Close()
	b := start(t, Options{Handlers: map[string]http.Handler{"inside": http.HandlerFunc(answerByPath)}})
	tests := map[string]bool{
		"102": true, "200": true, "201": true, "202": true, "204": true, "silent": true,
		"203": false, "206": false, "301": false, "304": false, "400": false, "404": false, "429": false, "500": false, "503": false,
		"panic": false,
	}
	for path, acknowledged := range tests {
		for _, base := range []string{endpoint.URL, "http://inside"} {
			err := b.transport.deliver(t.Context(), pushJob{
				entry:   &entry{message: &message{proto: &pubsubpb.PubsubMessage{Data: []byte("x")}}},
				config:  pushTo(base + "/" + path),
				timeout: patience,
			})
			if (err == nil) != acknowledged {
				t.Errorf("%s/%s: %v", base, path, err)
			}
		}
	}
}

func answerByPath(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path[1:]; path {
	case "silent":
	case "panic":
		panic(http.ErrAbortHandler)
	default:
		var code int
		_, _ = fmt.Sscan(path, &code)
		if code == http.StatusProcessing {
			_, _ = io.Copy(io.Discard, r.Body) // a server that has not read the body does not notice the client's end
			w.WriteHeader(code)
			<-r.Context().Done() // the rest takes long; nobody waits for it
			return
		}
		w.Header().Set("Location", "/200")
		w.WriteHeader(code)
	}
}

// TestPushRetries: an endpoint that fails twice gets the message until it takes it; one that is not there at all gets
// it when it comes up.
func TestPushRetries(t *testing.T) {
	var calls atomic.Int32
	endpoint := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) <= 2 {
			http.Error(w, "not yet", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	addr := endpoint.Listener.Addr().String()
	if err := endpoint.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	b := start(t, Options{})
	c := connect(t, b)
	createTopic(t, c, topicName)
	subscribe(t, c, &pubsubpb.Subscription{
		Name: subName, Topic: topicName, PushConfig: pushTo("http://" + addr + "/"), RetryPolicy: promptly(),
	})
	publish(t, c, texts("x")...)
	until(t, "a refusal", func() bool { return statsOf(t, b, subName).Nacked > 0 })
	var err error
	if endpoint.Listener, err = net.Listen("tcp", addr); err != nil {
		t.Skipf("the port was taken meanwhile: %v", err)
	}
	endpoint.Start()
	defer endpoint.Close()
	idle(t, b)
	s := statsOf(t, b, subName)
	if calls.Load() != 3 || s.Acked != 1 || s.Backlog != 0 || s.Nacked < 3 {
		t.Errorf("%d calls, statistics %+v", calls.Load(), s)
	}
}

func TestDeadLetter(t *testing.T) {
	var attempts []int // of the poisonous message; pushed one at a time
	b := start(t, Options{Handlers: map[string]http.Handler{"h": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e envelope
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		if string(e.Message.Data) == "poison" {
			attempts = append(attempts, e.DeliveryAttempt)
			w.WriteHeader(http.StatusInternalServerError)
		}
	})}})
	c := connect(t, b)
	createTopic(t, c, topicName)
	createTopic(t, c, deadName)
	subscribe(t, c, &pubsubpb.Subscription{Name: deadSub, Topic: deadName})
	subscribe(t, c, &pubsubpb.Subscription{
		Name: subName, Topic: topicName, PushConfig: pushTo("http://h/"), RetryPolicy: promptly(), EnableMessageOrdering: true,
		DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadName, MaxDeliveryAttempts: 6},
	})
	publish(t, c,
		&client.Message{Data: []byte("good"), OrderingKey: "k"},
		&client.Message{Data: []byte("poison"), OrderingKey: "k", Attributes: map[string]string{"a": "b"}},
		&client.Message{Data: []byte("waits behind it"), OrderingKey: "k"},
	)
	idle(t, b)
	if want := []int{1, 2, 3, 4, 5, 6}; !reflect.DeepEqual(attempts, want) {
		t.Errorf("attempts %v, want %v", attempts, want)
	}
	dead := receive(t, c, deadSub, 1)[0]
	published := dead.Attributes[deadLetterPublished]
	if _, err := time.Parse(deadLetterTimeFormat, published); err != nil || !strings.HasSuffix(published, "+00:00") {
		t.Errorf("source publish time %q: %v", published, err)
	}
	want := map[string]string{
		"a": "b",
		"CloudPubSubDeadLetterSourceDeliveryCount":       "6",
		"CloudPubSubDeadLetterSourceSubscription":        "worker",
		"CloudPubSubDeadLetterSourceSubscriptionProject": "test",
		"CloudPubSubDeadLetterSourceTopicPublishTime":    published,
	}
	if string(dead.Data) != "poison" || dead.OrderingKey != "k" || !reflect.DeepEqual(dead.Attributes, want) {
		t.Errorf("dead letter %q %v", dead.Data, dead.Attributes)
	}
	s := statsOf(t, b, subName)
	if s.DeadLettered != 1 || s.Acked != 2 || s.Backlog != 0 || s.Nacked != 6 {
		t.Errorf("statistics %+v", s)
	}
}

// TestDeadLetterTopicGone: without its dead-letter topic a message goes on being delivered, and leaves when there is
// one again.
func TestDeadLetterTopicGone(t *testing.T) {
	b := start(t, Options{Handlers: map[string]http.Handler{"h": answer(http.StatusInternalServerError)}})
	c := connect(t, b)
	createTopic(t, c, topicName)
	createTopic(t, c, deadName)
	subscribe(t, c, &pubsubpb.Subscription{
		Name: subName, Topic: topicName, PushConfig: pushTo("http://h/"), RetryPolicy: promptly(),
		DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadName},
	})
	if err := c.TopicAdminClient.DeleteTopic(patiently(t), &pubsubpb.DeleteTopicRequest{Topic: deadName}); err != nil {
		t.Fatal(err)
	}
	publish(t, c, texts("x")...)
	until(t, "eight refusals", func() bool { return statsOf(t, b, subName).Nacked >= 8 })
	createTopic(t, c, deadName)
	idle(t, b)
	if s := statsOf(t, b, subName); s.DeadLettered != 1 {
		t.Errorf("statistics %+v", s)
	}
}

// TestPushOrder: messages of one key arrive one after the other and in order, whatever is refused; different keys do not
// wait for each other.
func TestPushOrder(t *testing.T) {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	inside := map[string]int{}
	done := map[string][]string{}
	b := start(t, Options{Handlers: map[string]http.Handler{"h": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e envelope
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		key := e.Message.OrderingKey
		mu.Lock()
		defer mu.Unlock()
		inside[key]++
		if inside[key] > 1 {
			t.Errorf("two messages of %s at once", key)
		}
		mu.Unlock()
		time.Sleep(time.Duration(len(key)) * 10 * time.Microsecond)
		mu.Lock()
		inside[key]--
		if random.IntN(4) == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		done[key] = append(done[key], string(e.Message.Data))
	})}})
	c := connect(t, b)
	createTopic(t, c, topicName)
	subscribe(t, c, &pubsubpb.Subscription{
		Name: subName, Topic: topicName, PushConfig: pushTo("http://h/"), RetryPolicy: promptly(), EnableMessageOrdering: true,
	})
	want := map[string][]string{}
	var messages []*client.Message
	for i := range 200 {
		key := fmt.Sprint("key", i%8)
		data := fmt.Sprint(i)
		messages = append(messages, &client.Message{Data: []byte(data), OrderingKey: key})
		want[key] = append(want[key], data)
	}
	publish(t, c, messages...)
	idle(t, b)
	if !reflect.DeepEqual(done, want) {
		t.Errorf("done in the order %v", done)
	}
}

// TestSlowEndpoint: a subscription whose handlers all hang does not delay another one.
func TestSlowEndpoint(t *testing.T) {
	release := make(chan struct{})
	var fast atomic.Int32
	b := start(t, Options{Handlers: map[string]http.Handler{
		"slow": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }),
		"fast": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fast.Add(1) }),
	}})
	c := connect(t, b)
	createTopic(t, c, topicName)
	for _, host := range []string{"slow", "fast"} {
		subscribe(t, c, &pubsubpb.Subscription{
			Name: "projects/test/subscriptions/" + host, Topic: topicName, PushConfig: pushTo("http://" + host + "/"), AckDeadlineSeconds: 600,
		})
	}
	var messages []*client.Message
	for i := range 500 {
		messages = append(messages, &client.Message{Data: fmt.Append(nil, i)})
	}
	publish(t, c, messages...)
	until(t, "the fast endpoint", func() bool { return statsOf(t, b, "projects/test/subscriptions/fast").Backlog == 0 })
	if s := statsOf(t, b, "projects/test/subscriptions/slow"); s.Outstanding != firstWindow || s.Backlog != 500 {
		t.Errorf("slow: %+v", s)
	}
	close(release)
	idle(t, b)
	if fast.Load() != 500 {
		t.Errorf("fast got %d pushes", fast.Load())
	}
}

// TestPushConfigChange: a subscription can be turned from pull to push and back without losing what it holds.
func TestPushConfigChange(t *testing.T) {
	var pushed atomic.Int32
	b := start(t, Options{Handlers: map[string]http.Handler{
		"h":   http.HandlerFunc(func(http.ResponseWriter, *http.Request) { pushed.Add(1) }),
		"bad": answer(http.StatusNotFound),
	}})
	c := connect(t, b)
	createTopic(t, c, topicName)
	subscribe(t, c, &pubsubpb.Subscription{Name: subName, Topic: topicName, PushConfig: pushTo("http://bad/")})
	publish(t, c, texts("1", "2", "3")...)
	turn := func(config *pubsubpb.PushConfig) {
		t.Helper()
		err := c.SubscriptionAdminClient.ModifyPushConfig(patiently(t), &pubsubpb.ModifyPushConfigRequest{Subscription: subName, PushConfig: config})
		if err != nil {
			t.Fatal(err)
		}
	}
	turn(nil)
	idle(t, b)
	res, err := c.SubscriptionAdminClient.Pull(patiently(t), &pubsubpb.PullRequest{Subscription: subName, MaxMessages: 1})
	if err != nil || len(res.ReceivedMessages) != 1 {
		t.Fatalf("pulled %v, %v", res, err)
	}
	err = c.SubscriptionAdminClient.Acknowledge(patiently(t), &pubsubpb.AcknowledgeRequest{
		Subscription: subName, AckIds: []string{res.ReceivedMessages[0].AckId},
	})
	if err != nil {
		t.Fatal(err)
	}
	turn(pushTo("http://h/"))
	idle(t, b)
	if s := statsOf(t, b, subName); s.Backlog != 0 || pushed.Load() != 2 {
		t.Fatalf("%d pushed, %+v", pushed.Load(), s)
	}
}

// TestClose: pushes under way are waited for, and may publish until they end; with no time left they are given up, and
// their messages stay.
func TestClose(t *testing.T) {
	inside := make(chan struct{})
	release := make(chan struct{})
	var c *client.Client
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(inside)
		<-release
		if _, err := c.Publisher(deadName).Publish(r.Context(), &client.Message{Data: []byte("y")}).Get(r.Context()); err != nil {
			t.Errorf("publishing while the broker closes: %v", err)
		}
	})
	b, err := New(Options{Handlers: map[string]http.Handler{"h": handler}, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	c = connect(t, b)
	createTopic(t, c, topicName)
	createTopic(t, c, deadName)
	subscribe(t, c, &pubsubpb.Subscription{Name: subName, Topic: topicName, PushConfig: pushTo("http://h/"), AckDeadlineSeconds: 600})
	publish(t, c, texts("x")...)
	<-inside
	closed := make(chan error)
	go func() { closed <- b.Close(patiently(t)) }()
	close(release)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if s := statsOf(t, b, subName); s.Acked != 1 {
		t.Errorf("statistics %+v", s)
	}
}

func TestCloseGivesUp(t *testing.T) {
	inside := make(chan struct{})
	b, err := New(Options{Logger: quiet(), Handlers: map[string]http.Handler{"h": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(inside)
		<-r.Context().Done()
	})}})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, b)
	createTopic(t, c, topicName)
	subscribe(t, c, &pubsubpb.Subscription{Name: subName, Topic: topicName, PushConfig: pushTo("http://h/"), AckDeadlineSeconds: 600})
	publish(t, c, texts("x")...)
	<-inside
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("closing: %v", err)
	}
	if s := statsOf(t, b, subName); s.Backlog != 1 || s.Nacked != 0 {
		t.Errorf("statistics %+v", s)
	}
}
