package pubsub

import (
	"maps"
	"strconv"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// The attributes by which a dead letter tells where it came from, as the real service names them.
const (
	deadLetterCount        = "CloudPubSubDeadLetterSourceDeliveryCount"
	deadLetterSubscription = "CloudPubSubDeadLetterSourceSubscription"
	deadLetterProject      = "CloudPubSubDeadLetterSourceSubscriptionProject"
	deadLetterPublished    = "CloudPubSubDeadLetterSourceTopicPublishTime"

	deadLetterTimeFormat = "2006-01-02T15:04:05.000-07:00"
)

// forward moves a message that was refused too often to the dead-letter topic, in one durable step with its removal
// here. If that fails it stays, rests as after any refusal, and is forwarded after the next one.
func (s *subscription) forward(e *entry, topicName string) {
	defer s.b.inFlight.Done()

	s.b.mu.Lock()
	t := s.b.topics[topicName]
	if t == nil {
		s.b.mu.Unlock()
		s.b.log.Warn("pubsub: the dead-letter topic does not exist, the message stays where it is",
			"topic", topicName, "subscription", s.name, "message", e.proto.MessageId)
		s.keep(e)
		return
	}
	routed := s.b.route(t, []*pubsubpb.PubsubMessage{deadLetter(s.name, e)})
	wait := s.b.journal.submit(
		together(putMessages(routed), dropMessage(s.name, e.id, e.refs.Load() == 1)),
		func() {
			enqueue(routed) // before the removal, so that the broker is not idle in between
			s.mu.Lock()
			defer s.mu.Unlock()
			if left := s.removed(s.queue.remove(e.id)); left > 0 {
				s.counters.deadLettered++
				s.counters.acked += left - 1 // those that were acknowledged behind it
			}
			s.proceed()
		})
	s.b.mu.Unlock()
	if err := wait(); err != nil {
		s.b.log.Error("pubsub: a dead letter could not be written, the message stays where it is",
			"topic", topicName, "subscription", s.name, "message", e.proto.MessageId, "error", err)
		s.keep(e)
		return
	}
	s.b.log.Warn("pubsub: message forwarded to the dead-letter topic",
		"topic", topicName, "subscription", s.name, "message", e.proto.MessageId, "deadLetter", routed[0].proto.MessageId)
}

// keep puts a message that could not be forwarded back into the backlog.
func (s *subscription) keep(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired || e.gone {
		return
	}
	s.queue.giveBack(e, time.Now().Add(backoff(s.config.GetRetryPolicy(), e.refusals, true)))
	s.proceed()
}

// deadLetter is the message that takes the place of a refused one.
func deadLetter(subscription string, e *entry) *pubsubpb.PubsubMessage {
	attributes := maps.Clone(e.proto.Attributes)
	if attributes == nil {
		attributes = map[string]string{}
	}
	source, _ := parseName("subscriptions", subscription) // checked when the subscription was created
	attributes[deadLetterCount] = strconv.Itoa(e.refusals)
	attributes[deadLetterSubscription] = source.id
	attributes[deadLetterProject] = source.project
	attributes[deadLetterPublished] = e.proto.PublishTime.AsTime().Format(deadLetterTimeFormat)
	return &pubsubpb.PubsubMessage{
		Data:        e.proto.Data,
		Attributes:  attributes,
		OrderingKey: e.proto.OrderingKey,
	}
}
