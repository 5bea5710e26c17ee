package gcp

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// A collection holds every resource of one kind, ordered by key. A key is the
// resource's path below the project, such as
// "zones/us-central1-a/instances/node-0". M is what the API shows, X what only
// the service knows.
type collection[M proto.Message, X any] struct {
	name    string
	keys    []string // sorted
	records map[string]*record[M, X]
	dirty   map[string]struct{} // what the file does not know yet
	frozen  []row               // what is shown instead, when answers are stale
	stale   bool
}

type record[M proto.Message, X any] struct {
	Key   string
	Wire  M
	State X
	json  []byte // Wire, encoded; nil after a change
}

func newCollection[M proto.Message, X any](name string) *collection[M, X] {
	return &collection[M, X]{name: name, records: map[string]*record[M, X]{}, dirty: map[string]struct{}{}}
}

// get returns the record, or nil.
func (c *collection[M, X]) get(key string) *record[M, X] { return c.records[key] }

// put adds a record, or replaces the one of that key.
func (c *collection[M, X]) put(key string, message M, state X) *record[M, X] {
	r := &record[M, X]{Key: key, Wire: message, State: state}
	if _, exists := c.records[key]; !exists {
		i, _ := slices.BinarySearch(c.keys, key)
		c.keys = slices.Insert(c.keys, i, key)
	}
	c.records[key] = r
	c.dirty[key] = struct{}{}
	return r
}

// changed must follow every change of a record's content.
func (c *collection[M, X]) changed(r *record[M, X]) {
	r.json = nil
	if c.records[r.Key] == r {
		c.dirty[r.Key] = struct{}{}
	}
}

func (c *collection[M, X]) drop(key string) {
	if _, exists := c.records[key]; !exists {
		return
	}
	i, _ := slices.BinarySearch(c.keys, key)
	c.keys = slices.Delete(c.keys, i, i+1)
	delete(c.records, key)
	c.dirty[key] = struct{}{}
}

// under yields the records whose key begins with prefix, in order. The loop
// body may add and drop records.
func (c *collection[M, X]) under(prefix string) iter.Seq[*record[M, X]] {
	return func(yield func(*record[M, X]) bool) {
		for _, key := range slices.Clone(c.span(prefix)) {
			if r := c.records[key]; r != nil && !yield(r) {
				return
			}
		}
	}
}

func (c *collection[M, X]) span(prefix string) []string {
	from, _ := slices.BinarySearch(c.keys, prefix)
	to := from
	for to < len(c.keys) && strings.HasPrefix(c.keys[to], prefix) {
		to++
	}
	return c.keys[from:to]
}

// shown is what a list request sees of the records below prefix.
func (c *collection[M, X]) shown(prefix string) []row {
	if c.stale {
		var rows []row
		for _, r := range c.frozen {
			if strings.HasPrefix(r.key, prefix) {
				rows = append(rows, r)
			}
		}
		return rows
	}
	keys := c.span(prefix)
	rows := make([]row, len(keys))
	for i, key := range keys {
		r := c.records[key]
		rows[i] = row{key: key, message: r.Wire, cache: &r.json}
	}
	return rows
}

// show is what a get request sees: the row, and whether there is one.
func (c *collection[M, X]) show(key string) (row, bool) {
	if c.stale {
		i := slices.IndexFunc(c.frozen, func(r row) bool { return r.key == key })
		if i < 0 {
			return row{}, false
		}
		return c.frozen[i], true
	}
	r := c.records[key]
	if r == nil {
		return row{}, false
	}
	return row{key: key, message: r.Wire, cache: &r.json}, true
}

// freeze makes answers stale: what is there now is shown until thaw.
func (c *collection[M, X]) freeze() {
	c.frozen = nil
	for _, key := range c.keys {
		c.frozen = append(c.frozen, row{key: key, message: proto.Clone(c.records[key].Wire), cache: new([]byte)})
	}
	c.stale = true
}

func (c *collection[M, X]) thaw() { c.frozen, c.stale = nil, false }

// A table is what the file keeps of a part of the simulator.
type table interface {
	tableName() string
	// changes calls put or del for everything that was not saved yet.
	changes(put func(key string, value []byte) error, del func(key string) error) error
	// pending says whether there are any.
	pending() bool
	// saved is called once the changes are on disk.
	saved()
	load(key string, value []byte) error
}

type savedRecord struct {
	Wire  json.RawMessage
	State json.RawMessage
}

func (c *collection[M, X]) tableName() string { return c.name }

func (c *collection[M, X]) changes(put func(string, []byte) error, del func(string) error) error {
	for _, key := range slices.Sorted(maps.Keys(c.dirty)) {
		r := c.records[key]
		if r == nil {
			if err := del(key); err != nil {
				return err
			}
			continue
		}
		value, err := r.save()
		if err != nil {
			return fmt.Errorf("encoding %s, %w", key, err)
		}
		if err := put(key, value); err != nil {
			return err
		}
	}
	return nil
}

func (r *record[M, X]) save() ([]byte, error) {
	message, err := protojson.Marshal(r.Wire)
	if err != nil {
		return nil, err
	}
	state, err := json.Marshal(r.State)
	if err != nil {
		return nil, err
	}
	return json.Marshal(savedRecord{Wire: message, State: state})
}

func (c *collection[M, X]) pending() bool { return len(c.dirty) > 0 }

func (c *collection[M, X]) saved() { clear(c.dirty) }

func (c *collection[M, X]) load(key string, value []byte) error {
	var in savedRecord
	if err := json.Unmarshal(value, &in); err != nil {
		return err
	}
	var none M
	message := none.ProtoReflect().Type().New().Interface().(M)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(in.Wire, message); err != nil {
		return err
	}
	var state X
	if err := json.Unmarshal(in.State, &state); err != nil {
		return err
	}
	c.put(key, message, state)
	delete(c.dirty, key)
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
