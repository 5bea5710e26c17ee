package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

// Post puts events into the cluster's inbox.
func (s *Store) Post(ctx context.Context, key cluster.Key, events ...store.Event) error {
	if err := checkKey(key); err != nil {
		return err
	}
	raw := make([][]byte, len(events))
	for i := range events {
		err := events[i].Validate()
		if err == nil {
			raw[i], err = encodeEvent(events[i])
		}
		if err != nil {
			return fmt.Errorf("posting, %w", err)
		}
	}
	if len(events) == 0 {
		return nil
	}
	return s.update(ctx, "posting", func(tx *bolt.Tx) error {
		ids, inbox := tx.Bucket([]byte(bucketEvents)), tx.Bucket([]byte(bucketInbox))
		for i, e := range events {
			id := below(key, e.ID)
			if ids.Get(id) != nil {
				continue
			}
			at := below(key, string(timed(e.Received, e.ID)))
			if err := ids.Put(id, at); err != nil {
				return err
			}
			if err := inbox.Put(at, raw[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// Inbox reads the oldest events.
func (s *Store) Inbox(ctx context.Context, key cluster.Key, limit int) ([]store.Event, error) {
	var events []store.Event
	err := s.view(ctx, "reading the inbox", func(tx *bolt.Tx) error {
		size := 0
		prefix := below(key, "")
		c := tx.Bucket([]byte(bucketInbox)).Cursor()
		for k, raw := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, raw = c.Next() {
			if len(events) == store.InboxSize(limit) || size > store.MaxInboxBytes {
				break
			}
			e, err := decodeEvent(raw)
			if err != nil {
				return fmt.Errorf("event %q, %w", k[len(prefix)+stampSize:], err)
			}
			size += len(e.Data)
			events = append(events, e)
		}
		return nil
	})
	return events, err
}

// Discard deletes events outside of any lease.
func (s *Store) Discard(ctx context.Context, key cluster.Key, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	return s.update(ctx, "discarding events", func(tx *bolt.Tx) error { return dropEvents(tx, key, ids) })
}

func dropEvents(tx *bolt.Tx, key cluster.Key, ids []string) error {
	events, inbox := tx.Bucket([]byte(bucketEvents)), tx.Bucket([]byte(bucketInbox))
	for _, id := range ids {
		k := below(key, id)
		at := events.Get(k)
		if at == nil {
			continue
		}
		if err := inbox.Delete(at); err != nil {
			return err
		}
		if err := events.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// encodeEvent is an event as it is kept: a line of JSON without the data, and then the data as they are.
func encodeEvent(e store.Event) ([]byte, error) {
	data := e.Data
	e.Data = nil
	line, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return slices.Concat(line, []byte{'\n'}, data), nil
}

func decodeEvent(raw []byte) (store.Event, error) {
	var e store.Event
	line, data, _ := bytes.Cut(raw, []byte{'\n'})
	if err := json.Unmarshal(line, &e); err != nil {
		return e, err
	}
	e.Data = bytes.Clone(data)
	return e, nil
}
