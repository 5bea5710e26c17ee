package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// static is an edit of the spec that makes so many of the compute pool's nodes static.
func static(n int) func(string) string {
	return func(s string) string {
		s = strings.Replace(s, `"max_node_count": 2`, fmt.Sprintf(`"max_node_count": %d`, max(n, 2)), 1)
		return strings.Replace(s, `"min_node_count": 0`, fmt.Sprintf(`"min_node_count": %d`, n), 1)
	}
}

// ask has a job ask for a node.
func (w *world) ask(job int64, node string) Plan {
	w.t.Helper()
	return w.turn(time.Second, func(t *Turn) {
		t.Fold("r", &events.NodesResume{Cluster: key, Nodes: node, Time: w.now, Jobs: []events.ResumeJob{{ID: job, Nodes: node}}})
	})
}

// refuse answers intents of one kind with a problem, and all others with success.
func refuse[T cluster.Intent](w *world, plan Plan, p cluster.Problem) Plan {
	w.t.Helper()
	return w.turn(time.Second, func(t *Turn) {
		for _, i := range plan.Intents {
			o := w.answer(i)
			if _, ok := i.(T); ok {
				problem := p
				o.Problem = &problem
			}
			t.Settle(o)
		}
	})
}

// Thousands of nodes that change at once are asked for in requests of a size that the service takes, and told in few words.
func TestThousandsOfNodesAtOnceAreFewRequestsAndFewWords(t *testing.T) {
	w := running(t, static(9_000))
	w.settle(w.turn(time.Second, nil))
	a := w.s.Pools["a3u"].Allocations
	if len(a) != 9 || len(a[0].Nodes) != 1000 {
		t.Fatalf("%d allocations, want 9 of 1000 nodes each", len(a))
	}
	groups, vms := map[string]cluster.Group{}, []cluster.Instance{w.vm("flexvm-login-0", 2, "flexvm-login-group")}
	for i := range a {
		groups[a[i].Group] = cluster.Group{Found: true, Request: &cluster.Request{Found: true, State: "SUCCEEDED"}}
		for _, n := range a[i].Nodes {
			vms = append(vms, w.vm(fmt.Sprint("flexvm-a3u-", n), uint64(100+n), a[i].Group))
		}
	}
	w.turn(time.Second, func(t *Turn) { t.Observe(cluster.Observation{At: w.now, Groups: groups}) })
	plan := w.see(vms...)
	if n := w.node("a3u", 8999); n.Phase != cluster.Booting {
		t.Fatalf("node %+v", n)
	}
	if n := len(plan.Timeline); n > 50 {
		t.Errorf("%d lines tell that 9000 machines run", n)
	}
	if !w.said("its machine runs") || plan.Timeline[0].About != "flexvm-a3u-[0-8999]" {
		t.Errorf("the timeline says %+v", plan.Timeline[0])
	}
}

// Law 3: static nodes have records whatever other records there are.
func TestLaw3StaticNodesAreAskedForWhateverElseIsRecorded(t *testing.T) {
	w := running(t, func(s string) string {
		return strings.NewReplacer(`"min_node_count": 0`, `"min_node_count": 2`, `"max_node_count": 2`, `"max_node_count": 6`).Replace(s)
	})
	w.s.Nodes["a3u"], w.s.Pools["a3u"] = nil, &cluster.Pool{ID: "a3u"}
	w.ask(7, "flexvm-a3u-[3-5]")
	for i := range 2 {
		if n := w.node("a3u", i); n.Phase != cluster.Requested {
			t.Errorf("static node %d is %q", i, n.Phase)
		}
	}
}

