package gce

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

const (
	testZone = "us-central1-a"
	longTime = 2 * time.Hour // after which request ids are forgotten
)

var (
	testOwner    = cluster.Owner{Cluster: "c1", UID: "u1"}
	anotherOwner = cluster.Owner{Cluster: "c1", UID: "u0"} // an incarnation before, or somebody else's
)

// noFlex leaves resize requests waiting for capacity.
var noFlex = map[string]int{testZone + "/a3-ultragpu-8g": 0}

// A world is a client and a simulated cloud, in virtual time.
type world struct {
	t   *testing.T
	sim *gcp.Server
	*Client
	log bytes.Buffer // what the client logged
}

func inVirtualTime(t *testing.T, sim gcp.Options, options Options, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		sim.Logger = discard()
		var err error
		if w.sim, err = gcp.New(sim); err != nil {
			t.Fatal(err)
		}
		options.Project, options.Endpoint = "my-project", "http://cloud.test"
		options.HTTPClient = &http.Client{Transport: w.sim.Transport()}
		options.Logger = slog.New(slog.NewTextHandler(&w.log, nil))
		if w.Client, err = New(t.Context(), options); err != nil {
			t.Fatal(err)
		}
		test(t, w)
		if err := w.sim.Close(); err != nil {
			t.Error(err)
		}
	})
}

// must carries an intent out that is to be accepted.
func (w *world) must(intent cluster.Intent) cluster.Outcome {
	w.t.Helper()
	got := w.Do(w.t.Context(), intent)
	if got.Problem != nil {
		w.t.Fatalf("%s: %v", intent.Do(), got.Problem)
	}
	if got.Intent == nil || got.At.IsZero() {
		w.t.Errorf("%s: the outcome says neither of what nor when: %+v", intent.Do(), got)
	}
	return got
}

// done carries an intent out and waits for its end.
func (w *world) done(intent cluster.Intent) {
	w.t.Helper()
	w.wait(w.must(intent).Operation)
}

func (w *world) wait(operation string) {
	w.t.Helper()
	for range 1000 {
		if operation == "" {
			return
		}
		seen := w.Observe(w.t.Context(), cluster.Query{Operations: []string{operation}})
		view, ok := seen.Operations[operation]
		if !ok || !view.Found {
			w.t.Fatalf("operation %q is not to be seen: %+v", operation, seen)
		}
		if view.Done {
			if view.Error != nil {
				w.t.Fatalf("operation %q: %v", operation, view.Error)
			}
			return
		}
		time.Sleep(time.Second)
	}
	w.t.Fatalf("operation %q does not end", operation)
}

// refused carries an intent out that is to fail.
func (w *world) refused(intent cluster.Intent, class cluster.Class, says string) (remedy string) {
	w.t.Helper()
	got := w.Do(w.t.Context(), intent)
	if got.Problem == nil {
		w.t.Fatalf("%s: no problem, want one of class %q", intent.Do(), class)
	}
	if got.Problem.Class != class || !strings.Contains(got.Problem.Message, says) {
		w.t.Errorf("%s: got %q %s\nwant class %q and %q", intent.Do(), got.Problem.Class, got.Problem.Error(), class, says)
	}
	return got.Problem.Remedy
}

func (w *world) summary() gcp.Summary {
	w.t.Helper()
	sum, err := w.sim.Summarize()
	if err != nil {
		w.t.Fatal(err)
	}
	return sum
}

func (w *world) statuses() []string {
	var out []string
	for _, i := range w.summary().Instances {
		out = append(out, i.Name+" "+i.Status)
	}
	return out
}

// call makes a call of the simulated APIs themselves.
func (w *world) call(method, path, body string) []byte {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, "http://cloud.test"+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := w.sim.Transport().RoundTrip(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		w.t.Fatalf("%s %s: %d %s (%v)", method, path, resp.StatusCode, out, err)
	}
	return out
}

func id(parts ...string) string { return cluster.RequestID(parts...) }

func ref(kind cluster.ResourceKind, name string) cluster.ResourceRef {
	r := cluster.ResourceRef{Kind: kind, Name: name}
	if kind == cluster.KindDisk || kind == cluster.KindInstance {
		r.Zone = testZone
	}
	return r
}

