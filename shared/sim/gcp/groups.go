package gcp

import (
	"fmt"
	"regexp"

	"cloud.google.com/go/compute/apiv1/computepb"
)

type groupState struct {
	Creating bool
	DeleteOp string
	Errors   []managedError // the latest, for listErrors
}

// A managedError is a line of listErrors.
type managedError struct {
	Time, Code, Message, Action, Instance string
}

type group = record[*computepb.InstanceGroupManager, groupState]

func groupRoutes() []route {
	const groups = "/compute/v1/projects/{project}/zones/{zone}/instanceGroupManagers"
	const one = groups + "/{instanceGroupManager}"
	return []route{
		{"POST", groups, "compute.instanceGroupManagers.insert", (*Server).insertGroup},
		{"GET", groups, "compute.instanceGroupManagers.list", (*Server).listGroups},
		{"GET", "/compute/v1/projects/{project}/aggregated/instanceGroupManagers", "compute.instanceGroupManagers.aggregatedList", func(s *Server, c *call) (wire, error) {
			return s.aggregated(c, "compute#instanceGroupManagerAggregatedList", "instanceGroupManagers", s.shownGroups("zones/"))
		}},
		{"GET", one, "compute.instanceGroupManagers.get", (*Server).getGroup},
		{"PATCH", one, "compute.instanceGroupManagers.patch", (*Server).patchGroup},
		{"DELETE", one, "compute.instanceGroupManagers.delete", (*Server).deleteGroup},
		{"POST", one + "/createInstances", "compute.instanceGroupManagers.createInstances", (*Server).createInstances},
		{"POST", one + "/deleteInstances", "compute.instanceGroupManagers.deleteInstances", (*Server).deleteInstances},
		{"POST", one + "/abandonInstances", "compute.instanceGroupManagers.abandonInstances", (*Server).abandonInstances},
		{"POST", one + "/recreateInstances", "compute.instanceGroupManagers.recreateInstances", (*Server).recreateInstances},
		{"POST", one + "/resize", "compute.instanceGroupManagers.resize", (*Server).resizeGroup},
		{"POST", one + "/listManagedInstances", "compute.instanceGroupManagers.listManagedInstances", (*Server).listManagedInstances},
		{"GET", one + "/listErrors", "compute.instanceGroupManagers.listErrors", (*Server).listErrors},
	}
}

// groupKey is the group that a call to one of its methods is about.
func groupKey(c *call) string {
	return "zones/" + c.path("zone") + "/instanceGroupManagers/" + c.path("instanceGroupManager")
}

// changeableGroup finds a group that accepts changes.
func (s *Server) changeableGroup(c *call) (*group, error) {
	g := s.groups.get(groupKey(c))
	if g == nil {
		return nil, notFound(s.relative(groupKey(c)))
	}
	if g.State.Creating || g.State.DeleteOp != "" {
		return nil, notReady(s.relative(g.Key))
	}
	return g, nil
}

func (s *Server) insertGroup(c *call) (wire, error) {
	g := &computepb.InstanceGroupManager{}
	if err := c.decode(g); err != nil {
		return nil, err
	}
	if err := checkName("resource.name", g.GetName()); err != nil {
		return nil, err
	}
	key := c.key() + "/" + g.GetName()
	if s.groups.get(key) != nil {
		return nil, alreadyExists(s.relative(key))
	}
	if g.TargetSize == nil {
		return nil, missingField("resource.targetSize")
	}
	if g.BaseInstanceName == nil {
		g.BaseInstanceName = g.Name
	}
	if err := s.checkGroup(g); err != nil {
		return nil, err
	}
	fillGroup(g)
	g.Kind, g.Id = new("compute#instanceGroupManager"), new(s.newID())
	zone := c.path("zone")
	g.Zone, g.SelfLink = new(s.link("zones/"+zone)), new(s.link(key))
	g.InstanceGroup = new(s.link("zones/" + zone + "/instanceGroups/" + g.GetName()))
	g.CreationTimestamp = new(timestamp(s.now))
	r := s.groups.put(key, g, groupState{Creating: true})
	s.touchGroup(r)
	return s.answerWith(c, operationSpec{
		scope: "zones/" + zone, kind: "insert", target: key, targetID: g.GetId(), method: c.route.name,
	}, s.delays().Group, "group.created")
}

