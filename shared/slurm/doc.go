// Package slurm knows Slurm's own words: hostlist expressions, the machine types that nodes are made of and what Slurm is
// told of them, the parameters of slurm.conf and where each may stand.
//
// What lives here is pure: text in, values out, and back. What may not: running scontrol or anything else, files,
// clocks, and decisions about nodes and jobs (package decide).
package slurm
