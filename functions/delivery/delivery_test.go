package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/store"
	"github.com/convoke-hpc/convoke/shared/store/embedded"
	"github.com/convoke-hpc/convoke/shared/telemetry"
)

const (
	sub     = "projects/team-train/subscriptions/resize"
	machine = "//convoke/flexvm-a3u-0"
)

// recorded is a request as it came over the wire.
func recorded(t testing.TB, name string) *http.Request {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	head, body, found := strings.Cut(string(text), "\n\n")
	if !found {
		t.Fatalf("%s has no body", name)
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	for line := range strings.Lines(head) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			r.Header.Add(k, v)
		}
	}
	return r
}

// bench is an adapter over a real store, with what it logged and counted.
type bench struct {
	*Adapter
	store   store.Store
	log     *bytes.Buffer
	metrics *telemetry.Metrics
}

func newBench(t *testing.T) *bench {
	t.Helper()
	st, err := embedded.Open(t.TempDir(), embedded.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return newBenchOver(t, st)
}

func newBenchOver(t *testing.T, st store.Store) *bench {
	t.Helper()
	b := &bench{store: st, log: &bytes.Buffer{}, metrics: telemetry.NewMetrics()}
	var err error
	b.Adapter, err = NewAdapter(Options{
		Quarantine: st, Log: telemetry.NewLogger(b.log, telemetry.LogOptions{Format: telemetry.JSON, Level: slog.LevelDebug}),
		Meter: b.metrics.Meter(), Now: func() time.Time { return time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// deliver sends a request to a function and gives its answer.
func (b *bench) deliver(r *http.Request, fn Func) *http.Response {
	w := httptest.NewRecorder()
	b.Handler("resize", fn).ServeHTTP(w, r)
	return w.Result()
}

func (b *bench) quarantined(t *testing.T) []store.Quarantined {
	t.Helper()
	q, err := b.store.Quarantined(context.Background(), 100)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func (b *bench) count(t *testing.T, name, attributes string) float64 {
	t.Helper()
	all, err := b.metrics.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Name == name && r.Attributes == attributes {
			return r.Value
		}
	}
	return 0
}

func TestForms(t *testing.T) {
	for _, c := range []struct {
		name         string
		form         Form
		id, source   string // of the CloudEvent; "": there is none
		message      string // the Pub/Sub message's id
		subscription string
		attempt      int
	}{
		{name: "binary", form: Binary, id: "boot-1", source: machine},
		{name: "structured", form: Structured, id: "boot-1", source: machine},
		{name: "push", form: Wrapped, id: "boot-1", source: machine, message: "2070443601311540", subscription: sub, attempt: 3},
		{name: "push-by-hand", form: Wrapped, id: "19", source: "//pubsub.googleapis.com/" + sub, message: "19", subscription: sub},
		{name: "push-structured", form: Wrapped, id: "boot-1", source: machine, message: "2070443601311540", subscription: sub},
		{name: "eventarc", form: Published, id: "boot-1", source: machine, message: "2070443601311540", subscription: "projects/team-train/subscriptions/eventarc-us-central1-resize-sub-123"},
		{name: "unwrapped", form: Binary, id: "boot-1", source: machine},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			var got *events.Event
			var d *Delivery
			answer := b.deliver(recorded(t, c.name), func(_ context.Context, in *Delivery) (err error) {
				d = in
				got, err = in.Decode()
				return err
			})
			if answer.StatusCode != http.StatusNoContent || got == nil {
				t.Fatalf("%d: %s", answer.StatusCode, b.log)
			}
			boot, ok := got.Payload.(*events.NodeBoot)
			if !ok || boot.Node != "flexvm-a3u-0" || boot.InstanceID != 2162224123123123213 || !boot.OK {
				t.Errorf("the payload is %+v", got.Payload)
			}
			if got.ID != c.id || got.Source != c.source || d.Form != c.form || d.Subscription != c.subscription || d.Attempt != c.attempt {
				t.Errorf("%+v, %+v", got, d)
			}
			if message := messageID(d); message != c.message {
				t.Errorf("message %q, want %q", message, c.message)
			}
			if n := b.count(t, "convoke.deliveries", fmt.Sprintf("answer=done,form=%s,function=resize", c.form)); n != 1 {
				t.Errorf("counted %g times", n)
			}
		})
	}
}

func messageID(d *Delivery) string {
	if d.Message == nil {
		return ""
	}
	return d.Message.ID
}

func TestMessagesWithoutAnEvent(t *testing.T) {
	for _, c := range []struct{ name, data, id, attribute, value string }{
		{"push-raw", `{"display_name":"flexvm"}`, "2070443601311540", "cluster-id", "flexvm"},
		{"push-empty", "", "7", "a", "b"},
		{"eventarc-structured", "hello", "2070443601311540", "a", ""},
		{"unwrapped-raw", "not even JSON", "2070443601311540", "cluster-id", "flexvm"},
		{"unwrapped-bare", "tick", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			var d *Delivery
			answer := b.deliver(recorded(t, c.name), func(_ context.Context, in *Delivery) error { d = in; return nil })
			if answer.StatusCode != http.StatusNoContent || d == nil {
				t.Fatalf("%d: %s", answer.StatusCode, b.log)
			}
			if d.Event != nil || string(d.Data()) != c.data || d.ID() != c.id || d.Message.Attributes[c.attribute] != c.value {
				t.Errorf("%+v, %+v", d, d.Message)
			}
			if _, err := d.Decode(); err == nil {
				t.Error("it was read as an event")
			}
		})
	}
}

func TestAuditLogByEventarc(t *testing.T) {
	b := newBench(t)
	b.deliver(recorded(t, "audit"), func(_ context.Context, d *Delivery) error {
		if d.Type() != "google.cloud.audit.log.v1.written" || !json.Valid(d.Data()) {
			t.Errorf("%s: %s", d.Type(), d.Data())
		}
		return nil
	})
}

// TestAnswers goes through what a function may return.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name       string
		err        error
		status     int
		answer     string
		quarantine string
	}{
		{"done", nil, 204, done, ""},
		{"ignored", Ignored("unknown kind", "x.y"), 204, ignored, ""},
		{"ignored, told from afar", fmt.Errorf("deciding, %w", Ignored("unknown kind", "x.y")), 204, ignored, ""},
		{"refused", Refusedf("the hostlist is %q", "a["), 204, quarantined, `the hostlist is "a["`},
		{"too large", fmt.Errorf("posting, %w", store.ErrTooLarge), 204, quarantined, "posting, too large for one commit"},
		{"the store is down", errors.New("100%s\nof nothing"), 503, again, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			answer := b.deliver(recorded(t, "push"), func(context.Context, *Delivery) error { return c.err })
			if answer.StatusCode != c.status || (answer.Header.Get("Retry-After") != "") != (c.status == 503) {
				t.Errorf("%d, Retry-After %q", answer.StatusCode, answer.Header.Get("Retry-After"))
			}
			if n := b.count(t, "convoke.deliveries", "answer="+c.answer+",form=push,function=resize"); n != 1 {
				t.Errorf("counted %g times", n)
			}
			q := b.quarantined(t)
			if (c.quarantine == "") != (len(q) == 0) {
				t.Fatalf("quarantined: %+v", q)
			}
			if len(q) > 0 && (q[0].Reason != c.quarantine || q[0].Source != "resize "+sub || q[0].Type != events.TypeNodeBoot || q[0].Size != len(q[0].Data) || q[0].Size == 0) {
				t.Errorf("quarantined: %+v", q[0])
			}
		})
	}
	t.Run("ignored ones are counted by reason", func(t *testing.T) {
		b := newBench(t)
		b.deliver(recorded(t, "push"), func(context.Context, *Delivery) error { return Ignored("unknown kind", "x.y") })
		if b.count(t, "convoke.deliveries.ignored", "function=resize,reason=unknown kind") != 1 {
			t.Error("not counted")
		}
	})
}