// fillGroup states the policies that were left out.
func fillGroup(g *computepb.InstanceGroupManager) {
	if g.InstanceLifecyclePolicy == nil {
		g.InstanceLifecyclePolicy = &computepb.InstanceGroupManagerInstanceLifecyclePolicy{}
	}
	if g.InstanceLifecyclePolicy.DefaultActionOnFailure == nil {
		g.InstanceLifecyclePolicy.DefaultActionOnFailure = new(actionRepair)
	}
	if g.InstanceLifecyclePolicy.ForceUpdateOnRepair == nil {
		g.InstanceLifecyclePolicy.ForceUpdateOnRepair = new("NO")
	}
	if g.UpdatePolicy == nil {
		g.UpdatePolicy = &computepb.InstanceGroupManagerUpdatePolicy{}
	}
	if g.UpdatePolicy.Type == nil {
		g.UpdatePolicy.Type = new("OPPORTUNISTIC")
	}
	if g.UpdatePolicy.MinimalAction == nil {
		g.UpdatePolicy.MinimalAction = new("REPLACE")
	}
	if g.ListManagedInstancesResults == nil {
		g.ListManagedInstancesResults = new("PAGELESS")
	}
	if len(g.Versions) == 0 {
		g.Versions = []*computepb.InstanceGroupManagerVersion{{InstanceTemplate: g.InstanceTemplate}}
	}
	g.InstanceTemplate = g.Versions[0].InstanceTemplate
}

// baseNamePattern leaves room for what follows: four characters, or a number.
var baseNamePattern = regexp.MustCompile(`^[a-z](?:[-a-z0-9]{0,56}[a-z0-9])?$|^[a-z](?:[-a-z0-9]{0,48}[a-z0-9])?-#{1,10}(?:\[[0-9]{1,9}\])?$`)

// checkGroup checks a group as it is to be.
func (s *Server) checkGroup(g *computepb.InstanceGroupManager) error {
	if base := g.GetBaseInstanceName(); !baseNamePattern.MatchString(base) {
		return invalidField("resource.baseInstanceName", base, "Must be a name of at most 58 characters, perhaps with '-###' or '-###[first]' after it.")
	}
	if size := g.GetTargetSize(); size < 0 || size > 10000 {
		return invalidField("resource.targetSize", fmt.Sprint(size), "Must be between 0 and 10000, inclusive.")
	}
	for _, err := range []error{
		oneOf("resource.listManagedInstancesResults", g.ListManagedInstancesResults, "PAGELESS", "PAGINATED"),
		oneOf("resource.updatePolicy.type", updateType(g), "OPPORTUNISTIC", "PROACTIVE"),
		oneOf("resource.instanceLifecyclePolicy.defaultActionOnFailure", onFailure(g), actionRepair, actionNothing),
		oneOf("resource.targetSizePolicy.mode", sizeMode(g), "INDIVIDUAL", "BULK"),
	} {
		if err != nil {
			return err
		}
	}
	if len(g.GetVersions()) > 1 {
		return invalidField("resource.versions", fmt.Sprintf("%d versions", len(g.GetVersions())), "Canary updates are not simulated: give one version.")
	}
	return s.checkGroupTemplate(g)
}

func (s *Server) checkGroupTemplate(g *computepb.InstanceGroupManager) error {
	if len(g.GetVersions()) == 1 {
		link := g.GetVersions()[0].GetInstanceTemplate()
		if g.InstanceTemplate != nil && lastSegment(g.GetInstanceTemplate()) != lastSegment(link) {
			return invalidField("resource.instanceTemplate", g.GetInstanceTemplate(), "Differs from resource.versions[0].instanceTemplate.")
		}
		g.InstanceTemplate = new(link)
	}
	if g.GetInstanceTemplate() == "" {
		return missingField("resource.instanceTemplate")
	}
	t, refused := usable(s, s.templates, s.resolve(g.GetInstanceTemplate(), "global/instanceTemplates"))
	if refused != nil {
		return refused
	}
	g.InstanceTemplate = t.Wire.SelfLink
	if len(g.GetVersions()) == 1 {
		g.Versions[0].InstanceTemplate = t.Wire.SelfLink
	}
	return nil
}

