package slurm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
	hostlist "github.com/convoke-hpc/convoke/shared/slurm"
)

// Job is a job as squeue and sacct show it.
type Job struct {
	ID int64 `json:"id"`
	// Array is the id of the array that it belongs to, 0 for none; ArrayIndex is its index there.
	Array      int64         `json:"array,omitempty"`
	ArrayIndex int           `json:"arrayIndex,omitempty"`
	Name       string        `json:"name"`
	User       string        `json:"user"`
	Partition  string        `json:"partition"`
	State      JobState      `json:"state"`
	Reason     string        `json:"reason,omitempty"`
	Comment    string        `json:"comment,omitempty"`
	NodeCount  int           `json:"nodeCount"`
	Nodes      []string      `json:"nodes,omitempty"`
	TimeLimit  time.Duration `json:"timeLimitNanoseconds,omitempty"`
	Restarts   int           `json:"restarts,omitempty"`
	Submitted  time.Time     `json:"submitted"`
	Begin      time.Time     `json:"begin,omitzero"`
	Started    time.Time     `json:"started,omitzero"`
	Ended      time.Time     `json:"ended,omitzero"`
}

// Node is a node as scontrol shows it.
type Node struct {
	Name       string             `json:"name"`
	ID         cluster.NodeID     `json:"id"`
	Static     bool               `json:"static,omitempty"`
	Partitions []string           `json:"partitions,omitempty"`
	State      string             `json:"state"` // the base state: IDLE, ALLOCATED, MIXED, DOWN
	Flags      cluster.SlurmFlags `json:"flags"`
	Reason     string             `json:"reason,omitempty"`
	ReasonBy   string             `json:"reasonBy,omitempty"`
	ReasonAt   time.Time          `json:"reasonAt,omitzero"`
	Booted     time.Time          `json:"booted,omitzero"`
	Job        int64              `json:"job,omitempty"`
}

// Jobs are all jobs by id, finished ones too until they are forgotten.
func (c *Controller) Jobs() []Job {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle(c.now())
	out := make([]Job, len(c.jobs))
	for i, j := range c.jobs {
		out[i] = j.view()
	}
	return out
}

// Job is one job.
func (c *Controller) Job(id int64) (Job, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle(c.now())
	j := c.byID[id]
	if j == nil {
		return Job{}, false
	}
	return j.view(), true
}

func (j *job) view() Job {
	return Job{
		ID: j.ID, Array: j.Array, ArrayIndex: j.ArrayIndex, Name: j.Spec.Name, User: j.Spec.User, Partition: j.Spec.Partition,
		State: j.State, Reason: j.Reason, Comment: j.Comment, NodeCount: j.Spec.Nodes, Nodes: names(j.nodes),
		TimeLimit: j.Spec.TimeLimit, Restarts: j.Restarts, Submitted: j.Submitted, Begin: j.Begin, Started: j.Started,
		Ended: j.Ended,
	}
}

// Nodes are all nodes, by pool as the spec has them and by index.
func (c *Controller) Nodes() []Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.settle(now)
	partitions := map[*node][]string{}
	for _, name := range c.order {
		for _, n := range c.partitions[name].nodes {
			partitions[n] = append(partitions[n], name)
		}
	}
	out := make([]Node, len(c.nodes))
	for i, n := range c.nodes {
		out[i] = c.view(n, now)
		out[i].Partitions = partitions[n]
	}
	return out
}

// Node is one node.
func (c *Controller) Node(name string) (Node, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.settle(now)
	n := c.byName[name]
	if n == nil {
		return Node{}, false
	}
	return c.view(n, now), true
}

func (c *Controller) view(n *node, now time.Time) Node {
	state, flags := c.look(n, now)
	return Node{
		Name: n.name, ID: n.id, Static: n.static, State: state, Flags: flags, Reason: n.Reason, ReasonBy: n.ReasonBy,
		ReasonAt: n.ReasonAt, Booted: n.Booted, Job: n.Job,
	}
}

// String is the state as scontrol writes it: IDLE+CLOUD+POWERED_DOWN.
func (n Node) String() string {
	var b strings.Builder
	b.WriteString(n.State)
	for bit, name := range cluster.SlurmFlagNames {
		if n.Flags.Has(1 << bit) {
			b.WriteString("+" + name)
		}
	}
	return b.String()
}

