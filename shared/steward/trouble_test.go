package steward_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/bootstrap"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
	"github.com/convoke-hpc/convoke/shared/sim/slurm"
)

// onDemand makes the compute pool one of ordinary machines, which are made by name in the pool's one group.
var onDemand = []string{`"provisioning_model": "FLEX_START",`, `"provisioning_model": "ON_DEMAND",`, `"flex_start_max_duration": "604800s",`, ``}

func with(edits []string, more ...string) []string {
	return append(append([]string{}, edits...), more...)
}

// in runs a scenario in a world of its own.
func in(t *testing.T, name string, scenario func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		inWorld(t, 0, scenario)
	})
}

// moments are times from the first to the last, each later than the one before by a part; by a small one with CONVOKE_CRASH.
func moments(first, last time.Duration) (all []time.Duration) {
	step := 3.0
	if os.Getenv("CONVOKE_CRASH") != "" {
		step = 1.25
	}
	for at := first; at < last; at = time.Duration(float64(at) * step) {
		all = append(all, at.Round(time.Millisecond))
	}
	return all
}

// thorough are cases to try, and more of them with CONVOKE_CRASH.
func thorough(cases []int, more ...int) []int {
	if os.Getenv("CONVOKE_CRASH") != "" {
		return append(cases, more...)
	}
	return cases
}

func (w *world) calls(methods ...string) int { return w.cloud.Count(methods...) }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) running(id int64) func(*cluster.State) bool {
	return func(*cluster.State) bool { w.checkBounds(); return w.job(id).State == slurm.Running }
}

// lively brings a cluster to a running job and then to nothing: what a cluster that has come through trouble can do.
func (w *world) lively() {
	w.t.Helper()
	id := w.submit(2, time.Minute)
	w.until("a job ends well", 60*time.Minute, func(*cluster.State) bool { w.checkBounds(); return w.job(id).State == slurm.Completed })
	w.until("its nodes are given back", 20*time.Minute, noNodes)
}

func mutations() []string {
	return []string{"compute.*.insert", "compute.*.delete", "compute.*.cancel", "compute.*.createInstances", "compute.*.deleteInstances", "compute.*.patch"}
}

// Law 9: an outage that lasts for hours costs a few calls a minute, not as many as a holder can make.
func TestLaw9AnOutageIsNotMetWithAStorm(t *testing.T) {
	outages := map[string]gcp.Fault{
		"lists lack a zone":              {Method: "compute.instances.aggregatedList", Unreachable: []string{"us-central1-a"}},
		"lists fail":                     {Method: "compute.*.aggregatedList", Status: http.StatusServiceUnavailable},
		"single machines cannot be seen": {Method: "compute.instances.get", Status: http.StatusServiceUnavailable},
		"everything is throttled":        {Method: "compute.*", Status: http.StatusTooManyRequests, Reason: "rateLimitExceeded"},
		"everything is forbidden":        {Method: "compute.*", Status: http.StatusForbidden, Reason: "forbidden", Message: "Required 'compute.instances.list' permission"},
		"nothing answers":                {Method: "compute.*", Drop: true},
	}
	for name, fault := range outages {
		in(t, name, func(w *world) {
			comeUp(w, `"min_node_count": 0`, `"min_node_count": 1`)
			w.until("the static node is ready", 15*time.Minute, w.nodePhase("a3u", 0, cluster.Ready))
			outage := w.cloud.AddFault(fault)
			w.must(w.cloud.Vanish(zone, "flexvm-a3u-0"))
			w.sleep(5 * time.Minute)
			before := w.total()
			w.sleep(time.Hour)
			if n := w.total() - before; n > 2500 {
				w.dump()
				w.t.Errorf("%d calls in an hour of outage", n)
			}
			w.cloud.RemoveFault(outage)
			w.until("the static node is back", 30*time.Minute, w.nodePhase("a3u", 0, cluster.Ready))
			remove(w)
		})
	}
}

func (w *world) total() (n int) {
	for _, c := range w.cloud.Counts() {
		n += c
	}
	return n
}

