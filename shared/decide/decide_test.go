package decide

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

var (
	key   = cluster.Key{Project: "my-project", Location: "us-central1", ID: "flexvm"}
	start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
)

// world plays the parts of Slurm and the cloud by hand: each test says what is seen, and reads what is decided.
type world struct {
	t   testing.TB
	s   *cluster.State
	now time.Time
	p   Policy
	log []cluster.Entry
}

func newWorld(t testing.TB) *world {
	return &world{t: t, s: cluster.NewState(key), now: start, p: Defaults()}
}

// turn steps once, after letting some time pass.
func (w *world) turn(pass time.Duration, with func(*Turn)) Plan {
	w.t.Helper()
	w.now = w.now.Add(pass)
	turn := Begin(w.s, w.now, w.p)
	if with != nil {
		with(turn)
	}
	plan := turn.Decide()
	w.log = append(w.log, plan.Timeline...)
	return plan
}

// settle steps, answering every intent of the kinds that answer knows with success, until none is left.
func (w *world) settle(plan Plan) {
	w.t.Helper()
	for range 20 {
		var outcomes []cluster.Outcome
		for _, i := range plan.Intents {
			outcomes = append(outcomes, w.answer(i))
		}
		if len(outcomes) == 0 {
			return
		}
		plan = w.turn(time.Second, func(t *Turn) {
			for _, o := range outcomes {
				t.Settle(o)
			}
		})
	}
	w.t.Fatalf("the intents do not come to an end: %v", plan.Intents)
}

func (w *world) answer(i cluster.Intent) cluster.Outcome {
	o := cluster.Outcome{Intent: i, At: w.now}
	if c, ok := i.(cluster.Check); ok && c.Ref.Kind == cluster.KindFilestore {
		o.Found = cluster.Found{Address: "10.0.0.2", Share: "nfsshare", Status: "READY"}
	}
	return o
}

// running is a cluster that has come up: controller and login node are ready.
func running(t testing.TB, edit func(string) string) *world {
	t.Helper()
	w := newWorld(t)
	text, err := os.ReadFile("testdata/flexvm.json")
	if err != nil {
		t.Fatal(err)
	}
	spec := string(text)
	if edit != nil {
		spec = edit(spec)
	}
	w.settle(w.turn(0, func(t *Turn) {
		t.Fold("op-1", &events.ClusterCreate{Cluster: key, Spec: []byte(spec)})
	}))
	w.settle(w.turn(time.Second, func(t *Turn) {
		t.Observe(cluster.Observation{At: w.now, Machines: map[string]*cluster.Instance{"flexvm-controller": {Name: "flexvm-controller", ID: 1, Status: "RUNNING"}}})
		t.Fold("boot", &events.NodeBoot{Cluster: key, Node: "flexvm-controller", InstanceID: 1, OK: true})
	}))
	w.see(w.vm("flexvm-login-0", 2, "flexvm-login-group"))
	w.settle(w.turn(time.Second, func(t *Turn) {
		t.Fold("boot-login", &events.NodeBoot{Cluster: key, Node: "flexvm-login-0", InstanceID: 2, OK: true})
	}))
	return w
}

// vm is a running instance.
func (w *world) vm(name string, id uint64, group string) cluster.Instance {
	return cluster.Instance{Name: name, ID: id, Zone: "us-central1-a", Status: "RUNNING", Created: w.now, Group: group}
}

// see steps with a complete list of the instances; the controller is always among them.
func (w *world) see(vms ...cluster.Instance) Plan {
	w.t.Helper()
	o := cluster.Observation{At: w.now.Add(time.Second), Instances: map[string]cluster.Instance{
		"flexvm-controller": {Name: "flexvm-controller", ID: 1, Status: "RUNNING"}}}
	for _, vm := range vms {
		o.Instances[vm.Name] = vm
	}
	return w.turn(2*time.Second, func(t *Turn) { t.Observe(o) })
}

func (w *world) node(pool string, index int) cluster.Node {
	if n := w.s.Node(cluster.NodeID{Pool: pool, Index: index}); n != nil {
		return *n
	}
	return cluster.Node{Index: index}
}

