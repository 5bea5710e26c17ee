package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/functions/api"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/slurm"
	"github.com/convoke-hpc/convoke/shared/store"
)

// childVariable holds the data folder of a deployment that a test runs in a process of its own, to kill it.
const childVariable = "CONVOKE_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child runs a deployment, says where it is, and never ends by itself.
func child(dir string) error {
	l, err := Start(context.Background(), Options{DataDir: dir, Pace: Quick(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	fmt.Println(l.URL())
	return <-l.Failed()
}

func logger() *slog.Logger {
	if os.Getenv("CONVOKE_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// user is somebody who uses a deployment over HTTP.
type user struct {
	testing.TB
	url string
}

func options(dir string) Options {
	return Options{DataDir: dir, Pace: Quick(), Seed: 1, Logger: logger()}
}

// begin starts a deployment for a test, and ends it with the test unless that has happened before.
func begin(t testing.TB, o Options) (*Local, user) {
	t.Helper()
	l, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, l) })
	return l, user{t, l.URL()}
}

func end(t testing.TB, l *Local) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Errorf("closing: %v", err)
	}
}

// call calls the deployment; it gives the status and reads the answer into out.
func (u user) call(method, path string, in, out any) int {
	u.Helper()
	var body io.Reader
	switch in := in.(type) {
	case nil:
	case []byte:
		body = bytes.NewReader(in)
	default:
		text, err := json.Marshal(in)
		if err != nil {
			u.Fatal(err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(u.Context(), method, u.url+path, body)
	if err != nil {
		u.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		u.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		u.Fatal(err)
	}
	if out != nil && resp.StatusCode < 300 {
		if err := json.Unmarshal(text, out); err != nil {
			u.Fatalf("%s %s: %v: %s", method, path, err, text)
		}
	}
	return resp.StatusCode
}

const clusterPath = "/v1beta1/projects/my-project/locations/us-central1/modelDevelopmentClusters/flexvm"

func (u user) summary() (s api.Summary, ok bool) {
	u.Helper()
	return s, u.call(http.MethodGet, clusterPath+"/summary", nil, &s) == http.StatusOK
}

func (u user) phase() cluster.Phase {
	s, _ := u.summary()
	return s.Phase
}

func (u user) jobs() (jobs []slurm.Job) {
	u.Helper()
	u.call(http.MethodGet, "/sim/slurm/flexvm/jobs", nil, &jobs)
	return jobs
}

func (u user) job(id int64) slurm.JobState {
	for _, j := range u.jobs() {
		if j.ID == id {
			return j.State
		}
	}
	return ""
}

// submit submits a job for both of the cluster's nodes.
func (u user) submit(run time.Duration) int64 {
	u.Helper()
	var answer struct{ Job int64 }
	if code := u.call(http.MethodPost, "/sim/slurm/flexvm/submit", map[string]any{"count": 2, "runFor": run.String()}, &answer); code != http.StatusOK {
		u.Fatalf("submitting answered %d", code)
	}
	return answer.Job
}

func (u user) status() (s Status) {
	u.Helper()
	if code := u.call(http.MethodGet, StatusPath, nil, &s); code != http.StatusOK {
		u.Fatalf("the status answered %d", code)
	}
	return s
}

// until waits for something to become so. How long that takes is no part of any test; the bound is there for what never
// comes.
func (u user) until(what string, is func() bool) {
	u.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			u.dump()
			u.Fatalf("it never came to be that %s", what)
		}
	}
}

func (u user) dump() {
	s, _ := u.summary()
	text, _ := json.MarshalIndent(s, "", " ")
	u.Logf("%s\njobs %+v\nstatus %+v", text, u.jobs(), u.status())
	var page struct{ Entries []store.TimelineEntry }
	u.call(http.MethodGet, clusterPath+"/timeline?pageSize=100", nil, &page)
	for i := len(page.Entries) - 1; i >= 0; i-- {
		e := page.Entries[i]
		u.Logf("%s %-10s %-24s %s", e.At.Format("15:04:05.000"), e.Kind, e.About, e.Text)
	}
}

func flexvm(t testing.TB) []byte {
	t.Helper()
	spec, err := os.ReadFile("../../../../examples/flexvm.json")
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// create publishes the spec, and waits until the cluster runs.
func create(l *Local, u user) {
	u.Helper()
	if err := l.Publish(u.Context(), events.TopicRequests, flexvm(u), nil); err != nil {
		u.Fatal(err)
	}
	u.until("the cluster runs", func() bool { return u.phase() == cluster.PhaseRunning })
}

// remove deletes the cluster, and checks that nothing is left.
func remove(u user) {
	u.Helper()
	if code := u.call(http.MethodDelete, clusterPath, nil, nil); code != http.StatusOK {
		u.Fatalf("deleting answered %d", code)
	}
	u.until("the cluster is gone", func() bool { _, ok := u.summary(); return !ok })
	if s := u.status(); len(s.Leftovers) > 0 || s.DeadLetters > 0 || s.Quarantined > 0 {
		u.Errorf("left over: %v; %d dead letters, %d quarantined", s.Leftovers, s.DeadLetters, s.Quarantined)
	}
}

func TestTheLifeOfACluster(t *testing.T) {
	l, u := begin(t, options(t.TempDir()))
	create(l, u)
	job := u.submit(100 * time.Millisecond)
	u.until("the job is done", func() bool { return u.job(job) == slurm.Completed })
	u.until("its nodes are given back", func() bool { s, _ := u.summary(); return len(s.Pools[1].Nodes)+len(s.Pools[1].Allocations) == 0 })
	if n := u.status().Machines; n != 2 {
		t.Errorf("there are %d machines, want the controller and the login node", n)
	}
	remove(u)
}

// A machine that somebody deletes is heard of through the log sink and through Eventarc, and made anew once.
func TestALossComesByTwoRoads(t *testing.T) {
	l, u := begin(t, options(t.TempDir()))
	create(l, u)
	made := u.created()
	if code := u.call(http.MethodPost, "/sim/zones/us-central1-a/instances/flexvm-login-0/deleteByHand", nil, nil); code != http.StatusOK {
		t.Fatalf("deleting answered %d", code)
	}
	heard := func(form string) bool {
		all, err := l.metrics.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if r.Name == "convoke.deliveries" && r.Attributes == "answer=done,form="+form+",function=preemption" {
				return r.Value > 0
			}
		}
		return false
	}
	u.until("the loss is heard of through the log sink and through Eventarc", func() bool { return heard("push") && heard("binary") })
	u.until("the login node is there again", func() bool {
		s, _ := u.summary()
		return u.created() > made && len(s.Pools[0].Nodes) == 1 && s.Pools[0].Nodes[0].Phase == cluster.Ready
	})
	if n := u.created() - made; n != 1 {
		t.Errorf("it was asked for %d times", n)
	}
	remove(u)
}

// created is how often instances of groups have been asked for.
func (u user) created() int {
	u.Helper()
	var counts map[string]int
	u.call(http.MethodGet, "/sim/counts", nil, &counts)
	return counts["compute.instanceGroupManagers.createInstances"]
}

func TestAnotherProcessKeepsOut(t *testing.T) {
	dir := t.TempDir()
	begin(t, options(dir))
	_, err := Start(t.Context(), options(dir))
	if err == nil || !strings.Contains(err.Error(), "another process has it open") {
		t.Errorf("a second process on the folder: %v", err)
	}
}

// What was accepted before an orderly end is carried on afterwards: a job that waits for its nodes gets them.
func TestRestartInTheMiddleOfAJob(t *testing.T) {
	dir := t.TempDir()
	first, u := begin(t, options(dir))
	create(first, u)
	job := u.submit(100 * time.Millisecond)
	u.until("nodes are asked for", func() bool { s, _ := u.summary(); return len(s.Pools[1].Allocations) > 0 })
	end(t, first)

	_, u = begin(t, options(dir))
	u.until("the job is done", func() bool { return u.job(job) == slurm.Completed })
	remove(u)
}

// A process that is killed loses nothing that it had accepted: neither the request that nobody has looked at, nor the job
// in the middle.
func TestKilledInTheMiddle(t *testing.T) {
	dir := t.TempDir()
	process := launch(t, dir)
	u := user{t, process.url}
	var op struct{ Name string }
	if code := u.call(http.MethodPost, strings.TrimSuffix(clusterPath, "/flexvm")+"?modelDevelopmentClusterId=flexvm", flexvm(t), &op); code != http.StatusOK {
		t.Fatalf("creating answered %d", code)
	}
	process.kill() // right after the answer

	process = launch(t, dir)
	u = user{t, process.url}
	u.until("the cluster runs", func() bool { return u.phase() == cluster.PhaseRunning })
	job := u.submit(500 * time.Millisecond)
	u.until("nodes are asked for", func() bool { s, _ := u.summary(); return len(s.Pools[1].Allocations) > 0 })
	process.kill()

	process = launch(t, dir)
	u = user{t, process.url}
	u.until("the job runs", func() bool { s := u.job(job); return s == slurm.Running || s.Finished() })
	process.kill()

	_, u = begin(t, options(dir))
	u.until("the job is done", func() bool { return u.job(job) == slurm.Completed })
	var ended struct {
		Done  bool
		Error any
	}
	if u.call(http.MethodGet, "/v1beta1/"+op.Name, nil, &ended); !ended.Done || ended.Error != nil {
		t.Errorf("the operation is %+v", ended)
	}
	remove(u)
}

// process is a deployment in a process of its own.
type process struct {
	*exec.Cmd
	url string
}

func launch(t *testing.T, dir string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0])}
	p.Env = append(os.Environ(), childVariable+"="+dir)
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if _, err := fmt.Fscanln(out, &p.url); err != nil {
		t.Fatalf("the process does not say where it is: %v", err)
	}
	return p
}

