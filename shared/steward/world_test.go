package steward_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	filestore "cloud.google.com/go/filestore/apiv1"
	"cloud.google.com/go/filestore/apiv1/filestorepb"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/events/auditlog"
	"github.com/convoke-hpc/convoke/shared/bootstrap"
	"github.com/convoke-hpc/convoke/shared/cloud"
	"github.com/convoke-hpc/convoke/shared/cloud/gce"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/decide"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
	"github.com/convoke-hpc/convoke/shared/sim/slurm"
	"github.com/convoke-hpc/convoke/shared/steward"
	"github.com/convoke-hpc/convoke/shared/store"
	"github.com/convoke-hpc/convoke/shared/store/embedded"
)

var (
	key  = cluster.Key{Project: "my-project", Location: "us-central1", ID: "flexvm"}
	zone = "us-central1-a"
)

// world is everything around a steward, in virtual time: the simulated cloud behind the real client, the embedded
// store, simulated Slurm, guests that boot and report, messages that are delivered again until they are taken, and
// ticks.
type world struct {
	t     testing.TB
	ctx   context.Context
	cloud *gcp.Server
	fuse  *fuse
	st    store.Store
	gc    *gce.Client

	mu      sync.Mutex
	current *steward.Steward
	holders int
	slurm   *slurm.Controller
	guests  map[string]context.CancelFunc
	wg      sync.WaitGroup
	lost    func(typ string) bool // messages that never arrive
	again   []time.Duration       // how much later each message comes once more
	boot    time.Duration         // from RUNNING to the report of the end of start-up

	policy    decide.Policy
	onRequest func(*http.Request)
	patience  time.Duration                   // of Slurm with nodes that power up, when it is not the usual
	skew      time.Duration                   // of the controller's clock
	sick      func(gcp.Instance) string       // why a guest's start-up fails; "" when it does not
	dropped   func(*events.SlurmCommand) bool // commands that never reach the controller
}

// inWorld runs a scenario in a world of its own. The process dies after call number crash of the store or the cloud; 0:
// never. The result is how many calls there were, in all and until the cluster had come up.
func inWorld(t *testing.T, crash int64, scenario func(w *world)) (calls, up int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st, err := embedded.Open(t.TempDir(), embedded.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		delays := gcp.DefaultDelays()
		delays.Operation, delays.Group, delays.Stopping = time.Second, time.Second, 5*time.Second
		w, stop := newWorld(t, st, &delays, crash)
		defer func() { calls, up = w.fuse.calls.Load(), w.fuse.up.Load() }()
		defer stop() // of a scenario that has failed, too
		scenario(w)
	})
	return calls, up
}

