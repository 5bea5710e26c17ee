package gcp

import (
	"fmt"
	"slices"

	"cloud.google.com/go/compute/apiv1/computepb"
)

func diskRoutes() []route {
	const disks = "/compute/v1/projects/{project}/zones/{zone}/disks"
	return []route{
		{"POST", disks, "compute.disks.insert", (*Server).insertDisk},
		{"GET", disks, "compute.disks.list", func(s *Server, c *call) (wire, error) {
			return s.list(c, "compute#diskList", s.disks.shown(c.key()+"/"))
		}},
		{"GET", disks + "/{disk}", "compute.disks.get", func(s *Server, c *call) (wire, error) { return getResource(s, c, s.disks) }},
		{"DELETE", disks + "/{disk}", "compute.disks.delete", func(s *Server, c *call) (wire, error) {
			return deleteResource(s, c, s.disks, s.diskUser)
		}},
	}
}

func (s *Server) insertDisk(c *call) (wire, error) {
	d := &computepb.Disk{}
	if err := c.decode(d); err != nil {
		return nil, err
	}
	if err := checkName("resource.name", d.GetName()); err != nil {
		return nil, err
	}
	if err := checkLabels("resource.labels", d.GetLabels()); err != nil {
		return nil, err
	}
	if image := c.query.Get("sourceImage"); image != "" {
		d.SourceImage = new(image)
	}
	if d.SizeGb == nil {
		d.SizeGb = new(int64(500))
		if d.GetSourceImage() != "" {
			d.SizeGb = new(int64(10))
		}
	}
	if d.GetSizeGb() < 10 || d.GetSizeGb() > 65536 {
		return nil, invalidField("resource.sizeGb", fmt.Sprint(d.GetSizeGb()), "Must be between 10 and 65536 GB.")
	}
	zone := c.path("zone")
	s.fillNewDisk(zone, d)
	return insertResource(s, c, s.disks, "zones/"+zone+"/disks/"+d.GetName(), d, "insert")
}

func (s *Server) fillNewDisk(zone string, d *computepb.Disk) {
	kind := lastSegment(d.GetType())
	if kind == "" {
		kind = "pd-standard"
	}
	d.Kind, d.Id, d.Status = new("compute#disk"), new(s.newID()), new("READY")
	d.Zone, d.SelfLink = new(s.link("zones/"+zone)), new(s.link("zones/"+zone+"/disks/"+d.GetName()))
	d.Type = new(s.link("zones/" + zone + "/diskTypes/" + kind))
	d.CreationTimestamp, d.LabelFingerprint = new(timestamp(s.now)), new(labelFingerprint(d.GetLabels()))
	d.PhysicalBlockSizeBytes = new(int64(4096))
	d.Users = nil
}

func (s *Server) diskUser(d *record[*computepb.Disk, resourceState]) string {
	if len(d.Wire.GetUsers()) == 0 {
		return ""
	}
	return s.resolve(d.Wire.GetUsers()[0], "")
}

// attach gives an instance its disks: new ones, and existing ones that nobody
// else uses. Nothing is created unless all can be.
func (s *Server) attach(zone string, i *computepb.Instance) *failure {
	var created []*computepb.Disk
	var existing []*record[*computepb.Disk, resourceState]
	for n, d := range i.GetDisks() {
		fillDisk(d, n)
		switch {
		case d.GetType() == "SCRATCH":
		case d.GetSource() != "":
			r, failed := s.existingDisk(zone, d)
			if failed != nil {
				return failed
			}
			existing = append(existing, r)
		default:
			disk := newBootDisk(i, d, n)
			key := "zones/" + zone + "/disks/" + disk.GetName()
			if s.disks.get(key) != nil {
				return takenFailure(s.relative(key))
			}
			created = append(created, disk)
			d.Source = new(s.link(key))
			d.DiskSizeGb = disk.SizeGb
			d.InitializeParams = nil
		}
	}
	user := s.link("zones/" + zone + "/instances/" + i.GetName())
	for _, disk := range created {
		s.fillNewDisk(zone, disk)
		disk.Users, disk.LastAttachTimestamp = []string{user}, new(timestamp(s.now))
		s.disks.put("zones/"+zone+"/disks/"+disk.GetName(), disk, resourceState{})
	}
	for _, r := range existing {
		r.Wire.Users, r.Wire.LastAttachTimestamp = append(r.Wire.Users, user), new(timestamp(s.now))
		s.disks.changed(r)
	}
	return nil
}

func (s *Server) existingDisk(zone string, d *computepb.AttachedDisk) (*record[*computepb.Disk, resourceState], *failure) {
	key := s.resolve(d.GetSource(), "zones/"+zone+"/disks")
	r, refused := usable(s, s.disks, key)
	if refused != nil {
		return nil, &failure{Code: "RESOURCE_NOT_FOUND", Message: refused.message, HTTP: refused.status}
	}
	if user := s.diskUser(r); user != "" && d.GetMode() != "READ_ONLY" {
		return nil, &failure{
			Code: "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", HTTP: 400,
			Message: fmt.Sprintf("The disk resource '%s' is already being used by '%s'", s.relative(key), s.relative(user)),
		}
	}
	d.Source, d.DiskSizeGb = r.Wire.SelfLink, r.Wire.SizeGb
	return r, nil
}

func newBootDisk(i *computepb.Instance, d *computepb.AttachedDisk, n int) *computepb.Disk {
	params := d.GetInitializeParams()
	name := params.GetDiskName()
	if name == "" {
		name = i.GetName()
		if n > 0 {
			name = fmt.Sprintf("%s-%d", name, n)
		}
	}
	size := params.GetDiskSizeGb()
	if size == 0 {
		size = 10
	}
	return &computepb.Disk{
		Name: new(name), SizeGb: new(size), Type: params.DiskType, Labels: clonedLabels(params.GetLabels()),
		SourceImage: params.SourceImage, SourceSnapshot: params.SourceSnapshot, Description: params.Description,
		ProvisionedIops: params.ProvisionedIops, ProvisionedThroughput: params.ProvisionedThroughput,
	}
}

// detach deletes an instance's disks that go with it, and frees the others.
func (s *Server) detach(r *instance) {
	for _, d := range r.Wire.GetDisks() {
		disk := s.disks.get(s.resolve(d.GetSource(), ""))
		if d.GetSource() == "" || disk == nil {
			continue
		}
		if d.GetAutoDelete() {
			s.disks.drop(disk.Key)
			continue
		}
		disk.Wire.Users = slices.DeleteFunc(disk.Wire.Users, func(user string) bool { return user == r.Wire.GetSelfLink() })
		disk.Wire.LastDetachTimestamp = new(timestamp(s.now))
		s.disks.changed(disk)
	}
}

// unfitDisk is the boot disk type that a machine type does not take, or "".
func unfitDisk(mt MachineType, i *computepb.Instance) string {
	if len(mt.DiskTypes) == 0 || len(i.GetDisks()) == 0 {
		return ""
	}
	params := i.GetDisks()[0].GetInitializeParams()
	if params == nil {
		return ""
	}
	kind := lastSegment(params.GetDiskType())
	if kind == "" {
		kind = "pd-standard"
	}
	if slices.Contains(mt.DiskTypes, kind) {
		return ""
	}
	return kind
}
