package pubsub

import (
	"hash/fnv"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
)

// A subscription is a backlog and whoever works it off: the push endpoint, or those who pull.
type subscription struct {
	b      *Broker
	name   string
	mark   uint32 // tells its ack ids from those of others
	filter filter

	mu       sync.Mutex
	config   *pubsubpb.Subscription // replaced, never changed
	queue    *queue
	window   window
	pushing  int // pushes under way
	timer    *time.Timer
	timerAt  time.Time     // when the timer goes off; zero when it is not set
	changed  chan struct{} // closed when there is something to pull; nil while nobody waits
	stopped  bool          // the broker is closing: nothing new is pushed
	retired  bool          // the subscription was deleted
	counters counters
}

// counters count since the broker started.
type counters struct {
	delivered    int64
	acked        int64
	nacked       int64
	expired      int64
	deadLettered int64
	dropped      int64
}

// newSubscription makes a subscription that is not yet known to the broker and does not yet push.
func (b *Broker) newSubscription(config *pubsubpb.Subscription) (*subscription, error) {
	f, err := parseFilter(config.Filter)
	if err != nil {
		return nil, err
	}
	mark := fnv.New32a()
	_, _ = mark.Write([]byte(config.Name)) // a hash never fails
	return &subscription{
		b:      b,
		name:   config.Name,
		mark:   mark.Sum32(),
		filter: f,
		config: config,
		queue:  newQueue(config.EnableMessageOrdering),
		window: newWindow(b.maxPushes),
		// One that is made while the broker closes keeps what it gets, and pushes nothing.
		stopped: b.closing,
	}, nil
}

func (s *subscription) currentConfig() *pubsubpb.Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config
}

func (s *subscription) cloneConfig() *pubsubpb.Subscription {
	config, _ := proto.Clone(s.currentConfig()).(*pubsubpb.Subscription)
	return config
}

// configure puts a new configuration into force.
func (s *subscription) configure(config *pubsubpb.Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return
	}
	before := s.pushes()
	s.config = config
	switch after := s.pushes(); {
	case after && !before:
		s.b.work.add(s.queue.len())
	case before && !after:
		s.b.work.add(-s.queue.len())
	}
	s.window.forgive() // a new endpoint owes nothing for the old one
	s.wakeConsumers()  // those who pull learn that they may not any more
	s.proceed()
}

// start begins work on a backlog that a journal kept.
func (s *subscription) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pushes() {
		s.b.work.add(s.queue.len())
	}
	s.proceed()
}

// stop ends pushing. What is under way may still be acknowledged.
func (s *subscription) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// retire ends a subscription that was deleted. It returns the messages that nobody else holds.
func (s *subscription) retire() (orphans []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired, s.stopped = true, true
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.pushes() {
		s.b.work.add(-s.queue.len())
	}
	for id, e := range s.queue.entries {
		if e.refs.Add(-1) == 0 {
			orphans = append(orphans, id)
		}
	}
	s.queue = newQueue(false)
	s.wakeConsumers()
	return orphans
}

// enqueue adds published messages to the backlog.
func (s *subscription) enqueue(messages []*message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		for _, m := range messages {
			s.b.journal.later(dropMessage(s.name, m.id, m.refs.Add(-1) == 0))
		}
		return
	}
	for _, m := range messages {
		s.queue.add(m, 0)
	}
	if s.pushes() {
		s.b.work.add(len(messages))
	}
	s.proceed()
}

// The methods below are called with the subscription's lock held.

func (s *subscription) pushes() bool { return s.config.GetPushConfig().GetPushEndpoint() != "" }

// proceed does what has become possible: it pushes, tells those who wait to pull, and sets the timer.
func (s *subscription) proceed() {
	if s.stopped {
		return
	}
	now := time.Now()
	s.dropStale(now)
	s.queue.wake(now)
	if s.pushes() {
		s.startPushes(now)
	} else if s.queue.hasReady() {
		s.wakeConsumers()
	}
	s.setTimer(now)
}

// dropStale drops messages that are older than the subscription retains them.
func (s *subscription) dropStale(now time.Time) {
	retention := s.config.GetMessageRetentionDuration().AsDuration()
	for {
		e := s.queue.oldest()
		if e == nil || e.leased || now.Sub(e.proto.PublishTime.AsTime()) <= retention {
			return
		}
		s.counters.dropped += s.removed(s.queue.remove(e.id))
	}
}

// removed records that messages have left the queue for good, and returns how many.
func (s *subscription) removed(entries []*entry) int64 {
	for _, e := range entries {
		s.b.journal.later(dropMessage(s.name, e.id, e.refs.Add(-1) == 0))
	}
	if s.pushes() {
		s.b.work.add(-len(entries))
	}
	return int64(len(entries))
}

// acknowledge settles a message that was processed under a lease.
func (s *subscription) acknowledge(id, lease uint64) {
	s.counters.acked += s.removed(s.queue.ack(id, lease))
}

// refuse ends a lease without success: the message rests and comes again, or goes to the dead-letter topic.
func (s *subscription) refuse(e *entry, now time.Time) {
	e.refusals++
	s.b.journal.later(putRefusals(s.name, e.id, e.refusals))
	if policy := s.config.GetDeadLetterPolicy(); policy != nil && e.refusals >= int(policy.MaxDeliveryAttempts) && !s.stopped {
		s.queue.hold(e)
		s.b.inFlight.Add(1)
		go s.forward(e, policy.DeadLetterTopic)
		return
	}
	s.queue.giveBack(e, now.Add(backoff(s.config.GetRetryPolicy(), e.refusals, s.pushes())))
}

// attempt is the number of the delivery that is being made, from 1; as with the real service, 0 without a dead-letter
// policy.
func (s *subscription) attempt(e *entry) int {
	if s.config.GetDeadLetterPolicy() == nil {
		return 0
	}
	return e.refusals + 1
}

func (s *subscription) ackDeadline() time.Duration {
	return time.Duration(s.config.GetAckDeadlineSeconds()) * time.Second
}

// setTimer makes sure that tick runs when something changes by time alone.
func (s *subscription) setTimer(now time.Time) {
	next := s.queue.next()
	if pause := s.window.pause; s.pushes() && s.queue.hasReady() && pause.After(now) && (next.IsZero() || pause.Before(next)) {
		next = pause
	}
	if next.IsZero() || !s.timerAt.IsZero() && !next.Before(s.timerAt) {
		return
	}
	s.timerAt = next
	if s.timer == nil {
		s.timer = time.AfterFunc(next.Sub(now), s.tick)
		return
	}
	s.timer.Reset(next.Sub(now))
}

// tick is the timer's function; it takes the lock itself.
func (s *subscription) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timerAt = time.Time{}
	now := time.Now()
	for _, e := range s.queue.overdue(now) {
		if !e.leased {
			continue // called back with an earlier one of its ordering key
		}
		s.counters.expired++
		s.refuse(e, now)
	}
	s.proceed()
}

func (s *subscription) wakeConsumers() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// whenChanged returns a channel that is closed when there may be something to pull.
func (s *subscription) whenChanged() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}
