package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
)

// Trace is the trace that a request belongs to, as the platform in front of us named it.
type Trace struct {
	ID      string // 32 hexadecimal digits
	Span    string // 16 hexadecimal digits, or ""
	Sampled bool
}

type traceKey struct{}

// WithTrace is a context whose log entries bear the trace.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceFrom is the context's trace.
func TraceFrom(ctx context.Context) (Trace, bool) {
	t, ok := ctx.Value(traceKey{}).(Trace)
	return t, ok
}

// Traced gives each request's context the trace that its headers name.
func Traced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t, ok := traceOf(r.Header); ok {
			r = r.WithContext(WithTrace(r.Context(), t))
		}
		next.ServeHTTP(w, r)
	})
}

var (
	w3cPattern   = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})`)
	cloudPattern = regexp.MustCompile(`^([0-9a-fA-F]{32})(?:/([0-9]{1,20}))?(?:;o=([0-9]))?$`)
)

func traceOf(h http.Header) (Trace, bool) {
	if m := w3cPattern.FindStringSubmatch(h.Get("traceparent")); m != nil {
		flags, err := strconv.ParseUint(m[3], 16, 8)
		return Trace{ID: m[1], Span: m[2], Sampled: err == nil && flags&1 != 0}, true
	}
	// TRACE_ID/SPAN_ID;o=OPTIONS, where the span is decimal although Cloud Logging wants it in hexadecimal.
	m := cloudPattern.FindStringSubmatch(h.Get("X-Cloud-Trace-Context"))
	if m == nil {
		return Trace{}, false
	}
	t := Trace{ID: m[1], Sampled: m[3] == "1"}
	if span, err := strconv.ParseUint(m[2], 10, 64); err == nil && span != 0 {
		t.Span = fmt.Sprintf("%016x", span)
	}
	return t, true
}
