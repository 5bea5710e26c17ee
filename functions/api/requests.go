package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/functions/internal/request"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/spec"
)

// create checks the spec at once, so that its faults are told to whoever sent it and not to an operation.
func (a *api) create(r *http.Request) (any, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	given := cluster.Key{Project: r.PathValue("project"), Location: r.PathValue("location"), ID: query(r, "modelDevelopmentClusterId", "model_development_cluster_id")}
	parsed, faults := spec.Parse(body, spec.Options{Key: given})
	if len(faults) > 0 {
		return nil, refused(faults)
	}
	k := parsed.Key()
	var missing *apiError
	switch err := a.existing(r.Context(), k); {
	case err == nil:
		return nil, problem(codeExists, "there is a cluster %s already; choose another id, or delete that one first", k)
	case !errors.As(err, &missing):
		return nil, err
	}
	return a.begin(r, cluster.VerbCreate, events.TypeClusterCreate, &events.ClusterCreate{Cluster: k, Spec: body})
}

func (a *api) update(r *http.Request) (any, error) {
	k, err := a.find(r)
	if err != nil {
		return nil, err
	}
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	return a.begin(r, cluster.VerbUpdate, events.TypeClusterUpdate, &events.ClusterUpdate{
		Cluster: k, Spec: body, UpdateMask: request.Mask(query(r, "updateMask", "update_mask")), UpdateMode: query(r, "updateMode", "update_mode"),
	})
}

func (a *api) remove(r *http.Request) (any, error) {
	k, err := a.find(r)
	if err != nil {
		return nil, err
	}
	return a.begin(r, cluster.VerbDelete, events.TypeClusterDelete, &events.ClusterDelete{Cluster: k})
}

// custom is a method that stands behind a colon.
func (a *api) custom(r *http.Request) (any, error) {
	k, verb, err := key(r)
	if err != nil {
		return nil, err
	}
	if verb != string(cluster.VerbReport) {
		return nil, problem(codeUnimplemented, "POST :%s is not a method of this API; :reportFaultyNodes is", verb)
	}
	if err := a.existing(r.Context(), k); err != nil {
		return nil, err
	}
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	report, err := request.Report(k, body)
	if err != nil {
		return nil, problem(codeInvalid, "%v", err)
	}
	return a.begin(r, cluster.VerbReport, events.TypeReportFaulty, report)
}

// begin publishes a request and answers with its operation. The operation is noted after the request is on its way: the other way
// round, a failure between the two would leave an operation that nobody ever ends.
func (a *api) begin(r *http.Request, verb cluster.Verb, typ string, p events.Payload) (any, error) {
	ctx, now := r.Context(), cluster.Moment(a.Now())
	e := &events.Event{ID: a.operationID(r, p.Key(), verb), Source: "//convoke/api", Type: typ, Time: now, Payload: p}
	if _, err := e.CloudEvent(); err != nil {
		var invalid *events.Invalid
		if errors.As(err, &invalid) {
			return nil, &apiError{code: codeInvalid, message: invalid.Error(), violations: violationsOf(invalid.Faults)}
		}
		return nil, err
	}
	if err := a.Publish.Publish(ctx, e); err != nil {
		return nil, fmt.Errorf("publishing the request, %w", err)
	}
	op := cluster.Operation{ID: e.ID, Key: p.Key(), Verb: verb, Created: now, Updated: now, Progress: "the request has been received"}
	if err := a.Store.PutOperation(ctx, op); err != nil {
		return nil, fmt.Errorf("noting operation %s, %w", op.ID, err)
	}
	return a.render(ctx, op)
}

// operationID is a new one, or, for a request that bears a requestId, always the same: whoever got no answer may ask again.
func (a *api) operationID(r *http.Request, k cluster.Key, verb cluster.Verb) string {
	if id := query(r, "requestId", "request_id"); id != "" {
		return cluster.RequestID("request", string(verb), k.Doc(), id)
	}
	return a.NewID()
}

func readBody(r *http.Request) (json.RawMessage, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, events.MaxSpec+1))
	if err != nil {
		return nil, problem(codeInvalid, "the body broke off: %v", err)
	}
	if len(body) > events.MaxSpec {
		return nil, problem(codeInvalid, "the body is larger than %d bytes", events.MaxSpec)
	}
	body = bytes.TrimSpace(body)
	if !json.Valid(body) || body[0] != '{' {
		// The spec's own reader says where; it is asked by create alone, since only there the body is a whole spec.
		if r.Method == http.MethodPost && r.PathValue("cluster") == "" {
			if _, faults := spec.Parse(body, spec.Options{}); len(faults) > 0 {
				return nil, refused(faults)
			}
		}
		return nil, problem(codeInvalid, "the body is not a JSON object")
	}
	return body, nil
}

// query is a parameter in either spelling.
func query(r *http.Request, names ...string) string {
	q := r.URL.Query()
	for _, n := range names {
		if v := q.Get(n); v != "" {
			return v
		}
	}
	return ""
}
