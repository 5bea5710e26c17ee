package embedded

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
	"github.com/convoke-hpc/convoke/shared/store/internal/trail"
)

// place is where a cluster's document stands: what the next commit is conditioned on.
type place struct {
	born string
	mark trail.Mark
}

// Lease takes the cluster's lease.
func (s *Store) Lease(ctx context.Context, key cluster.Key, holder string, now, until time.Time, create bool) (*store.Lease, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	// Most who come find the cluster held: they need no transaction that writes.
	var refusal error
	err := s.view(ctx, "reading the lease", func(tx *bolt.Tx) error {
		h, err := loadHead(tx, key)
		refusal = refuse(h, holder, now, create)
		return err
	})
	if err != nil || refusal != nil {
		return nil, cmp.Or(err, refusal)
	}
	var lease *store.Lease
	commit := rand.Text()
	err = s.update(ctx, "taking the lease", func(tx *bolt.Tx) error {
		lease, refusal = nil, nil
		h, err := loadHead(tx, key)
		if err != nil {
			return err
		}
		if h == nil || h.Trail.Last().Commit != commit {
			if refusal = refuse(h, holder, now, create); refusal != nil {
				return nil //nolint:nilerr // a refusal is the caller's answer and no failure of the database
			}
			if h == nil {
				h = &head{Key: key, Born: commit}
			}
			was := h.NextLook
			h.Epoch++
			h.Holder, h.Until, h.NextLook = holder, until, until
			h.Trail = h.Trail.With(trail.Mark{Epoch: h.Epoch, Commit: commit})
			if err := saveHead(tx, h, was); err != nil {
				return err
			}
		}
		lease = &store.Lease{
			Key: key, Holder: holder, Epoch: h.Epoch, Until: until,
			Data:  bytes.Clone(tx.Bucket([]byte(bucketData)).Get([]byte(key.Doc()))),
			Token: place{born: h.Born, mark: h.Trail.Last()},
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lease, refusal
}

// refuse says why a lease is not given; nil when it is.
func refuse(h *head, holder string, now time.Time, create bool) error {
	switch {
	case h == nil && !create:
		return store.ErrNoCluster
	case h != nil && h.heldAgainst(holder, now):
		return fmt.Errorf("%w: %s until %s", store.ErrHeld, h.Holder, h.Until.Format(time.RFC3339))
	}
	return nil
}

// Commit writes the change as one.
func (s *Store) Commit(ctx context.Context, lease *store.Lease, change store.Change) error {
	if err := change.Validate(); err != nil {
		return fmt.Errorf("committing, %w", err)
	}
	from, ok := lease.Token.(place)
	if !ok {
		return fmt.Errorf("committing with a lease that was released or lost, %w", store.ErrFenced)
	}
	mark := trail.Mark{Epoch: lease.Epoch, Commit: rand.Text()}
	applied := false
	var refusal error
	err := s.update(ctx, "committing", func(tx *bolt.Tx) error {
		refusal = nil
		h, err := loadHead(tx, lease.Key)
		if err != nil {
			return err
		}
		if h == nil || h.Born != from.born {
			if !applied || !change.Forget { // by us, a moment ago
				refusal = fmt.Errorf("committing, %w: the cluster was forgotten", store.ErrFenced)
			}
			return nil
		}
		switch h.Trail.Fate(from.mark, mark) {
		case trail.Applied:
			return nil
		case trail.Pending:
			applied = true
			return s.apply(tx, h, lease, mark, &change)
		default:
			refusal = fmt.Errorf("committing, %w: it is in epoch %d, this lease was of %d", store.ErrFenced, h.Epoch, lease.Epoch)
			return nil
		}
	})
	lease.Token = nil
	if err != nil {
		return err
	}
	if refusal != nil {
		return refusal
	}
	lease.Steps++
	if !change.Until.IsZero() {
		lease.Until = change.Until
	}
	if !change.Release {
		lease.Token = place{born: from.born, mark: mark}
	}
	return nil
}

// apply writes a change to a cluster whose lease is good.
func (s *Store) apply(tx *bolt.Tx, h *head, lease *store.Lease, mark trail.Mark, c *store.Change) error {
	if err := applyBelow(tx, lease.Key, c); err != nil {
		return err
	}
	expire := c.Now.Add(s.opts.TimelineTTL)
	for n, entry := range c.Timeline {
		id := below(lease.Key, store.TimelineID(lease.Epoch, lease.Steps+1, n))
		if err := put(tx, bucketTimeline, id, kept[cluster.Entry]{Value: entry, Expire: expire}); err != nil {
			return err
		}
		if err := expireAt(tx, expire, bucketTimeline, id); err != nil {
			return err
		}
	}
	for _, op := range c.Operations {
		if err := putOperation(tx, op); err != nil {
			return err
		}
	}
	if c.Forget {
		return dropHead(tx, h)
	}
	was := h.NextLook
	h.Trail = h.Trail.With(mark)
	if c.Summary != (store.Summary{}) {
		h.Summary = c.Summary
	}
	if c.Cluster != nil || !c.Expire.IsZero() {
		h.Expire = c.Expire
	}
	if !c.Until.IsZero() {
		h.Until, h.NextLook = c.Until, c.Until
	}
	if c.Release {
		h.Holder, h.Until, h.NextLook = "", time.Time{}, c.NextLook
	}
	if c.Cluster != nil {
		if err := tx.Bucket([]byte(bucketData)).Put([]byte(h.Key.Doc()), c.Cluster); err != nil {
			return err
		}
	}
	return saveHead(tx, h, was)
}

// applyBelow writes the documents below the cluster's, and takes the consumed events away.
func applyBelow(tx *bolt.Tx, key cluster.Key, c *store.Change) error {
	documents := tx.Bucket([]byte(bucketDocuments))
	for path, data := range c.Put {
		if err := documents.Put(below(key, path), data); err != nil {
			return err
		}
	}
	for _, path := range c.Delete {
		if err := documents.Delete(below(key, path)); err != nil {
			return err
		}
	}
	return dropEvents(tx, key, c.Consume)
}
