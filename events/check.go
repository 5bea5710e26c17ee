package events

import (
	"fmt"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// What each kind is held to, and the cluster it is about. In the order of types.go.

// Key implements Payload.
func (e *ClusterCreate) Key() cluster.Key { return e.Cluster }

func (e *ClusterCreate) check(f *faults) {
	f.cluster(e.Cluster)
	f.spec(e.Spec)
}

// Key implements Payload.
func (e *ClusterUpdate) Key() cluster.Key { return e.Cluster }

func (e *ClusterUpdate) check(f *faults) {
	f.cluster(e.Cluster)
	f.spec(e.Spec)
	f.count("updateMask", len(e.UpdateMask))
	for i := range e.UpdateMask {
		text(&e.UpdateMask[i])
	}
	switch e.UpdateMode {
	case "", "UPDATE_MODE_UNSPECIFIED", "USER_ONLY", "USER_AND_SERVICE":
	default:
		f.add("updateMode", "%q must be USER_ONLY or USER_AND_SERVICE", clip(e.UpdateMode))
	}
}

// Key implements Payload.
func (e *ClusterDelete) Key() cluster.Key { return e.Cluster }

func (e *ClusterDelete) check(f *faults) { f.cluster(e.Cluster) }

// Key implements Payload.
func (e *ReportFaulty) Key() cluster.Key { return e.Cluster }

func (e *ReportFaulty) check(f *faults) {
	f.cluster(e.Cluster)
	f.node("node", e.Cluster, &e.Node)
	text(&e.Reason)
}

// Key implements Payload.
func (e *NodesResume) Key() cluster.Key { return e.Cluster }

func (e *NodesResume) check(f *faults) {
	f.cluster(e.Cluster)
	f.hostlist("nodes", e.Cluster, e.Nodes)
	f.time("time", &e.Time)
	f.count("jobs", len(e.Jobs))
	for i, j := range e.Jobs {
		path := fmt.Sprintf("jobs[%d]", i)
		if j.ID <= 0 {
			f.add(path+".id", "%d is not a job's", j.ID)
		}
		f.optionalHostlist(path+".nodes", e.Cluster, j.Nodes)
	}
}

// Key implements Payload.
func (e *NodesSuspend) Key() cluster.Key { return e.Cluster }

func (e *NodesSuspend) check(f *faults) {
	f.cluster(e.Cluster)
	f.hostlist("nodes", e.Cluster, e.Nodes)
	f.time("time", &e.Time)
}

// Key implements Payload.
func (e *NodesResumeFailed) Key() cluster.Key { return e.Cluster }

func (e *NodesResumeFailed) check(f *faults) {
	f.cluster(e.Cluster)
	f.hostlist("nodes", e.Cluster, e.Nodes)
	f.time("time", &e.Time)
}

// Key implements Payload.
func (s *SlurmSnapshot) Key() cluster.Key { return s.Cluster }

// check leaves the hostlists to Model, which must expand them anyway.
func (s *SlurmSnapshot) check(f *faults) {
	f.cluster(s.Cluster)
	f.time("boot", &s.Boot)
	f.time("taken", &s.Taken)
	if s.Sequence <= 0 {
		f.add("sequence", "%d: the first snapshot since boot is number 1", s.Sequence)
	}
	if s.Nodes == nil {
		// A snapshot that says nothing of nodes must not be read as one that has seen none.
		f.add("nodes", "is missing")
	}
	f.count("nodes", len(s.Nodes))
	f.count("jobs", len(s.Jobs))
	for i := range s.Nodes {
		s.Nodes[i].check(f, i)
	}
	for i := range s.Jobs {
		s.Jobs[i].check(f, i)
	}
}

func (n *SnapshotNodes) check(f *faults, i int) {
	if n.Nodes == "" || len(n.Nodes) > MaxHostlist {
		f.add(fmt.Sprintf("nodes[%d].nodes", i), "must name nodes, in at most %d bytes", MaxHostlist)
	}
	if n.State == "" || len(n.State) > 64 {
		f.add(fmt.Sprintf("nodes[%d].state", i), "must be a state of Slurm's")
	}
	if len(n.Flags) > 64 {
		f.add(fmt.Sprintf("nodes[%d].flags", i), "has %d entries, more than 64", len(n.Flags))
	}
	text(&n.Reason)
	n.ReasonAt, n.Booted = plausible(n.ReasonAt), plausible(n.Booted)
}

func (j *SnapshotJob) check(f *faults, i int) {
	if j.ID <= 0 {
		f.add(fmt.Sprintf("jobs[%d].id", i), "%d is not a job's", j.ID)
	}
	if j.State == "" || len(j.State) > 64 {
		f.add(fmt.Sprintf("jobs[%d].state", i), "must be a state of Slurm's")
	}
	if len(j.Nodes) > MaxHostlist {
		f.add(fmt.Sprintf("jobs[%d].nodes", i), "is %d bytes long, more than %d", len(j.Nodes), MaxHostlist)
	}
	if j.Limit < 0 || j.Limit > maxLimit {
		j.Limit = 0 // UNLIMITED and its like
	}
	if j.Restarts < 0 {
		f.add(fmt.Sprintf("jobs[%d].restarts", i), "%d is negative", j.Restarts)
	}
	for _, s := range []*string{&j.Partition, &j.User, &j.Name, &j.Comment, &j.Reason} {
		text(s)
	}
	j.Submitted, j.Started = plausible(j.Submitted), plausible(j.Started)
}

// Key implements Payload.
func (e *CommandDone) Key() cluster.Key { return e.Cluster }

func (e *CommandDone) check(f *faults) {
	f.cluster(e.Cluster)
	f.word("command", e.Command)
	f.word("kind", e.Kind)
	f.optionalHostlist("nodes", e.Cluster, e.Nodes)
	f.time("time", &e.Time)
	text(&e.Message)
}

// Key implements Payload.
func (e *NodeBoot) Key() cluster.Key { return e.Cluster }

func (e *NodeBoot) check(f *faults) {
	f.cluster(e.Cluster)
	f.machine("node", e.Cluster, &e.Node)
	f.instance(e.InstanceID)
	f.time("time", &e.Time)
	text(&e.Reason)
	lines(&e.Log, MaxLog)
}

// Key implements Payload.
func (e *NodeHealth) Key() cluster.Key { return e.Cluster }

func (e *NodeHealth) check(f *faults) {
	f.cluster(e.Cluster)
	f.node("node", e.Cluster, &e.Node)
	f.instance(e.InstanceID)
	f.time("time", &e.Time)
	switch e.Verdict {
	case Healthy, Warning, Degraded, Broken:
	default:
		f.add("verdict", "%q must be healthy, warning, degraded or broken", clip(string(e.Verdict)))
	}
	text(&e.Check)
	text(&e.Evidence)
}

// Key implements Payload.
func (e *NodeNotice) Key() cluster.Key { return e.Cluster }

func (e *NodeNotice) check(f *faults) {
	f.cluster(e.Cluster)
	f.machine("node", e.Cluster, &e.Node)
	f.instance(e.InstanceID)
	f.time("time", &e.Time)
	f.optionalTime("at", &e.At)
	switch e.Notice {
	case NoticePreempted, NoticeMaintenance:
	default:
		f.add("notice", "%q must be %s or %s", clip(e.Notice), NoticePreempted, NoticeMaintenance)
	}
}

// Key implements Payload.
func (e *InstanceLost) Key() cluster.Key { return e.Cluster }

func (e *InstanceLost) check(f *faults) {
	f.cluster(e.Cluster)
	f.machine("name", e.Cluster, &e.Name)
	f.word("zone", e.Zone)
	f.word("method", e.Method)
	f.time("time", &e.Time)
	text(&e.Message)
}

// Key implements Payload: a tick is about no one cluster.
func (*Tick) Key() cluster.Key { return cluster.Key{} }

func (*Tick) check(*faults) {}

// Key implements Payload.
func (e *ClusterWake) Key() cluster.Key { return e.Cluster }

func (e *ClusterWake) check(f *faults) { f.cluster(e.Cluster) }

// Key implements Payload.
func (e *SlurmChanged) Key() cluster.Key { return e.Cluster }

func (e *SlurmChanged) check(f *faults) { f.cluster(e.Cluster) }

// Key implements Payload.
func (e *SlurmCommand) Key() cluster.Key { return e.Cluster }

// check does not ask whether the kind is known: an older agent reports one that it cannot carry out.
func (e *SlurmCommand) check(f *faults) {
	f.cluster(e.Cluster)
	f.word("id", e.ID)
	f.word("kind", e.Kind)
	f.optionalHostlist("nodes", e.Cluster, e.Nodes)
	if e.Job < 0 {
		f.add("job", "%d is not a job's", e.Job)
	}
	if e.Nodes == "" && e.Job == 0 {
		f.add("nodes", "the command is about no node and no job")
	}
	f.time("time", &e.Time)
	f.optionalTime("expires", &e.Expires)
	text(&e.Reason)
}