func (w *world) allocation(pool string) *cluster.Allocation {
	w.t.Helper()
	p := w.s.Pools[pool]
	if p == nil || len(p.Allocations) == 0 {
		w.t.Fatalf("pool %s has no allocation", pool)
	}
	return &p.Allocations[0]
}

func (w *world) said(text string) bool {
	for _, e := range w.log {
		if strings.Contains(e.Text, text) {
			return true
		}
	}
	return false
}

// granted brings a pool's first allocation to working machines.
func (w *world) granted(pool string) { //nolint:unparam // it reads better at the calls
	w.t.Helper()
	a := w.allocation(pool)
	group := cluster.Group{Found: true, Request: &cluster.Request{Found: true, State: "SUCCEEDED"}}
	vms := []cluster.Instance{w.vm("flexvm-login-0", 2, "flexvm-login-group")}
	for _, i := range a.Nodes {
		vms = append(vms, w.vm(fmt.Sprintf("flexvm-%s-%d", pool, i), uint64(100+i), a.Group))
	}
	w.turn(time.Second, func(t *Turn) {
		t.Observe(cluster.Observation{At: w.now, Groups: map[string]cluster.Group{a.Group: group}})
	})
	w.see(vms...)
}

// slurm gives the cluster a snapshot in which the nodes are in a state, held by a job or not.
func (w *world) slurm(job int64, jobState, nodeState string, flags cluster.SlurmFlags, indices ...int) {
	snap := &cluster.Snapshot{Boot: start, Sequence: w.now.UnixMilli(), Taken: w.now, Nodes: map[string][]cluster.SlurmNode{}}
	var ids []cluster.NodeID
	for i := range 2 {
		n := cluster.SlurmNode{Index: i, State: "IDLE", Flags: cluster.FlagCloud | cluster.FlagPoweredDown}
		for _, index := range indices {
			if index == i {
				n.State, n.Flags, n.Booted = nodeState, flags|cluster.FlagCloud, w.now
				ids = append(ids, cluster.NodeID{Pool: "a3u", Index: i})
			}
		}
		snap.Nodes["a3u"] = append(snap.Nodes["a3u"], n)
	}
	if job != 0 {
		snap.Jobs = []cluster.SlurmJob{{ID: job, State: jobState, Nodes: ids}}
	}
	w.s.Slurm = snap
}

