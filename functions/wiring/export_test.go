package wiring

// Publisher lets tests publish as the steward does.
var Publisher = newPublisher
