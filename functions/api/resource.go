package api

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/spec"
	"github.com/convoke-hpc/convoke/shared/store"
)

// The sizes of a page.
const (
	defaultPage = 50
	maxPage     = 500
)

func pageSize(r *http.Request) (int, error) {
	s := query(r, "pageSize", "page_size")
	if s == "" {
		return defaultPage, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, problem(codeInvalid, "pageSize is %q, not a number from 0 on", s)
	}
	if n == 0 {
		return defaultPage, nil
	}
	return min(n, maxPage), nil
}

// Page tokens are the id of the last thing on the page before, so wrapped that nobody takes them for something to build.
func pageToken(id string) string { return base64.RawURLEncoding.EncodeToString([]byte("1:" + id)) }

func afterToken(r *http.Request) (string, error) {
	token := query(r, "pageToken", "page_token")
	if token == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	id, ok := strings.CutPrefix(string(b), "1:")
	if err != nil || !ok || events.OperationID(id) != id { // ids of all kinds are of the same safe characters
		return "", problem(codeInvalid, "pageToken is not one that this API gave")
	}
	return id, nil
}

func (a *api) list(r *http.Request) (any, error) {
	size, err := pageSize(r)
	if err != nil {
		return nil, err
	}
	after, err := afterToken(r)
	if err != nil {
		return nil, err
	}
	location := r.PathValue("location")
	if location == "-" { // all of them
		location = ""
	}
	out := struct {
		Clusters []map[string]any `json:"modelDevelopmentClusters"`
		Next     string           `json:"nextPageToken,omitempty"`
	}{Clusters: []map[string]any{}}
	for {
		page, err := a.Store.List(r.Context(), r.PathValue("project"), location, after, size)
		if err != nil {
			return nil, fmt.Errorf("listing clusters, %w", err)
		}
		for _, l := range page {
			after = l.Key.Doc()
			if gone(l) {
				continue
			}
			c, err := a.resource(r, l.Key)
			if errors.Is(err, store.ErrNoCluster) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if out.Clusters = append(out.Clusters, c); len(out.Clusters) == size {
				out.Next = pageToken(after)
				return out, nil
			}
		}
		if len(page) < size {
			return out, nil
		}
	}
}

func (a *api) get(r *http.Request) (any, error) {
	k, err := a.find(r)
	if err != nil {
		return nil, err
	}
	c, err := a.resource(r, k)
	if errors.Is(err, store.ErrNoCluster) {
		return nil, problem(codeNotFound, "there is no cluster %s", k)
	}
	return c, err
}

func (a *api) resource(r *http.Request, k cluster.Key) (map[string]any, error) {
	s, err := a.State(r.Context(), k)
	if err != nil {
		return nil, fmt.Errorf("reading cluster %s, %w", k, err)
	}
	return render(s)
}

// render is the cluster in the product's shape: the spec as it is in effect, and the fields that are only put out.
func render(s *cluster.State) (map[string]any, error) {
	out := map[string]any{}
	if s.Spec != nil {
		if err := json.Unmarshal(spec.Render(s.Spec), &out); err != nil {
			return nil, fmt.Errorf("writing the spec of cluster %s, %w", s.Key, err)
		}
		addEffective(out)
	}
	out["name"] = s.Key.String()
	out["clusterStatus"] = status(s)
	out["clusterEvents"] = append([]cluster.Event{}, s.Events...)
	for field, t := range map[string]time.Time{"createTime": s.Created, "updateTime": s.Updated, "startTime": s.Started} {
		if !t.IsZero() {
			out[field] = t
		}
	}
	return out, nil
}

// addEffective tells how long Flex Start machines may run. The spec holds the value in effect already, so that both fields
// are the same.
func addEffective(out map[string]any) {
	pools, _ := out["nodePools"].([]any)
	for _, p := range pools {
		if pool, ok := p.(map[string]any); ok && pool["flexStartMaxDuration"] != nil {
			pool["effectiveFlexStartMaxDuration"] = pool["flexStartMaxDuration"]
		}
	}
}

type clusterStatus struct {
	State  cluster.Phase `json:"state"`
	Detail string        `json:"detail,omitempty"`
	Error  *rpcStatus    `json:"error,omitempty"`
	Nodes  []nodeStatus  `json:"nodesStatus"`
}

type nodeStatus struct {
	State        string    `json:"nodeState"`
	PoolID       string    `json:"nodePoolId"`
	PoolType     string    `json:"nodePoolType"`
	InstanceID   string    `json:"instanceId,omitempty"`
	InstanceName string    `json:"instanceName"`
	Updated      time.Time `json:"lastUpdateTime,omitzero"`
	Detail       string    `json:"detail,omitempty"`
}

// status says how the cluster is: what is not as it should be, and each node that there is or is to be.
func status(s *cluster.State) clusterStatus {
	out := clusterStatus{State: s.Phase, Error: statusOf(s.Problem, "", nil), Nodes: []nodeStatus{}}
	var unmet []string
	for _, c := range s.Conditions {
		if c.Status == "False" && c.Message != "" {
			unmet = append(unmet, c.Message)
		}
	}
	out.Detail = strings.Join(unmet, "; ")
	if s.Spec == nil {
		return out
	}
	for i := range s.Spec.NodePools {
		p := &s.Spec.NodePools[i]
		typ := "NODE_POOL_TYPE_COMPUTE"
		if s.Spec.IsLogin(p.ID) {
			typ = "NODE_POOL_TYPE_LOGIN"
		}
		for _, n := range s.Nodes[p.ID] {
			if n.Phase == cluster.Absent {
				continue
			}
			st := nodeStatus{
				State: nodeState(n.Phase), PoolID: p.ID, PoolType: typ, Updated: n.Since, Detail: detail(n),
				InstanceName: s.Name(cluster.NodeID{Pool: p.ID, Index: n.Index}),
			}
			if n.InstanceID != 0 {
				st.InstanceID = strconv.FormatUint(n.InstanceID, 10)
			}
			out.Nodes = append(out.Nodes, st)
		}
	}
	return out
}

// nodeState is a phase in the product's four words.
func nodeState(p cluster.NodePhase) string {
	switch p {
	case cluster.Ready, cluster.Draining:
		return "RUNNING"
	case cluster.Deleting:
		return "UPDATING"
	case cluster.Failed:
		return "ERROR"
	}
	return "PREPARING"
}

func detail(n cluster.Node) string {
	parts := []string{string(n.Phase)}
	for _, s := range []string{n.Reason, n.Suspect} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

func (a *api) timeline(r *http.Request) (any, error) {
	k, _, err := key(r)
	if err != nil {
		return nil, err
	}
	size, err := pageSize(r)
	if err != nil {
		return nil, err
	}
	before, err := afterToken(r)
	if err != nil {
		return nil, err
	}
	// A cluster that has been deleted is read about for as long as its timeline is kept.
	entries, err := a.Store.Timeline(r.Context(), k, before, size)
	if err != nil {
		return nil, fmt.Errorf("reading the timeline of cluster %s, %w", k, err)
	}
	out := struct {
		Entries []store.TimelineEntry `json:"entries"`
		Next    string                `json:"nextPageToken,omitempty"`
	}{Entries: append([]store.TimelineEntry{}, entries...)}
	if len(entries) == size {
		out.Next = pageToken(entries[len(entries)-1].ID)
	}
	return out, nil
}
