// Package slurm is a simulated slurmctld together with the agent that stands beside it on the controller. It does what
// Slurm 22.05 was seen to do with power saving on: CLOUD nodes that are powered up for jobs and down when idle, the
// clocks that run meanwhile, registrations that are taken, refused or silently ignored, and jobs that are requeued when
// their nodes fail.
//
// It is a state machine over a clock that is passed in. Every method makes the change it stands for and everything that
// has become due, under one mutex; [Controller.Run] only waits for what is due next and publishes what the agent has to
// tell. The same calls at the same times give the same states and the same events.
//
// # What a reader of its events may rely on
//
//  1. Hook events (nodes resume, suspend, resumeFailed) and answers to commands are spooled in the order in which they
//     happened, saved before they are published, and published until that succeeds, under an id that stays the same.
//  2. A snapshot follows every change after [Timing.SnapshotDelay], and comes every [Timing.Snapshot] anyhow. Snapshots
//     are not spooled: one that could not be published is replaced by the next.
//  3. A command is carried out once however often it comes; its answer is told again each time.
//
// # What is simpler than in Slurm
//
// A node runs one job at a time (a job that does not use all of its nodes shows them as MIXED all the same), priorities
// are the order of submission, and accounts, QOS, preemption and job steps do not exist.
package slurm