func flexTemplate(owner cluster.Owner) cluster.Template {
	t := testTemplate()
	t.Description, t.Labels = owner.Description(), owner.Labels()
	t.MachineType, t.Model, t.Run, t.TerminateOnMaintenance = "a3-ultragpu-8g", cluster.FlexStart, 24*time.Hour, true
	t.Network = "projects/my-project/global/networks/default"
	return t
}

func cpuTemplate(owner cluster.Owner) cluster.Template {
	t := testTemplate()
	t.Description, t.Labels = owner.Description(), owner.Labels()
	t.Network = "projects/my-project/global/networks/default"
	return t
}

func ensureTemplate(name string, template cluster.Template) cluster.EnsureTemplate {
	return cluster.EnsureTemplate{Ref: ref(cluster.KindTemplate, name), Template: template, ID: id("template", name)}
}

func createGroup(name, template string, owner cluster.Owner) cluster.CreateGroup {
	return cluster.CreateGroup{Pool: "p", Zone: testZone, Group: name, Template: template, Description: owner.Description(), ID: id("group", name, owner.UID)}
}

func createInstances(group string, names ...string) cluster.CreateInstances {
	return cluster.CreateInstances{Pool: "p", Zone: testZone, Group: group, Instances: names, ID: id(append([]string{"create", group}, names...)...)}
}

// createRequest is for a request r1 of the group.
func createRequest(group string, instances ...string) cluster.CreateRequest {
	return cluster.CreateRequest{Pool: "p", Zone: testZone, Group: group, Name: "r1", Instances: instances, Run: 24 * time.Hour, ID: id("request", group)}
}

func cancelRequest(group string) cluster.CancelRequest {
	return cluster.CancelRequest{Pool: "p", Zone: testZone, Group: group, Name: "r1", ID: id("cancel", group)}
}

// everything is one intent of each kind that changes something, in an order in which each can be carried out, with the method that
// it calls.
func everything() []struct {
	intent cluster.Intent
	method string
} {
	labels := testOwner.Labels()
	deleteNodes := cluster.DeleteInstances{Pool: "p", Zone: testZone, Group: "c1-cpu", Instances: []string{"c1-cpu-0", "c1-cpu-9"}, ID: id("delete")}
	return []struct {
		intent cluster.Intent
		method string
	}{
		{cluster.EnsureSecret{Ref: ref(cluster.KindSecret, "c1-munge"), Bytes: 32, Labels: labels, ID: id("secret")}, "secretmanager.versions.add"},
		{ensureTemplate("c1-controller-t", cpuTemplate(testOwner)), "compute.instanceTemplates.insert"},
		{ensureTemplate("c1-flex-t", flexTemplate(testOwner)), "compute.instanceTemplates.insert"},
		{cluster.EnsureDisk{Ref: ref(cluster.KindDisk, "c1-state"), Type: "pd-ssd", SizeGB: 50, Labels: labels, ID: id("disk")}, "compute.disks.insert"},
		{cluster.EnsureInstance{Ref: ref(cluster.KindInstance, "c1-controller"), Template: "c1-controller-t", Disk: "c1-state", ID: id("controller")}, "compute.instances.insert"},
		{createGroup("c1-cpu", "c1-controller-t", testOwner), "compute.instanceGroupManagers.insert"},
		{createInstances("c1-cpu", "c1-cpu-0", "c1-cpu-1"), "compute.instanceGroupManagers.createInstances"},
		{createGroup("c1-flex", "c1-flex-t", testOwner), "compute.instanceGroupManagers.insert"},
		{createRequest("c1-flex", "c1-flex-0", "c1-flex-1"), "compute.instanceGroupManagerResizeRequests.insert"},
		{deleteNodes, "compute.instanceGroupManagers.deleteInstances"},
		{cancelRequest("c1-flex"), "compute.instanceGroupManagerResizeRequests.cancel"},
		{cluster.DeleteInstance{Zone: testZone, Name: "c1-controller", ID: id("delete controller")}, "compute.instances.delete"},
		{cluster.DeleteGroup{Pool: "p", Zone: testZone, Group: "c1-flex", ID: id("delete flex")}, "compute.instanceGroupManagers.delete"},
		{cluster.DeleteGroup{Pool: "p", Zone: testZone, Group: "c1-cpu", ID: id("delete cpu")}, "compute.instanceGroupManagers.delete"},
		{cluster.DeleteTemplate{Name: "c1-flex-t", ID: id("delete template")}, "compute.instanceTemplates.delete"},
		{cluster.Remove{Ref: ref(cluster.KindTemplate, "c1-controller-t"), Owner: testOwner, ID: id("remove template")}, "compute.instanceTemplates.delete"},
		{cluster.Remove{Ref: ref(cluster.KindDisk, "c1-state"), Owner: testOwner, ID: id("remove disk")}, "compute.disks.delete"},
		{cluster.Remove{Ref: ref(cluster.KindSecret, "c1-munge"), Owner: testOwner, ID: id("remove secret")}, "secretmanager.secrets.delete"},
		{cluster.Remove{Ref: ref(cluster.KindInstance, "c1-controller"), Owner: testOwner, ID: id("remove controller")}, ""},
	}
}

