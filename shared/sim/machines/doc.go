// Package machines is what runs on the simulated VMs: it boots them, and does what the agent on each of them would do. A
// controller starts the simulated slurmctld of its cluster, on the state that an earlier controller left; a login node says that it
// has booted; a compute node says so too and registers with its cluster's slurmctld, for as long as its VM runs.
//
// [Guests] hears of VMs from the simulated cloud (package gcp) and knows of each only what its metadata server would tell.
// Faults are injected by node name: machines that never boot, or late, or badly; that find themselves broken; that are warned
// of their end; whose slurmd hangs.
//
// What may not live here: anything that decides about clusters. What the machines have to say goes out through a
// [Publisher], what they are told comes in through a [Commands], and both have the official Pub/Sub client behind them
// ([PubSub]) or nothing but memory ([Memory]).
package machines
