// Package functest sends deliveries to functions in tests, in every form in which the platform does, over a real store, and notes
// what reaches the steward. It is linked into tests alone.
package functest

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/functions/delivery"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
	"github.com/convoke-hpc/convoke/shared/store/embedded"
	"github.com/convoke-hpc/convoke/shared/telemetry"
)

// Now is the time in the tests.
func Now() time.Time { return time.Date(2026, 3, 2, 10, 20, 0, 0, time.UTC) }

// Key is the cluster of the catalog's examples.
func Key() cluster.Key {
	return cluster.Key{Project: "team-train", Location: "us-central1", ID: "flexvm"}
}

// Call is one call that reached the steward.
type Call struct {
	Verb   string // deliver, snapshot, wake, tick
	Key    cluster.Key
	Create bool
	Event  store.Event
}

// Steward notes what it is called with, and answers with Err.
type Steward struct {
	mu    sync.Mutex
	calls []Call
	Err   error
	Woken int
}

func (s *Steward) note(c Call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	return s.Err
}

// Deliver implements delivery.Poster.
func (s *Steward) Deliver(_ context.Context, key cluster.Key, create bool, evs ...store.Event) error {
	for _, e := range evs {
		if err := s.note(Call{Verb: "deliver", Key: key, Create: create, Event: e}); err != nil {
			return err
		}
	}
	return nil
}

// Snapshot notes a snapshot.
func (s *Steward) Snapshot(_ context.Context, snap *events.SlurmSnapshot) error {
	return s.note(Call{Verb: "snapshot", Key: snap.Cluster})
}

// Wake notes a wake-up.
func (s *Steward) Wake(_ context.Context, key cluster.Key) error {
	return s.note(Call{Verb: "wake", Key: key})
}

// Tick notes a tick.
func (s *Steward) Tick(context.Context) (int, error) { return s.Woken, s.note(Call{Verb: "tick"}) }

// Calls are those so far, and forgets them.
func (s *Steward) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// Bench is a function on the bench: behind the real adapter, over a real store.
type Bench struct {
	t       testing.TB
	handler http.Handler
	Store   store.Store
	Metrics *telemetry.Metrics
	Log     *bytes.Buffer
}

// New puts a function on the bench.
func New(t testing.TB, fn delivery.Func) *Bench {
	t.Helper()
	st, err := embedded.Open(t.TempDir(), embedded.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	b := &Bench{t: t, Store: st, Metrics: telemetry.NewMetrics(), Log: &bytes.Buffer{}}
	adapter, err := delivery.NewAdapter(delivery.Options{
		Quarantine: st, Meter: b.Metrics.Meter(), Now: Now,
		Log: telemetry.NewLogger(b.Log, telemetry.LogOptions{Format: telemetry.JSON, Level: slog.LevelDebug}),
	})
	if err != nil {
		t.Fatal(err)
	}
	b.handler = adapter.Handler("f", fn)
	return b
}

// Post sends a request as it is and gives the status of its answer.
func (b *Bench) Post(body []byte, headers map[string]string) int {
	b.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	for k, v := range headers {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	return w.Code
}

// Push sends a wrapped Pub/Sub push.
func (b *Bench) Push(id string, data []byte, attributes map[string]string) int {
	b.t.Helper()
	body, err := json.Marshal(map[string]any{
		"subscription": "projects/team-train/subscriptions/f",
		"message": map[string]any{
			"messageId": id, "publishTime": Now().Format(time.RFC3339Nano), "data": data, "attributes": attributes,
		},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return b.Post(body, map[string]string{"Content-Type": "application/json"})
}

// Event sends an event of the catalog as a push.
func (b *Bench) Event(e *events.Event) int {
	b.t.Helper()
	m, err := events.ToMessage(e)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.Push("m-"+e.ID, m.Data, m.Attributes)
}

// Example is the catalog's example of a kind.
func Example(t testing.TB, typ string) *events.Event {
	t.Helper()
	text, err := events.Example(typ)
	if err != nil {
		t.Fatal(err)
	}
	var c ce.Event
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	e, err := events.Decode(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Quarantined are the reasons of what was put aside.
func (b *Bench) Quarantined() []string {
	b.t.Helper()
	all, err := b.Store.Quarantined(context.Background(), 100)
	if err != nil {
		b.t.Fatal(err)
	}
	var reasons []string
	for _, q := range all {
		reasons = append(reasons, q.Reason)
	}
	return reasons
}

// Ignored is how many deliveries were ignored for a reason.
func (b *Bench) Ignored(reason string) int {
	b.t.Helper()
	all, err := b.Metrics.Read(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, r := range all {
		if r.Name == "convoke.deliveries.ignored" && strings.HasSuffix(r.Attributes, "reason="+reason) {
			return int(r.Value)
		}
	}
	return 0
}

// TakesOnly sends an example of every kind and checks that the function passes on those that are its own and ignores the
// others.
func TakesOnly(t *testing.T, steward *Steward, fn delivery.Func, own ...string) {
	t.Helper()
	mine := map[string]bool{}
	for _, typ := range own {
		mine[typ] = true
	}
	for _, k := range events.Catalog() {
		b := New(t, fn)
		status := b.Event(Example(t, k.Type))
		calls, ignored := len(steward.Calls()), b.Ignored(delivery.NotOurs)
		if status != http.StatusNoContent || len(b.Quarantined()) > 0 || (calls > 0) != mine[k.Type] || (ignored == 0) != mine[k.Type] {
			t.Errorf("%s: answer %d, %d call(s), ignored %d, log %s", k.Type, status, calls, ignored, b.Log)
		}
	}
}
