package gcp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cloud.google.com/go/compute/apiv1/computepb"
)

const (
	actionNone       = "NONE"
	actionCreating   = "CREATING"
	actionDeleting   = "DELETING"
	actionRecreating = "RECREATING"
	actionAbandoning = "ABANDONING"

	actionRepair  = "REPAIR"
	actionNothing = "DO_NOTHING"
)

// managedState is what a group knows of one of its instances. Its key is the
// group's key, a slash and the name.
type managedState struct {
	Instance string // key of the VM, or "" while there is none
	Request  string // key of the resize request that asked for it
	Queued   bool   // waits for capacity
	Ticket   uint64 // its place in the queue
}

type managed = record[*computepb.ManagedInstance, managedState]

func groupOf(m *managed) string { return m.Key[:strings.LastIndexByte(m.Key, '/')] }

// leaving says whether an instance is on its way out of its group.
func leaving(m *managed) bool {
	return m.Wire.GetCurrentAction() == actionDeleting || m.Wire.GetCurrentAction() == actionAbandoning
}

func (s *Server) addManaged(g *group, name, request string) *managed {
	m := &computepb.ManagedInstance{
		Name: new(name), CurrentAction: new(actionCreating), TargetStatus: new(statusRunning),
		Version: &computepb.ManagedInstanceVersion{InstanceTemplate: g.Wire.InstanceTemplate},
	}
	if s.modelOf(g) == modelFlex {
		m.InstanceStatus = new(statusPending) // queued: it has no URL yet
	} else {
		m.Instance = new(s.link("zones/" + zoneOf(g.Key) + "/instances/" + name))
	}
	s.groups.changed(g)
	return s.managed.put(g.Key+"/"+name, m, managedState{Request: request})
}

// setAction changes what a group is doing with an instance.
func (s *Server) setAction(m *managed, action string) {
	m.Wire.CurrentAction = new(action)
	m.Wire.TargetStatus = new(map[string]string{actionDeleting: "DELETED", actionAbandoning: "ABANDONED"}[action])
	if m.Wire.GetTargetStatus() == "" {
		m.Wire.TargetStatus = new(statusRunning)
	}
	s.managed.changed(m)
}

// autoName makes up a name as the group's baseInstanceName says: with four
// random characters, or numbered if it ends in "-###" or "-###[start]".
func (s *Server) autoName(g *group) string {
	zone := zoneOf(g.Key)
	base := g.Wire.GetBaseInstanceName()
	pattern := ""
	if i := strings.Index(base, "-#"); i > 0 {
		base, pattern = base[:i], base[i+1:]
	}
	number := 0
	if open := strings.IndexByte(pattern, '['); open > 0 {
		number, _ = strconv.Atoi(strings.TrimSuffix(pattern[open+1:], "]"))
		pattern = pattern[:open]
	}
	for ; ; number++ {
		name := fmt.Sprintf("%s-%0*d", base, len(pattern), number)
		if pattern == "" {
			name = base + "-" + s.randomName(4)
		}
		if s.managed.get(g.Key+"/"+name) == nil && s.instances.get("zones/"+zone+"/instances/"+name) == nil {
			return name
		}
	}
}

func (s *Server) randomName(n int) string {
	const letters = "0123456789bcdfghjklmnpqrstvwxz"
	x := mix(s.newID())
	var b strings.Builder
	for range n {
		b.WriteByte(letters[x%uint64(len(letters))])
		x /= uint64(len(letters))
	}
	return b.String()
}

// createManaged begins to create a group's VM: at once, or, for flex-start,
// once its turn in the queue has come.
func (s *Server) createManaged(t task) {
	m := s.managed.get(t.Owner)
	if m == nil || m.State.Instance != "" || leaving(m) {
		return
	}
	g := s.groups.get(groupOf(m))
	if s.modelOf(g) != modelFlex {
		s.tryManaged(m)
		return
	}
	if !m.State.Queued {
		s.settings.Counter++
		m.State.Queued, m.State.Ticket = true, s.settings.Counter
		s.managed.changed(m)
	}
	s.offerAfter(s.delays().Queue)
}

