package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/convoke-hpc/convoke/functions/api"
	"github.com/convoke-hpc/convoke/scripts/convoke/internal/local"
	"github.com/convoke-hpc/convoke/shared/cluster"
	simslurm "github.com/convoke-hpc/convoke/shared/sim/slurm"
)

// deployed is a deployment that the commands of a test talk to.
func deployed(t *testing.T) {
	t.Helper()
	l, err := local.Start(t.Context(), local.Options{DataDir: t.TempDir(), Pace: local.Quick(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Setenv(envServer, l.URL())
	t.Setenv(envProject, "")
	t.Setenv(envLocation, "")
}

// says calls a command and checks how it ends and that it says all of this, on either stream.
func says(t *testing.T, code int, args []string, want ...string) string {
	t.Helper()
	got, stdout, stderr := called(t, "", args...)
	if got != code {
		t.Errorf("%v ended with %d, want %d\n%s%s", args, got, code, stdout, stderr)
	}
	for _, w := range want {
		if !strings.Contains(stdout+stderr, w) {
			t.Errorf("%v does not say %q:\n%s%s", args, w, stdout, stderr)
		}
	}
	return stdout
}

func words(s string) []string { return strings.Fields(s) }

// TestCommandsOnADeployment reads as somebody's day with the command.
func TestCommandsOnADeployment(t *testing.T) {
	deployed(t)
	says(t, exitOK, words("clusters"), "there are no clusters; `convoke create FILE` makes one")
	says(t, exitOK, words("status"), "there are no clusters")
	says(t, exitNotFound, words("status flexvm"), "there is no cluster projects/my-project/locations/us-central1/modelDevelopmentClusters/flexvm")
	says(t, exitNotFound, words("job list flexvm"), "there is no cluster")
	says(t, exitNotFound, words("timeline flexvm"), "nothing is known of a cluster")
	says(t, exitNotFound, words("operation 77"), `there is no operation "77"`)
	says(t, exitOK, words("sim leftovers"), "nothing")

	says(t, exitBadInput, words("create testdata/faults.json"), "fault(s); nothing was sent")
	says(t, exitOK, words("create --wait ../../examples/flexvm.json"), "create of flexvm is accepted: operation ", "the cluster is RUNNING", "create done, ")
	says(t, exitFailure, words("create ../../examples/flexvm.json"), "already; choose another id")
	says(t, exitOK, words("clusters"), "CLUSTER", "flexvm", "us-central1", "RUNNING", "1 of 1")
	says(t, exitOK, words("status flexvm"), "flexvm  RUNNING  in us-central1 of my-project", "ready flexvm-login-0", "FLEX_START")
	var summaries []api.Summary
	if err := json.Unmarshal([]byte(says(t, exitOK, words("status -o json"))), &summaries); err != nil || len(summaries) != 1 || summaries[0].Phase != cluster.PhaseRunning {
		t.Errorf("%v %+v", err, summaries)
	}

	job := strings.TrimSpace(says(t, exitOK, words("job submit flexvm --nodes 2 --run-for 1h --quiet")))
	says(t, exitOK, words("job list flexvm"), "train", "ada", "a3u")
	says(t, exitFailure, words("job submit flexvm --nodes 3"), "submitting")
	says(t, exitOK, []string{"job", "cancel", "flexvm", job}, "job "+job+" is cancelled")
	says(t, exitFailure, words("job cancel flexvm 77"), "77")
	var jobs []simslurm.Job
	if err := json.Unmarshal([]byte(says(t, exitOK, words("job list flexvm --all -o json"))), &jobs); err != nil || len(jobs) != 1 {
		t.Errorf("%v %+v", err, jobs)
	}

	says(t, exitOK, words("sim machines"), "flexvm-controller", "flexvm-login-0", "never")
	says(t, exitBadInput, words("sim end-lease flexvm-login-0"), "is not limited")
	says(t, exitNotFound, words("sim vanish flexvm-a3u-9"), `there is no machine "flexvm-a3u-9"`)
	says(t, exitOK, words("sim capacity us-central1-a a3-ultragpu-8g 0"), "us-central1-a has 0 machines a3-ultragpu-8g")
	says(t, exitBadInput, words("sim capacity us-central1-a a3-ultragpu-9g 0"), "a3-ultragpu-9g")
	says(t, exitFailure, words("sim leftovers"), "things exist in the simulated cloud")
	says(t, exitOK, words("sim vanish flexvm-login-0"), "done: vanish, flexvm-login-0")
	says(t, exitOK, words("report-fault flexvm-login-0"), "reportFaultyNodes of flexvm is accepted", "watch it:    convoke timeline flexvm --follow")
	says(t, exitBadInput, words("report-fault flexvm-login-0 --host SMOKE"), `"SMOKE" is not`)

	op := strings.TrimSpace(says(t, exitOK, words("delete --quiet flexvm")))
	says(t, exitOK, []string{"operation", "--wait", op}, "delete done, ")
	says(t, exitNotFound, words("delete flexvm"), "there is no cluster")
	says(t, exitOK, words("sim leftovers"), "nothing")
	says(t, exitOK, words("timeline flexvm --limit 1"), "the cluster is deleted")
	lines := strings.Split(strings.TrimSpace(says(t, exitOK, words("timeline flexvm --limit 1000"))), "\n")
	if !strings.Contains(lines[0], "create accepted") || !strings.Contains(lines[len(lines)-1], "the cluster is deleted") {
		t.Errorf("the timeline begins with %q and ends with %q", lines[0], lines[len(lines)-1])
	}
}

func TestNoServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of a test
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv(envServer, "")
	for _, command := range []string{"clusters", "status", "status flexvm", "timeline flexvm", "operation 1", "job list flexvm", "sim leftovers", "delete flexvm"} {
		says(t, exitFailure, append(words(command), "--server", nobody), "no deployment answers at "+nobody, "check --server and CONVOKE_SERVER")
	}
	says(t, exitBadInput, words("clusters --server nowhere"), `the server "nowhere" is not a URL such as http://127.0.0.1:8920`)
	r := remote{server: defaultServer}
	if err := r.unreachable(context.DeadlineExceeded); !strings.Contains(err.Error(), "start one on this machine:  convoke local") {
		t.Error(err)
	}
}

// A deployment on Google Cloud has no simulator, and wants to know who calls.
func TestADeploymentElsewhere(t *testing.T) {
	var authorization string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization = r.Header.Get("Authorization")
		switch {
		case authorization == "":
			w.WriteHeader(http.StatusForbidden)
		case strings.HasSuffix(r.URL.Path, "/modelDevelopmentClusters"):
			_, _ = w.Write([]byte(`{"modelDevelopmentClusters": [
				{"name": "projects/proj-1/locations/us-east4/modelDevelopmentClusters/c1"}, {"name": "projects/proj-1/locations/us-central1/modelDevelopmentClusters/c1"}]}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error": {"code": 404, "status": "NOT_FOUND", "message": "not a path of this API"}}`))
		}
	}))
	defer server.Close()
	t.Setenv(envServer, server.URL)
	t.Setenv(envToken, "")
	says(t, exitFailure, words("clusters --project proj-1"), "export CONVOKE_TOKEN=$(gcloud auth print-identity-token)")
	t.Setenv(envToken, "abc")
	says(t, exitBadInput, words("clusters"), "which project? Give --project or GOOGLE_CLOUD_PROJECT")
	says(t, exitOK, words("clusters --project proj-1"), "us-east4", "us-central1")
	if authorization != "Bearer abc" {
		t.Errorf("it called as %q", authorization)
	}
	says(t, exitBadInput, words("status c1 --project proj-1"), "give --location")
	says(t, exitNotFound, words("status c2 --project proj-1"), "there is no cluster c2 in project proj-1")
	says(t, exitBadInput, words("operation 1 --project proj-1"), "in which location is operation 1?")
	says(t, exitFailure, words("sim leftovers"), "only `convoke local` can do this")
	says(t, exitFailure, words("job list c1 --project proj-1 --location us-east4"), "only `convoke local` can do this")
}

