package embedded

import (
	"bytes"
	"context"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

// sweepSize is how many expired things are forgotten at a time: few enough that a tick is not held up.
const sweepSize = 1000

// expireAt notes that something may be forgotten after a time. A later note for the same thing does not take the
// earlier one back: the sweep looks at the thing itself.
func expireAt(tx *bolt.Tx, at time.Time, bucket string, key []byte) error {
	if at.IsZero() {
		return nil
	}
	return tx.Bucket([]byte(bucketExpire)).Put(timed(at, bucket+"\x00"+string(key)), nil)
}

// sweep forgets what has expired.
func (s *Store) sweep(ctx context.Context, now time.Time) error {
	var notes [][]byte
	err := s.view(ctx, "looking for what has expired", func(tx *bolt.Tx) error {
		end := timed(now, "\xff")
		c := tx.Bucket([]byte(bucketExpire)).Cursor()
		for k, _ := c.First(); k != nil && bytes.Compare(k, end) < 0 && len(notes) < sweepSize; k, _ = c.Next() {
			notes = append(notes, bytes.Clone(k))
		}
		return nil
	})
	if err != nil || len(notes) == 0 {
		return err
	}
	return s.update(ctx, "forgetting what has expired", func(tx *bolt.Tx) error {
		for _, note := range notes {
			if err := tx.Bucket([]byte(bucketExpire)).Delete(note); err != nil {
				return err
			}
			bucket, key, _ := bytes.Cut(note[stampSize:], []byte{0})
			if err := forget(tx, string(bucket), key, now); err != nil {
				return fmt.Errorf("%s of %s, %w", key, bucket, err)
			}
		}
		return nil
	})
}

// forget removes one thing, if it has expired by what it says itself.
func forget(tx *bolt.Tx, bucket string, key []byte, now time.Time) error {
	switch bucket {
	case bucketHeads:
		h, found, err := get[head](tx, bucket, key)
		if err != nil || !found || !past(h.Expire, now) {
			return err
		}
		return dropHead(tx, &h)
	case bucketOperations:
		return forgetKept(tx, bucket, key, now, bucketOpsByTime, func(o cluster.Operation) time.Time { return o.Created })
	case bucketQuarantine:
		return forgetKept(tx, bucket, key, now, bucketQuarByTime, func(q store.Quarantined) time.Time { return q.Received })
	default:
		return forgetKept[cluster.Entry](tx, bucket, key, now, "", nil)
	}
}

// forgetKept removes one thing and its key in the list by time, if there is such a list.
func forgetKept[T any](tx *bolt.Tx, bucket string, key []byte, now time.Time, byTime string, at func(T) time.Time) error {
	k, found, err := get[kept[T]](tx, bucket, key)
	if err != nil || !found || !past(k.Expire, now) {
		return err
	}
	if byTime != "" {
		if err := tx.Bucket([]byte(byTime)).Delete(timed(at(k.Value), string(key))); err != nil {
			return err
		}
	}
	return tx.Bucket([]byte(bucket)).Delete(key)
}

// past reports whether a time of expiry has come.
func past(expire, now time.Time) bool { return !expire.IsZero() && !expire.After(now) }
