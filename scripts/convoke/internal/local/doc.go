// Package local runs a whole deployment in one process: the functions with their embedded store, Pub/Sub, a scheduler that
// ticks, and a simulated Google Cloud whose machines run a simulated Slurm. The parts meet where they would meet in
// Google Cloud: events travel as Pub/Sub messages that are pushed to the functions, the functions call the cloud with
// the official clients, and the audit log comes by the two roads that it really takes.
//
// Everything is kept below one data folder. A process that was killed is carried on from there.
//
// Here is only what puts parts together. What may not live here: any behaviour of a part, and any decision about clusters.
package local
