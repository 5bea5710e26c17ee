package firestore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
	"github.com/convoke-hpc/convoke/shared/store/internal/trail"
)

// clusterDoc is a cluster's document.
type clusterDoc struct {
	Project  string `firestore:"project"`
	Location string `firestore:"location"`
	ID       string `firestore:"id"`

	Data []byte `firestore:"data,omitempty"`

	Phase   string    `firestore:"phase,omitempty"`
	UID     string    `firestore:"uid,omitempty"`
	Nodes   int       `firestore:"nodes"`
	Problem string    `firestore:"problem,omitempty"`
	Created time.Time `firestore:"created,omitempty"`

	Holder   string    `firestore:"holder,omitempty"`
	Epoch    int64     `firestore:"epoch"`
	Until    time.Time `firestore:"until,omitempty"`
	NextLook time.Time `firestore:"nextLook,omitempty"`
	Expire   time.Time `firestore:"expire,omitempty"`

	// Commit is the id of the last commit, Trail what package trail keeps.
	Commit string      `firestore:"commit"`
	Trail  trail.Trail `firestore:"trail"`
}

func (d *clusterDoc) key() cluster.Key {
	return cluster.Key{Project: d.Project, Location: d.Location, ID: d.ID}
}

// heldAgainst reports whether a live lease of another keeps the holder out.
func (d *clusterDoc) heldAgainst(holder string, now time.Time) bool {
	return d.Holder != "" && d.Holder != holder && d.Until.After(now)
}

func (d *clusterDoc) listed() store.Listed {
	summary := store.Summary{Phase: cluster.Phase(d.Phase), UID: d.UID, Nodes: d.Nodes, Problem: d.Problem, Created: d.Created}
	return store.Listed{Key: d.key(), Summary: summary, NextLook: d.NextLook, Epoch: d.Epoch, Held: d.Holder != ""}
}

// place is where a cluster's document stands: what the next commit is conditioned on.
type place struct {
	created time.Time // tells the document from one of the same key that was forgotten
	updated time.Time // zero: there is no document
	mark    trail.Mark
	trail   trail.Trail
}

// read reads a cluster's document. When there is none, doc is nil and the place is zero.
func (s *Store) read(ctx context.Context, key cluster.Key) (doc *clusterDoc, at place, err error) {
	snap, err := s.cluster(key).Get(ctx)
	if status.Code(err) == codes.NotFound {
		return nil, place{}, nil
	}
	if err != nil {
		return nil, place{}, explain(ctx, "reading the cluster", err)
	}
	doc = &clusterDoc{}
	if err := snap.DataTo(doc); err != nil {
		return nil, place{}, fmt.Errorf("reading the cluster, %w", err)
	}
	return doc, place{created: snap.CreateTime, updated: snap.UpdateTime, mark: doc.Trail.Last(), trail: doc.Trail}, nil
}

// Lease takes the cluster's lease.
func (s *Store) Lease(ctx context.Context, key cluster.Key, holder string, now, until time.Time, create bool) (*store.Lease, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	for range attempts {
		doc, from, err := s.read(ctx, key)
		switch {
		case err != nil:
			return nil, err
		case doc == nil && !create:
			return nil, store.ErrNoCluster
		case doc != nil && doc.heldAgainst(holder, now):
			return nil, fmt.Errorf("%w: %s until %s", store.ErrHeld, doc.Holder, doc.Until.Format(time.RFC3339))
		case doc == nil:
			doc = &clusterDoc{Project: key.Project, Location: key.Location, ID: key.ID}
		}
		doc.Epoch++
		doc.Holder, doc.Until, doc.NextLook, doc.Commit = text(holder), until, until, rand.Text()
		mark := trail.Mark{Epoch: doc.Epoch, Commit: doc.Commit}
		doc.Trail = doc.Trail.With(mark)

		to, err := s.swap(ctx, key, from, mark, s.leaseBatch(key, from, doc))
		switch {
		case errors.Is(err, errOvertaken) || errors.Is(err, errGone):
			continue // most likely it is held now
		case err != nil:
			return nil, explain(ctx, "taking the lease", err)
		case to.updated.IsZero():
			continue // it was ours, and has run out
		}
		return &store.Lease{Key: key, Holder: holder, Epoch: doc.Epoch, Until: until, Data: doc.Data, Token: to}, nil
	}
	// Whoever wins a race took the lease after this caller's event was posted, and so will see it.
	return nil, fmt.Errorf("%w: others were quicker %d times", store.ErrHeld, attempts)
}

func (s *Store) leaseBatch(key cluster.Key, from place, doc *clusterDoc) *batch {
	if from.updated.IsZero() {
		return s.batch().Create(s.cluster(key), doc)
	}
	return s.batch().Update(s.cluster(key), []firestore.Update{
		{Path: "holder", Value: doc.Holder},
		{Path: "epoch", Value: doc.Epoch},
		{Path: "until", Value: doc.Until},
		{Path: "nextLook", Value: doc.NextLook},
		{Path: "commit", Value: doc.Commit},
		{Path: "trail", Value: doc.Trail},
	}, firestore.LastUpdateTime(from.updated))
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
	batch, err := s.changeBatch(lease, from, mark, &change)
	if err != nil {
		return fmt.Errorf("committing, %w", err)
	}
	lease.Token = nil // until more is known
	to, err := s.swap(ctx, lease.Key, from, mark, batch)
	switch {
	case errors.Is(err, errGone) && change.Forget:
		// It is gone, as it was to be. If another holder was quicker to forget it, then it has dealt with the same events.
	case errors.Is(err, errOvertaken) || errors.Is(err, errGone):
		return fmt.Errorf("committing, %w: %w", store.ErrFenced, err)
	case err != nil:
		return explain(ctx, "committing", err)
	}
	lease.Steps++
	if !change.Until.IsZero() {
		lease.Until = change.Until
	}
	if !change.Release && !to.updated.IsZero() {
		lease.Token = to
	}
	return nil
}

