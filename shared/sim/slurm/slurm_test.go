package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

func TestTheWholePowerSavingCycle(t *testing.T) {
	play(t, func(s *stage) {
		s.expect("b-0 IDLE+CLOUD+POWERED_DOWN")
		id := s.submit(JobSpec{Partition: "b", Nodes: 2, RunFor: 10 * time.Minute, WholeNode: true})
		s.expect("job 1 CONFIGURING", "b-0 ALLOCATED+CLOUD+POWERING_UP", "b-1 ALLOCATED+CLOUD+POWERING_UP", "b-2 IDLE+CLOUD+POWERED_DOWN")
		s.after(time.Second)
		s.expectSaid("resume c1-b-[0-1] job 1 on c1-b-[0-1]")

		s.after(3 * time.Minute)
		s.boot("b-0")
		s.expect("job 1 CONFIGURING", "b-0 ALLOCATED+CLOUD", "b-1 ALLOCATED+CLOUD+POWERING_UP")
		s.after(time.Minute)
		s.expect("job 1 CONFIGURING")
		s.boot("b-1")
		s.expect("job 1 CONFIGURING") // until the periodic check
		s.after(30 * time.Second)
		s.expect("job 1 RUNNING")

		s.after(10 * time.Minute)
		s.expect("job 1 COMPLETED", "b-0 IDLE+CLOUD")
		if j, _ := s.Job(id); j.Ended.Sub(j.Started) != 10*time.Minute {
			t.Errorf("it ran for %s: the wait must not count", j.Ended.Sub(j.Started))
		}
		s.expectSaid()
		s.after(5 * time.Minute)
		s.expectSaid("suspend c1-b-[0-1]")
		s.expect("b-0 IDLE+CLOUD+POWERING_DOWN")
		s.after(2 * time.Minute)
		s.expect("b-0 IDLE+CLOUD+POWERED_DOWN")
	})
}

func TestStaticNodesAreNeitherWokenNorSuspended(t *testing.T) {
	play(t, func(s *stage) {
		s.after(day)
		s.expect("a-0 IDLE+CLOUD+POWERED_DOWN")
		s.expectSaid()
		s.boot("a-0", "a-1", "a-2")
		s.expect("a-0 IDLE+CLOUD", "a-2 IDLE+CLOUD")
		s.after(time.Hour)
		s.expect("a-0 IDLE+CLOUD", "a-1 IDLE+CLOUD", "a-2 IDLE+CLOUD+POWERED_DOWN")
		s.expectSaid("suspend c1-a-2")
	})
}

func TestAJobTakesNodesThatAreUpBeforeItWakesOthers(t *testing.T) {
	play(t, func(s *stage) {
		s.boot("a-1", "a-3")
		s.submit(JobSpec{Nodes: 3})
		s.after(2 * time.Second)
		s.expectSaid("resume c1-a-0 job 1 on c1-a-[0-1,3]")
		s.submit(JobSpec{Nodes: 1, RunFor: time.Hour})
		s.expect("job 2 CONFIGURING", "a-2 MIXED+CLOUD+POWERING_UP")
		s.boot("a-4")
		s.submit(JobSpec{Nodes: 1, RunFor: time.Hour})
		s.expect("job 3 RUNNING", "a-4 MIXED+CLOUD") // it need not wait for anything
	})
}

func TestACancelledJobsNodesAreTakenOverWithoutACall(t *testing.T) {
	play(t, func(s *stage) {
		first := s.submit(JobSpec{Partition: "b", Nodes: 3})
		second := s.submit(JobSpec{Partition: "b", Nodes: 2, RunFor: time.Hour})
		s.after(2 * time.Second)
		s.expectSaid("resume c1-b-[0-2] job 1 on c1-b-[0-2]")
		s.expect("job 2 PENDING (Resources)")

		s.must(s.Cancel(first))
		s.expect("job 1 CANCELLED", "job 2 CONFIGURING", "b-2 IDLE+CLOUD+POWERING_UP")
		s.after(time.Minute)
		s.expectSaid()
		s.boot("b-0", "b-1")
		s.after(30 * time.Second)
		s.expect("job 2 RUNNING")
		if j, _ := s.Job(second); len(j.Nodes) != 2 {
			t.Errorf("it runs on %v", j.Nodes)
		}
		// The third goes on powering up for nobody, until its clock has run out.
		s.after(20 * time.Minute)
		s.expect("b-2 DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING")
		s.expectSaid("failed c1-b-2")
	})
}

func TestResumeTimeout(t *testing.T) {
	play(t, func(s *stage) {
		s.submit(JobSpec{Nodes: 2, RunFor: time.Hour})
		s.submit(JobSpec{Nodes: 1, RunFor: time.Hour, NoRequeue: true})
		s.after(20 * time.Minute)
		s.expect("a-0 DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING", "a-2 DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING")
		s.expect("job 1 PENDING (BeginTime)", "job 2 NODE_FAIL")
		s.expectSaid("resume c1-a-[0-2] job 1 on c1-a-[0-1] job 2 on c1-a-2", "failed c1-a-[0-2]")
		if n, _ := s.Node("c1-a-0"); n.Reason != "ResumeTimeout reached" {
			t.Errorf("reason %q", n.Reason)
		}
		s.after(s.timing.BeginDelay)
		s.expect("job 1 CONFIGURING", "a-3 MIXED+CLOUD+POWERING_UP") // other nodes
		if j, _ := s.Job(1); j.Restarts != 1 {
			t.Errorf("restarts %d", j.Restarts)
		}
		// A node that comes late all the same is welcome.
		s.boot("a-0")
		s.expect("a-0 IDLE+CLOUD")
	})
}

