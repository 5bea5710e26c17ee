package gcp

import (
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
)

// States of a resize request.
const (
	requestCreating  = "CREATING"
	requestAccepted  = "ACCEPTED"
	requestSucceeded = "SUCCEEDED"
	requestFailed    = "FAILED"
	requestCancelled = "CANCELLED"
)

type requestState struct {
	Names   []string // of the instances that it asks for
	Queued  bool     // waits for capacity
	Ticket  uint64   // its place in the queue
	Granted bool     // its VMs are being created
	Arrived int      // of its VMs have got their resources
}

type request = record[*computepb.InstanceGroupManagerResizeRequest, requestState]

// active says whether a request has not come to an end.
func active(r *request) bool {
	return r.Wire.GetState() == requestCreating || r.Wire.GetState() == requestAccepted
}

func requestRoutes() []route {
	const requests = "/compute/v1/projects/{project}/zones/{zone}/instanceGroupManagers/{instanceGroupManager}/resizeRequests"
	const one = requests + "/{resizeRequest}"
	const name = "compute.instanceGroupManagerResizeRequests."
	return []route{
		{"POST", requests, name + "insert", (*Server).insertRequest},
		{"GET", requests, name + "list", (*Server).listRequests},
		{"GET", one, name + "get", func(s *Server, c *call) (wire, error) { return getResource(s, c, s.requests) }},
		{"POST", one + "/cancel", name + "cancel", (*Server).cancelRequest},
		{"DELETE", one, name + "delete", (*Server).deleteRequest},
	}
}

func (s *Server) insertRequest(c *call) (wire, error) {
	g, err := s.changeableGroup(c)
	if err != nil {
		return nil, err
	}
	r := &computepb.InstanceGroupManagerResizeRequest{}
	if err := c.decode(r); err != nil {
		return nil, err
	}
	if err := checkName("resource.name", r.GetName()); err != nil {
		return nil, err
	}
	key := c.key() + "/" + r.GetName()
	if s.requests.get(key) != nil {
		return nil, alreadyExists(s.relative(key))
	}
	names, err := s.requestedNames(g, r)
	if err != nil {
		return nil, err
	}
	if err := s.checkRequest(g, r); err != nil {
		return nil, err
	}
	region := s.regionOf[c.path("zone")]
	if limit, limited := s.limit(activeRequests); limited && s.usage(region, activeRequests) >= limit {
		return nil, quotaExceeded(activeRequests, limit, region)
	}
	if names == nil {
		for range r.GetResizeBy() {
			names = append(names, s.autoName(g))
			s.addManaged(g, names[len(names)-1], key)
		}
	} else {
		for _, name := range names {
			s.addManaged(g, name, key)
		}
	}
	s.resizeBy(g, len(names))
	r.Kind, r.Id = new("compute#instanceGroupManagerResizeRequest"), new(s.newID())
	r.SelfLink, r.Zone = new(s.link(key)), new(s.link("zones/"+c.path("zone")))
	r.SelfLinkWithId = new(fmt.Sprintf("%s/%d", s.link(c.key()), r.GetId()))
	r.CreationTimestamp, r.State = new(timestamp(s.now)), new(requestCreating)
	r.ResizeBy = new(int32(len(names))) //nolint:gosec // at most 1000
	r.Status = &computepb.InstanceGroupManagerResizeRequestStatus{}
	s.settings.Counter++
	s.requests.put(key, r, requestState{Names: names, Ticket: s.settings.Counter})
	s.after(s.delays().Decision, "request.decide", key, "")
	return s.answerWith(c, operationSpec{
		scope: scopeOf(key), kind: c.route.name, target: key, targetID: r.GetId(), method: c.route.name,
	}, s.delays().Group, "operation.done")
}

// requestedNames are the named instances, or nil if the names are to be made
// up.
func (s *Server) requestedNames(g *group, r *computepb.InstanceGroupManagerResizeRequest) ([]string, error) {
	if (r.ResizeBy != nil) == (len(r.GetInstances()) > 0) {
		return nil, invalid("Exactly one of 'resource.resizeBy' and 'resource.instances' must be specified.")
	}
	if r.ResizeBy != nil {
		if by := r.GetResizeBy(); by < 1 || by > mostPerCall {
			return nil, invalidField("resource.resizeBy", fmt.Sprint(by), "Must be between 1 and 1000, inclusive.")
		}
		return nil, nil
	}
	names := make([]string, len(r.GetInstances()))
	for i, config := range r.GetInstances() {
		names[i] = config.GetName()
	}
	return names, s.checkNewNames(g, "resource.instances", names)
}

const (
	shortestRequest = 10 * time.Minute
	longestRequest  = longestFlexRun
)