// Law 3: a static node comes back within minutes, whatever became of its machine.
func TestLaw3AStaticNodeComesBackWhateverBecameOfIt(t *testing.T) {
	fates := map[string]func(w *world) error{
		"vanished":        func(w *world) error { return w.cloud.Vanish(zone, "flexvm-a3u-0") },
		"deleted by hand": func(w *world) error { return w.cloud.DeleteByHand(zone, "flexvm-a3u-0") },
		"powered off":     func(w *world) error { return w.cloud.PowerOff(zone, "flexvm-a3u-0") },
		"host failed":     func(w *world) error { return w.cloud.FailHost(zone, "flexvm-a3u-0") },
		"preempted":       func(w *world) error { return w.cloud.Preempt(zone, "flexvm-a3u-0") },
		"its group was removed by hand": func(w *world) error {
			return w.byHand(http.MethodDelete, "zones/"+zone+"/instanceGroupManagers/"+w.machineGroup("flexvm-a3u-0"))
		},
		"made anew by hand": func(w *world) error {
			return w.byHandWith(http.MethodPost, "zones/"+zone+"/instanceGroupManagers/"+w.machineGroup("flexvm-a3u-0")+"/recreateInstances",
				`{"instances": ["zones/`+zone+`/instances/flexvm-a3u-0"]}`)
		},
	}
	pools := map[string][]string{"flex start": nil, "on demand": onDemand,
		"spot":             {`"provisioning_model": "FLEX_START",`, `"provisioning_model": "SPOT",`, `"flex_start_max_duration": "604800s",`, ``},
		"short flex start": {`"flex_start_max_duration": "604800s",`, `"flex_start_max_duration": "300s",`}}
	for pool, edits := range pools {
		for fate, befall := range fates {
			if strings.Contains(pool, "flex") && fate == "made anew by hand" {
				continue // which Compute Engine does not allow
			}
			in(t, pool+", "+fate, func(w *world) {
				comeUp(w, with(edits, `"min_node_count": 0`, `"min_node_count": 1`)...)
				w.until("the static node is ready", 15*time.Minute, w.nodePhase("a3u", 0, cluster.Ready))
				first := w.machine("flexvm-a3u-0").ID
				w.must(befall(w))
				w.until("the static node is back", 8*time.Minute, func(s *cluster.State) bool {
					w.checkBounds()
					n := s.Node(cluster.NodeID{Pool: "a3u"})
					return n.Phase == cluster.Ready && n.InstanceID != first && w.slurmctld().Nodes()[0].State == "IDLE"
				})
				remove(w)
			})
		}
	}
}

// byHand is a call that a person makes.
func (w *world) byHand(method, path string) error { return w.byHandWith(method, path, "") }

