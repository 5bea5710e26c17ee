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

// Documents reads all documents below the cluster's.
func (s *Store) Documents(ctx context.Context, key cluster.Key) (store.Documents, error) {
	docs := store.Documents{}
	err := s.view(ctx, "reading documents", func(tx *bolt.Tx) error {
		prefix := below(key, "")
		c := tx.Bucket([]byte(bucketDocuments)).Cursor()
		for k, data := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, data = c.Next() {
			docs[string(k[len(prefix):])] = bytes.Clone(data)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return docs, nil
}

// slurmHead is a snapshot without its data.
type slurmHead struct {
	Boot     time.Time `json:"boot"`
	Sequence int64     `json:"sequence"`
	Digest   string    `json:"digest"`
}

// PutSlurm keeps the snapshot if it is newer than the one kept.
func (s *Store) PutSlurm(ctx context.Context, key cluster.Key, snapshot store.Slurm) (newer, changed bool, err error) {
	if err := checkKey(key); err != nil {
		return false, false, err
	}
	if err := snapshot.Validate(); err != nil {
		return false, false, fmt.Errorf("keeping a Slurm snapshot, %w", err)
	}
	next := slurmHead{Boot: snapshot.Boot, Sequence: snapshot.Sequence, Digest: snapshot.Digest}
	doc := []byte(key.Doc())
	err = s.update(ctx, "keeping a Slurm snapshot", func(tx *bolt.Tx) error {
		kept, found, err := get[slurmHead](tx, bucketSlurm, doc)
		if err != nil {
			return err
		}
		if newer && found && kept.Boot.Equal(next.Boot) && kept.Sequence == next.Sequence {
			return nil // ours, whose answer was lost
		}
		newer = !found || snapshot.Newer(kept.Boot, kept.Sequence)
		changed = newer && (!found || kept.Digest != next.Digest)
		if !newer {
			return nil
		}
		if err := tx.Bucket([]byte(bucketSlurmData)).Put(doc, snapshot.Data); err != nil {
			return err
		}
		return put(tx, bucketSlurm, doc, next)
	})
	if err != nil {
		return false, false, err
	}
	return newer, changed, nil
}

// Slurm is the snapshot kept.
func (s *Store) Slurm(ctx context.Context, key cluster.Key) (store.Slurm, error) {
	var snapshot store.Slurm
	err := s.view(ctx, "reading the Slurm snapshot", func(tx *bolt.Tx) error {
		doc := []byte(key.Doc())
		h, found, err := get[slurmHead](tx, bucketSlurm, doc)
		if err != nil {
			return err
		}
		if !found {
			return store.ErrNotFound
		}
		data := bytes.Clone(tx.Bucket([]byte(bucketSlurmData)).Get(doc))
		snapshot = store.Slurm{Boot: h.Boot, Sequence: h.Sequence, Digest: h.Digest, Data: data}
		return nil
	})
	return snapshot, err
}
