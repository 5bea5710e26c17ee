package slurm

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// JobState is a job's state in Slurm's capitals.
type JobState string

// The states.
const (
	Pending     JobState = "PENDING"
	Configuring JobState = "CONFIGURING"
	Running     JobState = "RUNNING"
	Completing  JobState = "COMPLETING"
	Completed   JobState = "COMPLETED"
	Cancelled   JobState = "CANCELLED"
	NodeFail    JobState = "NODE_FAIL"
	TimedOut    JobState = "TIMEOUT"
)

// Finished reports whether a job in this state will never run again.
func (s JobState) Finished() bool {
	switch s {
	case Completed, Cancelled, NodeFail, TimedOut:
		return true
	}
	return false
}

// JobSpec is what a person submits.
type JobSpec struct {
	Name      string
	User      string
	Partition string // empty: the default partition
	Nodes     int    // how many; 0 is 1
	// TimeLimit of 0 is none. RunFor is how long the job takes; 0: until its limit, or until it is cancelled.
	TimeLimit time.Duration
	RunFor    time.Duration
	// NoRequeue makes the job end with NODE_FAIL where others are requeued.
	NoRequeue bool
	// WholeNode says that the job uses all GPUs of its nodes.
	WholeNode bool
	// Array makes so many jobs of it.
	Array int
	// Begin is the earliest start; zero: at once.
	Begin time.Time
	// NodeList are nodes that the job must have.
	NodeList []string
	Comment  string
}

// job is a job as slurmctld has it.
type job struct {
	jobState
	nodes []*node // those it has been given, sorted; empty while pending
}

// jobState is what the controller's disk keeps of a job, with its nodes' names.
type jobState struct {
	ID         int64     `json:"id"`
	Array      int64     `json:"array,omitempty"` // the id of the array's first job
	ArrayIndex int       `json:"arrayIndex,omitempty"`
	Spec       JobSpec   `json:"spec"`
	State      JobState  `json:"state"`
	Reason     string    `json:"reason,omitempty"`
	Comment    string    `json:"comment,omitempty"`
	Restarts   int       `json:"restarts,omitempty"`
	Submitted  time.Time `json:"submitted"`
	Begin      time.Time `json:"begin,omitzero"`
	Started    time.Time `json:"started,omitzero"`
	Ended      time.Time `json:"ended,omitzero"`
	// Until is when a COMPLETING job has completed, and Then what it is afterwards.
	Until time.Time `json:"until,omitzero"`
	Then  JobState  `json:"then,omitempty"`
	// Required are nodes that it must be given when it starts next.
	Required []string `json:"required,omitempty"`
}

// The reasons of pending jobs, as squeue shows them.
const (
	whyNone        = "None"
	whyResources   = "Resources"
	whyPriority    = "Priority"
	whyBegin       = "BeginTime"
	whyUnavailable = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
)

func (j *job) ids() []cluster.NodeID {
	out := make([]cluster.NodeID, len(j.nodes))
	for i, n := range j.nodes {
		out[i] = n.id
	}
	return out
}

// end is when a running job ends by itself, and how; the zero time: never.
func (j *job) end() (time.Time, JobState) {
	run, limit := j.Spec.RunFor, j.Spec.TimeLimit
	switch {
	case run > 0 && (limit == 0 || run <= limit):
		return j.Started.Add(run), Completed
	case limit > 0:
		return j.Started.Add(limit), TimedOut
	}
	return time.Time{}, ""
}

// Submit queues a job, or as many as its array has, and answers with the id of the first.
func (c *Controller) Submit(spec JobSpec) (id int64, err error) {
	err = c.do(func(now time.Time) error {
		spec, err = c.checked(spec)
		if err != nil {
			return fmt.Errorf("submitting: %w", err)
		}
		id = c.lastJob + 1
		for i := range max(1, spec.Array) {
			c.lastJob++
			j := &job{jobState: jobState{
				ID: c.lastJob, Spec: spec, State: Pending, Reason: whyNone, Comment: spec.Comment, Submitted: now,
				Begin: cluster.Moment(spec.Begin), Required: spec.NodeList,
			}}
			if spec.Begin.IsZero() {
				j.Begin = time.Time{}
			}
			if spec.Array > 0 {
				j.Array, j.ArrayIndex = id, i
			}
			c.jobs = append(c.jobs, j)
			c.byID[j.ID] = j
		}
		return nil
	})
	return id, err
}

