// Package telemetry is how Convoke's programs tell people what they do: structured logs as Cloud Logging reads them, or plain ones on a
// terminal, each with the trace of the request it belongs to; and counters. What may not live here: what is worth
// telling (that is said where it happens), and exporters, of which there is none by default.
package telemetry
