package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/bootstrap"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
	"github.com/convoke-hpc/convoke/shared/sim/slurm"
)

const specJSON = `{
  "name": "projects/team-train/locations/us-central1/modelDevelopmentClusters/c1",
  "network": {"network": "projects/team-train/global/networks/default"},
  "nodePools": [
    {"id": "login", "machineSpec": {"machineType": "n2-standard-8"}, "provisioningModel": "ON_DEMAND",
     "scalingSpec": {"minNodeCount": 1, "maxNodeCount": 1}, "zone": "us-central1-a", "bootDisk": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100}},
    {"id": "a3u", "machineSpec": {"machineType": "a3-ultragpu-8g", "acceleratorType": "NVIDIA_H200_141GB", "acceleratorCount": 8},
     "provisioningModel": "FLEX_START", "flexStartMaxDuration": "604800s", "scalingSpec": {"minNodeCount": 1, "maxNodeCount": 4},
     "zone": "us-central1-a", "bootDisk": {"bootDiskType": "hyperdisk-balanced", "bootDiskSizeGb": 400}}
  ],
  "orchestratorSpec": {"slurmSpec": {"homeDirectoryStorage": "projects/team-train/locations/us-central1-a/instances/home",
    "loginNodePoolId": "login", "partitions": [{"id": "a3u", "nodePoolIds": ["a3u"]}]}}
}`

// stage is a few VMs under a script.
type stage struct {
	*testing.T
	*Guests
	key    cluster.Key
	bus    *Memory
	folder string
	lastID uint64
	repeat time.Duration
	vms    map[string]gcp.Instance

	mu      sync.Mutex
	heard   []*events.Event
	offline bool
}

func play(t *testing.T, script func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour) // the bubble's first moment is one that events do not believe in
		s := &stage{T: t, key: cluster.Key{Project: "team-train", Location: "us-central1", ID: "c1"}, vms: map[string]gcp.Instance{}, repeat: 24 * time.Hour}
		s.bus = &Memory{Deliver: s.deliver}
		s.open()
		defer func() { s.Close() }()
		script(s)
	})
}

