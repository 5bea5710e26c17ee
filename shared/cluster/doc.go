// Package cluster is the model that every other package speaks of: the spec, the names, and the records of what was
// decided for a cluster, its pools, allocations and nodes, together with the plain values that cross the edges:
// intents (what the steward is asked to carry out), observations (what the cloud was seen to hold) and the snapshot
// of Slurm.
//
// What lives here: types, their invariants, and functions over one value of them (names, hashes, encodings). What may
// not: policy (package decide), input and output of any kind, clocks, randomness. Times are always passed in, are in
// UTC, carry no monotonic reading and are cut to milliseconds (see [Moment]), so that records are comparable with ==.
package cluster
