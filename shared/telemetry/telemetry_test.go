package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/slogtest"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/convoke-hpc/convoke/shared/telemetry"
)

func entries(t *testing.T, b *bytes.Buffer) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(b.String()) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		out = append(out, e)
	}
	return out
}

func TestEntriesAsCloudLoggingReadsThem(t *testing.T) {
	var b bytes.Buffer
	log := telemetry.NewLogger(&b, telemetry.LogOptions{
		Project: "team-train", Level: slog.LevelDebug, Labels: map[string]string{"function": "resize", "a": "b"},
	})
	ctx := telemetry.WithTrace(context.Background(), telemetry.Trace{ID: strings.Repeat("ab", 16), Span: "00f067aa0ba902b7", Sampled: true})
	log.DebugContext(ctx, "one")
	log.With("cluster", "flexvm").WithGroup("delivery").With("id", 7).WithGroup("empty").
		WarnContext(ctx, "two", "error", errors.New("100%s\nof it"), "severity", "mine")
	log.Log(context.Background(), telemetry.LevelCritical, "three")

	got := entries(t, &b)
	for _, e := range got {
		if e["time"] == "" {
			t.Error("an entry without a time")
		}
		delete(e, "time")
	}
	labels := map[string]any{"a": "b", "function": "resize"}
	trace := func(e map[string]any) map[string]any {
		e["logging.googleapis.com/labels"] = labels
		e["logging.googleapis.com/trace"] = "projects/team-train/traces/" + strings.Repeat("ab", 16)
		e["logging.googleapis.com/spanId"] = "00f067aa0ba902b7"
		e["logging.googleapis.com/trace_sampled"] = true
		return e
	}
	want := []map[string]any{
		trace(map[string]any{"severity": "DEBUG", "message": "one"}),
		trace(map[string]any{"severity": "WARNING", "message": "two", "cluster": "flexvm", "delivery": map[string]any{
			"id": 7.0, "empty": map[string]any{"error": "100%s\nof it", "severity": "mine"},
		}}),
		{"severity": "CRITICAL", "message": "three", "logging.googleapis.com/labels": labels},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestHandlerKeepsTheRules runs the standard library's own test of handlers.
func TestHandlerKeepsTheRules(t *testing.T) {
	var b bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		b.Reset()
		return telemetry.NewLogger(&b, telemetry.LogOptions{Project: "team-train"}).Handler()
	}, func(t *testing.T) map[string]any {
		e := entries(t, &b)[0]
		for ours, theirs := range map[string]string{"message": slog.MessageKey, "severity": slog.LevelKey} {
			e[theirs] = e[ours]
			delete(e, ours)
		}
		return e
	})
}

func TestTextForPeople(t *testing.T) {
	var b bytes.Buffer
	telemetry.NewLogger(&b, telemetry.LogOptions{Format: telemetry.Text}).Error("no %s\nluck", "error", errors.New("a\nb"))
	if got := b.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `msg="no %s\nluck" error="a\nb"`) {
		t.Errorf("%q", got)
	}
}

func TestTraced(t *testing.T) {
	id := strings.Repeat("0af7", 8)
	for _, c := range []struct {
		name, header, value string
		want                telemetry.Trace
	}{
		{"Google's", "X-Cloud-Trace-Context", id + "/123;o=1", telemetry.Trace{ID: id, Span: "000000000000007b", Sampled: true}},
		{"Google's, no span", "X-Cloud-Trace-Context", id, telemetry.Trace{ID: id}},
		{"W3C's", "traceparent", "00-" + id + "-00f067aa0ba902b7-01", telemetry.Trace{ID: id, Span: "00f067aa0ba902b7", Sampled: true}},
		{"neither", "X-Cloud-Trace-Context", "x\ny/../z", telemetry.Trace{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got telemetry.Trace
			h := telemetry.Traced(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, _ = telemetry.TraceFrom(r.Context()) }))
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.Header.Set(c.header, c.value)
			h.ServeHTTP(httptest.NewRecorder(), r)
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	m := telemetry.NewMetrics()
	ctx := context.Background()
	events, err := m.Meter().Int64Counter("convoke.events")
	if err != nil {
		t.Fatal(err)
	}
	took, err := m.Meter().Float64Histogram("convoke.took")
	if err != nil {
		t.Fatal(err)
	}
	level, err := m.Meter().Int64UpDownCounter("convoke.inflight")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		events.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", "tick"), attribute.String("answer", "done")))
	}
	events.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", "boot")))
	took.Record(ctx, 0.5)
	took.Record(ctx, 0.25)
	level.Add(ctx, 2)
	level.Add(ctx, -1)
	got, err := m.Read(ctx)
	want := []telemetry.Reading{
		{Name: "convoke.events", Attributes: "answer=done,kind=tick", Value: 3},
		{Name: "convoke.events", Attributes: "kind=boot", Value: 1},
		{Name: "convoke.inflight", Value: 1},
		{Name: "convoke.took", Value: 0.75, Count: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}
