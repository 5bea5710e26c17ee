package decide

import (
	"fmt"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/spec"
)

// create takes in a request for a cluster. Bad specs change nothing but the operation.
func (t *Turn) create(op string, e *events.ClusterCreate) {
	if op == t.s.CreateOperation || t.handled(op) {
		return // it comes again
	}
	parsed, faults := spec.Parse(e.Spec, spec.Options{Key: t.s.Key})
	switch {
	case len(faults) > 0:
		t.refuseSpec(op, cluster.VerbCreate, faults)
	case t.s.Phase != cluster.PhaseNone && t.s.Phase != cluster.PhaseDeleted:
		t.refuse(op, cluster.VerbCreate, &cluster.Problem{Class: cluster.Conflict, Resource: t.s.Key.String(),
			Message: fmt.Sprintf("a cluster of this name exists already (%s)", t.s.Phase),
			Remedy:  "choose another id, or delete that cluster first"})
	default:
		fresh := cluster.NewState(t.s.Key)
		fresh.UID = cluster.Hash(t.s.Key.String(), op)
		fresh.Spec, fresh.SpecGeneration = parsed, 1
		fresh.Phase = cluster.PhaseProvisioning
		fresh.CreateOperation = op
		fresh.Created, fresh.Updated = t.now, t.now
		fresh.Handled = t.s.Handled
		*t.s = *fresh
		t.slurm.index(t.s)
		t.operation(cluster.Operation{ID: op, Verb: cluster.VerbCreate, Progress: "the spec is accepted; creating the cluster"})
		t.say(kindRequest, "", "create accepted: %s, operation %s", describe(parsed), op)
	}
}

// update takes in a request to change a cluster.
func (t *Turn) update(op string, _ *events.ClusterUpdate) {
	if t.handled(op) {
		return
	}
	if !t.live() {
		t.refuse(op, cluster.VerbUpdate, t.missing())
		return
	}
	t.refuse(op, cluster.VerbUpdate, &cluster.Problem{Class: cluster.Configuration, Resource: t.s.Key.String(),
		Message: "this version creates and deletes clusters; it does not change one in place",
		Remedy:  "delete the cluster and create it with the new spec"})
}

// remove takes in a request to delete a cluster.
func (t *Turn) remove(op string) {
	if op == t.s.DeleteOperation || t.handled(op) {
		return
	}
	switch t.s.Phase {
	case cluster.PhaseNone, cluster.PhaseDeleted:
		t.refuse(op, cluster.VerbDelete, t.missing())
	case cluster.PhaseStopping:
		t.refuse(op, cluster.VerbDelete, &cluster.Problem{Class: cluster.Conflict, Resource: t.s.Key.String(),
			Message: "the cluster is being deleted already, by operation " + t.s.DeleteOperation})
	default:
		if t.s.Started.IsZero() && t.s.CreateOperation != "" {
			t.refuse(t.s.CreateOperation, cluster.VerbCreate, &cluster.Problem{Class: cluster.Conflict, Resource: t.s.Key.String(),
				Message: "the cluster was deleted before it was complete, by operation " + op})
		}
		t.s.Phase, t.s.DeleteOperation, t.s.DeleteRequested, t.s.Updated = cluster.PhaseStopping, op, t.now, t.now
		t.operation(cluster.Operation{ID: op, Verb: cluster.VerbDelete, Progress: "removing nodes"})
		t.say(kindRequest, "", "delete accepted, operation %s: everything that was made for the cluster is removed, nodes first", op)
	}
}

func (t *Turn) missing() *cluster.Problem {
	return &cluster.Problem{Class: cluster.NotFound, Resource: t.s.Key.String(), Message: "there is no such cluster"}
}

// refuse ends an operation with a failure that changed nothing.
func (t *Turn) refuse(op string, verb cluster.Verb, p *cluster.Problem) {
	p.At = t.now
	t.operation(cluster.Operation{ID: op, Verb: verb, Done: true, Error: p})
	t.sayProblem(kindRequest, "", p, "%s, operation %s: %s", verb, op, p.Message)
}

// refuseSpec ends an operation since its spec has faults: all of them are told.
func (t *Turn) refuseSpec(op string, verb cluster.Verb, faults spec.Faults) {
	p := &cluster.Problem{Class: cluster.Configuration, Resource: t.s.Key.String(), At: t.now,
		Message: fmt.Sprintf("the spec has %d fault(s); the first: %s", len(faults), faults[0].String()),
		Remedy:  "mend them and send the request again; `convoke validate` shows them beforehand"}
	o := cluster.Operation{ID: op, Verb: verb, Done: true, Error: p}
	for _, f := range faults {
		o.Faults = append(o.Faults, f.String())
	}
	t.operation(o)
	t.sayProblem(kindRequest, "", p, "%s refused, operation %s", verb, op)
}

// finish ends an operation well.
func (t *Turn) finish(op string, verb cluster.Verb, progress string) {
	t.operation(cluster.Operation{ID: op, Verb: verb, Done: true, Progress: progress})
}

// operation notes an operation to be written. The steward keeps the time of creation of one that is there already.
func (t *Turn) operation(o cluster.Operation) {
	o.Key, o.Created, o.Updated = t.s.Key, t.now, t.now
	if o.ID == t.s.CreateOperation {
		o.Created = t.s.Created
	}
	if o.ID == t.s.DeleteOperation {
		o.Created = t.s.DeleteRequested
	}
	t.operations = append(t.operations, o)
}

// describe is a spec in a few words.
func describe(s *cluster.Spec) string {
	static, most := 0, 0
	for i := range s.NodePools {
		if !s.IsLogin(s.NodePools[i].ID) {
			static += s.NodePools[i].ScalingSpec.MinNodeCount
			most += s.NodePools[i].ScalingSpec.MaxNodeCount
		}
	}
	return fmt.Sprintf("%d compute pool(s) with %d static nodes and up to %d in all", len(s.NodePools)-1, static, most)
}