// maxArray is Slurm's default MaxArraySize.
const maxArray = 1001

// checked is the spec with its defaults, or why it can never run.
func (c *Controller) checked(spec JobSpec) (JobSpec, error) {
	spec.Partition = cmp.Or(spec.Partition, c.fallback)
	spec.Nodes = cmp.Or(spec.Nodes, len(spec.NodeList), 1)
	spec.Name = cmp.Or(spec.Name, "wrap")
	spec.User = cmp.Or(spec.User, "user")
	p := c.partitions[spec.Partition]
	switch {
	case p == nil:
		return spec, fmt.Errorf("partition %q: %w", spec.Partition, ErrPartition)
	case spec.Nodes < 1 || len(spec.NodeList) > spec.Nodes:
		return spec, ErrNodeCount
	case spec.Nodes > len(p.nodes):
		return spec, ErrConfiguration
	case spec.TimeLimit < 0 || spec.RunFor < 0:
		return spec, ErrTime
	case spec.Array < 0 || spec.Array > maxArray:
		return spec, ErrArraySize
	}
	return spec, c.checkNodeList(p, spec.NodeList)
}

func (c *Controller) checkNodeList(p *partition, list []string) error {
	for _, name := range list {
		n := c.byName[name]
		if n == nil {
			return fmt.Errorf("%s: %w", name, ErrNodeName)
		}
		if !slices.Contains(p.nodes, n) {
			return ErrConfiguration
		}
	}
	return nil
}

// Cancel ends a job, or all jobs of an array when the id is its first's.
func (c *Controller) Cancel(id int64) error {
	return c.do(func(now time.Time) error {
		first := c.byID[id]
		if first == nil {
			return fmt.Errorf("cancelling job %d: %w", id, ErrJobID)
		}
		if first.State.Finished() && first.Array != id {
			return fmt.Errorf("cancelling job %d: %w", id, ErrJobDone)
		}
		for _, j := range c.jobs {
			if j.ID == id || j.Array == id {
				c.cancel(j, now)
			}
		}
		return nil
	})
}

func (c *Controller) cancel(j *job, now time.Time) {
	switch j.State {
	case Pending:
		c.finish(j, Cancelled, now)
	case Configuring:
		// Its nodes stay POWERING_UP, whatever becomes of it.
		c.release(j, now)
		c.finish(j, Cancelled, now)
	case Running:
		c.complete(j, Cancelled, c.timing.Epilog, now)
	case Completing:
		j.Then = Cancelled
	}
}

// Requeue takes a job off its nodes and puts it back into the queue.
func (c *Controller) Requeue(id int64) error {
	return c.do(func(now time.Time) error {
		j := c.byID[id]
		switch {
		case j == nil:
			return fmt.Errorf("requeueing job %d: %w", id, ErrJobID)
		case j.Spec.NoRequeue:
			return fmt.Errorf("requeueing job %d: %w", id, ErrDisabled)
		case j.State == Pending:
			return fmt.Errorf("requeueing job %d: %w", id, ErrJobPending)
		case j.State == Running:
			c.complete(j, Pending, c.timing.Epilog, now)
		case j.State == Configuring:
			c.release(j, now)
			c.requeue(j, now)
		default:
			return fmt.Errorf("requeueing job %d: %w", id, ErrJobDone)
		}
		return nil
	})
}

// failJob takes the job off a node that has failed: it is requeued, unless it may not be.
func (c *Controller) failJob(n *node, now time.Time) {
	j := c.byID[n.Job]
	if j == nil {
		return
	}
	then := Pending
	if j.Spec.NoRequeue {
		then = NodeFail
	}
	switch j.State {
	case Configuring:
		c.release(j, now)
		c.settleJob(j, then, now)
	case Running:
		c.detach(j, n, now)
		c.complete(j, then, c.timing.NodeFail, now)
	case Completing:
		c.detach(j, n, now)
	}
}

// strandJob is what becomes of a job whose node is powered down under it: slurmctld waits in vain for word of its end.
func (c *Controller) strandJob(n *node, now time.Time) {
	j := c.byID[n.Job]
	if j == nil || j.State != Running {
		c.failJob(n, now)
		return
	}
	then := Pending
	if j.Spec.NoRequeue {
		then = NodeFail
	}
	c.complete(j, then, c.timing.Unkillable, now)
}