func TestErrorsAreLoggedAsTheyAre(t *testing.T) {
	b := newBench(t)
	b.deliver(recorded(t, "push"), func(context.Context, *Delivery) error { return errors.New("100%s of\nwhat %d") })
	var entry map[string]any
	if err := json.Unmarshal(b.log.Bytes(), &entry); err != nil {
		t.Fatal(err, b.log)
	}
	if entry["error"] != "100%s of\nwhat %d" || entry["severity"] != "ERROR" || entry["id"] != "boot-1" || entry["attempt"] != 3.0 {
		t.Errorf("%v", entry)
	}
}

func TestPanic(t *testing.T) {
	b := newBench(t)
	answer := b.deliver(recorded(t, "push"), func(context.Context, *Delivery) error { panic("no %s\nway") })
	if answer.StatusCode != http.StatusInternalServerError || !strings.Contains(b.log.String(), `"panic":"no %s\nway"`) || !strings.Contains(b.log.String(), "delivery_test.go") {
		t.Errorf("%d: %s", answer.StatusCode, b.log)
	}
	if answer := b.deliver(recorded(t, "push"), func(context.Context, *Delivery) error { return nil }); answer.StatusCode != 204 {
		t.Errorf("after it: %d", answer.StatusCode)
	}
}

// TestMalformed: what cannot be read is put aside, once, and acknowledged; the function never sees it.
func TestMalformed(t *testing.T) {
	for _, c := range []struct {
		name    string
		headers map[string]string
		body    string
		reason  string
	}{
		{"a structured event that is no JSON", map[string]string{"Content-Type": "application/cloudevents+json"}, "{", "reading a structured CloudEvent"},
		{"a structured event without a type", map[string]string{"Content-Type": "application/cloudevents+json"}, `{"specversion":"1.0","id":"1","source":"a"}`, "type"},
		{"a structured event in another format", map[string]string{"Content-Type": "application/cloudevents+xml"}, `<a/>`, "structured"},
		{"a batch", map[string]string{"Content-Type": "application/cloudevents-batch+json"}, `[]`, "batch"},
		{"a binary event without an id", map[string]string{"Ce-Specversion": "1.0", "Ce-Type": "a", "Ce-Source": "b"}, `{}`, "id"},
		{"a binary event of the future", map[string]string{"Ce-Specversion": "9.0", "Ce-Type": "a", "Ce-Source": "b", "Ce-Id": "c"}, `{}`, "CloudEvent"},
		{"a header that is only the prefix", map[string]string{"Ce-Specversion": "1.0", "Ce-Type": "a", "Ce-": "x"}, `{}`, "CloudEvent"},
		{"a time that is none", map[string]string{"Ce-Specversion": "1.0", "Ce-Type": "a", "Ce-Source": "b", "Ce-Id": "c", "Ce-Time": "noon"}, `{}`, "CloudEvent"},
		{"messagePublished without a message", map[string]string{"Ce-Specversion": "1.0", "Ce-Type": TypeMessagePublished, "Ce-Source": "b", "Ce-Id": "c"}, `{"a":1}`, "not a Pub/Sub message"},
		{"a push whose event is broken", nil, `{"subscription":"s","message":{"messageId":"1","data":"e30=","attributes":{"ce-type":"a","ce-time":"noon"}}}`, "time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			for range 2 {
				r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body))
				for k, v := range c.headers {
					r.Header[k] = []string{v}
				}
				answer := b.deliver(r, func(context.Context, *Delivery) error { t.Error("the function was called"); return nil })
				if answer.StatusCode != http.StatusNoContent {
					t.Errorf("%d: %s", answer.StatusCode, b.log)
				}
			}
			q := b.quarantined(t)
			if len(q) != 1 || !strings.Contains(q[0].Reason, c.reason) || string(q[0].Data) != c.body || q[0].Size != len(c.body) {
				t.Errorf("quarantined: %+v", q)
			}
		})
	}
}