// newWorld is a world on a store; stop ends it.
func newWorld(t testing.TB, st store.Store, delays *gcp.Delays, crash int64) (w *world, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w = &world{t: t, ctx: ctx, st: st, fuse: &fuse{limit: crash}, guests: map[string]context.CancelFunc{},
		boot: 10 * time.Second, policy: decide.Defaults()}
	w.policy.ActiveRequests = 1000
	server, err := gcp.New(gcp.Options{Project: key.Project, Seed: 1, Delays: delays, Events: w.heard, Machines: w, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	w.cloud = server
	w.makeHome()
	w.gc, err = gce.New(ctx, gce.Options{Project: key.Project, Endpoint: "http://gcp.simulated",
		HTTPClient: &http.Client{Transport: heardRequests{server.Transport(), w}}, Random: constant{}, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.wg.Go(w.ticks)
	return w, func() {
		cancel()
		w.wg.Wait()
		w.gc.Close()
		for _, c := range []io.Closer{server, st} {
			if err := c.Close(); err != nil {
				t.Errorf("closing: %v", err)
			}
		}
	}
}

// heardRequests is the way to the cloud; the world can listen.
type heardRequests struct {
	http.RoundTripper
	w *world
}

func (h heardRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.w.onRequest != nil {
		h.w.onRequest(r)
	}
	return h.RoundTripper.RoundTrip(r)
}

func quiet() *slog.Logger {
	if os.Getenv("CONVOKE_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

type constant struct{}

func (constant) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i)
	}
	return len(p), nil
}

// makeHome makes the Filestore instance that the spec names.
func (w *world) makeHome() {
	w.t.Helper()
	c, err := filestore.NewCloudFilestoreManagerRESTClient(w.ctx, w.cloud.ClientOptions()...)
	if err != nil {
		w.t.Fatal(err)
	}
	op, err := c.CreateInstance(w.ctx, &filestorepb.CreateInstanceRequest{Parent: "projects/my-project/locations/us-central1-a", InstanceId: "home",
		Instance: &filestorepb.Instance{Tier: filestorepb.Instance_ZONAL, FileShares: []*filestorepb.FileShareConfig{{Name: "nfsshare", CapacityGb: 1024}},
			Networks: []*filestorepb.NetworkConfig{{Network: "default", Modes: []filestorepb.NetworkConfig_AddressMode{filestorepb.NetworkConfig_MODE_IPV4}}}}})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := op.Wait(w.ctx); err != nil {
		w.t.Fatal(err)
	}
}

// fuse counts calls and kills the process after one of them: that call has been carried out, its answer is lost, and so
// is every further call of the same process.
type fuse struct {
	calls atomic.Int64
	limit int64
	up    atomic.Int64 // calls until the cluster had come up
	burnt atomic.Bool
	where atomic.Value
}

var errCrashed = errors.New("the process is dead")

// process is one process's view of the fuse: it stays dead when a new one has started.
type process struct {
	*fuse
	dead *atomic.Bool
}

func (p process) alive() error {
	if p.dead.Load() {
		return errCrashed
	}
	return nil
}

func (p process) after(what string) error {
	if n := p.calls.Add(1); p.limit > 0 && n == p.limit {
		p.where.Store(what)
		p.dead.Store(true)
		p.burnt.Store(true)
	}
	return p.alive()
}

// mortalStore is the store as a process that may die sees it.
type mortalStore struct {
	store.Store
	p process
}

func call[T any](p process, what string, f func() (T, error)) (T, error) {
	var zero T
	if err := p.alive(); err != nil {
		return zero, err
	}
	v, err := f()
	if dead := p.after(what); dead != nil {
		return zero, dead
	}
	return v, err
}

func (m mortalStore) Post(ctx context.Context, key cluster.Key, evs ...store.Event) error {
	_, err := call(m.p, "post", func() (any, error) { return nil, m.Store.Post(ctx, key, evs...) })
	return err
}

func (m mortalStore) Lease(ctx context.Context, key cluster.Key, holder string, now, until time.Time, create bool) (*store.Lease, error) {
	return call(m.p, "lease", func() (*store.Lease, error) { return m.Store.Lease(ctx, key, holder, now, until, create) })
}

func (m mortalStore) Documents(ctx context.Context, key cluster.Key) (store.Documents, error) {
	return call(m.p, "documents", func() (store.Documents, error) { return m.Store.Documents(ctx, key) })
}

func (m mortalStore) Inbox(ctx context.Context, key cluster.Key, limit int) ([]store.Event, error) {
	return call(m.p, "inbox", func() ([]store.Event, error) { return m.Store.Inbox(ctx, key, limit) })
}

func (m mortalStore) Commit(ctx context.Context, l *store.Lease, c store.Change) error {
	_, err := call(m.p, "commit", func() (any, error) { return nil, m.Store.Commit(ctx, l, c) })
	return err
}

func (m mortalStore) PutSlurm(ctx context.Context, key cluster.Key, s store.Slurm) (newer, changed bool, err error) {
	_, err = call(m.p, "put slurm", func() (any, error) {
		var err error
		newer, changed, err = m.Store.PutSlurm(ctx, key, s)
		return nil, err
	})
	return newer, changed, err
}

func (m mortalStore) Slurm(ctx context.Context, key cluster.Key) (store.Slurm, error) {
	return call(m.p, "slurm", func() (store.Slurm, error) { return m.Store.Slurm(ctx, key) })
}

func (m mortalStore) Due(ctx context.Context, now time.Time, limit int) ([]cluster.Key, error) {
	return call(m.p, "due", func() ([]cluster.Key, error) { return m.Store.Due(ctx, now, limit) })
}

// mortalCloud is the cloud as a process that may die sees it.
type mortalCloud struct {
	cloud.Cloud
	p process
}

func (m mortalCloud) Do(ctx context.Context, i cluster.Intent) cluster.Outcome {
	o, err := call(m.p, i.Do(), func() (cluster.Outcome, error) { return m.Cloud.Do(ctx, i), nil })
	if err != nil {
		return cluster.Outcome{Intent: i, Problem: &cluster.Problem{Class: cluster.Unknown, Message: err.Error()}}
	}
	return o
}

func (m mortalCloud) Observe(ctx context.Context, q cluster.Query) cluster.Observation {
	o, err := call(m.p, "observe", func() (cluster.Observation, error) { return m.Cloud.Observe(ctx, q), nil })
	if err != nil {
		return cluster.Observation{}
	}
	return o
}

// restart starts a new process.
func (w *world) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holders++
	p := process{fuse: w.fuse, dead: &atomic.Bool{}}
	w.current = steward.New(steward.Config{
		Store: mortalStore{w.st, p}, Cloud: mortalCloud{w.gc, p}, Commands: w, Waker: w, Policy: w.policy, Now: time.Now,
		Log: quiet(), Holder: fmt.Sprintf("process-%d", w.holders),
	})
}

// steward is the process that is alive.
func (w *world) steward() *steward.Steward {
	if w.fuse.burnt.CompareAndSwap(true, false) {
		w.restart()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

// ticks wakes what is due, as Cloud Scheduler does.
func (w *world) ticks() {
	for w.sleep(time.Minute) {
		_, _ = w.steward().Tick(w.ctx) // a tick that fails is followed by another
	}
}

func (w *world) sleep(d time.Duration) bool {
	select {
	case <-w.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Command hands a command to the agent on the controller, as Pub/Sub would: later, and in its own time.
func (w *world) Command(_ context.Context, c *events.SlurmCommand) error {
	if w.dropped != nil && w.dropped(c) {
		return nil
	}
	w.wg.Go(func() {
		if w.sleep(100 * time.Millisecond) {
			if s := w.slurmctld(); s != nil {
				s.Command(*c)
			}
		}
	})
	return nil
}

// Wake has a cluster stepped soon.
func (w *world) Wake(_ context.Context, key cluster.Key) error {
	w.wg.Go(func() {
		if w.sleep(100 * time.Millisecond) {
			_ = w.steward().Wake(w.ctx, key) // the next tick does it otherwise
		}
	})
	return nil
}

// change sets what the world does to messages and machines, while they are on their way.
func (w *world) change(set func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	set()
}

// send delivers an event again and again until it is taken.
func (w *world) send(typ, id string, payload events.Payload) {
	w.mu.Lock()
	lost := w.lost
	w.mu.Unlock()
	if lost != nil && lost(typ) {
		return
	}
	e := &events.Event{ID: id, Source: "//test", Type: typ, Time: time.Now(), Payload: payload}
	w.deliver(e, 0)
	for _, later := range w.again {
		w.deliver(e, later)
	}
}

func (w *world) deliver(e *events.Event, later time.Duration) {
	typ, payload := e.Type, e.Payload
	w.wg.Go(func() {
		if later > 0 && !w.sleep(later) {
			return
		}
		for {
			var err error
			if snap, ok := payload.(*events.SlurmSnapshot); ok {
				err = w.steward().Snapshot(w.ctx, snap)
			} else {
				var in store.Event
				if in, err = events.ToInbox(e, time.Now()); err == nil {
					err = w.steward().Deliver(w.ctx, payload.Key(), typ == events.TypeClusterCreate, in)
				}
			}
			if err == nil || errors.Is(err, store.ErrNoCluster) || !w.sleep(time.Second) {
				return
			}
		}
	})
}

// heard takes the audit log.
func (w *world) heard(_ context.Context, e gcp.LogEntry) {
	entry, err := auditlog.Read(e.JSON)
	if err != nil {
		w.t.Errorf("an audit-log entry cannot be read: %v\n%s", err, e.JSON)
		return
	}
	if entry.Lost != nil {
		w.send(events.TypeInstanceLost, entry.Lost.ID, entry.Lost.Payload)
	}
}

func (w *world) slurmctld() *slurm.Controller {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slurm
}

// report is what a guest says at the end of its start-up.
func (w *world) report(i gcp.Instance) *events.NodeBoot {
	boot := &events.NodeBoot{Cluster: key, Node: i.Name, InstanceID: i.ID, OK: true, Time: time.Now()}
	w.mu.Lock()
	sick := w.sick
	w.mu.Unlock()
	if sick != nil {
		boot.Reason = sick(i)
		boot.OK = boot.Reason == ""
	}
	return boot
}

// InstanceRunning boots a guest.
func (w *world) InstanceRunning(_ context.Context, i gcp.Instance) {
	ctx, cancel := context.WithCancel(w.ctx)
	w.mu.Lock()
	w.guests[i.Name] = cancel
	w.mu.Unlock()
	born := time.Now()
	w.wg.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(w.boot):
		}
		boot := w.report(i)
		switch role := i.Metadata[bootstrap.KeyRole]; {
		case !boot.OK:
			w.send(events.TypeNodeBoot, fmt.Sprint("boot-", i.ID), boot)
		case role == bootstrap.RoleController:
			w.send(events.TypeNodeBoot, fmt.Sprint("boot-", i.ID), boot)
			w.runSlurm(ctx, i)
		case role == bootstrap.RoleCompute:
			w.send(events.TypeNodeBoot, fmt.Sprint("boot-", i.ID), boot)
			for ctx.Err() == nil {
				if s := w.slurmctld(); s != nil {
					if taken, err := s.Register(i.Name, born); err == nil && taken {
						return
					}
				}
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Second):
				}
			}
		default: // a login node: nothing but its own word tells that it is up, so its agent says it again and again
			for n := 0; ctx.Err() == nil; n++ {
				w.send(events.TypeNodeBoot, fmt.Sprint("boot-", i.ID, "-", n), boot)
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
				}
			}
		}
	})
}

