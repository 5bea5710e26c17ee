package firestore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

// document is a document below a cluster's.
type document struct {
	Data []byte `firestore:"data"`
}

// belowDoc is the reference of a document below a cluster's, of a path that has been checked.
func belowDoc(doc *firestore.DocumentRef, path string) *firestore.DocumentRef {
	collection, id, _ := strings.Cut(path, "/")
	return doc.Collection(collection).Doc(id)
}

// Documents reads all documents below the cluster's. They are read one collection beside the other, so that a reader without the
// lease may see a commit's half; with the lease nobody else writes.
func (s *Store) Documents(ctx context.Context, key cluster.Key) (store.Documents, error) {
	collections := store.Collections()
	found := make([][]*firestore.DocumentSnapshot, len(collections))
	each, gctx := errgroup.WithContext(ctx)
	for i, name := range collections {
		each.Go(func() (err error) {
			found[i], err = s.cluster(key).Collection(name).Documents(gctx).GetAll()
			return err
		})
	}
	if err := each.Wait(); err != nil {
		return nil, explain(ctx, "reading documents", err)
	}
	docs := store.Documents{}
	for i, name := range collections {
		for _, snap := range found[i] {
			var d document
			if err := snap.DataTo(&d); err != nil {
				return nil, fmt.Errorf("reading document %s/%s, %w", name, snap.Ref.ID, err)
			}
			docs[name+"/"+snap.Ref.ID] = d.Data
		}
	}
	return docs, nil
}

// slurmDoc is the newest snapshot of Slurm.
type slurmDoc struct {
	Boot     time.Time `firestore:"boot"`
	Sequence int64     `firestore:"sequence"`
	Digest   string    `firestore:"digest"`
	Data     []byte    `firestore:"data"`
}

func slurmLatest(doc *firestore.DocumentRef) *firestore.DocumentRef {
	return doc.Collection("slurm").Doc("latest")
}

// slurmAttempts is how often a snapshot is sent while others are quicker.
const slurmAttempts = 20

// PutSlurm keeps the snapshot if it is newer than the one kept. When several come at once, each looks at what the
// others left until it is kept or no longer the newest.
func (s *Store) PutSlurm(ctx context.Context, key cluster.Key, snapshot store.Slurm) (newer, changed bool, err error) {
	if err := checkKey(key); err != nil {
		return false, false, err
	}
	if err := snapshot.Validate(); err != nil {
		return false, false, fmt.Errorf("keeping a Slurm snapshot, %w", err)
	}
	next := slurmDoc{Boot: snapshot.Boot, Sequence: snapshot.Sequence, Digest: text(snapshot.Digest), Data: snapshot.Data}
	for attempt := range slurmAttempts {
		kept, updated, rerr := s.readSlurm(ctx, key)
		if rerr != nil {
			return false, false, explain(ctx, "keeping a Slurm snapshot", rerr)
		}
		if kept != nil && !snapshot.Newer(kept.Boot, kept.Sequence) {
			// It was sent, and no answer came: if it is the one kept, it has won.
			ours := attempt > 0 && kept.Boot.Equal(next.Boot) && kept.Sequence == next.Sequence
			return ours, ours && changed, nil
		}
		changed = kept == nil || kept.Digest != next.Digest
		if err = s.writeSlurm(ctx, key, next, updated); err == nil {
			return true, changed, nil
		}
		if !ambiguous(err) && !contended(err) {
			break
		}
		pause(ctx, min(attempt, attempts))
	}
	return false, false, explain(ctx, "keeping a Slurm snapshot", err)
}

// contended reports whether an error says that another was quicker.
func contended(err error) bool {
	code := status.Code(err)
	return code == codes.FailedPrecondition || code == codes.AlreadyExists || code == codes.NotFound
}

// readSlurm reads the snapshot kept; nil when there is none.
func (s *Store) readSlurm(ctx context.Context, key cluster.Key) (*slurmDoc, time.Time, error) {
	snap, err := slurmLatest(s.cluster(key)).Get(ctx)
	if status.Code(err) == codes.NotFound {
		return nil, time.Time{}, nil
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	var d slurmDoc
	if err := snap.DataTo(&d); err != nil {
		return nil, time.Time{}, err
	}
	return &d, snap.UpdateTime, nil
}

// writeSlurm replaces the snapshot that was last updated at the given time, or makes the first one.
func (s *Store) writeSlurm(ctx context.Context, key cluster.Key, d slurmDoc, updated time.Time) error {
	doc := slurmLatest(s.cluster(key))
	if updated.IsZero() {
		_, err := doc.Create(ctx, d)
		return err
	}
	_, err := doc.Update(ctx, []firestore.Update{
		{Path: "boot", Value: d.Boot},
		{Path: "sequence", Value: d.Sequence},
		{Path: "digest", Value: d.Digest},
		{Path: "data", Value: d.Data},
	}, firestore.LastUpdateTime(updated))
	return err
}

// Slurm is the snapshot kept.
func (s *Store) Slurm(ctx context.Context, key cluster.Key) (store.Slurm, error) {
	d, _, err := s.readSlurm(ctx, key)
	if err == nil && d == nil {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Slurm{}, explain(ctx, "reading the Slurm snapshot", err)
	}
	return store.Slurm(*d), nil
}