func TestTooLarge(t *testing.T) {
	b := newBench(t)
	body := bytes.Repeat([]byte("x"), MaxBody+5)
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	answer := b.deliver(r, func(context.Context, *Delivery) error { t.Error("the function was called"); return nil })
	q := b.quarantined(t)
	if answer.StatusCode != 204 || len(q) != 1 || q[0].Size != MaxBody+5 || len(q[0].Data) != store.MaxQuarantined {
		t.Errorf("%d, %d quarantined", answer.StatusCode, len(q))
	}
}

// TestNoQuarantine: what cannot be put aside is not acknowledged either.
func TestNoQuarantine(t *testing.T) {
	b := newBench(t)
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	answer := b.deliver(recorded(t, "push"), func(context.Context, *Delivery) error { return Refusedf("no") })
	if answer.StatusCode != 503 || !strings.Contains(b.log.String(), "could not be quarantined") {
		t.Errorf("%d: %s", answer.StatusCode, b.log)
	}
}

func TestBrokenOff(t *testing.T) {
	b := newBench(t)
	r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader("{"), brokenReader{}))
	answer := b.deliver(r, func(context.Context, *Delivery) error { t.Error("the function was called"); return nil })
	if answer.StatusCode != 503 || len(b.quarantined(t)) != 0 {
		t.Errorf("%d: half a request was taken for a whole one", answer.StatusCode)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestNotADelivery(t *testing.T) {
	b := newBench(t)
	answer := b.deliver(httptest.NewRequest(http.MethodGet, "/", nil), nil)
	if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != "POST" {
		t.Errorf("%d", answer.StatusCode)
	}
}

// TestManyAtOnce: a hundred and more deliveries are inside the function at the same time, over real connections, and as many again after them.
func TestManyAtOnce(t *testing.T) {
	const many = 120
	b := newBench(t)
	for range 2 {
		var inside sync.WaitGroup
		inside.Add(many)
		server := httptest.NewServer(b.Handler("resize", func(context.Context, *Delivery) error {
			inside.Done()
			inside.Wait() // until all the others are here, too
			return nil
		}))
		var senders sync.WaitGroup
		for range many {
			senders.Go(func() {
				r := recorded(t, "push")
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
					return
				}
				answer, err := http.Post(server.URL, "application/json", bytes.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				_ = answer.Body.Close()
				if answer.StatusCode != 204 {
					t.Errorf("%d", answer.StatusCode)
				}
			})
		}
		senders.Wait()
		server.Close()
	}
	if n := b.count(t, "convoke.deliveries", "answer=done,form=push,function=resize"); n != 2*many {
		t.Errorf("%g deliveries were counted", n)
	}
}

// TestLargeOnesWaitTheirTurn: only a few deliveries that may hold a whole cluster are inside at the same time.
func TestLargeOnesWaitTheirTurn(t *testing.T) {
	b := newBench(t)
	entered, leave := make(chan struct{}, 100), make(chan struct{})
	fn := func(ctx context.Context, _ *Delivery) error {
		entered <- struct{}{}
		<-leave
		return ctx.Err()
	}
	body := `{"subscription":"s","message":{"messageId":"1","data":"` + strings.Repeat("AAAA", large/4) + `"}}`
	var all sync.WaitGroup
	for range 3 * largeAtOnce {
		all.Go(func() {
			if answer := b.deliver(httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), fn); answer.StatusCode != 204 {
				t.Errorf("%d", answer.StatusCode)
			}
		})
	}
	for range largeAtOnce {
		<-entered
	}
	if n := len(entered); n != 0 {
		t.Errorf("%d too many are inside", n)
	}
	// One that nobody waits for any longer gives up its place in the queue.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if answer := b.deliver(httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)).WithContext(ctx), fn); answer.StatusCode != 503 {
		t.Errorf("%d", answer.StatusCode)
	}
	// Small ones pass by.
	if answer := b.deliver(recorded(t, "push"), func(context.Context, *Delivery) error { return nil }); answer.StatusCode != 204 {
		t.Errorf("%d", answer.StatusCode)
	}
	close(leave)
	all.Wait()
}