// Short is the state as sinfo writes it: idle~, alloc#, drng, down*.
func (n Node) Short() string {
	word := map[string]string{"IDLE": "idle", "ALLOCATED": "alloc", "MIXED": "mix", "DOWN": "down"}[n.State]
	switch {
	case n.Flags.Has(cluster.FlagInvalid):
		word = "inval"
	case n.Flags.Has(cluster.FlagDrain) && (n.State == "ALLOCATED" || n.State == "MIXED" || n.Flags.Has(cluster.FlagCompleting)):
		word = "drng"
	case n.Flags.Has(cluster.FlagDrain):
		word = "drain"
	case n.Flags.Has(cluster.FlagCompleting):
		word = "comp"
	case n.Flags.Has(cluster.FlagMaint) && n.State == "IDLE":
		word = "maint"
	}
	for _, s := range []struct {
		flag cluster.SlurmFlags
		mark string
	}{
		{cluster.FlagPoweringDown, "%"}, {cluster.FlagPoweredDown, "~"}, {cluster.FlagPoweringUp, "#"}, {cluster.FlagNotResponding, "*"},
	} {
		if n.Flags.Has(s.flag) {
			return word + s.mark
		}
	}
	return word
}

// Sinfo is the nodes as sinfo prints them, the default partition marked with a star.
func (c *Controller) Sinfo() string {
	nodes := c.Nodes()
	var b strings.Builder
	b.WriteString("PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n")
	for _, part := range c.order {
		var states []string
		groups := map[string][]string{}
		for _, n := range nodes {
			if !slices.Contains(n.Partitions, part) {
				continue
			}
			state := n.Short()
			if groups[state] == nil {
				states = append(states, state)
			}
			groups[state] = append(groups[state], n.Name)
		}
		slices.Sort(states)
		name := part
		if part == c.fallback {
			name += "*"
		}
		for _, state := range states {
			fmt.Fprintf(&b, "%-9s %5s %10s %6d %6s %s\n", name, "up", "infinite", len(groups[state]), state, hostlist.CompressHostlist(groups[state]))
		}
	}
	return b.String()
}

// Squeue is the unfinished jobs as squeue prints them.
func (c *Controller) Squeue() string {
	jobs := c.Jobs()
	now := c.now()
	var b strings.Builder
	b.WriteString("             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n")
	// As squeue does: those that run last, and among the others the newest first.
	slices.SortStableFunc(jobs, func(a, b Job) int { return int(b.ID - a.ID) })
	slices.SortStableFunc(jobs, func(a, b Job) int { return len(a.Nodes) - len(b.Nodes) })
	for _, j := range jobs {
		if j.State.Finished() {
			continue
		}
		fmt.Fprintf(&b, "%18s %9s %8s %8s %2s %10s %6d %s\n", j.shortID(), cut(j.Partition, 9), cut(j.Name, 8), cut(j.User, 8), j.State.Short(),
			elapsed(j, now), j.NodeCount, j.where())
	}
	return b.String()
}

func (j Job) shortID() string {
	if j.Array != 0 {
		return fmt.Sprintf("%d_%d", j.Array, j.ArrayIndex)
	}
	return fmt.Sprint(j.ID)
}

func (j Job) where() string {
	if j.State == Pending {
		return "(" + j.Reason + ")"
	}
	return hostlist.CompressHostlist(j.Nodes)
}

// Short is the state's two letters.
func (s JobState) Short() string {
	return map[JobState]string{
		Pending: "PD", Configuring: "CF", Running: "R", Completing: "CG", Completed: "CD", Cancelled: "CA", NodeFail: "NF", TimedOut: "TO",
	}[s]
}

func elapsed(j Job, now time.Time) string {
	if j.State != Running && j.State != Completing || j.Started.IsZero() {
		return "0:00"
	}
	return Clock(now.Sub(j.Started))
}

// Clock writes a length of time as Slurm does: 0:05, 1:00:00, 2-03:04:05.
func Clock(d time.Duration) string {
	s := int64(max(0, d) / time.Second)
	days, hours, minutes, seconds := s/86400, s/3600%24, s/60%60, s%60
	switch {
	case days > 0:
		return fmt.Sprintf("%d-%02d:%02d:%02d", days, hours, minutes, seconds)
	case hours > 0:
		return fmt.Sprintf("%d:%02d:%02d", hours, minutes, seconds)
	}
	return fmt.Sprintf("%d:%02d", minutes, seconds)
}

func cut(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:width])
	}
	return s
}
