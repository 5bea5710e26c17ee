// Package events is the catalog of what is told to Convoke and by it: one Go type, one JSON Schema (schemas/) and one
// example (examples/) for each kind of CloudEvent, and the pure functions that read and write them. What may not live
// here: input and output, and any decision about what an event should lead to.
//
// # The delivery contract
//
// What whoever consumes events may rely on, and what not:
//
//  1. At least once, mostly. An event that was acknowledged by the transport may have been delivered before, and may be
//     delivered again at any time, also after it has been dealt with and forgotten.
//  2. Any event may be lost. Pub/Sub drops what was not acknowledged within its retention, Eventarc after 24 hours, a
//     trigger that is made anew drops what came meanwhile, and a hook that cannot reach its spool tells nobody.
//     Two ticks later the state must be what it would be if the event had come.
//  3. No order. Events of one source, of one cluster, even of one node arrive in any order. The times and sequences in
//     the payload order them, never the order of arrival.
//  4. Any lateness. An event is about the moment it names, which may be days ago. What it says of a machine is about the
//     machine whose instance id it carries, which may be gone, with another one under the same name.
//  5. A CloudEvent's source and id together identify it. The same source and id is the same event, whatever else
//     differs; the second is dropped or does nothing. Requests (create, update, delete, reportFaultyNodes) go further:
//     their id alone is the id of the operation that they begin.
//  6. An event in a cluster's inbox has an id that is derived from 5 (see [InboxID]), so that one told twice is posted
//     once; as long as the first has not been consumed. After that, 1 applies.
//  7. A function acknowledges when, and only when, the event is in the inbox, has been found to be of no use, or has been
//     written to the quarantine. Nobody else acknowledges. Whether a decision came of it does not matter to the
//     transport: what is in the inbox is never forgotten.
//  8. A function asks for redelivery only where trying again can help: the store, or what it stands on, did not answer.
//     What cannot be read today cannot be read tomorrow either: it is quarantined with the reason, and acknowledged.
//  9. An unknown kind is no error: a newer sender may speak to an older function. It is counted, and acknowledged.
//  10. Unknown fields are ignored. A field of the wrong type, or a value that breaks its rules, makes the whole event
//     unreadable: half an event is never acted on.
//  11. A node claims, it does not decide. What a node says of itself (boot, health, notice) is believed only about the
//     instance id it names, only if its name is of the cluster it names, and never about another node. At worst, a lying
//     node has itself replaced.
//  12. The audit log points, it does not prove. An [InstanceLost] makes somebody look at the instance; what is then seen
//     decides.
//
// # Less formally
//
// Think of an event as somebody who puts their head in at the door and says "you may want to look at node 3". It is
// useful, since we look now and not in a minute. It is never needed, since we look in a minute anyway. They may come twice,
// or come a day late with yesterday's news, and so nothing is done on their word that could not be done again, or that
// a look at the thing itself does not bear out. The two exceptions are requests of people, which say what is wanted and
// are told apart by their operation's id, and reports of nodes about their own health, which nobody else can see; those
// name the very machine that they are about.
//
// Senders have it easy for the same reason: publish, retry until the transport has taken it, keep the id the same over
// the retries, and do not wait for an answer. A sender whose clock is wrong harms itself alone: hook calls are compared
// with each other by the controller's clock, which wrote them all.
//
// # The catalog
//
// See [Catalog]. By topic:
//
//	cluster-requests   cluster.create, cluster.update, cluster.delete, cluster.reportFaultyNodes    people, CI, the API
//	slurm-events       nodes.resume, nodes.suspend, nodes.resumeFailed, slurm.snapshot,
//	                   slurm.commandDone                                                            the controller's agent
//	                   node.boot, node.health, node.notice                                          each machine's agent
//	instance-events    audit log entries, which become instance.lost                                Compute Engine
//	ticks              tick, cluster.wake                                                           Cloud Scheduler, the steward
//	slurm-commands     slurm.command                                                                the steward
//
// In Pub/Sub messages, events are in the binary mode of the CloudEvents binding (attributes ce-id, ce-type, …) and carry
// the attribute "cluster" ([cluster.Key.Doc]), so that a subscription can filter on it; see [ToMessage].
//
// A type's version (the v1 of convoke.node.boot.v1) rises when a reader of the old shape would misread the new one. New
// fields may be added at any time.
package events

//go:generate go run ./internal/schemagen