// complete begins a running job's end.
func (c *Controller) complete(j *job, then JobState, takes time.Duration, now time.Time) {
	j.State, j.Then, j.Until = Completing, then, now.Add(takes)
	j.Ended = now
}

// settleJob is the end of a job's run: it is queued again, or finished.
func (c *Controller) settleJob(j *job, then JobState, now time.Time) {
	if then == Pending {
		c.requeue(j, now)
		return
	}
	c.finish(j, then, now)
}

func (c *Controller) requeue(j *job, now time.Time) {
	j.State, j.Reason, j.Restarts = Pending, whyBegin, j.Restarts+1
	j.Begin, j.Started, j.Ended, j.Until, j.Then = now.Add(c.timing.BeginDelay), time.Time{}, time.Time{}, time.Time{}, ""
	j.Required = j.Spec.NodeList
}

func (c *Controller) finish(j *job, state JobState, now time.Time) {
	if j.Ended.IsZero() {
		j.Ended = now
	}
	j.State, j.Reason, j.Until, j.Then = state, whyNone, time.Time{}, ""
}

// release gives up all nodes of a job.
func (c *Controller) release(j *job, now time.Time) {
	for _, n := range j.nodes {
		n.Job, n.Idle = 0, now
	}
	j.nodes = nil
}

// detach gives up one node of a job.
func (c *Controller) detach(j *job, n *node, now time.Time) {
	n.Job, n.Idle = 0, now
	j.nodes = slices.DeleteFunc(j.nodes, func(m *node) bool { return m == n })
}

// allocate gives nodes to a pending job and asks for those that are powered down. Those that are powering up already, since a job
// that has gone asked for them, are taken over without any call.
func (c *Controller) allocate(j *job, nodes []*node, now time.Time) {
	sortNodes(nodes)
	j.nodes = nodes
	j.Reason, j.Required = whyNone, nil
	j.State, j.Started = Running, now
	for _, n := range nodes {
		n.Job = j.ID
		if n.Flags.Has(cluster.FlagPoweredDown) {
			c.powerUp(n, now)
		}
		if n.Flags.Has(cluster.FlagPoweringUp) {
			j.State = Configuring
		}
	}
}

// isConfigured reports whether all nodes of a configuring job have come.
func (c *Controller) isConfigured(j *job) bool {
	if j.State != Configuring {
		return false
	}
	for _, n := range j.nodes {
		if !n.up() {
			return false
		}
	}
	return true
}

// configured is the periodic check that starts jobs whose nodes have all come. Their time counts from here.
func (c *Controller) configured(now time.Time) (changed bool) {
	if !c.onTick(now, c.timing.Configuring, &c.agent.checked) {
		return false
	}
	for _, j := range c.jobs {
		if c.isConfigured(j) {
			j.State, j.Started = Running, now
			changed = true
		}
	}
	return changed
}

// jobDue is when something happens to the job by itself.
func (c *Controller) jobDue(j *job, now time.Time) time.Time {
	switch {
	case j.State == Running:
		at, _ := j.end()
		return at
	case j.State == Completing:
		return j.Until
	case j.State == Pending && j.Begin.After(now):
		return j.Begin
	case j.State.Finished():
		return j.Ended.Add(c.timing.Keep)
	}
	return time.Time{}
}

// endJobs ends runs and completions whose time has come, and forgets jobs that finished long ago.
func (c *Controller) endJobs(now time.Time) (changed bool) {
	forgotten := false
	for _, j := range c.jobs {
		due := c.jobDue(j, now)
		if due.IsZero() || due.After(now) {
			continue
		}
		changed = true
		switch {
		case j.State == Running:
			_, then := j.end()
			c.complete(j, then, c.timing.Epilog, now)
		case j.State == Completing:
			then := j.Then
			c.release(j, now)
			c.settleJob(j, then, now)
		case j.State.Finished():
			delete(c.byID, j.ID)
			forgotten = true
		}
	}
	if forgotten {
		c.jobs = slices.DeleteFunc(c.jobs, func(j *job) bool { return c.byID[j.ID] == nil })
	}
	return changed
}