func intentsOf[T cluster.Intent](p Plan) []T {
	var out []T
	for _, i := range p.Intents {
		if t, ok := i.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

func TestACreateEventBuildsTheClusterStageByStage(t *testing.T) {
	w := newWorld(t)
	text, err := os.ReadFile("testdata/flexvm.json")
	if err != nil {
		t.Fatal(err)
	}
	plan := w.turn(0, func(t *Turn) { t.Fold("op-1", &events.ClusterCreate{Cluster: key, Spec: text}) })
	var stagesSeen []string
	for range 10 {
		if len(plan.Intents) == 0 {
			break
		}
		var kinds []string
		for _, i := range plan.Intents {
			kinds = append(kinds, strings.TrimPrefix(fmt.Sprintf("%T", i), "cluster."))
		}
		stagesSeen = append(stagesSeen, strings.Join(kinds, "+"))
		var outcomes []cluster.Outcome
		for _, i := range plan.Intents {
			outcomes = append(outcomes, w.answer(i))
		}
		plan = w.turn(time.Second, func(t *Turn) {
			for _, o := range outcomes {
				t.Settle(o)
			}
		})
	}
	want := []string{"Check+Check", "Check", "EnsureSecret+EnsureSecret", "EnsureTemplate+EnsureTemplate+EnsureTemplate", "EnsureDisk", "EnsureInstance"}
	if diff := cmp.Diff(want, stagesSeen); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	if w.s.Phase != cluster.PhaseProvisioning {
		t.Errorf("phase %s, want PROVISIONING until the controller has reported", w.s.Phase)
	}
	if w = running(t, nil); w.node("login", 0).Phase != cluster.Ready || w.s.Phase != cluster.PhaseRunning {
		t.Errorf("phase %s after controller and login node are up, want RUNNING; conditions %+v", w.s.Phase, w.s.Conditions)
	}
}

func TestAJobsNodesAreAskedForTogetherAndGivenBack(t *testing.T) {
	w := running(t, nil)
	plan := w.turn(time.Second, func(t *Turn) {
		t.Fold("r1", &events.NodesResume{Cluster: key, Nodes: "flexvm-a3u-[0-1]", Time: w.now,
			Jobs: []events.ResumeJob{{ID: 7, Nodes: "flexvm-a3u-[0-1]"}}})
	})
	if got := intentsOf[cluster.CreateGroup](plan); len(got) != 1 {
		t.Fatalf("want one group for the job's nodes, got %v", plan.Intents)
	}
	a := w.allocation("a3u")
	if diff := cmp.Diff([]int{0, 1}, a.Nodes); diff != "" || a.Job != 7 || a.Method != cluster.ByRequest {
		t.Fatalf("allocation %+v", a)
	}
	w.settle(plan)
	if a = w.allocation("a3u"); a.Phase != cluster.Queued {
		t.Fatalf("allocation is %s, want queued", a.Phase)
	}
	w.granted("a3u")
	w.slurm(7, "RUNNING", "ALLOCATED", 0, 0, 1)
	w.turn(time.Second, nil)
	if p := w.node("a3u", 1).Phase; p != cluster.Ready {
		t.Fatalf("node 1 is %q, want ready", p)
	}
	w.now = w.now.Add(time.Minute)
	w.slurm(0, "", "IDLE", cluster.FlagPoweringDown, 0, 1)
	plan = w.turn(0, func(t *Turn) {
		t.Fold("s1", &events.NodesSuspend{Cluster: key, Nodes: "flexvm-a3u-[0-1]", Time: w.now})
	})
	del := intentsOf[cluster.DeleteInstances](plan)
	if len(del) != 1 || len(del[0].Instances) != 2 {
		t.Fatalf("want both machines deleted in one call, got %v", plan.Intents)
	}
}

// Law 2 and law 7: hook calls may come twice, late, and in any order.
func TestLaw7HookCallsInAnyOrderEndTheSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var calls []func(*Turn)
		for i := range rapid.IntRange(1, 6).Draw(rt, "calls") {
			at := start.Add(time.Duration(i) * time.Minute)
			nodes := rapid.SampledFrom([]string{"flexvm-a3u-0", "flexvm-a3u-1", "flexvm-a3u-[0-1]"}).Draw(rt, "nodes")
			if rapid.Bool().Draw(rt, "resume") {
				calls = append(calls, func(t *Turn) {
					t.Fold("x", &events.NodesResume{Cluster: key, Nodes: nodes, Time: at, Jobs: []events.ResumeJob{{ID: int64(i), Nodes: nodes}}})
				})
			} else {
				calls = append(calls, func(t *Turn) { t.Fold("x", &events.NodesSuspend{Cluster: key, Nodes: nodes, Time: at}) })
			}
		}
		fold := func(order []func(*Turn)) map[string][]cluster.Node {
			w := running(t, nil)
			turn := Begin(w.s, w.now.Add(time.Hour), w.p)
			for _, c := range order {
				c(turn)
			}
			return w.s.Nodes
		}
		shuffled := rapid.Permutation(append(calls[:len(calls):len(calls)], calls...)).Draw(rt, "order")
		if diff := cmp.Diff(fold(calls), fold(shuffled)); diff != "" {
			rt.Fatalf("the same calls, doubled and in another order, end differently:\n%s", diff)
		}
	})
}