func (w *world) runSlurm(ctx context.Context, i gcp.Instance) {
	var spec cluster.Spec
	if err := json.Unmarshal([]byte(i.Metadata[bootstrap.KeySpec]), &spec); err != nil {
		w.t.Errorf("the controller's metadata holds no spec: %v", err)
		return
	}
	timing := slurm.DefaultTiming()
	timing.SuspendTime, timing.SuspendTimeout = 60*time.Second, 30*time.Second
	if w.patience > 0 {
		timing.ResumeTimeout = w.patience
	}
	c, err := slurm.New(slurm.Options{Spec: &spec, Key: key, Timing: &timing, Logger: quiet(),
		Now: func() time.Time { return time.Now().Add(w.skew) },
		Publish: func(_ context.Context, typ, id string, data events.Payload) error {
			w.send(typ, id, data)
			return nil
		}})
	if err != nil {
		w.t.Errorf("slurmctld does not start: %v", err)
		return
	}
	w.mu.Lock()
	w.slurm = c
	w.mu.Unlock()
	_ = c.Run(ctx) // until the machine goes
}

// InstanceGone ends a guest.
func (w *world) InstanceGone(_ context.Context, i gcp.Instance) {
	w.mu.Lock()
	if cancel := w.guests[i.Name]; cancel != nil {
		cancel()
		delete(w.guests, i.Name)
	}
	w.mu.Unlock()
	if s := w.slurmctld(); s != nil {
		s.Unregister(i.Name)
	}
}

