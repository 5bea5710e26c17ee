package pubsub

import (
	"slices"
	"strings"
	"time"
)

// SubscriptionStats is the state of one subscription. Counts are since the broker started; each delivery of a message
// counts.
type SubscriptionStats struct {
	Name         string // projects/P/subscriptions/S
	Topic        string // projects/P/topics/T, or _deleted-topic_
	PushEndpoint string // empty: messages are pulled

	Backlog       int       // messages not yet acknowledged, the outstanding ones included
	Outstanding   int       // messages with a subscriber or on the way to the endpoint
	OldestUnacked time.Time // when the oldest message of the backlog was published; zero without one
	Window        int       // pushes that may be under way at once

	Delivered    int64
	Acked        int64
	Nacked       int64 // refusals by the subscriber or endpoint, time-outs of pushes included
	Expired      int64 // ack deadlines that ran out at a puller
	DeadLettered int64
	Dropped      int64 // messages older than the retention
}

// Stats returns the state of every subscription, by name.
func (b *Broker) Stats() []SubscriptionStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	stats := make([]SubscriptionStats, 0, len(b.subscriptions))
	for _, s := range b.subscriptions {
		stats = append(stats, s.stats())
	}
	slices.SortFunc(stats, func(x, y SubscriptionStats) int { return strings.Compare(x.Name, y.Name) })
	return stats
}

func (s *subscription) stats() SubscriptionStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := SubscriptionStats{
		Name:         s.name,
		Topic:        s.config.GetTopic(),
		PushEndpoint: s.config.GetPushConfig().GetPushEndpoint(),
		Backlog:      s.queue.len(),
		Outstanding:  s.queue.leased,
		Window:       s.window.size,
		Delivered:    s.counters.delivered,
		Acked:        s.counters.acked,
		Nacked:       s.counters.nacked,
		Expired:      s.counters.expired,
		DeadLettered: s.counters.deadLettered,
		Dropped:      s.counters.dropped,
	}
	if oldest := s.queue.oldest(); oldest != nil {
		st.OldestUnacked = oldest.proto.PublishTime.AsTime()
	}
	return st
}
