package gcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// LogEntry is an entry of the audit log, as Cloud Logging would export it.
type LogEntry struct {
	// JSON is the whole entry: the data of an audit CloudEvent, and what a
	// log sink publishes.
	JSON json.RawMessage
	// The rest is what routing needs, taken from JSON.
	InsertID     string
	LogName      string // "projects/P/logs/cloudaudit.googleapis.com%2Factivity" or "…%2Fsystem_event"
	Method       string // "compute.instances.preempted", "v1.compute.instances.delete"
	ResourceName string // "projects/P/zones/Z/instances/I", P perhaps a number
	Timestamp    time.Time
	Zone         string // of an instance or group, or ""
	Instance     string // the instance's name, or ""
	InstanceID   uint64 // zero when it is not about an instance
	First, Last  bool   // of the operation's entries
}

// The entry's JSON form.
type (
	logEntryJSON struct {
		ProtoPayload     auditLogJSON      `json:"protoPayload"`
		InsertID         string            `json:"insertId"`
		Resource         logResourceJSON   `json:"resource"`
		Timestamp        string            `json:"timestamp"`
		Severity         string            `json:"severity"`
		LogName          string            `json:"logName"`
		Operation        logOperationJSON  `json:"operation"`
		ReceiveTimestamp string            `json:"receiveTimestamp"`
		Labels           map[string]string `json:"labels,omitempty"`
	}
	auditLogJSON struct {
		Type               string         `json:"@type"`
		Status             map[string]any `json:"status,omitzero"`
		AuthenticationInfo map[string]any `json:"authenticationInfo"`
		RequestMetadata    map[string]any `json:"requestMetadata"`
		ServiceName        string         `json:"serviceName"`
		MethodName         string         `json:"methodName"`
		ResourceName       string         `json:"resourceName"`
		Request            map[string]any `json:"request"`
		Response           map[string]any `json:"response,omitempty"`
		Metadata           map[string]any `json:"metadata,omitempty"`
		ResourceLocation   map[string]any `json:"resourceLocation,omitempty"`
	}
	logResourceJSON struct {
		Type   string            `json:"type"`
		Labels map[string]string `json:"labels"`
	}
	logOperationJSON struct {
		ID       string `json:"id"`
		Producer string `json:"producer"`
		First    bool   `json:"first,omitempty"`
		Last     bool   `json:"last,omitempty"`
	}
)

const auditLogType = "type.googleapis.com/google.cloud.audit.AuditLog"

// auditOperation logs the first or the last entry of an operation.
func (s *Server) auditOperation(op *operation, first bool, failed *failure) {
	if op.State.Method == "" || s.opts.Events == nil {
		return
	}
	request := map[string]any{"@type": "type.googleapis.com/" + op.State.Method}
	if op.State.RequestID != "" {
		request["requestId"] = op.State.RequestID
	}
	e := logEntryJSON{
		ProtoPayload: auditLogJSON{
			AuthenticationInfo: map[string]any{"principalEmail": op.State.By.Principal},
			RequestMetadata:    map[string]any{"callerSuppliedUserAgent": op.State.By.Agent, "requestAttributes": map[string]any{}, "destinationAttributes": map[string]any{}},
			MethodName:         "v1." + op.State.Method,
			Request:            request,
		},
		Severity:  "NOTICE",
		Operation: logOperationJSON{ID: op.Wire.GetName(), Producer: "compute.googleapis.com", First: first, Last: !first},
	}
	if zone := zoneOf(op.State.Target); zone != "" {
		e.ProtoPayload.ResourceLocation = map[string]any{"currentLocations": []string{zone}}
	}
	if first {
		e.ProtoPayload.Response = map[string]any{"@type": "type.googleapis.com/operation", "name": op.Wire.GetName(), "status": "RUNNING", "operationType": op.Wire.GetOperationType()}
	}
	if failed != nil {
		e.Severity = "ERROR"
		e.ProtoPayload.Status = map[string]any{"code": rpcCode(failed.HTTP), "message": failed.Code}
	}
	s.log("activity", op.State.Target, op.Wire.GetTargetId(), e)
}

// systemEvent logs something that befell an instance.
func (s *Server) systemEvent(r *instance, method, message string, metadata map[string]any) {
	if s.opts.Events == nil {
		return
	}
	status := map[string]any{}
	if message != "" {
		status["message"] = message
	}
	id := s.newID()
	prefix := "systemevent"
	if method == "compute.instances.repair.recreateInstance" {
		prefix = "repair"
	}
	s.log("system_event", r.Key, r.Wire.GetId(), logEntryJSON{
		ProtoPayload: auditLogJSON{
			Status:             status,
			AuthenticationInfo: map[string]any{"principalEmail": "system@google.com"},
			RequestMetadata:    map[string]any{"requestAttributes": map[string]any{}, "destinationAttributes": map[string]any{}},
			MethodName:         method,
			Request:            map[string]any{"@type": "type.googleapis.com/" + method},
			Metadata:           metadata,
		},
		Severity: "INFO",
		Operation: logOperationJSON{
			ID:       fmt.Sprintf("%s-%d-%013x-%08x-%08x", prefix, s.now.UnixMilli(), mix(id)>>12, uint32(id), uint32(id>>32)), //nolint:gosec // digits of a name
			Producer: method, First: true, Last: true,
		},
	})
}

