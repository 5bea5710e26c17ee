package gcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cloud.google.com/go/compute/apiv1/computepb"
)

// What a group is asked to do with its instances, and what it says of them.

// actionSpec is what a group's operation does once it is scheduled.
type actionSpec struct {
	Verb  string // "create", "delete", "abandon", "recreate"
	Names []string
}

func (s *Server) createInstances(c *call) (wire, error) {
	g, err := s.changeableGroup(c)
	if err != nil {
		return nil, err
	}
	in := &computepb.InstanceGroupManagersCreateInstancesRequest{}
	if err := c.decode(in); err != nil {
		return nil, err
	}
	names := make([]string, len(in.GetInstances()))
	for i, config := range in.GetInstances() {
		names[i] = config.GetName()
	}
	if err := s.checkNewNames(g, "instances", names); err != nil {
		return nil, err
	}
	if err := s.checkSizeChange(g, int(g.Wire.GetTargetSize())+len(names)); err != nil {
		return nil, err
	}
	for _, name := range names {
		s.addManaged(g, name, "")
	}
	s.resizeBy(g, len(names))
	return s.act(c, g, actionSpec{Verb: "create", Names: names}, c.route.name)
}

const mostPerCall = 1000

// checkNewNames checks names for instances that a group is to create.
func (s *Server) checkNewNames(g *group, field string, names []string) error {
	if len(names) == 0 {
		return missingField(field)
	}
	if len(names) > mostPerCall {
		return invalidField(field, fmt.Sprintf("%d instances", len(names)), "At most 1000 instances can be given in one request.")
	}
	seen := map[string]bool{}
	for i, name := range names {
		at := fmt.Sprintf("%s[%d].name", field, i)
		if err := checkName(at, name); err != nil {
			return err
		}
		if seen[name] {
			return invalidField(at, name, "The name is given twice.")
		}
		seen[name] = true
		if s.managed.get(g.Key+"/"+name) != nil {
			return alreadyExists(s.relative("zones/" + zoneOf(g.Key) + "/instances/" + name))
		}
	}
	return nil
}

// checkSizeChange is whether a group may grow or shrink to a size now.
func (s *Server) checkSizeChange(g *group, size int) error {
	if r := s.activeRequest(g); r != nil {
		return invalid("The target size of '%s' cannot be changed while its resize request '%s' is %s.", g.Wire.GetName(), r.Wire.GetName(), r.Wire.GetState())
	}
	if size <= int(g.Wire.GetTargetSize()) || s.modelOf(g) != modelFlex {
		return nil
	}
	if problems := s.flexProblems(g, false); len(problems) > 0 {
		return invalid("Flex-start VMs cannot be created in '%s': %s", g.Wire.GetName(), strings.Join(problems, " "))
	}
	return nil
}

func (s *Server) modelOf(g *group) string {
	if t := s.templateOf(g); t != nil {
		return t.GetScheduling().GetProvisioningModel()
	}
	return ""
}

func (s *Server) templateOf(g *group) *computepb.InstanceProperties {
	t := s.templates.get(s.resolve(g.Wire.GetInstanceTemplate(), ""))
	if t == nil {
		return nil
	}
	return t.Wire.GetProperties()
}

// act answers a group's method: what it is to do begins when its operation is
// DONE, which says no more than that it is scheduled.
func (s *Server) act(c *call, g *group, what actionSpec, kind string) (wire, error) {
	arg, err := json.Marshal(what)
	if err != nil {
		return nil, fmt.Errorf("encoding what the group is to do, %w", err)
	}
	return s.answerWith(c, operationSpec{
		scope: scopeOf(g.Key), kind: kind, target: g.Key, targetID: g.Wire.GetId(), method: c.route.name, arg: string(arg),
	}, s.delays().Group, "group.act")
}

func (s *Server) groupAct(t task) {
	op := s.operations.get(t.Owner)
	var what actionSpec
	if err := json.Unmarshal([]byte(op.State.Arg), &what); err != nil {
		s.opts.Logger.Error("what a group is to do cannot be read", "operation", op.Key, "error", err)
	}
	s.finish(op.Key, nil)
	g := s.groups.get(op.State.Target)
	if g == nil {
		return
	}
	for _, name := range what.Names {
		m := s.managed.get(g.Key + "/" + name)
		if m == nil {
			continue
		}
		switch what.Verb {
		case "delete":
			s.deleteManaged(m)
		case "abandon":
			s.releaseManaged(m)
		case "recreate":
			s.recreateManaged(m)
		}
	}
	s.createAll(g)
}

