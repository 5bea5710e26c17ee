package events

import (
	"encoding/json"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// The types of events, as CloudEvents name them. A type's version rises when a reader of the old shape would misread the
// new one; fields may be added at any time.
const (
	TypeClusterCreate = "convoke.cluster.create.v1"
	TypeClusterUpdate = "convoke.cluster.update.v1"
	TypeClusterDelete = "convoke.cluster.delete.v1"
	TypeReportFaulty  = "convoke.cluster.reportFaultyNodes.v1"

	TypeNodesResume       = "convoke.nodes.resume.v1"
	TypeNodesSuspend      = "convoke.nodes.suspend.v1"
	TypeNodesResumeFailed = "convoke.nodes.resumeFailed.v1"
	TypeSlurmSnapshot     = "convoke.slurm.snapshot.v1"
	TypeCommandDone       = "convoke.slurm.commandDone.v1"

	TypeNodeBoot   = "convoke.node.boot.v1"
	TypeNodeHealth = "convoke.node.health.v1"
	TypeNodeNotice = "convoke.node.notice.v1"

	TypeInstanceLost = "convoke.instance.lost.v1"

	TypeTick        = "convoke.tick.v1"
	TypeClusterWake = "convoke.cluster.wake.v1"

	// TypeSlurmChanged is the steward's own: a new snapshot has been kept and says something else.
	TypeSlurmChanged = "convoke.slurm.changed.v1"

	// TypeSlurmCommand goes the other way: from the steward to the agent on the controller.
	TypeSlurmCommand = "convoke.slurm.command.v1"
)

// ClusterCreate asks for a cluster. The event's id is the operation's id.
type ClusterCreate struct {
	Cluster cluster.Key `json:"cluster"`
	// Spec is the spec as it was sent, not yet read.
	Spec json.RawMessage `json:"spec"`
}

// ClusterUpdate replaces the parts of the spec that the mask names.
type ClusterUpdate struct {
	Cluster    cluster.Key     `json:"cluster"`
	Spec       json.RawMessage `json:"spec"`
	UpdateMask []string        `json:"updateMask,omitempty"`
	UpdateMode string          `json:"updateMode,omitempty"`
}

// ClusterDelete asks for a cluster, and all that was made for it, to be removed.
type ClusterDelete struct {
	Cluster cluster.Key `json:"cluster"`
}

// ReportFaulty asks for one node to be deleted and made anew, or for its host to be reported.
type ReportFaulty struct {
	Cluster cluster.Key `json:"cluster"`
	Node    string      `json:"node"`
	// Host asks for the physical host to be reported as faulty, with a reason.
	Host   bool   `json:"reportFaultyHost,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// NodesResume is Slurm's ResumeProgram: these nodes are to exist.
type NodesResume struct {
	Cluster cluster.Key `json:"cluster"`
	Nodes   string      `json:"nodes"` // hostlist
	// Jobs for which they are resumed, as the resume file tells; may be empty, which means nothing by itself.
	Jobs []ResumeJob `json:"jobs,omitempty"`
	// Time is the controller's clock at the call.
	Time time.Time `json:"time"`
}

// ResumeJob is a job of a resume call, with the nodes that it has been given.
type ResumeJob struct {
	ID    int64  `json:"id"`
	Nodes string `json:"nodes"` // hostlist
}

// NodesSuspend is Slurm's SuspendProgram: these nodes are no longer needed.
type NodesSuspend struct {
	Cluster cluster.Key `json:"cluster"`
	Nodes   string      `json:"nodes"` // hostlist
	Time    time.Time   `json:"time"`
}

// NodesResumeFailed is Slurm's ResumeFailProgram: these nodes did not come within ResumeTimeout.
type NodesResumeFailed struct {
	Cluster cluster.Key `json:"cluster"`
	Nodes   string      `json:"nodes"` // hostlist
	Time    time.Time   `json:"time"`
}

// SlurmSnapshot is what slurmctld holds. See cluster.Snapshot for the meaning of the fields.
type SlurmSnapshot struct {
	Cluster  cluster.Key `json:"cluster"`
	Boot     time.Time   `json:"boot"`
	Sequence int64       `json:"sequence"`
	Taken    time.Time   `json:"taken"`
	Config   int64       `json:"config,omitempty"`
	// Nodes are grouped: one entry for all nodes that are in the same state with the same reason and boot time.
	Nodes []SnapshotNodes `json:"nodes"`
	Jobs  []SnapshotJob   `json:"jobs,omitempty"`
}

// SnapshotNodes are nodes that look the same.
type SnapshotNodes struct {
	Nodes    string    `json:"nodes"` // hostlist
	State    string    `json:"state"` // IDLE, ALLOCATED, …
	Flags    []string  `json:"flags,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	ReasonAt time.Time `json:"reasonAt,omitzero"`
	Booted   time.Time `json:"booted,omitzero"`
}

// SnapshotJob is a job that is not finished.
type SnapshotJob struct {
	ID        int64     `json:"id"`
	State     string    `json:"state"`
	Partition string    `json:"partition,omitempty"`
	User      string    `json:"user,omitempty"`
	Name      string    `json:"name,omitempty"`
	Nodes     string    `json:"nodes,omitempty"` // hostlist
	Limit     int64     `json:"limitSeconds,omitempty"`
	Submitted time.Time `json:"submitted,omitzero"`
	Started   time.Time `json:"started,omitzero"`
	Restarts  int       `json:"restarts,omitempty"`
	Comment   string    `json:"comment,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Requeue   bool      `json:"requeue,omitempty"`
	WholeNode bool      `json:"wholeNode,omitempty"`
}

// CommandDone tells what came of a command.
type CommandDone struct {
	Cluster cluster.Key `json:"cluster"`
	Command string      `json:"command"` // its id
	Kind    string      `json:"kind"`
	Nodes   string      `json:"nodes,omitempty"`
	Job     int64       `json:"job,omitempty"`
	OK      bool        `json:"ok"`
	Message string      `json:"message,omitempty"`
	Time    time.Time   `json:"time"`
}

// NodeBoot is the end of a machine's start-up, good or bad: of a node, a login node or the controller.
type NodeBoot struct {
	Cluster    cluster.Key `json:"cluster"`
	Node       string      `json:"node"` // the VM's name
	InstanceID uint64      `json:"instanceId,string"`
	OK         bool        `json:"ok"`
	Reason     string      `json:"reason,omitempty"`
	Log        string      `json:"log,omitempty"` // the last lines of the start-up log
	Time       time.Time   `json:"time"`
}

// Verdict is what a health report says of a node.
type Verdict string

// The verdicts.
const (
	Healthy  Verdict = "healthy"
	Warning  Verdict = "warning"
	Degraded Verdict = "degraded" // finish what runs, then replace
	Broken   Verdict = "broken"   // of no use to what runs on it: replace at once
)

// NodeHealth is a node's report of its own health.
type NodeHealth struct {
	Cluster    cluster.Key `json:"cluster"`
	Node       string      `json:"node"`
	InstanceID uint64      `json:"instanceId,string"`
	Verdict    Verdict     `json:"verdict"`
	// Check is what found it (gpu.xid, disk, network, …), Evidence what it saw.
	Check    string    `json:"check,omitempty"`
	Evidence string    `json:"evidence,omitempty"`
	Time     time.Time `json:"time"`
}

// What a notice announces.
const (
	NoticePreempted   = "preempted"
	NoticeMaintenance = "maintenance"
)

// NodeNotice is what a machine's metadata server announced to it.
type NodeNotice struct {
	Cluster    cluster.Key `json:"cluster"`
	Node       string      `json:"node"`
	InstanceID uint64      `json:"instanceId,string"`
	Notice     string      `json:"notice"` // NoticePreempted, NoticeMaintenance
	At         time.Time   `json:"at,omitzero"`
	Time       time.Time   `json:"time"`
}

// InstanceLost is what the audit log tells of an instance: that it was, or is being, taken away or stopped. It is a
// reason to look, never a proof.
type InstanceLost struct {
	Cluster    cluster.Key `json:"cluster"`
	Name       string      `json:"name"`
	Zone       string      `json:"zone"`
	InstanceID uint64      `json:"instanceId,string,omitempty"`
	Method     string      `json:"method"` // compute.instances.preempted, …
	Message    string      `json:"message,omitempty"`
	// HostError says that the machine under it broke.
	HostError bool      `json:"hostError,omitempty"`
	Time      time.Time `json:"time"`
}

// Tick wakes every cluster that is due. It says nothing: the records say which those are.
type Tick struct{}

// ClusterWake wakes one cluster.
type ClusterWake struct {
	Cluster cluster.Key `json:"cluster"`
}

// SlurmChanged says that a new snapshot of Slurm has been kept and says something else than the one before.
type SlurmChanged struct {
	Cluster cluster.Key `json:"cluster"`
}

// SlurmCommand is a command to the agent on a cluster's controller. See cluster.Command.
type SlurmCommand struct {
	Cluster cluster.Key `json:"cluster"`
	ID      string      `json:"id"`
	Kind    string      `json:"kind"`
	Nodes   string      `json:"nodes,omitempty"` // hostlist
	Job     int64       `json:"job,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	Dynamic bool        `json:"dynamic,omitempty"`
	Time    time.Time   `json:"time"`
	// Expires is when it must no longer be carried out.
	Expires time.Time `json:"expires,omitzero"`
}
