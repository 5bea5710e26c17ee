package gcp

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

const (
	modelStandard  = "STANDARD"
	modelSpot      = "SPOT"
	modelFlex      = "FLEX_START"
	modelBound     = "RESERVATION_BOUND"
	actionStop     = "STOP"
	actionDelete   = "DELETE"
	terminate      = "TERMINATE"
	migrate        = "MIGRATE"
	longestFlexRun = 7 * 24 * time.Hour
)

func templateRoutes() []route {
	const templates = "/compute/v1/projects/{project}/global/instanceTemplates"
	return []route{
		{"POST", templates, "compute.instanceTemplates.insert", (*Server).insertTemplate},
		{"GET", templates, "compute.instanceTemplates.list", func(s *Server, c *call) (wire, error) {
			return s.list(c, "compute#instanceTemplateList", s.templates.shown(c.key()+"/"))
		}},
		{"GET", templates + "/{instanceTemplate}", "compute.instanceTemplates.get", func(s *Server, c *call) (wire, error) {
			return getResource(s, c, s.templates)
		}},
		{"DELETE", templates + "/{instanceTemplate}", "compute.instanceTemplates.delete", func(s *Server, c *call) (wire, error) {
			return deleteResource(s, c, s.templates, s.templateUser)
		}},
	}
}

func (s *Server) insertTemplate(c *call) (wire, error) {
	t := &computepb.InstanceTemplate{}
	if err := c.decode(t); err != nil {
		return nil, err
	}
	if err := checkName("resource.name", t.GetName()); err != nil {
		return nil, err
	}
	key := "global/instanceTemplates/" + t.GetName()
	if s.templates.get(key) != nil {
		return nil, alreadyExists(s.relative(key))
	}
	if t.Properties == nil {
		return nil, missingField("resource.properties")
	}
	if err := s.checkProperties("resource.properties", t.Properties); err != nil {
		return nil, err
	}
	if mt := t.Properties.GetMachineType(); strings.Contains(mt, "/") {
		return nil, invalidField("resource.properties.machineType", mt, "A template names the machine type without its zone, such as 'n2-standard-8'.")
	}
	if limit, limited := s.limit("INSTANCE_TEMPLATES"); limited && len(s.templates.keys) >= limit {
		return nil, quotaExceeded("INSTANCE_TEMPLATES", limit, "global")
	}
	fillTemplate(t.Properties)
	t.Kind, t.Id = new("compute#instanceTemplate"), new(s.newID())
	t.SelfLink, t.CreationTimestamp = new(s.link(key)), new(timestamp(s.now))
	return insertResource(s, c, s.templates, key, t, c.route.name)
}

// templateUser is the group that uses a template.
func (s *Server) templateUser(t *record[*computepb.InstanceTemplate, resourceState]) string {
	for g := range s.groups.under("zones/") {
		if g.Wire.GetInstanceTemplate() == t.Wire.GetSelfLink() {
			return g.Key
		}
		for _, v := range g.Wire.GetVersions() {
			if v.GetInstanceTemplate() == t.Wire.GetSelfLink() {
				return g.Key
			}
		}
	}
	return ""
}

// checkProperties checks what templates and instances have in common.
func (s *Server) checkProperties(field string, p *computepb.InstanceProperties) error {
	if p.GetMachineType() == "" {
		return missingField(field + ".machineType")
	}
	if err := checkLabels(field+".labels", p.GetLabels()); err != nil {
		return err
	}
	if err := checkMetadata(field+".metadata", p.GetMetadata()); err != nil {
		return err
	}
	if err := checkDisks(field+".disks", p.GetDisks()); err != nil {
		return err
	}
	if len(p.GetNetworkInterfaces()) == 0 {
		return missingField(field + ".networkInterfaces")
	}
	for i, tag := range p.GetTags().GetItems() {
		if err := checkName(fmt.Sprintf("%s.tags.items[%d]", field, i), tag); err != nil {
			return err
		}
	}
	mt := s.machineTypes[lastSegment(p.GetMachineType())]
	if err := checkScheduling(field+".scheduling", p.GetScheduling(), mt); err != nil {
		return err
	}
	affinity := p.GetReservationAffinity()
	if err := oneOf(field+".reservationAffinity.consumeReservationType", affinityType(affinity), "ANY_RESERVATION", "NO_RESERVATION", "SPECIFIC_RESERVATION"); err != nil {
		return err
	}
	if model := p.GetScheduling().GetProvisioningModel(); model == modelFlex && affinity.GetConsumeReservationType() == "SPECIFIC_RESERVATION" {
		return invalidField(field+".reservationAffinity.consumeReservationType", affinity.GetConsumeReservationType(), "Flex-start VMs cannot consume reservations.")
	}
	return nil
}