// changeBatch is a change as writes, the cluster's document first.
func (s *Store) changeBatch(lease *store.Lease, from place, mark trail.Mark, c *store.Change) (*batch, error) {
	doc := s.cluster(lease.Key)
	b := s.batch()
	if c.Forget {
		b.Delete(doc, firestore.LastUpdateTime(from.updated))
		b.Delete(slurmLatest(doc))
	} else {
		b.Update(doc, clusterUpdates(from.trail.With(mark), c), firestore.LastUpdateTime(from.updated))
	}
	for path, data := range c.Put {
		b.Set(belowDoc(doc, path), document{Data: data})
	}
	for _, path := range c.Delete {
		b.Delete(belowDoc(doc, path))
	}
	for _, id := range c.Consume {
		b.Delete(event(doc, id))
	}
	expire := c.Now.Add(s.opts.TimelineTTL)
	for n := range c.Timeline {
		id := store.TimelineID(lease.Epoch, lease.Steps+1, n)
		b.Set(doc.Collection(timeline).Doc(id), newEntryDoc(id, &c.Timeline[n], expire))
	}
	for i := range c.Operations {
		op, err := newOperationDoc(&c.Operations[i])
		if err != nil {
			return nil, err
		}
		b.Set(s.operations.Doc(docID(op.ID)), op)
	}
	return b, nil
}

// clusterUpdates are the fields of the cluster's document that a change sets. The marks always change, so that the
// document's update time does.
func clusterUpdates(marks trail.Trail, c *store.Change) []firestore.Update {
	updates := []firestore.Update{{Path: "commit", Value: marks.Last().Commit}, {Path: "trail", Value: marks}}
	set := func(path string, value any) { updates = append(updates, firestore.Update{Path: path, Value: value}) }
	setTime := func(path string, t time.Time) {
		if t.IsZero() {
			set(path, firestore.Delete)
			return
		}
		set(path, t)
	}
	if c.Cluster != nil {
		set("data", c.Cluster)
	}
	if c.Cluster != nil || !c.Expire.IsZero() {
		setTime("expire", c.Expire)
	}
	if sum := c.Summary; sum != (store.Summary{}) {
		set("phase", text(string(sum.Phase)))
		set("uid", text(sum.UID))
		set("nodes", sum.Nodes)
		set("problem", text(sum.Problem))
		setTime("created", sum.Created)
	}
	switch {
	case c.Release:
		set("holder", firestore.Delete)
		set("until", firestore.Delete)
		setTime("nextLook", c.NextLook)
	case !c.Until.IsZero():
		set("until", c.Until)
		set("nextLook", c.Until)
	}
	return updates
}

var (
	errOvertaken = errors.New("another holder has begun an epoch of its own")
	errGone      = errors.New("the cluster's document is gone")
)

// swap commits writes of which the first is to the cluster's document, on the condition that it still is where it was.
// An answer that says nothing, or that may be about an attempt whose answer was lost, is settled by reading the
// document back: its marks tell what became of this commit. The place that it returns is zero when the commit was
// made and the document has moved on since.
func (s *Store) swap(ctx context.Context, key cluster.Key, from place, mark trail.Mark, batch *batch) (place, error) {
	var err error
	for attempt := range attempts {
		var results []*firestore.WriteResult
		if results, err = batch.Commit(ctx); err == nil {
			at := results[0].UpdateTime
			created := from.created
			if created.IsZero() {
				created = at
			}
			return place{created: created, updated: at, mark: mark, trail: from.trail.With(mark)}, nil
		}
		to, fate, rerr := s.fate(ctx, key, from, mark)
		if rerr != nil {
			return place{}, errors.Join(err, rerr)
		}
		switch {
		case fate == trail.Applied:
			return to, nil
		case fate == trail.Lost:
			return place{}, errOvertaken
		case fate == trail.Forgotten && to.updated.IsZero():
			return place{}, errGone
		case fate == trail.Forgotten || ctx.Err() != nil || !ambiguous(err) && status.Code(err) != codes.FailedPrecondition:
			return place{}, err
		}
		pause(ctx, attempt)
	}
	return place{}, err
}

// settleTime is how long a commit is asked after when its caller's own time is up.
const settleTime = 5 * time.Second

// fate reads back what became of a commit. The place is the document's, and zero when the commit is no longer its last
// one or the document is gone.
func (s *Store) fate(ctx context.Context, key cluster.Key, from place, mark trail.Mark) (place, trail.Fate, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	doc, at, err := s.read(ctx, key)
	if err != nil {
		return place{}, trail.Forgotten, err
	}
	switch {
	case doc == nil && from.updated.IsZero():
		return place{}, trail.Pending, nil // it was to be made, and has not been
	case doc == nil || !from.created.IsZero() && !at.created.Equal(from.created):
		return place{}, trail.Forgotten, nil
	}
	fate := at.trail.Fate(from.mark, mark)
	if fate == trail.Applied && at.mark != mark {
		at = place{}
	}
	return at, fate, nil
}
