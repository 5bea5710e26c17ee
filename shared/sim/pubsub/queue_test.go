package pubsub

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func fill(q *queue, keys ...string) {
	for i, key := range keys {
		q.add(&message{id: uint64(i + 1), size: 10, proto: &pubsubpb.PubsubMessage{OrderingKey: key}}, 0)
	}
}

func ids(entries []*entry) []uint64 {
	out := []uint64{}
	for _, e := range entries {
		out = append(out, e.id)
	}
	return out
}

func wantIDs(t *testing.T, got []*entry, want ...uint64) {
	t.Helper()
	if !slices.Equal(ids(got), want) {
		t.Fatalf("got %v, want %v", ids(got), want)
	}
}

func TestQueueUnordered(t *testing.T) {
	q := newQueue(false)
	fill(q, "a", "a", "a", "a") // keys mean nothing here

	first := q.take(epoch, 2, math.MaxInt, epoch.Add(10*time.Second), nil)
	wantIDs(t, first, 1, 2)
	wantIDs(t, q.take(epoch, 5, 10, time.Time{}, nil), 3) // bytes for one

	q.giveBack(first[0], epoch.Add(time.Second))
	wantIDs(t, q.take(epoch, 5, math.MaxInt, time.Time{}, nil), 4) // 1 rests
	if next := q.next(); !next.Equal(epoch.Add(time.Second)) {
		t.Fatalf("next is %v", next)
	}
	wantIDs(t, q.take(epoch.Add(time.Second), 5, math.MaxInt, time.Time{}, nil), 1)

	wantIDs(t, q.overdue(epoch.Add(10*time.Second)), 2)
	q.remove(2)
	q.remove(3)
	if q.len() != 2 || q.oldest().id != 1 || !q.next().IsZero() {
		t.Fatalf("%d left, oldest %d, next %v", q.len(), q.oldest().id, q.next())
	}
	if q.remove(2) != nil || q.ack(2, first[1].lease) != nil {
		t.Fatal("a message was removed twice")
	}
}

func TestQueueTakesOneMessageOfAnySize(t *testing.T) {
	q := newQueue(false)
	fill(q, "", "")
	wantIDs(t, q.take(epoch, 5, 1, time.Time{}, nil), 1)
}

func TestQueueOrdered(t *testing.T) {
	q := newQueue(true)
	fill(q, "a", "a", "b", "a", "", "b")

	batch := q.take(epoch, 4, math.MaxInt, epoch.Add(time.Minute), nil)
	wantIDs(t, batch, 1, 2, 4, 3) // lanes in the order of their first messages, b cut short
	wantIDs(t, q.take(epoch, 4, math.MaxInt, time.Time{}, nil), 5)

	// 2 is refused: 4 is called back, since it must come after 2. 1 goes on.
	q.giveBack(batch[1], epoch.Add(time.Second))
	later := epoch.Add(2 * time.Second)
	wantIDs(t, q.take(later, 4, math.MaxInt, time.Time{}, nil))
	q.remove(1)
	again := q.take(later, 4, math.MaxInt, time.Time{}, nil)
	wantIDs(t, again, 2, 4)

	if q.ack(4, batch[2].lease-1) != nil || q.len() != 5 {
		t.Fatal("4 was acknowledged by a lease that had been called back")
	}
	wantIDs(t, q.ack(4, again[1].lease)) // must wait for 2
	wantIDs(t, q.ack(2, again[0].lease), 2, 4)

	q.remove(3)
	wantIDs(t, q.take(later, 4, math.MaxInt, time.Time{}, nil), 6)
	q.remove(5)
	q.remove(6)
	if q.len() != 0 || len(q.lanes) != 0 || q.leased != 0 || len(q.arrived) != 0 {
		t.Fatalf("something is left: %+v", q)
	}
}

// TestQueueLaws works a queue at random and checks after every step what must always hold: nothing is lost or handed
// out twice, and no message of a key overtakes an earlier one.
func TestQueueLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &queueModel{now: epoch, alive: map[uint64]bool{}, leased: map[uint64]*entry{}}
		m.queue = newQueue(rapid.Bool().Draw(t, "ordered"))
		t.Repeat(rapid.StateMachineActions(m))
		m.drain(t)
	})
}

// A queueModel is a queue with a simple account of what it should hold.
type queueModel struct {
	queue    *queue
	consumer consumer
	now      time.Time
	last     uint64
	alive    map[uint64]bool
	leased   map[uint64]*entry
}

func (m *queueModel) Add(t *rapid.T) {
	m.last++
	key := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key")
	m.queue.add(&message{id: m.last, size: 10, proto: &pubsubpb.PubsubMessage{OrderingKey: key}}, 0)
	m.alive[m.last] = true
}

func (m *queueModel) Take(t *rapid.T) {
	most := rapid.IntRange(1, 4).Draw(t, "most")
	for _, e := range m.queue.take(m.now, most, math.MaxInt, m.now.Add(10*time.Second), &m.consumer) {
		if m.leased[e.id] != nil || !m.alive[e.id] {
			t.Fatalf("%d was handed out twice or after its removal", e.id)
		}
		if w := e.lane.waiting; len(w) > 0 && w[0].id < e.id {
			t.Fatalf("%d overtook %d", e.id, w[0].id)
		}
		m.leased[e.id] = e
	}
}