func TestRefreshKeepsAQueuedJobWaiting(t *testing.T) {
	play(t, func(s *stage) {
		s.submit(JobSpec{Nodes: 1})
		cancelled := s.submit(JobSpec{Nodes: 1})
		s.must(s.Cancel(cancelled))
		s.after(time.Second)
		s.expectSaid("resume c1-a-[0-1] job 1 on c1-a-0")
		for i := range 5 {
			s.after(15 * time.Minute)
			s.tell(fmt.Sprintf("refresh-%d", i), cluster.CommandRefresh, "c1-a-[0-2]", "", false)
			s.expect("job 1 CONFIGURING")
			s.after(time.Second)
		}
		said := s.said()
		for _, want := range []string{
			"done refresh-0: c1-a-1 left alone: no configuring job holds it; c1-a-2 left alone: it is not powering up\nresume c1-a-0\n",
			"failed c1-a-1",
		} {
			if !strings.Contains(said, want) {
				t.Errorf("%q is not in:\n%s", want, said)
			}
		}
		s.after(time.Minute)
		s.boot("a-0")
		s.after(30 * time.Second)
		s.expect("job 1 RUNNING")
	})
}

func TestANodeThatRegistersRightAfterARefreshIsResumedAgainForNobody(t *testing.T) {
	play(t, func(s *stage) {
		s.submit(JobSpec{Partition: "b", RunFor: time.Minute})
		s.after(time.Minute)
		s.tell("refresh", cluster.CommandRefresh, "c1-b-0", "", false)
		s.after(time.Second)
		s.boot("b-0")
		s.said()
		s.after(2*time.Minute + s.timing.SuspendTime)
		s.expectSaid("suspend c1-b-0")
		s.after(s.timing.SuspendTimeout)
		s.expectSaid("resume c1-b-0")
		s.expect("b-0 IDLE+CLOUD+POWERING_UP")
	})
}

func TestRegistration(t *testing.T) {
	t.Run("is silently ignored when the boot is older than the request", func(t *testing.T) {
		play(t, func(s *stage) {
			boot := time.Now()
			s.after(time.Minute)
			s.submit(JobSpec{Partition: "b"})
			accepted, err := s.Register("c1-b-0", boot)
			if accepted || err != nil {
				t.Fatalf("accepted %v, %v", accepted, err)
			}
			s.expect("b-0 MIXED+CLOUD+POWERING_UP")
			s.boot("b-0")
			s.expect("b-0 MIXED+CLOUD")
		})
	})
	t.Run("is ignored while powering down", func(t *testing.T) {
		play(t, func(s *stage) {
			s.boot("b-0")
			s.after(s.timing.SuspendTime)
			s.expect("b-0 IDLE+CLOUD+POWERING_DOWN")
			if accepted, err := s.Register("c1-b-0", time.Now()); accepted || err != nil {
				t.Fatalf("accepted %v, %v", accepted, err)
			}
			s.after(time.Hour)
			s.expect("b-0 IDLE+CLOUD+POWERED_DOWN") // and slurmd does not try again
			s.boot("b-0")
			s.expect("b-0 IDLE+CLOUD")
		})
	})
	t.Run("ends DOWN, and leaves DRAIN with its reason", func(t *testing.T) {
		play(t, func(s *stage) {
			s.must(s.Down([]string{"c1-a-0"}, "convoke:lost gen=1", "root"))
			s.expect("a-0 DOWN+CLOUD+POWERED_DOWN")
			s.boot("a-0")
			s.expect("a-0 IDLE+CLOUD")
			s.must(s.Drain([]string{"c1-a-1"}, "bad cable", "alice"))
			s.boot("a-1")
			s.expect("a-1 IDLE+CLOUD+DRAIN")
			if n, _ := s.Node("c1-a-1"); n.Reason != "bad cable" || n.ReasonBy != "alice" {
				t.Errorf("reason %q by %q", n.Reason, n.ReasonBy)
			}
			if n, _ := s.Node("c1-a-0"); n.Reason != "" {
				t.Errorf("reason %q stayed", n.Reason)
			}
		})
	})
	t.Run("with fewer GPUs than configured drains the node", func(t *testing.T) {
		play(t, func(s *stage) {
			s.submit(JobSpec{Partition: "b", RunFor: time.Hour})
			s.after(time.Minute)
			const reason = "gres/gpu count reported lower than configured (0 < 8)"
			_, err := s.RegisterInvalid("c1-b-0", time.Now(), reason)
			s.must(err)
			s.expect("b-0 IDLE+CLOUD+DRAIN+INVALID_REG", "job 1 PENDING (BeginTime)")
		})
	})
	t.Run("of a machine that rebooted under a job requeues it", func(t *testing.T) {
		play(t, func(s *stage) {
			s.boot("a-0")
			s.submit(JobSpec{RunFor: time.Hour})
			s.after(time.Minute)
			s.boot("a-0")
			s.expect("job 1 COMPLETING", "a-0 IDLE+CLOUD")
			s.after(s.timing.NodeFail)
			s.expect("job 1 PENDING (BeginTime)")
		})
	})
	t.Run("does not make an idle node busy", func(t *testing.T) {
		play(t, func(s *stage) {
			s.boot("b-0")
			s.after(s.timing.SuspendTime - time.Second)
			s.boot("b-0")
			s.after(time.Second)
			s.expect("b-0 IDLE+CLOUD+POWERING_DOWN")
		})
	})
	t.Run("of an unknown node is refused", func(t *testing.T) {
		play(t, func(s *stage) {
			if _, err := s.Register("c1-a-99", time.Now()); !errors.Is(err, ErrNodeName) {
				t.Errorf("%v", err)
			}
		})
	})
}