func updateType(g *computepb.InstanceGroupManager) *string {
	if g.UpdatePolicy == nil {
		return nil
	}
	return g.UpdatePolicy.Type
}

func onFailure(g *computepb.InstanceGroupManager) *string {
	if g.InstanceLifecyclePolicy == nil {
		return nil
	}
	return g.InstanceLifecyclePolicy.DefaultActionOnFailure
}

func sizeMode(g *computepb.InstanceGroupManager) *string {
	if g.TargetSizePolicy == nil {
		return nil
	}
	return g.TargetSizePolicy.Mode
}

func (s *Server) groupCreated(t task) {
	op := s.operations.get(t.Owner)
	g := s.groups.get(op.State.Target)
	g.State.Creating = false
	s.groups.changed(g)
	s.finish(op.Key, nil)
	for range g.Wire.GetTargetSize() {
		s.addManaged(g, s.autoName(g), "")
	}
	s.createAll(g)
}

// createAll begins to create what a group is to create.
func (s *Server) createAll(g *group) {
	for m := range s.managed.under(g.Key + "/") {
		if m.Wire.GetCurrentAction() == actionCreating && m.State.Request == "" && !m.State.Queued && m.State.Instance == "" && !s.agenda.has(m.Key, "managed.create") {
			s.after(0, "managed.create", m.Key, "")
		}
	}
}

// touchGroup follows every change of a group's definition.
func (s *Server) touchGroup(g *group) {
	s.settings.Counter++
	g.Wire.Fingerprint = new(fingerprint(s.opts.Seed, g.Key, s.settings.Counter))
	s.groups.changed(g)
}

func (s *Server) resizeBy(g *group, n int) {
	g.Wire.TargetSize = new(max(0, g.Wire.GetTargetSize()+int32(n))) //nolint:gosec // at most 1000 at a time
	s.groups.changed(g)
}

// groupWire is a group as it is shown: with what its instances are doing.
func (s *Server) groupWire(g *group) *computepb.InstanceGroupManager {
	out := cloneOf(g.Wire)
	summary := &computepb.InstanceGroupManagerActionsSummary{
		Abandoning: new(int32), Creating: new(int32), CreatingWithoutRetries: new(int32), Deleting: new(int32), None: new(int32),
		Recreating: new(int32), Refreshing: new(int32), Restarting: new(int32), Resuming: new(int32), Starting: new(int32),
		Stopping: new(int32), Suspending: new(int32), Verifying: new(int32),
	}
	members, idle := int32(0), int32(0)
	for m := range s.managed.under(g.Key + "/") {
		members++
		switch m.Wire.GetCurrentAction() {
		case actionAbandoning:
			*summary.Abandoning++
		case actionCreating:
			*summary.Creating++
		case actionDeleting:
			*summary.Deleting++
		case actionRecreating:
			*summary.Recreating++
		default:
			*summary.None++
			idle++
		}
	}
	out.CurrentActions = summary
	out.Status = &computepb.InstanceGroupManagerStatus{
		IsStable:      new(members == idle && !g.State.Creating && g.State.DeleteOp == ""),
		VersionTarget: &computepb.InstanceGroupManagerStatusVersionTarget{IsReached: new(true)},
		Stateful:      &computepb.InstanceGroupManagerStatusStateful{HasStatefulConfig: new(false)},
	}
	return out
}

func (s *Server) shownGroups(prefix string) []row {
	if s.groups.stale {
		return s.groups.shown(prefix) // Freeze has filled in what they did then
	}
	var rows []row
	for g := range s.groups.under(prefix) {
		rows = append(rows, row{key: g.Key, message: s.groupWire(g)})
	}
	return rows
}