func affinityType(a *computepb.ReservationAffinity) *string {
	if a == nil {
		return nil
	}
	return a.ConsumeReservationType
}

func checkDisks(field string, disks []*computepb.AttachedDisk) error {
	if len(disks) == 0 {
		return missingField(field)
	}
	if !disks[0].GetBoot() {
		return invalidField(field+"[0].boot", "false", "The first disk must be a boot disk.")
	}
	for i, d := range disks {
		at := fmt.Sprintf("%s[%d]", field, i)
		if i > 0 && d.GetBoot() {
			return invalidField(at+".boot", "true", "Only the first disk can be a boot disk.")
		}
		if err := checkDisk(at, d); err != nil {
			return err
		}
	}
	return nil
}

func checkDisk(at string, d *computepb.AttachedDisk) error {
	if err := oneOf(at+".type", d.Type, "PERSISTENT", "SCRATCH"); err != nil {
		return err
	}
	if err := oneOf(at+".mode", d.Mode, "READ_WRITE", "READ_ONLY"); err != nil {
		return err
	}
	if (d.InitializeParams == nil) == (d.GetSource() == "") {
		return invalidField(at+".initializeParams", "", "Exactly one of source and initializeParams must be given.")
	}
	params := d.GetInitializeParams()
	if d.GetBoot() && d.GetSource() == "" && params.GetSourceImage() == "" && params.GetSourceSnapshot() == "" {
		return missingField(at + ".initializeParams.sourceImage")
	}
	if size := params.GetDiskSizeGb(); size != 0 && (size < 10 || size > 65536) && d.GetType() != "SCRATCH" {
		return invalidField(at+".initializeParams.diskSizeGb", fmt.Sprint(size), "Must be between 10 and 65536 GB.")
	}
	return nil
}

func checkScheduling(field string, sched *computepb.Scheduling, mt MachineType) error {
	if sched == nil {
		return nil
	}
	for _, err := range []error{
		oneOf(field+".provisioningModel", sched.ProvisioningModel, modelStandard, modelSpot, modelFlex, modelBound),
		oneOf(field+".instanceTerminationAction", sched.InstanceTerminationAction, actionStop, actionDelete),
		oneOf(field+".onHostMaintenance", sched.OnHostMaintenance, migrate, terminate),
	} {
		if err != nil {
			return err
		}
	}
	if t := sched.HostErrorTimeoutSeconds; t != nil && (*t < 90 || *t > 330 || *t%30 != 0) {
		return invalidField(field+".hostErrorTimeoutSeconds", fmt.Sprint(*t), "Must be between 90 and 330 seconds, in steps of 30.")
	}
	if mt.GPUs > 0 && sched.GetOnHostMaintenance() == migrate {
		return invalidField(field+".onHostMaintenance", migrate, "Instances with guest accelerators do not support live migration.")
	}
	if err := checkRunDuration(field, sched); err != nil {
		return err
	}
	if model := sched.GetProvisioningModel(); model == modelSpot || model == modelFlex {
		if sched.GetAutomaticRestart() {
			return invalidField(field+".automaticRestart", "true", "Scheduling must have automaticRestart be false when the provisioning model is "+model+".")
		}
		if sched.GetOnHostMaintenance() == migrate {
			return invalidField(field+".onHostMaintenance", migrate, "Must be TERMINATE when the provisioning model is "+model+".")
		}
	}
	return nil
}

func checkRunDuration(field string, sched *computepb.Scheduling) error {
	limited := sched.GetMaxRunDuration() != nil || sched.GetTerminationTime() != ""
	model := sched.GetProvisioningModel()
	run := seconds(sched.GetMaxRunDuration())
	if sched.GetMaxRunDuration() != nil && (run < 30*time.Second || run > 120*24*time.Hour) {
		return invalidField(field+".maxRunDuration", fmt.Sprintf("%ds", int64(run.Seconds())), "Must be between 30 seconds and 120 days.")
	}
	if sched.GetTerminationTime() != "" {
		if _, err := time.Parse(time.RFC3339, sched.GetTerminationTime()); err != nil {
			return invalidField(field+".terminationTime", sched.GetTerminationTime(), "Must be an RFC 3339 timestamp.")
		}
		if sched.GetMaxRunDuration() != nil {
			return invalidField(field+".terminationTime", sched.GetTerminationTime(), "Cannot be given together with maxRunDuration.")
		}
	}
	if model == modelFlex {
		if !limited {
			return invalid("Flex-start VMs must have '%s.maxRunDuration'.", field)
		}
		if run > longestFlexRun {
			return invalidField(field+".maxRunDuration", fmt.Sprintf("%ds", int64(run.Seconds())), "Flex-start VMs can run for at most 7 days.")
		}
	}
	if sched.InstanceTerminationAction != nil && !limited && model != modelSpot {
		return invalidField(field+".instanceTerminationAction", sched.GetInstanceTerminationAction(), "Can only be given for Spot VMs and for VMs with a limited run time.")
	}
	return nil
}