// Each intent is carried out twice at once, and again when its operation is over and its request id is forgotten: nothing is made or
// removed a second time, and nothing fails.
func TestTwiceIsOnce(t *testing.T) {
	inVirtualTime(t, gcp.Options{Capacity: noFlex}, Options{}, func(t *testing.T, w *world) {
		for _, e := range everything() {
			first := w.must(e.intent)
			if second := w.must(e.intent); second.Operation != first.Operation && second.Operation != "" {
				t.Errorf("%s: the second time began another operation: %q, then %q", e.intent.Do(), first.Operation, second.Operation)
			}
			w.wait(first.Operation)
			time.Sleep(longTime)
			before := w.summary()
			if third := w.must(e.intent); third.Operation != "" {
				w.wait(third.Operation)
			}
			time.Sleep(time.Hour)
			ignore := cmpopts.IgnoreFields(gcp.Summary{}, "Time", "Operations", "Capacity")
			if diff := cmp.Diff(before, w.summary(), ignore); diff != "" {
				t.Errorf("%s: once more changed something (-before +after):\n%s", e.intent.Do(), diff)
			}
		}
		if left := w.summary().Leftovers(); len(left) > 0 {
			t.Errorf("at the end there is still %q", left)
		}
	})
}

// The answer to each intent's call is lost after it was carried out. The client that is allowed a second attempt does not notice;
// for the one that is not, the outcome is unknown, and the intent is carried out again.
func TestLostAnswers(t *testing.T) {
	for name, attempts := range map[string]int{"tried again by the client": 3, "tried again by the caller": 1} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, gcp.Options{Capacity: noFlex}, Options{Limits: Limits{Attempts: attempts}}, func(t *testing.T, w *world) {
				for _, e := range everything() {
					if e.method != "" {
						w.sim.LoseNext(e.method, 1)
					}
					if attempts == 1 && e.method != "" {
						w.refused(e.intent, cluster.Unknown, "")
					}
					w.done(e.intent)
					time.Sleep(10 * time.Minute)
				}
				if left := w.summary().Leftovers(); len(left) > 0 {
					t.Errorf("at the end there is still %q", left)
				}
				for _, method := range []string{"secretmanager.versions.add", "secretmanager.secrets.create"} {
					if n := w.sim.Count(method); n != 1 {
						t.Errorf("%s was called %d times", method, n)
					}
				}
			})
		})
	}
}

// Every method fails in every way that passes: nothing is left half done that a repetition would not complete.
func TestEveryPassingFailure(t *testing.T) {
	for _, status := range []int{429, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			inVirtualTime(t, gcp.Options{}, Options{}, func(t *testing.T, w *world) {
				for _, e := range everything() {
					if e.method != "" {
						w.sim.FailNext(e.method, 2, status)
					}
					w.done(e.intent)
					time.Sleep(10 * time.Minute)
				}
				if left := w.summary().Leftovers(); len(left) > 0 {
					t.Errorf("at the end there is still %q", left)
				}
			})
		})
	}
}

