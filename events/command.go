package events

import (
	"fmt"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/slurm"
)

// CommandOf is the event that carries a command to a cluster's controller. After expires, which may be zero, it must no
// longer be carried out: what it was decided from is too old by then, and if it is still wanted it is sent again.
func CommandOf(key cluster.Key, c cluster.Command, now, expires time.Time) *SlurmCommand {
	return &SlurmCommand{
		Cluster: key, ID: c.ID, Kind: string(c.Kind), Nodes: slurm.HostlistOf(key.ID, c.Nodes), Job: c.Job,
		Reason: c.Reason, Dynamic: c.Dynamic, Time: now, Expires: expires,
	}
}

// Model is the command as the steward decided it.
func (e *SlurmCommand) Model() (cluster.Command, error) {
	nodes, foreign, err := slurm.Nodes(e.Cluster.ID, e.Nodes)
	if err != nil {
		return cluster.Command{}, fmt.Errorf("reading command %s, %w", e.ID, err)
	}
	if len(foreign) > 0 {
		return cluster.Command{}, fmt.Errorf("reading command %s, %q is not a node of cluster %s", e.ID, foreign[0], e.Cluster.ID)
	}
	if len(nodes) == 0 {
		nodes = nil
	}
	return cluster.Command{
		Kind: cluster.CommandKind(e.Kind), Nodes: nodes, Job: e.Job, Reason: e.Reason, Dynamic: e.Dynamic, ID: e.ID,
	}, nil
}
