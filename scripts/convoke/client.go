package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/convoke-hpc/convoke/scripts/convoke/internal/local"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// The environment's part of a remote.
const (
	envServer   = "CONVOKE_SERVER"
	envToken    = "CONVOKE_TOKEN" //nolint:gosec // the variable's name
	envProject  = "GOOGLE_CLOUD_PROJECT"
	envLocation = "CONVOKE_LOCATION"

	defaultServer = "http://127.0.0.1:8920"
)

// remote is the deployment that a command talks to, over the API that its functions serve.
type remote struct {
	server   string
	project  string
	location string
}

// flags adds the flags by which a person chooses a deployment.
func (r *remote) flags(f *pflag.FlagSet) {
	f.StringVar(&r.server, "server", cmp.Or(os.Getenv(envServer), defaultServer), "URL of the deployment (env "+envServer+")")
	f.StringVar(&r.project, "project", os.Getenv(envProject), "project of the cluster (env "+envProject+"); the deployment's own by default")
	f.StringVar(&r.location, "location", os.Getenv(envLocation), "region of the cluster (env "+envLocation+"); found by the cluster's id by default")
	hideDefaults(f)
}

// hideDefaults keeps what this environment happens to hold out of help texts.
func hideDefaults(f *pflag.FlagSet) {
	f.Lookup("server").DefValue = defaultServer
	f.Lookup("project").DefValue = ""
	f.Lookup("location").DefValue = ""
}

// refusal is the answer of a server that does not do what it was asked.
type refusal struct {
	status int
	// word is google.rpc.Code's, such as NOT_FOUND; "" from a server that does not say.
	word    string
	message string
	details []string
}

func (r *refusal) Error() string {
	if len(r.details) < 2 {
		return r.message
	}
	return r.message + "\n  " + strings.Join(r.details, "\n  ")
}

// callTime is how long one call may take.
const callTime = 30 * time.Second

