package pubsub

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The limits of the real service on what is published.
const (
	maxPublishMessages  = 1000
	maxPublishBytes     = 10_000_000 // of one message, and of a request
	maxAttributes       = 100
	maxAttributeKey     = 256
	maxAttributeValue   = 1024
	maxOrderingKeyBytes = 1024
)

// A routedMessage is a message with the subscriptions that want it.
type routedMessage struct {
	*message
	to []*subscription
}

func (p publisher) Publish(_ context.Context, req *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error) {
	if err := checkPublish(req); err != nil {
		return nil, err
	}
	p.b.mu.Lock()
	t, err := p.b.topic(req.Topic)
	if err != nil {
		p.b.mu.Unlock()
		return nil, err
	}
	routed := p.b.route(t, req.Messages)
	// Submitted under the lock, so that the journal, and with it every backlog, gets messages in the order of their ids.
	wait := p.b.journal.submit(putMessages(routed), func() { enqueue(routed) })
	p.b.mu.Unlock()
	if err := wait(); err != nil {
		return nil, unavailable(err)
	}
	res := &pubsubpb.PublishResponse{}
	for _, r := range routed {
		res.MessageIds = append(res.MessageIds, r.proto.MessageId)
	}
	return res, nil
}

// route gives messages their ids and finds out who wants them. The broker's lock is held.
func (b *Broker) route(t *topic, messages []*pubsubpb.PubsubMessage) []routedMessage {
	now := timestamppb.New(time.Now().Truncate(time.Millisecond)) // the resolution of the real service
	routed := make([]routedMessage, 0, len(messages))
	for _, published := range messages {
		b.lastID++
		m := &message{id: b.lastID, proto: &pubsubpb.PubsubMessage{
			Data:        published.Data,
			Attributes:  published.Attributes,
			OrderingKey: published.OrderingKey,
			MessageId:   strconv.FormatUint(b.lastID, 10),
			PublishTime: now,
		}}
		m.size = proto.Size(m.proto)
		r := routedMessage{message: m}
		for _, s := range t.subscriptions {
			if s.filter.match(m.proto.Attributes) {
				r.to = append(r.to, s)
			}
		}
		m.refs.Store(int32(len(r.to))) //nolint:gosec // a topic has far fewer subscriptions
		routed = append(routed, r)
	}
	return routed
}

// enqueue hands routed messages to their subscriptions. No lock is held.
func enqueue(routed []routedMessage) {
	batches := map[*subscription][]*message{}
	var order []*subscription
	for _, r := range routed {
		for _, s := range r.to {
			if batches[s] == nil {
				order = append(order, s)
			}
			batches[s] = append(batches[s], r.message)
		}
	}
	for _, s := range order {
		s.enqueue(batches[s])
	}
}

func checkPublish(req *pubsubpb.PublishRequest) error {
	var wrong faults
	_, err := parseName("topics", req.GetTopic())
	wrong.addError("topic", err)
	if n := len(req.GetMessages()); n == 0 || n > maxPublishMessages {
		wrong.add("messages", "there are %d, a request has 1 to %d", n, maxPublishMessages)
	}
	total := 0
	for i, m := range req.GetMessages() {
		total += proto.Size(m)
		checkMessage(&wrong, fmt.Sprintf("messages[%d]", i), m)
	}
	if total > maxPublishBytes {
		wrong.add("messages", "have %d bytes, at most %d are allowed", total, maxPublishBytes)
	}
	return wrong.err()
}

func checkMessage(wrong *faults, field string, m *pubsubpb.PubsubMessage) {
	if len(m.GetData()) == 0 && len(m.GetAttributes()) == 0 {
		wrong.add(field, "has neither data nor attributes")
	}
	if n := len(m.GetAttributes()); n > maxAttributes {
		wrong.add(field+".attributes", "are %d, at most %d are allowed", n, maxAttributes)
	}
	for _, key := range slices.Sorted(maps.Keys(m.GetAttributes())) {
		value := m.Attributes[key]
		if key == "" || len(key) > maxAttributeKey {
			wrong.add(field+".attributes", "key %.40q has %d bytes, 1 to %d are allowed", key, len(key), maxAttributeKey)
		}
		if len(value) > maxAttributeValue {
			wrong.add(field+".attributes", "the value of %.40q has %d bytes, at most %d are allowed", key, len(value), maxAttributeValue)
		}
	}
	if n := len(m.GetOrderingKey()); n > maxOrderingKeyBytes || !utf8.ValidString(m.GetOrderingKey()) {
		wrong.add(field+".ordering_key", "has %d bytes, at most %d of valid UTF-8 are allowed", n, maxOrderingKeyBytes)
	}
}
