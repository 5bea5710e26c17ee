package gcp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
)

type operationState struct {
	Target      string // key of what it is about
	Arg         string // what carries it out needs to know
	Method      string // "compute.instances.insert"; "" is not in the audit log
	RequestID   string
	Fingerprint string
	By          author
	Started     time.Time
	Ended       time.Time
}

type operation = record[*computepb.Operation, operationState]

// operationSpec says what an operation is to be.
type operationSpec struct {
	scope    string // "global", "regions/R", "zones/Z"
	kind     string // operationType
	target   string
	targetID uint64
	method   string
	arg      string
	by       author // set for those that no call started
}

const waitRoute = "compute.operations.wait"

func operationRoutes() []route {
	var out []route
	for _, scope := range []string{"global", "regions/{region}", "zones/{zone}"} {
		base := "/compute/v1/projects/{project}/" + scope + "/operations"
		out = append(out,
			route{"GET", base, "compute.operations.list", (*Server).listOperations},
			route{"GET", base + "/{operation}", "compute.operations.get", (*Server).getOperation},
			route{"DELETE", base + "/{operation}", "compute.operations.delete", (*Server).deleteOperation},
			route{"POST", base + "/{operation}/wait", waitRoute, (*Server).getOperation},
		)
	}
	return out
}

// An author is who issued an operation.
type author struct{ Principal, Agent string }

// theGroup is the service itself, on behalf of a managed instance group.
func (s *Server) theGroup() author {
	return author{fmt.Sprintf("%d@cloudservices.gserviceaccount.com", s.opts.ProjectNumber), "GCE Managed Instance Group"}
}

// start records an operation that runs. The caller plans what finishes it. A
// nil call is for what no request started.
func (s *Server) start(c *call, spec operationSpec) *operation {
	s.forgetOperations()
	if c != nil {
		spec.by = author{s.opts.User, c.r.UserAgent()}
	}
	id := s.newID()
	name := fmt.Sprintf("operation-%d-%013x-%08x-%08x", s.now.UnixMilli(), mix(id)>>12, uint32(id), uint32(id>>32)) //nolint:gosec // digits of a name
	key := spec.scope + "/operations/" + name
	now := timestamp(s.now)
	op := &computepb.Operation{
		Kind: new("compute#operation"), Id: new(id), Name: new(name), OperationType: new(spec.kind),
		Status: computepb.Operation_RUNNING.Enum(), Progress: new(int32(0)),
		InsertTime: new(now), StartTime: new(now), User: new(spec.by.Principal),
		SelfLink: new(s.link(key)), TargetLink: new(s.link(spec.target)), TargetId: new(spec.targetID),
	}
	switch place, name, _ := strings.Cut(spec.scope, "/"); place {
	case "zones":
		op.Zone = new(s.link("zones/" + name))
	case "regions":
		op.Region = new(s.link("regions/" + name))
	}
	state := operationState{Target: spec.target, Arg: spec.arg, Method: spec.method, By: spec.by, Started: s.now}
	if c != nil && c.requestID != "" {
		state.RequestID, state.Fingerprint = c.requestID, c.fingerprint
		s.byID[c.requestID] = key
	}
	r := s.operations.put(key, op, state)
	s.auditOperation(r, true, nil)
	return r
}

// answerWith starts an operation that a task of that kind carries out after d,
// and returns the request's answer.
func (s *Server) answerWith(c *call, spec operationSpec, d time.Duration, kind string) (wire, error) {
	op := s.start(c, spec)
	s.after(d, kind, op.Key, "")
	return encode(op.Wire)
}

