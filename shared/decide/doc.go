// Package decide is where everything is decided: pure functions over one cluster's whole state. A [Turn] is one step of
// a cluster: what happened is folded in (events, outcomes of intents, an observation of the cloud), then [Turn.Decide]
// says what to do. The same state, facts and time always give the same decision.
//
// The state is levels, not edges. A record says where a thing is (a node is requested, an allocation is queued, a
// template is wanted); a decision moves records and names the intents that they need; when an intent's outcome is lost,
// the record still says what it said and the intent is decided again. Nothing here is ever "sent once".
//
// What may not live here: input and output, clocks (a turn is given its time), randomness, and anything that a test
// could not write down as a table.
package decide