// Law 9: a half-open breaker makes one attempt, however many jobs wait; what has worked for days is no attempt; and one that the
// service has accepted keeps nobody waiting.
func TestLaw9AHalfOpenBreakerMakesOneAttempt(t *testing.T) {
	w := running(t, static(1))
	w.settle(w.turn(time.Second, nil))
	w.granted("a3u")
	w.slurm(0, "", "IDLE", 0, 0)
	w.turn(time.Second, nil)
	if p := w.node("a3u", 0).Phase; p != cluster.Ready {
		t.Fatalf("node 0 is %q", p)
	}
	w.s.Spec.Pool("a3u").ScalingSpec.MaxNodeCount = 9
	w.s.Pools["a3u"].Breaker = cluster.Breaker{State: cluster.BreakerOpen, Failures: 3, Until: w.now.Add(time.Minute),
		Problem: &cluster.Problem{Class: cluster.Permission, Message: "no"}}
	for i := 1; i < 5; i++ {
		if p := w.ask(int64(i), fmt.Sprint("flexvm-a3u-", i)); len(intentsOf[cluster.CreateGroup](p)) != 0 {
			t.Fatal("something was asked for while the breaker was open")
		}
	}
	w.now = w.now.Add(time.Minute)
	plan := w.turn(0, nil)
	if n := len(intentsOf[cluster.CreateGroup](plan)); n != 1 {
		t.Fatalf("%d attempts, want one", n)
	}
	w.settle(plan)
	a := &w.s.Pools["a3u"].Allocations[1]
	if plan = w.turn(time.Second, nil); len(intentsOf[cluster.CreateGroup](plan)) != 0 {
		t.Error("a second attempt, while the first may still be refused")
	}
	plan = w.turn(time.Second, func(t *Turn) {
		t.Observe(cluster.Observation{At: w.now, Groups: map[string]cluster.Group{a.Group: {Found: true, Request: &cluster.Request{Found: true, State: "ACCEPTED"}}}})
	})
	if n := len(intentsOf[cluster.CreateGroup](plan)); n != 1 {
		t.Errorf("%d attempts after the first was accepted, want one", n)
	}
}

// Law 2: asking again while no answer has come is the same request; asking anew, after a refusal or for what has gone, is another.
func TestLaw2ARequestIDNamesOneAsking(t *testing.T) {
	w := running(t, nil)
	group := func(p Plan) string {
		t.Helper()
		g := intentsOf[cluster.CreateGroup](p)
		if len(g) != 1 {
			t.Fatalf("want a group asked for, got %v", p.Intents)
		}
		return g[0].ID
	}
	first := w.ask(7, "flexvm-a3u-0")
	again := w.turn(w.p.Retry, nil)
	if group(first) != group(again) {
		t.Error("asking again, without an answer, is another request")
	}
	refuse[cluster.CreateGroup](w, again, cluster.Problem{Class: cluster.Unknown, Message: "backend error"})
	if after := w.turn(w.p.RetryMax, nil); group(after) == group(again) {
		t.Error("asking after a refusal is the same request, which would be answered by the same refusal")
	}
}

// A controller that is lost after the program was changed is made from what is there.
func TestALostControllerIsMadeFromTheTemplateThatIsThere(t *testing.T) {
	w := running(t, nil)
	made := w.s.Resource(cluster.KindTemplate, roleController).Name
	w.p.Image, w.p.ControllerMachine = "another", "n2-standard-16" // a newer version of the program
	w.turn(time.Second, func(t *Turn) {
		t.Observe(cluster.Observation{At: w.now, Machines: map[string]*cluster.Instance{"flexvm-controller": nil}})
	})
	plan := w.turn(w.p.RetryMax, nil)
	got := intentsOf[cluster.EnsureInstance](plan)
	if len(got) != 1 || got[0].Template != made {
		t.Fatalf("the controller is made from %+v, want from %s", got, made)
	}
	// The template is gone as well: it is made again, as this version makes it, and then the controller.
	w.settle(refuse[cluster.EnsureInstance](w, plan, cluster.Problem{Class: cluster.NotFound, Message: "no such template"}))
	plan = w.turn(w.p.RetryMax, nil)
	if got = intentsOf[cluster.EnsureInstance](plan); len(got) != 1 || got[0].Template == made {
		t.Fatalf("the controller is made from %+v, want from another template than %s", got, made)
	}
}

// What a person removed from under a waiting job is asked for again, under another name.
func TestAResizeRequestThatSomeoneRemovedIsMadeAnew(t *testing.T) {
	w := running(t, nil)
	w.settle(w.ask(7, "flexvm-a3u-0"))
	a := *w.allocation("a3u")
	look := func(r cluster.Request) Plan {
		return w.turn(time.Minute, func(t *Turn) {
			t.Observe(cluster.Observation{At: w.now, Groups: map[string]cluster.Group{a.Group: {Found: true, Request: &r}}})
		})
	}
	look(cluster.Request{Found: true, State: "ACCEPTED"})
	plan := look(cluster.Request{})
	if d := intentsOf[cluster.DeleteGroup](plan); len(d) != 1 || d[0].Group != a.Group {
		t.Fatalf("want the group that is left removed, got %v", plan.Intents)
	}
	if g := intentsOf[cluster.CreateGroup](plan); len(g) != 1 || g[0].Group == a.Group {
		t.Errorf("want the node asked for anew, got %v", plan.Intents)
	}
}

