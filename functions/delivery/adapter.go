package delivery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

// MaxBody is the largest request that is read. A Pub/Sub message may have 10 MB, which base64 in an envelope makes 13.4.
const MaxBody = 16 << 20

const (
	// large is the size from which on a delivery may hold a whole cluster's state, which takes tens of megabytes once
	// it is read; so few of them are dealt with at a time.
	large       = 256 << 10
	largeAtOnce = 4
)

// retryAfter is what a sender is asked to wait. Pub/Sub goes by its subscription's back-off and does not read it.
const retryAfter = 10 * time.Second

// Quarantine keeps what could not be understood.
type Quarantine interface {
	Quarantine(ctx context.Context, q store.Quarantined) error
}

// Options are what an adapter is made of. All fields are needed.
type Options struct {
	Quarantine Quarantine
	Log        *slog.Logger
	Meter      metric.Meter
	Now        func() time.Time
}

// Adapter makes http.Handlers of Funcs.
type Adapter struct {
	Options
	deliveries metric.Int64Counter
	ignored    metric.Int64Counter
	took       metric.Float64Histogram
	slots      chan struct{}
}

// NewAdapter makes an adapter.
func NewAdapter(o Options) (*Adapter, error) {
	a := &Adapter{Options: o, slots: make(chan struct{}, largeAtOnce)}
	var err1, err2, err3 error
	a.deliveries, err1 = o.Meter.Int64Counter("convoke.deliveries", metric.WithDescription("Deliveries, by function, form and answer."))
	a.ignored, err2 = o.Meter.Int64Counter("convoke.deliveries.ignored", metric.WithDescription("Deliveries of no use, by function and reason."))
	a.took, err3 = o.Meter.Float64Histogram("convoke.delivery.duration", metric.WithUnit("s"), metric.WithDescription("Time to answer a delivery."))
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("making the counters of deliveries, %w", err)
	}
	return a, nil
}

// The answers that are counted.
const (
	done        = "done"
	ignored     = "ignored"
	quarantined = "quarantined"
	again       = "again"
	panicked    = "panicked"
)

// Handler is the function of that name as an http.Handler.
func (a *Adapter) Handler(name string, fn Func) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, name+" takes events, which are POSTed", http.StatusMethodNotAllowed)
			return
		}
		c := &call{a: a, name: name, log: a.Log.With("function", name), began: a.Now(), form: "none"}
		answer := c.answer(r, fn)
		function := attribute.String("function", name)
		a.deliveries.Add(r.Context(), 1, metric.WithAttributes(function, attribute.String("form", string(c.form)), attribute.String("answer", answer)))
		a.took.Record(r.Context(), a.Now().Sub(c.began).Seconds(), metric.WithAttributes(function))
		switch answer {
		case again:
			w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
			http.Error(w, "not dealt with; deliver it again", http.StatusServiceUnavailable)
		case panicked:
			http.Error(w, "the function failed", http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
}

// call is one request being answered.
type call struct {
	a     *Adapter
	name  string
	log   *slog.Logger
	began time.Time
	form  Form
}

func (c *call) answer(r *http.Request, fn Func) (answer string) {
	ctx := r.Context()
	defer func() {
		if p := recover(); p != nil {
			c.log.ErrorContext(ctx, "the function panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			answer = panicked
		}
	}()
	if r.ContentLength < 0 || r.ContentLength >= large {
		select {
		case c.a.slots <- struct{}{}:
			defer func() { <-c.a.slots }()
		case <-ctx.Done():
			return again
		}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	if err != nil {
		c.log.WarnContext(ctx, "a request broke off", "error", err)
		return again
	}
	if len(body) > MaxBody {
		return c.quarantine(ctx, nil, body, fmt.Errorf("the request is larger than %d bytes", MaxBody), max(r.ContentLength, int64(len(body))))
	}
	d, err := read(r.Header, body)
	if err != nil {
		return c.quarantine(ctx, nil, body, err, int64(len(body)))
	}
	c.form = d.Form
	c.log = c.log.With("type", d.Type(), "id", d.ID())
	return c.conclude(ctx, d, fn(ctx, d))
}

// conclude turns what a function returned into an answer.
func (c *call) conclude(ctx context.Context, d *Delivery, err error) string {
	var nothing *IgnoredError
	var refused *RefusedError
	switch {
	case err == nil:
		return done
	case errors.As(err, &nothing):
		c.a.ignored.Add(ctx, 1, metric.WithAttributes(attribute.String("function", c.name), attribute.String("reason", nothing.Reason)))
		c.log.DebugContext(ctx, "a delivery was ignored", "reason", nothing.Reason, "detail", nothing.Detail)
		return ignored
	case errors.As(err, &refused):
		return c.quarantine(ctx, d, d.Data(), refused, int64(len(d.Data())))
	case errors.Is(err, store.ErrTooLarge):
		// It will not be smaller next time.
		return c.quarantine(ctx, d, d.Data(), err, int64(len(d.Data())))
	}
	c.log.ErrorContext(ctx, "a delivery failed and is to come again", "error", err, "attempt", d.Attempt)
	return again
}

// maxReason bounds the reason, which may quote what was sent.
const maxReason = 4 << 10

func (c *call) quarantine(ctx context.Context, d *Delivery, data []byte, reason error, size int64) string {
	text := reason.Error()
	q := store.Quarantined{
		// Both may quote what was sent, which need not be text.
		Source: c.name, Reason: strings.ToValidUTF8(text[:min(len(text), maxReason)], "\uFFFD"), Received: cluster.Moment(c.a.Now()),
		Data: data[:min(len(data), store.MaxQuarantined)], Size: int(size),
	}
	// The same thing delivered again gets the same id: by what identifies it, or, where nothing does, by what it says.
	identity := c.name + "\x00" + hex.EncodeToString(hash(data))
	if d != nil {
		q.Type = strings.ToValidUTF8(d.Type(), "\uFFFD")
		if d.Subscription != "" {
			q.Source += " " + strings.ToValidUTF8(d.Subscription, "\uFFFD")
		}
		if d.ID() != "" {
			identity = c.name + "\x00" + d.Type() + "\x00" + d.ID()
			if d.Event != nil {
				identity += "\x00" + d.Event.Source()
			}
		}
	}
	q.ID = hex.EncodeToString(hash([]byte(identity)))[:32]
	if err := c.a.Quarantine.Quarantine(ctx, q); err != nil {
		c.log.ErrorContext(ctx, "what cannot be read could not be quarantined either, and is to come again", "reason", q.Reason, "error", err)
		return again
	}
	c.log.WarnContext(ctx, "a delivery was quarantined", "quarantine", q.ID, "reason", q.Reason, "size", q.Size)
	return quarantined
}

func hash(b []byte) []byte {
	h := sha256.Sum256(b)
	return h[:]
}