func TestAVanishedSlurmdIsMissed(t *testing.T) {
	play(t, func(s *stage) {
		s.boot("a-0", "a-1")
		s.submit(JobSpec{Nodes: 2, RunFor: 2 * time.Hour})
		s.after(time.Hour)
		s.Unregister("c1-a-1")
		s.expect("a-1 MIXED+CLOUD")
		s.after(100 * time.Second)
		s.expect("a-1 MIXED+CLOUD+NOT_RESPONDING", "job 1 RUNNING")
		s.after(s.timing.SlurmdTimeout)
		s.expect("a-1 DOWN+CLOUD+NOT_RESPONDING", "a-0 IDLE+CLOUD")
		s.after(s.timing.NodeFail)
		s.expectJob("1", "PENDING (BeginTime)")
		s.boot("a-1")
		s.expect("a-1 IDLE+CLOUD")
	})
}

func TestADownNodeWhoseSlurmdLivesComesBack(t *testing.T) {
	play(t, func(s *stage) {
		s.boot("a-0", "a-1")
		s.submit(JobSpec{RunFor: time.Hour, NoRequeue: true})
		s.must(s.Down([]string{"c1-a-0", "c1-a-1"}, "looking at it", "alice"))
		s.must(s.Drain([]string{"c1-a-1"}, "looking at it", "alice"))
		s.expect("a-0 DOWN+CLOUD", "job 1 COMPLETING")
		s.after(s.timing.NodeFail)
		s.expect("job 1 NODE_FAIL")
		s.after(100 * time.Second)
		s.expect("a-0 IDLE+CLOUD", "a-1 IDLE+CLOUD+DRAIN") // only a drain lasts
	})
}

func TestScontrol(t *testing.T) {
	play(t, func(s *stage) {
		b0 := []string{"c1-b-0"}
		if err := s.Resume(b0); !errors.Is(err, ErrTransition) {
			t.Errorf("resuming idle~: %v", err)
		}
		s.must(s.PowerUp(b0))
		if err := s.Resume(b0); !errors.Is(err, ErrTransition) {
			t.Errorf("resuming a node that is powering up: %v", err)
		}
		s.after(time.Second)
		s.expectSaid("resume c1-b-0")
		s.must(s.PowerDownForce(b0))
		s.expect("b-0 IDLE+CLOUD+POWERING_UP")
		s.after(2 * time.Second)
		s.expect("b-0 IDLE+CLOUD+POWERING_DOWN")
		s.expectSaid("suspend c1-b-0")
		s.must(s.Resume(b0))
		s.expect("b-0 IDLE+CLOUD+POWERED_DOWN")
		if err := s.Drain([]string{"c1-b-0", "nobody"}, "x", "alice"); !errors.Is(err, ErrNodeName) {
			t.Errorf("draining nobody: %v", err)
		}
		s.expect("b-0 IDLE+CLOUD+POWERED_DOWN")
		if err := s.Down(b0, "", "alice"); !errors.Is(err, ErrReasonMissing) {
			t.Errorf("down without a reason: %v", err)
		}

		s.must(s.Drain(b0, "cable", "alice"))
		before, _ := s.Node("c1-b-0")
		s.after(time.Hour)
		s.must(s.Drain(b0, "cable", "bob"))
		if after, _ := s.Node("c1-b-0"); !after.ReasonAt.Equal(before.ReasonAt) || after.ReasonBy != "alice" {
			t.Errorf("the same reason again changed %v into %v", before, after)
		}
		s.must(s.PowerDownForce(b0)) // clears a person's drain
		s.after(2 * time.Second)
		s.expect("b-0 IDLE+CLOUD+POWERING_DOWN")
	})
}

func TestADrainedNodeIsSuspendedAndStaysDrained(t *testing.T) {
	play(t, func(s *stage) {
		s.boot("b-0")
		s.must(s.Drain([]string{"c1-b-0"}, "cable", "alice"))
		s.after(s.timing.SuspendTime + s.timing.SuspendTimeout)
		s.expect("b-0 IDLE+CLOUD+DRAIN+POWERED_DOWN")
		s.submit(JobSpec{Partition: "b", Nodes: 3})
		s.expectJob("1", "PENDING ("+whyUnavailable+")")
	})
}