// chosen reads the instances that a method names, by URL or by name.
func (s *Server) chosen(g *group, links []string, skip bool) ([]*managed, error) {
	if len(links) == 0 {
		return nil, missingField("instances")
	}
	if len(links) > mostPerCall {
		return nil, invalidField("instances", fmt.Sprintf("%d instances", len(links)), "At most 1000 instances can be given in one request.")
	}
	urls := 0
	var out []*managed
	for i, link := range links {
		field := fmt.Sprintf("instances[%d]", i)
		if strings.Contains(link, "/") {
			urls++
		}
		name, err := s.instanceName(field, link, zoneOf(g.Key))
		if err != nil {
			return nil, err
		}
		m := s.managed.get(g.Key + "/" + name)
		switch {
		case m == nil && !skip:
			return nil, invalidField(field, link, "The instance is not a member of the group '"+g.Wire.GetName()+"'.")
		case m == nil:
		case !leaving(m):
			if !slices.Contains(out, m) {
				out = append(out, m)
			}
		case !skip:
			return nil, invalidField(field, link, "The instance is already being deleted or abandoned.")
		}
	}
	if urls > 0 && urls < len(links) {
		return nil, invalidField("instances", strconv.Itoa(urls)+" of "+strconv.Itoa(len(links))+" are URLs", "URLs and names cannot be mixed in one request.")
	}
	return out, nil
}

// instanceName is the name of an instance that is given by URL or by name.
func (s *Server) instanceName(field, link, zone string) (string, error) {
	name := lastSegment(link)
	if name != link && s.resolve(link, "") != "zones/"+zone+"/instances/"+name {
		return "", invalidField(field, link, "Must be the URL of an instance in the group's zone.")
	}
	if !namePattern.MatchString(name) {
		return "", invalidField(field, link, "Must be the URL or the name of an instance.")
	}
	return name, nil
}

// leave marks instances that are to leave the group, and lowers its size.
func (s *Server) leave(c *call, links []string, skip bool, action string) (wire, error) {
	g, err := s.changeableGroup(c)
	if err != nil {
		return nil, err
	}
	chosen, err := s.chosen(g, links, skip)
	if err != nil {
		return nil, err
	}
	for _, m := range chosen {
		if r := s.requests.get(m.State.Request); r != nil && active(r) {
			return nil, invalid("The instance '%s' belongs to the resize request '%s', which is %s: cancel the request to give it up.", m.Wire.GetName(), r.Wire.GetName(), r.Wire.GetState())
		}
	}
	verb := "delete"
	if action == actionAbandoning {
		verb = "abandon"
	}
	what := actionSpec{Verb: verb}
	for _, m := range chosen {
		s.setAction(m, action)
		what.Names = append(what.Names, m.Wire.GetName())
	}
	s.resizeBy(g, -len(chosen))
	return s.act(c, g, what, c.route.name)
}

func (s *Server) deleteInstances(c *call) (wire, error) {
	in := &computepb.InstanceGroupManagersDeleteInstancesRequest{}
	if err := c.decode(in); err != nil {
		return nil, err
	}
	return s.leave(c, in.GetInstances(), in.GetSkipInstancesOnValidationError(), actionDeleting)
}

func (s *Server) abandonInstances(c *call) (wire, error) {
	in := &computepb.InstanceGroupManagersAbandonInstancesRequest{}
	if err := c.decode(in); err != nil {
		return nil, err
	}
	return s.leave(c, in.GetInstances(), false, actionAbandoning)
}

func (s *Server) recreateInstances(c *call) (wire, error) {
	g, err := s.changeableGroup(c)
	if err != nil {
		return nil, err
	}
	in := &computepb.InstanceGroupManagersRecreateInstancesRequest{}
	if err := c.decode(in); err != nil {
		return nil, err
	}
	if s.modelOf(g) == modelFlex {
		return nil, invalid("Recreating flex-start VMs is not supported.")
	}
	chosen, err := s.chosen(g, in.GetInstances(), false)
	if err != nil {
		return nil, err
	}
	what := actionSpec{Verb: "recreate"}
	for _, m := range chosen {
		s.setAction(m, actionRecreating)
		what.Names = append(what.Names, m.Wire.GetName())
	}
	return s.act(c, g, what, c.route.name)
}