// Law 9: nodes that Slurm finds silent are replaced a few at a time.
func TestLaw9SilentNodesAreReplacedAFewAtATime(t *testing.T) {
	w := running(t, static(2))
	w.settle(w.turn(time.Second, nil))
	w.granted("a3u")
	w.slurm(0, "", "IDLE", 0, 0, 1)
	w.turn(time.Second, nil)
	w.now = w.now.Add(time.Minute)
	silent := w.now
	snapshot := func(reason string) Plan {
		w.slurm(0, "", "DOWN", cluster.FlagNotResponding, 0, 1)
		for i := range w.s.Slurm.Nodes["a3u"] {
			w.s.Slurm.Nodes["a3u"][i].Reason, w.s.Slurm.Nodes["a3u"][i].ReasonAt = reason, silent
		}
		return w.turn(time.Second, nil)
	}
	if plan := snapshot(notResponding); len(intentsOf[cluster.DeleteInstances](plan)) != 0 {
		t.Fatal("deleted at once")
	}
	w.now = w.now.Add(w.p.SilentTimeout)
	if plan := snapshot("bad fan, Ada"); len(intentsOf[cluster.DeleteInstances](plan)) != 0 {
		t.Fatal("deleted although a person has set it down")
	}
	plan := snapshot(notResponding)
	if d := intentsOf[cluster.DeleteInstances](plan); len(d) != 1 || len(d[0].Instances) != 1 {
		t.Errorf("want one of two silent nodes replaced, got %v", plan.Intents)
	}
}

// A machine that another group made under a node's name is not the one that was asked for.
func TestLaw2AMachineOfAnotherGroupIsNotTheNodes(t *testing.T) {
	w := running(t, nil)
	w.settle(w.ask(7, "flexvm-a3u-0"))
	a := w.allocation("a3u")
	w.turn(time.Second, func(t *Turn) {
		t.Observe(cluster.Observation{At: w.now, Groups: map[string]cluster.Group{a.Group: {Found: true, Request: &cluster.Request{Found: true, State: "SUCCEEDED"}}}})
	})
	login := w.vm("flexvm-login-0", 2, "flexvm-login-group")
	w.see(login, w.vm("flexvm-a3u-0", 5, a.Group[:len(a.Group)-1]))
	if n := w.node("a3u", 0); n.Phase != cluster.Requested || n.InstanceID != 0 {
		t.Errorf("node %+v took another group's machine for its own", n)
	}
	if len(w.s.Orphans) != 1 {
		t.Errorf("orphans %+v, want the machine that nobody asked for", w.s.Orphans)
	}
	w.see(login, w.vm("flexvm-a3u-0", 6, a.Group))
	if n := w.node("a3u", 0); n.Phase != cluster.Booting || n.InstanceID != 6 {
		t.Errorf("node %+v, want its own machine", n)
	}
}

// Law 4: a snapshot that was begun before a hook's call, and ended after it, does not take the call back.
func TestLaw4ASnapshotThatOverlapsAHooksCallDoesNotTakeItBack(t *testing.T) {
	w := running(t, nil)
	plan := w.ask(7, "flexvm-a3u-0")
	w.now = w.now.Add(w.p.HookSlack / 2)
	w.slurm(0, "", "IDLE", cluster.FlagPoweringUp, 0) // its list of jobs was read before the job got its node
	w.turn(0, func(t *Turn) {
		for _, i := range plan.Intents {
			t.Settle(w.answer(i))
		}
	})
	if a := w.allocation("a3u"); a.Retired != "" {
		t.Errorf("the allocation was given up: %s", a.Retired)
	}
	w.now = w.now.Add(w.p.HookSlack)
	w.slurm(0, "", "IDLE", cluster.FlagPoweringUp, 0)
	w.turn(0, nil)
	if a := w.allocation("a3u"); a.Retired == "" {
		t.Error("the allocation of a job that has gone was not given up")
	}
}

