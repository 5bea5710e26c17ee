package wiring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/functions/wiring"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
	broker "github.com/convoke-hpc/convoke/shared/sim/pubsub"
	"github.com/convoke-hpc/convoke/shared/store/embedded"
)

// site is what the functions stand on: a broker, a simulated cloud, a store.
type site struct {
	broker *broker.Broker
	client *pubsub.Client
	cloud  *gcp.Server
	store  *embedded.Store
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newSite(t *testing.T, functions http.Handler) *site {
	t.Helper()
	s := &site{}
	var err error
	if s.broker, err = broker.New(broker.Options{Handlers: map[string]http.Handler{"functions.local": functions}, Logger: quiet()}); err != nil {
		t.Fatal(err)
	}
	s.client, err = pubsub.NewClient(t.Context(), "my-project", option.WithEndpoint(s.broker.Addr()), option.WithoutAuthentication(),
		option.WithTelemetryDisabled(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	if s.cloud, err = gcp.New(gcp.Options{Project: "my-project", Seed: 1, Logger: quiet()}); err != nil {
		t.Fatal(err)
	}
	if s.store, err = embedded.Open(t.TempDir(), embedded.Options{NoSync: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, err := range []error{s.broker.Close(ctx), s.client.Close(), s.cloud.Close(), s.store.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// topic makes a topic, and has it pushed to a function if one is named.
func (s *site) topic(t *testing.T, topic, function string) {
	t.Helper()
	name := "projects/my-project/topics/" + topic
	if _, err := s.client.TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: name}); err != nil {
		t.Fatal(err)
	}
	sub := &pubsubpb.Subscription{Name: "projects/my-project/subscriptions/" + topic, Topic: name}
	if function != "" {
		sub.PushConfig = &pubsubpb.PushConfig{PushEndpoint: "http://functions.local/" + function}
	}
	if _, err := s.client.SubscriptionAdminClient.CreateSubscription(t.Context(), sub); err != nil {
		t.Fatal(err)
	}
}

func (s *site) app(t *testing.T, target string) *wiring.App {
	t.Helper()
	app, err := wiring.New(t.Context(), wiring.Config{
		Target: target, Project: "my-project", Location: "us-central1", Store: s.store, PubSub: s.client, Log: quiet(),
		ComputeEndpoint: "http://gcp.simulated", HTTPClient: &http.Client{Transport: s.cloud.Transport()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := app.Close(); err != nil {
			t.Error(err)
		}
	})
	return app
}

// TestFromRequestToTombstone sends a spec to the API and sees it go through Pub/Sub to the steward and the cloud, onto the
// console's page, and away again. Nobody but the real parts is involved.
func TestFromRequestToTombstone(t *testing.T) {
	mux := http.NewServeMux()
	s := newSite(t, mux)
	s.topic(t, events.TopicRequests, "clusters")
	s.topic(t, events.TopicTicks, "reconcile")
	s.topic(t, events.TopicCommands, "")
	app := s.app(t, "")
	for name, h := range app.Handlers() {
		mux.Handle("/"+name, h)
		mux.Handle("/"+name+"/", h)
	}
	if got := len(app.Handlers()); got != len(wiring.Names()) {
		t.Fatalf("%d functions are served", got)
	}
	stop := s.tick(t)
	defer stop()

	spec, err := os.ReadFile("testdata/flexvm.json")
	if err != nil {
		t.Fatal(err)
	}
	const clusters = "/api/v1beta1/projects/my-project/locations/us-central1/modelDevelopmentClusters"
	code, body := send(mux, http.MethodPost, clusters, string(spec))
	if code != 200 {
		t.Fatal(code, body)
	}
	// There is no such file system, which the steward finds out by asking the cloud.
	eventually(t, "the cluster waits for its home directory", func() bool {
		code, body := send(mux, http.MethodGet, clusters+"/flexvm", "")
		return code == 200 && strings.Contains(body, "projects/my-project/locations/us-central1-a/instances/home")
	})
	if code, body := send(mux, http.MethodGet, "/console/clusters/my-project~us-central1~flexvm", ""); code != 200 || !strings.Contains(body, "create accepted") {
		t.Errorf("the console's page: %d", code)
	}
	if code, body := send(mux, http.MethodGet, "/console/", ""); code != 200 || !strings.Contains(body, `href="/console/clusters/my-project~us-central1~flexvm"`) {
		t.Errorf("the console's list: %d", code)
	}
	code, body = send(mux, http.MethodDelete, clusters+"/flexvm", "")
	if code != 200 {
		t.Fatal(code, body)
	}
	var op struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal([]byte(body), &op); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster is gone and the operation has ended", func() bool {
		code, _ := send(mux, http.MethodGet, clusters+"/flexvm", "")
		_, body := send(mux, http.MethodGet, "/api/v1/"+op.Name, "")
		return code == 404 && strings.Contains(body, `"done": true`) && !strings.Contains(body, `"error"`)
	})
}

// TestRequestForNoCluster: an operation comes to an end also when there is nothing to do it to.
func TestRequestForNoCluster(t *testing.T) {
	s := newSite(t, http.NotFoundHandler())
	h := s.app(t, "clusters").Handlers()["clusters"]
	m, err := events.ToMessage(&events.Event{
		ID: "op-1", Source: "//test", Type: events.TypeClusterDelete, Time: time.Now(),
		Payload: &events.ClusterDelete{Cluster: cluster.Key{Project: "my-project", Location: "us-central1", ID: "none"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"subscription": "s", "message": map[string]any{"messageId": "1", "data": m.Data, "attributes": m.Attributes}})
	if err != nil {
		t.Fatal(err)
	}
	if code, answer := send(h, http.MethodPost, "/", string(body)); code != 204 {
		t.Fatal(code, answer)
	}
	op, err := s.store.Operation(t.Context(), "op-1")
	if err != nil || !op.Done || op.Error == nil || op.Error.Class != cluster.NotFound {
		t.Errorf("%+v, %v", op, err)
	}
}

func TestTargets(t *testing.T) {
	s := newSite(t, http.NotFoundHandler())
	for _, name := range wiring.Names() {
		app := s.app(t, name)
		if hs := app.Handlers(); len(hs) != 1 || hs[name] == nil {
			t.Errorf("%s: %d handlers", name, len(hs))
		}
	}
	// One that is alone has its paths at the root.
	if code, _ := send(s.app(t, "console").Handlers()["console"], http.MethodGet, "/", ""); code != 200 {
		t.Errorf("the console alone: %d", code)
	}
	if code, _ := send(s.app(t, "api").Handlers()["api"], http.MethodGet, "/v1beta1/projects/my-project/locations/us-central1/operations", ""); code != 200 {
		t.Errorf("the API alone: %d", code)
	}
	// Among others, a name without a slash leads to its root.
	if code, _ := send(s.app(t, "").Handlers()["console"], http.MethodGet, "/console", ""); code != http.StatusFound {
		t.Errorf("/console: %d", code)
	}
}

// TestCommandsAsTheyArePublished: those of one cluster keep their order, and can be filtered by their cluster.
func TestCommandsAsTheyArePublished(t *testing.T) {
	s := newSite(t, http.NotFoundHandler())
	s.topic(t, events.TopicTicks, "")
	if _, err := s.client.TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: "projects/my-project/topics/" + events.TopicCommands}); err != nil {
		t.Fatal(err)
	}
	key := cluster.Key{Project: "my-project", Location: "us-central1", ID: "flexvm"}
	sub := &pubsubpb.Subscription{
		Name: "projects/my-project/subscriptions/agent", Topic: "projects/my-project/topics/" + events.TopicCommands,
		Filter: fmt.Sprintf("attributes.cluster = %q", key.Doc()), EnableMessageOrdering: true,
	}
	if _, err := s.client.SubscriptionAdminClient.CreateSubscription(t.Context(), sub); err != nil {
		t.Fatal(err)
	}
	p := wiring.Publisher(s.client, time.Now)
	for i := range 5 {
		for _, k := range []cluster.Key{key, {Project: "my-project", Location: "us-central1", ID: "other"}} {
			c := cluster.Command{Kind: cluster.CommandDrain, Nodes: []cluster.NodeID{{Pool: "a3u", Index: i}}, Reason: "convoke: x", ID: fmt.Sprint("c", i)}
			if err := p.Command(t.Context(), events.CommandOf(k, c, time.Now(), time.Time{})); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := p.Wake(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var got []string
	err := s.client.Subscriber("agent").Receive(ctx, func(_ context.Context, m *pubsub.Message) {
		m.Ack()
		event, carried, err := events.FromMessage(events.Message{ID: m.ID, Data: m.Data, Attributes: m.Attributes}, "t")
		e, err2 := events.Decode(event)
		if !carried || err != nil || err2 != nil {
			t.Error(carried, err, err2)
			cancel()
			return
		}
		got = append(got, e.Payload.(*events.SlurmCommand).Nodes)
		if len(got) == 5 {
			cancel()
		}
	})
	if err != nil || !slices.IsSorted(got) || len(got) != 5 || !strings.HasPrefix(got[0], "flexvm-") {
		t.Errorf("%v, %v", got, err)
	}
}

// tick publishes ticks, more often than Cloud Scheduler would.
func (s *site) tick(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	p := s.client.Publisher(events.TopicTicks)
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = p.Publish(ctx, &pubsub.Message{Data: []byte("tick")}).Get(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return func() { cancel(); <-done; p.Stop() }
}

func send(h http.Handler, method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	b, _ := io.ReadAll(w.Body)
	return w.Code, string(b)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("it never came to pass that %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestEnvironment(t *testing.T) {
	env := func(assignments ...string) func(string) string {
		m := map[string]string{}
		for _, a := range assignments {
			k, v, _ := strings.Cut(a, "=")
			m[k] = v
		}
		return func(k string) string { return m[k] }
	}
	c, err := wiring.FromEnvironment(env("GOOGLE_CLOUD_PROJECT=team-train", "FUNCTION_TARGET=resize", "CONVOKE_DATABASE=convoke", "CONVOKE_CONTROLLER_ACCOUNT=a@b"))
	if err != nil || c.Project != "team-train" || c.Target != "resize" || c.StoreAt != "firestore" || c.Database != "convoke" || c.ControllerAccount != "a@b" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, _ := wiring.FromEnvironment(env("GOOGLE_CLOUD_PROJECT=team-train", "CONVOKE_PROJECT=other-train")); c.Project != "other-train" {
		t.Errorf("%+v", c)
	}
	_, err = wiring.FromEnvironment(env("FUNCTION_TARGET=resise", "CONVOKE_LOCATION=us-central1-a", "CONVOKE_STORE=embedded:", "CONVOKE_COMPUTE_ENDPOINT=localhost:80"))
	for _, want := range []string{`no function "resise"`, "CONVOKE_PROJECT: is not set", `"us-central1-a" is not a region`, `"embedded:" is neither`, `"localhost:80" is not an http`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if _, err := wiring.New(t.Context(), wiring.Config{Project: "x"}); err == nil {
		t.Error("a project of one letter was taken")
	}
}
