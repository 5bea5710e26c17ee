package gcp

import (
	"strings"

	"google.golang.org/protobuf/proto"
)

// Networks, subnetworks, templates and disks differ in what they check; how
// they come and go is the same, and is here.

// kindOf a key is the collection that it is in: "disks".
func kindOf(key string) string {
	parts := strings.Split(key, "/")
	if len(parts) < 2 {
		return ""
	}
	return parts[len(parts)-2]
}

// scopeOf a key is where its operations are: "global", "regions/R", "zones/Z".
func scopeOf(key string) string {
	parts := strings.Split(key, "/")
	if parts[0] == "global" || len(parts) < 2 {
		return "global"
	}
	return parts[0] + "/" + parts[1]
}

type identified interface {
	proto.Message
	GetId() uint64
}

func (c *collection[M, X]) idOf(key string) uint64 {
	if r := c.records[key]; r != nil {
		if m, ok := any(r.Wire).(identified); ok {
			return m.GetId()
		}
	}
	return 0
}

// insertResource adds a resource that is there at once, and ready when its
// operation is done.
func insertResource[M identified](s *Server, c *call, in *collection[M, resourceState], key string, message M, kind string) (wire, error) {
	if in.get(key) != nil {
		return nil, alreadyExists(s.relative(key))
	}
	in.put(key, message, resourceState{Creating: true})
	return s.answerWith(c, operationSpec{
		scope: scopeOf(key), kind: kind, target: key, targetID: message.GetId(), method: c.route.name,
	}, s.delays().Operation, "resource.created")
}

// deleteResource removes a resource when its operation is done.
func deleteResource[M identified](s *Server, c *call, in *collection[M, resourceState], usedBy func(*record[M, resourceState]) string) (wire, error) {
	r := in.get(c.key())
	if r == nil {
		return nil, notFound(s.relative(c.key()))
	}
	if r.State.Creating || r.State.Operation != "" {
		return nil, notReady(s.relative(r.Key))
	}
	if user := usedBy(r); user != "" {
		return nil, inUse(s.relative(r.Key), s.relative(user))
	}
	op := s.start(c, operationSpec{scope: scopeOf(r.Key), kind: "delete", target: r.Key, targetID: r.Wire.GetId(), method: c.route.name})
	r.State.Operation = op.Key
	in.changed(r)
	s.after(s.delays().Operation, "resource.deleted", op.Key, "")
	return encode(op.Wire)
}

func getResource[M proto.Message, X any](s *Server, c *call, in *collection[M, X]) (wire, error) {
	r, ok := in.show(c.key())
	if !ok {
		return nil, notFound(s.relative(c.key()))
	}
	return r.encode()
}

// usable finds a resource that another is to use.
func usable[M proto.Message](s *Server, in *collection[M, resourceState], key string) (*record[M, resourceState], *apiError) {
	r := in.get(key)
	if r == nil {
		return nil, notFound(s.relative(key))
	}
	if r.State.Creating || r.State.Operation != "" {
		return nil, notReady(s.relative(key))
	}
	return r, nil
}

func (s *Server) resourceCreated(t task) {
	op := s.operations.get(t.Owner)
	if op == nil {
		return
	}
	key := op.State.Target
	switch kindOf(key) {
	case "networks":
		ready(s.networks, key)
	case "subnetworks":
		ready(s.subnetworks, key)
	case "instanceTemplates":
		ready(s.templates, key)
	case "disks":
		ready(s.disks, key)
	}
	s.finish(op.Key, nil)
}

func ready[M proto.Message](in *collection[M, resourceState], key string) {
	if r := in.get(key); r != nil {
		r.State.Creating = false
		in.changed(r)
	}
}

func (s *Server) resourceDeleted(t task) {
	op := s.operations.get(t.Owner)
	if op == nil {
		return
	}
	key := op.State.Target
	switch kindOf(key) {
	case "networks":
		s.dropNetwork(key)
	case "subnetworks":
		s.dropSubnetwork(key)
	case "instanceTemplates":
		s.templates.drop(key)
	case "disks":
		s.disks.drop(key)
	}
	s.finish(op.Key, nil)
}

// taskHandlers are what tasks do, by kind.
func (s *Server) taskHandlers() map[string]func(task) {
	return map[string]func(task){
		"audit.deliver":      s.deliverAudit,
		"resource.created":   s.resourceCreated,
		"resource.deleted":   s.resourceDeleted,
		"operation.done":     func(t task) { s.finish(t.Owner, nil) },
		"capacity.offer":     s.offerCapacity,
		"instance.place":     s.placeInstance,
		"instance.expire":    s.expireInstance,
		"instance.stage":     s.stageInstance,
		"instance.run":       s.runInstance,
		"instance.stopped":   s.stoppedInstance,
		"instance.lease":     s.endLease,
		"instance.repair":    s.repairHost,
		"instance.repaired":  s.repairedHost,
		"group.created":      s.groupCreated,
		"group.act":          s.groupAct,
		"group.delete":       s.groupDelete,
		"managed.create":     s.createManaged,
		"request.decide":     s.decideRequest,
		"request.queue":      s.queueRequest,
		"request.cancel":     s.cancelledRequest,
		"request.forget":     s.forgetRequest,
		"request.delete":     s.deletedRequest,
		"filestore.finished": s.filestoreFinished,
	}
}