// log plans the delivery of an entry.
func (s *Server) log(name, key string, id uint64, e logEntryJSON) {
	now := s.now
	e.ProtoPayload.Type = auditLogType
	e.ProtoPayload.ServiceName = "compute.googleapis.com"
	e.ProtoPayload.ResourceName = s.relative(key)
	if s.opts.Behavior.NumberInResourceName {
		e.ProtoPayload.ResourceName = fmt.Sprintf("projects/%d/%s", s.opts.ProjectNumber, key)
	}
	e.InsertID = strconv.FormatUint(mix(s.newID())>>8, 36)
	e.Timestamp = now.UTC().Format("2006-01-02T15:04:05.000000Z")
	e.ReceiveTimestamp = now.UTC().Add(s.delays().Audit).Format("2006-01-02T15:04:05.000000000Z")
	e.LogName = "projects/" + s.opts.Project + "/logs/cloudaudit.googleapis.com%2F" + name
	e.Resource = s.loggedResource(key, id)
	text, err := json.Marshal(e)
	if err != nil {
		s.opts.Logger.Error("an audit-log entry cannot be encoded", "method", e.ProtoPayload.MethodName, "error", err)
		return
	}
	entry := LogEntry{
		JSON: text, InsertID: e.InsertID, LogName: e.LogName, Method: e.ProtoPayload.MethodName,
		ResourceName: e.ProtoPayload.ResourceName, Timestamp: now, Zone: zoneOf(key),
		First: e.Operation.First, Last: e.Operation.Last,
	}
	if e.Resource.Type == "gce_instance" {
		entry.Instance, entry.InstanceID = lastSegment(key), id
	}
	arg, err := json.Marshal(entry)
	if err != nil {
		s.opts.Logger.Error("an audit-log entry cannot be encoded", "method", entry.Method, "error", err)
		return
	}
	s.after(s.delays().Audit, "audit.deliver", "audit", string(arg))
}

func (s *Server) deliverAudit(t task) {
	var entry LogEntry
	if err := json.Unmarshal([]byte(t.Arg), &entry); err != nil {
		s.opts.Logger.Error("a planned audit-log entry cannot be read", "error", err)
		return
	}
	if s.opts.Events != nil {
		s.outbox = append(s.outbox, letter{s.events, func(ctx context.Context) { s.opts.Events(ctx, entry) }})
	}
}

// loggedResource is the monitored resource that an entry belongs to.
func (s *Server) loggedResource(key string, id uint64) logResourceJSON {
	parts := strings.Split(key, "/")
	labels := map[string]string{"project_id": s.opts.Project}
	number := strconv.FormatUint(id, 10)
	name := parts[len(parts)-1]
	kind := parts[len(parts)-2]
	location := "global"
	if parts[0] != "global" {
		location = parts[1]
	}
	switch kind {
	case "instances":
		labels["zone"], labels["instance_id"] = location, number
		return logResourceJSON{"gce_instance", labels}
	case "disks":
		labels["zone"], labels["disk_id"] = location, number
		return logResourceJSON{"gce_disk", labels}
	case "instanceGroupManagers", "resizeRequests":
		if kind == "resizeRequests" {
			name = parts[len(parts)-3]
			number = strconv.FormatUint(s.groups.idOf(strings.Join(parts[:4], "/")), 10)
		}
		labels["location"], labels["instance_group_manager_name"], labels["instance_group_manager_id"] = location, name, number
		return logResourceJSON{"gce_instance_group_manager", labels}
	case "instanceTemplates":
		labels["instance_template_name"], labels["instance_template_id"] = name, number
		return logResourceJSON{"gce_instance_template", labels}
	case "networks":
		labels["location"], labels["network_id"] = location, number
		return logResourceJSON{"gce_network", labels}
	default:
		labels["location"], labels["subnetwork_name"], labels["subnetwork_id"] = location, name, number
		return logResourceJSON{"gce_subnetwork", labels}
	}
}

func zoneOf(key string) string {
	if rest, ok := strings.CutPrefix(key, "zones/"); ok {
		zone, _, _ := strings.Cut(rest, "/")
		return zone
	}
	return ""
}

// rpcCode is the google.rpc.Code that an audit-log status states.
func rpcCode(status int) int {
	switch status {
	case http.StatusNotFound:
		return 5
	case http.StatusConflict:
		return 6
	case http.StatusForbidden:
		return 7
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return 8
	}
	return 3
}