// Law 7: what is said of a machine that stood behind a node's name before says nothing of the one that does now.
func TestLaw7ReportsOfAnotherMachineSayNothing(t *testing.T) {
	w := running(t, static(1))
	w.settle(w.turn(time.Second, nil))
	w.granted("a3u")
	w.slurm(0, "", "IDLE", 0, 0)
	w.turn(time.Second, nil)
	before := w.node("a3u", 0)
	if before.Phase != cluster.Ready || before.InstanceID != 100 {
		t.Fatalf("node %+v", before)
	}
	plan := w.turn(time.Second, func(t *Turn) {
		const other = 99
		t.Fold("h", &events.NodeHealth{Cluster: key, Node: "flexvm-a3u-0", InstanceID: other, Verdict: events.Broken, Check: "gpu.xid"})
		t.Fold("b", &events.NodeBoot{Cluster: key, Node: "flexvm-a3u-0", InstanceID: other, Reason: "no driver"})
		t.Fold("n", &events.NodeNotice{Cluster: key, Node: "flexvm-a3u-0", InstanceID: other, Notice: "preempted"})
		t.Fold("l", &events.InstanceLost{Cluster: key, Name: "flexvm-a3u-0", InstanceID: other, Method: "compute.instances.preempted"})
	})
	if n := w.node("a3u", 0); n != before || len(plan.Intents) != 0 {
		t.Errorf("node %+v became %+v, intents %v", before, n, plan.Intents)
	}
}

// Law 10: what a person set down stays down, also when its machine is gone; what we or slurmctld set down is given back.
func TestLaw10OnlyOurOwnWordIsTakenBackFromANodeWithoutAMachine(t *testing.T) {
	for reason, want := range map[string]cluster.CommandKind{
		"bad fan, Ada":           "",
		"":                       "",
		"convoke:repair gen=1 x": cluster.CommandResume,
		resumeTimedOut:           cluster.CommandResume,
	} {
		w := running(t, nil)
		w.s.EnsureNode(cluster.NodeID{Pool: "a3u"}).Generation = 1
		w.now = w.now.Add(time.Minute)
		w.slurm(0, "", "DOWN", cluster.FlagDrain|cluster.FlagPoweredDown, 0)
		w.s.Slurm.Nodes["a3u"][0].Reason = reason
		var got cluster.CommandKind
		for _, c := range intentsOf[cluster.Command](w.turn(time.Second, nil)) {
			got = c.Kind
		}
		if got != want {
			t.Errorf("reason %q: told %q, want %q", reason, got, want)
		}
	}
}

// Law 9: a pool has so many calls an hour, whatever goes wrong.
func TestLaw9APoolThatHasUsedUpItsCallsWaits(t *testing.T) {
	w := running(t, nil)
	p := w.s.Pool("a3u")
	p.Hour, p.Calls = w.now, w.p.CallsPerHour+w.p.CallsPerNode*2
	if plan := w.ask(7, "flexvm-a3u-0"); len(intentsOf[cluster.CreateGroup](plan)) != 0 || !w.said("calls within an hour") {
		t.Errorf("one call more: %v, log %v", plan.Intents, w.log)
	}
	w.slurm(7, "CONFIGURING", "IDLE", cluster.FlagPoweringUp, 0)
	if plan := w.turn(time.Hour, nil); len(intentsOf[cluster.CreateGroup](plan)) != 1 {
		t.Errorf("it does not go on an hour later: %v", plan.Intents)
	}
}

