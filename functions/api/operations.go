package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

const typePrefix = "type.googleapis.com/google.cloud.aiplatform.v1beta1."

// operation is a google.longrunning.Operation.
type operation struct {
	Name     string           `json:"name"`
	Metadata operationMeta    `json:"metadata"`
	Done     bool             `json:"done,omitempty"`
	Error    *rpcStatus       `json:"error,omitempty"`
	Response *json.RawMessage `json:"response,omitempty"`
}

type operationMeta struct {
	Type    string `json:"@type"`
	Generic struct {
		CreateTime time.Time `json:"createTime"`
		UpdateTime time.Time `json:"updateTime"`
	} `json:"genericMetadata"`
	Progress string `json:"progressMessage,omitempty"`
}

func (a *api) operation(r *http.Request) (any, error) {
	id := r.PathValue("operation")
	if events.OperationID(id) != id {
		return nil, problem(codeNotFound, "%q is not the id of an operation", id)
	}
	op, err := a.Store.Operation(r.Context(), id)
	if errors.Is(err, store.ErrNotFound) || err == nil && (op.Key.Project != r.PathValue("project") || op.Key.Location != r.PathValue("location")) {
		return nil, problem(codeNotFound, "there is no operation %q in projects/%s/locations/%s", id, r.PathValue("project"), r.PathValue("location"))
	}
	if err != nil {
		return nil, fmt.Errorf("reading operation %s, %w", id, err)
	}
	return a.render(r.Context(), op)
}

func (a *api) operationVerb(r *http.Request) (any, error) {
	return nil, problem(codeUnimplemented, "operations are only read here; POST %s is not a method of this API", r.URL.Path)
}

func (a *api) operations(r *http.Request) (any, error) {
	size, err := pageSize(r)
	if err != nil {
		return nil, err
	}
	ops, err := a.Store.Operations(r.Context(), r.PathValue("project"), r.PathValue("location"), size)
	if err != nil {
		return nil, fmt.Errorf("listing operations, %w", err)
	}
	out := struct {
		Operations []operation `json:"operations"`
	}{Operations: []operation{}}
	for _, op := range ops {
		o, err := a.render(r.Context(), op)
		if err != nil {
			return nil, err
		}
		out.Operations = append(out.Operations, o)
	}
	return out, nil
}

// render is an operation as the API shows it.
func (a *api) render(ctx context.Context, op cluster.Operation) (operation, error) {
	out := operation{
		Name: fmt.Sprintf("projects/%s/locations/%s/operations/%s", op.Key.Project, op.Key.Location, op.ID),
		Done: op.Done, Error: statusOf(op.Error, op.Verb, op.Faults),
	}
	out.Metadata.Type = typePrefix + metadataOf(op.Verb)
	out.Metadata.Generic.CreateTime, out.Metadata.Generic.UpdateTime = op.Created, op.Updated
	out.Metadata.Progress = op.Progress
	if op.Done && op.Error == nil {
		response, err := a.response(ctx, op)
		if err != nil {
			return operation{}, err
		}
		out.Response = &response
	}
	return out, nil
}

func metadataOf(v cluster.Verb) string {
	s := string(v)
	if v == cluster.VerbReport {
		return "ReportFaultyNodesOperationMetadata"
	}
	return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] + "ModelDevelopmentClusterOperationMetadata"
}

// response is what an operation that ended well came to: the cluster, or nothing.
func (a *api) response(ctx context.Context, op cluster.Operation) (json.RawMessage, error) {
	if op.Verb != cluster.VerbCreate && op.Verb != cluster.VerbUpdate {
		return json.RawMessage(`{"@type":"type.googleapis.com/google.protobuf.Empty"}`), nil
	}
	s, err := a.State(ctx, op.Key)
	if errors.Is(err, store.ErrNoCluster) { // deleted since
		s, err = cluster.NewState(op.Key), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading cluster %s, %w", op.Key, err)
	}
	resource, err := render(s)
	if err != nil {
		return nil, err
	}
	resource["@type"] = typePrefix + "ModelDevelopmentCluster"
	return json.Marshal(resource)
}