func TestPowerDownForceAloneLeavesTheJobCompletingForLong(t *testing.T) {
	play(t, func(s *stage) {
		s.boot("b-0")
		s.submit(JobSpec{Partition: "b"})
		s.must(s.PowerDownForce([]string{"c1-b-0"}))
		s.after(time.Minute)
		s.expect("job 1 COMPLETING")
		s.after(s.timing.Unkillable)
		s.expect("job 1 PENDING (BeginTime)")
	})
}

func TestAReservationKeepsLongJobsOff(t *testing.T) {
	play(t, func(s *stage) {
		s.boot("a-0")
		s.must(s.Reserve(Reservation{Name: "lease", Nodes: []string{"c1-a-0"}, Start: time.Now().Add(time.Hour)}))
		if err := s.Reserve(Reservation{Name: "lease", Nodes: []string{"c1-a-1"}, Start: time.Now()}); !errors.Is(err, ErrReservationExists) {
			t.Errorf("%v", err)
		}
		s.submit(JobSpec{TimeLimit: 2 * time.Hour})
		s.expect("a-0 IDLE+CLOUD", "a-1 MIXED+CLOUD+POWERING_UP")
		s.submit(JobSpec{TimeLimit: time.Hour, RunFor: time.Minute})
		s.expect("a-0 MIXED+CLOUD", "job 2 RUNNING")
		s.after(time.Hour)
		s.expect("a-0 IDLE+CLOUD+RESERVED+MAINTENANCE")
		s.must(s.Unreserve("lease"))
		s.expect("a-0 IDLE+CLOUD")
	})
}

func TestJobsAreServedInOrderAndBackfilled(t *testing.T) {
	timing := DefaultTiming()
	timing.SuspendTime = -1
	playWith(t, timing, func(s *stage) {
		s.boot("b-0", "b-1", "b-2")
		s.submit(JobSpec{Partition: "b", Nodes: 2, TimeLimit: time.Hour, RunFor: time.Hour})
		s.submit(JobSpec{Partition: "b", Nodes: 3, RunFor: time.Minute})                       // must wait for the first
		s.submit(JobSpec{Partition: "b", Nodes: 1, TimeLimit: 2 * time.Hour})                  // would delay the second
		s.submit(JobSpec{Partition: "b", Nodes: 1, TimeLimit: time.Hour, RunFor: time.Minute}) // fits before it
		s.submit(JobSpec{Partition: "a", Nodes: 1})                                            // is not concerned
		s.submit(JobSpec{Partition: "b", Begin: time.Now().Add(time.Hour)})
		s.expect("job 1 RUNNING", "job 2 PENDING (Resources)", "job 3 PENDING (Priority)", "job 4 RUNNING", "job 5 CONFIGURING",
			"job 6 PENDING (BeginTime)")
		s.after(time.Hour + time.Second)
		s.expect("job 1 COMPLETED", "job 2 RUNNING", "job 3 PENDING (Resources)")
		s.after(time.Minute + time.Second)
		s.expect("job 3 RUNNING", "job 6 RUNNING")
	})
}

func TestJobs(t *testing.T) {
	play(t, func(s *stage) {
		for _, wrong := range []struct {
			spec JobSpec
			want error
		}{
			{JobSpec{Partition: "c"}, ErrPartition},
			{JobSpec{Partition: "b", Nodes: 4}, ErrConfiguration},
			{JobSpec{Nodes: -1}, ErrNodeCount},
			{JobSpec{TimeLimit: -1}, ErrTime},
			{JobSpec{Array: 5000}, ErrArraySize},
			{JobSpec{NodeList: []string{"x"}}, ErrNodeName},
			{JobSpec{NodeList: []string{"c1-b-0"}}, ErrConfiguration},
		} {
			if _, err := s.Submit(wrong.spec); !errors.Is(err, wrong.want) {
				t.Errorf("%+v: %v, want %v", wrong.spec, err, wrong.want)
			}
		}
		s.boot("a-0", "a-1")
		s.submit(JobSpec{TimeLimit: time.Minute, RunFor: time.Hour})
		s.submit(JobSpec{RunFor: time.Hour})
		s.after(time.Minute + time.Second)
		s.expect("job 1 TIMEOUT", "job 2 RUNNING")
		s.must(s.Requeue(2))
		s.after(time.Second)
		s.expect("job 2 PENDING (BeginTime)")
		s.must(s.Cancel(2))
		s.expect("job 2 CANCELLED")
		if err := s.Cancel(2); !errors.Is(err, ErrJobDone) {
			t.Errorf("%v", err)
		}
		if err := s.Requeue(2); !errors.Is(err, ErrJobDone) {
			t.Errorf("%v", err)
		}
		if err := s.Cancel(77); !errors.Is(err, ErrJobID) {
			t.Errorf("%v", err)
		}
		first := s.submit(JobSpec{Array: 3, NodeList: []string{"c1-a-1"}, RunFor: time.Hour})
		s.expect("job 3_0 RUNNING", "job 3_1 PENDING (Resources)")
		s.must(s.SetComment(4, "waits for its turn"))
		s.must(s.Cancel(first))
		s.after(time.Second)
		s.expect("job 3_0 CANCELLED", "job 3_1 CANCELLED", "job 3_2 CANCELLED")
		s.after(s.timing.Keep)
		if jobs := s.Jobs(); len(jobs) != 0 {
			t.Errorf("still listed: %v", jobs)
		}
	})
}

