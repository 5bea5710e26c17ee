package events_test

import (
	"cmp"
	"slices"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

func sortNodes(nodes []cluster.SlurmNode) {
	slices.SortFunc(nodes, func(a, b cluster.SlurmNode) int { return a.Index - b.Index })
}

// sorted copies ids into the order of hostlists: by pool, then index.
func sorted(ids []cluster.NodeID) []cluster.NodeID {
	out := slices.Clone(ids)
	slices.SortFunc(out, func(a, b cluster.NodeID) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), a.Index-b.Index)
	})
	return out
}
