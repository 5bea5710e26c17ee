package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/functions/api"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/spec"
	"github.com/convoke-hpc/convoke/shared/store"
	"github.com/convoke-hpc/convoke/shared/store/embedded"
)

const parent = "/v1beta1/projects/my-project/locations/us-central1"

var (
	now    = time.Date(2026, 3, 2, 10, 20, 0, 0, time.UTC)
	flexvm = cluster.Key{Project: "my-project", Location: "us-central1", ID: "flexvm"}
)

// desk is the API over a real store, with what it published.
type desk struct {
	t         *testing.T
	st        store.Store
	states    map[cluster.Key]*cluster.State
	published []*events.Event
	fail      error // of publishing
	handler   http.Handler
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	st, err := embedded.Open(t.TempDir(), embedded.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	d := &desk{t: t, st: st, states: map[cluster.Key]*cluster.State{}}
	ids := 0
	d.handler = api.New(api.Config{
		Store: st, Publish: d, Project: "my-project", Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
		NewID: func() string { ids++; return fmt.Sprintf("op-%d", ids) },
		State: func(_ context.Context, k cluster.Key) (*cluster.State, error) {
			if s := d.states[k]; s != nil {
				return s, nil
			}
			return nil, store.ErrNoCluster
		},
	})
	return d
}

func (d *desk) Publish(_ context.Context, e *events.Event) error {
	if d.fail != nil {
		return d.fail
	}
	d.published = append(d.published, e)
	return nil
}

// keep puts a cluster into the store.
func (d *desk) keep(s *cluster.State) {
	d.t.Helper()
	ctx := context.Background()
	lease, err := d.st.Lease(ctx, s.Key, "test", now, now.Add(time.Minute), true)
	if err != nil {
		d.t.Fatal(err)
	}
	err = d.st.Commit(ctx, lease, store.Change{
		Cluster: []byte("x"), Summary: store.Summary{Phase: s.Phase}, Release: true, Now: now,
		Timeline: []cluster.Entry{{At: now, Kind: "cluster", Text: "first"}, {At: now, Kind: "node", About: "flexvm-a3u-0", Text: "second"}},
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.states[s.Key] = s
}

// running is a cluster of the documentation's Flex Start spec, with one node lost and one on its way.
func running(t *testing.T) *cluster.State {
	t.Helper()
	parsed, faults := spec.Parse([]byte(flexSpec(t)), spec.Options{})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	s := cluster.NewState(flexvm)
	s.Spec, s.Phase, s.Created, s.Updated, s.Started = parsed, cluster.PhaseRunning, now.Add(-time.Hour), now, now.Add(-time.Minute)
	s.Conditions = []cluster.Condition{{Type: "LoginReady", Status: "False", Message: "0 of 1 login nodes are ready"}, {Type: "Network", Status: "True", Message: "there"}}
	s.Problem = &cluster.Problem{Class: cluster.Quota, Message: "no more GPUs"}
	s.Nodes["a3u"] = []cluster.Node{
		{Index: 0, Phase: cluster.Failed, Since: now, InstanceID: 2162224123123123213, Reason: "Xid 79"},
		{Index: 1, Phase: cluster.Requested, Since: now},
	}
	s.Nodes["login"] = []cluster.Node{{Index: 0, Phase: cluster.Ready, Since: now}, {Index: 1}}
	s.Events = []cluster.Event{{Type: "VM_DELETION", Time: now, Message: "flexvm-a3u-0"}}
	return s
}

// flexSpec is the documentation's Flex Start spec.
func flexSpec(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/flexvm.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// call calls the API and reads its answer, which is JSON whatever happens.
func (d *desk) call(method, path, body string) (int, map[string]any) {
	d.t.Helper()
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		d.t.Fatalf("%s %s answered %d %q: %v", method, path, w.Code, w.Body, err)
	}
	return w.Code, answer
}

// dig follows a path into an answer: error.details.0.fieldViolations.
func dig(v any, path string) any {
	for part := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[part]
		case []any:
			i := 0
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// holds checks fields of an answer by their paths.
func holds(t *testing.T, answer map[string]any, want map[string]any) {
	t.Helper()
	for path, v := range want {
		if got := dig(answer, path); got != v {
			t.Errorf("%s is %v, want %v", path, got, v)
		}
	}
}

// TestLifeOfACluster reads as somebody who uses the API would go about it.
func TestLifeOfACluster(t *testing.T) {
	d := newDesk(t)

	// A cluster is asked for, and the request is published.
	code, op := d.call(http.MethodPost, parent+"/modelDevelopmentClusters?modelDevelopmentClusterId=flexvm", flexSpec(t))
	if code != 200 {
		t.Fatalf("%d %v", code, op)
	}
	holds(t, op, map[string]any{
		"name": "projects/my-project/locations/us-central1/operations/op-1", "done": nil,
		"metadata.@type": "type.googleapis.com/google.cloud.aiplatform.v1beta1.CreateModelDevelopmentClusterOperationMetadata",
	})
	if len(d.published) != 1 || d.published[0].ID != "op-1" || d.published[0].Type != events.TypeClusterCreate || d.published[0].Key() != flexvm {
		t.Fatalf("published %+v", d.published)
	}

	// The operation can be followed, also where the documentation says to.
	code, again := d.call(http.MethodGet, "/v1/projects/my-project/locations/us-central1/operations/op-1", "")
	if diff := cmp.Diff(op, again); code != 200 || diff != "" {
		t.Errorf("%d %s", code, diff)
	}

	// Meanwhile the steward has made it, and ends the operation.
	d.keep(running(t))
	d.end(cluster.Operation{ID: "op-1", Key: flexvm, Verb: cluster.VerbCreate, Created: now, Updated: now, Done: true})
	code, op = d.call(http.MethodGet, parent+"/operations/op-1", "")
	if code != 200 {
		t.Errorf("%d %v", code, op)
	}
	holds(t, op, map[string]any{
		"done": true, "response.name": flexvm.String(), "response.@type": "type.googleapis.com/google.cloud.aiplatform.v1beta1.ModelDevelopmentCluster",
	})

	// Asking for it again is refused at once.
	code, e := d.call(http.MethodPost, parent+"/modelDevelopmentClusters?model_development_cluster_id=flexvm", flexSpec(t))
	if code != 409 || dig(e, "error.status") != "ALREADY_EXISTS" {
		t.Errorf("%d %v", code, e)
	}
}

func TestGet(t *testing.T) {
	d := newDesk(t)
	d.keep(running(t))
	code, c := d.call(http.MethodGet, parent+"/modelDevelopmentClusters/flexvm", "")
	if code != 200 {
		t.Fatal(code, c)
	}
	holds(t, c, map[string]any{
		"name":                        flexvm.String(),
		"displayName":                 "flexvm",
		"nodePools.1.id":              "a3u",
		"nodePools.1.enablePublicIps": true,
		"nodePools.1.effectiveFlexStartMaxDuration":   "604800s",
		"nodePools.0.effectiveFlexStartMaxDuration":   nil,
		"orchestratorSpec.slurmSpec.partitions.0.id":  "a3u",
		"clusterStatus.state":                         "RUNNING",
		"clusterStatus.detail":                        "0 of 1 login nodes are ready",
		"clusterStatus.error.code":                    8.0,
		"clusterStatus.nodesStatus.0.nodePoolType":    "NODE_POOL_TYPE_LOGIN",
		"clusterStatus.nodesStatus.0.nodeState":       "RUNNING",
		"clusterStatus.nodesStatus.1.instanceName":    "flexvm-a3u-0",
		"clusterStatus.nodesStatus.1.instanceId":      "2162224123123123213",
		"clusterStatus.nodesStatus.1.nodeState":       "ERROR",
		"clusterStatus.nodesStatus.1.detail":          "failed: Xid 79",
		"clusterStatus.nodesStatus.2.nodeState":       "PREPARING",
		"clusterStatus.nodesStatus.3":                 nil,
		"clusterEvents.0.eventType":                   "VM_DELETION",
		"createTime":                                  "2026-03-02T09:20:00Z",
		"startTime":                                   "2026-03-02T10:19:00Z",
		"orchestratorSpec.slurmSpec.loginNodePoolId":  "login",
		"clusterStatus.nodesStatus.2.lastUpdateTime":  "2026-03-02T10:20:00Z",
		"clusterStatus.nodesStatus.2.instanceId":      nil,
		"clusterStatus.nodesStatus.1.nodePoolType":    "NODE_POOL_TYPE_COMPUTE",
		"nodePools.1.machineSpec.acceleratorType":     "NVIDIA_H200_141GB",
		"nodePools.1.scalingSpec.minNodeCount":        0.0,
		"orchestratorSpec.slurmSpec.nodeSets":         nil,
		"network.network":                             "projects/my-project/global/networks/default",
		"nodePools.1.bootDisk.bootDiskSizeGb":         400.0,
		"clusterStatus.nodesStatus.1.instanceId.nope": nil,
	})
}

// TestRequests: a broken node is reported, the cluster changed and deleted.
func TestRequests(t *testing.T) {
	d := newDesk(t)
	d.keep(running(t))
	code, op := d.call(http.MethodPost, parent+"/modelDevelopmentClusters/flexvm:reportFaultyNodes", `{"nodeActions":[{"nodeId":"flexvm-a3u-0"}]}`)
	if code != 200 || dig(op, "metadata.@type") != "type.googleapis.com/google.cloud.aiplatform.v1beta1.ReportFaultyNodesOperationMetadata" {
		t.Errorf("%d %v", code, op)
	}
	code, _ = d.call(http.MethodPatch, parent+"/modelDevelopmentClusters/flexvm?updateMask=node_pools,labels&updateMode=USER_ONLY", `{"nodePools":[]}`)
	if code != 200 {
		t.Error(code)
	}
	code, _ = d.call(http.MethodDelete, parent+"/modelDevelopmentClusters/flexvm", "")
	if code != 200 {
		t.Error(code)
	}
	if len(d.published) != 3 {
		t.Fatalf("published %d requests", len(d.published))
	}
	want := []events.Payload{
		&events.ReportFaulty{Cluster: flexvm, Node: "flexvm-a3u-0"},
		&events.ClusterUpdate{Cluster: flexvm, Spec: json.RawMessage(`{"nodePools":[]}`), UpdateMask: []string{"node_pools", "labels"}, UpdateMode: "USER_ONLY"},
		&events.ClusterDelete{Cluster: flexvm},
	}
	for i, p := range want {
		if diff := cmp.Diff(p, d.published[i].Payload); diff != "" {
			t.Error(diff)
		}
	}
	code, all := d.call(http.MethodGet, parent+"/operations", "")
	if list, ok := all["operations"].([]any); code != 200 || !ok || len(list) != 3 {
		t.Errorf("%d %v", code, all)
	}
}

// end writes an operation over the one that the API noted, as the steward does.
func (d *desk) end(op cluster.Operation) {
	d.t.Helper()
	ctx := context.Background()
	lease, err := d.st.Lease(ctx, op.Key, "test", now, now.Add(time.Minute), true)
	if err != nil {
		d.t.Fatal(err)
	}
	err = d.st.Commit(ctx, lease, store.Change{Summary: store.Summary{Phase: cluster.PhaseRunning}, Operations: []cluster.Operation{op}, Release: true, Now: now})
	if err != nil {
		d.t.Fatal(err)
	}
}

func TestSpecWithFaultsIsRefusedAtOnce(t *testing.T) {
	d := newDesk(t)
	body := strings.NewReplacer(`"a3-ultragpu-8g"`, `"a9-ultragpu-8g"`, `"max_node_count": 2`, `"max_node_count": -2`).Replace(flexSpec(t))
	code, e := d.call(http.MethodPost, parent+"/modelDevelopmentClusters", body)
	if code != 400 || dig(e, "error.status") != "INVALID_ARGUMENT" || dig(e, "error.details.0.@type") != "type.googleapis.com/google.rpc.BadRequest" {
		t.Fatalf("%d %v", code, e)
	}
	fields := map[any]bool{}
	violations, _ := dig(e, "error.details.0.fieldViolations").([]any)
	for _, v := range violations {
		fields[dig(v, "field")] = true
	}
	if !fields["node_pools[1].machine_spec.machine_type"] || !fields["node_pools[1].scaling_spec.max_node_count"] {
		t.Errorf("not every fault is told: %v", e)
	}
	if len(d.published) != 0 {
		t.Error("it was published all the same")
	}
}

func TestOperationThatFailed(t *testing.T) {
	d := newDesk(t)
	d.end(cluster.Operation{
		ID: "op-9", Key: flexvm, Verb: cluster.VerbCreate, Created: now, Updated: now, Done: true, Faults: []string{"nodePools: is missing", "all of it"},
		Error: &cluster.Problem{Class: cluster.Configuration, Message: "the spec has 2 fault(s)", Remedy: "mend them"},
	})
	code, op := d.call(http.MethodGet, parent+"/operations/op-9", "")
	if code != 200 || op["done"] != true || op["response"] != nil || dig(op, "error.code") != 3.0 ||
		dig(op, "error.details.0.fieldViolations.0.field") != "nodePools" || dig(op, "error.details.0.fieldViolations.1.description") != "all of it" {
		t.Errorf("%d %v", code, op)
	}
	for class, want := range map[cluster.Class]float64{
		cluster.Capacity: 8, cluster.Quota: 8, cluster.Throttle: 8, cluster.Permission: 7, cluster.NotFound: 5, cluster.Conflict: 6, cluster.Unknown: 14,
	} {
		d.end(cluster.Operation{ID: "op-10", Key: flexvm, Verb: cluster.VerbCreate, Created: now, Updated: now, Done: true, Error: &cluster.Problem{Class: class}})
		if _, op := d.call(http.MethodGet, parent+"/operations/op-10", ""); dig(op, "error.code") != want {
			t.Errorf("%s is code %v", class, dig(op, "error.code"))
		}
	}
}

func TestRefused(t *testing.T) {
	d := newDesk(t)
	d.keep(running(t))
	for _, c := range []struct {
		name, method, path, body string
		code                     int
		status                   string
	}{
		{"no such path", "GET", "/", "", 404, "NOT_FOUND"},
		{"no such version", "GET", "/v9/projects/my-project/locations/us-central1/modelDevelopmentClusters", "", 404, "NOT_FOUND"},
		{"another project", "GET", "/v1beta1/projects/other-one/locations/us-central1/modelDevelopmentClusters", "", 404, "NOT_FOUND"},
		{"no such cluster", "GET", parent + "/modelDevelopmentClusters/none", "", 404, "NOT_FOUND"},
		{"no cluster's name", "GET", parent + "/modelDevelopmentClusters/a~b", "", 400, "INVALID_ARGUMENT"},
		{"a path in the name", "GET", parent + "/modelDevelopmentClusters/..%2Fx", "", 400, "INVALID_ARGUMENT"},
		{"delete what is not there", "DELETE", parent + "/modelDevelopmentClusters/none", "", 404, "NOT_FOUND"},
		{"update what is not there", "PATCH", parent + "/modelDevelopmentClusters/none", "{}", 404, "NOT_FOUND"},
		{"report what is not there", "POST", parent + "/modelDevelopmentClusters/none:reportFaultyNodes", `{"nodeActions":[{"nodeId":"none-a-0"}]}`, 404, "NOT_FOUND"},
		{"report nothing", "POST", parent + "/modelDevelopmentClusters/flexvm:reportFaultyNodes", `{}`, 400, "INVALID_ARGUMENT"},
		{"report by list", "POST", parent + "/modelDevelopmentClusters/flexvm:reportFaultyNodes", `[]`, 400, "INVALID_ARGUMENT"},
		{"the Slurm REST proxy", "POST", parent + "/modelDevelopmentClusters/flexvm:callSlurmRestApi", `{}`, 501, "UNIMPLEMENTED"},
		{"a method of no kind", "PUT", parent + "/modelDevelopmentClusters/flexvm", `{}`, 501, "UNIMPLEMENTED"},
		{"get with a verb", "GET", parent + "/modelDevelopmentClusters/flexvm:x", "", 501, "UNIMPLEMENTED"},
		{"create of no JSON", "POST", parent + "/modelDevelopmentClusters", "name: x", 400, "INVALID_ARGUMENT"},
		{"create of nothing", "POST", parent + "/modelDevelopmentClusters", "", 400, "INVALID_ARGUMENT"},
		{"create of too much", "POST", parent + "/modelDevelopmentClusters", `{"a":"` + strings.Repeat("x", events.MaxSpec) + `"}`, 400, "INVALID_ARGUMENT"},
		{"an update mode", "PATCH", parent + "/modelDevelopmentClusters/flexvm?updateMode=SOFTLY", "{}", 400, "INVALID_ARGUMENT"},
		{"an update of no JSON", "PATCH", parent + "/modelDevelopmentClusters/flexvm", "", 400, "INVALID_ARGUMENT"},
		{"no such operation", "GET", parent + "/operations/none", "", 404, "NOT_FOUND"},
		{"no operation's name", "GET", parent + "/operations/..%2F..%2Fx", "", 404, "NOT_FOUND"},
		{"waiting", "POST", parent + "/operations/none:wait", "", 501, "UNIMPLEMENTED"},
		{"a page of words", "GET", parent + "/modelDevelopmentClusters?pageSize=many", "", 400, "INVALID_ARGUMENT"},
		{"a token of one's own", "GET", parent + "/modelDevelopmentClusters?pageToken=abc", "", 400, "INVALID_ARGUMENT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, e := d.call(c.method, c.path, c.body)
			if code != c.code || dig(e, "error.status") != c.status || dig(e, "error.code") != float64(c.code) || dig(e, "error.message") == "" {
				t.Errorf("%d %v", code, e)
			}
		})
	}
	if len(d.published) != 0 {
		t.Errorf("published %+v", d.published)
	}
}

func TestOperationOfAnotherLocation(t *testing.T) {
	d := newDesk(t)
	d.end(cluster.Operation{ID: "op-1", Key: flexvm, Verb: cluster.VerbDelete, Created: now, Done: true})
	if code, _ := d.call(http.MethodGet, "/v1beta1/projects/my-project/locations/us-east4/operations/op-1", ""); code != 404 {
		t.Error(code)
	}
	if code, op := d.call(http.MethodGet, parent+"/operations/op-1", ""); code != 200 || dig(op, "response.@type") != "type.googleapis.com/google.protobuf.Empty" {
		t.Error(code, op)
	}
}

func TestPubSubIsDown(t *testing.T) {
	d := newDesk(t)
	d.fail = errors.New("no %s\nanswer")
	code, e := d.call(http.MethodPost, parent+"/modelDevelopmentClusters", flexSpec(t))
	if code != 503 || dig(e, "error.message") != "publishing the request, no %s\nanswer; try again" {
		t.Errorf("%d %v", code, e)
	}
	if code, all := d.call(http.MethodGet, parent+"/operations", ""); code != 200 || len(all["operations"].([]any)) != 0 {
		t.Errorf("an operation that nobody will end: %v", all)
	}
}

// TestRequestID: who got no answer asks again, and gets the same operation.
func TestRequestID(t *testing.T) {
	d := newDesk(t)
	path := parent + "/modelDevelopmentClusters?requestId=5f3c"
	_, one := d.call(http.MethodPost, path, flexSpec(t))
	_, two := d.call(http.MethodPost, path, flexSpec(t))
	if one["name"] != two["name"] || one["name"] == nil {
		t.Errorf("%v, %v", one["name"], two["name"])
	}
}

func TestList(t *testing.T) {
	d := newDesk(t)
	if code, all := d.call(http.MethodGet, parent+"/modelDevelopmentClusters", ""); code != 200 || len(all["modelDevelopmentClusters"].([]any)) != 0 {
		t.Errorf("%d %v", code, all)
	}
	for i := range 5 {
		s := running(t)
		s.Key.ID = fmt.Sprintf("c%d", i)
		if i == 2 {
			s.Phase = cluster.PhaseDeleted
		}
		d.keep(s)
	}
	var names []string
	token := ""
	for range 10 {
		code, page := d.call(http.MethodGet, parent+"/modelDevelopmentClusters?pageSize=2&pageToken="+token, "")
		if code != 200 {
			t.Fatal(code, page)
		}
		for _, c := range page["modelDevelopmentClusters"].([]any) {
			names = append(names, dig(c, "name").(string)[len(dig(c, "name").(string))-2:])
		}
		if token, _ = page["nextPageToken"].(string); token == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"c0", "c1", "c3", "c4"}, names); diff != "" {
		t.Error(diff)
	}
	if _, all := d.call(http.MethodGet, "/v1beta1/projects/my-project/locations/-/modelDevelopmentClusters", ""); len(all["modelDevelopmentClusters"].([]any)) != 4 {
		t.Errorf("of all locations: %v", all)
	}
}

func TestTimeline(t *testing.T) {
	d := newDesk(t)
	d.keep(running(t))
	code, one := d.call(http.MethodGet, parent+"/modelDevelopmentClusters/flexvm/timeline?pageSize=1", "")
	if code != 200 || dig(one, "entries.0.text") != "second" || dig(one, "entries.0.about") != "flexvm-a3u-0" {
		t.Fatalf("%d %v", code, one)
	}
	code, two := d.call(http.MethodGet, parent+"/modelDevelopmentClusters/flexvm/timeline?pageToken="+one["nextPageToken"].(string), "")
	if code != 200 || dig(two, "entries.0.text") != "first" || two["nextPageToken"] != nil {
		t.Errorf("%d %v", code, two)
	}
}

func TestPanic(t *testing.T) {
	h := api.New(api.Config{Log: slog.New(slog.DiscardHandler)})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, parent+"/operations", nil))
	if w.Code != 500 || !strings.Contains(w.Body.String(), "INTERNAL") || strings.Contains(w.Body.String(), "nil pointer") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