// Law 1: a cluster is deleted when a complete look, made after everything known was removed, finds nothing.
func TestLaw1ACompleteLastLookEndsADeletion(t *testing.T) {
	w := running(t, nil)
	w.turn(time.Second, func(t *Turn) { t.Fold("op-2", &events.ClusterDelete{Cluster: key}) })
	w.s.Nodes, w.s.Pools, w.s.Resources = map[string][]cluster.Node{}, map[string]*cluster.Pool{}, nil
	w.turn(time.Second, nil)
	if w.s.Phase != cluster.PhaseStopping {
		t.Fatalf("phase %s before the last look", w.s.Phase)
	}
	look := func(owned *cluster.Owned, instances map[string]cluster.Instance) Plan {
		return w.turn(5*time.Second, func(t *Turn) {
			if q := t.Query(); !q.Sweep || !q.Instances {
				w.t.Errorf("query %+v, want everything looked at", q)
			}
			t.Observe(cluster.Observation{At: w.now, Owned: owned, Instances: instances})
		})
	}
	look(nil, map[string]cluster.Instance{})
	plan := look(&cluster.Owned{Groups: []cluster.OwnedGroup{{Zone: "us-central1-a", Name: "left"}}}, map[string]cluster.Instance{})
	if d := intentsOf[cluster.DeleteGroup](plan); len(d) != 1 || w.s.Phase != cluster.PhaseStopping {
		t.Fatalf("want what is left removed: phase %s, intents %v", w.s.Phase, plan.Intents)
	}
	plan = look(&cluster.Owned{}, map[string]cluster.Instance{})
	if w.s.Phase != cluster.PhaseDeleted || !plan.Look.IsZero() {
		t.Errorf("phase %s, next look %s", w.s.Phase, plan.Look)
	}
}

// Law 1: a machine of ours that no record needs is left alone for the orphan age, and then removed.
func TestLaw1AMachineThatNobodyNeedsIsRemoved(t *testing.T) {
	w := running(t, nil)
	w.s.EnsureNode(cluster.NodeID{Pool: "a3u"}) // it is known, and absent
	login, orphan := w.vm("flexvm-login-0", 2, "flexvm-login-group"), w.vm("flexvm-a3u-0", 5, "flexvm-a3u-group")
	for range 4 {
		if plan := w.see(login, orphan); len(intentsOf[cluster.DeleteInstances](plan)) != 0 {
			t.Fatalf("removed before the orphan age: %v", plan.Intents)
		}
	}
	w.now = w.now.Add(w.p.OrphanAge)
	if d := intentsOf[cluster.DeleteInstances](w.see(login, orphan)); len(d) != 1 || d[0].Instances[0] != orphan.Name {
		t.Errorf("want it removed, got %v", d)
	}
}

// The pool's own group is removed once with its cluster, however many allocations have machines in it.
func TestLaw9APoolsGroupIsRemovedOnce(t *testing.T) {
	w := running(t, func(s string) string {
		return strings.NewReplacer(`"provisioning_model": "FLEX_START",`, `"provisioning_model": "ON_DEMAND",`, `"flex_start_max_duration": "604800s",`, "").Replace(s)
	})
	w.settle(w.ask(7, "flexvm-a3u-0"))
	w.settle(w.ask(8, "flexvm-a3u-1"))
	plan := w.turn(time.Second, func(t *Turn) { t.Fold("op-2", &events.ClusterDelete{Cluster: key}) })
	groups := map[string]int{}
	for _, d := range intentsOf[cluster.DeleteGroup](plan) {
		groups[d.Group]++
	}
	if len(groups) != 2 || groups["flexvm-a3u-group"] != 1 {
		t.Errorf("groups are removed %v times", groups)
	}
}

// Law 5: a machine that still works is drained, and deleted when nothing runs on it any more.
func TestLaw5ADegradedMachineIsDeletedAfterItsWork(t *testing.T) {
	w := running(t, nil)
	w.settle(w.ask(7, "flexvm-a3u-0"))
	w.granted("a3u")
	w.slurm(7, "RUNNING", "ALLOCATED", 0, 0)
	w.turn(time.Second, nil)
	plan := w.turn(time.Second, func(t *Turn) {
		t.Fold("h", &events.NodeHealth{Cluster: key, Node: "flexvm-a3u-0", InstanceID: 100, Verdict: events.Degraded, Check: "ib.link"})
	})
	if c := intentsOf[cluster.Command](plan); len(c) != 1 || c[0].Kind != cluster.CommandDrain {
		t.Fatalf("want the node drained, got %v", plan.Intents)
	}
	for range 50 {
		w.now = w.now.Add(time.Hour)
		w.slurm(7, "RUNNING", "ALLOCATED", cluster.FlagDrain, 0)
		if plan = w.turn(time.Second, nil); len(intentsOf[cluster.DeleteInstances](plan)) != 0 {
			t.Fatal("deleted with a job on it")
		}
	}
	w.slurm(7, "COMPLETING", "ALLOCATED", cluster.FlagDrain|cluster.FlagCompleting, 0)
	if plan = w.turn(time.Second, nil); len(intentsOf[cluster.DeleteInstances](plan)) != 0 {
		t.Fatal("deleted while its job was completing")
	}
	w.slurm(0, "", "IDLE", cluster.FlagDrain, 0)
	if plan = w.turn(time.Second, nil); len(intentsOf[cluster.DeleteInstances](plan)) != 1 {
		t.Errorf("want it deleted now, got %v", plan.Intents)
	}
}