func TestGate(t *testing.T) {
	var g Gate
	inside, leave := make(chan struct{}), make(chan struct{})
	h := g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(inside)
		<-leave
		w.WriteHeader(http.StatusNoContent)
	}))
	first := httptest.NewRecorder()
	var all sync.WaitGroup
	all.Go(func() { h.ServeHTTP(first, httptest.NewRequest(http.MethodPost, "/", nil)) })
	<-inside

	late, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("ten seconds are over"))
	if err := g.Drain(late); err == nil || err.Error() != "waiting for 1 request(s) in flight, ten seconds are over" {
		t.Errorf("draining with one inside: %v", err)
	}
	second := httptest.NewRecorder()
	h.ServeHTTP(second, httptest.NewRequest(http.MethodPost, "/", nil))
	if second.Code != http.StatusServiceUnavailable || second.Header().Get("Retry-After") == "" {
		t.Errorf("one that comes late: %d", second.Code)
	}
	close(leave)
	if err := g.Drain(context.Background()); err != nil || g.InFlight() != 0 {
		t.Errorf("drained: %v", err)
	}
	all.Wait()
	if first.Code != http.StatusNoContent {
		t.Errorf("the one inside was cut off: %d", first.Code)
	}
}

// TestGateWaitsForTheLast: that one of two has left is not enough.
func TestGateWaitsForTheLast(t *testing.T) {
	var g Gate
	inside := make(chan struct{}, 2)
	h := g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		inside <- struct{}{}
		<-r.Context().Done()
	}))
	var each [2]struct {
		leave context.CancelFunc
		left  sync.WaitGroup
	}
	for i := range each {
		ctx, leave := context.WithCancel(context.Background())
		each[i].leave = leave
		each[i].left.Go(func() {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx))
		})
		<-inside
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for i := range each {
		if err := g.Drain(over); err == nil {
			t.Errorf("drained with %d inside", len(each)-i)
		}
		each[i].leave()
		each[i].left.Wait()
	}
	if err := g.Drain(context.Background()); err != nil {
		t.Error(err)
	}
}

