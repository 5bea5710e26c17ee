package gce

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

func instances() cluster.Query { return cluster.Query{Owner: testOwner, Instances: true} }

// theGroup looks at the group c1-g, its resize request and all instances, all of which must be seen.
func (w *world) theGroup() (cluster.Observation, cluster.Group) {
	w.t.Helper()
	before := cluster.Moment(time.Now())
	seen := w.Observe(w.t.Context(), cluster.Query{Owner: testOwner, Instances: true, Groups: []cluster.GroupQuery{{Zone: testZone, Group: "c1-g", Request: "r1"}}})
	group, ok := seen.Groups["c1-g"]
	if !ok || len(seen.Problems) > 0 || seen.Instances == nil || !seen.At.Equal(before) {
		w.t.Fatalf("at %v: %+v", before, seen)
	}
	return seen, group
}

// wantMachine checks a machine of the group that runs and has a lease of a day.
func (w *world) wantMachine(seen cluster.Observation, group cluster.Group, name string) {
	w.t.Helper()
	i := seen.Instances[name]
	want := cluster.Instance{Name: name, Zone: testZone, Status: "RUNNING", Group: "c1-g", Labels: testOwner.Labels()}
	if diff := cmp.Diff(want, i, cmpopts.IgnoreFields(want, "ID", "Created", "LeaseEnd", "Host", "Address")); diff != "" {
		w.t.Error(diff)
	}
	if i.ID == 0 || i.Address == "" || i.Created.IsZero() || i.LeaseEnd.Before(i.Created.Add(24*time.Hour)) {
		w.t.Errorf("%s is seen as %+v", name, i)
	}
	if !slices.Contains(group.Managed, cluster.Managed{Name: name, ID: i.ID, Action: "NONE", Status: "RUNNING"}) {
		w.t.Errorf("%s is managed as %+v", name, group.Managed)
	}
}

// An allocation by resize request, from nothing through the queue to machines, and to its end.
func TestWhatIsSeenOfARequest(t *testing.T) {
	inVirtualTime(t, gcp.Options{Capacity: noFlex}, Options{}, func(t *testing.T, w *world) {
		if _, group := w.theGroup(); group.Found {
			t.Errorf("there is no group yet, but %+v was found", group)
		}
		w.done(ensureTemplate("c1-t", flexTemplate(testOwner)))
		w.done(createGroup("c1-g", "c1-t", testOwner))
		time.Sleep(time.Minute)
		want := cluster.Group{Found: true, Stable: true, Template: "c1-t", Managed: []cluster.Managed{}, Request: &cluster.Request{}}
		_, group := w.theGroup()
		if diff := cmp.Diff(want, group); diff != "" {
			t.Error(diff)
		}

		asked := cluster.Moment(time.Now())
		w.must(createRequest("c1-g", "c1-p-0", "c1-p-1"))
		want = cluster.Group{Found: true, Target: 2, Template: "c1-t", Managed: []cluster.Managed{
			{Name: "c1-p-0", Action: "CREATING"}, {Name: "c1-p-1", Action: "CREATING"},
		}, Request: &cluster.Request{Found: true, State: "CREATING", Created: asked}}
		_, group = w.theGroup()
		if diff := cmp.Diff(want, group, cmpopts.IgnoreFields(cluster.Managed{}, "Status")); diff != "" {
			t.Error(diff)
		}

		time.Sleep(10 * time.Minute)
		_, group = w.theGroup()
		attempt := group.Request.Attempt
		if group.Request.State != "ACCEPTED" || attempt == nil || attempt.Class != cluster.Capacity || group.Request.Error != nil || attempt.Resource != "r1" {
			t.Errorf("the waiting request is %+v, its last attempt %v", group.Request, attempt)
		}

		if err := w.sim.SetCapacity(testZone, "a3-ultragpu-8g", 2); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		seen, group := w.theGroup()
		if group.Request.State != "SUCCEEDED" || group.Request.Attempt != nil || !group.Stable {
			t.Errorf("the granted request is %+v", group.Request)
		}
		w.wantMachine(seen, group, "c1-p-0")
		w.wantMachine(seen, group, "c1-p-1")

		time.Sleep(25 * time.Hour) // the leases end
		if seen, _ := w.theGroup(); len(seen.Instances) > 0 {
			t.Errorf("after their leases there are %+v", seen.Instances)
		}
		w.must(cluster.DeleteGroup{Zone: testZone, Group: "c1-g", ID: id("1")})
		time.Sleep(time.Minute)
		if _, group := w.theGroup(); group.Found {
			t.Errorf("it was deleted, but %+v was found", group)
		}
	})
}

