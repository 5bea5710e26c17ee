package telemetry

import (
	"context"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// Format is how log lines look.
type Format string

// The formats.
const (
	Auto Format = ""     // text on a terminal, JSON everywhere else
	JSON Format = "json" // one object a line, with the fields that Cloud Logging knows
	Text Format = "text" // for people
)

// LogOptions choose what a logger writes.
type LogOptions struct {
	Format Format
	Level  slog.Leveler // nil: Info
	// Project is the Google Cloud project, which Cloud Logging wants in a trace's name. Without it traces are not named.
	Project string
	// Labels are put on every entry, where Cloud Logging can search for them.
	Labels map[string]string
}

// LevelCritical is for what nobody will repair without a person.
const LevelCritical = slog.LevelError + 4

// NewLogger makes a logger that writes to w.
func NewLogger(w io.Writer, o LogOptions) *slog.Logger {
	if o.Format == Auto {
		o.Format = JSON
		if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			o.Format = Text
		}
	}
	if o.Format == Text {
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: o.Level, ReplaceAttr: forPeople}))
	}
	base := slog.Handler(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: o.Level, ReplaceAttr: forCloudLogging}))
	if len(o.Labels) > 0 {
		var labels []slog.Attr
		for k, v := range o.Labels {
			labels = append(labels, slog.String(k, v))
		}
		slices.SortFunc(labels, func(a, b slog.Attr) int { return strings.Compare(a.Key, b.Key) })
		base = base.WithAttrs([]slog.Attr{{Key: "logging.googleapis.com/labels", Value: slog.GroupValue(labels...)}})
	}
	return slog.New(&cloudHandler{base: base, project: o.Project})
}

// forPeople leaves the date out: who watches a terminal knows it.
func forPeople(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		a.Value = slog.StringValue(a.Value.Time().Format("15:04:05.000"))
	}
	return a
}

// forCloudLogging gives the fields of an entry the names that Cloud Logging takes out of the payload.
func forCloudLogging(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.MessageKey:
		a.Key = "message"
	case slog.LevelKey:
		level, _ := a.Value.Any().(slog.Level)
		return slog.String("severity", severity(level))
	}
	return a
}

func severity(l slog.Level) string {
	switch {
	case l >= LevelCritical:
		return "CRITICAL"
	case l >= slog.LevelError:
		return "ERROR"
	case l >= slog.LevelWarn:
		return "WARNING"
	case l >= slog.LevelInfo:
		return "INFO"
	}
	return "DEBUG"
}

// cloudHandler puts the trace of the context on each entry. The trace's fields must stand at the top of the entry, also for a
// logger that has opened a group, so groups are kept here and closed when the entry is written.
type cloudHandler struct {
	base    slog.Handler
	project string
	open    []group
}

// group is a group that a logger has opened, with the attributes that it was given since.
type group struct {
	name  string
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h *cloudHandler) Enabled(ctx context.Context, l slog.Level) bool { return h.base.Enabled(ctx, l) }

// Handle implements slog.Handler.
func (h *cloudHandler) Handle(ctx context.Context, r slog.Record) error {
	trace := traceAttrs(ctx, h.project)
	if len(h.open) == 0 {
		if len(trace) > 0 {
			r = r.Clone()
			r.AddAttrs(trace...)
		}
		return h.base.Handle(ctx, r)
	}
	var attrs []slog.Attr
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	for _, g := range slices.Backward(h.open) {
		attrs = []slog.Attr{{Key: g.name, Value: slog.GroupValue(slices.Concat(g.attrs, attrs)...)}}
	}
	closed := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	closed.AddAttrs(attrs...)
	closed.AddAttrs(trace...)
	return h.base.Handle(ctx, closed)
}

// WithAttrs implements slog.Handler.
func (h *cloudHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	if len(h.open) == 0 {
		next.base = h.base.WithAttrs(attrs)
		return &next
	}
	next.open = slices.Clone(h.open)
	last := &next.open[len(next.open)-1]
	last.attrs = slices.Concat(last.attrs, attrs)
	return &next
}

// WithGroup implements slog.Handler.
func (h *cloudHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	next := *h
	next.open = append(slices.Clone(h.open), group{name: name})
	return &next
}

func traceAttrs(ctx context.Context, project string) []slog.Attr {
	t, ok := TraceFrom(ctx)
	if !ok || project == "" {
		return nil
	}
	attrs := []slog.Attr{slog.String("logging.googleapis.com/trace", "projects/"+project+"/traces/"+t.ID)}
	if t.Span != "" {
		attrs = append(attrs, slog.String("logging.googleapis.com/spanId", t.Span))
	}
	if t.Sampled {
		attrs = append(attrs, slog.Bool("logging.googleapis.com/trace_sampled", true))
	}
	return attrs
}