// FuzzRead: whatever is sent is read or refused, and never half.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.http")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		r := recorded(f, strings.TrimSuffix(filepath.Base(file), ".http"))
		body, err := io.ReadAll(r.Body)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(r.Header.Get("Content-Type"), r.Header.Get("Ce-Type"), r.Header.Get("Ce-Id"), r.Header.Get(headerMessageID), body)
	}
	f.Fuzz(func(t *testing.T, contentType, typ, id, message string, body []byte) {
		h := http.Header{"Content-Type": {contentType}, "Ce-Type": {typ}, "Ce-Id": {id}, "Ce-Source": {"//a"}, "Ce-Specversion": {"1.0"}, headerMessageID: {message}}
		if typ == "" {
			h.Del("Ce-Specversion")
		}
		checkRead(t, h, body)
	})
}

func checkRead(t *testing.T, h http.Header, body []byte) {
	d, err := read(h, body)
	if (d == nil) == (err == nil) {
		t.Fatalf("%v, %v", d, err)
	}
	if d == nil {
		return
	}
	if d.Event == nil && d.Message == nil {
		t.Fatal("neither an event nor a message")
	}
	if d.Event != nil && (d.Event.ID() == "" || d.Event.Type() == "" || d.Event.Source() == "") {
		t.Fatalf("an event without an identity: %s", d.Event)
	}
	_, _ = d.Decode()
	again, err := read(h, body)
	if err != nil || !bytes.Equal(d.Data(), again.Data()) || d.ID() != again.ID() {
		t.Fatalf("read twice, it is not the same: %v", err)
	}
}