func TestWhatIsForeignStays(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, Options{}, func(t *testing.T, w *world) {
		labels := anotherOwner.Labels()
		w.done(ensureTemplate("c1-t", cpuTemplate(anotherOwner)))
		w.done(cluster.EnsureDisk{Ref: ref(cluster.KindDisk, "c1-state"), Type: "pd-ssd", SizeGB: 50, Labels: labels, ID: id("1")})
		w.done(cluster.EnsureInstance{Ref: ref(cluster.KindInstance, "c1-controller"), Template: "c1-t", Disk: "c1-state", ID: id("2")})
		w.done(cluster.EnsureSecret{Ref: ref(cluster.KindSecret, "c1-munge"), Bytes: 32, Labels: labels, ID: id("3")})
		w.done(createGroup("c1-g", "c1-t", anotherOwner))
		time.Sleep(time.Minute)

		ours := ensureTemplate("c1-t", cpuTemplate(testOwner))
		ours.ID = id("ours")
		w.refused(ours, cluster.Conflict, `belongs to cluster c1 (uid u0)`)
		w.done(ensureTemplate("c1-t2", cpuTemplate(testOwner)))
		w.refused(cluster.EnsureDisk{Ref: ref(cluster.KindDisk, "c1-state"), Type: "pd-ssd", SizeGB: 50, Labels: testOwner.Labels(), ID: id("4")}, cluster.Conflict, "uid u0")
		w.refused(cluster.EnsureInstance{Ref: ref(cluster.KindInstance, "c1-controller"), Template: "c1-t2", ID: id("5")}, cluster.Conflict, "uid u0")
		w.refused(cluster.EnsureSecret{Ref: ref(cluster.KindSecret, "c1-munge"), Bytes: 32, Labels: testOwner.Labels(), ID: id("6")}, cluster.Conflict, "uid u0")
		remedy := w.refused(createGroup("c1-g", "c1-t2", testOwner), cluster.Conflict, `its description is "convoke cluster=c1 uid=u0"`)
		if !strings.Contains(remedy, "choose another cluster id") {
			t.Errorf("the remedy is %q", remedy)
		}

		before := w.summary()
		for _, kind := range []cluster.ResourceRef{
			ref(cluster.KindInstance, "c1-controller"), ref(cluster.KindDisk, "c1-state"), ref(cluster.KindTemplate, "c1-t"), ref(cluster.KindSecret, "c1-munge"),
		} {
			w.done(cluster.Remove{Ref: kind, Owner: testOwner, ID: id("remove", kind.Name)})
		}
		if diff := cmp.Diff(before, w.summary(), cmpopts.IgnoreFields(gcp.Summary{}, "Time")); diff != "" {
			t.Errorf("the removal took what is not ours (-before +after):\n%s", diff)
		}
		if !strings.Contains(w.log.String(), "left alone what is not this cluster's") {
			t.Error("nothing is said of it in the log")
		}
	})
}