func (p *process) kill() {
	_ = p.Process.Kill() // it may be dead already
	_ = p.Wait()
}

func TestWhatCannotStartSaysWhy(t *testing.T) {
	if _, err := Start(t.Context(), Options{}); err == nil {
		t.Error("it started")
	}
	o := options(t.TempDir())
	o.Filestores = []string{"home"}
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "want LOCATION/ID") {
		t.Errorf("a Filestore instance without a place: %v", err)
	}
	o = options(t.TempDir())
	o.PubSubEmulator = "127.0.0.1:1"
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "PUBSUB_EMULATOR_HOST is 127.0.0.1:1, and nothing answers there") {
		t.Errorf("an emulator that is not there: %v", err)
	}
}

// A message that nobody can read is put aside and told of, and holds nothing up.
func TestWhatCannotBeRead(t *testing.T) {
	l, u := begin(t, options(t.TempDir()))
	for _, topic := range []string{events.TopicRequests, events.TopicSlurm, events.TopicInstances} {
		if err := l.Publish(t.Context(), topic, []byte("{"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Slurm's events go to three functions, and the audit log's to two.
	if s := u.status(); s.Quarantined != 6 || s.DeadLetters != 0 {
		t.Errorf("%d are quarantined, %d dead letters", s.Quarantined, s.DeadLetters)
	}
}

// What gcloud does: it publishes, lists and reads dead letters over REST.
func TestPubSubOverREST(t *testing.T) {
	_, u := begin(t, options(t.TempDir()))
	const base = "/v1/projects/my-project"
	message := map[string]any{"messages": []any{map[string]any{"data": []byte("hello"), "attributes": map[string]string{"a": "b"}}}}
	var published struct{ MessageIDs []string }
	if code := u.call(http.MethodPost, base+"/topics/dead-letters:publish", message, &published); code != http.StatusOK || len(published.MessageIDs) != 1 {
		t.Errorf("publishing answered %d, %+v", code, published)
	}
	if s := u.status(); s.DeadLetters != 1 {
		t.Errorf("there are %d dead letters", s.DeadLetters)
	}
	var pulled struct {
		ReceivedMessages []struct {
			AckID   string
			Message struct {
				Data       []byte
				Attributes map[string]string
			}
		}
	}
	u.call(http.MethodPost, base+"/subscriptions/dead-letters:pull", map[string]any{"maxMessages": 1, "returnImmediately": true}, &pulled)
	if len(pulled.ReceivedMessages) != 1 || string(pulled.ReceivedMessages[0].Message.Data) != "hello" || pulled.ReceivedMessages[0].Message.Attributes["a"] != "b" {
		t.Fatalf("pulled %+v", pulled)
	}
	if code := u.call(http.MethodPost, base+"/subscriptions/dead-letters:acknowledge", map[string]any{"ackIds": []string{pulled.ReceivedMessages[0].AckID}}, nil); code != http.StatusOK {
		t.Errorf("acknowledging answered %d", code)
	}
	if s := u.status(); s.DeadLetters != 0 {
		t.Errorf("there are %d dead letters", s.DeadLetters)
	}
	var all struct{ Topics, Subscriptions []any }
	u.call(http.MethodGet, base+"/topics", nil, &all)
	u.call(http.MethodGet, base+"/subscriptions", nil, &all)
	if len(all.Topics) != 6 || len(all.Subscriptions) != 8 {
		t.Errorf("%d topics, %d subscriptions", len(all.Topics), len(all.Subscriptions))
	}
	for path, want := range map[string]int{
		"/topics/nope:publish": http.StatusNotFound, "/topics/ticks:delete": http.StatusNotImplemented, "/subscriptions/nope:pull": http.StatusNotFound,
		"/subscriptions/dead-letters:seek": http.StatusNotImplemented,
	} {
		if code := u.call(http.MethodPost, base+path, message, nil); code != want {
			t.Errorf("%s answered %d, want %d", path, code, want)
		}
	}
	if code := u.call(http.MethodPost, base+"/topics/ticks:publish", []byte("{"), nil); code != http.StatusBadRequest {
		t.Errorf("half a request answered %d", code)
	}
}

// The same functions, on Google's emulators.
func TestOnEmulators(t *testing.T) {
	o := options(t.TempDir())
	o.PubSubEmulator, o.FirestoreEmulator = os.Getenv(EnvPubSub), os.Getenv(EnvFirestore)
	if o.PubSubEmulator == "" && o.FirestoreEmulator == "" {
		t.Skipf("neither %s nor %s is set (scripts/test starts the emulators)", EnvPubSub, EnvFirestore)
	}
	o.Project = fmt.Sprintf("my-project-%d", time.Now().UnixNano()%1_000_000)
	l, u := begin(t, o)
	spec := bytes.ReplaceAll(flexvm(t), []byte("my-project"), []byte(o.Project))
	if err := l.Publish(t.Context(), events.TopicRequests, spec, nil); err != nil {
		t.Fatal(err)
	}
	path := strings.ReplaceAll(clusterPath, "my-project", o.Project)
	u.until("the cluster runs", func() bool {
		var s api.Summary
		return u.call(http.MethodGet, path+"/summary", nil, &s) == http.StatusOK && s.Phase == cluster.PhaseRunning
	})
	job := u.submit(100 * time.Millisecond)
	u.until("the job is done", func() bool { return u.job(job) == slurm.Completed })
	u.call(http.MethodDelete, path, nil, nil)
	u.until("the cluster is gone", func() bool { return u.call(http.MethodGet, path, nil, nil) == http.StatusNotFound })
	u.until("nothing is left", func() bool { return len(u.status().Leftovers) == 0 })
}

// BenchmarkBacklog works off 15,000 reports about one cluster, which all go to three functions, and tells how many a second.
func BenchmarkBacklog(b *testing.B) {
	const backlog = 15_000
	l, u := begin(b, options(b.TempDir()))
	create(l, u)
	key := cluster.Key{Project: "my-project", Location: "us-central1", ID: "flexvm"}
	publisher := l.bus.client.Publisher(events.TopicSlurm)
	defer publisher.Stop()
	for round := 0; b.Loop(); round++ {
		var sent []*pubsub.PublishResult
		for i := range backlog {
			m, err := events.ToMessage(&events.Event{
				ID: fmt.Sprintf("resume-%d-%d", round, i), Source: "//bench", Type: events.TypeNodesSuspend, Time: time.Now(),
				Payload: &events.NodesSuspend{Cluster: key, Nodes: "flexvm-a3u-[0-1]", Time: time.Now()},
			})
			if err != nil {
				b.Fatal(err)
			}
			sent = append(sent, publisher.Publish(b.Context(), &pubsub.Message{Data: m.Data, Attributes: m.Attributes}))
		}
		for _, s := range sent {
			if _, err := s.Get(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		if err := l.Idle(b.Context()); err != nil && !errors.Is(err, context.Canceled) {
			b.Fatal(err)
		}
	}
	if s := u.status(); s.DeadLetters > 0 || s.Quarantined > 0 || s.Events < int64(3*backlog*b.N) {
		b.Errorf("%d of %d deliveries were taken, %d are dead letters, %d are quarantined", s.Events, 3*backlog*b.N, s.DeadLetters, s.Quarantined)
	}
	b.ReportMetric(float64(backlog)*float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}
