package gcp

import (
	"fmt"
	"net/http"
	"strings"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

func instanceRoutes() []route {
	const instances = "/compute/v1/projects/{project}/zones/{zone}/instances"
	const one = instances + "/{instance}"
	return []route{
		{"POST", instances, "compute.instances.insert", (*Server).insertInstance},
		{"GET", instances, "compute.instances.list", func(s *Server, c *call) (wire, error) {
			return s.list(c, "compute#instanceList", s.instances.shown(c.key()+"/"))
		}},
		{"GET", "/compute/v1/projects/{project}/aggregated/instances", "compute.instances.aggregatedList", func(s *Server, c *call) (wire, error) {
			return s.aggregated(c, "compute#instanceAggregatedList", "instances", s.instances.shown("zones/"))
		}},
		{"GET", one, "compute.instances.get", func(s *Server, c *call) (wire, error) { return getResource(s, c, s.instances) }},
		{"DELETE", one, "compute.instances.delete", (*Server).deleteInstance},
		{"POST", one + "/stop", "compute.instances.stop", (*Server).stopInstance},
		{"POST", one + "/start", "compute.instances.start", (*Server).startInstance},
		{"POST", one + "/reset", "compute.instances.reset", (*Server).resetInstance},
		{"POST", one + "/setMetadata", "compute.instances.setMetadata", (*Server).setMetadata},
		{"POST", one + "/setLabels", "compute.instances.setLabels", (*Server).setLabels},
		{"POST", one + "/setDeletionProtection", "compute.instances.setDeletionProtection", (*Server).setDeletionProtection},
		{"POST", one + "/reportHostAsFaulty", "compute.instances.reportHostAsFaulty", (*Server).reportHostAsFaulty},
	}
}

func (s *Server) insertInstance(c *call) (wire, error) {
	i := &computepb.Instance{}
	if template := c.query.Get("sourceInstanceTemplate"); template != "" {
		t, refused := usable(s, s.templates, s.resolve(template, "global/instanceTemplates"))
		if refused != nil {
			return nil, refused
		}
		i = instanceFrom(t.Wire.GetProperties())
	}
	override := &computepb.Instance{}
	if err := c.decode(override); err != nil {
		return nil, err
	}
	replaceFields(i.ProtoReflect(), override.ProtoReflect())
	if err := checkName("resource.name", i.GetName()); err != nil {
		return nil, err
	}
	if err := s.checkProperties("resource", propertiesOf(i)); err != nil {
		return nil, err
	}
	valid := i.GetParams().GetRequestValidForDuration()
	if wait := seconds(valid); valid != nil && (i.GetScheduling().GetProvisioningModel() != modelFlex || wait < minRequestValid || wait > maxRequestValid) {
		return nil, invalidField("resource.params.requestValidForDuration", fmt.Sprintf("%ds", valid.GetSeconds()), "Must be between 90 seconds and 2 hours, and the provisioning model FLEX_START.")
	}
	zone := c.path("zone")
	if s.instances.get("zones/"+zone+"/instances/"+i.GetName()) != nil {
		return nil, alreadyExists(s.relative("zones/" + zone + "/instances/" + i.GetName()))
	}
	i.Id = nil
	r, failed := s.newInstance(zone, i)
	if failed != nil {
		return nil, failed.refusal()
	}
	op := s.start(c, operationSpec{scope: "zones/" + zone, kind: "insert", target: r.Key, targetID: r.Wire.GetId(), method: c.route.name})
	r.State.InsertOp = op.Key
	s.instances.changed(r)
	if valid != nil {
		s.queueInstance(r, seconds(valid))
	} else {
		s.after(s.delays().Operation, "instance.place", r.Key, "")
	}
	return encode(op.Wire)
}

// refusal is a failure that is known before the request is accepted.
func (f *failure) refusal() *apiError {
	reason := usualReason(f.HTTP)
	switch f.Code {
	case "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", "IP_IN_USE_BY_ANOTHER_RESOURCE":
		reason = "resourceInUseByAnotherResource"
	}
	return &apiError{status: f.HTTP, reason: reason, message: f.Message}
}

// newInstance adds an instance in PROVISIONING that holds no capacity yet.
// What it is given must be valid by itself; here it meets the rest of the
// cloud.
func (s *Server) newInstance(zone string, i *computepb.Instance) (*instance, *failure) {
	key := "zones/" + zone + "/instances/" + i.GetName()
	if s.instances.get(key) != nil {
		return nil, takenFailure(s.relative(key))
	}
	mt, known := s.machineTypes[lastSegment(i.GetMachineType())]
	if !known {
		return nil, &failure{
			Code: "INVALID_FIELD_VALUE", HTTP: http.StatusBadRequest,
			Message: fmt.Sprintf("Invalid value for field 'resource.machineType': '%s'. The referenced machine type cannot be found in zone %s.", i.GetMachineType(), zone),
		}
	}
	if kind := unfitDisk(mt, i); kind != "" {
		return nil, &failure{Code: "UNSUPPORTED_OPERATION", HTTP: http.StatusBadRequest, Message: fmt.Sprintf("[%s] features are not compatible for creating instance of type %s.", kind, mt.Name)}
	}
	for n, nic := range i.GetNetworkInterfaces() {
		if refused := s.connect(fmt.Sprintf("resource.networkInterfaces[%d]", n), s.regionOf[zone], nic); refused != nil {
			return nil, &failure{Code: "INVALID_FIELD_VALUE", HTTP: refused.status, Message: refused.message}
		}
	}
	image := ""
	if len(i.GetDisks()) > 0 {
		image = i.GetDisks()[0].GetInitializeParams().GetSourceImage()
	}
	i.Id = new(s.newID())
	failed := s.assignAddresses(i)
	if failed == nil {
		failed = s.attach(zone, i)
	}
	r := &instance{Key: key, Wire: i}
	if failed != nil {
		s.freeAddresses(r)
		return nil, failed
	}
	s.fillInstance(key, zone, i, mt)
	r = s.instances.put(key, i, instanceState{BootImage: image, Stock: stockOf(zone, mt.Name)})
	return r, nil
}

func (s *Server) fillInstance(key, zone string, i *computepb.Instance, mt MachineType) {
	i.Kind, i.SelfLink, i.Zone = new("compute#instance"), new(s.link(key)), new(s.link("zones/"+zone))
	i.MachineType = new(s.link("zones/" + zone + "/machineTypes/" + mt.Name))
	i.CreationTimestamp, i.Status = new(timestamp(s.now)), new(statusProvisioning)
	i.CpuPlatform, i.StartRestricted = new("Unknown CPU Platform"), new(false)
	if i.DeletionProtection == nil {
		i.DeletionProtection = new(false)
	}
	i.LabelFingerprint = new(labelFingerprint(i.GetLabels()))
	i.Fingerprint = new(fingerprint(i.GetId(), i.GetName()))
	if i.Metadata == nil {
		i.Metadata = &computepb.Metadata{}
	}
	fillMetadata(i.Metadata)
	if i.Tags == nil {
		i.Tags = &computepb.Tags{}
	}
	i.Tags.Fingerprint = new(fingerprint("tags", i.GetTags().GetItems()))
	if i.Scheduling == nil {
		i.Scheduling = &computepb.Scheduling{}
	}
	fillScheduling(i.Scheduling, mt.GPUs > 0)
	if i.Scheduling.ProvisioningModel == nil {
		i.Scheduling.ProvisioningModel = new(modelStandard)
	}
	if mt.GPUs > 0 && len(i.GuestAccelerators) == 0 {
		i.GuestAccelerators = []*computepb.AcceleratorConfig{{
			AcceleratorType:  new(s.link("zones/" + zone + "/acceleratorTypes/" + mt.GPU)),
			AcceleratorCount: new(int32(mt.GPUs)), //nolint:gosec // a machine's size
		}}
	}
	i.ResourceStatus = &computepb.ResourceStatus{}
}

// place puts an instance on a host.
func (s *Server) place(r *instance) {
	mt := s.machineTypes[lastSegment(r.Wire.GetMachineType())]
	if mt.GPUs == 0 {
		return
	}
	zone := zoneOf(r.Key)
	block := fmt.Sprintf("%016x", mix(s.dice(4, zone, "block", r.Wire.GetId())+uint64(len(zone))))
	subblock := fmt.Sprintf("%016x", mix(s.dice(8, block, r.Wire.GetId())))
	host := fmt.Sprintf("%016x", mix(s.newID()))
	if r.Wire.ResourceStatus == nil {
		r.Wire.ResourceStatus = &computepb.ResourceStatus{}
	}
	r.Wire.ResourceStatus.PhysicalHost = new(block + "/" + subblock + "/" + host)
	r.Wire.ResourceStatus.PhysicalHostTopology = &computepb.ResourceStatusPhysicalHostTopology{
		Cluster: new(zone + "-cluster-" + fmt.Sprint(s.dice(2, zone, block))), Block: new(block), Subblock: new(subblock), Host: new(host),
	}
}

func (s *Server) deleteInstance(c *call) (wire, error) {
	r := s.instances.get(c.key())
	if r == nil {
		return nil, notFound(s.relative(c.key()))
	}
	if r.Wire.GetDeletionProtection() {
		return nil, invalid("Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion. %s'.", s.relative(r.Key))
	}
	op := s.startOn(c, r, "delete", author{})
	s.remove(r, op.Key, "delete")
	return encode(op.Wire)
}

// startOn starts an operation on an instance; without a call, by whoever
// issues it.
func (s *Server) startOn(c *call, r *instance, kind string, by author) *operation {
	spec := operationSpec{scope: scopeOf(r.Key), kind: kind, target: r.Key, targetID: r.Wire.GetId(), method: "compute.instances." + kind, by: by}
	if c != nil {
		spec.method = c.route.name
	}
	return s.start(c, spec)
}

func (s *Server) findInstance(c *call) (*instance, error) {
	key := c.key()
	key = key[:strings.LastIndexByte(key, '/')]
	r := s.instances.get(key)
	if r == nil {
		return nil, notFound(s.relative(key))
	}
	return r, nil
}

func (s *Server) stopInstance(c *call) (wire, error) {
	r, err := s.findInstance(c)
	if err != nil {
		return nil, err
	}
	if r.Wire.GetScheduling().GetProvisioningModel() == modelFlex && r.State.Group != "" {
		return nil, invalid("Stopping the flex-start VM '%s' is not supported: it belongs to a managed instance group.", r.Wire.GetName())
	}
	if r.Wire.GetStatus() == statusPending || r.State.Then == thenDelete {
		return nil, notReady(s.relative(r.Key))
	}
	op := s.startOn(c, r, "stop", author{})
	if r.Wire.GetStatus() == statusTerminated {
		s.after(s.delays().Operation, "operation.done", op.Key, "")
		return encode(op.Wire)
	}
	s.stop(r, s.delays().Stopping, thenTerminated, "stop")
	r.State.EndOps = append(r.State.EndOps, op.Key)
	s.instances.changed(r)
	return encode(op.Wire)
}

func (s *Server) startInstance(c *call) (wire, error) {
	r, err := s.findInstance(c)
	if err != nil {
		return nil, err
	}
	op := operationSpec{scope: scopeOf(r.Key), kind: "start", target: r.Key, targetID: r.Wire.GetId(), method: c.route.name}
	switch r.Wire.GetStatus() {
	case statusTerminated:
		started := s.start(c, op)
		r.State.InsertOp = started.Key
		r.Wire.Status = new(statusProvisioning)
		s.instances.changed(r)
		s.after(s.delays().Operation, "instance.place", r.Key, "")
		return encode(started.Wire)
	case statusRunning:
		return s.answerWith(c, op, s.delays().Operation, "operation.done")
	}
	return nil, notReady(s.relative(r.Key))
}

func (s *Server) resetInstance(c *call) (wire, error) {
	r, err := s.findInstance(c)
	if err != nil {
		return nil, err
	}
	if r.Wire.GetStatus() != statusRunning {
		return nil, notReady(s.relative(r.Key))
	}
	s.retract(r, "reset")
	s.announce(r, false)
	return s.answerWith(c, operationSpec{scope: scopeOf(r.Key), kind: "reset", target: r.Key, targetID: r.Wire.GetId(), method: c.route.name}, s.delays().Operation, "operation.done")
}

func (s *Server) setMetadata(c *call) (wire, error) {
	r, err := s.findInstance(c)
	if err != nil {
		return nil, err
	}
	m := &computepb.Metadata{}
	if err := c.decode(m); err != nil {
		return nil, err
	}
	if err := checkMetadata("resource", m); err != nil {
		return nil, err
	}
	if m.GetFingerprint() != r.Wire.GetMetadata().GetFingerprint() {
		return nil, conditionNotMet("Supplied")
	}
	fillMetadata(m)
	r.Wire.Metadata = m
	s.instances.changed(r)
	s.notice(r)
	return s.answerWith(c, operationSpec{scope: scopeOf(r.Key), kind: "setMetadata", target: r.Key, targetID: r.Wire.GetId(), method: c.route.name}, s.delays().Operation, "operation.done")
}

func (s *Server) setLabels(c *call) (wire, error) {
	r, err := s.findInstance(c)
	if err != nil {
		return nil, err
	}
	in := &computepb.InstancesSetLabelsRequest{}
	if err := c.decode(in); err != nil {
		return nil, err
	}
	if err := checkLabels("resource.labels", in.GetLabels()); err != nil {
		return nil, err
	}
	if in.GetLabelFingerprint() != r.Wire.GetLabelFingerprint() {
		return nil, conditionNotMet("Labels")
	}
	r.Wire.Labels = clonedLabels(in.GetLabels())
	r.Wire.LabelFingerprint = new(labelFingerprint(r.Wire.GetLabels()))
	s.instances.changed(r)
	s.notice(r)
	return s.answerWith(c, operationSpec{scope: scopeOf(r.Key), kind: "setLabels", target: r.Key, targetID: r.Wire.GetId(), method: c.route.name}, s.delays().Operation, "operation.done")
}

func (s *Server) setDeletionProtection(c *call) (wire, error) {
	r, err := s.findInstance(c)
	if err != nil {
		return nil, err
	}
	r.Wire.DeletionProtection = new(c.query.Get("deletionProtection") != "false")
	s.instances.changed(r)
	return s.answerWith(c, operationSpec{scope: scopeOf(r.Key), kind: "setDeletionProtection", target: r.Key, targetID: r.Wire.GetId(), method: c.route.name}, s.delays().Operation, "operation.done")
}

// reportable are the machine types whose hosts can be reported as faulty.
func reportable(machineType string) bool {
	switch machineType {
	case "a4x-highgpu-4g", "a4-highgpu-8g", "a3-ultragpu-8g", "a3-megagpu-8g", "a3-highgpu-8g":
		return true
	}
	return false
}

func (s *Server) reportHostAsFaulty(c *call) (wire, error) {
	r, err := s.findInstance(c)
	if err != nil {
		return nil, err
	}
	in := &computepb.InstancesReportHostAsFaultyRequest{}
	if err := c.decode(in); err != nil {
		return nil, err
	}
	if in.DisruptionSchedule == nil {
		return nil, missingField("resource.disruptionSchedule")
	}
	if err := oneOf("resource.disruptionSchedule", in.DisruptionSchedule, "IMMEDIATE"); err != nil {
		return nil, err
	}
	for n, reason := range in.GetFaultReasons() {
		field := fmt.Sprintf("resource.faultReasons[%d].behavior", n)
		if err := oneOf(field, reason.Behavior, "PERFORMANCE", "SILENT_DATA_CORRUPTION", "UNRECOVERABLE_GPU_ERROR", "CHIP_ERROR", "BEHAVIOR_UNSPECIFIED"); err != nil {
			return nil, err
		}
	}
	switch {
	case r.Wire.GetStatus() != statusRunning:
		return nil, invalid("The instance '%s' must be RUNNING to report its host as faulty; it is %s.", r.Wire.GetName(), r.Wire.GetStatus())
	case !reportable(lastSegment(r.Wire.GetMachineType())):
		return nil, invalid("Hosts of machine type %s cannot be reported as faulty.", lastSegment(r.Wire.GetMachineType()))
	case r.Wire.GetScheduling().GetProvisioningModel() != modelBound:
		return nil, invalid("Only hosts of reservation-bound VMs can be reported as faulty; '%s' is %s.", r.Wire.GetName(), r.Wire.GetScheduling().GetProvisioningModel())
	case s.agenda.has(r.Key, "instance.repair"):
		return nil, invalid("The host of '%s' is being reported already.", r.Wire.GetName())
	}
	op := s.startOn(c, r, "compute.instances.reportHostAsFaulty", author{})
	s.after(s.delays().HostReport, "instance.repair", r.Key, op.Key)
	return encode(op.Wire)
}

// replaceFields sets in dst what src has: messages field by field, lists and
// maps whole, as a JSON merge patch does.
func replaceFields(dst, src protoMessage) {
	src.Range(func(fd protoField, v protoValue) bool {
		if fd.Message() != nil && !fd.IsList() && !fd.IsMap() {
			replaceFields(dst.Mutable(fd).Message(), v.Message())
			return true
		}
		dst.Set(fd, v)
		return true
	})
}

func cloneOf[M proto.Message](m M) M { return proto.Clone(m).(M) }