// checkRequest checks a request, and that its group is one that can have
// requests: every fault in one message.
func (s *Server) checkRequest(g *group, r *computepb.InstanceGroupManagerResizeRequest) error {
	if run := seconds(r.GetRequestedRunDuration()); r.RequestedRunDuration != nil && (run < shortestRequest || run > longestRequest) {
		return invalidField("resource.requestedRunDuration", fmt.Sprintf("%ds", r.GetRequestedRunDuration().GetSeconds()), "Must be between 10 minutes and 7 days.")
	}
	problems := s.flexProblems(g, true)
	if other := s.activeRequest(g); other != nil && s.opts.Behavior.OneActiveRequest {
		problems = append(problems, fmt.Sprintf("The group has another active resize request, '%s'.", other.Wire.GetName()))
	}
	if len(problems) > 0 {
		return invalid("Resize requests are not supported for '%s': %s", g.Wire.GetName(), strings.Join(problems, " "))
	}
	return nil
}

// flexProblems are what keeps a group from creating flex-start VMs, on request
// or gradually.
func (s *Server) flexProblems(g *group, byRequest bool) []string {
	var out []string
	if g.Wire.GetInstanceLifecyclePolicy().GetDefaultActionOnFailure() != actionNothing {
		out = append(out, "Repairs must be turned off (instanceLifecyclePolicy.defaultActionOnFailure must be DO_NOTHING).")
	}
	if g.Wire.GetUpdatePolicy().GetType() != "OPPORTUNISTIC" {
		out = append(out, "The update policy's type must be OPPORTUNISTIC.")
	}
	p := s.templateOf(g)
	if p == nil {
		return append(out, "The instance template does not exist.")
	}
	sched := p.GetScheduling()
	bound := sched.GetProvisioningModel() == modelBound
	if sched.GetProvisioningModel() != modelFlex && (!bound || !byRequest) {
		out = append(out, "The instance template's provisioning model must be FLEX_START.")
	}
	if !bound && sched.GetMaxRunDuration() == nil {
		out = append(out, "The instance template must have a maxRunDuration.")
	}
	if !bound && sched.GetInstanceTerminationAction() != actionDelete {
		out = append(out, "The instance template's instanceTerminationAction must be DELETE.")
	}
	if !bound && p.GetReservationAffinity() != nil && p.GetReservationAffinity().GetConsumeReservationType() != "NO_RESERVATION" {
		out = append(out, "The instance template must not consume reservations (consumeReservationType must be NO_RESERVATION).")
	}
	if len(p.GetResourcePolicies()) > 0 {
		out = append(out, "The instance template must not have placement policies.")
	}
	return out
}

// activeRequest of a group, or nil.
func (s *Server) activeRequest(g *group) *request {
	for r := range s.requests.under(g.Key + "/") {
		if active(r) {
			return r
		}
	}
	return nil
}

func (s *Server) listRequests(c *call) (wire, error) {
	if s.groups.get(groupKey(c)) == nil {
		return nil, notFound(s.relative(groupKey(c)))
	}
	return s.list(c, "compute#instanceGroupManagerResizeRequestsListResponse", s.requests.shown(c.key()+"/"))
}

func (s *Server) setRequestState(r *request, state string) {
	r.Wire.State = new(state)
	s.requests.changed(r)
}

// decideRequest accepts a request.
func (s *Server) decideRequest(t task) {
	r := s.requests.get(t.Owner)
	if r == nil || r.Wire.GetState() != requestCreating {
		return
	}
	if failed := s.plannedFailure(); failed != nil {
		s.failRequest(r, failed)
		return
	}
	s.setRequestState(r, requestAccepted)
	s.after(s.delays().Queue, "request.queue", r.Key, "")
}

func (s *Server) queueRequest(t task) {
	if r := s.requests.get(t.Owner); r != nil && r.Wire.GetState() == requestAccepted {
		r.State.Queued = true
		s.requests.changed(r)
		s.offerSoon()
	}
}

// grant creates all VMs of a request, if all of them fit.
func (s *Server) grant(r *request) {
	if s.requests.get(r.Key) != r || !r.State.Queued {
		return
	}
	g := s.groups.get(requestGroup(r))
	zone := zoneOf(g.Key)
	members := make([]*managed, len(r.State.Names))
	for i, name := range r.State.Names {
		members[i] = s.managed.get(g.Key + "/" + name)
	}
	p := s.templateOf(g)
	if failed := s.shortage(zone, p, len(members)); failed != nil {
		s.attemptFailed(r, failed)
		return
	}
	r.State.Queued, r.State.Granted = false, true
	s.requests.changed(r)
	for _, m := range members {
		if failed := s.launchManaged(g, m, p); failed != nil {
			s.noteFailure(g, m, failed)
			s.failRequest(r, failed)
			return
		}
	}
}

// requestGroup is the key of a request's group.
func requestGroup(r *request) string {
	return r.Key[:strings.LastIndex(r.Key, "/resizeRequests/")]
}

func (s *Server) attemptFailed(r *request, failed *failure) {
	if last := r.Wire.GetStatus().GetLastAttempt().GetError().GetErrors(); len(last) == 1 && last[0].GetCode() == failed.Code {
		return
	}
	r.Wire.Status = &computepb.InstanceGroupManagerResizeRequestStatus{
		LastAttempt: &computepb.InstanceGroupManagerResizeRequestStatusLastAttempt{Error: failed.error()},
	}
	s.requests.changed(r)
}

