package gcp

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// A task is something that happens at a time: it is data, not a closure, so
// that it survives in the file.
type task struct {
	Seq   uint64
	At    time.Time
	Kind  string // what happens, a key of Server.handlers
	Owner string // the resource that it happens to; it goes when the resource does
	Arg   string

	index int
}

// agenda is every task that is still to come.
type agenda struct {
	next    uint64
	heap    taskHeap
	byOwner map[string]map[uint64]*task
	dirty   map[uint64]*task // nil: gone
}

func newAgenda() *agenda {
	return &agenda{byOwner: map[string]map[uint64]*task{}, dirty: map[uint64]*task{}}
}

func (a *agenda) add(at time.Time, kind, owner, arg string) {
	a.next++
	t := &task{Seq: a.next, At: at, Kind: kind, Owner: owner, Arg: arg}
	a.insert(t)
	a.dirty[t.Seq] = t
}

func (a *agenda) insert(t *task) {
	heap.Push(&a.heap, t)
	if a.byOwner[t.Owner] == nil {
		a.byOwner[t.Owner] = map[uint64]*task{}
	}
	a.byOwner[t.Owner][t.Seq] = t
}

// due removes and returns the first task that is due at now, or nil.
func (a *agenda) due(now time.Time) *task {
	if len(a.heap) == 0 || a.heap[0].At.After(now) {
		return nil
	}
	t := a.heap[0]
	a.remove(t)
	return t
}

// nextAt is when the next task is due, if there is one.
func (a *agenda) nextAt() (time.Time, bool) {
	if len(a.heap) == 0 {
		return time.Time{}, false
	}
	return a.heap[0].At, true
}

// cancel removes the owner's tasks of the given kinds, or all without any.
func (a *agenda) cancel(owner string, kinds ...string) {
	for _, t := range a.byOwner[owner] {
		if len(kinds) == 0 || slices.Contains(kinds, t.Kind) {
			a.remove(t)
		}
	}
}

// has says whether the owner has a task of that kind.
func (a *agenda) has(owner, kind string) bool {
	for _, t := range a.byOwner[owner] {
		if t.Kind == kind {
			return true
		}
	}
	return false
}

// hasAt says whether the owner has a task of that kind at that time.
func (a *agenda) hasAt(at time.Time, owner, kind string) bool {
	for _, t := range a.byOwner[owner] {
		if t.Kind == kind && t.At.Equal(at) {
			return true
		}
	}
	return false
}

// args are the arguments of the owner's tasks of that kind, in order.
func (a *agenda) args(owner, kind string) []string {
	var out []string
	for _, seq := range slices.Sorted(maps.Keys(a.byOwner[owner])) {
		if t := a.byOwner[owner][seq]; t.Kind == kind {
			out = append(out, t.Arg)
		}
	}
	return out
}

func (a *agenda) remove(t *task) {
	heap.Remove(&a.heap, t.index)
	delete(a.byOwner[t.Owner], t.Seq)
	if len(a.byOwner[t.Owner]) == 0 {
		delete(a.byOwner, t.Owner)
	}
	a.dirty[t.Seq] = nil
}

func (a *agenda) tableName() string { return "tasks" }

func (a *agenda) changes(put func(string, []byte) error, del func(string) error) error {
	for _, seq := range slices.Sorted(maps.Keys(a.dirty)) {
		key := fmt.Sprintf("%020d", seq)
		t := a.dirty[seq]
		if t == nil {
			if err := del(key); err != nil {
				return err
			}
			continue
		}
		value, err := json.Marshal(t)
		if err != nil {
			return fmt.Errorf("encoding task %s of %s, %w", t.Kind, t.Owner, err)
		}
		if err := put(key, value); err != nil {
			return err
		}
	}
	return nil
}

func (a *agenda) pending() bool { return len(a.dirty) > 0 }

func (a *agenda) saved() { clear(a.dirty) }

func (a *agenda) load(key string, value []byte) error {
	if _, err := strconv.ParseUint(key, 10, 64); err != nil {
		return fmt.Errorf("task %q has no sequence number, %w", key, err)
	}
	t := new(task)
	if err := json.Unmarshal(value, t); err != nil {
		return err
	}
	a.insert(t)
	a.next = max(a.next, t.Seq)
	return nil
}

// taskHeap orders tasks by time, and those of one time by when they were
// planned.
type taskHeap []*task

func (h taskHeap) Len() int { return len(h) }

func (h taskHeap) Less(i, j int) bool {
	if !h[i].At.Equal(h[j].At) {
		return h[i].At.Before(h[j].At)
	}
	return h[i].Seq < h[j].Seq
}

func (h taskHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *taskHeap) Push(x any) {
	t := x.(*task)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *taskHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return t
}