// Law 12: while a request waits, Slurm's power-up clock is refreshed, for the nodes that a job waits for.
func TestLaw12TheClockOfWaitingNodesIsRefreshed(t *testing.T) {
	w := running(t, nil)
	w.settle(w.ask(7, "flexvm-a3u-0"))
	refreshed := 0
	for range 24 {
		w.now = w.now.Add(time.Hour)
		w.slurm(7, "CONFIGURING", "ALLOCATED", cluster.FlagPoweringUp, 0)
		for _, c := range intentsOf[cluster.Command](w.turn(0, nil)) {
			if c.Kind != cluster.CommandRefresh || len(c.Nodes) != 1 {
				t.Fatalf("told %+v", c)
			}
			refreshed++
		}
	}
	if want := int(24 * time.Hour / w.p.RefreshEvery); refreshed < want-1 || refreshed > want {
		t.Errorf("refreshed %d times in a day, want %d", refreshed, want)
	}
}

// Law 1: what is still being made when the cluster is deleted is removed when it is there.
func TestLaw1WhatIsBeingMadeIsRemovedWhenItIsThere(t *testing.T) {
	w := running(t, nil)
	disk := w.s.Resource(cluster.KindDisk, roleController)
	disk.Phase, disk.Operation, disk.Since, disk.Look = cluster.ResourceCreating, "projects/p/zones/z/operations/o", w.now, time.Time{}
	w.turn(time.Second, func(t *Turn) { t.Fold("op-2", &events.ClusterDelete{Cluster: key}) })
	w.s.Nodes, w.s.Pools, w.s.Resources = map[string][]cluster.Node{}, map[string]*cluster.Pool{}, []cluster.Resource{*disk}
	if plan := w.turn(time.Second, nil); len(intentsOf[cluster.Remove](plan)) != 0 || plan.Look.IsZero() {
		t.Fatalf("want its making followed to the end first, got %v, next look %s", plan.Intents, plan.Look)
	}
	plan := w.turn(time.Minute, func(t *Turn) {
		t.Observe(cluster.Observation{At: w.now, Operations: map[string]cluster.OperationView{"projects/p/zones/z/operations/o": {Found: true, Done: true}}})
	})
	if len(intentsOf[cluster.Remove](plan)) != 1 {
		t.Errorf("want it removed, got %v", plan.Intents)
	}
}

// What Slurm said of an earlier cluster of the same name says nothing of this one.
func TestASnapshotOfAnEarlierClusterIsNotBelieved(t *testing.T) {
	w := running(t, nil)
	w.slurm(7, "RUNNING", "ALLOCATED", 0, 0, 1)
	w.s.Slurm.Taken = w.s.Created.Add(-time.Minute)
	if plan := w.turn(time.Second, nil); len(intentsOf[cluster.CreateGroup](plan)) != 0 {
		t.Errorf("machines were asked for: %v", plan.Intents)
	}
}