// finish ends an operation, with a failure or nil.
func (s *Server) finish(key string, failed *failure) {
	op := s.operations.get(key)
	if op == nil || op.Wire.GetStatus() == computepb.Operation_DONE {
		return
	}
	op.Wire.Status = computepb.Operation_DONE.Enum()
	op.Wire.Progress = new(int32(100))
	op.Wire.EndTime = new(timestamp(s.now))
	op.State.Ended = s.now
	if failed != nil {
		op.Wire.Error = failed.error()
		status := failed.HTTP
		if status == 0 {
			status = http.StatusBadRequest
		}
		op.Wire.HttpErrorStatusCode = new(int32(status))
		op.Wire.HttpErrorMessage = new(strings.ToUpper(http.StatusText(status)))
	}
	s.operations.changed(op)
	s.ended = append(s.ended, key)
	s.auditOperation(op, false, failed)
	for _, done := range s.waiters[key] {
		close(done)
	}
	delete(s.waiters, key)
}

// forgetOperations drops those that ended too long ago to be listed.
func (s *Server) forgetOperations() {
	for len(s.ended) > 0 {
		op := s.operations.get(s.ended[0])
		if op != nil && s.now.Sub(op.State.Ended) < s.delays().Operations {
			return
		}
		if op != nil {
			s.dropOperation(op)
		}
		s.ended = s.ended[1:]
	}
}

func (s *Server) dropOperation(op *operation) {
	if s.byID[op.State.RequestID] == op.Key {
		delete(s.byID, op.State.RequestID)
	}
	s.operations.drop(op.Key)
}

// endedOperations are the finished ones of a loaded file, oldest first.
func (s *Server) endedOperations() []string {
	var ended []*operation
	for op := range s.operations.under("") {
		if op.Wire.GetStatus() == computepb.Operation_DONE {
			ended = append(ended, op)
		}
	}
	slices.SortStableFunc(ended, func(a, b *operation) int { return a.State.Ended.Compare(b.State.Ended) })
	keys := make([]string, len(ended))
	for i, op := range ended {
		keys[i] = op.Key
	}
	return keys
}

func (s *Server) getOperation(c *call) (wire, error) {
	r, ok := s.operations.show(strings.TrimSuffix(c.key(), "/wait"))
	if !ok {
		return nil, notFound(s.relative(strings.TrimSuffix(c.key(), "/wait")))
	}
	return r.encode()
}

func (s *Server) listOperations(c *call) (wire, error) {
	return s.list(c, "compute#operationList", s.operations.shown(c.key()+"/"))
}

func (s *Server) deleteOperation(c *call) (wire, error) {
	op := s.operations.get(c.key())
	if op == nil {
		return nil, notFound(s.relative(c.key()))
	}
	if op.Wire.GetStatus() != computepb.Operation_DONE {
		return nil, notReady(s.relative(c.key()))
	}
	s.dropOperation(op)
	return wire("{}"), nil
}

// longestWait is how long the service holds a wait request before it answers
// with an operation that still runs.
const longestWait = 2 * time.Minute

// waitForOperation holds the answer until the operation is done. The lock is
// not held.
func (s *Server) waitForOperation(c *call, answer wire) (wire, error) {
	key := strings.TrimSuffix(c.key(), "/wait")
	done := make(chan struct{})
	running := false
	err := s.locked(func() {
		op := s.operations.get(key)
		running = op != nil && op.Wire.GetStatus() != computepb.Operation_DONE
		if running {
			s.waiters[key] = append(s.waiters[key], done)
		}
	})
	if err != nil {
		return nil, err
	}
	if running {
		expired := make(chan struct{})
		timer := s.opts.Clock.AfterFunc(longestWait, func() { close(expired) })
		defer timer.Stop()
		select {
		case <-done:
		case <-expired:
		case <-c.r.Context().Done():
			return nil, http.ErrAbortHandler // there is nobody to answer
		}
	}
	err = s.locked(func() {
		s.waiters[key] = slices.DeleteFunc(s.waiters[key], func(d chan struct{}) bool { return d == done })
		if len(s.waiters[key]) == 0 {
			delete(s.waiters, key)
		}
		if op := s.operations.get(key); op != nil {
			answer, err = encode(op.Wire)
		}
	})
	return answer, err
}