func TestCommandLost(t *testing.T) {
	t.Run("dynamic", func(t *testing.T) {
		play(t, func(s *stage) {
			s.boot("b-0")
			s.submit(JobSpec{Partition: "b", RunFor: time.Hour})
			s.Unregister("c1-b-0")
			s.tell("c", cluster.CommandLost, "c1-b-0", "convoke:lost gen=1", true)
			s.expect("b-0 DOWN+CLOUD", "job 1 COMPLETING")
			s.expectSaid()
			s.after(2 * time.Second)
			s.expect("b-0 IDLE+CLOUD+POWERED_DOWN")
			s.expectSaid("suspend c1-b-0", "done c")
			s.after(s.timing.NodeFail + s.timing.BeginDelay)
			s.expect("job 1 CONFIGURING")
			s.after(time.Second)
			s.expectSaid("resume c1-b-0 job 1 on c1-b-0")
			// Once per id, told again.
			s.tell("c", cluster.CommandLost, "c1-b-0", "convoke:lost gen=1", true)
			s.expect("job 1 CONFIGURING")
			s.expectSaid("done c")
		})
	})
	t.Run("static", func(t *testing.T) {
		play(t, func(s *stage) {
			s.boot("a-0")
			s.Unregister("c1-a-0")
			s.tell("c", cluster.CommandLost, "c1-a-0", "convoke:lost gen=1", false)
			s.after(time.Hour)
			s.expect("a-0 DOWN+CLOUD+NOT_RESPONDING")
			if n, _ := s.Node("c1-a-0"); n.Reason != "convoke:lost gen=1" {
				t.Errorf("reason %q", n.Reason)
			}
			s.boot("a-0")
			s.expect("a-0 IDLE+CLOUD")
		})
	})
	t.Run("keeps a person's drain", func(t *testing.T) {
		play(t, func(s *stage) {
			s.boot("b-0")
			s.must(s.Drain([]string{"c1-b-0"}, "cable", "alice"))
			s.tell("c", cluster.CommandLost, "c1-b-0", "convoke:lost gen=1", true)
			s.after(2 * time.Second)
			s.expect("b-0 IDLE+CLOUD+DRAIN+POWERED_DOWN")
			if n, _ := s.Node("c1-b-0"); n.Reason != "cable" || n.ReasonBy != "alice" {
				t.Errorf("reason %q by %q", n.Reason, n.ReasonBy)
			}
		})
	})
	t.Run("leaves a newer machine alone", func(t *testing.T) {
		play(t, func(s *stage) {
			sent := time.Now()
			s.after(time.Minute)
			s.boot("b-0")
			s.Command(events.SlurmCommand{Cluster: s.key, ID: "c", Kind: string(cluster.CommandLost), Nodes: "c1-b-[0-1]", Time: sent, Dynamic: true})
			s.expect("b-0 IDLE+CLOUD")
			s.expectSaid("done c: c1-b-0 left alone: a newer machine has registered; c1-b-1 left alone: powered down already")
		})
	})
}

func TestCommandGiveBack(t *testing.T) {
	play(t, func(s *stage) {
		s.must(s.PowerUp([]string{"c1-b-0", "c1-b-1"}))
		s.submit(JobSpec{Partition: "b"}) // takes over b-0
		s.boot("b-2")
		s.after(time.Second)
		s.said()
		s.tell("c", cluster.CommandGiveBack, "c1-b-[0-2]", "convoke:unneeded gen=0", true)
		s.after(2 * time.Second)
		s.expectSaid("suspend c1-b-1", "done c: c1-b-0 left alone: job 1 holds it; c1-b-2 left alone: it is not powering up")
		s.expect("b-0 MIXED+CLOUD+POWERING_UP", "b-1 IDLE+CLOUD+POWERED_DOWN", "b-2 IDLE+CLOUD")
		s.after(20 * time.Minute)
		s.expect("b-0 DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING")
		s.tell("d", cluster.CommandGiveBack, "c1-b-0", "convoke:unneeded gen=0", true)
		s.expect("b-0 IDLE+CLOUD+POWERED_DOWN")
	})
}

func TestCommandResumeSteersAJobBackToItsNodes(t *testing.T) {
	play(t, func(s *stage) {
		s.submit(JobSpec{Nodes: 2, RunFor: time.Hour})
		s.after(20*time.Minute + time.Second)
		s.said()
		s.expect("job 1 PENDING (BeginTime)", "a-0 DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING")
		s.must(s.Drain([]string{"c1-a-5"}, "cable", "alice"))
		s.Command(events.SlurmCommand{Cluster: s.key, ID: "c", Kind: "resume", Nodes: "c1-a-[0-1]", Job: 1, Reason: "ResumeTimeout", Time: time.Now()})
		s.expect("job 1 CONFIGURING", "a-0 MIXED+CLOUD+POWERING_UP", "a-1 MIXED+CLOUD+POWERING_UP")
		s.after(time.Second)
		s.expectSaid("done c", "resume c1-a-[0-1] job 1 on c1-a-[0-1]")
		s.Command(events.SlurmCommand{Cluster: s.key, ID: "d", Kind: "resume", Nodes: "c1-a-[0-1]", Job: 1, Reason: "ResumeTimeout", Time: time.Now()})
		s.expectSaid("not done d: c1-a-[0-1] neither down nor drained; job 1 is not pending")
	})
}