// Law 8: what was not seen says nothing.
func TestLaw8UnknownIsNotGone(t *testing.T) {
	w := running(t, func(s string) string { return strings.Replace(s, `"min_node_count": 0`, `"min_node_count": 2`, 1) })
	w.settle(w.turn(time.Second, nil))
	w.granted("a3u")
	w.slurm(0, "", "IDLE", 0, 0, 1)
	w.turn(time.Second, nil)
	before := w.s.Nodes["a3u"][0]
	for name, o := range map[string]cluster.Observation{
		"nothing was seen":         {At: w.now.Add(time.Hour)},
		"the list was not whole":   {At: w.now.Add(time.Hour), Instances: nil, Problems: []cluster.Problem{{Class: cluster.Unknown}}},
		"the group was not looked": {At: w.now.Add(time.Hour), Groups: map[string]cluster.Group{}},
	} {
		plan := w.turn(time.Second, func(t *Turn) { t.Observe(o) })
		if n := w.s.Nodes["a3u"][0]; n != before || len(plan.Intents) > 0 {
			t.Errorf("%s: node %+v became %+v, intents %v", name, before, n, plan.Intents)
		}
	}
	// A complete list without the machine raises a suspicion, and nothing more.
	plan := w.see(w.vm("flexvm-login-0", 2, "flexvm-login-group"))
	if n := w.node("a3u", 0); n.Phase != cluster.Ready || n.Suspect == "" || len(plan.Intents) > 0 {
		t.Fatalf("after a list without it: %+v, intents %v", n, plan.Intents)
	}
	// Looked at by itself, and certainly not there: it is asked for again at once (law 3), and Slurm is told.
	plan = w.turn(time.Second, func(t *Turn) {
		if q := t.Query(); len(q.Machines) != 2 {
			w.t.Fatalf("query %+v, want both machines looked at", q)
		}
		t.Observe(cluster.Observation{At: w.now, Machines: map[string]*cluster.Instance{"flexvm-a3u-0": nil}})
	})
	if n := w.node("a3u", 0); n.Phase != cluster.Requested || n.Generation != 2 {
		t.Errorf("law 3: node %+v, want requested with generation 2", n)
	}
	if c := intentsOf[cluster.Command](plan); len(c) != 1 || c[0].Kind != cluster.CommandLost {
		t.Errorf("want Slurm told that the node is lost, got %v", plan.Intents)
	}
}

// Law 4: cancelling one job's request touches no other's.
func TestLaw4CancellingOneJobsRequestTouchesNoOthers(t *testing.T) {
	w := running(t, nil)
	resume := func(job int64, node string) {
		w.settle(w.turn(time.Second, func(t *Turn) {
			t.Fold("r", &events.NodesResume{Cluster: key, Nodes: node, Time: w.now, Jobs: []events.ResumeJob{{ID: job, Nodes: node}}})
		}))
	}
	resume(7, "flexvm-a3u-0")
	resume(8, "flexvm-a3u-1")
	if n := len(w.s.Pools["a3u"].Allocations); n != 2 {
		t.Fatalf("%d allocations, want one a job", n)
	}
	w.now = w.now.Add(time.Minute)
	w.slurm(8, "CONFIGURING", "ALLOCATED", cluster.FlagPoweringUp, 1)
	plan := w.turn(0, nil)
	cancels := intentsOf[cluster.CancelRequest](plan)
	first := w.s.Pools["a3u"].Allocations[0]
	if len(cancels) != 1 || cancels[0].Name != first.Name || first.Job != 7 {
		t.Fatalf("want job 7's request alone cancelled, got %v", plan.Intents)
	}
	if second := w.s.Pools["a3u"].Allocations[1]; second.Phase != cluster.Queued {
		t.Errorf("job 8's allocation is %s, want queued still", second.Phase)
	}
}

