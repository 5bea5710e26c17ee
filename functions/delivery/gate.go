package delivery

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// Gate counts the requests in flight, so that a process can end without cutting one off. The framework knows no
// graceful end. The zero value is an open gate.
type Gate struct {
	mu     sync.Mutex
	closed bool
	inside int
	empty  chan struct{} // made when closed; closed when the last one has left
}

// Wrap lets requests through to next until the gate is closed; after that, they are told to come again.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.enter() {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "this process is ending; try again", http.StatusServiceUnavailable)
			return
		}
		defer g.leave()
		next.ServeHTTP(w, r)
	})
}

func (g *Gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

func (g *Gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.closed && g.inside == 0 {
		close(g.empty)
	}
}

// InFlight is how many requests are inside.
func (g *Gate) InFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside
}

// Drain closes the gate and waits until everybody has left, or ctx ends.
func (g *Gate) Drain(ctx context.Context) error {
	select {
	case <-g.close():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %d request(s) in flight, %w", g.InFlight(), context.Cause(ctx))
	}
}

func (g *Gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.closed = true
		g.empty = make(chan struct{})
		if g.inside == 0 {
			close(g.empty)
		}
	}
	return g.empty
}