// Law 2: capacity that comes after its request was cancelled keeps the names of its nodes until its group is gone.
func TestLaw2ANameIsTakenUntilTheGroupOfItsMachineIsGone(t *testing.T) {
	w := running(t, nil)
	w.settle(w.ask(7, "flexvm-a3u-0"))
	group := w.allocation("a3u").Group
	look := func(g cluster.Group) Plan {
		return w.turn(time.Minute, func(t *Turn) { t.Observe(cluster.Observation{At: w.now, Groups: map[string]cluster.Group{group: g}}) })
	}
	w.now = w.now.Add(time.Minute)
	w.slurm(0, "", "IDLE", cluster.FlagPoweredDown, 0) // the job is cancelled
	if plan := w.turn(0, nil); len(intentsOf[cluster.CancelRequest](plan)) != 1 {
		t.Fatalf("want the request cancelled, got %v", plan.Intents)
	}
	plan := look(cluster.Group{Found: true, Request: &cluster.Request{Found: true, State: "SUCCEEDED"}})
	if len(intentsOf[cluster.DeleteGroup](plan)) != 1 {
		t.Fatalf("want the group removed with the machine that came too late, got %v", plan.Intents)
	}
	if plan = w.ask(8, "flexvm-a3u-0"); len(intentsOf[cluster.CreateGroup](plan)) != 0 {
		t.Fatal("another machine of the name was asked for while the first may be there")
	}
	if plan = look(cluster.Group{}); len(intentsOf[cluster.CreateGroup](plan)) != 1 {
		t.Errorf("want the node asked for now, got %v", plan.Intents)
	}
}

// Law 8: what Slurm said long ago, or before a node came into its phase, says nothing about it.
func TestLaw8OldWordsOfSlurmCauseNothing(t *testing.T) {
	w := running(t, static(1))
	w.settle(w.turn(time.Second, nil))
	w.granted("a3u")
	w.slurm(0, "", "IDLE", 0, 0)
	w.turn(time.Second, nil)

	// A drained node is seen empty, and nobody decides until that is old.
	w.turn(time.Second, func(t *Turn) {
		t.Fold("h", &events.NodeHealth{Cluster: key, Node: "flexvm-a3u-0", InstanceID: 100, Verdict: events.Degraded, Check: "ib.link"})
	})
	w.now = w.now.Add(time.Second)
	w.slurm(0, "", "IDLE", cluster.FlagDrain, 0)
	if plan := w.turn(2*w.p.SnapshotStale, nil); len(intentsOf[cluster.DeleteInstances](plan)) != 0 {
		t.Error("deleted on a word that is ten minutes old")
	}

	// Its machine is lost; what Slurm said before does not make it lost again.
	w.slurm(0, "", "IDLE", 0, 0)
	w.settle(w.turn(time.Second, func(t *Turn) {
		t.Observe(cluster.Observation{At: w.now, Machines: map[string]*cluster.Instance{"flexvm-a3u-0": nil}})
	}))
	if plan := w.turn(w.p.TellEvery+time.Second, nil); len(intentsOf[cluster.Command](plan)) != 0 {
		t.Errorf("Slurm is told of it again: %v", plan.Intents)
	}

	// Its group is gone, and its new machine runs; that Slurm has the old one up does not make it ready.
	old := w.allocation("a3u").Group
	w.turn(time.Second, func(t *Turn) { t.Observe(cluster.Observation{At: w.now, Groups: map[string]cluster.Group{old: {}}}) })
	w.granted("a3u")
	n := w.node("a3u", 0)
	w.slurm(0, "", "IDLE", 0, 0)
	w.s.Slurm.Nodes["a3u"][0].Booted = n.Created.Add(-time.Hour)
	w.turn(time.Second, nil)
	if n = w.node("a3u", 0); n.Phase != cluster.Booting {
		t.Errorf("node %+v, want booting until its own slurmd has registered", n)
	}
}

// Law 4: a call of the hook that names no job asks for nothing, and one that gives a node back does not take it from a job.
func TestLaw4HooksThatMeanNothingCauseNothing(t *testing.T) {
	w := running(t, nil)
	plan := w.turn(time.Second, func(t *Turn) {
		t.Fold("r", &events.NodesResume{Cluster: key, Nodes: "flexvm-a3u-[0-1]", Time: w.now}) // Slurm's own repetition
	})
	if len(plan.Intents) != 0 {
		t.Errorf("machines for nobody: %v", plan.Intents)
	}
	w.s.EnsureNode(cluster.NodeID{Pool: "a3u"}).Generation = 1
	w.now = w.now.Add(time.Minute)
	w.slurm(7, "CONFIGURING", "ALLOCATED", cluster.FlagPoweringUp, 0)
	plan = w.turn(time.Second, func(t *Turn) {
		t.Fold("s", &events.NodesSuspend{Cluster: key, Nodes: "flexvm-a3u-0", Time: w.now})
	})
	if len(plan.Intents) != 0 {
		t.Errorf("a node that a job holds is given back: %v", plan.Intents)
	}
}
