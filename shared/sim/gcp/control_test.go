package gcp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

// control calls one of the controls over HTTP.
func (w *world) control(method, path, body string, into any) int {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.ctx, method, "http://gcp.simulated"+path, strings.NewReader(body))
	w.ok("making a request", err)
	resp, err := w.cloud.Transport().RoundTrip(r)
	w.ok(path, err)
	defer func() { w.ok("closing", resp.Body.Close()) }()
	text, err := io.ReadAll(resp.Body)
	w.ok("reading", err)
	if into != nil && resp.StatusCode == http.StatusOK {
		w.ok("decoding "+string(text), json.Unmarshal(text, into))
	}
	return resp.StatusCode
}

// The controls over HTTP do what the methods do.
func TestControlsOverHTTP(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		ok := func(method, path, body string) {
			t.Helper()
			if status := w.control(method, path, body, nil); status != http.StatusOK {
				t.Errorf("%s %s answers %d", method, path, status)
			}
		}
		ok("PUT", "/sim/capacity", `{"zone":"us-central1-a","machineType":"a3-ultragpu-8g","vms":0}`)
		ok("PUT", "/sim/quotas", `{"CPUS": 100}`)
		ok("PUT", "/sim/delays", `{"Staging":"90s"}`)
		var delays gcp.Delays
		w.control("GET", "/sim/delays", "", &delays)
		if delays.Staging != 90*time.Second || delays.Stopping != gcp.DefaultDelays().Stopping {
			t.Errorf("the delays are %+v", delays)
		}
		ok("POST", "/sim/faults", `{"method":"compute.instances.insert","times":1,"status":503,"latency":"2s"}`)
		_, err := w.insert("vm", nil)
		w.refused(err, 503, "backendError")
		w.done(w.insert("vm", nil))
		ok("POST", "/sim/freeze/instances", "")
		ok("POST", "/sim/zones/us-central1-a/instances/vm/maintain", `{"Status":"PENDING"}`)
		ok("POST", "/sim/thaw/instances", "")
		ok("POST", "/sim/zones/us-central1-a/instances/vm/preempt", "")
		w.pass(time.Minute)
		w.wantStatus("vm", "TERMINATED")
		w.flexGroup()
		w.done(w.request("mig", "r1", "node-0"))
		ok("POST", "/sim/zones/us-central1-a/instanceGroupManagers/mig/resizeRequests/r1/fail", `{"code":"NOPE","message":"no"}`)
		w.wantState("r1", "FAILED")

		var sum gcp.Summary
		w.control("GET", "/sim/summary", "", &sum)
		if len(sum.Instances) != 1 || sum.Instances[0].Status != "TERMINATED" || len(sum.Groups) != 1 || sum.Requests[0].State != "FAILED" || sum.ActiveQuotas["CPUS"] != 100 {
			t.Errorf("the summary is %+v", sum)
		}
		var left []string
		w.control("GET", "/sim/leftovers", "", &left)
		want := []string{"template mig", "group us-central1-a/mig of target size 0 with 0 members", "instance us-central1-a/vm TERMINATED", "disk zones/us-central1-a/disks/vm"}
		if fmt.Sprint(left) != fmt.Sprint(want) {
			t.Errorf("what is left is %q, want %q", left, want)
		}
		var journal []gcp.Request
		w.control("GET", "/sim/journal?method=compute.instances.insert", "", &journal)
		if len(journal) != 2 || journal[0].Status != 503 || journal[0].Took != 2*time.Second || journal[1].Status != 200 {
			t.Errorf("the journal is %+v", journal)
		}
		ok("DELETE", "/sim/journal", "")
		if n := w.cloud.Count("*"); n != 0 {
			t.Errorf("%d requests are counted after they were forgotten", n)
		}

	})
}

func TestBadControlsAreRefused(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.done(w.insert("vm", nil))
		for request, status := range map[string]int{
			`PUT /sim/capacity {"zone":"mars","machineType":"a3-ultragpu-8g","vms":1}`: 400,
			`PUT /sim/capacity {"zone":"us-central1-a"}`:                               400,
			`PUT /sim/capacity {"zone`:                                                 400,
			`PUT /sim/delays {"Stagin":"1s"}`:                                          400,
			`PUT /sim/delays {"Staging":"-1s"}`:                                        400,
			`POST /sim/faults {"metod":"x"}`:                                           400,
			`POST /sim/faults {"latency":"soon"}`:                                      400,
			`DELETE /sim/faults/99 `:                                                   404,
			`POST /sim/freeze/nonsense `:                                               400,
			`POST /sim/zones/us-central1-a/instances/none/preempt `:                    404,
			`POST /sim/zones/us-central1-a/instances/vm/explode `:                      404,
			`POST /sim/zones/us-central1-a/instances/vm/endLease `:                     400,
			`GET /sim/nothing `:                                                        404,
			`GET /compute/v1/projects/my-project/global/firewalls `:                    404,
			`POST /compute/v1/projects/my-project/global/networks {"name":`:            400,
			`POST /compute/v1/projects/my-project/global/networks {"mtu":"fast"}`:      400,
		} {
			parts := strings.SplitN(request, " ", 3)
			if got := w.control(parts[0], parts[1], parts[2], nil); got != status {
				t.Errorf("%s answers %d, want %d", request, got, status)
			}
		}
	})
}