// Law 9: a permanent failure opens the breaker; the calls come to an end.
func TestLaw9APermanentFailureOpensTheBreaker(t *testing.T) {
	w := running(t, nil)
	plan := w.turn(time.Second, func(t *Turn) {
		t.Fold("r1", &events.NodesResume{Cluster: key, Nodes: "flexvm-a3u-0", Time: w.now, Jobs: []events.ResumeJob{{ID: 7, Nodes: "flexvm-a3u-0"}}})
	})
	calls := 0
	for i := range 600 { // ten hours of nothing but refusals
		var outcomes []cluster.Outcome
		for _, intent := range plan.Intents {
			o := cluster.Outcome{Intent: intent, At: w.now}
			if _, ok := intent.(cluster.CreateGroup); ok {
				calls++
				o.Problem = &cluster.Problem{Class: cluster.Permission, Message: "required compute.instanceGroupManagers.create permission"}
			}
			outcomes = append(outcomes, o)
		}
		if i%5 == 0 {
			w.slurm(7, "CONFIGURING", "ALLOCATED", cluster.FlagPoweringUp, 0)
		}
		plan = w.turn(time.Minute, func(t *Turn) {
			for _, o := range outcomes {
				t.Settle(o)
			}
		})
	}
	if b := w.s.Pools["a3u"].Breaker; b.State == cluster.BreakerClosed {
		t.Errorf("the breaker is %+v, want open or half open", b)
	}
	if calls > 45 {
		t.Errorf("%d calls in ten hours of refusals, want a few an hour", calls)
	}
	if !w.said("the breaker of pool a3u opens") {
		t.Error("the timeline does not tell that the breaker opened")
	}
}

// Law 10: a person's drain is never undone.
func TestLaw10APersonsDrainStays(t *testing.T) {
	w := running(t, func(s string) string { return strings.Replace(s, `"min_node_count": 0`, `"min_node_count": 2`, 1) })
	w.settle(w.turn(time.Second, nil))
	w.granted("a3u")
	w.slurm(0, "", "IDLE", 0, 0, 1)
	w.turn(time.Second, nil)
	w.now = w.now.Add(time.Minute)
	w.slurm(0, "", "IDLE", cluster.FlagDrain, 0, 1)
	w.s.Slurm.Nodes["a3u"][0].Reason = "bad fan, Alice"
	w.s.Slurm.Nodes["a3u"][1].Reason = "convoke:repair gen=0 health check"
	plan := w.turn(time.Second, nil)
	var resumed []string
	for _, c := range intentsOf[cluster.Command](plan) {
		if c.Kind == cluster.CommandResume {
			for _, id := range c.Nodes {
				resumed = append(resumed, w.s.Name(id))
			}
		}
	}
	if diff := cmp.Diff([]string{"flexvm-a3u-1"}, resumed); diff != "" {
		t.Errorf("resumed (-want +got):\n%s", diff)
	}
}

func TestARefusedSpecChangesNothingAndTellsAllFaults(t *testing.T) {
	w := newWorld(t)
	plan := w.turn(0, func(t *Turn) {
		t.Fold("op-1", &events.ClusterCreate{Cluster: key, Spec: []byte(`{"node_pools": [{"id": "x", "colour": 1}]}`)})
	})
	if !plan.Forget || w.s.Phase != cluster.PhaseNone || len(plan.Operations) != 1 {
		t.Fatalf("plan %+v", plan)
	}
	if op := plan.Operations[0]; !op.Done || op.Error == nil || len(op.Faults) < 3 {
		t.Errorf("operation %+v, want it done with all faults", op)
	}
}

// Law 5: a machine that Slurm has seen before we have is not one that is lost.
func TestLaw5ANewMachineThatSlurmSawFirstIsLeftAlone(t *testing.T) {
	w := running(t, nil)
	w.settle(w.turn(time.Second, func(t *Turn) {
		t.Fold("r", &events.NodesResume{Cluster: key, Nodes: "flexvm-a3u-0", Time: w.now, Jobs: []events.ResumeJob{{ID: 7, Nodes: "flexvm-a3u-0"}}})
	}))
	w.now = w.now.Add(10 * time.Minute) // nobody looked meanwhile; the machine came, and its job runs
	w.slurm(7, "RUNNING", "ALLOCATED", 0, 0)
	plan := w.turn(time.Second, nil)
	if c := intentsOf[cluster.Command](plan); len(c) != 0 {
		t.Errorf("Slurm was told %+v of a node whose job runs", c)
	}
}
