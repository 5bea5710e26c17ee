// Package auditlog reads entries of Compute Engine's audit log, in the form in which Eventarc delivers them as well as in that
// of a log sink's Pub/Sub message, and says which of them tell that an instance of a cluster was taken away. What may
// not live here: a judgment of what such a loss means.
package auditlog

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/googleapis/google-cloudevents-go/cloud/auditdata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// Type is the type of the CloudEvents in which Eventarc delivers entries. Their data is the entry.
const Type = "google.cloud.audit.log.v1.written"

// Entry is what an entry comes to.
type Entry struct {
	// Lost is the loss that it tells of, nil when it tells of none. The same entry gives the same event (source and id),
	// by whichever route it came.
	Lost *events.Event
	// Ignored is the kind of reason why it tells of none, one of the constants; Detail the particulars.
	Ignored string
	Detail  string
}

// The reasons to ignore an entry.
const (
	NotCompute     = "not compute"      // another service's, or no audit entry at all
	OtherMethod    = "other method"     // nothing is taken away by it
	OtherResource  = "other resource"   // it is about no instance
	ForeignMachine = "foreign instance" // the name is not of a cluster's form
	FailedCall     = "failed call"      // the call failed: nothing has happened
)

// Read reads a log entry in its JSON form. An error means that it is none; everything else, also what is of no
// use, is an answer.
func Read(data []byte) (Entry, error) {
	var e auditdata.LogEntryData
	options := protojson.UnmarshalOptions{DiscardUnknown: true, Resolver: anyType{}}
	if err := options.Unmarshal(data, &e); err != nil {
		return Entry{}, fmt.Errorf("reading a log entry, %w", err)
	}
	if e.LogName == "" && e.InsertId == "" && e.ProtoPayload == nil {
		return Entry{}, errors.New("reading a log entry, the JSON has none of an entry's fields")
	}
	if ignored, detail := useless(&e); ignored != "" {
		return Entry{Ignored: ignored, Detail: detail}, nil
	}
	return lost(&e)
}

// useless says why an entry tells of no loss; "" when it does.
func useless(e *auditdata.LogEntryData) (ignored, detail string) {
	p := e.GetProtoPayload()
	if p.GetServiceName() != "compute.googleapis.com" {
		return NotCompute, p.GetServiceName()
	}
	if !takesAway(bareMethod(p.GetMethodName())) {
		return OtherMethod, p.GetMethodName()
	}
	if code := p.GetStatus().GetCode(); code != 0 && strings.HasSuffix(e.GetLogName(), "%2Factivity") {
		return FailedCall, fmt.Sprintf("%s: %d %s", p.GetMethodName(), code, p.GetStatus().GetMessage())
	}
	if _, _, ok := instance(p.GetResourceName()); !ok {
		return OtherResource, p.GetResourceName()
	}
	return "", ""
}

func lost(e *auditdata.LogEntryData) (Entry, error) {
	p, labels := e.GetProtoPayload(), e.GetResource().GetLabels()
	zone, name, _ := instance(p.GetResourceName())
	id, ok := cluster.InstanceCluster(name)
	if !ok {
		return Entry{Ignored: ForeignMachine, Detail: p.GetResourceName()}, nil
	}
	method := bareMethod(p.GetMethodName())
	l := &events.InstanceLost{
		Cluster:   cluster.Key{Project: project(e), Location: cluster.Region(zone), ID: id},
		Name:      name,
		Zone:      zone,
		Method:    method,
		Message:   p.GetStatus().GetMessage(),
		HostError: method == "compute.instances.hostError",
		Time:      when(e),
	}
	if v := labels["instance_id"]; v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return Entry{}, fmt.Errorf("reading a log entry, its instance_id %q is no number", v)
		}
		l.InstanceID = n
	}
	if err := l.Cluster.Validate(); err != nil {
		return Entry{}, fmt.Errorf("reading a log entry about %s, %w", p.GetResourceName(), err)
	}
	if l.Time.IsZero() {
		return Entry{}, fmt.Errorf("reading a log entry about %s, it has no timestamp", p.GetResourceName())
	}
	return Entry{Lost: &events.Event{
		ID:      identity(e),
		Source:  "//cloudaudit.googleapis.com/" + strings.ReplaceAll(e.GetLogName(), "cloudaudit.googleapis.com%2F", ""),
		Type:    events.TypeInstanceLost,
		Time:    l.Time,
		Payload: l,
	}}, nil
}

