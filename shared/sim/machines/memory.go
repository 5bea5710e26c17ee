package machines

import (
	"context"
	"sync"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// Memory is a Publisher and Commands without a network, for one process: events go to Deliver, commands come from Send.
type Memory struct {
	// Deliver gets every event as it would be read from its message. An error has it published again.
	Deliver func(ctx context.Context, topic string, e *events.Event) error

	mu     sync.Mutex
	queues map[cluster.Key]*queue
}

// queue holds the commands to one cluster that nobody has received yet.
type queue struct {
	waiting []*events.SlurmCommand
	more    chan struct{}
}

// Publish implements Publisher.
func (m *Memory) Publish(ctx context.Context, topic string, e *events.Event) error {
	out, err := e.CloudEvent()
	if err != nil {
		return err
	}
	back, err := events.Decode(out)
	if err != nil {
		return err
	}
	return m.Deliver(ctx, topic, back)
}

// Send queues a command. It waits for its cluster's controller for as long as that takes.
func (m *Memory) Send(cmd *events.SlurmCommand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queue(cmd.Cluster)
	q.waiting = append(q.waiting, cmd)
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (m *Memory) queue(key cluster.Key) *queue {
	if m.queues == nil {
		m.queues = map[cluster.Key]*queue{}
	}
	q := m.queues[key]
	if q == nil {
		q = &queue{more: make(chan struct{}, 1)}
		m.queues[key] = q
	}
	return q
}

// Receive implements Commands.
func (m *Memory) Receive(ctx context.Context, key cluster.Key, handle func(*events.SlurmCommand)) error {
	m.mu.Lock()
	q := m.queue(key)
	m.mu.Unlock()
	for {
		m.mu.Lock()
		waiting := q.waiting
		q.waiting = nil
		m.mu.Unlock()
		for _, cmd := range waiting {
			handle(cmd)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-q.more:
		}
	}
}
