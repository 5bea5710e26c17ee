package pubsub

import (
	"cmp"
	"container/heap"
	"slices"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// A message is what was published: shared by all subscriptions that have not yet acknowledged it, and never changed.
type message struct {
	id    uint64 // rises in the order of publication
	proto *pubsubpb.PubsubMessage
	size  int          // bytes on the wire
	refs  atomic.Int32 // subscriptions that still hold it
}

// An entry is one message in the backlog of one subscription. It is either waiting in its lane or leased to a subscriber.
type entry struct {
	*message
	lane     *lane
	refusals int // times it was refused, or its lease ran out
	lease    uint64
	leased   bool
	deadline time.Time // of the lease; zero when the holder always reports (push, forwarding)
	holder   *consumer // the stream that holds the lease, if it is one
	at       int       // index in the leases heap, -1 outside
	acked    bool      // acknowledged, but kept while an earlier one of its key may yet be refused
	gone     bool      // removed
}

// A lane holds messages whose order matters among themselves: those of one ordering key. A message without a key has a
// lane of its own. A lane with leased messages gives out no others, so that order survives a refusal.
type lane struct {
	key     string
	waiting []*entry  // by id
	leased  []*entry  // by id
	rest    time.Time // not before
	heap    *laneHeap // where it stands: ready, resting, or nil
	at      int
}

// A queue is the backlog of one subscription: which messages wait, which are leased until when, which rest after a
// refusal. It does no I/O, takes no lock and is told the time.
type queue struct {
	ordered bool
	entries map[uint64]*entry
	lanes   map[string]*lane // those with a key
	ready   laneHeap         // by the id of the first message
	resting laneHeap         // by the end of the rest
	leases  leaseHeap        // by deadline
	arrived []*entry         // in order of publication, gone ones included until they reach the front
	issued  uint64           // leases given out
	leased  int
}

func newQueue(ordered bool) *queue {
	return &queue{
		ordered: ordered,
		entries: map[uint64]*entry{},
		lanes:   map[string]*lane{},
		ready:   laneHeap{less: func(a, b *lane) bool { return a.waiting[0].id < b.waiting[0].id }},
		resting: laneHeap{less: func(a, b *lane) bool { return a.rest.Before(b.rest) }},
	}
}

func (q *queue) len() int { return len(q.entries) }

// add appends a message; ids rise from call to call.
func (q *queue) add(m *message, refusals int) {
	e := &entry{message: m, refusals: refusals, at: -1}
	key := m.proto.OrderingKey
	if q.ordered && key != "" {
		e.lane = q.lanes[key]
	}
	if e.lane == nil {
		e.lane = &lane{at: -1}
		if q.ordered && key != "" {
			e.lane.key = key
			q.lanes[key] = e.lane
		}
	}
	e.lane.waiting = append(e.lane.waiting, e)
	q.entries[m.id] = e
	q.arrived = append(q.arrived, e)
	q.place(e.lane)
}

// take leases up to most messages of together at most bytes (one message always fits) until the deadline; the zero
// deadline never runs out.
func (q *queue) take(now time.Time, most, bytes int, deadline time.Time, holder *consumer) []*entry {
	q.wake(now)
	var taken []*entry
	for len(taken) < most && q.ready.Len() > 0 {
		l := q.ready.lanes[0]
		before := len(taken)
		for len(l.waiting) > 0 && len(taken) < most && (len(taken) == 0 || l.waiting[0].size <= bytes) {
			e := l.waiting[0]
			l.waiting = l.waiting[1:]
			bytes -= e.size
			q.issued++
			e.lease, e.leased, e.deadline, e.holder = q.issued, true, deadline, holder
			if holder != nil {
				holder.messages++
				holder.bytes += e.size
			}
			l.leased = append(l.leased, e)
			if !deadline.IsZero() {
				heap.Push(&q.leases, e)
			}
			taken = append(taken, e)
		}
		if len(taken) == before {
			break // the next message is too large for this batch
		}
		q.place(l)
	}
	q.leased += len(taken)
	return taken
}

// hasReady reports whether a message is ready, as of the last wake.
func (q *queue) hasReady() bool { return q.ready.Len() > 0 }

// ack settles a message that was processed under a lease, and returns what is removed for good by that.
//
// A message without a lane of others may be acknowledged after its lease has run out. A message with an ordering key may
// not: it was called back, and must come again after an earlier one. For the same reason one that is acknowledged before
// an earlier one of its key stays until that is settled.
func (q *queue) ack(id, lease uint64) []*entry {
	e := q.entries[id]
	switch {
	case e == nil:
		return nil
	case e.lane.key == "":
		return q.remove(id)
	case !e.leased || e.lease != lease:
		return nil
	case e.lane.leased[0] != e:
		e.acked = true
		q.hold(e)
		return nil
	}
	return q.remove(id)
}

// remove takes a message out for good, and with it those that were acknowledged and only waited for it. It returns
// them; nothing if the message is not there any more.
func (q *queue) remove(id uint64) []*entry {
	e := q.entries[id]
	if e == nil {
		return nil
	}
	if !e.leased {
		if i := slices.Index(e.lane.waiting, e); i >= 0 {
			e.lane.waiting = slices.Delete(e.lane.waiting, i, i+1)
		}
		q.forget(e)
		q.place(e.lane)
		return []*entry{e}
	}
	q.release(e)
	q.forget(e)
	removed := []*entry{e}
	for len(e.lane.leased) > 0 && e.lane.leased[0].acked {
		next := e.lane.leased[0]
		q.release(next)
		q.forget(next)
		removed = append(removed, next)
	}
	q.place(e.lane)
	return removed
}

func (q *queue) forget(e *entry) {
	e.gone = true
	delete(q.entries, e.id)
	q.forgetGone()
}

// forgetGone keeps the front of the arrivals alive, and the list from growing behind a message that nobody acknowledges.
func (q *queue) forgetGone() {
	for len(q.arrived) > 0 && q.arrived[0].gone {
		q.arrived[0] = nil
		q.arrived = q.arrived[1:]
	}
	if len(q.arrived) > 2*len(q.entries)+64 {
		q.arrived = slices.DeleteFunc(q.arrived, func(e *entry) bool { return e.gone })
	}
}

// giveBack ends the lease of a message that was not processed: it waits again, and its lane rests until then. Later
// messages of its ordering key that are leased as well are called back, since they must come after it.
func (q *queue) giveBack(e *entry, until time.Time) {
	q.release(e)
	q.requeue(e)
	e.lane.rest = until
	for _, later := range slices.Clone(e.lane.leased) {
		if later.id > e.id {
			q.release(later)
			q.requeue(later)
		}
	}
	q.place(e.lane)
}

// extend moves the deadline of a lease.
func (q *queue) extend(e *entry, deadline time.Time) {
	if e.at < 0 {
		return
	}
	e.deadline = deadline
	heap.Fix(&q.leases, e.at)
}

// hold makes a lease one that does not run out.
func (q *queue) hold(e *entry) {
	if e.at >= 0 {
		heap.Remove(&q.leases, e.at)
	}
	e.deadline = time.Time{}
}

// overdue returns the messages whose lease has run out, by id; they stay leased until they are given back or removed.
func (q *queue) overdue(now time.Time) []*entry {
	var late []*entry
	for q.leases.Len() > 0 && !q.leases[0].deadline.After(now) {
		e, _ := heap.Pop(&q.leases).(*entry)
		late = append(late, e)
	}
	slices.SortFunc(late, byID)
	return late
}

// next is when something changes by time alone: a lease runs out or a rest ends. Zero means never.
func (q *queue) next() time.Time {
	var next time.Time
	if q.leases.Len() > 0 {
		next = q.leases[0].deadline
	}
	if q.resting.Len() > 0 {
		if rest := q.resting.lanes[0].rest; next.IsZero() || rest.Before(next) {
			next = rest
		}
	}
	return next
}

// oldest is the message that has been here longest, or nil.
func (q *queue) oldest() *entry {
	if len(q.arrived) == 0 {
		return nil
	}
	return q.arrived[0]
}

// release ends a lease without saying what becomes of the message.
func (q *queue) release(e *entry) {
	if e.at >= 0 {
		heap.Remove(&q.leases, e.at)
	}
	if i := slices.Index(e.lane.leased, e); i >= 0 {
		e.lane.leased = slices.Delete(e.lane.leased, i, i+1)
	}
	if e.holder != nil {
		e.holder.messages--
		e.holder.bytes -= e.size
	}
	e.leased, e.acked, e.holder, e.deadline = false, false, nil, time.Time{}
	q.leased--
}

func (q *queue) requeue(e *entry) {
	i, _ := slices.BinarySearchFunc(e.lane.waiting, e, byID)
	e.lane.waiting = slices.Insert(e.lane.waiting, i, e)
}

func byID(a, b *entry) int { return cmp.Compare(a.id, b.id) }

// place puts a lane where its state says: among the ready, the resting, or nowhere.
func (q *queue) place(l *lane) {
	if l.heap != nil {
		heap.Remove(l.heap, l.at)
	}
	switch {
	case len(l.leased) > 0:
	case len(l.waiting) == 0:
		if l.key != "" {
			delete(q.lanes, l.key)
		}
	case !l.rest.IsZero():
		l.heap = &q.resting
	default:
		l.heap = &q.ready
	}
	if l.heap != nil {
		heap.Push(l.heap, l)
	}
}

// wake moves the lanes whose rest is over to the ready ones.
func (q *queue) wake(now time.Time) {
	for q.resting.Len() > 0 && !q.resting.lanes[0].rest.After(now) {
		l := q.resting.lanes[0]
		l.rest = time.Time{}
		q.place(l)
	}
}

// laneHeap is a heap of lanes that know their place in it.
type laneHeap struct {
	lanes []*lane
	less  func(a, b *lane) bool
}

func (h *laneHeap) Len() int           { return len(h.lanes) }
func (h *laneHeap) Less(i, j int) bool { return h.less(h.lanes[i], h.lanes[j]) }
func (h *laneHeap) Swap(i, j int) {
	h.lanes[i], h.lanes[j] = h.lanes[j], h.lanes[i]
	h.lanes[i].at, h.lanes[j].at = i, j
}

func (h *laneHeap) Push(x any) {
	l, _ := x.(*lane)
	l.at = len(h.lanes)
	h.lanes = append(h.lanes, l)
}

func (h *laneHeap) Pop() any {
	last := len(h.lanes) - 1
	l := h.lanes[last]
	h.lanes[last] = nil
	h.lanes = h.lanes[:last]
	l.heap, l.at = nil, -1
	return l
}

// leaseHeap is a heap of leased entries that know their place in it.
type leaseHeap []*entry

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].deadline.Before(h[j].deadline) }
func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *leaseHeap) Push(x any) {
	e, _ := x.(*entry)
	e.at = len(*h)
	*h = append(*h, e)
}

func (h *leaseHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.at = -1
	return e
}