func TestWhatIsInUseIsTriedAgainLater(t *testing.T) {
	inVirtualTime(t, gcp.Options{Behavior: gcp.Behavior{RefuseDeleteOfBusyGroup: true}, Capacity: noFlex}, Options{}, func(t *testing.T, w *world) {
		w.done(ensureTemplate("c1-t", flexTemplate(testOwner)))
		w.done(createGroup("c1-g", "c1-t", testOwner))
		w.refused(cluster.DeleteTemplate{Name: "c1-t", ID: id("1")}, cluster.Conflict, "already being used")

		w.must(createRequest("c1-g", "c1-p-0"))
		// A request that is still CREATING cannot be cancelled.
		w.refused(cancelRequest("c1-g"), cluster.Conflict, "the resize request is CREATING and could not be cancelled")
		time.Sleep(time.Minute)
		w.refused(cluster.DeleteGroup{Zone: testZone, Group: "c1-g", ID: id("2")}, cluster.Conflict, "already being used")
		// The instances of an active request cannot be deleted: no fault of the spec's.
		w.refused(cluster.DeleteInstances{Zone: testZone, Group: "c1-g", Instances: []string{"c1-p-0"}, ID: id("3")}, cluster.Conflict, "")

		cancel := cancelRequest("c1-g")
		cancel.ID = id("cancel again")
		w.done(cancel)
		time.Sleep(time.Minute)
		w.done(cluster.DeleteGroup{Zone: testZone, Group: "c1-g", ID: id("4")})
		w.done(cluster.DeleteTemplate{Name: "c1-t", ID: id("5")})

		w.done(ensureTemplate("c1-c", cpuTemplate(testOwner)))
		w.done(cluster.EnsureDisk{Ref: ref(cluster.KindDisk, "c1-state"), Type: "pd-ssd", SizeGB: 50, Labels: testOwner.Labels(), ID: id("6")})
		w.done(cluster.EnsureInstance{Ref: ref(cluster.KindInstance, "c1-controller"), Template: "c1-c", Disk: "c1-state", ID: id("7")})
		w.refused(cluster.Remove{Ref: ref(cluster.KindDisk, "c1-state"), Owner: testOwner, ID: id("8")}, cluster.Conflict, "already being used")
		w.done(cluster.Remove{Ref: ref(cluster.KindInstance, "c1-controller"), Owner: testOwner, ID: id("9")})
		// The disk outlives the instance.
		if disks := w.summary().Disks; !slices.ContainsFunc(disks, func(d string) bool { return strings.HasSuffix(d, "/c1-state") }) || len(disks) != 1 {
			t.Errorf("after the instance there are disks %q, want its data disk alone", disks)
		}
		w.done(cluster.Remove{Ref: ref(cluster.KindDisk, "c1-state"), Owner: testOwner, ID: id("10")})
	})
}

// What a person must change is said at once.
func TestWhatCannotBe(t *testing.T) {
	inVirtualTime(t, gcp.Options{Quotas: map[string]int{"ACTIVE_RESIZE_REQUESTS": 0}}, Options{}, func(t *testing.T, w *world) {
		bad := cpuTemplate(testOwner)
		bad.Labels = map[string]string{"Not A Label": "x"}
		w.refused(ensureTemplate("c1-bad", bad), cluster.Configuration, "label")
		w.refused(createGroup("c1-g", "c1-none", testOwner), cluster.NotFound, "c1-none")
		w.refused(cluster.EnsureInstance{Ref: ref(cluster.KindInstance, "c1-x"), Template: "c1-none", ID: id("1")}, cluster.NotFound, "c1-none")
		w.done(ensureTemplate("c1-cpu", cpuTemplate(testOwner)))
		w.done(createGroup("c1-g", "c1-cpu", testOwner))
		w.refused(createRequest("c1-g", "c1-p-0"), cluster.Configuration, "FLEX_START")
		w.done(ensureTemplate("c1-flex", flexTemplate(testOwner)))
		w.refused(createGroup("c1-g", "c1-flex", testOwner), cluster.Configuration, "request id was used before")
		w.done(createGroup("c1-f", "c1-flex", testOwner))
		remedy := w.refused(createRequest("c1-f", "c1-p-0"), cluster.Quota, "ACTIVE_RESIZE_REQUESTS")
		if !strings.Contains(remedy, "quota ACTIVE_RESIZE_REQUESTS in us-central1") {
			t.Errorf("the remedy is %q", remedy)
		}
		w.refused(cluster.Command{Kind: cluster.CommandDrain}, cluster.Configuration, "not for Google Cloud")
		w.refused(cluster.Check{Ref: ref(cluster.KindDisk, "d")}, cluster.Configuration, "disk")
		w.refused(cluster.Remove{Ref: ref(cluster.KindNetwork, "n"), ID: id("2")}, cluster.Configuration, "network")
		w.refused(cluster.EnsureSecret{Ref: ref(cluster.KindSecret, "s")}, cluster.Configuration, "0 bytes")
	})
}

