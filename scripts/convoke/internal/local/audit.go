package local

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2"

	"github.com/convoke-hpc/convoke/events/auditlog"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

// auditRoads bring audit-log entries to the functions by the two roads that a deployment has: the log sink, through
// Pub/Sub, and Eventarc. One loss comes by both.
type auditRoads struct {
	publisher *pubsub.Publisher
	functions http.Handler
	log       *slog.Logger

	ctx  context.Context // ends with close
	stop context.CancelFunc
	work sync.WaitGroup
}

func openRoads(publisher *pubsub.Publisher, functions http.Handler, log *slog.Logger) *auditRoads {
	a := &auditRoads{publisher: publisher, functions: functions, log: log}
	a.ctx, a.stop = context.WithCancel(context.Background())
	return a
}

// close gives up what is still under way: whatever may be lost on the way from an audit log may be lost here.
func (a *auditRoads) close() {
	a.stop()
	a.work.Wait()
}

// take is gcp.Options.Events. Entries come one at a time and in order, and none is held up by a slow function.
func (a *auditRoads) take(_ context.Context, e gcp.LogEntry) {
	if a.ctx.Err() != nil || e.Instance == "" {
		return
	}
	if sunk(e.LogName, e.Method) {
		a.work.Go(func() {
			a.persist("the log sink", func(ctx context.Context) error {
				return publish(ctx, a.publisher, e.JSON, map[string]string{"logging.googleapis.com/timestamp": e.Timestamp.UTC().Format(time.RFC3339Nano)})
			})
		})
	}
	if function, ok := eventarc[e.Method]; ok {
		a.work.Go(func() {
			a.persist("Eventarc", func(ctx context.Context) error { return a.call(ctx, function, e) })
		})
	}
}

// roadPause is the first pause after a failure; it doubles up to roadPauseMax.
const (
	roadPause    = 500 * time.Millisecond
	roadPauseMax = 30 * time.Second
)

// persist tries until it succeeds.
func (a *auditRoads) persist(road string, try func(context.Context) error) {
	for wait := roadPause; ; wait = min(2*wait, roadPauseMax) {
		err := try(a.ctx)
		if err == nil || a.ctx.Err() != nil {
			return
		}
		a.log.WarnContext(a.ctx, "an audit-log entry will be delivered again", "road", road, "in", wait, "error", err)
		select {
		case <-a.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// call posts an entry to a function as Eventarc does: a CloudEvent in binary mode.
func (a *auditRoads) call(ctx context.Context, function string, e gcp.LogEntry) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+functionsHost+"/"+function, bytes.NewReader(e.JSON))
	if err != nil {
		return err
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json; charset=utf-8", "Ce-Specversion": "1.0", "Ce-Type": auditlog.Type,
		"Ce-Source": "//cloudaudit.googleapis.com/" + e.LogName, "Ce-Id": e.LogName + e.InsertID,
		"Ce-Time": e.Timestamp.UTC().Format(time.RFC3339Nano), "Ce-Servicename": "compute.googleapis.com", "Ce-Methodname": e.Method,
		"Ce-Resourcename": e.ResourceName, "Ce-Subject": "compute.googleapis.com/" + e.ResourceName,
	} {
		r.Header.Set(k, v)
	}
	r.RequestURI = r.URL.RequestURI()
	answer := &answer{header: http.Header{}}
	a.functions.ServeHTTP(answer, r)
	if answer.code >= http.StatusBadRequest {
		return fmt.Errorf("function %s answered %d: %s", function, answer.code, bytes.TrimSpace(answer.body.Bytes()))
	}
	return nil
}

// answer keeps how a handler answers.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (s *answer) Header() http.Header { return s.header }

func (s *answer) WriteHeader(code int) {
	if s.code == 0 {
		s.code = code
	}
}

func (s *answer) Write(p []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	return s.body.Write(p)
}
