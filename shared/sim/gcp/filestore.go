package gcp

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"cloud.google.com/go/filestore/apiv1/filestorepb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	commonpb "google.golang.org/genproto/googleapis/cloud/common"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

type fileOperationState struct {
	Target string // key of the instance
	Verb   string // "create", "update", "delete"
	Start  time.Time
}

type fileOperation = record[*longrunningpb.Operation, fileOperationState]

func filestoreRoutes() []route {
	const instances = "/v1/projects/{project}/locations/{location}/instances"
	const operations = "/v1/projects/{project}/locations/{location}/operations"
	return []route{
		{"POST", instances, "file.instances.create", (*Server).createFilestore},
		{"GET", instances, "file.instances.list", (*Server).listFilestores},
		{"GET", instances + "/{instance}", "file.instances.get", (*Server).getFilestore},
		{"PATCH", instances + "/{instance}", "file.instances.update", (*Server).updateFilestore},
		{"DELETE", instances + "/{instance}", "file.instances.delete", (*Server).deleteFilestore},
		{"GET", operations, "file.operations.list", (*Server).listFileOperations},
		{"GET", operations + "/{operation}", "file.operations.get", (*Server).getFileOperation},
		{"DELETE", operations + "/{operation}", "file.operations.delete", (*Server).deleteFileOperation},
	}
}

// rpcNotFound is how the newer APIs say it.
func rpcNotFound(name string) *apiError {
	return &apiError{status: http.StatusNotFound, reason: "notFound", message: fmt.Sprintf("Resource '%s' was not found", name)}
}

// smallestShare is the least capacity of a tier, in GB.
func smallestShare(tier filestorepb.Instance_Tier) (int64, bool) {
	switch tier {
	case filestorepb.Instance_STANDARD, filestorepb.Instance_BASIC_HDD:
		return 1024, true
	case filestorepb.Instance_PREMIUM, filestorepb.Instance_BASIC_SSD:
		return 2560, true
	case filestorepb.Instance_HIGH_SCALE_SSD:
		return 10240, true
	case filestorepb.Instance_ENTERPRISE, filestorepb.Instance_ZONAL, filestorepb.Instance_REGIONAL:
		return 1024, true
	}
	return 0, false
}

func (s *Server) checkFilestore(c *call, f *filestorepb.Instance) error {
	least, known := smallestShare(f.GetTier())
	if !known {
		return invalid("Invalid value for field 'instance.tier': '%s'.", f.GetTier())
	}
	location := c.path("location")
	regional := f.GetTier() == filestorepb.Instance_ENTERPRISE || f.GetTier() == filestorepb.Instance_REGIONAL
	if regional && s.opts.Regions[location] == nil || !regional && s.regionOf[location] == "" {
		return invalid("Instances of tier %s cannot be created in location '%s'.", f.GetTier(), location)
	}
	if len(f.GetFileShares()) != 1 {
		return invalid("Invalid value for field 'instance.fileShares': exactly one file share must be given.")
	}
	share := f.GetFileShares()[0]
	if name := share.GetName(); name == "" || len(name) > 63 || strings.ContainsAny(name, "-./ ") {
		return invalid("Invalid value for field 'instance.fileShares[0].name': '%s'.", name)
	}
	if share.GetCapacityGb() < least {
		return invalid("Invalid value for field 'instance.fileShares[0].capacityGb': %d is less than the %d GB that tier %s starts at.", share.GetCapacityGb(), least, f.GetTier())
	}
	if len(f.GetNetworks()) != 1 {
		return invalid("Invalid value for field 'instance.networks': exactly one network must be given.")
	}
	network := "global/networks/" + lastSegment(f.GetNetworks()[0].GetNetwork())
	if s.networks.get(network) == nil {
		return invalid("Network '%s' does not exist.", f.GetNetworks()[0].GetNetwork())
	}
	return checkLabels("instance.labels", f.GetLabels())
}