// tryManaged creates a group's VM if it can be, and otherwise notes why not
// and leaves it to be tried again.
func (s *Server) tryManaged(m *managed) {
	if s.managed.get(m.Key) != m || m.State.Instance != "" || leaving(m) {
		return
	}
	g := s.groups.get(groupOf(m))
	p := s.templateOf(g)
	if p == nil {
		return // cannot be: a template that is used is not deleted
	}
	if failed := s.shortage(zoneOf(g.Key), p, s.together(g, m)); failed != nil {
		s.noteFailure(g, m, failed)
		if !m.State.Queued {
			s.after(s.retryDelay(), "managed.create", m.Key, "")
		}
		return
	}
	if failed := s.launchManaged(g, m, p); failed != nil {
		s.noteFailure(g, m, failed)
		m.State.Queued = false
		s.after(s.retryDelay(), "managed.create", m.Key, "")
	}
}

// together is how many VMs must fit for one to be created: all that wait, if
// the group is to grow in bulk.
func (s *Server) together(g *group, m *managed) int {
	if g.Wire.GetTargetSizePolicy().GetMode() != "BULK" || !m.State.Queued {
		return 1
	}
	n := 0
	for other := range s.managed.under(g.Key + "/") {
		if other.State.Queued {
			n++
		}
	}
	return n
}

// managedInstance is the VM that a group would create under a name.
func (s *Server) managedInstance(g *group, m *managed, p *computepb.InstanceProperties) *computepb.Instance {
	i := instanceFrom(p)
	i.Name = m.Wire.Name
	if i.Metadata == nil {
		i.Metadata = &computepb.Metadata{}
	}
	i.Metadata.Items = append(i.Metadata.Items,
		&computepb.Items{Key: new("instance-template"), Value: new(s.numbered(s.resolve(g.Wire.GetInstanceTemplate(), "")))},
		&computepb.Items{Key: new("created-by"), Value: new(s.numbered(g.Key))})
	return i
}

func (s *Server) numbered(key string) string {
	return fmt.Sprintf("projects/%d/%s", s.opts.ProjectNumber, key)
}

// launchManaged creates a group's VM, which fits.
func (s *Server) launchManaged(g *group, m *managed, p *computepb.InstanceProperties) *failure {
	r, failed := s.newInstance(zoneOf(g.Key), s.managedInstance(g, m, p))
	if failed != nil {
		return failed
	}
	r.State.Group, r.State.Managed, r.State.Request = g.Key, m.Key, m.State.Request
	if request := s.requests.get(m.State.Request); request != nil {
		r.State.RunFor = seconds(request.Wire.GetRequestedRunDuration())
	}
	m.State.Instance, m.State.Queued = r.Key, false
	m.Wire.LastAttempt = nil
	r.State.InsertOp = s.startOn(nil, r, "insert", s.theGroup()).Key
	s.provision(r)
	return nil
}

const keptErrors = 100

// noteFailure records why an instance could not be created, for lastAttempt
// and listErrors.
func (s *Server) noteFailure(g *group, m *managed, failed *failure) {
	if last := m.Wire.GetLastAttempt().GetErrors().GetErrors(); len(last) == 1 && last[0].GetCode() == failed.Code && m.State.Queued {
		return // it still waits for the same reason
	}
	m.Wire.LastAttempt = &computepb.ManagedInstanceLastAttempt{Errors: &computepb.ManagedInstanceLastAttemptErrors{Errors: []*computepb.Errors{failed.wire()}}}
	s.managed.changed(m)
	g.State.Errors = append(g.State.Errors, managedError{
		Time: timestamp(s.now), Code: failed.Code, Message: failed.Message, Action: m.Wire.GetCurrentAction(),
		Instance: s.link("zones/" + zoneOf(g.Key) + "/instances/" + m.Wire.GetName()),
	})
	if len(g.State.Errors) > keptErrors {
		g.State.Errors = slices.Clone(g.State.Errors[len(g.State.Errors)-keptErrors:])
	}
	s.groups.changed(g)
}

// deleteManaged deletes a group's instance. It says whether it is gone.
func (s *Server) deleteManaged(m *managed) bool {
	s.setAction(m, actionDeleting)
	s.agenda.cancel(m.Key)
	m.State.Queued = false
	r := s.instances.get(m.State.Instance)
	if r == nil {
		s.dropManaged(m)
		return true
	}
	if r.State.Then != thenDelete {
		s.remove(r, s.startOn(nil, r, "delete", s.theGroup()).Key, "delete")
	}
	return false
}