func TestWhyARequestFailed(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, Options{}, func(t *testing.T, w *world) {
		if err := w.sim.FailNextRequests(1, "QUOTA_EXCEEDED", "Quota 'PREEMPTIBLE_NVIDIA_H200_GPUS' exceeded.  Limit: 8.0 in region us-central1."); err != nil {
			t.Fatal(err)
		}
		w.done(ensureTemplate("c1-t", flexTemplate(testOwner)))
		w.done(createGroup("c1-g", "c1-t", testOwner))
		w.done(createRequest("c1-g", "c1-p-0"))
		time.Sleep(time.Minute)
		seen := w.Observe(t.Context(), cluster.Query{Groups: []cluster.GroupQuery{{Zone: testZone, Group: "c1-g", Request: "r1"}}})
		r := seen.Groups["c1-g"].Request
		if r == nil || r.State != "FAILED" || r.Error == nil || r.Error.Class != cluster.Quota || !strings.Contains(r.Error.Remedy, "H200") {
			t.Fatalf("the request is %+v", r)
		}
		if want := "carrying out resize request r1: Quota 'PREEMPTIBLE_NVIDIA_H200_GPUS' exceeded. Limit: 8.0 in region us-central1. (quota)"; !strings.HasPrefix(r.Error.Error(), want) {
			t.Errorf("a person reads %q", r.Error.Error())
		}
	})
}

// Each managed instance has the problem of its own, and no other's.
func TestEachInstanceHasItsOwnProblem(t *testing.T) {
	body := `{"managedInstances":[
		{"name":"c1-p-0","id":"7","currentAction":"NONE","instanceStatus":"RUNNING"},
		{"name":"c1-p-1","currentAction":"CREATING","lastAttempt":{"errors":{"errors":[{"code":"RATE_LIMIT_EXCEEDED","message":"slow down"}]}}},
		{"instance":"https://www.googleapis.com/compute/v1/projects/p/zones/z/instances/c1-p-2","currentAction":"CREATING","lastAttempt":{"errors":{"errors":[{"code":"ZONE_RESOURCE_POOL_EXHAUSTED","message":"none left"}]}}}]}`
	cloud := &answers{t: t, list: []func(*http.Request) (*http.Response, error){answer(200, `{"name":"c1-g"}`), answer(200, body)}}
	seen := cloud.client(Limits{}).Observe(t.Context(), cluster.Query{Groups: []cluster.GroupQuery{{Zone: testZone, Group: "c1-g"}}})
	got := map[string]cluster.Class{}
	for _, m := range seen.Groups["c1-g"].Managed {
		got[m.Name] = ""
		if m.Problem != nil {
			got[m.Name] = m.Problem.Class
		}
	}
	want := map[string]cluster.Class{"c1-p-0": "", "c1-p-1": cluster.Throttle, "c1-p-2": cluster.Capacity}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyTheOwnersInstancesAreListed(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, Options{Limits: Limits{Page: 2}}, func(t *testing.T, w *world) {
		for _, owner := range []cluster.Owner{testOwner, anotherOwner} {
			w.done(ensureTemplate("c1-t-"+owner.UID, cpuTemplate(owner)))
			w.done(createGroup("c1-g-"+owner.UID, "c1-t-"+owner.UID, owner))
			w.done(createInstances("c1-g-"+owner.UID, owner.UID+"-0", owner.UID+"-1", owner.UID+"-2", owner.UID+"-3", owner.UID+"-4"))
		}
		time.Sleep(time.Minute)
		seen := w.Observe(t.Context(), instances())
		if len(seen.Instances) != 5 || len(seen.Problems) > 0 {
			t.Errorf("%d instances were seen, and %v", len(seen.Instances), seen.Problems)
		}
		for name := range seen.Instances {
			if !strings.HasPrefix(name, "u1-") {
				t.Errorf("%s is somebody else's", name)
			}
		}
		// A cluster of nothing has a list, which is empty; that is not the same as none.
		seen = w.Observe(t.Context(), cluster.Query{Owner: cluster.Owner{Cluster: "c2", UID: "u1"}, Instances: true})
		if seen.Instances == nil || len(seen.Instances) != 0 {
			t.Errorf("nothing is seen as %v", seen.Instances)
		}

		// The third page fails: a list that lacks it is no list.
		w.sim.AddFault(gcp.Fault{Method: "compute.instances.aggregatedList", Skip: 2, Status: 503})
		seen = w.Observe(t.Context(), instances())
		if seen.Instances != nil || len(seen.Problems) != 1 || seen.Problems[0].Doing != "listing instances" {
			t.Errorf("with a page missing: %d instances, %v", len(seen.Instances), seen.Problems)
		}
	})
}

