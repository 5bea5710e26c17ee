package slurm

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// stage is a controller under a script: a cluster c1 with the partition a (pool a: two static nodes, four dynamic ones) and the
// partition b (pool b: three dynamic nodes), everything that it published, and the machines that answer it.
type stage struct {
	*testing.T
	*Controller
	key    cluster.Key
	timing Timing

	mu        sync.Mutex
	published []events.Payload
	ids       []string
	offline   bool
	disk      []byte
	stop      func()
}

func testSpec() *cluster.Spec {
	return &cluster.Spec{
		Name: "projects/team-train/locations/us-central1/modelDevelopmentClusters/c1",
		NodePools: []cluster.NodePool{
			{ID: "login", ScalingSpec: cluster.ScalingSpec{MinNodeCount: 1, MaxNodeCount: 1}},
			{ID: "a", ScalingSpec: cluster.ScalingSpec{MinNodeCount: 2, MaxNodeCount: 6}},
			{ID: "b", ScalingSpec: cluster.ScalingSpec{MaxNodeCount: 3}},
		},
		OrchestratorSpec: cluster.OrchestratorSpec{SlurmSpec: cluster.SlurmSpec{
			LoginNodePoolID: "login",
			Partitions:      []cluster.Partition{{ID: "a", NodePoolIDs: []string{"a"}}, {ID: "b", NodePoolIDs: []string{"b"}}},
		}},
	}
}

// play runs a script in virtual time. The scripts' clocks are the defaults but for ResumeTimeout, which is 20 minutes.
func play(t *testing.T, script func(s *stage)) {
	t.Helper()
	timing := DefaultTiming()
	timing.ResumeTimeout = 20 * time.Minute
	playWith(t, timing, script)
}

func playWith(t *testing.T, timing Timing, script func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour) // the bubble's first moment is one that events do not believe in
		spec := testSpec()
		s := &stage{T: t, key: spec.Key(), timing: timing}
		s.start()
		defer func() { s.stop() }()
		script(s)
	})
}

// start boots the controller, with what is on its disk.
func (s *stage) start() {
	s.Helper()
	c, err := New(Options{
		Spec: testSpec(), Key: s.key, Config: 1, Timing: &s.timing, Publish: s.publish, Save: s.save,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		s.Fatal(err)
	}
	if s.disk != nil {
		if err := c.Load(s.disk); err != nil {
			s.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Run(ctx); err != nil {
			s.Error(err)
		}
	}()
	s.Controller = c
	s.stop = func() { cancel(); <-done }
	synctest.Wait()
}

func (s *stage) publish(_ context.Context, typ, id string, data events.Payload) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.offline {
		return errors.New("the network is down")
	}
	e := &events.Event{ID: id, Source: "//test", Type: typ, Time: time.Now(), Payload: data}
	if _, err := e.CloudEvent(); err != nil {
		s.Errorf("published what nobody would accept: %v", err)
	}
	s.published = append(s.published, data)
	s.ids = append(s.ids, id)
	return nil
}

func (s *stage) save(data []byte) error {
	s.disk = data
	return nil
}

// after lets time pass.
func (s *stage) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// said returns what was published since it was last asked, without snapshots, in a short form.
func (s *stage) said() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, p := range s.published {
		switch e := p.(type) {
		case *events.NodesResume:
			text := "resume " + e.Nodes
			for _, j := range e.Jobs {
				text += " job " + Job{ID: j.ID}.shortID() + " on " + j.Nodes
			}
			out = append(out, text)
		case *events.NodesSuspend:
			out = append(out, "suspend "+e.Nodes)
		case *events.NodesResumeFailed:
			out = append(out, "failed "+e.Nodes)
		case *events.CommandDone:
			text := "done " + e.Command
			if !e.OK {
				text = "not done " + e.Command
			}
			if e.Message != "" {
				text += ": " + e.Message
			}
			out = append(out, text)
		}
	}
	s.published, s.ids = nil, nil
	return strings.Join(out, "\n")
}

func (s *stage) expectSaid(want ...string) {
	s.Helper()
	if got := s.said(); got != strings.Join(want, "\n") {
		s.Fatalf("published:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

// lastSnapshot is the newest snapshot published since said was last called.
func (s *stage) lastSnapshot() *events.SlurmSnapshot {
	s.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.published) - 1; i >= 0; i-- {
		if e, ok := s.published[i].(*events.SlurmSnapshot); ok {
			return e
		}
	}
	s.Fatal("no snapshot was published")
	return nil
}

// expect checks nodes and jobs: "a-0 IDLE+CLOUD", "job 1 RUNNING".
func (s *stage) expect(lines ...string) {
	s.Helper()
	synctest.Wait()
	for _, line := range lines {
		name, want, _ := strings.Cut(line, " ")
		if name == "job" {
			id, state, _ := strings.Cut(want, " ")
			s.expectJob(id, state)
			continue
		}
		n, ok := s.Node("c1-" + name)
		if !ok {
			s.Fatalf("there is no node %s", name)
		}
		if n.String() != want {
			s.Fatalf("%s is %s, want %s", name, n, want)
		}
	}
}

func (s *stage) expectJob(id, want string) {
	s.Helper()
	for _, j := range s.Jobs() {
		if j.shortID() != id {
			continue
		}
		got := string(j.State)
		if j.State == Pending {
			got += " (" + j.Reason + ")"
		}
		if got != want {
			s.Fatalf("job %s is %s, want %s", id, got, want)
		}
		return
	}
	s.Fatalf("there is no job %s, want it %s", id, want)
}

func (s *stage) submit(spec JobSpec) int64 {
	s.Helper()
	id, err := s.Submit(spec)
	if err != nil {
		s.Fatal(err)
	}
	return id
}

// boot registers nodes that have booted just now.
func (s *stage) boot(nodes ...string) {
	s.Helper()
	for _, name := range nodes {
		accepted, err := s.Register("c1-"+name, time.Now())
		if err != nil || !accepted {
			s.Fatalf("registering %s: accepted %v, %v", name, accepted, err)
		}
	}
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// tell gives the agent a command.
func (s *stage) tell(id string, kind cluster.CommandKind, nodes, reason string, dynamic bool) {
	s.Command(events.SlurmCommand{
		Cluster: s.key, ID: id, Kind: string(kind), Nodes: nodes, Reason: reason, Dynamic: dynamic, Time: time.Now(),
	})
}

const day = 24 * time.Hour
