package events

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/slurm"
)

// maxJobNodes bounds how many nodes all jobs of a snapshot may hold together. A hostlist is short however many nodes it
// means, so that a small message could otherwise ask for any amount of memory.
const maxJobNodes = 4 * slurm.MaxHosts

// maxLimit is beyond every time limit that is not Slurm's way of writing that there is none.
const maxLimit = int64(10 * 365 * 24 * time.Hour / time.Second)

// Model is the snapshot as the decisions read it. It fails when a hostlist cannot be read or stands for too much.
func (s *SlurmSnapshot) Model() (*cluster.Snapshot, error) {
	out := &cluster.Snapshot{
		Boot:     cluster.Moment(s.Boot),
		Sequence: s.Sequence,
		Taken:    cluster.Moment(s.Taken),
		Config:   s.Config,
		Nodes:    map[string][]cluster.SlurmNode{},
	}
	total := 0
	for i := range s.Nodes {
		n, err := s.Nodes[i].addTo(out, s.Cluster.ID)
		if err != nil {
			return nil, fmt.Errorf("reading nodes[%d] of a snapshot of %s, %w", i, s.Cluster, err)
		}
		if total += n; total > slurm.MaxHosts {
			return nil, fmt.Errorf("reading a snapshot of %s, it holds more than %d nodes", s.Cluster, slurm.MaxHosts)
		}
	}
	for pool, nodes := range out.Nodes {
		byIndex := func(a, b cluster.SlurmNode) int { return a.Index - b.Index }
		if !slices.IsSortedFunc(nodes, byIndex) {
			slices.SortStableFunc(nodes, byIndex)
		}
		// slurmctld has each node once; a snapshot that names one twice is believed the first time.
		out.Nodes[pool] = slices.CompactFunc(nodes, func(a, b cluster.SlurmNode) bool { return a.Index == b.Index })
	}
	if err := s.addJobs(out); err != nil {
		return nil, err
	}
	return out, nil
}

func (n *SnapshotNodes) addTo(out *cluster.Snapshot, clusterID string) (count int, err error) {
	ids, foreign, err := slurm.Nodes(clusterID, n.Nodes)
	if err != nil {
		return 0, err
	}
	node := cluster.SlurmNode{
		State:    strings.ToUpper(n.State),
		Flags:    parseFlags(n.Flags),
		Reason:   n.Reason,
		ReasonAt: plausible(n.ReasonAt),
		Booted:   plausible(n.Booted),
	}
	for from := 0; from < len(ids); {
		to := from
		for to < len(ids) && ids[to].Pool == ids[from].Pool {
			to++
		}
		pool := slices.Grow(out.Nodes[ids[from].Pool], to-from)
		for _, id := range ids[from:to] {
			node.Index = id.Index
			pool = append(pool, node)
		}
		out.Nodes[ids[from].Pool] = pool
		from = to
	}
	out.Unknown = append(out.Unknown, foreign...)
	return len(ids) + len(foreign), nil
}

func (s *SlurmSnapshot) addJobs(out *cluster.Snapshot) error {
	if len(s.Jobs) == 0 {
		return nil
	}
	out.Jobs = make([]cluster.SlurmJob, 0, len(s.Jobs))
	total := 0
	for i := range s.Jobs {
		j := &s.Jobs[i]
		nodes, _, err := slurm.Nodes(s.Cluster.ID, j.Nodes)
		if err != nil {
			return fmt.Errorf("reading job %d of a snapshot of %s, %w", j.ID, s.Cluster, err)
		}
		if total += len(nodes); total > maxJobNodes {
			return fmt.Errorf("reading a snapshot of %s, its jobs hold more than %d nodes", s.Cluster, maxJobNodes)
		}
		if len(nodes) == 0 {
			nodes = nil
		}
		out.Jobs = append(out.Jobs, cluster.SlurmJob{
			ID: j.ID, State: strings.ToUpper(j.State), Partition: j.Partition, User: j.User, Name: j.Name, Nodes: nodes,
			Limit: time.Duration(j.Limit) * time.Second, Submitted: plausible(j.Submitted), Started: plausible(j.Started),
			Restarts: j.Restarts, Comment: j.Comment, Reason: j.Reason, Requeue: j.Requeue, WholeNode: j.WholeNode,
		})
	}
	return nil
}

