package gcp

import (
	"context"
	"sync"
)

// A letter is a call that waits until the state which it tells of is saved.
type letter struct {
	to   *courier
	call func(context.Context)
}

// A courier makes calls one at a time, in order, in a goroutine that exists
// only while there are any.
type courier struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	queue   []func(context.Context)
	running bool
	closed  bool
	idle    *sync.Cond
}

func newCourier() *courier {
	c := &courier{}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.idle = sync.NewCond(&c.mu)
	return c
}

func (c *courier) send(call func(context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.queue = append(c.queue, call)
	if !c.running {
		c.running = true
		go c.run()
	}
}

func (c *courier) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) > 0 {
		call := c.queue[0]
		c.queue = c.queue[1:]
		c.mu.Unlock()
		call(c.ctx)
		c.mu.Lock()
	}
	c.running = false
	c.idle.Broadcast()
}

func (c *courier) close() {
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.queue = nil
	for c.running {
		c.idle.Wait()
	}
}

// wait returns when every call that was sent has returned.
func (c *courier) wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.running {
		c.idle.Wait()
	}
}