// A pool's own group outlives its templates: it is given the new one, and makes machines from it.
func TestAGroupIsGivenANewTemplate(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, Options{}, func(t *testing.T, w *world) {
		larger := cpuTemplate(testOwner)
		larger.MachineType = "n2-standard-16"
		w.done(ensureTemplate("c1-old", cpuTemplate(testOwner)))
		w.done(ensureTemplate("c1-new", larger))
		w.done(createGroup("c1-g", "c1-old", testOwner))
		w.done(createInstances("c1-g", "c1-p-0"))
		time.Sleep(time.Minute)
		renewed := createGroup("c1-g", "c1-new", testOwner)
		renewed.ID = id("renewed")
		w.done(renewed)
		w.done(renewed)
		w.done(createInstances("c1-g", "c1-p-1"))
		time.Sleep(time.Minute)
		var got []string
		for _, i := range w.summary().Instances {
			got = append(got, i.Name+" "+i.MachineType+" "+i.Status)
		}
		if want := []string{"c1-p-0 n2-standard-8 RUNNING", "c1-p-1 n2-standard-16 RUNNING"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		w.done(cluster.DeleteTemplate{Name: "c1-old", ID: id("old")})
	})
}

func TestCreateRequestOfOtherInstances(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, Options{}, func(t *testing.T, w *world) {
		w.done(ensureTemplate("c1-t", flexTemplate(testOwner)))
		w.done(createGroup("c1-g", "c1-t", testOwner))
		w.done(createRequest("c1-g", "c1-p-0", "c1-p-1"))
		time.Sleep(time.Hour)
		again := createRequest("c1-g", "c1-p-1", "c1-p-0")
		again.ID = id("later")
		if got := w.must(again); got.Found.Status != "SUCCEEDED" {
			t.Errorf("the request that is there is %q", got.Found.Status)
		}
		other := createRequest("c1-g", "c1-p-2")
		other.ID = id("other")
		w.refused(other, cluster.Conflict, "asks for other instances: c1-p-0, c1-p-1")
	})
}

// Of the instances of a call that was carried out in part, or whose answer was lost long ago, only those are asked for again that the
// group does not have.
func TestCreateInstancesThatAreThereInPart(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, Options{}, func(t *testing.T, w *world) {
		w.done(ensureTemplate("c1-t", cpuTemplate(testOwner)))
		w.done(createGroup("c1-g", "c1-t", testOwner))
		w.done(createInstances("c1-g", "c1-p-0", "c1-p-2"))
		time.Sleep(time.Minute)
		w.done(createInstances("c1-g", "c1-p-0", "c1-p-1", "c1-p-2", "c1-p-3"))
		time.Sleep(time.Minute)
		want := []string{"c1-p-0 RUNNING", "c1-p-1 RUNNING", "c1-p-2 RUNNING", "c1-p-3 RUNNING"}
		if got := w.statuses(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		// One that is on its way out is not there: its name is taken, and it is tried again later.
		w.done(cluster.DeleteInstances{Zone: testZone, Group: "c1-g", Instances: []string{"c1-p-0"}, ID: id("1")})
		again := createInstances("c1-g", "c1-p-0")
		again.ID = id("again")
		w.refused(again, cluster.Conflict, "already exists")
		time.Sleep(time.Hour)
		w.done(again)
	})
}

func TestManyInstancesAreDeletedInChunks(t *testing.T) {
	cloud := &answers{t: t, list: []func(*http.Request) (*http.Response, error){answer(200, `{"name":"op","status":"RUNNING"}`)}}
	names := make([]string, 2500)
	for i := range names {
		names[i] = fmt.Sprint("c1-p-", i)
	}
	got := cloud.client(Limits{}).Do(t.Context(), cluster.DeleteInstances{Zone: testZone, Group: "g", Instances: names, ID: id("x")})
	if got.Problem != nil {
		t.Fatal(got.Problem)
	}
	ids, deleted := map[string]bool{}, []string{}
	for _, r := range cloud.got {
		ids[r.URL.Query().Get("requestId")] = true
		var body struct {
			Instances                      []string
			SkipInstancesOnValidationError bool
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Fatal(err)
		}
		if !body.SkipInstancesOnValidationError || len(body.Instances) > 1000 {
			t.Errorf("a call with %d instances, passing over what is gone: %v", len(body.Instances), body.SkipInstancesOnValidationError)
		}
		deleted = append(deleted, body.Instances...)
	}
	if len(ids) != 3 || !ids[id("x")] || !slices.Equal(deleted, names) {
		t.Errorf("%d instances in calls with request ids %v", len(deleted), ids)
	}
}