func (s *Server) getGroup(c *call) (wire, error) {
	if s.groups.stale {
		return getResource(s, c, s.groups)
	}
	g := s.groups.get(c.key())
	if g == nil {
		return nil, notFound(s.relative(c.key()))
	}
	return encode(s.groupWire(g))
}

func (s *Server) listGroups(c *call) (wire, error) {
	return s.list(c, "compute#instanceGroupManagerList", s.shownGroups(c.key()+"/"))
}

func (s *Server) patchGroup(c *call) (wire, error) {
	g, err := s.changeableGroup(c)
	if err != nil {
		return nil, err
	}
	patch := &computepb.InstanceGroupManager{}
	if err := c.decode(patch); err != nil {
		return nil, err
	}
	if patch.Fingerprint != nil && patch.GetFingerprint() != g.Wire.GetFingerprint() {
		return nil, conditionNotMet("The group's")
	}
	if patch.Name != nil && patch.GetName() != g.Wire.GetName() {
		return nil, invalidField("resource.name", patch.GetName(), "The name of a group cannot be changed.")
	}
	size := int(g.Wire.GetTargetSize())
	if patch.TargetSize != nil {
		size = int(patch.GetTargetSize())
	}
	keepOutputs(patch)
	if patch.InstanceTemplate != nil && len(patch.Versions) == 0 {
		patch.Versions = []*computepb.InstanceGroupManagerVersion{{InstanceTemplate: patch.InstanceTemplate}}
	}
	next := cloneOf(g.Wire)
	if len(patch.Versions) > 0 {
		next.InstanceTemplate = nil
	}
	replaceFields(next.ProtoReflect(), patch.ProtoReflect())
	if err := s.checkGroup(next); err != nil {
		return nil, err
	}
	if size != int(g.Wire.GetTargetSize()) {
		if err := s.checkSizeChange(g, size); err != nil {
			return nil, err
		}
	}
	next.TargetSize = g.Wire.TargetSize
	g.Wire = next
	s.touchGroup(g)
	return s.resizeTo(c, g, size, "patch")
}

// keepOutputs leaves out of a patch what only the service states.
func keepOutputs(g *computepb.InstanceGroupManager) {
	g.Id, g.Kind, g.SelfLink, g.Zone, g.Region, g.CreationTimestamp = nil, nil, nil, nil, nil, nil
	g.Fingerprint, g.InstanceGroup, g.Status, g.CurrentActions = nil, nil, nil, nil
}

func (s *Server) deleteGroup(c *call) (wire, error) {
	g, err := s.changeableGroup(c)
	if err != nil {
		return nil, err
	}
	if r := s.activeRequest(g); r != nil && s.opts.Behavior.RefuseDeleteOfBusyGroup {
		return nil, inUse(s.relative(g.Key), s.relative(r.Key))
	}
	op := s.start(c, operationSpec{scope: scopeOf(g.Key), kind: "delete", target: g.Key, targetID: g.Wire.GetId(), method: c.route.name})
	g.State.DeleteOp = op.Key
	s.groups.changed(g)
	s.after(s.delays().Group, "group.delete", g.Key, "")
	return encode(op.Wire)
}

// groupDelete takes a group's deletion as far as it goes now: it waits for
// active resize requests, then for the last instance.
func (s *Server) groupDelete(t task) {
	g := s.groups.get(t.Owner)
	if g == nil || g.State.DeleteOp == "" || s.activeRequest(g) != nil {
		return
	}
	empty := true
	for m := range s.managed.under(g.Key + "/") {
		if !s.deleteManaged(m) {
			empty = false
		}
	}
	if !empty {
		return
	}
	for r := range s.requests.under(g.Key + "/") {
		s.agenda.cancel(r.Key)
		s.requests.drop(r.Key)
	}
	s.agenda.cancel(g.Key)
	s.groups.drop(g.Key)
	s.finish(g.State.DeleteOp, nil)
}

// groupSettles follows whenever an instance or a request of a group is done
// with.
func (s *Server) groupSettles(key string) {
	g := s.groups.get(key)
	if g == nil || g.State.DeleteOp == "" || s.agenda.has(key, "group.delete") {
		return
	}
	s.after(0, "group.delete", key, "")
}
