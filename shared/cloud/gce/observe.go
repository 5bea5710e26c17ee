package gce

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cloud.google.com/go/compute/apiv1/computepb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"golang.org/x/sync/errgroup"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// Observe implements cloud.Cloud. Its parts are looked at side by side.
func (c *Client) Observe(ctx context.Context, query cluster.Query) cluster.Observation {
	o := &observer{client: c, query: &query, seen: cluster.Observation{At: cluster.Moment(c.now())}}
	var looks errgroup.Group
	looks.SetLimit(c.limits.Concurrency)
	look := func(f func(context.Context)) {
		looks.Go(func() error { f(ctx); return nil })
	}
	if query.Instances {
		look(o.instances)
	}
	if query.Sweep {
		look(o.sweep)
	}
	for _, q := range query.Groups {
		look(func(ctx context.Context) { o.group(ctx, q) })
	}
	for _, q := range query.Machines {
		look(func(ctx context.Context) { o.machine(ctx, q) })
	}
	for _, name := range query.Operations {
		look(func(ctx context.Context) { o.operation(ctx, name) })
	}
	_ = looks.Wait() // what went wrong is among the problems
	slices.SortFunc(o.seen.Problems, func(a, b cluster.Problem) int {
		return cmp.Or(strings.Compare(a.Doing, b.Doing), strings.Compare(a.Resource, b.Resource), strings.Compare(a.Message, b.Message))
	})
	return o.seen
}

// An observer puts an observation together. Its lock guards seen.
type observer struct {
	client *Client
	query  *cluster.Query
	mu     sync.Mutex
	seen   cluster.Observation
}

// note adds to the observation.
func (o *observer) note(f func(*cluster.Observation)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f(&o.seen)
}

// unseen says that something could not be looked at.
func (o *observer) unseen(doing, resource string, err error) {
	p := o.client.problem(doing, resource, err)
	o.note(func(seen *cluster.Observation) { seen.Problems = append(seen.Problems, *p) })
}

// group looks at a group, at what it manages, and at its resize request. All of the group is seen, or it is absent.
func (o *observer) group(ctx context.Context, q cluster.GroupQuery) {
	c := o.client
	const doing = "looking at managed instance group"
	group, err := c.group(ctx, q.Zone, q.Group)
	if missing(err) {
		o.note(func(seen *cluster.Observation) { put(&seen.Groups, q.Group, cluster.Group{}) })
		return
	}
	if err != nil {
		o.unseen(doing, q.Group, err)
		return
	}
	managed, err := c.managed(ctx, q.Zone, q.Group)
	if err != nil {
		o.unseen(doing, q.Group, vanished(err))
		return
	}
	view := cluster.Group{
		Found: true, Stable: group.GetStatus().GetIsStable(), Target: int64(group.GetTargetSize()),
		Template: last(group.GetInstanceTemplate()), Managed: make([]cluster.Managed, 0, len(managed)),
	}
	for _, m := range managed {
		name := managedName(m)
		view.Managed = append(view.Managed, cluster.Managed{
			Name: name, ID: m.GetId(), Action: m.GetCurrentAction(), Status: m.GetInstanceStatus(),
			Problem: c.reported("creating instance", name, managedFaults(m)),
		})
	}
	if q.Request != "" {
		view.Request = o.request(ctx, q)
	}
	o.note(func(seen *cluster.Observation) { put(&seen.Groups, q.Group, view) })
}

func managedFaults(m *computepb.ManagedInstance) failure {
	return errorFaults(m.GetLastAttempt().GetErrors().GetErrors(), 0)
}

// request looks at a resize request; nil when it could not be looked at.
func (o *observer) request(ctx context.Context, q cluster.GroupQuery) *cluster.Request {
	c := o.client
	got, err := c.request(ctx, q.Zone, q.Group, q.Request)
	if missing(err) {
		return &cluster.Request{}
	}
	if err != nil {
		o.unseen("looking at resize request", q.Request, err)
		return nil
	}
	const doing = "carrying out resize request"
	return &cluster.Request{
		Found: true, State: got.GetState(), Created: moment(got.GetCreationTimestamp()),
		Error:   c.reported(doing, q.Request, errorFaults(got.GetStatus().GetError().GetErrors(), 0)),
		Attempt: c.reported(doing, q.Request, errorFaults(got.GetStatus().GetLastAttempt().GetError().GetErrors(), 0)),
	}
}

// machine looks at one instance itself, to be certain.
func (o *observer) machine(ctx context.Context, q cluster.MachineQuery) {
	got, err := o.client.instance(ctx, q.Zone, q.Name)
	var view *cluster.Instance
	switch {
	case err == nil:
		view = new(instanceView(got))
	case !missing(err):
		o.unseen("looking at instance", q.Name, err)
		return
	}
	o.note(func(seen *cluster.Observation) { put(&seen.Machines, q.Name, view) })
}

// operation looks at a long operation, whichever service it is of.
func (o *observer) operation(ctx context.Context, name string) {
	view, err := o.client.operation(ctx, name)
	switch {
	case missing(err):
		view = cluster.OperationView{}
	case err != nil:
		o.unseen("looking at operation", name, err)
		return
	}
	o.note(func(seen *cluster.Observation) { put(&seen.Operations, name, view) })
}

func (c *Client) operation(ctx context.Context, name string) (cluster.OperationView, error) {
	var got *computepb.Operation
	var err error
	if at, ok := match(name, "projects/*/zones/*/operations/*"); ok {
		got, err = read(ctx, c, c.zonal.Get, &computepb.GetZoneOperationRequest{Project: at[0], Zone: at[1], Operation: at[2]})
	} else if at, ok := match(name, "projects/*/global/operations/*"); ok {
		got, err = read(ctx, c, c.global.Get, &computepb.GetGlobalOperationRequest{Project: at[0], Operation: at[1]})
	} else if _, ok := match(name, "projects/*/locations/*/operations/*"); ok {
		return c.longRunning(ctx, name)
	} else {
		return cluster.OperationView{}, &cluster.Problem{Class: cluster.Configuration, Message: fmt.Sprintf("%q is not the path of an operation", oneLine(name))}
	}
	if err != nil {
		return cluster.OperationView{}, err
	}
	view := cluster.OperationView{Found: true, Done: got.GetStatus() == computepb.Operation_DONE}
	if failed := operationFailure(got); failed != nil {
		view.Error = c.problem(orNothing(got.GetOperationType()), last(got.GetTargetLink()), failed)
	}
	return view, nil
}

// longRunning looks at an operation of Filestore's.
func (c *Client) longRunning(ctx context.Context, name string) (cluster.OperationView, error) {
	got, err := read(ctx, c, c.files.GetOperation, &longrunningpb.GetOperationRequest{Name: name})
	if err != nil {
		return cluster.OperationView{}, err
	}
	view := cluster.OperationView{Found: true, Done: got.GetDone()}
	if e := got.GetError(); e != nil {
		view.Error = c.problem("changing Filestore instance", "", failure{statusFault(e.GetCode(), e.GetMessage())})
	}
	return view, nil
}

func put[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = value
}