// What was not asked for is not looked at.
func TestTheEmptyQuery(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, Options{}, func(t *testing.T, w *world) {
		seen := w.Observe(t.Context(), cluster.Query{Owner: testOwner})
		if seen.Instances != nil || seen.Groups != nil || seen.Machines != nil || seen.Operations != nil || seen.Owned != nil || seen.Problems != nil || w.sim.Count() != 0 {
			t.Errorf("%d calls: %+v", w.sim.Count(), seen)
		}
	})
}

func TestMachines(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, Options{Limits: Limits{Attempts: 1}}, func(t *testing.T, w *world) {
		w.done(ensureTemplate("c1-t", cpuTemplate(testOwner)))
		w.done(cluster.EnsureInstance{Ref: ref(cluster.KindInstance, "c1-controller"), Template: "c1-t", ID: id("1")})
		w.sim.AddFault(gcp.Fault{Method: "compute.instances.get", Path: "zones/*/instances/c1-p-1", Status: 503})
		w.sim.AddFault(gcp.Fault{Method: "compute.instances.get", Path: "zones/*/instances/c1-p-2", Status: 403, Reason: "forbidden"})
		seen := w.Observe(t.Context(), cluster.Query{Machines: []cluster.MachineQuery{
			{Zone: testZone, Name: "c1-controller"}, {Zone: testZone, Name: "c1-p-0"}, {Zone: testZone, Name: "c1-p-1"}, {Zone: testZone, Name: "c1-p-2"},
		}})
		if i := seen.Machines["c1-controller"]; i == nil || i.ID == 0 || i.Group != "" {
			t.Errorf("the controller is seen as %+v", i)
		}
		if i, looked := seen.Machines["c1-p-0"]; !looked || i != nil {
			t.Errorf("what certainly is not there is seen as %+v, %v", i, looked)
		}
		for _, name := range []string{"c1-p-1", "c1-p-2"} {
			if i, looked := seen.Machines[name]; looked {
				t.Errorf("what could not be looked at is seen as %+v", i)
			}
		}
		if len(seen.Problems) != 2 || seen.Problems[0].Resource != "c1-p-1" || seen.Problems[1].Class != cluster.Permission {
			t.Errorf("the problems are %v", seen.Problems)
		}
	})
}

// A group of which one part cannot be seen is not seen; its request alone may be missing.
func TestGroupsThatAreSeenInPart(t *testing.T) {
	for method, seenAtAll := range map[string]bool{
		"compute.instanceGroupManagers.get":                  false,
		"compute.instanceGroupManagers.listManagedInstances": false,
		"compute.instanceGroupManagerResizeRequests.get":     true,
	} {
		t.Run(method, func(t *testing.T) {
			inVirtualTime(t, gcp.Options{}, Options{Limits: Limits{Attempts: 1}}, func(t *testing.T, w *world) {
				w.done(ensureTemplate("c1-t", flexTemplate(testOwner)))
				w.done(createGroup("c1-g", "c1-t", testOwner))
				w.done(createRequest("c1-g", "c1-p-0"))
				w.sim.FailNext(method, 1, 503)
				seen := w.Observe(t.Context(), cluster.Query{Groups: []cluster.GroupQuery{{Zone: testZone, Group: "c1-g", Request: "r1"}}})
				group, ok := seen.Groups["c1-g"]
				if ok != seenAtAll || group.Request != nil || len(seen.Problems) != 1 || seen.Problems[0].Class != cluster.Unknown {
					t.Errorf("got %+v", seen)
				}
			})
		})
	}
}

