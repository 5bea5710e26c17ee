package console_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/functions/console"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
	"github.com/convoke-hpc/convoke/shared/store/embedded"
)

var (
	now = time.Date(2026, 3, 2, 10, 20, 0, 0, time.UTC)
	key = cluster.Key{Project: "my-project", Location: "us-central1", ID: "flexvm"}
)

// evil is a text that people could give a job, a reason or a message.
const evil = `</td><script>alert("x")</script>'"&{{.}}`

func openStore(t *testing.T) store.Store {
	t.Helper()
	st, err := embedded.Open(t.TempDir(), embedded.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func newConsole(t *testing.T, st console.Store, s *cluster.State) http.Handler {
	t.Helper()
	h, err := console.New(console.Config{
		Store: st, Base: "/console", Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
		State: func(_ context.Context, k cluster.Key) (*cluster.State, error) {
			if s == nil || k != s.Key {
				return nil, store.ErrNoCluster
			}
			return s, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	body := w.Body.String()
	if dir := os.Getenv("CONVOKE_TEST_PAGES"); dir != "" { // to look at them
		name := regexp.MustCompile(`[^a-zA-Z0-9]+`).ReplaceAllString(t.Name()+path, "-")
		if err := os.WriteFile(dir+"/"+name+".html", []byte(body), 0o600); err != nil {
			t.Error(err)
		}
	}
	checkPage(t, w.Header(), body)
	return w.Code, body
}

// checkPage holds every page to the policy that it is sent with.
func checkPage(t *testing.T, h http.Header, body string) {
	t.Helper()
	policy := h.Get("Content-Security-Policy")
	style := body[strings.Index(body, "<style>")+len("<style>") : strings.Index(body, "</style>")]
	hash := sha256.Sum256([]byte(style))
	if !strings.Contains(policy, "'sha256-"+base64.StdEncoding.EncodeToString(hash[:])+"'") || !strings.HasPrefix(policy, "default-src 'none';") {
		t.Errorf("the policy %q does not let the page's own style in, or lets in more", policy)
	}
	for _, no := range []string{"<script", "style=", "onload=", "<img", "<link", "http://", "https://", "ZgotmplZ"} {
		if strings.Contains(body, no) {
			t.Errorf("the page holds %q", no)
		}
	}
	if h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", h)
	}
}

func wants(t *testing.T, body string, texts ...string) {
	t.Helper()
	for _, s := range texts {
		if !strings.Contains(body, s) {
			t.Errorf("the page does not say %q", s)
		}
	}
}

// keep puts a cluster into the store, with some timeline entries.
func keep(t *testing.T, st store.Store, k cluster.Key, summary store.Summary, entries ...cluster.Entry) {
	t.Helper()
	ctx := context.Background()
	lease, err := st.Lease(ctx, k, "test", now, now.Add(time.Minute), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Commit(ctx, lease, store.Change{Cluster: []byte("x"), Summary: summary, Release: true, Now: now, Timeline: entries}); err != nil {
		t.Fatal(err)
	}
}

func state() *cluster.State {
	s := cluster.NewState(key)
	s.Phase, s.SpecGeneration, s.Created = cluster.PhaseRunning, 2, now.Add(-50*time.Hour)
	s.Problem = &cluster.Problem{Class: cluster.Quota, Message: "GPUs " + evil, Remedy: "ask for more"}
	s.Spec = &cluster.Spec{NodePools: []cluster.NodePool{
		{ID: "login", MachineSpec: cluster.MachineSpec{MachineType: "n2-standard-8"}, ScalingSpec: cluster.ScalingSpec{MinNodeCount: 1, MaxNodeCount: 1}, Zone: "us-central1-a", ProvisioningModel: cluster.OnDemand},
		{ID: "a3u", MachineSpec: cluster.MachineSpec{MachineType: "a3-ultragpu-8g"}, ScalingSpec: cluster.ScalingSpec{MaxNodeCount: 24}, Zone: "us-central1-a", ProvisioningModel: cluster.FlexStart},
	}}
	s.Spec.OrchestratorSpec.SlurmSpec.LoginNodePoolID = "login"
	s.Conditions = []cluster.Condition{
		{Type: "SlurmResponding", Status: "True", Since: now.Add(-time.Hour)},
		{Type: "StaticNodesReady", Status: "False", Message: "3 of 4 static nodes are ready", Since: now.Add(-5 * time.Minute)},
		{Type: "PoolWaiting/a3u", Status: "True", Message: "the breaker is open", Since: now},
	}
	s.Nodes["login"] = []cluster.Node{{Index: 0, Phase: cluster.Ready}}
	for i, p := range []cluster.NodePhase{cluster.Ready, cluster.Ready, cluster.Booting, cluster.Provisioning, cluster.Requested, cluster.Draining, cluster.Deleting, cluster.Failed} {
		s.Nodes["a3u"] = append(s.Nodes["a3u"], cluster.Node{Index: i, Phase: p, Since: now.Add(-time.Duration(i) * time.Minute), InstanceID: uint64(1000 + i)})
	}
	s.Nodes["a3u"][7].Reason = evil
	p := s.Pool("a3u")
	p.Breaker = cluster.Breaker{State: cluster.BreakerOpen, Failures: 3, Until: now.Add(time.Minute), Problem: &cluster.Problem{Class: cluster.Permission, Message: "no role"}}
	p.Allocations = []cluster.Allocation{{Name: "flexvm-a3u-abc", Pool: "a3u", Phase: cluster.Queued, Nodes: []int{3, 4, 5}, Job: 4711, Made: now.Add(-90 * time.Minute), Since: now.Add(-time.Minute), Request: "ACCEPTED"}}
	s.Slurm = &cluster.Snapshot{Taken: now.Add(-30 * time.Second), Jobs: []cluster.SlurmJob{
		{ID: 4711, State: "CONFIGURING", Name: evil, User: "ada", Partition: "a3u", Nodes: []cluster.NodeID{{Pool: "a3u", Index: 3}, {Pool: "a3u", Index: 4}}, Started: now.Add(-time.Hour), Comment: "convoke: waits for capacity"},
		{ID: 4712, State: "PENDING", Name: "later", User: "bob", Reason: "Resources", Submitted: now.Add(-3 * time.Minute)},
	}}
	return s
}

func TestCluster(t *testing.T) {
	st := openStore(t)
	keep(t, st, key, store.Summary{Phase: cluster.PhaseRunning},
		cluster.Entry{At: now.Add(-time.Minute), Kind: "request", Text: "create accepted"},
		cluster.Entry{At: now, Kind: "node", About: "flexvm-a3u-7", Text: "lost " + evil, Problem: &cluster.Problem{Remedy: "look " + evil}})
	code, body := get(t, newConsole(t, st, state()), "/clusters/"+key.Doc())
	if code != 200 {
		t.Fatal(code, body)
	}
	wants(t, body, "RUNNING", "created 2 d 2 h ago", "3 of 4 static nodes are ready", "a3-ultragpu-8g · FLEX_START · us-central1-a · 0 to 24 nodes",
		"16 absent", "2 ready", "1 failed", "The breaker is open after 3 failure(s)", "no role", "flexvm-a3u-abc", "flexvm-a3u-[3-5]", "4711", "1 h 30 min",
		"convoke: waits for capacity", "Resources", "As Slurm said 30 s ago", "create accepted", "&lt;script&gt;", `<path class="bad"`, "login")
	if strings.Index(body, "lost ") > strings.Index(body, "create accepted") {
		t.Error("the timeline does not begin with the newest entry")
	}
	if first := strings.Index(body, "<code>flexvm-a3u-7</code>"); first < 0 || first > strings.Index(body, "<code>flexvm-a3u-6</code>") {
		t.Error("the node that failed is not the first of those in motion")
	}
}

func TestTimelineGoesOn(t *testing.T) {
	st := openStore(t)
	var entries []cluster.Entry
	for i := range 150 {
		entries = append(entries, cluster.Entry{At: now, Kind: "node", Text: fmt.Sprintf("entry number %d.", i)})
	}
	keep(t, st, key, store.Summary{Phase: cluster.PhaseRunning}, entries...)
	h := newConsole(t, st, state())
	_, body := get(t, h, "/clusters/"+key.Doc())
	link := regexp.MustCompile(`href="/console(/clusters/[^"]*before=[^"]*)"`).FindStringSubmatch(body)
	if link == nil || !strings.Contains(body, "entry number 149.") || strings.Contains(body, "entry number 49.") {
		t.Fatal("the first page is not the newest hundred, with a link")
	}
	_, body = get(t, h, link[1])
	if !strings.Contains(body, "entry number 49.") || strings.Contains(body, "entry number 50.") || strings.Contains(body, "earlier") {
		t.Error("the second page is not the rest")
	}
}

func TestList(t *testing.T) {
	st := openStore(t)
	h := newConsole(t, st, nil)
	if code, body := get(t, h, "/"); code != 200 || !strings.Contains(body, "There are none") {
		t.Errorf("%d %s", code, body)
	}
	keep(t, st, key, store.Summary{Phase: cluster.PhaseError, Nodes: 12, Problem: evil, Created: now.Add(-10 * time.Second)})
	gone := key
	gone.ID = "gone"
	keep(t, st, gone, store.Summary{Phase: cluster.PhaseDeleted})
	if err := st.Quarantine(context.Background(), store.Quarantined{ID: "q", Source: "clusters", Reason: "the spec " + evil, Received: now, Data: []byte("secret")}); err != nil {
		t.Fatal(err)
	}
	_, body := get(t, h, "/")
	wants(t, body, `href="/console/clusters/my-project~us-central1~flexvm"`, "ERROR", ">12<", "10 s", "Put aside lately", "&lt;script&gt;")
	if strings.Contains(body, "gone") || strings.Contains(body, "secret") {
		t.Error("the page shows what it must not")
	}
}

func TestNotFound(t *testing.T) {
	h := newConsole(t, openStore(t), state())
	for _, path := range []string{"/clusters/none", "/clusters/my-project~us-central1~none", "/clusters/..%2F..%2Fetc", "/x", "/clusters/%3Cscript%3E"} {
		if code, body := get(t, h, path); code != 404 || !strings.Contains(body, "All clusters") {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code, _ := get(t, h, "/clusters/"+key.Doc()+"?before=%27%22%3E%2F"); code != 200 {
		t.Error("a page of the timeline that is none is not the first one")
	}
}

func TestOnlyReads(t *testing.T) {
	h := newConsole(t, openStore(t), state())
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/clusters/"+key.Doc(), nil))
	if w.Code == 200 {
		t.Error("it took a POST")
	}
}

func TestStoreIsDown(t *testing.T) {
	st := openStore(t)
	h := newConsole(t, st, state())
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if code, body := get(t, h, "/"); code != 503 || !strings.Contains(body, "could not be read: listing clusters") {
		t.Errorf("%d %s", code, body)
	}
}

func TestPanic(t *testing.T) {
	h, err := console.New(console.Config{Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler), State: func(context.Context, cluster.Key) (*cluster.State, error) {
		panic(errors.New("no %s way"))
	}})
	if err != nil {
		t.Fatal(err)
	}
	if code, body := get(t, h, "/clusters/"+key.Doc()); code != 500 || strings.Contains(body, "no %s way") {
		t.Errorf("%d %s", code, body)
	}
}

// TestTenThousandNodes: the page of a large cluster stays small enough to be loaded every fifteen seconds.
func TestTenThousandNodes(t *testing.T) {
	s := state()
	s.Spec.NodePools[1].ScalingSpec.MaxNodeCount = 10_000
	s.Nodes["a3u"] = nil
	for i := range 10_000 {
		s.Nodes["a3u"] = append(s.Nodes["a3u"], cluster.Node{Index: i, Phase: []cluster.NodePhase{cluster.Ready, cluster.Booting, cluster.Failed}[i%3]})
	}
	for i := range 5_000 {
		s.Slurm.Jobs = append(s.Slurm.Jobs, cluster.SlurmJob{ID: int64(i + 10_000), State: "PENDING"})
	}
	_, body := get(t, newConsole(t, openStore(t), s), "/clusters/"+key.Doc())
	wants(t, body, "3334 ready", "3333 booting", "and 6466 more", "and 4802 more")
	if len(body) > 500<<10 {
		t.Errorf("the page has %d bytes", len(body))
	}
}
