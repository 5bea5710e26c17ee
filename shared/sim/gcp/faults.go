package gcp

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"sync"
	"time"
)

// A Fault is something that goes wrong with requests.
type Fault struct {
	// Method is which requests: "compute.instances.insert"; a "*" stands for
	// anything, and an empty one for every method.
	Method string `json:"method"`
	// Path, when it is set, must match the request's path below the project,
	// such as "zones/*/instances/node-3", where "*" does not match a slash.
	Path string `json:"path,omitempty"`
	// Times is how many requests it strikes; 0 is until it is removed.
	Times int `json:"times,omitempty"`
	// Skip is how many matching requests pass before.
	Skip int `json:"skip,omitempty"`

	// Status and Reason refuse the request: 503 backendError, 429
	// rateLimitExceeded, 403 quotaExceeded and so on. Zero refuses nothing.
	Status  int    `json:"status,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// After carries the request out before it is refused: its answer is
	// lost.
	After bool `json:"after,omitempty"`
	// Drop cuts the connection in place of an answer, before or After.
	Drop bool `json:"drop,omitempty"`

	// Latency is by how much the request is late.
	Latency time.Duration `json:"latency,omitempty"`
	// Hold keeps the request waiting until the fault is removed: before it is
	// carried out, or After.
	Hold bool `json:"hold,omitempty"`

	// Omit leaves out of list answers what has one of these names, which may
	// hold "*".
	Omit []string `json:"omit,omitempty"`
	// OmitEvery leaves every nth resource out of list answers.
	OmitEvery int `json:"omitEvery,omitempty"`
	// Unreachable are zones that lists over all zones do not show. Such a
	// list succeeds, and says in warnings what it lacks.
	Unreachable []string `json:"unreachable,omitempty"`
}

// aboutLists says whether a fault changes what lists hold, rather than how
// requests fare.
func (f *Fault) aboutLists() bool {
	return len(f.Omit) > 0 || f.OmitEvery > 0 || len(f.Unreachable) > 0
}

type plannedFault struct {
	Fault
	id       int
	struck   int
	released chan struct{}
}

type faults struct {
	clock Clock

	mu      sync.Mutex
	last    int
	planned []*plannedFault
}

func newFaults(clock Clock) *faults { return &faults{clock: clock} }

// struck are the faults of one request.
type struck struct {
	clock  Clock
	faults []*plannedFault
	ctx    context.Context
}

func (f *faults) add(fault Fault) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	f.planned = append(f.planned, &plannedFault{Fault: fault, id: f.last, released: make(chan struct{})})
	return f.last
}

// remove ends a fault and releases what it holds; all of them with id 0.
func (f *faults) remove(id int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.planned)
	f.planned = slices.DeleteFunc(f.planned, func(p *plannedFault) bool {
		if id != 0 && p.id != id {
			return false
		}
		close(p.released)
		return true
	})
	return len(f.planned) < before
}

func (f *faults) close() { f.remove(0) }

// next takes what is planned for the call.
func (f *faults) next(c *call) *struck {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &struck{clock: f.clock, ctx: c.r.Context()}
	for _, p := range f.planned {
		if p.aboutLists() || !p.matches(c) {
			continue
		}
		if p.strikes() {
			out.faults = append(out.faults, p)
		}
	}
	return out
}

func (p *plannedFault) matches(c *call) bool {
	return matchesMethod(p.Method, c.route.name) && (p.Path == "" || matches(p.Path, c.key()))
}

// strikes counts a request that matches, and says whether it is struck.
func (p *plannedFault) strikes() bool {
	p.struck++
	return p.struck > p.Skip && (p.Times == 0 || p.struck <= p.Skip+p.Times)
}

// unreachable are the zones that a list over all zones cannot show.
func (f *faults) unreachable(method string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var zones []string
	for _, p := range f.planned {
		if len(p.Unreachable) > 0 && matchesMethod(p.Method, method) && p.strikes() {
			zones = append(zones, p.Unreachable...)
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// omit leaves out of a list what faults say.
func (f *faults) omit(method string, rows []row) []row {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.planned {
		if (len(p.Omit) == 0 && p.OmitEvery == 0) || !matchesMethod(p.Method, method) {
			continue
		}
		if !p.strikes() {
			continue
		}
		kept := make([]row, 0, len(rows))
		for i, r := range rows {
			if matchesAny(p.Omit, lastSegment(r.key)) || (p.OmitEvery > 0 && i%p.OmitEvery == p.OmitEvery-1) {
				continue
			}
			kept = append(kept, r)
		}
		rows = kept
	}
	return rows
}

// before is what goes wrong before the request is carried out.
func (f *struck) before(ctx context.Context) error {
	for _, p := range f.faults {
		if err := f.delay(ctx, p.Latency, nil); err != nil {
			return err
		}
		if p.After {
			continue
		}
		if err := f.strike(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// after is what goes wrong once the request is carried out.
func (f *struck) after() error {
	for _, p := range f.faults {
		if !p.After {
			continue
		}
		if err := f.strike(f.ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (f *struck) strike(ctx context.Context, p *plannedFault) error {
	if p.Hold {
		if err := f.delay(ctx, 0, p.released); err != nil {
			return err
		}
	}
	if p.Drop {
		return http.ErrAbortHandler
	}
	if p.Status == 0 {
		return nil
	}
	reason, message := p.Reason, p.Message
	if reason == "" {
		reason = usualReason(p.Status)
	}
	if message == "" {
		message = fmt.Sprintf("A planned fault: %d %s.", p.Status, reason)
	}
	return &apiError{status: p.Status, reason: reason, message: message}
}

// delay waits for d, and for released when there is one.
func (f *struck) delay(ctx context.Context, d time.Duration, released <-chan struct{}) error {
	if d > 0 {
		over := make(chan struct{})
		timer := f.clock.AfterFunc(d, func() { close(over) })
		defer timer.Stop()
		released = over
	}
	if released == nil {
		return nil
	}
	select {
	case <-released:
		return nil
	case <-ctx.Done():
		return http.ErrAbortHandler // there is nobody to answer
	}
}

func usualReason(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "invalid"
	case http.StatusUnauthorized:
		return "authError"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusNotFound:
		return "notFound"
	case http.StatusConflict:
		return "alreadyExists"
	case http.StatusPreconditionFailed:
		return "conditionNotMet"
	case http.StatusTooManyRequests:
		return "rateLimitExceeded"
	}
	return "backendError"
}

func matchesMethod(pattern, method string) bool { return pattern == "" || matches(pattern, method) }

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// AddFault plans a fault and returns its number.
func (s *Server) AddFault(f Fault) int { return s.faults.add(f) }

// FailNext refuses the next n requests of a method, before they are carried
// out, with the status and its usual reason.
func (s *Server) FailNext(method string, n, status int) int {
	return s.AddFault(Fault{Method: method, Times: n, Status: status})
}

// LoseNext carries out the next n requests of a method and answers them with
// 503 all the same.
func (s *Server) LoseNext(method string, n int) int {
	return s.AddFault(Fault{Method: method, Times: n, Status: http.StatusServiceUnavailable, After: true})
}

// RemoveFault ends a fault and lets go what it holds. It says whether there
// was one.
func (s *Server) RemoveFault(number int) bool { return number > 0 && s.faults.remove(number) }

// ClearFaults ends every fault.
func (s *Server) ClearFaults() { s.faults.remove(0) }

func (f *faults) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.planned)
}
