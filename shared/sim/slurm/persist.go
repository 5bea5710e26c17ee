package slurm

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
	hostlist "github.com/convoke-hpc/convoke/shared/slurm"
)

// saved is what the controller's disk holds. It outlives the VM, and slurmctld.
type saved struct {
	LastJob      int64         `json:"lastJob"`
	PowerAt      time.Time     `json:"powerAt,omitzero"`
	Nodes        []savedNodes  `json:"nodes,omitempty"` // those that are not as at the first start
	Jobs         []savedJob    `json:"jobs,omitempty"`
	Reservations []Reservation `json:"reservations,omitempty"`
	Spool        []spooled     `json:"spool,omitempty"`
	Errands      []*errand     `json:"errands,omitempty"`
	Answers      []answer      `json:"answers,omitempty"`
	// Boot is the agent's, so that one that starts later is never taken for an earlier one.
	Boot time.Time `json:"boot"`
}

// savedNodes are nodes in one and the same state: jobs come with many such.
type savedNodes struct {
	Nodes string `json:"nodes"` // hostlist
	nodeState
}

type savedJob struct {
	jobState
	Held string `json:"held,omitempty"` // hostlist
}

// Save is the state as Load reads it: jobs, nodes, reservations, the spool and what is known of commands. What machines
// run is not part of it.
func (c *Controller) Save() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state()
}

func (c *Controller) state() ([]byte, error) {
	s := saved{
		LastJob: c.lastJob, PowerAt: c.powerAt, Nodes: c.savedNodes(), Reservations: c.reservations,
		Spool: c.agent.spool, Errands: c.agent.errands, Boot: c.agent.boot,
	}
	for _, j := range c.jobs {
		s.Jobs = append(s.Jobs, savedJob{jobState: j.jobState, Held: hostlist.HostlistOf(c.options.Key.ID, j.ids())})
	}
	for _, id := range c.agent.order {
		s.Answers = append(s.Answers, c.agent.answers[id])
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("saving the controller's state, %w", err)
	}
	return data, nil
}

func (c *Controller) savedNodes() []savedNodes {
	fresh := freshNode()
	at := map[nodeState]int{}
	var groups [][]cluster.NodeID
	var out []savedNodes
	for _, n := range c.nodes {
		if n.nodeState == fresh {
			continue
		}
		i, known := at[n.nodeState]
		if !known {
			i = len(out)
			at[n.nodeState] = i
			out = append(out, savedNodes{nodeState: n.nodeState})
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], n.id)
	}
	for i := range out {
		out[i].Nodes = hostlist.HostlistOf(c.options.Key.ID, groups[i])
	}
	return out
}

// known are the nodes of a hostlist that the spec has, and how many it names.
func (c *Controller) known(list string) (nodes []*node, named int, err error) {
	ids, _, err := hostlist.Nodes(c.options.Key.ID, list)
	if err != nil {
		return nil, 0, fmt.Errorf("reading nodes from the controller's state, %w", err)
	}
	for _, id := range ids {
		if n := c.byName[cluster.NodeName(c.options.Key.ID, id)]; n != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes, len(ids), nil
}

// Load makes a controller that has just been made go on from a saved state, perhaps under a changed spec: nodes that the spec no longer
// has are forgotten, and jobs on them are lost, as in Slurm. Nodes that are up have SlurmdTimeout to answer.
func (c *Controller) Load(data []byte) error {
	var s saved
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("reading the controller's state, %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agent.spool = s.Spool
	now := c.now()
	if !c.agent.boot.After(s.Boot) {
		c.agent.boot = s.Boot.Add(time.Millisecond)
	}
	c.lastJob, c.powerAt, c.reservations = s.LastJob, s.PowerAt, s.Reservations
	c.agent.errands = s.Errands
	for _, a := range s.Answers {
		c.agent.answers[a.Done.Command] = a
		c.agent.order = append(c.agent.order, a.Done.Command)
	}
	for _, group := range s.Nodes {
		nodes, _, err := c.known(group.Nodes)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			n.nodeState = group.nodeState
			if n.pinged() {
				n.Heard = now
			}
		}
	}
	if err := c.loadJobs(s.Jobs, now); err != nil {
		return err
	}
	c.changed(now)
	return nil
}

func (c *Controller) loadJobs(jobs []savedJob, now time.Time) error {
	for _, saved := range jobs {
		j := &job{jobState: saved.jobState}
		nodes, held, err := c.known(saved.Held)
		if err != nil {
			return err
		}
		j.nodes = nodes
		c.jobs = append(c.jobs, j)
		c.byID[j.ID] = j
		if j.State.Finished() {
			continue
		}
		if c.partitions[j.Spec.Partition] == nil || len(nodes) < held && j.State != Completing {
			c.release(j, now)
			c.finish(j, NodeFail, now)
		}
	}
	slices.SortFunc(c.jobs, func(a, b *job) int { return int(a.ID - b.ID) })
	return nil
}