func (s *Server) resizeGroup(c *call) (wire, error) {
	g, err := s.changeableGroup(c)
	if err != nil {
		return nil, err
	}
	size, err := strconv.Atoi(c.query.Get("size"))
	if err != nil || size < 0 || size > 10000 {
		return nil, invalidField("size", c.query.Get("size"), "Must be between 0 and 10000, inclusive.")
	}
	if err := s.checkSizeChange(g, size); err != nil {
		return nil, err
	}
	return s.resizeTo(c, g, size, c.route.name)
}

// resizeTo creates instances, or chooses some to delete.
func (s *Server) resizeTo(c *call, g *group, size int, kind string) (wire, error) {
	change := size - int(g.Wire.GetTargetSize())
	what := actionSpec{Verb: "create"}
	if change < 0 {
		what.Verb = "delete"
		for _, m := range s.victims(g, -change) {
			s.setAction(m, actionDeleting)
			what.Names = append(what.Names, m.Wire.GetName())
		}
	}
	for range change {
		m := s.addManaged(g, s.autoName(g), "")
		what.Names = append(what.Names, m.Wire.GetName())
	}
	s.resizeBy(g, change)
	return s.act(c, g, what, kind)
}

// victims are the n instances that a group gives up: those without a VM
// first, and among the others any.
func (s *Server) victims(g *group, n int) []*managed {
	var members []*managed
	for m := range s.managed.under(g.Key + "/") {
		if !leaving(m) {
			members = append(members, m)
		}
	}
	rank := func(m *managed) uint64 {
		if m.State.Instance == "" {
			return 0
		}
		return 1 + s.dice(1<<40, "victim", m.Key, m.Wire.GetId())
	}
	slices.SortStableFunc(members, func(a, b *managed) int {
		x, y := rank(a), rank(b)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return members[:min(n, len(members))]
}

func (s *Server) listManagedInstances(c *call) (wire, error) {
	g := s.groups.get(groupKey(c))
	if g == nil {
		return nil, notFound(s.relative(groupKey(c)))
	}
	if c.query.Get("orderBy") != "" {
		c.query.Del("orderBy") // it is ignored
	}
	rows := s.managed.shown(g.Key + "/")
	if g.Wire.GetListManagedInstancesResults() == "PAGINATED" {
		page, next, err := s.page(c, rows)
		if err != nil {
			return nil, err
		}
		return listOf("managedInstances", page, next)
	}
	if token := c.query.Get("pageToken"); token != "" {
		return nil, invalidField("pageToken", token, "Pages are supported only if the group's listManagedInstancesResults is PAGINATED.")
	}
	rows, err := filtered(s.faults.omit(c.route.name, rows), c.query.Get("filter"))
	if err != nil {
		return nil, err
	}
	return listOf("managedInstances", rows, "")
}

func (s *Server) listErrors(c *call) (wire, error) {
	g := s.groups.get(groupKey(c))
	if g == nil {
		return nil, notFound(s.relative(groupKey(c)))
	}
	if c.query.Get("filter") != "" || c.query.Get("orderBy") != "" {
		return nil, invalid("listErrors supports neither filter nor orderBy.")
	}
	var rows []row
	for i, e := range slices.Backward(g.State.Errors) {
		rows = append(rows, row{key: fmt.Sprintf("%08d", len(g.State.Errors)-i), message: &computepb.InstanceManagedByIgmError{
			Timestamp: new(e.Time),
			Error:     &computepb.InstanceManagedByIgmErrorManagedInstanceError{Code: new(e.Code), Message: new(e.Message)},
			InstanceActionDetails: &computepb.InstanceManagedByIgmErrorInstanceActionDetails{
				Action: new(e.Action), Instance: new(e.Instance),
				Version: &computepb.ManagedInstanceVersion{InstanceTemplate: g.Wire.InstanceTemplate},
			},
		}})
	}
	page, next, err := s.page(c, rows)
	if err != nil {
		return nil, err
	}
	return listOf("items", page, next)
}