func TestOperations(t *testing.T) {
	inVirtualTime(t, gcp.Options{Capacity: map[string]int{testZone + "/n2-standard-8": 0}}, Options{}, func(t *testing.T, w *world) {
		template := w.must(ensureTemplate("c1-t", cpuTemplate(testOwner))).Operation
		if !strings.HasPrefix(template, "projects/my-project/global/operations/") {
			t.Errorf("a template's operation is %q", template)
		}
		w.wait(template)
		machine := w.must(cluster.EnsureInstance{Ref: ref(cluster.KindInstance, "c1-controller"), Template: "c1-t", ID: id("1")}).Operation
		look := func() cluster.Observation {
			return w.Observe(t.Context(), cluster.Query{Operations: []string{
				template, machine, "projects/my-project/zones/us-central1-a/operations/none", "projects/my-project/locations/us-central1-a/operations/none", "nonsense",
			}})
		}
		seen := look()
		if got := seen.Operations[machine]; got != (cluster.OperationView{Found: true}) {
			t.Errorf("what runs is seen as %+v", got)
		}
		time.Sleep(time.Minute)
		seen = look()
		if got := seen.Operations[template]; got != (cluster.OperationView{Found: true, Done: true}) {
			t.Errorf("what has ended well is seen as %+v", got)
		}
		got := seen.Operations[machine]
		if !got.Found || !got.Done || got.Error == nil || got.Error.Class != cluster.Capacity || got.Error.Resource != "c1-controller" {
			t.Errorf("what has failed is seen as %+v", got)
		}
		for _, none := range []string{"projects/my-project/zones/us-central1-a/operations/none", "projects/my-project/locations/us-central1-a/operations/none"} {
			if got, ok := seen.Operations[none]; !ok || got.Found {
				t.Errorf("%s is seen as %+v, %v", none, got, ok)
			}
		}
		if _, ok := seen.Operations["nonsense"]; ok || len(seen.Problems) != 1 || seen.Problems[0].Class != cluster.Configuration {
			t.Errorf("nonsense is seen as %+v", seen)
		}
	})
}

func TestSweep(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, Options{Limits: Limits{Page: 2, Attempts: 1}}, func(t *testing.T, w *world) {
		made := cluster.Moment(time.Now())
		for _, owner := range []cluster.Owner{testOwner, anotherOwner} {
			for i := range 3 {
				name := fmt.Sprintf("c1-%s-%d", owner.UID, i)
				w.must(ensureTemplate(name, cpuTemplate(owner)))
			}
		}
		time.Sleep(time.Minute)
		for _, owner := range []cluster.Owner{testOwner, anotherOwner} {
			for i := range 3 {
				name := fmt.Sprintf("c1-%s-%d", owner.UID, i)
				w.must(createGroup(name, name, owner))
			}
		}
		later := made.Add(time.Minute)
		want := &cluster.Owned{
			Groups:    []cluster.OwnedGroup{{Zone: testZone, Name: "c1-u1-0", Created: later}, {Zone: testZone, Name: "c1-u1-1", Created: later}, {Zone: testZone, Name: "c1-u1-2", Created: later}},
			Templates: []string{"c1-u1-0", "c1-u1-1", "c1-u1-2"},
		}
		query := cluster.Query{Owner: testOwner, Sweep: true}
		if seen := w.Observe(t.Context(), query); !cmp.Equal(seen.Owned, want) || len(seen.Problems) > 0 {
			t.Errorf("%s%v", cmp.Diff(want, seen.Owned), seen.Problems)
		}
		for _, method := range []string{"compute.instanceGroupManagers.aggregatedList", "compute.instanceTemplates.list"} {
			w.sim.AddFault(gcp.Fault{Method: method, Skip: 1, Times: 1, Status: 500})
			if seen := w.Observe(t.Context(), query); seen.Owned != nil || len(seen.Problems) != 1 {
				t.Errorf("without a page of %s: %+v", method, seen)
			}
		}
	})
}

// What a filter lets through is not yet ours: the mark must be the owner's, to the letter.
func TestASweepTrustsNoFilter(t *testing.T) {
	cloud := &answers{t: t, list: []func(*http.Request) (*http.Response, error){
		answer(200, `{"items":{"zones/us-central1-a":{"instanceGroupManagers":[
			{"name":"c1-g","zone":"zones/us-central1-a","description":"convoke cluster=c1 uid=u1"},
			{"name":"c1-h","zone":"zones/us-central1-a","description":"convoke cluster=c1 uid=u10"}]},
			"regions/us-central1":{"instanceGroupManagers":[{"name":"c1-i","region":"regions/us-central1","description":"convoke cluster=c1 uid=u1"}]}}}`),
		answer(200, `{"items":[{"name":"c1-t","description":"convoke cluster=c1 uid=u1"},{"name":"c1-u","description":"about convoke cluster=c1 uid=u1"}]}`),
	}}
	seen := cloud.client(Limits{}).Observe(t.Context(), cluster.Query{Owner: testOwner, Sweep: true})
	want := &cluster.Owned{Groups: []cluster.OwnedGroup{{Zone: testZone, Name: "c1-g"}}, Templates: []string{"c1-t"}}
	if diff := cmp.Diff(want, seen.Owned); diff != "" {
		t.Error(diff, seen.Problems)
	}
}