// requestProgress follows when a VM has got its resources: a request has
// succeeded when all have.
func (s *Server) requestProgress(i *instance) {
	r := s.requests.get(i.State.Request)
	if r == nil || !r.State.Granted || !active(r) {
		return
	}
	r.State.Arrived++
	s.requests.changed(r)
	if r.State.Arrived < len(r.State.Names) {
		return
	}
	r.Wire.Status = &computepb.InstanceGroupManagerResizeRequestStatus{}
	s.endRequest(r, requestSucceeded)
}

func (s *Server) endRequest(r *request, state string) {
	r.State.Queued = false
	s.setRequestState(r, state)
	s.after(s.delays().FinishedRequest, "request.forget", r.Key, "")
	s.groupSettles(requestGroup(r))
}

// giveUp takes a request's instances out of its group, and lowers its size.
func (s *Server) giveUp(r *request) {
	g := s.groups.get(requestGroup(r))
	for _, name := range r.State.Names {
		m := s.managed.get(g.Key + "/" + name)
		if m == nil || m.State.Request != r.Key {
			continue
		}
		s.deleteManaged(m)
	}
	s.resizeBy(g, -len(r.State.Names))
}

// failRequest ends a request that cannot be fulfilled. What was created is
// rolled back.
func (s *Server) failRequest(r *request, failed *failure) {
	r.Wire.Status = &computepb.InstanceGroupManagerResizeRequestStatus{Error: failed.error()}
	s.endRequest(r, requestFailed)
	s.giveUp(r)
}

// lostRequest is when a VM goes before its request has succeeded, which then
// fails. It says whether that is so.
func (s *Server) lostRequest(m *managed, i *instance) bool {
	r := s.requests.get(m.State.Request)
	if r == nil || !active(r) {
		return false
	}
	s.failRequest(r, &failure{
		Code: "RESOURCE_OPERATION_FAILED", Message: fmt.Sprintf("The instance '%s' was lost during provisioning.", i.Wire.GetName()),
	})
	return true
}

func (s *Server) cancelRequest(c *call) (wire, error) {
	key := strings.TrimSuffix(c.key(), "/cancel")
	r := s.requests.get(key)
	if r == nil {
		return nil, notFound(s.relative(key))
	}
	if r.Wire.GetState() != requestAccepted {
		return nil, invalid("The resize request '%s' is %s: it can be cancelled only while it is ACCEPTED.", r.Wire.GetName(), r.Wire.GetState())
	}
	if r.State.Granted {
		return nil, invalid("The resize request '%s' is being provisioned and can no longer be cancelled.", r.Wire.GetName())
	}
	return s.answerWith(c, operationSpec{
		scope: scopeOf(key), kind: c.route.name, target: key, targetID: r.Wire.GetId(), method: c.route.name,
	}, s.delays().Group, "request.cancel")
}

// cancelledRequest carries a cancellation out, unless capacity came first.
func (s *Server) cancelledRequest(t task) {
	op := s.operations.get(t.Owner)
	r := s.requests.get(op.State.Target)
	switch {
	case r == nil:
		s.finish(op.Key, &failure{Code: "RESOURCE_NOT_FOUND", Message: fmt.Sprintf("The resource '%s' was not found", s.relative(op.State.Target)), HTTP: 404})
	case r.Wire.GetState() == requestCancelled:
		s.finish(op.Key, nil)
	case !active(r) || r.State.Granted:
		s.finish(op.Key, &failure{Code: "RESOURCE_NOT_READY", Message: fmt.Sprintf("The resize request '%s' got its capacity before it could be cancelled.", r.Wire.GetName())})
	default:
		r.Wire.Status = &computepb.InstanceGroupManagerResizeRequestStatus{}
		s.endRequest(r, requestCancelled)
		s.giveUp(r)
		s.finish(op.Key, nil)
	}
}

func (s *Server) deleteRequest(c *call) (wire, error) {
	r := s.requests.get(c.key())
	if r == nil {
		return nil, notFound(s.relative(c.key()))
	}
	if active(r) {
		return nil, invalid("The resize request '%s' is %s: it can be deleted only when it is no longer active.", r.Wire.GetName(), r.Wire.GetState())
	}
	return s.answerWith(c, operationSpec{
		scope: scopeOf(r.Key), kind: c.route.name, target: r.Key, targetID: r.Wire.GetId(), method: c.route.name,
	}, s.delays().Group, "request.delete")
}

func (s *Server) deletedRequest(t task) {
	op := s.operations.get(t.Owner)
	s.forgetRequest(task{Owner: op.State.Target})
	s.finish(op.Key, nil)
}

func (s *Server) forgetRequest(t task) {
	s.agenda.cancel(t.Owner)
	s.requests.drop(t.Owner)
}