// create asks for the cluster, with its spec edited.
func (w *world) create(edits ...string) { w.createAs("create-1", edits...) }

// createAs asks for the cluster by an operation of that name.
func (w *world) createAs(operation string, edits ...string) {
	w.t.Helper()
	text, err := os.ReadFile("testdata/flexvm.json")
	if err != nil {
		w.t.Fatal(err)
	}
	spec := strings.NewReplacer(edits...).Replace(string(text))
	w.send(events.TypeClusterCreate, operation, &events.ClusterCreate{Cluster: key, Spec: []byte(spec)})
}

func (w *world) state() *cluster.State {
	s, err := steward.ReadState(w.ctx, w.st, key)
	if errors.Is(err, store.ErrNoCluster) {
		return cluster.NewState(key)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// until waits, at most so long, for something to become true of the cluster.
func (w *world) until(what string, most time.Duration, is func(*cluster.State) bool) {
	w.t.Helper()
	for end := time.Now().Add(most); ; time.Sleep(5 * time.Second) {
		s := w.state()
		if is(s) {
			return
		}
		if !time.Now().Before(end) {
			w.dump()
			w.t.Fatalf("%s: not so after %s (the process died after %v)", what, most, w.fuse.where.Load())
		}
	}
}

func (w *world) dump() {
	s := w.state()
	text, err := json.MarshalIndent(s.Record, "", " ")
	if err == nil {
		w.t.Logf("%s", text)
	}
	for id, p := range s.Pools {
		text, _ := json.Marshal(p)
		w.t.Logf("pool %s: %s\nnodes: %+v", id, text, s.Nodes[id])
	}
	entries, err := w.st.Timeline(w.ctx, key, "", 60)
	if err == nil {
		for i := len(entries) - 1; i >= 0; i-- {
			e := entries[i]
			w.t.Logf("%s %-10s %-30s %s", e.At.Format("15:04:05.000"), e.Kind, e.About, e.Text)
		}
	}
	if s := w.slurmctld(); s != nil {
		w.t.Logf("slurm nodes %+v\njobs %+v", s.Nodes(), s.Jobs())
	}
	if sum, err := w.cloud.Summarize(); err == nil {
		text, _ := json.MarshalIndent(sum, "", " ")
		w.t.Logf("cloud: %s", text)
	}
}

func (w *world) phase(p cluster.Phase) func(*cluster.State) bool {
	return func(s *cluster.State) bool { return s.Phase == p }
}

func (w *world) nodePhase(pool string, index int, p cluster.NodePhase) func(*cluster.State) bool {
	return func(s *cluster.State) bool {
		n := s.Node(cluster.NodeID{Pool: pool, Index: index})
		return n != nil && n.Phase == p || n == nil && p == cluster.Absent
	}
}

// submit submits a job and gives its id.
func (w *world) submit(nodes int, run time.Duration) int64 {
	w.t.Helper()
	id, err := w.slurmctld().Submit(slurm.JobSpec{Name: "train", User: "ada", Nodes: nodes, RunFor: run})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) job(id int64) slurm.Job {
	for _, j := range w.slurmctld().Jobs() {
		if j.ID == id {
			return j
		}
	}
	return slurm.Job{}
}

// checkBounds checks what must hold at any time: never two machines for a node, never more than the pool has (law 2).
func (w *world) checkBounds() {
	w.t.Helper()
	sum, err := w.cloud.Summarize()
	if err != nil {
		w.t.Fatal(err)
	}
	names := map[string]bool{}
	for _, i := range sum.Instances {
		if names[i.Name] {
			w.t.Fatalf("law 2: two machines are named %s", i.Name)
		}
		names[i.Name] = true
	}
}
