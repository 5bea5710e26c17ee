package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

func TestSummary(t *testing.T) {
	d := newDesk(t)
	s := running(t)
	s.Pools["a3u"] = &cluster.Pool{ID: "a3u", Allocations: []cluster.Allocation{{Name: "flexvm-a3u-x", Phase: cluster.Queued, Job: 7, Nodes: []int{1}}}}
	s.Nodes["a3u"] = []cluster.Node{
		{Index: 0, Phase: cluster.Ready, Since: now, LeaseEnd: now.Add(2 * time.Hour)},
		{Index: 1, Phase: cluster.Requested, Since: now},
		{Index: 2, Phase: cluster.Ready, Since: now.Add(-time.Minute), LeaseEnd: now.Add(time.Hour)},
		{Index: 3},
		{Index: 4, Phase: cluster.Failed, Reason: "Xid 79"},
	}
	s.Resources = []cluster.Resource{{Role: "munge", Phase: cluster.ResourceReady}, {Role: "controller", Phase: cluster.ResourceCreating}}
	s.Slurm = &cluster.Snapshot{Taken: now, Jobs: []cluster.SlurmJob{{ID: 7, State: "CONFIGURING", Nodes: []cluster.NodeID{{Pool: "a3u", Index: 0}, {Pool: "a3u", Index: 1}}}}}
	d.keep(s)
	code, got := d.call(http.MethodGet, parent+"/modelDevelopmentClusters/flexvm/summary", "")
	if code != 200 {
		t.Fatal(code, got)
	}
	holds(t, got, map[string]any{
		"name": flexvm.String(), "phase": "RUNNING",
		"resources.0.role": "controller", "resources.1": nil,
		"pools.0.id": "login", "pools.0.login": true,
		"pools.1.nodes.0.phase": "requested", "pools.1.nodes.0.nodes": "flexvm-a3u-1",
		"pools.1.nodes.1.phase": "ready", "pools.1.nodes.1.count": 2.0, "pools.1.nodes.1.nodes": "flexvm-a3u-[0,2]",
		"pools.1.nodes.1.since": "2026-03-02T10:19:00Z", "pools.1.nodes.1.leaseEnd": "2026-03-02T11:20:00Z",
		"pools.1.nodes.2.phase": "failed", "pools.1.nodes.2.reason": "Xid 79", "pools.1.nodes.3": nil,
		"pools.1.allocations.0.phase": "queued",
		"jobs.0.id":                   7.0, "jobs.0.nodes": "flexvm-a3u-[0-1]",
	})
	if code, _ := d.call(http.MethodGet, parent+"/modelDevelopmentClusters/none/summary", ""); code != 404 {
		t.Error(code)
	}
}