func (m *queueModel) Ack(t *rapid.T) {
	e := m.pick(t)
	m.settled(m.queue.ack(e.id, e.lease))
}

func (m *queueModel) AckLate(t *rapid.T) {
	settled := m.queue.ack(rapid.Uint64Range(1, m.last+1).Draw(t, "id"), 0)
	if len(settled) > 0 && settled[0].lane.key != "" {
		t.Fatalf("%d of key %q was settled by an old lease", settled[0].id, settled[0].lane.key)
	}
	m.settled(settled)
}

func (m *queueModel) Nack(t *rapid.T) {
	e := m.pick(t)
	if e.acked {
		t.Skip("it was acknowledged")
	}
	m.queue.giveBack(e, m.now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "rest"))*time.Second))
	m.calledBack()
}

func (m *queueModel) Extend(t *rapid.T) { m.queue.extend(m.pick(t), m.now.Add(20*time.Second)) }

func (m *queueModel) Wait(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 15).Draw(t, "seconds")) * time.Second)
	m.expire()
}

func (m *queueModel) Check(t *rapid.T) {
	if m.queue.len() != len(m.alive) || m.queue.leased != len(m.leased) {
		t.Fatalf("%d in the queue, %d alive; %d leased, %d known", m.queue.len(), len(m.alive), m.queue.leased, len(m.leased))
	}
	if m.consumer.messages != len(m.leased) || m.consumer.bytes != 10*len(m.leased) {
		t.Fatalf("%d are leased, the consumer has %+v", len(m.leased), m.consumer)
	}
}

// drain ends a run: whatever happened before, everything comes out.
func (m *queueModel) drain(t *rapid.T) {
	for rounds := 0; m.queue.len() > 0; rounds++ {
		m.now = m.now.Add(time.Minute)
		m.expire()
		for _, e := range m.queue.take(m.now, math.MaxInt, math.MaxInt, time.Time{}, nil) {
			m.queue.remove(e.id)
		}
		if rounds > 3 {
			t.Fatalf("%d messages are stuck", m.queue.len())
		}
	}
}

func (m *queueModel) expire() {
	for _, e := range m.queue.overdue(m.now) {
		if e.leased { // not called back along with an earlier one
			m.queue.giveBack(e, m.now)
		}
	}
	m.calledBack()
}

func (m *queueModel) settled(entries []*entry) {
	for _, e := range entries {
		delete(m.alive, e.id)
		delete(m.leased, e.id)
	}
}

func (m *queueModel) calledBack() {
	maps.DeleteFunc(m.leased, func(_ uint64, e *entry) bool { return !e.leased })
}

func (m *queueModel) pick(t *rapid.T) *entry {
	if len(m.leased) == 0 {
		t.Skip("nothing is leased")
	}
	return m.leased[rapid.SampledFrom(slices.Sorted(maps.Keys(m.leased))).Draw(t, "id")]
}

func TestBackoff(t *testing.T) {
	policy, err := checkSubscription(&pubsubpb.Subscription{
		Name: subName, Topic: topicName, RetryPolicy: &pubsubpb.RetryPolicy{},
	})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		policy   *pubsubpb.RetryPolicy
		push     bool
		refusals int
		want     time.Duration
	}{
		{nil, false, 1, 0},
		{nil, false, 50, 0},
		{nil, true, 1, 100 * time.Millisecond},
		{nil, true, 4, 800 * time.Millisecond},
		{nil, true, 1000, time.Minute},
		{policy.RetryPolicy, true, 1, 10 * time.Second},
		{policy.RetryPolicy, false, 3, 40 * time.Second},
		{policy.RetryPolicy, true, 100, 10 * time.Minute},
		{&pubsubpb.RetryPolicy{}, true, 2, 20 * time.Second},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.policy, tt.push, tt.refusals), func(t *testing.T) {
			if got := backoff(tt.policy, tt.refusals, tt.push); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestWindow(t *testing.T) {
	w := newWindow(16)
	for range 100 {
		w.success()
	}
	if w.size != 16 || !w.open(epoch, 15) || w.open(epoch, 16) {
		t.Fatalf("after successes: %+v", w)
	}
	for i := range illAfter - 1 {
		if w.refusal(epoch) || !w.open(epoch, 0) {
			t.Fatalf("closed after %d refusals", i+1)
		}
	}
	if !w.refusal(epoch) || w.open(epoch, 0) || w.size != 1 {
		t.Fatalf("not found ill: %+v", w)
	}
	for range 50 {
		w.refusal(epoch) // those that were under way
	}
	if w.open(epoch.Add(99*time.Millisecond), 0) || !w.open(epoch.Add(100*time.Millisecond), 0) {
		t.Fatalf("the first pause is not 100 ms: %+v", w)
	}
}

func TestWindowPauses(t *testing.T) {
	w := newWindow(16)
	for range illAfter {
		w.refusal(epoch)
	}
	now := epoch
	for range 20 {
		now = w.pause
		w.refusal(now)
	}
	if w.pause.Sub(now) != maximumPushPause {
		t.Fatalf("the pause grew to %v", w.pause.Sub(now))
	}
	w.success()
	if !w.open(now, 0) || w.streak != 0 {
		t.Fatalf("one success does not forgive: %+v", w)
	}
}