// An answer holds no more than the fields that were asked for.
func TestFieldSelection(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.done(w.insert("vm", nil))
		var got map[string]any
		path := "/compute/v1/projects/my-project/aggregated/instances?fields=items/*/instances(name,networkInterfaces/name),items/*/warning/code"
		if status := w.control("GET", path, "", &got); status != http.StatusOK {
			t.Fatalf("the answer is %d", status)
		}
		zones := got["items"].(map[string]any)
		text, err := json.Marshal(zones["zones/"+zone])
		w.ok("encoding", err)
		if string(text) != `{"instances":[{"name":"vm","networkInterfaces":[{"name":"nic0"}]}]}` {
			t.Errorf("the zone's part is %s", text)
		}
		if len(got) != 1 || len(zones) != 34 {
			t.Errorf("the answer has %d parts and %d zones", len(got), len(zones))
		}
		for _, bad := range []string{"items(", "items)", ",", "items//id"} {
			if status := w.control("GET", "/compute/v1/projects/my-project/zones/us-central1-a/instances?fields="+bad, "", nil); status != 400 {
				t.Errorf("fields=%s answers %d, want 400", bad, status)
			}
		}
	})
}

// The wire format is the one that was recorded of the real service.
func TestWireFormat(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		w.template("mig", plainProperties())
		var op map[string]any
		w.control("POST", "/compute/v1/projects/my-project/zones/us-central1-a/instanceGroupManagers", `{"name":"mig","instanceTemplate":"projects/my-project/global/instanceTemplates/mig","targetSize":0,"somethingNew":{"a":1}}`, &op)
		for field, want := range map[string]any{
			"kind": "compute#operation", "operationType": "insert", "status": "RUNNING", "progress": 0.0,
			"zone":       "https://www.googleapis.com/compute/v1/projects/my-project/zones/us-central1-a",
			"targetLink": "https://www.googleapis.com/compute/v1/projects/my-project/zones/us-central1-a/instanceGroupManagers/mig",
		} {
			if op[field] != want {
				t.Errorf("the operation's %s is %v, want %v", field, op[field], want)
			}
		}
		for _, field := range []string{"id", "targetId"} {
			if id, ok := op[field].(string); !ok || len(id) != 19 {
				t.Errorf("the operation's %s is %v, want a string of 19 digits", field, op[field])
			}
		}
		r := httptest.NewRequest("GET", "/compute/v1/projects/my-project/zones/us-central1-a/instanceGroupManagers/none", nil)
		answer := httptest.NewRecorder()
		w.cloud.ServeHTTP(answer, r)
		want := `{"error":{"code":404,"errors":[{"domain":"global","message":"The resource 'projects/my-project/zones/us-central1-a/instanceGroupManagers/none' was not found","reason":"notFound"}],"message":"The resource 'projects/my-project/zones/us-central1-a/instanceGroupManagers/none' was not found"}}`
		if got := compact(t, answer.Body.Bytes()); answer.Code != 404 || got != want {
			t.Errorf("the answer is %d %s,\nwant %s", answer.Code, got, want)
		}
		r = httptest.NewRequest("GET", "/v1/projects/my-project/locations/us-central1-a/instances/none", nil)
		answer = httptest.NewRecorder()
		w.cloud.ServeHTTP(answer, r)
		want = `{"error":{"code":404,"message":"Resource 'projects/my-project/locations/us-central1-a/instances/none' was not found","status":"NOT_FOUND"}}`
		if got := compact(t, answer.Body.Bytes()); answer.Code != 404 || got != want {
			t.Errorf("the answer is %d %s,\nwant %s", answer.Code, got, want)
		}

		_, err := w.groups.Get(w.ctx, &computepb.GetInstanceGroupManagerRequest{Project: "123456789012", Zone: zone, InstanceGroupManager: "mig"})
		w.ok("naming the project by its number", err)
	})
}

func compact(t *testing.T, text []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s is not JSON: %v", text, err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