func TestCommandsForABrokenNode(t *testing.T) {
	play(t, func(s *stage) {
		s.boot("a-0", "a-1")
		s.submit(JobSpec{Nodes: 1, RunFor: time.Hour})
		s.submit(JobSpec{Nodes: 1, RunFor: time.Hour})
		s.tell("drain", cluster.CommandDrain, "c1-a-0", "convoke:repair gen=1 xid 79", false)
		s.expect("a-0 MIXED+CLOUD+DRAIN", "job 1 RUNNING")
		s.tell("evict", cluster.CommandEvict, "c1-a-0", "convoke:repair gen=1 xid 79", false)
		s.expect("a-0 DOWN+CLOUD+DRAIN", "job 1 COMPLETING", "job 2 RUNNING")
		s.after(3 * time.Minute)
		s.expect("a-0 IDLE+CLOUD+DRAIN", "job 1 CONFIGURING") // the living slurmd does not end the drain
		s.tell("not-ours", cluster.CommandResume, "c1-a-0", "convoke:repair gen=2", false)
		s.expect("a-0 IDLE+CLOUD+DRAIN")
		s.tell("ours", cluster.CommandResume, "c1-a-0", "convoke:repair gen=1", false)
		s.expect("a-0 IDLE+CLOUD")

		s.must(s.Drain([]string{"c1-a-0"}, "convoke is wrong here", "alice"))
		s.tell("persons", cluster.CommandResume, "c1-a-0", "convoke", false)
		s.expect("a-0 IDLE+CLOUD+DRAIN")
		s.tell("drain-2", cluster.CommandDrain, "c1-a-0", "convoke:repair gen=1", false)
		if n, _ := s.Node("c1-a-0"); n.Reason != "convoke is wrong here" {
			t.Errorf("a person's reason became %q", n.Reason)
		}
		s.after(time.Second)
		if said := s.said(); !strings.HasSuffix(said, strings.Join([]string{
			`done not-ours: c1-a-0 left alone: its reason is "convoke:repair gen=1 xid 79"`,
			"done ours",
			`done persons: c1-a-0 left alone: its reason is "convoke is wrong here"`,
			"done drain-2: c1-a-0 drained already, by a person",
		}, "\n")) {
			t.Error(said)
		}
	})
}

func TestCommandsThatCannotBeCarriedOut(t *testing.T) {
	play(t, func(s *stage) {
		now := time.Now()
		other := s.key
		other.ID = "c2"
		for _, cmd := range []events.SlurmCommand{
			{Cluster: s.key, ID: "unknown-node", Kind: "drain", Nodes: "c1-a-[0,99]", Reason: "convoke:x"},
			{Cluster: s.key, ID: "unknown-kind", Kind: "dance", Nodes: "c1-a-0"},
			{Cluster: s.key, ID: "unknown-job", Kind: "comment", Job: 7, Reason: "x"},
			{Cluster: s.key, ID: "late", Kind: "drain", Nodes: "c1-a-1", Reason: "convoke:x", Expires: now.Add(-time.Second)},
			{Cluster: other, ID: "elsewhere", Kind: "drain", Nodes: "c2-a-1", Reason: "convoke:x"},
			{Cluster: s.key, ID: "garbled", Kind: "drain", Nodes: "c1-a-[", Reason: "convoke:x"},
		} {
			cmd.Time = now
			s.Command(cmd)
		}
		s.expect("a-0 IDLE+CLOUD+DRAIN+POWERED_DOWN", "a-1 IDLE+CLOUD+POWERED_DOWN")
		s.expectSaid(
			"not done unknown-node: c1-a-99 slurmctld does not know it",
			`not done unknown-kind: "dance" is not a command that this agent knows`,
			"not done unknown-job: updating job 7: Invalid job id specified",
			"not done late: it came at 2000-01-01T01:00:00Z, after it had expired at 2000-01-01T00:59:59Z",
			"not done elsewhere: this is the controller of "+s.key.String()+", not of "+other.String(),
			`not done garbled: hostlist "c1-a-[", character 7: a number is missing`,
		)
		s.submit(JobSpec{})
		s.Command(events.SlurmCommand{Cluster: s.key, ID: "fine", Kind: "comment", Job: 1, Reason: "2 nodes queued"})
		if j, _ := s.Job(1); j.Comment != "2 nodes queued" {
			t.Errorf("comment %q", j.Comment)
		}
	})
}

