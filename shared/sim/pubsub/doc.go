// Package pubsub is a small, durable Pub/Sub broker for one machine.
//
// It serves the official gRPC API (google.pubsub.v1 Publisher and Subscriber), so the official client works against it
// unchanged, and it pushes over HTTP as Pub/Sub does. What lives here is what a subscriber can observe of Pub/Sub:
// at-least-once delivery, acknowledgement deadlines, retry policies, dead letters, ordering keys, filters, push
// envelopes. What may not live here is anything that knows what the messages mean.
//
// # What a subscriber may rely on
//
//  1. A published message is on disk before Publish answers (with [Options].File; without it, in memory).
//  2. Every message that matches a subscription's filter is delivered until it is acknowledged, is forwarded to the
//     dead-letter topic, or is older than the subscription's retention. A broker that was killed delivers again
//     everything that it had not recorded as acknowledged: a message may come twice.
//  3. A push is acknowledged by the statuses 102, 200, 201, 202 and 204. Every other outcome, and no answer within the
//     acknowledgement deadline, is a refusal (nack).
//  4. A refused message comes again after the back-off of its retry policy, and after max_delivery_attempts refusals it
//     moves to the dead-letter topic in the same transaction that removes it here.
//  5. With ordering enabled, messages of one ordering key are delivered in the order in which they were published; a
//     refused message holds back, and calls back, the later ones of its key.
//  6. Subscriptions share nothing but the process: a slow endpoint delays nobody else's messages.
//
// # Where it differs from the real service
//
// Where the real one is lenient, the broker is strict, so that what works here works there. Not served, and refused
// rather than ignored: exactly-once delivery, snapshots and seek, schemas, transforms, BigQuery, Cloud Storage and
// Bigtable subscriptions, detaching. Pushes carry no OIDC token, since only Google can sign one. Subscriptions do not
// expire. Message ids are numbers that rise with the order of publication.
//
// Time comes from package time alone, so everything but the sockets runs in a testing/synctest bubble.
package pubsub