// releaseManaged lets an instance go from its group, as it is.
func (s *Server) releaseManaged(m *managed) {
	if r := s.instances.get(m.State.Instance); r != nil {
		r.State.Group, r.State.Managed, r.State.Request = "", "", ""
		s.instances.changed(r)
	}
	s.dropManaged(m)
}

// recreateManaged replaces a group's VM by a new one of the same name.
func (s *Server) recreateManaged(m *managed) {
	s.setAction(m, actionRecreating)
	r := s.instances.get(m.State.Instance)
	if r == nil {
		s.after(0, "managed.create", m.Key, "")
		return
	}
	if r.State.Then != thenDelete {
		s.remove(r, s.startOn(nil, r, "delete", s.theGroup()).Key, "recreate")
	}
}

func (s *Server) dropManaged(m *managed) {
	s.agenda.cancel(m.Key)
	s.managed.drop(m.Key)
	if g := s.groups.get(groupOf(m)); g != nil {
		s.groups.changed(g)
	}
	s.groupSettles(groupOf(m))
}

// mirror shows an instance's state in its group.
func (s *Server) mirror(r *instance) {
	m := s.managed.get(r.State.Managed)
	if m == nil {
		return
	}
	m.Wire.Id, m.Wire.Instance, m.Wire.InstanceStatus = r.Wire.Id, r.Wire.SelfLink, r.Wire.Status
	m.Wire.Scheduling = nil
	if end := r.Wire.GetResourceStatus().GetScheduling().GetTerminationTimestamp(); end != "" {
		m.Wire.Scheduling = &computepb.ManagedInstanceScheduling{TerminationTimestamp: new(end)}
	}
	s.managed.changed(m)
}

// managedRuns follows when an instance has come to run.
func (s *Server) managedRuns(r *instance) {
	m := s.managed.get(r.State.Managed)
	if m == nil || leaving(m) {
		return
	}
	s.setAction(m, actionNone)
}

// managedStops follows when an instance has stopped without being deleted: a
// group that repairs replaces it.
func (s *Server) managedStops(r *instance) {
	m := s.managed.get(r.State.Managed)
	if m == nil || leaving(m) || m.Wire.GetCurrentAction() == actionRecreating {
		return
	}
	if s.repairs(m) {
		s.systemEvent(r, "compute.instances.repair.recreateInstance", "Instance Group Manager is recreating the instance.", nil)
		s.recreateManaged(m)
	}
}

func (s *Server) repairs(m *managed) bool {
	g := s.groups.get(groupOf(m))
	return g != nil && g.State.DeleteOp == "" && g.Wire.GetInstanceLifecyclePolicy().GetDefaultActionOnFailure() != actionNothing
}

// managedLeaves follows when an instance is gone.
func (s *Server) managedLeaves(r *instance) {
	m := s.managed.get(r.State.Managed)
	if m == nil {
		return
	}
	m.State.Instance = ""
	m.Wire.Id, m.Wire.InstanceStatus, m.Wire.Scheduling = nil, nil, nil
	s.managed.changed(m)
	switch {
	case m.Wire.GetCurrentAction() == actionAbandoning:
		return // it is let go at its time
	case leaving(m):
		s.dropManaged(m)
	case m.Wire.GetCurrentAction() == actionRecreating:
		s.after(0, "managed.create", m.Key, "")
	case s.lostRequest(m, r):
	case s.repairs(m):
		s.systemEvent(r, "compute.instances.repair.recreateInstance", "Instance Group Manager is recreating the instance.", nil)
		s.recreateManaged(m)
	default:
		// Repair is off: the member stays, without a VM, until somebody
		// deletes it by name.
		s.setAction(m, actionNone)
	}
}

// managedLeaseEnds follows when a group's VM has run for as long as it may.
func (s *Server) managedLeaseEnds(r *instance) {
	m := s.managed.get(r.State.Managed)
	if m == nil || leaving(m) {
		return
	}
	s.setAction(m, actionDeleting)
	if g := s.groups.get(groupOf(m)); g != nil && !s.opts.Behavior.KeepTargetSizeAtLeaseEnd {
		s.resizeBy(g, -1)
	}
}