func TestOfALocalServerThatIsNone(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	defer server.Close()
	says(t, exitFailure, []string{"status", "--server", server.URL}, "is it a Convoke deployment?")
}

// TestShowSummary compares all that is shown of a cluster on which much is going on.
func TestShowSummary(t *testing.T) {
	now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	s := &api.Summary{
		Name: "projects/my-project/locations/us-central1/modelDevelopmentClusters/flexvm", Phase: cluster.PhaseRunning, Created: ago(49 * time.Hour),
		Conditions: []cluster.Condition{{Type: "NetworkReady", Status: "True"}, {Type: "StaticNodesReady", Status: "False", Message: "1 of 2 static nodes are ready"}},
		Resources:  []cluster.Resource{{ResourceRef: cluster.ResourceRef{Kind: cluster.KindInstance, Name: "flexvm-controller"}, Phase: cluster.ResourceCreating, Since: ago(90 * time.Second)}},
		Pools: []api.PoolSummary{
			{ID: "login", Login: true, MachineType: "n2-standard-8", ProvisioningModel: cluster.OnDemand, MinNodeCount: 1, MaxNodeCount: 1,
				Nodes:       []api.NodeGroup{{Phase: cluster.Ready, Count: 1, Nodes: "flexvm-login-0"}},
				Allocations: []cluster.Allocation{{Name: "flexvm-login-x", Nodes: []int{0}, Phase: cluster.Granted, Since: ago(time.Hour)}}},
			{ID: "a3u", MachineType: "a3-ultragpu-8g", ProvisioningModel: cluster.FlexStart, MinNodeCount: 2, MaxNodeCount: 8,
				Nodes: []api.NodeGroup{
					{Phase: cluster.Requested, Count: 2, Nodes: "flexvm-a3u-[2-3]", Since: ago(5 * time.Minute)},
					{Phase: cluster.Ready, Count: 1, Nodes: "flexvm-a3u-0", LeaseEnd: now.Add(150 * time.Hour)},
					{Phase: cluster.Failed, Count: 1, Nodes: "flexvm-a3u-1", Since: ago(4 * time.Second), Reason: "Xid 79"},
				},
				Allocations: []cluster.Allocation{
					{Name: "flexvm-a3u-y", Nodes: []int{2, 3}, Job: 7, Phase: cluster.Queued, Request: "ACCEPTED", Since: ago(5 * time.Minute)},
					{Name: "flexvm-a3u-z", Nodes: []int{5}, Phase: cluster.Cancelling, Request: "ACCEPTED", Since: ago(time.Second), Retired: "no job needs it"},
				}},
			{ID: "spot", MachineType: "a4-highgpu-8g", ProvisioningModel: cluster.Spot, MaxNodeCount: 4,
				Breaker: cluster.Breaker{State: cluster.BreakerOpen, Until: now.Add(9 * time.Minute), Problem: &cluster.Problem{Class: cluster.Permission, Message: "no role"}}},
		},
		Jobs: []api.JobSummary{
			{ID: 7, State: "CONFIGURING", Partition: "a3u", User: "ada", Name: "train", Nodes: "flexvm-a3u-[2-3]", Submitted: ago(5 * time.Minute)},
			{ID: 12, State: "PENDING", Partition: "a3u", User: "bob", Name: "sweep", Reason: "Resources", Submitted: ago(30 * time.Second)},
		},
	}
	var out bytes.Buffer
	app{out: &out}.showSummary(s, now)
	golden := filepath.Join("testdata", "status.golden")
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestColoursDoNotMoveColumns(t *testing.T) {
	var plain, coloured bytes.Buffer
	for out, p := range map[*bytes.Buffer]paint{&plain: false, &coloured: true} {
		tb := table{paint: p, head: []string{"A", "B"}}
		tb.add(p.green("ready"), "x")
		tb.add(p.red("no"), "y")
		tb.write(out)
	}
	if strip := stripped(coloured.String()); strip != plain.String() || strip == coloured.String() {
		t.Errorf("got %q, want %q", strip, plain.String())
	}
}

func stripped(s string) string {
	for {
		at := strings.Index(s, "\x1b[")
		if at < 0 {
			return s
		}
		s = s[:at] + s[at+strings.IndexByte(s[at:], 'm')+1:]
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1499 * time.Millisecond: "1s", 59 * time.Second: "59s", 61 * time.Second: "1m1s", 90 * time.Minute: "1h30m",
		47 * time.Hour: "47h0m", 167*time.Hour + 50*time.Minute: "6d23h",
	} {
		if got := age(d); got != want {
			t.Errorf("%s is %s, want %s", d, got, want)
		}
	}
}
