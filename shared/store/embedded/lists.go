package embedded

import (
	"bytes"
	"context"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

// Due lists clusters that must be looked at. Since it is asked at every tick, it is also where the store forgets
// what has expired.
func (s *Store) Due(ctx context.Context, now time.Time, limit int) ([]cluster.Key, error) {
	if err := s.sweep(ctx, now); err != nil {
		return nil, err
	}
	var due []cluster.Key
	err := s.view(ctx, "reading what is due", func(tx *bolt.Tx) error {
		end := timed(now, "\xff")
		c := tx.Bucket([]byte(bucketDue)).Cursor()
		for k, _ := c.First(); k != nil && bytes.Compare(k, end) < 0 && len(due) < store.PageSize(limit); k, _ = c.Next() {
			key, err := cluster.ParseKey(string(k[stampSize:]))
			if err != nil {
				return err
			}
			due = append(due, key)
		}
		return nil
	})
	return due, err
}

// Read is the cluster's document without a lease.
func (s *Store) Read(ctx context.Context, key cluster.Key) ([]byte, store.Listed, error) {
	var data []byte
	var listed store.Listed
	err := s.view(ctx, "reading the cluster", func(tx *bolt.Tx) error {
		h, err := loadHead(tx, key)
		if err != nil {
			return err
		}
		if h == nil {
			return store.ErrNoCluster
		}
		data, listed = bytes.Clone(tx.Bucket([]byte(bucketData)).Get([]byte(key.Doc()))), h.listed()
		return nil
	})
	return data, listed, err
}

// List lists clusters.
func (s *Store) List(ctx context.Context, project, location, after string, limit int) ([]store.Listed, error) {
	var all []store.Listed
	err := s.view(ctx, "listing clusters", func(tx *bolt.Tx) error {
		c := tx.Bucket([]byte(bucketHeads)).Cursor()
		for k, _ := c.Seek([]byte(after)); k != nil && len(all) < store.PageSize(limit); k, _ = c.Next() {
			h, _, err := get[head](tx, bucketHeads, k)
			if err != nil {
				return err
			}
			if string(k) != after && matches(project, h.Key.Project) && matches(location, h.Key.Location) {
				all = append(all, h.listed())
			}
		}
		return nil
	})
	return all, err
}

// matches reports whether a filter lets a value pass.
func matches(filter, value string) bool { return filter == "" || filter == value }

// Timeline reads entries newest first.
func (s *Store) Timeline(ctx context.Context, key cluster.Key, before string, limit int) ([]store.TimelineEntry, error) {
	var entries []store.TimelineEntry
	err := s.view(ctx, "reading the timeline", func(tx *bolt.Tx) error {
		prefix := below(key, "")
		end := below(key, before)
		if before == "" {
			end = below(key, "\xff")
		}
		c := tx.Bucket([]byte(bucketTimeline)).Cursor()
		for k := previous(c, end); bytes.HasPrefix(k, prefix) && len(entries) < store.PageSize(limit); k, _ = c.Prev() {
			e, _, err := get[kept[cluster.Entry]](tx, bucketTimeline, k)
			if err != nil {
				return err
			}
			entries = append(entries, store.TimelineEntry{ID: string(k[len(prefix):]), Entry: e.Value})
		}
		return nil
	})
	return entries, err
}

// previous moves a cursor to the last key before the given one.
func previous(c *bolt.Cursor, end []byte) []byte {
	k, _ := c.Seek(end)
	if k == nil {
		k, _ = c.Last()
		return k
	}
	k, _ = c.Prev()
	return k
}

// PutOperation writes an operation unless it is there already.
func (s *Store) PutOperation(ctx context.Context, op cluster.Operation) error {
	change := store.Change{Operations: []cluster.Operation{op}}
	if err := change.Validate(); err != nil {
		return err
	}
	return s.update(ctx, "writing an operation", func(tx *bolt.Tx) error {
		if tx.Bucket([]byte(bucketOperations)).Get([]byte(op.ID)) != nil {
			return nil
		}
		return putOperation(tx, op)
	})
}

func putOperation(tx *bolt.Tx, op cluster.Operation) error {
	id := []byte(op.ID)
	expire := op.Updated.Add(store.OperationTTL)
	old, found, err := get[kept[cluster.Operation]](tx, bucketOperations, id)
	if err != nil {
		return err
	}
	byTime := tx.Bucket([]byte(bucketOpsByTime))
	if found && !old.Value.Created.Equal(op.Created) {
		if err := byTime.Delete(timed(old.Value.Created, op.ID)); err != nil {
			return err
		}
	}
	if err := byTime.Put(timed(op.Created, op.ID), nil); err != nil {
		return err
	}
	if err := expireAt(tx, expire, bucketOperations, id); err != nil {
		return err
	}
	return put(tx, bucketOperations, id, kept[cluster.Operation]{Value: op, Expire: expire})
}

// Operation reads an operation.
func (s *Store) Operation(ctx context.Context, id string) (cluster.Operation, error) {
	var op cluster.Operation
	err := s.view(ctx, "reading an operation", func(tx *bolt.Tx) error {
		o, found, err := get[kept[cluster.Operation]](tx, bucketOperations, []byte(id))
		if err == nil && !found {
			err = store.ErrNotFound
		}
		op = o.Value
		return err
	})
	return op, err
}

// Operations lists operations, newest first.
func (s *Store) Operations(ctx context.Context, project, location string, limit int) ([]cluster.Operation, error) {
	var ops []cluster.Operation
	err := s.view(ctx, "listing operations", func(tx *bolt.Tx) error {
		c := tx.Bucket([]byte(bucketOpsByTime)).Cursor()
		for k, _ := c.Last(); k != nil && len(ops) < store.PageSize(limit); k, _ = c.Prev() {
			o, _, err := get[kept[cluster.Operation]](tx, bucketOperations, k[stampSize:])
			if err != nil {
				return err
			}
			if matches(project, o.Value.Key.Project) && matches(location, o.Value.Key.Location) {
				ops = append(ops, o.Value)
			}
		}
		return nil
	})
	return ops, err
}

// Quarantine keeps what could not be understood.
func (s *Store) Quarantine(ctx context.Context, q store.Quarantined) error {
	q, err := q.Trimmed()
	if err != nil {
		return err
	}
	return s.update(ctx, "quarantining", func(tx *bolt.Tx) error {
		id := []byte(q.ID)
		if tx.Bucket([]byte(bucketQuarantine)).Get(id) != nil {
			return nil
		}
		expire := q.Received.Add(store.QuarantineTTL)
		if err := tx.Bucket([]byte(bucketQuarByTime)).Put(timed(q.Received, q.ID), nil); err != nil {
			return err
		}
		if err := expireAt(tx, expire, bucketQuarantine, id); err != nil {
			return err
		}
		return put(tx, bucketQuarantine, id, kept[store.Quarantined]{Value: q, Expire: expire})
	})
}

// Quarantined lists what could not be understood, newest first.
func (s *Store) Quarantined(ctx context.Context, limit int) ([]store.Quarantined, error) {
	var all []store.Quarantined
	err := s.view(ctx, "listing what is quarantined", func(tx *bolt.Tx) error {
		c := tx.Bucket([]byte(bucketQuarByTime)).Cursor()
		for k, _ := c.Last(); k != nil && len(all) < store.PageSize(limit); k, _ = c.Prev() {
			q, _, err := get[kept[store.Quarantined]](tx, bucketQuarantine, k[stampSize:])
			if err != nil {
				return err
			}
			all = append(all, q.Value)
		}
		return nil
	})
	return all, err
}