// A list over all zones that says that it lacks one is no list, unless that zone does not matter.
func TestListsWithGaps(t *testing.T) {
	const good = `"zones/us-central1-a":{"instances":[{"name":"c1-p-0","id":"1","zone":"https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-a"}]},"zones/us-central1-b":{"warning":{"code":"NO_RESULTS_ON_PAGE"}}`
	const gap = `"zones/europe-west4-b":{"warning":{"code":"UNREACHABLE","message":"The zone is on fire"}}`
	for name, c := range map[string]struct {
		pages []string
		zones []string
		whole bool
	}{
		"whole":                                {[]string{`{"items":{` + good + `}}`}, nil, true},
		"a zone out of reach":                  {[]string{`{"items":{` + good + `,` + gap + `}}`}, nil, false},
		"a zone out of reach that we need":     {[]string{`{"items":{` + good + `,` + gap + `}}`}, []string{"europe-west4-b"}, false},
		"a zone out of reach, not one of ours": {[]string{`{"items":{` + good + `,` + gap + `}}`}, []string{"us-central1-a"}, true},
		"named at the top":                     {[]string{`{"items":{` + good + `},"unreachables":["projects/p/zones/europe-west4-b"]}`}, nil, false},
		"named at the top, not one of ours":    {[]string{`{"items":{` + good + `},"unreachables":["projects/p/zones/europe-west4-b"]}`}, []string{"us-central1-a"}, true},
		"a warning about all":                  {[]string{`{"items":{` + good + `},"warning":{"code":"UNREACHABLE","message":"some"}}`}, []string{"us-central1-a"}, false},
		"on a page without entries":            {[]string{`{"unreachables":["zones/europe-west4-b"],"nextPageToken":"2"}`, `{"items":{` + good + `}}`}, nil, false},
		"a list without an end":                {[]string{`{"items":{` + good + `},"nextPageToken":"2"}`}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := &answers{t: t}
			for _, p := range c.pages {
				cloud.list = append(cloud.list, answer(200, p))
			}
			query := instances()
			query.Zones = c.zones
			seen := cloud.client(Limits{Attempts: 1}).Observe(t.Context(), query)
			if (seen.Instances != nil) != c.whole {
				t.Errorf("the list is %v", seen.Instances)
			}
			if quiet := name == "whole"; (len(seen.Problems) == 0) != quiet || len(seen.Problems) > 1 {
				t.Errorf("the problems are %v", seen.Problems)
			}
			if c.whole && seen.Instances["c1-p-0"].ID != 1 {
				t.Errorf("the list is %v", seen.Instances)
			}
		})
	}
}

func TestTwoInstancesOfOneName(t *testing.T) {
	body := `{"items":{
		"zones/us-central1-a":{"instances":[{"name":"c1-p-0","id":"1","zone":"zones/us-central1-a","creationTimestamp":"2026-05-02T10:00:00.000-07:00"}]},
		"zones/us-central1-b":{"instances":[{"name":"c1-p-0","id":"2","zone":"zones/us-central1-b","creationTimestamp":"2026-05-01T10:00:00.000-07:00"}]}}}`
	cloud := &answers{t: t, list: []func(*http.Request) (*http.Response, error){answer(200, body)}}
	seen := cloud.client(Limits{}).Observe(t.Context(), instances())
	if seen.Instances["c1-p-0"].ID != 2 {
		t.Errorf("the elder one counts, not %+v", seen.Instances["c1-p-0"])
	}
	if len(seen.Problems) != 1 || seen.Problems[0].Class != cluster.Conflict || !strings.Contains(seen.Problems[0].Message, "one in us-central1-b since 2026-05-01T17:00:00Z, another in us-central1-a") {
		t.Errorf("the problems are %v", seen.Problems)
	}
}

