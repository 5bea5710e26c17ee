// Package api is the function for people and programs: the v1beta1 API of modelDevelopmentClusters over HTTP, as far as it is
// about asking for clusters and reading how they are.
//
//	POST   …/projects/P/locations/L/modelDevelopmentClusters?modelDevelopmentClusterId=ID   create    → operation
//	GET    …/modelDevelopmentClusters                                                       list
//	GET    …/modelDevelopmentClusters/ID                                                    get
//	PATCH  …/modelDevelopmentClusters/ID?updateMask=…&updateMode=…                          update    → operation
//	DELETE …/modelDevelopmentClusters/ID                                                    delete    → operation
//	POST   …/modelDevelopmentClusters/ID:reportFaultyNodes                                  report    → operation
//	GET    …/modelDevelopmentClusters/ID/timeline                                           what was decided, and why (ours)
//	GET    …/modelDevelopmentClusters/ID/summary                                            what is recorded and in motion (ours)
//	GET    …/projects/P/locations/L/operations[/OP]                                         operations
//
// each below /v1beta1 or /v1. Errors are google.rpc.Status in JSON. Who may call it is decided in front of it.
//
// It only publishes requests and reads. What may not live here: anything that changes a cluster, and anything that speaks
// to the cloud: a request is answered with its operation before anybody has looked at it.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

// Store is what the API reads, and where it notes the operations that it has begun.
type Store interface {
	Read(ctx context.Context, key cluster.Key) (data []byte, listed store.Listed, err error)
	List(ctx context.Context, project, location, after string, limit int) ([]store.Listed, error)
	Timeline(ctx context.Context, key cluster.Key, before string, limit int) ([]store.TimelineEntry, error)
	PutOperation(ctx context.Context, op cluster.Operation) error
	Operation(ctx context.Context, id string) (cluster.Operation, error)
	Operations(ctx context.Context, project, location string, limit int) ([]cluster.Operation, error)
}

// Publisher publishes requests.
type Publisher interface {
	Publish(ctx context.Context, e *events.Event) error
}

// Config is what the function is made of. All fields but Project are needed.
type Config struct {
	Store Store
	// State is a cluster as it is kept, whole; store.ErrNoCluster when there is none.
	State   func(ctx context.Context, key cluster.Key) (*cluster.State, error)
	Publish Publisher
	// Project is the one project that is served; empty: any.
	Project string
	Now     func() time.Time
	// NewID makes ids of operations.
	NewID func() string
	Log   *slog.Logger
}

type api struct{ Config }

// New makes the function.
func New(c Config) http.Handler {
	a := &api{c}
	mux := http.NewServeMux()
	const parent = "/{version}/projects/{project}/locations/{location}"
	mux.Handle(parent+"/modelDevelopmentClusters", a.methods(map[string]method{http.MethodGet: a.list, http.MethodPost: a.create}))
	mux.Handle(parent+"/modelDevelopmentClusters/{cluster}", a.methods(map[string]method{
		http.MethodGet: a.get, http.MethodPatch: a.update, http.MethodDelete: a.remove, http.MethodPost: a.custom,
	}))
	mux.Handle(parent+"/modelDevelopmentClusters/{cluster}/timeline", a.methods(map[string]method{http.MethodGet: a.timeline}))
	mux.Handle(parent+"/modelDevelopmentClusters/{cluster}/summary", a.methods(map[string]method{http.MethodGet: a.summary}))
	mux.Handle(parent+"/operations", a.methods(map[string]method{http.MethodGet: a.operations}))
	mux.Handle(parent+"/operations/{operation}", a.methods(map[string]method{http.MethodGet: a.operation, http.MethodPost: a.operationVerb}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, problem(codeNotFound, "%s is not a path of this API: want /v1beta1/projects/P/locations/L/modelDevelopmentClusters…", r.URL.Path))
	})
	return mux
}

// method carries out one method of the API and gives what is to be answered.
type method func(r *http.Request) (any, error)

func (a *api) methods(methods map[string]method) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				a.Log.ErrorContext(r.Context(), "the API panicked", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				writeError(w, problem(codeInternal, "a fault of this service's; it has been logged"))
			}
		}()
		answer, err := a.call(methods, r)
		if err != nil {
			var e *apiError
			if !errors.As(err, &e) {
				a.Log.ErrorContext(r.Context(), "a call failed", "method", r.Method, "path", r.URL.Path, "error", err)
				e = problem(codeUnavailable, "%v; try again", err)
			}
			writeError(w, e)
			return
		}
		writeJSON(w, http.StatusOK, answer)
	})
}

func (a *api) call(methods map[string]method, r *http.Request) (any, error) {
	if v := r.PathValue("version"); v != "v1beta1" && v != "v1" {
		return nil, problem(codeNotFound, "this API has no version %q; use v1beta1", v)
	}
	if p := r.PathValue("project"); a.Project != "" && p != a.Project {
		return nil, problem(codeNotFound, "project %q is not served here; this service is project %s's", p, a.Project)
	}
	do := methods[r.Method]
	if do == nil {
		return nil, problem(codeUnimplemented, "%s is not a method of %s", r.Method, r.URL.Path)
	}
	return do(r)
}

// key is the cluster that the path names, and the verb behind it.
func key(r *http.Request) (cluster.Key, string, error) {
	id, verb, _ := strings.Cut(r.PathValue("cluster"), ":")
	k := cluster.Key{Project: r.PathValue("project"), Location: r.PathValue("location"), ID: id}
	if err := k.Validate(); err != nil {
		return cluster.Key{}, "", problem(codeInvalid, "the path does not name a cluster: %v", err)
	}
	return k, verb, nil
}

// find is the cluster that the path names, which must be there.
func (a *api) find(r *http.Request) (cluster.Key, error) {
	k, verb, err := key(r)
	if err != nil {
		return k, err
	}
	if verb != "" {
		return k, problem(codeUnimplemented, "%s :%s is not a method of this API", r.Method, verb)
	}
	return k, a.existing(r.Context(), k)
}

// existing fails with codeNotFound for a cluster that is not there, or of which only the tombstone is left.
func (a *api) existing(ctx context.Context, k cluster.Key) error {
	_, listed, err := a.Store.Read(ctx, k)
	if errors.Is(err, store.ErrNoCluster) || err == nil && gone(listed) {
		return problem(codeNotFound, "there is no cluster %s", k)
	}
	if err != nil {
		return fmt.Errorf("reading cluster %s, %w", k, err)
	}
	return nil
}

func gone(l store.Listed) bool {
	return l.Phase == cluster.PhaseNone || l.Phase == cluster.PhaseDeleted
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil { // of our own types, none of which can fail
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // whoever asked may be gone
}