func TestSnapshots(t *testing.T) {
	play(t, func(s *stage) {
		first := s.lastSnapshot()
		s.said()
		s.after(30 * time.Second)
		second := s.lastSnapshot()
		s.said()
		if second.Sequence != first.Sequence+1 || second.Taken.Sub(first.Taken) != 30*time.Second {
			t.Errorf("%d at %s after %d at %s", second.Sequence, second.Taken, first.Sequence, first.Taken)
		}
		s.submit(JobSpec{Nodes: 2, Name: "train", User: "alice", TimeLimit: time.Hour, WholeNode: true})
		s.must(s.Drain([]string{"c1-b-1"}, "cable", "alice"))
		s.after(time.Second)
		if n := len(s.published); n != 2 { // the resume call, and one snapshot for both changes
			t.Errorf("%d events", n)
		}
		got := s.lastSnapshot()
		now := cluster.Moment(time.Now().Add(-time.Second))
		want := &events.SlurmSnapshot{
			Cluster: s.key, Boot: first.Boot, Sequence: second.Sequence + 1, Taken: now.Add(time.Second), Config: 1,
			Nodes: []events.SnapshotNodes{
				{Nodes: "c1-a-[0-1]", State: "ALLOCATED", Flags: []string{"CLOUD", "POWERING_UP"}},
				{Nodes: "c1-a-[2-5],c1-b-[0,2]", State: "IDLE", Flags: []string{"CLOUD", "POWERED_DOWN"}},
				{Nodes: "c1-b-1", State: "IDLE", Flags: []string{"CLOUD", "DRAIN", "POWERED_DOWN"}, Reason: "cable", ReasonAt: now},
			},
			Jobs: []events.SnapshotJob{{
				ID: 1, State: "CONFIGURING", Partition: "a", User: "alice", Name: "train", Nodes: "c1-a-[0-1]", Limit: 3600,
				Submitted: now, Started: now, Reason: "None", Requeue: true, WholeNode: true,
			}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTheSpoolOutlivesTheNetwork(t *testing.T) {
	play(t, func(s *stage) {
		s.mu.Lock()
		s.offline = true
		s.mu.Unlock()
		s.submit(JobSpec{Nodes: 1})
		s.after(time.Minute)
		s.submit(JobSpec{Nodes: 1})
		s.tell("c", cluster.CommandComment, "", "x", false)
		s.after(30 * time.Minute)
		s.expectSaid()
		s.mu.Lock()
		s.offline = false
		s.mu.Unlock()
		s.after(s.timing.RetryMax)
		s.expectSaid("resume c1-a-0 job 1 on c1-a-0", "not done c: updating job 0: Invalid job id specified", "resume c1-a-1 job 2 on c1-a-1",
			"failed c1-a-0", "failed c1-a-1", "resume c1-a-2 job 1 on c1-a-2", "resume c1-a-3 job 2 on c1-a-3")
	})
}

func TestASnapshotThatWasNotPublishedIsReplacedSoon(t *testing.T) {
	play(t, func(s *stage) {
		s.boot("a-0")
		s.after(time.Second)
		s.said()
		s.mu.Lock()
		s.offline = true
		s.mu.Unlock()
		s.submit(JobSpec{}) // its nodes are up: no hook is called, the snapshot alone tells of it
		s.after(10 * time.Second)
		s.mu.Lock()
		s.offline = false
		s.mu.Unlock()
		s.after(15 * time.Second) // the wait has doubled meanwhile
		if got := s.lastSnapshot(); len(got.Jobs) != 1 {
			t.Errorf("it tells of %d jobs", len(got.Jobs))
		}
	})
}

func TestTheStateIsSavedBeforeItIsToldOf(t *testing.T) {
	now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	var order []string
	c, err := New(Options{
		Spec: testSpec(), Key: testSpec().Key(), Now: func() time.Time { return now },
		Save: func(state []byte) error {
			order = append(order, fmt.Sprint("saved ", strings.Count(string(state), events.TypeNodesResume)))
			return nil
		},
		Publish: func(_ context.Context, typ, _ string, _ events.Payload) error { order = append(order, typ); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Submit(JobSpec{}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Second)
	c.Step()
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"saved 1", events.TypeNodesResume, "saved 0", events.TypeSlurmSnapshot}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
}

func TestEventsCanBeLostAndDoubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		c, err := New(Options{
			Spec: testSpec(), Key: testSpec().Key(),
			Publish: func(_ context.Context, typ, id string, _ events.Payload) error {
				got = append(got, typ+" "+id)
				return nil
			},
			Copies: func(typ, _ string) int {
				return map[string]int{events.TypeNodesResume: 2, events.TypeSlurmSnapshot: 0}[typ]
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Submit(JobSpec{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		c.Step()
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || got[0] != got[1] || !strings.HasPrefix(got[0], events.TypeNodesResume) {
			t.Errorf("%v", got)
		}
	})
}

func TestARestartLosesNothing(t *testing.T) {
	play(t, func(s *stage) {
		s.boot("a-0", "b-0")
		running := s.submit(JobSpec{Partition: "a", RunFor: time.Hour})
		s.submit(JobSpec{Partition: "b", Nodes: 2, RunFor: time.Hour})
		s.submit(JobSpec{Partition: "b", Nodes: 3})
		s.must(s.Drain([]string{"c1-a-5"}, "cable", "alice"))
		s.must(s.Reserve(Reservation{Name: "lease", Nodes: []string{"c1-a-4"}, Start: time.Now().Add(day)}))
		s.mu.Lock()
		s.offline = true // so that the resume call is still in the spool
		s.mu.Unlock()
		s.after(time.Second)
		s.tell("c", cluster.CommandComment, "", "x", false)
		s.must(s.PowerUp([]string{"c1-a-3"}))
		s.tell("back", cluster.CommandGiveBack, "c1-a-3", "convoke:unneeded gen=0", true)
		s.stop()
		jobs, nodes := s.Jobs(), s.Nodes()
		boot := s.Snapshot().Boot
		s.after(10 * time.Minute)
		s.offline = false
		s.said()

		s.start()
		s.must(s.Reconnect("c1-a-0", time.Now().Add(-time.Hour)))
		s.after(time.Second)
		s.expectSaid("resume c1-b-1 job 2 on c1-b-[0-1]", "not done c: updating job 0: Invalid job id specified", "suspend c1-a-3", "done back")
		if diff := cmp.Diff(jobs, s.Jobs()); diff != "" {
			t.Error(diff)
		}
		for i, n := range s.Nodes() {
			if n.Name != "c1-a-3" && !cmp.Equal(n, nodes[i]) {
				t.Error(cmp.Diff(nodes[i], n))
			}
		}
		if !s.Snapshot().Boot.After(boot) {
			t.Error("the agent's boot did not rise")
		}
		s.tell("back", cluster.CommandGiveBack, "c1-a-3", "convoke:unneeded gen=0", true)
		s.expectSaid("done back")
		s.after(2 * time.Minute)
		s.expect("b-0 MIXED+CLOUD+NOT_RESPONDING") // it has no machine behind it, and time to answer all the same
		s.after(48 * time.Minute)
		if j, _ := s.Job(running); j.State != Completed || j.Ended.Sub(j.Started) != time.Hour {
			t.Errorf("it ran on while the controller was away: %+v", j)
		}
		s.expect("b-0 DOWN+CLOUD+NOT_RESPONDING")
		if id := s.submit(JobSpec{}); id != 4 {
			t.Errorf("a new job got the id %d", id)
		}
	})
}

func TestLoadUnderASmallerSpec(t *testing.T) {
	play(t, func(s *stage) {
		s.boot("a-0", "a-1", "a-2", "a-3", "a-4", "a-5")
		s.submit(JobSpec{Nodes: 5})
		s.submit(JobSpec{Nodes: 1})
		data, err := s.Save()
		s.must(err)
		spec := testSpec()
		spec.NodePools[1].ScalingSpec.MaxNodeCount = 3
		c, err := New(Options{Spec: spec, Key: s.key})
		s.must(err)
		s.must(c.Load(data))
		for _, j := range c.Jobs() {
			if j.State != NodeFail || len(j.Nodes) != 0 {
				t.Errorf("job %d is %s on %v, though its nodes are gone", j.ID, j.State, j.Nodes)
			}
		}
		if n, _ := c.Node("c1-a-0"); n.State != "IDLE" {
			t.Errorf("%v", n)
		}
		if err := c.Load([]byte("{")); err == nil {
			t.Error("garbage was loaded")
		}
	})
}

func TestSqueueAndSinfo(t *testing.T) {
	play(t, func(s *stage) {
		s.boot("a-0", "a-1", "b-0")
		s.submit(JobSpec{Name: "train-70b", User: "alexandria", Nodes: 2})
		s.submit(JobSpec{Partition: "b", Nodes: 2, User: "bob"})
		s.submit(JobSpec{Partition: "b", Array: 2, Nodes: 3})
		s.must(s.Drain([]string{"c1-a-1", "c1-a-4"}, "cable", "alice"))
		s.after(65 * time.Second)
		want := `             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
               3_1         b     wrap     user PD       0:00      3 (Priority)
               3_0         b     wrap     user PD       0:00      3 (Resources)
                 2         b     wrap      bob CF       0:00      2 c1-b-[0-1]
                 1         a train-70 alexandr  R       1:05      2 c1-a-[0-1]
`
		if got := s.Squeue(); got != want {
			t.Errorf("squeue:\n%s\nwant:\n%s", got, want)
		}
		want = `PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
a*           up   infinite      1 drain~ c1-a-4
a*           up   infinite      1   drng c1-a-1
a*           up   infinite      3  idle~ c1-a-[2-3,5]
a*           up   infinite      1    mix c1-a-0
b            up   infinite      1  idle~ c1-b-2
b            up   infinite      1    mix c1-b-0
b            up   infinite      1   mix# c1-b-1
`
		if got := s.Sinfo(); got != want {
			t.Errorf("sinfo:\n%s\nwant:\n%s", got, want)
		}
	})
}

func TestClock(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0:00", 65 * time.Second: "1:05", time.Hour: "1:00:00", 51*time.Hour + 4*time.Minute + 5*time.Second: "2-03:04:05",
	} {
		if got := Clock(d); got != want {
			t.Errorf("%s is %s, want %s", d, got, want)
		}
	}
}

func TestResumeTimeoutIsSixteenBits(t *testing.T) {
	timing := DefaultTiming()
	timing.ResumeTimeout++
	if _, err := New(Options{Spec: testSpec(), Key: testSpec().Key(), Timing: &timing}); err == nil {
		t.Error("slurmctld would not have started")
	}
}