func TestWhatIsReadOfAnInstance(t *testing.T) {
	body := `{"name":"c1-p-0","id":"5012345678901234567","zone":"https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-a","status":"RUNNING",
		"creationTimestamp":"2026-05-01T10:00:00.123-07:00","labels":{"a":"b"},"someNewField":{"x":1},
		"networkInterfaces":[{"networkIP":"10.0.0.7"},{"networkIP":"10.1.0.7"}],
		"metadata":{"items":[{"key":"startup-script","value":"x"},{"key":"created-by","value":"projects/1/zones/us-central1-a/instanceGroupManagers/c1-g"}]},
		"resourceStatus":{"physicalHost":"/block/sub/host","scheduling":{"terminationTimestamp":"2026-05-08T10:00:00.000-07:00"}}}`
	cloud := &answers{t: t, list: []func(*http.Request) (*http.Response, error){answer(200, body)}}
	seen := cloud.client(Limits{}).Observe(t.Context(), cluster.Query{Machines: []cluster.MachineQuery{{Zone: testZone, Name: "c1-p-0"}}})
	want := &cluster.Instance{
		Name: "c1-p-0", ID: 5012345678901234567, Zone: testZone, Status: "RUNNING", Labels: map[string]string{"a": "b"},
		Created:  time.Date(2026, 5, 1, 17, 0, 0, 123e6, time.UTC),
		LeaseEnd: time.Date(2026, 5, 8, 17, 0, 0, 0, time.UTC),
		Group:    "c1-g", Host: "block/sub/host", Address: "10.0.0.7",
	}
	if diff := cmp.Diff(want, seen.Machines["c1-p-0"]); diff != "" {
		t.Error(diff)
	}
}

// The list asks for the parts that are read and no others, for the owner's instances and no others.
func TestWhatAListAsksFor(t *testing.T) {
	cloud := &answers{t: t, list: []func(*http.Request) (*http.Response, error){answer(200, `{}`)}}
	cloud.client(Limits{}).Observe(t.Context(), instances())
	want := url.Values{
		"filter":     {`labels.convoke-cluster = "c1" AND labels.convoke-uid = "u1"`},
		"fields":     {instanceFields},
		"maxResults": {"500"},
	}
	if diff := cmp.Diff(want, cloud.got[0].URL.Query()); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkObserve lists 10,000 instances as they come with their field mask, with a start-up script of 4 KB each.
func BenchmarkObserve(b *testing.B) {
	const pageSize, total = 500, 10_000
	script := strings.Repeat("echo hello world, this is a start-up script\\n", 90)
	var pages []func(*http.Request) (*http.Response, error)
	size := 0
	for p := range total / pageSize {
		var s strings.Builder
		s.WriteString(`{"items":{"zones/us-central1-a":{"instances":[`)
		for i := range pageSize {
			if i > 0 {
				s.WriteByte(',')
			}
			n := p*pageSize + i
			fmt.Fprintf(&s, `{"id":"%d","name":"c1-p-%d","zone":"https://www.googleapis.com/compute/v1/projects/my-project/zones/us-central1-a","status":"RUNNING",
				"creationTimestamp":"2026-05-01T10:00:00.123-07:00","labels":{"convoke-cluster":"c1","convoke-uid":"u1","convoke-pool":"p"},
				"networkInterfaces":[{"networkIP":"10.0.%d.%d"}],"metadata":{"items":[{"key":"startup-script","value":"%s"},{"key":"created-by","value":"projects/1/zones/us-central1-a/instanceGroupManagers/c1-p-x"}]},
				"resourceStatus":{"physicalHost":"/b/s/h%d","scheduling":{"terminationTimestamp":"2026-05-08T10:00:00.000-07:00"}}}`,
				n+1, n, n/256, n%256, script, n)
		}
		s.WriteString(`]}}`)
		if p < total/pageSize-1 {
			fmt.Fprintf(&s, `,"nextPageToken":"%d"`, p+1)
		}
		s.WriteString(`}`)
		size += s.Len()
		pages = append(pages, answer(200, s.String()))
	}
	cloud := &answers{list: pages}
	c, err := New(b.Context(), Options{Project: "my-project", Endpoint: "http://cloud.test", HTTPClient: &http.Client{Transport: cloud}, Logger: discard()})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		cloud.got = nil
		if seen := c.Observe(b.Context(), instances()); len(seen.Instances) != total {
			b.Fatal(len(seen.Instances), seen.Problems)
		}
	}
}

// BenchmarkNew is what a function's cold start pays.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := New(b.Context(), Options{Project: "my-project", Endpoint: "http://cloud.test"}); err != nil {
			b.Fatal(err)
		}
	}
}