// fillTemplate states what the service states where a template leaves it out.
func fillTemplate(p *computepb.InstanceProperties) {
	for i, d := range p.GetDisks() {
		fillDisk(d, i)
	}
	for i, nic := range p.GetNetworkInterfaces() {
		nic.Kind, nic.Name = new("compute#networkInterface"), new(fmt.Sprintf("nic%d", i))
		for _, access := range nic.GetAccessConfigs() {
			access.Kind = new("compute#accessConfig")
		}
	}
	if p.Metadata == nil {
		p.Metadata = &computepb.Metadata{}
	}
	fillMetadata(p.Metadata)
	if p.Tags == nil {
		p.Tags = &computepb.Tags{}
	}
	if p.Scheduling == nil {
		p.Scheduling = &computepb.Scheduling{}
	}
	fillScheduling(p.Scheduling, false)
}

func fillDisk(d *computepb.AttachedDisk, i int) {
	d.Kind, d.Index = new("compute#attachedDisk"), new(int32(i)) //nolint:gosec // a small index
	if d.DeviceName == nil {
		name := fmt.Sprintf("persistent-disk-%d", i)
		if i == 0 {
			name = "boot"
		}
		d.DeviceName = new(name)
	}
	for _, set := range []struct {
		field **string
		value string
	}{{&d.Interface, "SCSI"}, {&d.Mode, "READ_WRITE"}, {&d.Type, "PERSISTENT"}} {
		if *set.field == nil {
			*set.field = new(set.value)
		}
	}
}

func fillMetadata(m *computepb.Metadata) {
	m.Kind, m.Fingerprint = new("compute#metadata"), new(metadataFingerprint(m))
}

// fillScheduling states the defaults; immobile machines cannot migrate.
func fillScheduling(sched *computepb.Scheduling, immobile bool) {
	transient := slices.Contains([]string{modelSpot, modelFlex}, sched.GetProvisioningModel()) || sched.GetPreemptible()
	if sched.AutomaticRestart == nil {
		sched.AutomaticRestart = new(!transient)
	}
	if sched.OnHostMaintenance == nil {
		policy := migrate
		if transient || immobile {
			policy = terminate
		}
		sched.OnHostMaintenance = new(policy)
	}
	if sched.Preemptible == nil {
		sched.Preemptible = new(sched.GetProvisioningModel() == modelSpot)
	}
}

// propertiesOf an instance, as if it were a template, for the checks and
// steps that both share.
func propertiesOf(i *computepb.Instance) *computepb.InstanceProperties {
	return &computepb.InstanceProperties{
		MachineType: i.MachineType, Labels: i.Labels, Metadata: i.Metadata, Disks: i.Disks,
		NetworkInterfaces: i.NetworkInterfaces, Tags: i.Tags, Scheduling: i.Scheduling, ReservationAffinity: i.ReservationAffinity,
	}
}

// instanceFrom is a new instance of a template's properties.
func instanceFrom(p *computepb.InstanceProperties) *computepb.Instance {
	p = proto.Clone(p).(*computepb.InstanceProperties)
	return &computepb.Instance{
		AdvancedMachineFeatures: p.AdvancedMachineFeatures, CanIpForward: p.CanIpForward,
		ConfidentialInstanceConfig: p.ConfidentialInstanceConfig, Description: p.Description, Disks: p.Disks,
		GuestAccelerators: p.GuestAccelerators, KeyRevocationActionType: p.KeyRevocationActionType, Labels: p.Labels,
		MachineType: p.MachineType, Metadata: p.Metadata, MinCpuPlatform: p.MinCpuPlatform,
		NetworkInterfaces: p.NetworkInterfaces, NetworkPerformanceConfig: p.NetworkPerformanceConfig,
		PrivateIpv6GoogleAccess: p.PrivateIpv6GoogleAccess, ReservationAffinity: p.ReservationAffinity,
		ResourcePolicies: p.ResourcePolicies, Scheduling: p.Scheduling, ServiceAccounts: p.ServiceAccounts,
		ShieldedInstanceConfig: p.ShieldedInstanceConfig, Tags: p.Tags,
	}
}
