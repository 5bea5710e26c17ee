package decide

import (
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// The roles of the cluster's own resources.
const (
	roleNetwork    = "network"
	roleSubnetwork = "subnetwork"
	roleHome       = "home"
	roleMunge      = "munge"
	roleJWT        = "jwt"
	roleController = "controller"
)

// stages are the steps of creation: each begins when the one before is complete, and each is a condition of the cluster.
var stages = []struct {
	condition string
	kinds     []cluster.ResourceKind
}{
	{"NetworkReady", []cluster.ResourceKind{cluster.KindNetwork, cluster.KindSubnetwork}},
	{"StorageReady", []cluster.ResourceKind{cluster.KindFilestore}},
	{"SecretsReady", []cluster.ResourceKind{cluster.KindSecret}},
	{"TemplatesReady", []cluster.ResourceKind{cluster.KindTemplate}},
	{"ControllerReady", []cluster.ResourceKind{cluster.KindDisk, cluster.KindInstance}},
}

// resources brings the cluster's own resources to where the spec wants them, stage by stage.
func (t *Turn) resources() {
	for _, stage := range stages {
		complete := true
		var waits string
		var problem *cluster.Problem
		for _, w := range t.wants(stage.kinds) {
			r := t.s.Resource(w.Kind, w.Role)
			if r == nil {
				t.s.Resources = append(t.s.Resources, cluster.Resource{ResourceRef: w.ResourceRef, Role: w.Role,
					Phase: cluster.ResourceWanted, Since: t.now})
				r = &t.s.Resources[len(t.s.Resources)-1]
			}
			if r.Phase == cluster.ResourceWanted {
				r.ResourceRef = w.ResourceRef // a template's name tells its content, which may be another now
			}
			t.resource(r, w)
			if r.Phase != cluster.ResourceReady {
				complete, waits = false, string(r.Kind)+" "+r.Name
				if r.Problem != nil {
					problem = r.Problem
				}
			}
			if !complete && w.first {
				break // the rest of the stage needs it
			}
		}
		t.stageCondition(stage.condition, complete, waits, problem)
		if !complete {
			return
		}
	}
}

func (t *Turn) stageCondition(name string, complete bool, waits string, p *cluster.Problem) {
	switch {
	case complete:
		t.condition(name, "True", "Complete", "")
	case p != nil:
		t.condition(name, "False", "Failing", p.Error())
	default:
		t.condition(name, "False", "InProgress", "waiting for "+waits)
	}
}

// resource moves one resource on.
func (t *Turn) resource(r *cluster.Resource, w want) {
	switch r.Phase {
	case cluster.ResourceWanted:
		if t.due(r.Look) {
			r.Look = t.now.Add(t.policy.Retry)
			t.at(r.Look)
			t.intend(w.intent(r))
		}
	case cluster.ResourceCreating:
		t.creating(r)
	case cluster.ResourceReady:
		// Looked at by the list of instances; templates and secrets are never lost without someone's help, and what
		// needs them says so when they are.
	}
}

// creating waits for a resource that has been asked for: for its long operation, which Query looks at, and for a machine
// also for the report of its agent.
func (t *Turn) creating(r *cluster.Resource) {
	if r.Operation == "" && r.Kind != cluster.KindInstance {
		t.made(r)
		return
	}
	if r.Kind == cluster.KindInstance {
		if r.Found.Status == vmRunning && (!r.Booted.IsZero() || t.agentSpeaks(r)) {
			t.made(r)
			return
		}
		if end := r.Since.Add(t.policy.ControllerTimeout); !t.due(end) {
			t.pollResource(r)
			return
		}
		t.controllerFailed(r, &cluster.Problem{Class: cluster.Unknown, Doing: starting, Resource: r.Name, At: t.now,
			Message: "its agent has not reported within " + t.policy.ControllerTimeout.String(),
			Remedy:  "read the machine's serial port output"})
		t.intend(cluster.Remove{Ref: r.ResourceRef, Owner: t.s.Owner(), ID: t.requestID("remove", r.Name, itoa(r.Generation))})
		return
	}
	t.pollResource(r)
}

// agentSpeaks reports whether a snapshot of Slurm shows that the controller's agent is up, although no report of its
// start has come. Its state disk remembers an earlier machine, but an agent that started after this machine was asked for
// runs on it.
func (t *Turn) agentSpeaks(r *cluster.Resource) bool {
	return t.slurm.fresh(t.now, t.policy) && t.slurm.snapshot.Boot.After(r.Since)
}

func (t *Turn) pollResource(r *cluster.Resource) {
	if !r.Look.After(t.now) {
		r.Look = t.now.Add(t.policy.poll(r.Since, t.now))
	}
	t.at(r.Look)
}

// made notes that a resource is there and fit for use.
func (t *Turn) made(r *cluster.Resource) {
	r.Phase, r.Since, r.Look, r.Operation, r.Tries, r.Problem = cluster.ResourceReady, t.now, time.Time{}, "", 0, nil
	r.Confirmed = t.now
	text := "is ready"
	switch r.Kind {
	case cluster.KindNetwork, cluster.KindSubnetwork:
		text = "is there"
	case cluster.KindFilestore:
		text = "is there: " + r.Found.Address + ":/" + r.Found.Share + " becomes /home"
	case cluster.KindInstance:
		text = "is up and its agent has reported"
	}
	t.say(kindResource, r.Name, "%s %s %s", r.Kind, r.Name, text)
}

// failed notes a failure of a resource, and when it is tried again.
func (t *Turn) failed(r *cluster.Resource, p *cluster.Problem) {
	p.At = t.now
	if r.Problem == nil || r.Problem.Message != p.Message {
		t.sayProblem(kindResource, r.Name, p, "%s %s: %s", r.Kind, r.Name, p.Message)
	}
	r.Phase, r.Operation, r.Problem = cluster.ResourceWanted, "", p
	r.Look = t.now.Add(t.policy.pause(r.Tries))
	if !r.Kind.Owned() || p.Class.Permanent() {
		// What a person has to mend, or to make first, is looked at calmly; nothing is broken by looking.
		r.Look = t.now.Add(t.policy.PermanentRetry)
		if p.Class == cluster.Unknown || p.Class == cluster.Throttle {
			r.Look = t.now.Add(t.policy.pause(r.Tries))
		}
	}
	r.Tries++
}

// controllerBooted takes in the report of the controller's agent.
func (t *Turn) controllerBooted(r *cluster.Resource, e *events.NodeBoot) {
	// It may report before the answer to its making has been folded in: then its claim waits until the machine is seen.
	if r.Phase != cluster.ResourceCreating && r.Phase != cluster.ResourceWanted ||
		r.Found.InstanceID != 0 && r.Found.InstanceID != e.InstanceID {
		return
	}
	if e.OK {
		r.Booted, r.Look = t.now, t.now
		r.Found.InstanceID = e.InstanceID
		return
	}
	if r.Phase != cluster.ResourceCreating {
		return
	}
	t.controllerFailed(r, &cluster.Problem{Class: cluster.Unknown, Doing: starting, Resource: r.Name, At: t.now,
		Message: "its start-up failed: " + oneLine(e.Reason, 300), Remedy: "the last lines of its log: " + oneLine(e.Log, 500)})
	t.intend(cluster.Remove{Ref: r.ResourceRef, Owner: t.s.Owner(), ID: t.requestID("remove", r.Name, itoa(r.Generation))})
}

// controllerFailed has the controller made anew. Its state is on a disk that outlives it.
func (t *Turn) controllerFailed(r *cluster.Resource, p *cluster.Problem) {
	r.Found, r.Booted = cluster.Found{}, time.Time{}
	r.Generation++
	t.failed(r, p)
}

// vmRunning is the status of an instance that works.
const vmRunning = "RUNNING"
