// Package steward is the loop that keeps a cluster: post what happened, take the cluster's lease, step until there is nothing
// left to do now, rest. A step folds events and outcomes, looks at the cloud where something is in motion, has package
// decide decide, commits state and decisions as one, and carries the intents out. A crash between any two lines is
// repaired by the next event or tick.
//
// What may not live here: policy (package decide), how anything is stored (package store) or carried out (package
// cloud).
package steward
