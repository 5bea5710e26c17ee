package gcp

import (
	"sync"
	"time"
)

// Request is a line of the journal: one request to one of the APIs.
type Request struct {
	Method    string        `json:"method"` // "compute.instances.insert"
	HTTP      string        `json:"http"`   // "POST"
	Path      string        `json:"path"`
	RequestID string        `json:"requestId,omitempty"`
	Status    int           `json:"status"` // 0 when the answer was lost, or is not yet there
	Reason    string        `json:"reason,omitempty"`
	Time      time.Time     `json:"time"`
	Took      time.Duration `json:"took"`
}

// The journal keeps the latest requests, and counts all.
type journal struct {
	mu     sync.Mutex
	lines  []*Request
	counts map[string]int
}

const journalSize = 100_000

func newJournal() *journal { return &journal{counts: map[string]int{}} }

func (j *journal) begin(c *call, now time.Time) *Request {
	line := &Request{Method: c.route.name, HTTP: c.r.Method, Path: c.r.URL.Path, RequestID: c.query.Get("requestId"), Time: now}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts[line.Method]++
	if len(j.lines) >= journalSize {
		j.lines = append([]*Request(nil), j.lines[journalSize/2:]...)
	}
	j.lines = append(j.lines, line)
	return line
}

func (j *journal) end(line *Request, status int, reason string, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	line.Status, line.Reason, line.Took = status, reason, now.Sub(line.Time)
}

// Journal is the latest requests, oldest first; those of the named methods
// only, if any are named.
func (s *Server) Journal(methods ...string) []Request {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	var out []Request
	for _, line := range s.journal.lines {
		if len(methods) == 0 || matchesAny(methods, line.Method) {
			out = append(out, *line)
		}
	}
	return out
}

// Count is how many requests of the methods there were; a "*" in a method
// stands for anything.
func (s *Server) Count(methods ...string) int {
	n := 0
	for method, count := range s.Counts() {
		if matchesAny(methods, method) {
			n += count
		}
	}
	return n
}

// Counts is how many requests there were of each method.
func (s *Server) Counts() map[string]int {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	return copyOf(s.journal.counts)
}

// ForgetRequests empties the journal and the counters.
func (s *Server) ForgetRequests() {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	s.journal.lines = nil
	clear(s.journal.counts)
}