func (w *world) byHandWith(method, path, body string) error {
	r, err := http.NewRequestWithContext(w.ctx, method, "http://gcp.simulated/compute/v1/projects/my-project/"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := w.cloud.Transport().RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return nil
}

func (w *world) machineGroup(name string) string {
	w.t.Helper()
	s := w.state()
	_, id, _ := cluster.ParseNodeName(name)
	n := s.Node(id)
	a := s.Pools[id.Pool].Allocation(n.Allocation)
	if a == nil {
		w.t.Fatalf("%s has no allocation", name)
	}
	return a.Group
}

// Law 4: what a cancelled job asked for is given back, at whatever moment of the asking it is cancelled, and its nodes can be used again.
func TestLaw4ACancelledJobsCapacityIsGivenBackAtAnyMoment(t *testing.T) {
	for pool, edits := range map[string][]string{"flex start": nil, "on demand": onDemand, "short flex start": {`"flex_start_max_duration": "604800s",`, `"flex_start_max_duration": "300s",`}} {
		for _, capacity := range thorough([]int{0, 2}, 1) {
			for _, after := range moments(500*time.Millisecond, 100*time.Second) {
				in(t, fmt.Sprintf("%s, room for %d, cancelled after %s", pool, capacity, after), func(w *world) {
					w.must(w.cloud.SetCapacity(zone, "a3-ultragpu-8g", capacity))
					comeUp(w, edits...)
					id := w.submit(2, time.Hour)
					w.sleep(after)
					w.must(w.slurmctld().Cancel(id))
					w.until("everything is given back", 8*time.Minute, noNodes)
					w.nobodyWaits()
					w.must(w.cloud.SetCapacity(zone, "a3-ultragpu-8g", 2))
					w.sleep(12 * time.Minute)
					w.nobodyWaits()
					w.lively()
				})
			}
		}
	}
}

// nobodyWaits checks that there are no machines but controller and login node, and that none is to come.
func (w *world) nobodyWaits() {
	w.t.Helper()
	sum, err := w.cloud.Summarize()
	w.must(err)
	members := 0
	for _, g := range sum.Groups {
		members += g.Members
	}
	if len(sum.Instances) != 2 || members != 1 {
		w.dump()
		w.t.Fatalf("law 4: there are %d machines and %d members of groups, of which controller and login node are needed", len(sum.Instances), members)
	}
}

// Law 1: a cluster can be deleted at any moment of its making and growing, and leaves nothing.
func TestLaw1ADeletionAtAnyMomentLeavesNothing(t *testing.T) {
	for pool, edits := range map[string][]string{"flex start": nil, "on demand": onDemand} {
		for _, after := range moments(100*time.Millisecond, 200*time.Second) {
			in(t, fmt.Sprintf("%s, deleted after %s", pool, after), func(w *world) {
				w.create(with(edits, `"min_node_count": 0`, `"min_node_count": 2`)...)
				w.sleep(after)
				remove(w)
				w.sleep(30 * time.Minute)
				nothingLeft(w)
			})
		}
	}
}

// A cluster of the same name begins with nothing of its predecessor's, and late messages to that one do not touch it.
func TestAClusterOfTheSameNameBeginsAnew(t *testing.T) {
	in(t, "", func(w *world) {
		comeUp(w)
		id := w.submit(2, 0)
		w.until("the job runs", 15*time.Minute, w.running(id))
		remove(w)
		grants := w.calls("compute.instanceGroupManagerResizeRequests.insert")
		w.create() // late: the same operation
		w.sleep(2 * time.Minute)
		if p := w.state().Phase; p != cluster.PhaseDeleted {
			t.Fatalf("a late create made the cluster %s", p)
		}
		w.createAs("create-2")
		w.until("the new cluster runs", 15*time.Minute, w.phase(cluster.PhaseRunning))
		w.send(events.TypeClusterDelete, "delete-1", &events.ClusterDelete{Cluster: key}) // late
		w.sleep(15 * time.Minute)
		if p := w.state().Phase; p != cluster.PhaseRunning {
			t.Fatalf("a late delete made the cluster %s", p)
		}
		if n := w.calls("compute.instanceGroupManagerResizeRequests.insert") - grants; n != 0 {
			t.Errorf("%d requests for jobs of the cluster that was deleted", n)
		}
		w.lively()
	})
}

// Creation waits for what a person has to make or mend, and goes on when that is done.
func TestCreationGoesOnWhenWhatWasMissingIsThere(t *testing.T) {
	in(t, "Filestore", func(w *world) {
		w.must(w.byHandFilestore(http.MethodDelete, ""))
		w.sleep(3 * time.Minute)
		w.create()
		w.until("it tells", 10*time.Minute, w.phase(cluster.PhaseError))
		w.makeHome()
		w.until("it runs", 30*time.Minute, w.phase(cluster.PhaseRunning))
	})
	for _, method := range []string{"compute.instanceTemplates.insert", "compute.disks.insert", "compute.instances.insert", "compute.instanceGroupManagers.insert",
		"compute.instanceGroupManagers.createInstances", "compute.networks.get", "secretmanager.*", "compute.instances.aggregatedList"} {
		for _, status := range thorough([]int{http.StatusForbidden}, http.StatusServiceUnavailable) {
			in(t, fmt.Sprint(method, " ", status), func(w *world) {
				before := w.total()
				w.cloud.FailNext(method, 1_000_000, status)
				w.create()
				w.sleep(time.Hour)
				if w.phase(cluster.PhaseRunning)(w.state()) && method != "compute.instances.aggregatedList" {
					w.t.Fatal("it runs although it cannot")
				}
				if n := w.total() - before; n > 1500 {
					w.dump()
					w.t.Errorf("%d calls in an hour", n)
				}
				w.cloud.ClearFaults()
				w.until("it runs", 45*time.Minute, w.phase(cluster.PhaseRunning))
				w.lively()
				remove(w)
			})
		}
	}
}

func (w *world) byHandFilestore(method, body string) error {
	r, err := http.NewRequestWithContext(w.ctx, method, "http://gcp.simulated/v1/projects/my-project/locations/us-central1-a/instances/home", strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := w.cloud.Transport().RoundTrip(r)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// A node that Slurm has drained or given up can be used again once its machine has been replaced or the capacity came.
func TestLaw12TheQueueIsKeptWhenSlurmLosesPatience(t *testing.T) {
	in(t, "", func(w *world) {
		w.patience = time.Hour
		w.dropped = func(c *events.SlurmCommand) bool { return c.Kind == string(cluster.CommandRefresh) }
		w.must(w.cloud.SetCapacity(zone, "a3-ultragpu-8g", 0))
		comeUp(w)
		id := w.submit(2, time.Minute)
		w.sleep(5 * time.Hour)
		if n := w.calls("compute.instanceGroupManagerResizeRequests.insert"); n != 1 {
			w.dump()
			t.Fatalf("%d resize requests were made for one job that waits", n)
		}
		w.must(w.cloud.SetCapacity(zone, "a3-ultragpu-8g", 2))
		w.until("the job ends well", time.Hour, func(*cluster.State) bool { return w.job(id).State == slurm.Completed })
		w.until("its nodes are given back", 20*time.Minute, noNodes)
		w.lively()
	})
}

// Requests that fail are made again after a pause that grows; the nodes can be used afterwards.
func TestLaw9FailedRequestsAreMadeAgainWithPauses(t *testing.T) {
	for name, code := range map[string]string{"stockout": "ZONE_RESOURCE_POOL_EXHAUSTED", "quota": "QUOTA_EXCEEDED", "configuration": "INVALID_USAGE", "internal": "INTERNAL_ERROR"} {
		in(t, name, func(w *world) {
			comeUp(w)
			w.must(w.cloud.FailNextRequests(18, code, "it cannot be"))
			id := w.submit(2, time.Minute)
			w.sleep(10 * time.Minute)
			before := w.calls(mutations()...)
			w.sleep(time.Hour)
			if n := w.calls(mutations()...) - before; n > 120 {
				w.dump()
				w.t.Errorf("%d mutations in an hour of failures", n)
			}
			w.until("the job ends well", 5*time.Hour, func(*cluster.State) bool { return w.job(id).State == slurm.Completed })
			w.until("its nodes are given back", 20*time.Minute, noNodes)
		})
	}
}

// Running work outlives the controller, and a lost login node comes back.
func TestAControllerThatIsLostComesBack(t *testing.T) {
	for fate, befall := range map[string]func(w *world, name string) error{
		"vanished":    func(w *world, name string) error { return w.cloud.Vanish(zone, name) },
		"powered off": func(w *world, name string) error { return w.cloud.PowerOff(zone, name) },
		"host failed": func(w *world, name string) error { return w.cloud.FailHost(zone, name) },
	} {
		for _, name := range []string{"flexvm-controller", "flexvm-login-0"} {
			in(t, name+" "+fate, func(w *world) {
				comeUp(w)
				first := w.machine(name).ID
				w.must(befall(w, name))
				w.until("it is back", 15*time.Minute, func(s *cluster.State) bool {
					sum, err := w.cloud.Summarize()
					w.must(err)
					for _, i := range sum.Instances {
						if i.Name == name && i.ID != first && i.Status == "RUNNING" {
							r := s.Resource(cluster.KindInstance, "controller")
							return r.Phase == cluster.ResourceReady && w.nodePhase("login", 0, cluster.Ready)(s)
						}
					}
					return false
				})
				w.lively()
			})
		}
	}
}

// Law 9: machines that come and never work are a failure like any other: the breaker opens, says why, and closes when they work.
func TestLaw9MachinesThatNeverWorkOpenTheBreaker(t *testing.T) {
	silent := func(gcp.Instance) string { return "silent" }
	for name, sick := range map[string]func(gcp.Instance) string{
		"their start-up fails":    func(gcp.Instance) string { return "the driver does not load" },
		"they are never heard of": silent,
	} {
		in(t, name, func(w *world) {
			comeUp(w)
			w.change(func() {
				w.sick = func(i gcp.Instance) string {
					if i.Metadata[bootstrap.KeyRole] != bootstrap.RoleCompute {
						return ""
					}
					return sick(i)
				}
				if name == "they are never heard of" {
					w.lost = func(typ string) bool { return typ == events.TypeNodeBoot }
				}
			})
			id := w.submit(2, time.Minute)
			w.sleep(20 * time.Minute)
			before := w.calls("compute.instanceGroupManagerResizeRequests.insert")
			w.sleep(4 * time.Hour)
			if n := w.calls("compute.instanceGroupManagerResizeRequests.insert") - before; n > 24 {
				w.dump()
				w.t.Errorf("machines were asked for %d times in four hours", n)
			}
			if b := w.state().Pools["a3u"].Breaker; b.Problem == nil {
				w.dump()
				w.t.Errorf("the breaker is %+v", b)
			}
			w.change(func() { w.sick, w.lost = nil, nil })
			w.until("the job ends well", 3*time.Hour, func(*cluster.State) bool { return w.job(id).State == slurm.Completed })
			w.until("its nodes are given back", 20*time.Minute, noNodes)
			if b := w.state().Pools["a3u"].Breaker; b.State != cluster.BreakerClosed {
				w.t.Errorf("the breaker is %+v", b)
			}
		})
	}
}

// A node whose slurmd is silent is replaced, and Slurm's word is needed for it.
func TestASilentNodeIsReplaced(t *testing.T) {
	in(t, "static", func(w *world) {
		comeUp(w, `"min_node_count": 0`, `"min_node_count": 2`)
		w.until("the static nodes are ready", 15*time.Minute, func(s *cluster.State) bool {
			return w.nodePhase("a3u", 0, cluster.Ready)(s) && w.nodePhase("a3u", 1, cluster.Ready)(s)
		})
		first, other := w.machine("flexvm-a3u-0").ID, w.machine("flexvm-a3u-1").ID
		w.slurmctld().Unregister("flexvm-a3u-0")
		w.until("it is replaced", 30*time.Minute, func(s *cluster.State) bool {
			n := s.Node(cluster.NodeID{Pool: "a3u"})
			return n.Phase == cluster.Ready && n.InstanceID != first && w.slurmctld().Nodes()[0].State == "IDLE"
		})
		if w.machine("flexvm-a3u-1").ID != other {
			w.t.Error("the other node was replaced, too")
		}
	})
}

// Law 8: nothing happens to nodes that are starting while the controller is not heard of.
func TestLaw8NodesThatStartOutlastALostController(t *testing.T) {
	in(t, "", func(w *world) {
		comeUp(w)
		w.submit(2, 0)
		w.until("machines start", 10*time.Minute, w.nodePhase("a3u", 0, cluster.Booting))
		first := w.machine("flexvm-a3u-0").ID
		w.cloud.FailNext("compute.instances.insert", 1_000_000, http.StatusServiceUnavailable)
		w.must(w.cloud.Vanish(zone, "flexvm-controller"))
		w.sleep(2 * time.Hour)
		if w.machine("flexvm-a3u-0").ID != first {
			w.dump()
			w.t.Error("it was replaced")
		}
	})
}

// Law 10: a person's drain outlives everything that we do.
func TestLaw10APersonsDrainOutlivesTheMachine(t *testing.T) {
	in(t, "", func(w *world) {
		comeUp(w, `"min_node_count": 0`, `"min_node_count": 1`)
		w.until("the static node is ready", 15*time.Minute, w.nodePhase("a3u", 0, cluster.Ready))
		id := w.submit(2, time.Minute) // the dynamic node has had a machine
		w.until("a job ends well", 30*time.Minute, func(*cluster.State) bool { return w.job(id).State == slurm.Completed })
		w.until("its node is given back", 20*time.Minute, w.nodePhase("a3u", 1, cluster.Absent))
		w.must(w.slurmctld().Drain([]string{"flexvm-a3u-0", "flexvm-a3u-1"}, "bad fan, ask Ada", "ada"))
		drained := func() {
			w.t.Helper()
			for _, n := range w.slurmctld().Nodes() {
				if !n.Flags.Has(cluster.FlagDrain) || n.Reason != "bad fan, ask Ada" {
					w.dump()
					w.t.Fatalf("node %s is %s, reason %q", n.Name, n.State, n.Reason)
				}
			}
		}
		w.sleep(20 * time.Minute)
		drained()
		first := w.machine("flexvm-a3u-0").ID
		w.must(w.cloud.Vanish(zone, "flexvm-a3u-0"))
		w.until("the static node is back", 15*time.Minute, func(s *cluster.State) bool {
			n := s.Node(cluster.NodeID{Pool: "a3u"})
			return n.Phase == cluster.Ready && n.InstanceID != first
		})
		w.sleep(20 * time.Minute)
		drained()
	})
}

// More jobs wait than resize requests may be active: each takes its turn.
func TestMoreRequestsThanMayBeActiveTakeTurns(t *testing.T) {
	in(t, "", func(w *world) {
		w.policy.ActiveRequests = 3
		w.restart()
		comeUp(w, `"max_node_count": 2`, `"max_node_count": 12`)
		w.must(w.cloud.SetCapacity(zone, "a3-ultragpu-8g", 0))
		var ids []int64
		for range 12 {
			ids = append(ids, w.submit(1, time.Minute))
		}
		w.sleep(20 * time.Minute)
		sum, err := w.cloud.Summarize()
		w.must(err)
		if n := len(sum.Requests); n != 3 {
			w.dump()
			w.t.Fatalf("%d requests are active, want 3", n)
		}
		w.must(w.cloud.SetCapacity(zone, "a3-ultragpu-8g", 12))
		for _, id := range ids {
			w.until("the job ends well", 2*time.Hour, func(*cluster.State) bool { return w.job(id).State == slurm.Completed })
		}
		w.until("all nodes are given back", 20*time.Minute, noNodes)
		onlyTheFrame(w)
	})
}

// Law 8: lists and looks that show yesterday's world cause nothing that cannot be mended, and all is well when they thaw.
func TestLaw8FrozenAnswersAreOutlived(t *testing.T) {
	for _, kind := range []string{"instances", "instanceGroupManagers", "managedInstances", "resizeRequests", "operations"} {
		for _, edits := range [][]string{nil, onDemand} {
			in(t, fmt.Sprint(kind, len(edits)), func(w *world) {
				comeUp(w, edits...)
				w.lively()
				w.must(w.cloud.Freeze(kind))
				id := w.submit(2, time.Minute)
				for range 12 {
					w.sleep(time.Minute)
					w.checkBounds()
				}
				w.must(w.cloud.Thaw(kind))
				w.until("the job ends well", 2*time.Hour, func(*cluster.State) bool { w.checkBounds(); return w.job(id).State == slurm.Completed })
				w.until("all nodes are given back", 40*time.Minute, noNodes)
				w.sleep(30 * time.Minute)
				w.nobodyWaits()
				remove(w)
			})
		}
	}
}

// A controller whose clock is wrong, by as much as Slurm itself can bear, is understood all the same.
func TestAControllerWithAWrongClockIsUnderstood(t *testing.T) {
	for _, skew := range []time.Duration{-2 * time.Minute, 20 * time.Second} {
		in(t, skew.String(), func(w *world) {
			w.skew = skew
			comeUp(w)
			w.lively()
			id := w.submit(2, 0)
			w.sleep(20 * time.Second)
			w.must(w.slurmctld().Cancel(id))
			w.until("everything is given back", 8*time.Minute, noNodes)
			id = w.submit(1, 0)
			w.until("the job runs", 20*time.Minute, w.running(id))
			w.must(w.cloud.Vanish(zone, "flexvm-a3u-0"))
			w.until("the job runs again", 20*time.Minute, func(*cluster.State) bool { return w.job(id).State == slurm.Running && w.job(id).Restarts == 1 })
			remove(w)
		})
	}
}