func TestCheck(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, Options{}, func(t *testing.T, w *world) {
		check := func(kind cluster.ResourceKind, name string) cluster.Check {
			return cluster.Check{Ref: cluster.ResourceRef{Kind: kind, Name: name}}
		}
		got := w.must(check(cluster.KindNetwork, "projects/my-project/global/networks/default"))
		if got.Found.Link != "projects/my-project/global/networks/default" {
			t.Errorf("found %+v", got.Found)
		}
		got = w.must(check(cluster.KindSubnetwork, "projects/my-project/regions/us-central1/subnetworks/default"))
		if got.Found.Network != "projects/my-project/global/networks/default" {
			t.Errorf("found %+v", got.Found)
		}
		w.refused(check(cluster.KindNetwork, "projects/my-project/global/networks/none"), cluster.NotFound, "networks/none")
		w.refused(check(cluster.KindNetwork, "projects/other-project/global/networks/default"), cluster.NotFound, "")
		w.refused(check(cluster.KindNetwork, "default"), cluster.Configuration, "full name")
		w.refused(check(cluster.KindSubnetwork, "projects/my-project/global/networks/default"), cluster.Configuration, "full name")
		w.refused(check(cluster.KindFilestore, "home"), cluster.Configuration, "full name")

		const home = "projects/my-project/locations/us-central1-a/instances/home"
		w.refused(check(cluster.KindFilestore, home), cluster.NotFound, "home")
		began := w.call("POST", "/v1/projects/my-project/locations/us-central1-a/instances?instanceId=home",
			`{"tier":"BASIC_SSD","fileShares":[{"name":"share1","capacityGb":"2560"}],"networks":[{"network":"default","modes":["MODE_IPV4"]}]}`)
		w.refused(check(cluster.KindFilestore, home), cluster.Unknown, "CREATING and cannot be mounted yet")
		var op struct{ Name string }
		if err := json.Unmarshal(began, &op); err != nil {
			t.Fatal(err)
		}
		w.wait(op.Name)
		found := w.must(check(cluster.KindFilestore, home)).Found
		if found.Share != "share1" || found.Address == "" || found.Status != "READY" || found.Network == "" {
			t.Errorf("found %+v", found)
		}
	})
}

func TestFilestoreThatIsBroken(t *testing.T) {
	const home = "projects/my-project/locations/us-central1-a/instances/home"
	for body, want := range map[string]struct {
		class cluster.Class
		says  string
	}{
		`{"name":"` + home + `","state":"ERROR","statusMessage":"disk on fire"}`: {cluster.Configuration, "ERROR and cannot be mounted: disk on fire"},
		`{"name":"` + home + `","state":"DELETING"}`:                             {cluster.Configuration, "DELETING and cannot be mounted: it does not say why"},
		`{"name":"` + home + `","state":"RESTORING"}`:                            {cluster.Unknown, "RESTORING"},
		`{"name":"` + home + `","state":"READY"}`:                                {cluster.Unknown, "no address"},
		`{"name":"` + home + `","state":"READY","networks":[{"ipAddresses":["not an address; rm -rf /"]}],"fileShares":[{"name":"s"}]}`: {cluster.Unknown, "no address"},
	} {
		cloud := &answers{t: t, list: []func(*http.Request) (*http.Response, error){answer(200, body)}}
		got := cloud.client(Limits{}).Do(t.Context(), cluster.Check{Ref: cluster.ResourceRef{Kind: cluster.KindFilestore, Name: home}})
		if got.Problem == nil || got.Problem.Class != want.class || !strings.Contains(got.Problem.Message, want.says) {
			t.Errorf("%s: got %v", body, got.Problem)
		}
	}
}