// plausible is a time of Slurm's in the form that records keep, zero where Slurm writes one that stands for "never".
func plausible(t time.Time) time.Time {
	if t.Before(earliest) || t.After(latest) {
		return time.Time{}
	}
	return cluster.Moment(t)
}

func parseFlags(names []string) cluster.SlurmFlags {
	var flags cluster.SlurmFlags
	for _, name := range names {
		for bit, known := range cluster.SlurmFlagNames {
			if strings.EqualFold(name, known) {
				flags |= 1 << bit
			}
		}
	}
	return flags
}

func flagNames(flags cluster.SlurmFlags) []string {
	var names []string
	for bit, name := range cluster.SlurmFlagNames {
		if flags&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// SnapshotOf is the event that tells a snapshot. It is canonical: snapshots that say the same give the same event, and
// so the same digest.
func SnapshotOf(key cluster.Key, m *cluster.Snapshot) *SlurmSnapshot {
	return &SlurmSnapshot{
		Cluster: key, Boot: m.Boot, Sequence: m.Sequence, Taken: m.Taken, Config: m.Config,
		Nodes: groupNodes(key.ID, m), Jobs: listJobs(key.ID, m.Jobs),
	}
}

func groupNodes(clusterID string, m *cluster.Snapshot) []SnapshotNodes {
	groups := map[cluster.SlurmNode][]cluster.NodeID{}
	for pool, nodes := range m.Nodes {
		for _, n := range nodes {
			look := n
			look.Index = 0
			groups[look] = append(groups[look], cluster.NodeID{Pool: pool, Index: n.Index})
		}
	}
	out := make([]SnapshotNodes, 0, len(groups)+1)
	for look, ids := range groups {
		out = append(out, SnapshotNodes{
			Nodes: slurm.HostlistOf(clusterID, ids), State: look.State, Flags: flagNames(look.Flags),
			Reason: look.Reason, ReasonAt: look.ReasonAt, Booted: look.Booted,
		})
	}
	if len(m.Unknown) > 0 {
		out = append(out, SnapshotNodes{Nodes: slurm.CompressHostlist(m.Unknown), State: "UNKNOWN"})
	}
	slices.SortFunc(out, func(a, b SnapshotNodes) int { return strings.Compare(a.Nodes, b.Nodes) })
	return out
}

func listJobs(clusterID string, jobs []cluster.SlurmJob) []SnapshotJob {
	if len(jobs) == 0 {
		return nil
	}
	out := make([]SnapshotJob, 0, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		out = append(out, SnapshotJob{
			ID: j.ID, State: j.State, Partition: j.Partition, User: j.User, Name: j.Name,
			Nodes: slurm.HostlistOf(clusterID, j.Nodes), Limit: int64(j.Limit / time.Second), Submitted: j.Submitted,
			Started: j.Started, Restarts: j.Restarts, Comment: j.Comment, Reason: j.Reason, Requeue: j.Requeue,
			WholeNode: j.WholeNode,
		})
	}
	slices.SortStableFunc(out, func(a, b SnapshotJob) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Digest is of what the snapshot says apart from when: boot, sequence and the time it was taken. Two that differ in
// nothing else are the same news.
func (s *SlurmSnapshot) Digest() (string, error) {
	said := *s
	said.Boot, said.Sequence, said.Taken = time.Time{}, 0, time.Time{}
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(&said); err != nil {
		return "", fmt.Errorf("digesting a snapshot of %s, %w", s.Cluster, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