// call calls the deployment and reads its JSON answer into out, unless that is nil.
func (r *remote) call(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	base, err := url.Parse(r.server)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return badInput{fmt.Errorf("the server %q is not a URL such as %s", r.server, defaultServer)}
	}
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("writing the request, %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(r.server, "/")+path, body)
	if err != nil {
		return fmt.Errorf("making the request, %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token := os.Getenv(envToken); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return r.unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("reading the answer of %s, %w", r.server, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return refused(resp, text)
	}
	if out == nil {
		return nil
	}
	if s, ok := out.(*string); ok {
		*s = string(text)
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s %s answered what is not understood here (is it a Convoke deployment?), %w", method, r.server+path, err)
	}
	return nil
}

// unreachable says what a person can do about a server that does not answer.
func (r *remote) unreachable(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	if r.server == defaultServer {
		return fmt.Errorf("no deployment answers at %s, %w\n  start one on this machine:  convoke local\n  or name another:            --server URL, or %s=URL", r.server, err, envServer)
	}
	return fmt.Errorf("no deployment answers at %s, %w\n  check --server and %s", r.server, err, envServer)
}

// refused reads an error in any of the forms in which the parts of a deployment write them.
func refused(resp *http.Response, text []byte) error {
	r := &refusal{status: resp.StatusCode, message: strings.TrimSpace(string(text))}
	var simple struct {
		Error string `json:"error"`
	}
	var full struct {
		Error struct {
			Message string `json:"message"`
			Status  string `json:"status"`
			Details []struct {
				Violations []struct {
					Field       string `json:"field"`
					Description string `json:"description"`
				} `json:"fieldViolations"`
			} `json:"details"`
		} `json:"error"`
	}
	switch {
	case json.Unmarshal(text, &simple) == nil && simple.Error != "":
		r.message = simple.Error
	case json.Unmarshal(text, &full) == nil && full.Error.Message != "":
		r.message, r.word = full.Error.Message, full.Error.Status
		for _, d := range full.Error.Details {
			for _, v := range d.Violations {
				r.details = append(r.details, strings.TrimPrefix(v.Field+": "+v.Description, ": "))
			}
		}
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		r.message = fmt.Sprintf("%s\n  the deployment wants to know who calls: export %s=$(gcloud auth print-identity-token)", cmp.Or(r.message, resp.Status), envToken)
	case http.StatusNotFound:
		return notFound{r}
	case http.StatusBadRequest:
		return badInput{r}
	}
	if r.message == "" {
		r.message = resp.Status
	}
	return r
}

// localStatus is what `convoke local` says of itself; an error for any other deployment.
func (r *remote) localStatus(ctx context.Context) (local.Status, error) {
	var s local.Status
	err := r.call(ctx, http.MethodGet, local.StatusPath, nil, &s)
	var missing notFound
	if errors.As(err, &missing) {
		return s, errors.New("only `convoke local` can do this: it acts on what is simulated")
	}
	return s, err
}

// home is the project, and where it is known the location, that names without one are meant in.
func (r *remote) home(ctx context.Context) (project, location string, err error) {
	if r.project != "" {
		return r.project, r.location, nil
	}
	s, err := r.localStatus(ctx)
	if err != nil {
		var missing *refusal
		if errors.As(err, &missing) || strings.Contains(err.Error(), "only `convoke local`") {
			return "", "", badInput{fmt.Errorf("which project? Give --project or %s", envProject)}
		}
		return "", "", err
	}
	return s.Project, cmp.Or(r.location, s.Location), nil
}

// find is the cluster of that id or full name.
func (r *remote) find(ctx context.Context, name string) (cluster.Key, error) {
	if strings.Contains(name, "/") {
		k, err := cluster.ParseKey(name)
		if err != nil {
			return k, badInput{err}
		}
		return k, nil
	}
	if !cluster.ValidClusterID(name) {
		return cluster.Key{}, badInput{fmt.Errorf("%q is not the id of a cluster: 1 to 10 lowercase letters and digits, a letter first", name)}
	}
	project, location, err := r.home(ctx)
	if err != nil {
		return cluster.Key{}, err
	}
	if r.location != "" {
		return cluster.Key{Project: project, Location: r.location, ID: name}, nil
	}
	all, err := r.list(ctx, project, "-")
	if err != nil {
		return cluster.Key{}, err
	}
	var found []cluster.Key
	for _, c := range all {
		if k, err := cluster.ParseKey(c.Name); err == nil && k.ID == name {
			found = append(found, k)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return cluster.Key{}, badInput{fmt.Errorf("there is a cluster %s in %s and in %s; give --location", name, found[0].Location, found[1].Location)}
	case location != "": // it may have been deleted, and can still be read about
		return cluster.Key{Project: project, Location: location, ID: name}, nil
	}
	return cluster.Key{}, notFound{fmt.Errorf("there is no cluster %s in project %s; `convoke clusters` lists them (one that was deleted needs --location)", name, project)}
}

// resource is what commands read of the product's resource.
type resource struct {
	Name   string    `json:"name"`
	Create time.Time `json:"createTime"`
	Status struct {
		State  string `json:"state"`
		Detail string `json:"detail"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
		Nodes []struct {
			State string `json:"nodeState"`
		} `json:"nodesStatus"`
	} `json:"clusterStatus"`
}

// list lists the clusters of a location; "-" for all.
func (r *remote) list(ctx context.Context, project, location string) ([]resource, error) {
	raw, err := r.listRaw(ctx, project, location)
	if err != nil {
		return nil, err
	}
	all := make([]resource, len(raw))
	for i, text := range raw {
		if err := json.Unmarshal(text, &all[i]); err != nil {
			return nil, fmt.Errorf("reading the list of clusters, %w", err)
		}
	}
	return all, nil
}

func (r *remote) listRaw(ctx context.Context, project, location string) ([]json.RawMessage, error) {
	all := []json.RawMessage{}
	for token := ""; ; {
		var page struct {
			Clusters []json.RawMessage `json:"modelDevelopmentClusters"`
			Next     string            `json:"nextPageToken"`
		}
		path := "/v1beta1/projects/" + project + "/locations/" + location + "/modelDevelopmentClusters?pageSize=500&pageToken=" + url.QueryEscape(token)
		if err := r.call(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Clusters...)
		if token = page.Next; token == "" {
			return all, nil
		}
	}
}

// clusterPath is the API's path of a cluster.
func clusterPath(k cluster.Key) string { return "/v1beta1/" + k.String() }