func (s *Server) createFilestore(c *call) (wire, error) {
	id := c.query.Get("instanceId")
	if !namePattern.MatchString(id) {
		return nil, invalid("Invalid value for field 'instanceId': '%s'.", id)
	}
	f := &filestorepb.Instance{}
	if err := c.decode(f); err != nil {
		return nil, err
	}
	key := c.key() + "/" + id
	if s.filestores.get(key) != nil {
		return nil, &apiError{status: http.StatusConflict, reason: "alreadyExists", message: fmt.Sprintf("Resource '%s' already exists", s.relative(key))}
	}
	if err := s.checkFilestore(c, f); err != nil {
		return nil, err
	}
	f.Name, f.State, f.CreateTime = s.relative(key), filestorepb.Instance_CREATING, timestamppb.New(s.now)
	network := f.Networks[0]
	if network.ReservedIpRange == "" || strings.HasPrefix(network.ReservedIpRange, "google-managed-services") {
		network.ReservedIpRange = s.freeFileRange()
	}
	network.IpAddresses = []string{strings.TrimSuffix(strings.Split(network.ReservedIpRange, "/")[0], ".0") + ".2"}
	if len(network.Modes) == 0 {
		network.Modes = []filestorepb.NetworkConfig_AddressMode{filestorepb.NetworkConfig_MODE_IPV4}
	}
	f.Etag = fingerprint(key, s.newID())
	s.filestores.put(key, f, resourceState{Creating: true})
	return s.startFileOperation(key, "create")
}

// freeFileRange is a range that no Filestore instance has.
func (s *Server) freeFileRange() string {
	taken := map[string]bool{}
	for f := range s.filestores.under("") {
		for _, n := range f.Wire.GetNetworks() {
			taken[n.GetReservedIpRange()] = true
		}
	}
	for n := 0; ; n++ {
		r := fmt.Sprintf("10.%d.%d.0/29", 88+n/256, n%256)
		if !taken[r] {
			return r
		}
	}
}

func (s *Server) listFilestores(c *call) (wire, error) {
	rows := s.filestores.shown(c.key() + "/")
	if c.path("location") == "-" {
		rows = s.filestores.shown("locations/")
	}
	return s.rpcList(c, "instances", rows)
}

// rpcList answers a list request of one of the newer APIs.
func (s *Server) rpcList(c *call, field string, rows []row) (wire, error) {
	rows, err := filtered(s.faults.omit(c.route.name, rows), c.query.Get("filter"))
	if err != nil {
		return nil, err
	}
	size := c.query.Get("pageSize")
	if size == "0" {
		size = ""
	}
	n, err := pageSize(size)
	if err != nil {
		return nil, err
	}
	page, next, err := cutPage(rows, c.query.Get("pageToken"), n)
	if err != nil {
		return nil, err
	}
	return listOf(field, page, next)
}

func (s *Server) getFilestore(c *call) (wire, error) {
	r, ok := s.filestores.show(c.key())
	if !ok {
		return nil, rpcNotFound(s.relative(c.key()))
	}
	return r.encode()
}

// idleFilestore finds an instance that nothing is being done with.
func (s *Server) idleFilestore(c *call) (*record[*filestorepb.Instance, resourceState], error) {
	r := s.filestores.get(c.key())
	if r == nil {
		return nil, rpcNotFound(s.relative(c.key()))
	}
	if r.State.Creating || r.State.Operation != "" {
		return nil, &apiError{status: http.StatusBadRequest, reason: "failedPrecondition", message: fmt.Sprintf("Resource '%s' has another operation in progress", s.relative(r.Key))}
	}
	return r, nil
}

