// Package delivery is the one way in which events reach a function: an http.Handler that understands every form in which
// Pub/Sub and Eventarc deliver, hands over what was delivered, and answers so that redelivery happens where it can help
// and nowhere else. It stands on functions.HTTP, since the framework's own CloudEvent adapter hangs under concurrent
// requests, and answers malformed input before a function could put it aside.
//
// # The forms
//
//   - A CloudEvent over HTTP, in binary (ce-… headers) or structured mode (application/cloudevents+json): Eventarc, and
//     anybody who posts events directly.
//   - A Pub/Sub push, wrapped: {"message": {"data": base64, "attributes": …}, "subscription": …}.
//   - The same envelope as the data of a google.cloud.pubsub.topic.v1.messagePublished CloudEvent: Eventarc.
//   - A Pub/Sub push, unwrapped: the message's data is the body; id and attributes are headers, if the subscription says so.
//
// A Pub/Sub message, in whichever form it came, may itself carry a CloudEvent (see events.FromMessage), and then that is what
// was delivered.
//
// # The answers
//
//   - 204: dealt with, of no use here, or put into the quarantine. Not to be delivered again.
//   - 503, with Retry-After: something that this function stands on did not answer. Deliver it again.
//   - 500: the function panicked, which is a fault of ours; redelivery leads to the dead-letter topic.
//   - 405: not a delivery at all.
//
// What may not live here: knowledge of what any event means.
package delivery