// apiVersion is what the activity log puts before a method's name and the system events' log does not.
var apiVersion = regexp.MustCompile(`^(v[0-9][0-9a-z]*|beta|alpha)\.`)

// bareMethod is a method's name without its API version. The singular is how one page of the documentation writes one of
// them.
func bareMethod(method string) string {
	bare := apiVersion.ReplaceAllString(method, "")
	if rest, ok := strings.CutPrefix(bare, "compute.instance."); ok {
		return "compute.instances." + rest
	}
	return bare
}

// takesAway reports whether a method takes an instance away from who works on it: deletes, stops or replaces it, or is
// about to. Migrations, restarts and announcements do not.
func takesAway(method string) bool {
	what, ok := strings.CutPrefix(method, "compute.instances.")
	if !ok {
		return false
	}
	switch what {
	case "delete", "stop", "suspend", "reportHostAsFaulty", // calls of people and programs
		"preempted", "hostError", "terminateOnHostMaintenance", "guestTerminate",
		"deferredStop", "deferredDelete", // a maximal run duration is over
		"repair.recreateInstance",
		"instanceManagerHaltForRestart", "baremetalCaretakerPreempted", "stoppedDueToPdDoubleServe", "kmsKeyError",
		"localSsdRecoveryAttempting", "localSsdRecoveryTimeoutError", "localSsdRecoveryFailedError",
		"scratchDiskCreationFailed":
		return true
	}
	return false
}

// instance takes projects/P/zones/Z/instances/I apart.
func instance(resource string) (zone, name string, ok bool) {
	p := strings.Split(strings.TrimPrefix(resource, "//compute.googleapis.com/"), "/")
	if len(p) != 6 || p[0] != "projects" || p[2] != "zones" || p[4] != "instances" || p[3] == "" || p[5] == "" {
		return "", "", false
	}
	return p[3], p[5], true
}

// project is the project's id. The resource's name may carry the number instead, and so may the log's.
func project(e *auditdata.LogEntryData) string {
	if id := e.GetResource().GetLabels()["project_id"]; id != "" {
		return id
	}
	for _, name := range []string{e.GetProtoPayload().GetResourceName(), e.GetLogName()} {
		if p := strings.Split(name, "/"); len(p) > 1 && p[0] == "projects" && strings.Trim(p[1], "0123456789") != "" {
			return p[1]
		}
	}
	return ""
}

func when(e *auditdata.LogEntryData) time.Time {
	for _, t := range []interface {
		IsValid() bool
		AsTime() time.Time
	}{e.GetTimestamp(), e.GetReceiveTimestamp()} {
		if t.IsValid() {
			return cluster.Moment(t.AsTime())
		}
	}
	return time.Time{}
}

// identity is what Cloud Logging itself tells entries apart by within a log: the insert id, and the time.
func identity(e *auditdata.LogEntryData) string {
	id := e.GetInsertId()
	if id == "" {
		id = fmt.Sprintf("%s-%t-%t", e.GetOperation().GetId(), e.GetOperation().GetFirst(), e.GetOperation().GetLast())
	}
	return id + "-" + when(e).Format("20060102T150405.000Z")
}

// anyType resolves the details of a status, which may be of any type, to nothing: they are not read, and a type that this
// program does not know must not make the entry unreadable.
type anyType struct{}

func (anyType) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if t, err := protoregistry.GlobalTypes.FindMessageByURL(url); err == nil {
		return t, nil
	}
	return (&emptypb.Empty{}).ProtoReflect().Type(), nil
}

func (a anyType) FindMessageByName(protoreflect.FullName) (protoreflect.MessageType, error) {
	return a.FindMessageByURL("")
}

func (anyType) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	return protoregistry.GlobalTypes.FindExtensionByName(name)
}

func (anyType) FindExtensionByNumber(message protoreflect.FullName, field protoreflect.FieldNumber) (protoreflect.ExtensionType, error) {
	return protoregistry.GlobalTypes.FindExtensionByNumber(message, field)
}