func (s *stage) open() {
	s.Helper()
	timing := slurm.DefaultTiming()
	timing.ResumeTimeout = 20 * time.Minute
	g, err := New(Options{
		Publisher: s.bus, Commands: s.bus, Folder: s.folder, Timing: &timing, Repeat: s.repeat,
		Delays: &Delays{Controller: 40 * time.Second, Login: 30 * time.Second, Compute: time.Minute},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		s.Fatal(err)
	}
	s.Guests = g
}

func (s *stage) deliver(_ context.Context, topic string, e *events.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.offline {
		return errors.New("the network is down")
	}
	if topic != events.TopicSlurm {
		s.Errorf("%s was published to %s", e.Type, topic)
	}
	s.heard = append(s.heard, e)
	return nil
}

// run starts a VM.
func (s *stage) run(name, role string) {
	s.lastID++
	i := gcp.Instance{Name: name, ID: s.lastID, Status: "RUNNING", GPUs: 8, Metadata: map[string]string{
		bootstrap.KeyCluster: s.key.String(), bootstrap.KeyUID: "u1", bootstrap.KeyRole: role,
	}}
	if role == bootstrap.RoleController {
		i.Metadata[bootstrap.KeySpec] = specJSON
	}
	s.vms[name] = i
	s.InstanceRunning(s.Context(), i)
}

// gone ends a VM.
func (s *stage) gone(name string) {
	i := s.vms[name]
	i.Status, i.Reason = "TERMINATED", "delete"
	s.InstanceGone(s.Context(), i)
}

func (s *stage) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expectHeard checks what was published since the last check, in any order, without snapshots.
func (s *stage) expectHeard(want ...string) {
	s.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var got []string
	for _, e := range s.heard {
		switch p := e.Payload.(type) {
		case *events.NodeBoot:
			got = append(got, fmt.Sprintf("%s boot %v %s", p.Node, p.OK, p.Reason))
		case *events.NodeHealth:
			got = append(got, fmt.Sprintf("%s %s %s %s", p.Node, p.Verdict, p.Check, p.Evidence))
		case *events.NodeNotice:
			got = append(got, fmt.Sprintf("%s %s", p.Node, p.Notice))
		case *events.SlurmSnapshot:
		default:
			got = append(got, e.Type)
		}
	}
	s.heard = nil
	slices.Sort(got)
	slices.Sort(want)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		s.Fatalf("heard:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (s *stage) slurm() *slurm.Controller {
	s.Helper()
	c, ok := s.Slurm(s.key)
	if !ok {
		s.Fatal("slurmctld does not run")
	}
	return c
}

func (s *stage) expectNode(name, want string) {
	s.Helper()
	if n, _ := s.slurm().Node(name); n.String() != want {
		s.Fatalf("%s is %s, want %s", name, n, want)
	}
}

func TestAClusterBoots(t *testing.T) {
	play(t, func(s *stage) {
		s.run("c1-a3u-0", bootstrap.RoleCompute)
		s.after(10 * time.Second)
		s.run("c1-login-0", bootstrap.RoleLogin)
		s.after(30 * time.Second)
		s.run("c1-controller", bootstrap.RoleController)
		s.after(20 * time.Second)
		// The node is there before its controller, and keeps trying.
		s.expectHeard("c1-login-0 boot true ", "c1-a3u-0 boot true ")
		s.after(20 * time.Second)
		s.expectHeard("c1-controller boot true ")
		s.expectNode("c1-a3u-0", "IDLE+CLOUD")
		s.expectNode("c1-a3u-1", "IDLE+CLOUD+POWERED_DOWN")

		if _, err := s.slurm().Submit(slurm.JobSpec{Nodes: 2, RunFor: time.Hour}); err != nil {
			t.Fatal(err)
		}
		s.after(time.Second)
		s.expectHeard(events.TypeNodesResume)
		s.run("c1-a3u-1", bootstrap.RoleCompute)
		s.after(2 * time.Minute)
		s.expectNode("c1-a3u-1", "MIXED+CLOUD")
		if j, _ := s.slurm().Job(1); j.State != slurm.Running {
			t.Errorf("the job is %s", j.State)
		}
	})
}

func TestAMachineThatIsNotOursIsLeftToItself(t *testing.T) {
	play(t, func(s *stage) {
		i := gcp.Instance{Name: "bastion", ID: 7}
		s.InstanceRunning(t.Context(), i)
		s.InstanceChanged(t.Context(), i)
		s.after(time.Hour)
		s.InstanceGone(t.Context(), i)
		s.expectHeard()
	})
}

func TestAVMThatGoesTakesItsSlurmdAlong(t *testing.T) {
	play(t, func(s *stage) {
		s.run("c1-controller", bootstrap.RoleController)
		s.run("c1-a3u-0", bootstrap.RoleCompute)
		s.run("c1-a3u-1", bootstrap.RoleCompute)
		s.after(30 * time.Second)
		s.gone("c1-a3u-1") // while it boots
		s.after(time.Minute)
		s.expectHeard("c1-controller boot true ", "c1-a3u-0 boot true ")
		s.gone("c1-a3u-0")
		s.expectNode("c1-a3u-0", "IDLE+CLOUD") // nobody has told slurmctld
		s.after(10 * time.Minute)
		s.expectNode("c1-a3u-0", "DOWN+CLOUD+NOT_RESPONDING")
		s.run("c1-a3u-0", bootstrap.RoleCompute)
		s.after(time.Minute)
		s.expectNode("c1-a3u-0", "IDLE+CLOUD")
	})
}

func TestTheControllersDiskOutlivesItsVM(t *testing.T) {
	for _, onDisk := range []bool{false, true} {
		t.Run(fmt.Sprint("on disk ", onDisk), func(t *testing.T) {
			folder := ""
			if onDisk {
				folder = t.TempDir()
			}
			play(t, func(s *stage) {
				s.Close()
				s.folder = folder
				s.open()
				s.run("c1-controller", bootstrap.RoleController)
				s.run("c1-a3u-0", bootstrap.RoleCompute)
				s.after(2 * time.Minute)
				if _, err := s.slurm().Submit(slurm.JobSpec{RunFor: time.Hour}); err != nil {
					t.Fatal(err)
				}
				s.gone("c1-controller")
				if _, running := s.Slurm(s.key); running {
					t.Error("slurmctld runs without a machine")
				}
				s.after(10 * time.Minute)
				s.run("c1-a3u-1", bootstrap.RoleCompute)
				s.run("c1-controller", bootstrap.RoleController)
				s.after(10 * time.Minute)
				s.expectNode("c1-a3u-0", "MIXED+CLOUD") // its slurmd answered the new slurmctld
				if j, _ := s.slurm().Job(1); j.State != slurm.Running || j.Restarts != 0 {
					t.Errorf("the job is %s after %d restarts", j.State, j.Restarts)
				}
				if onDisk {
					s.restart()
				}
			})
		})
	}
}

// restart ends the whole process and starts it on the same folder.
func (s *stage) restart() {
	s.Helper()
	s.Close()
	s.open()
	for name, i := range s.vms {
		i.Resumed = true
		s.vms[name] = i
		s.InstanceRunning(s.Context(), i)
	}
	s.after(10 * time.Minute)
	s.expectNode("c1-a3u-0", "MIXED+CLOUD")
	if j, _ := s.slurm().Job(1); j.State != slurm.Running || j.Restarts != 0 {
		s.Errorf("the job is %s after %d restarts", j.State, j.Restarts)
	}
	// A new incarnation of the cluster starts from nothing, and leaves nothing of the old one.
	s.gone("c1-controller")
	i := s.vms["c1-controller"]
	i.ID, i.Resumed = 999, false
	i.Metadata[bootstrap.KeyUID] = "u2"
	s.InstanceRunning(s.Context(), i)
	s.after(time.Minute)
	if jobs := s.slurm().Jobs(); len(jobs) != 0 {
		s.Errorf("it has the jobs %v", jobs)
	}
	files, err := os.ReadDir(s.folder)
	if err != nil || len(files) != 1 {
		s.Errorf("%v on disk, %v", files, err)
	}
}

func TestANewSlurmctldDoesNotHearOfNodesItPoweredDown(t *testing.T) {
	play(t, func(s *stage) {
		s.run("c1-controller", bootstrap.RoleController)
		s.run("c1-a3u-1", bootstrap.RoleCompute)
		s.after(time.Minute + 5*time.Minute + 2*time.Minute) // boot, SuspendTime, SuspendTimeout
		s.expectNode("c1-a3u-1", "IDLE+CLOUD+POWERED_DOWN")
		s.gone("c1-controller")
		s.run("c1-controller", bootstrap.RoleController)
		s.after(time.Minute)
		s.expectNode("c1-a3u-1", "IDLE+CLOUD+POWERED_DOWN") // slurmd registers once in its life
	})
}

func TestABadSpecIsReported(t *testing.T) {
	play(t, func(s *stage) {
		s.InstanceRunning(t.Context(), gcp.Instance{Name: "c1-controller", ID: 5, Metadata: map[string]string{
			bootstrap.KeyCluster: s.key.String(), bootstrap.KeyRole: bootstrap.RoleController, bootstrap.KeySpec: "{",
		}})
		s.after(time.Hour)
		s.expectHeard("c1-controller boot false reading the spec from metadata convoke-spec, unexpected end of JSON input")
	})
}

func TestFaultsOfAStartUp(t *testing.T) {
	play(t, func(s *stage) {
		s.run("c1-controller", bootstrap.RoleController)
		s.after(time.Minute)
		for _, f := range []Fault{
			{Node: "c1-a3u-0", Kind: NeverBoots},
			{Node: "c1-a3u-1", Kind: SlowBoot, Times: 1},
			{Node: "c1-a3u-2", Kind: BootFails, Reason: "GPU 3 has fallen off the bus", Times: 1},
			{Node: "c1-a3u-3", Kind: FewerGPUs, Times: 1},
		} {
			if err := s.Inject(s.key, f); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 4 {
			s.run(fmt.Sprintf("c1-a3u-%d", i), bootstrap.RoleCompute)
		}
		s.after(time.Minute)
		s.expectHeard("c1-controller boot true ", "c1-a3u-2 boot false GPU 3 has fallen off the bus", "c1-a3u-3 boot true ")
		s.expectNode("c1-a3u-2", "IDLE+CLOUD+POWERED_DOWN")
		s.expectNode("c1-a3u-3", "IDLE+CLOUD+DRAIN+INVALID_REG")
		if n, _ := s.slurm().Node("c1-a3u-3"); n.Reason != "gres/gpu count reported lower than configured (0 < 8)" {
			t.Errorf("reason %q", n.Reason)
		}
		s.after(time.Hour)
		s.expectHeard(events.TypeNodesSuspend, "c1-a3u-1 boot true ")

		// The next machine of that name is a sound one, but for the fault that stays.
		s.gone("c1-a3u-0")
		s.gone("c1-a3u-2")
		s.run("c1-a3u-0", bootstrap.RoleCompute)
		s.run("c1-a3u-2", bootstrap.RoleCompute)
		s.after(time.Minute)
		s.expectHeard("c1-a3u-2 boot true ")
		if f := s.Faults(s.key); len(f) != 1 || f[0].Node != "c1-a3u-0" {
			t.Errorf("faults %v", f)
		}
		s.Clear(s.key, "c1-a3u-0")
		s.gone("c1-a3u-0")
		s.run("c1-a3u-0", bootstrap.RoleCompute)
		s.after(time.Minute)
		s.expectHeard("c1-a3u-0 boot true ")

		if err := s.Inject(s.key, Fault{Node: "c1-a3u-0", Kind: "tired"}); !errors.Is(err, ErrFault) {
			t.Errorf("%v", err)
		}
		if err := s.Inject(s.key, Fault{Node: "c2-a3u-0", Kind: SlowBoot}); err == nil {
			t.Error("a fault was set on another cluster's machine")
		}
	})
}

func TestWhatRunningMachinesReport(t *testing.T) {
	play(t, func(s *stage) {
		s.run("c1-controller", bootstrap.RoleController)
		s.run("c1-a3u-0", bootstrap.RoleCompute)
		s.after(time.Minute)
		s.expectHeard("c1-controller boot true ", "c1-a3u-0 boot true ")
		if err := s.Report(s.key, "c1-a3u-0", events.Broken, "gpu.xid", "Xid 79"); err != nil {
			t.Error(err)
		}
		s.expectHeard("c1-a3u-0 broken gpu.xid Xid 79")
		if err := s.Report(s.key, "c1-a3u-0", "unwell", "", ""); err == nil {
			t.Error("a verdict that does not exist was reported")
		}
		if err := s.Report(s.key, "c1-a3u-1", events.Broken, "", ""); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%v", err)
		}

		i := s.vms["c1-a3u-0"]
		i.Maintenance = `{"windowStartTime": "2000-01-02T00:00:00Z"}`
		s.InstanceChanged(t.Context(), i)
		synctest.Wait()
		if at := s.heard[0].Payload.(*events.NodeNotice).At; !at.Equal(time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("the maintenance begins at %s", at)
		}
		s.expectHeard("c1-a3u-0 maintenance")
		i.Preempted = true
		s.InstanceChanged(t.Context(), i)
		s.InstanceChanged(t.Context(), i) // told once
		s.expectHeard("c1-a3u-0 preempted")

		if err := s.Hang(s.key, "c1-a3u-0"); err != nil {
			t.Error(err)
		}
		s.after(10 * time.Minute)
		s.expectNode("c1-a3u-0", "DOWN+CLOUD+NOT_RESPONDING")
		if err := s.Revive(s.key, "c1-a3u-0"); err != nil {
			t.Error(err)
		}
		s.expectNode("c1-a3u-0", "IDLE+CLOUD")
	})
}

// Nothing but its own word tells that a login node or a controller is up, so a word that is lost is said again.
func TestControllersAndLoginNodesSayAgainThatTheyAreUp(t *testing.T) {
	play(t, func(s *stage) {
		s.Close()
		s.repeat = time.Minute
		s.open()
		s.run("c1-controller", bootstrap.RoleController)
		s.run("c1-login-0", bootstrap.RoleLogin)
		s.run("c1-a3u-0", bootstrap.RoleCompute)
		s.after(2*time.Minute + 50*time.Second)
		s.mu.Lock()
		ids := map[string]bool{}
		for _, e := range s.heard {
			ids[e.ID] = true
		}
		if len(ids) != len(s.heard) {
			t.Errorf("%d reports under %d ids", len(s.heard), len(ids))
		}
		s.mu.Unlock()
		const controller, login = "c1-controller boot true ", "c1-login-0 boot true "
		s.expectHeard(controller, controller, controller, login, login, login, "c1-a3u-0 boot true ")
		s.gone("c1-login-0")
		s.after(time.Minute)
		s.expectHeard(controller)
	})
}

func TestReportsOutliveTheNetworkButNotTheMachine(t *testing.T) {
	play(t, func(s *stage) {
		s.offline = true
		s.run("c1-a3u-0", bootstrap.RoleCompute)
		s.run("c1-a3u-1", bootstrap.RoleCompute)
		s.after(10 * time.Minute)
		s.gone("c1-a3u-1")
		s.mu.Lock()
		s.offline = false
		s.mu.Unlock()
		s.after(time.Minute)
		if id := s.heard[0].ID; id != "boot-1-946688460000" { // of the first try
			t.Errorf("id %s", id)
		}
		s.expectHeard("c1-a3u-0 boot true ")
	})
}

func TestCommandsReachTheController(t *testing.T) {
	play(t, func(s *stage) {
		s.bus.Send(&events.SlurmCommand{Cluster: s.key, ID: "early", Kind: "drain", Nodes: "c1-a3u-0", Reason: "convoke:x", Time: time.Now()})
		s.run("c1-controller", bootstrap.RoleController)
		s.after(time.Minute)
		s.bus.Send(&events.SlurmCommand{Cluster: s.key, ID: "late", Kind: "resume", Nodes: "c1-a3u-0", Reason: "convoke:x", Time: time.Now()})
		s.after(time.Second)
		s.expectHeard("c1-controller boot true ", events.TypeCommandDone, events.TypeCommandDone)
		s.expectNode("c1-a3u-0", "IDLE+CLOUD+POWERED_DOWN")
	})
}

func TestControl(t *testing.T) {
	play(t, func(s *stage) {
		h := s.Handler()
		call := func(method, path, body string) (int, string) {
			t.Helper()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, "/sim/slurm/"+path, strings.NewReader(body)))
			answer, _ := io.ReadAll(w.Result().Body)
			return w.Code, strings.TrimSpace(string(answer))
		}
		expect := func(method, path, body string, code int, answer string) {
			t.Helper()
			if c, a := call(method, path, body); c != code || a != answer {
				t.Errorf("%s %s %s: %d %s, want %d %s", method, path, body, c, a, code, answer)
			}
		}
		expect("GET", "", "", 200, "[]")
		expect("GET", "c1/jobs", "", 404, `{"error":"controller of cluster \"c1\": no such machine runs"}`)
		s.run("c1-controller", bootstrap.RoleController)
		s.run("c1-a3u-0", bootstrap.RoleCompute)
		s.after(2 * time.Minute)
		expect("GET", "", "", 200, `[{"project":"team-train","location":"us-central1","id":"c1"}]`)
		expect("POST", "c1/submit", `{"count": 2, "runFor": "1h", "timeLimit": "2h", "user": "alice", "name": "train"}`, 200, `{"job":1}`)
		expect("POST", s.key.Doc()+"/submit", `{"nodes": "c1-a3u-0"}`, 200, `{"job":2}`)
		expect("GET", "c1/squeue", "", 200, strings.TrimSpace(s.slurm().Squeue()))
		expect("GET", "c1/sinfo", "", 200, strings.TrimSpace(s.slurm().Sinfo()))
		expect("POST", "c1/cancel", `{"job": 2}`, 200, `{}`)
		expect("POST", "c1/cancel", `{"job": 2}`, 409, `{"error":"cancelling job 2: Job/step already completing or completed"}`)
		expect("POST", "c1/submit", `{"partition": "gpu"}`, 409, `{"error":"submitting: partition \"gpu\": Invalid partition name specified"}`)
		expect("POST", "c1/submit", `{"nodes": "c1-a3u-["}`, 400, `{"error":"nodes \"c1-a3u-[\" cannot be read: hostlist \"c1-a3u-[\", character 9: a number is missing"}`)
		expect("POST", "c1/submit", `{"runFor": "forever"}`, 400, `{"error":"the request cannot be read: time: invalid duration \"forever\""}`)
		expect("POST", "c1/cancel", `{"jobs": 2}`, 400, `{"error":"the request cannot be read: json: unknown field \"jobs\""}`)
		expect("POST", "c1/requeue", `{"job": 1}`, 200, `{}`)
		expect("POST", "c1/drain", `{"nodes": "c1-a3u-[2-3]", "reason": "cable", "user": "alice"}`, 200, `{}`)
		expect("POST", "c1/drain", `{"reason": "cable"}`, 400, `{"error":"nodes \"\" cannot be read: Invalid node name specified"}`)
		expect("POST", "c1/resume", `{"nodes": "c1-a3u-3"}`, 200, `{}`)
		expect("POST", "c1/down", `{"nodes": "c1-a3u-3", "reason": "cable"}`, 200, `{}`)
		expect("POST", "c1/powerUp", `{"nodes": "c1-a3u-0"}`, 409, `{"error":"updating node c1-a3u-0: Invalid node state transition requested"}`)
		expect("POST", "c1/powerDown", `{"nodes": "c1-a3u-3"}`, 200, `{}`)
		expect("POST", "c1/fault", `{"node": "c1-a3u-1", "kind": "slowBoot", "delay": "10m"}`, 200, `{}`)
		expect("GET", "c1/faults", "", 200, `[{"node":"c1-a3u-1","kind":"slowBoot","delay":600000000000}]`)
		expect("POST", "c1/clear", `{"node": "c1-a3u-1"}`, 200, `{}`)
		expect("GET", "c1/faults", "", 200, `[]`)
		expect("POST", "c1/health", `{"node": "c1-a3u-0", "verdict": "broken", "check": "gpu.xid", "evidence": "Xid 79"}`, 200, `{}`)
		expect("POST", "c1/notice", `{"node": "c1-a3u-0", "notice": "preempted"}`, 200, `{}`)
		expect("POST", "c1/hang", `{"node": "c1-a3u-0"}`, 200, `{}`)
		expect("POST", "c1/revive", `{"node": "c1-a3u-9"}`, 404, `{"error":"c1-a3u-9: no such machine runs"}`)
		if code, _ := call(http.MethodDelete, "c1/jobs", ""); code != http.StatusMethodNotAllowed {
			t.Errorf("DELETE: %d", code)
		}

		var nodes []NodeView
		if _, body := call("GET", "c1/nodes", ""); json.Unmarshal([]byte(body), &nodes) != nil || len(nodes) != 4 ||
			nodes[2].Text != "IDLE+CLOUD+DRAIN+POWERED_DOWN" || nodes[2].Short != "drain~" || nodes[2].ReasonBy != "alice" {
			t.Errorf("nodes: %s", body)
		}
		var jobs []slurm.Job
		if _, body := call("GET", "c1/jobs", ""); json.Unmarshal([]byte(body), &jobs) != nil || len(jobs) != 2 || jobs[0].Restarts != 1 {
			t.Errorf("jobs: %s", body)
		}
	})
}