func (s *Server) updateFilestore(c *call) (wire, error) {
	r, err := s.idleFilestore(c)
	if err != nil {
		return nil, err
	}
	patch := &filestorepb.Instance{}
	if err := c.decode(patch); err != nil {
		return nil, err
	}
	next := cloneOf(r.Wire)
	for _, path := range strings.Split(c.query.Get("updateMask"), ",") {
		switch path {
		case "description":
			next.Description = patch.GetDescription()
		case "labels":
			next.Labels = patch.GetLabels()
		case "fileShares", "file_shares":
			next.FileShares = patch.GetFileShares()
		default:
			return nil, invalid("Invalid value for field 'updateMask': '%s'.", path)
		}
	}
	if err := s.checkFilestore(c, next); err != nil {
		return nil, err
	}
	r.Wire = next
	r.Wire.Etag = fingerprint(r.Key, s.newID())
	s.filestores.changed(r)
	return s.startFileOperation(r.Key, "update")
}

func (s *Server) deleteFilestore(c *call) (wire, error) {
	r, err := s.idleFilestore(c)
	if err != nil {
		return nil, err
	}
	if r.Wire.GetDeletionProtectionEnabled() {
		return nil, &apiError{status: http.StatusBadRequest, reason: "failedPrecondition", message: fmt.Sprintf("Resource '%s' is protected against deletion: %s", s.relative(r.Key), r.Wire.GetDeletionProtectionReason())}
	}
	r.Wire.State = filestorepb.Instance_DELETING
	return s.startFileOperation(r.Key, "delete")
}

func (s *Server) startFileOperation(key, verb string) (wire, error) {
	id := s.newID()
	opKey := key[:strings.Index(key, "/instances/")] + fmt.Sprintf("/operations/operation-%d-%013x-%08x-%08x", s.now.UnixMilli(), mix(id)>>12, uint32(id), uint32(id>>32)) //nolint:gosec // digits of a name
	op := &longrunningpb.Operation{Name: s.relative(opKey)}
	r := s.fileOps.put(opKey, op, fileOperationState{Target: key, Verb: verb, Start: s.now})
	if err := s.describe(r, time.Time{}); err != nil {
		return nil, err
	}
	f := s.filestores.get(key)
	f.State.Operation = opKey
	s.filestores.changed(f)
	s.after(s.delays().Filestore, "filestore.finished", opKey, "")
	return encode(op)
}

// describe states an operation's metadata.
func (s *Server) describe(r *fileOperation, end time.Time) error {
	meta := &commonpb.OperationMetadata{
		CreateTime: timestamppb.New(r.State.Start), Target: s.relative(r.State.Target), Verb: r.State.Verb, ApiVersion: "v1",
	}
	if !end.IsZero() {
		meta.EndTime = timestamppb.New(end)
	}
	var err error
	r.Wire.Metadata, err = anypb.New(meta)
	s.fileOps.changed(r)
	return err
}

func (s *Server) filestoreFinished(t task) {
	r := s.fileOps.get(t.Owner)
	if r == nil {
		return
	}
	f := s.filestores.get(r.State.Target)
	result, err := anypb.New(&emptypb.Empty{})
	if r.State.Verb == "delete" {
		s.filestores.drop(f.Key)
	} else {
		f.State = resourceState{}
		f.Wire.State = filestorepb.Instance_READY
		s.filestores.changed(f)
		result, err = anypb.New(f.Wire)
	}
	if err == nil {
		err = s.describe(r, s.now)
	}
	if err != nil {
		s.opts.Logger.Error("a Filestore operation's result cannot be encoded", "operation", r.Key, "error", err)
	}
	r.Wire.Done, r.Wire.Result = true, &longrunningpb.Operation_Response{Response: result}
	s.fileOps.changed(r)
}

func (s *Server) getFileOperation(c *call) (wire, error) {
	r, ok := s.fileOps.show(c.key())
	if !ok {
		return nil, rpcNotFound(s.relative(c.key()))
	}
	return r.encode()
}

func (s *Server) listFileOperations(c *call) (wire, error) {
	return s.rpcList(c, "operations", s.fileOps.shown(c.key()+"/"))
}

func (s *Server) deleteFileOperation(c *call) (wire, error) {
	if s.fileOps.get(c.key()) == nil {
		return nil, rpcNotFound(s.relative(c.key()))
	}
	s.fileOps.drop(c.key())
	return wire("{}"), nil
}
