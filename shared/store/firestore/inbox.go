package firestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/firestore"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

// inbox is the collection of events below a cluster's document.
const inbox = "inbox"

// eventDoc is an event. Its document's id may be a hash of its own.
type eventDoc struct {
	ID       string    `firestore:"id"`
	Type     string    `firestore:"type"`
	Time     time.Time `firestore:"time"`
	Data     []byte    `firestore:"data"`
	Received time.Time `firestore:"received"`
}

func event(doc *firestore.DocumentRef, id string) *firestore.DocumentRef {
	return doc.Collection(inbox).Doc(docID(id))
}

// postSize is how many events are created in one call, unless their data is larger than a commit may be.
const postSize = 500

// posters is how many events are created at a time, one by one, when some of them are there already.
const posters = 16

// Post puts events into the cluster's inbox.
func (s *Store) Post(ctx context.Context, key cluster.Key, events ...store.Event) error {
	if err := checkKey(key); err != nil {
		return err
	}
	for i := range events {
		if err := events[i].Validate(); err != nil {
			return fmt.Errorf("posting, %w", err)
		}
	}
	for len(events) > 0 {
		n := fitting(events)
		if err := s.post(ctx, s.cluster(key), events[:n]); err != nil {
			return explain(ctx, "posting", err)
		}
		events = events[n:]
	}
	return nil
}

// fitting is how many of the events go into one call.
func fitting(events []store.Event) int {
	size := 0
	for i, e := range events {
		size += len(e.Data) + len(e.ID)
		if i > 0 && (i == postSize || size > store.MaxCommit) {
			return i
		}
	}
	return len(events)
}

func (s *Store) post(ctx context.Context, doc *firestore.DocumentRef, events []store.Event) error {
	if len(events) > 1 {
		err := again(ctx, func(ctx context.Context) error {
			b := s.batch()
			for i := range events {
				b.Create(event(doc, events[i].ID), newEventDoc(&events[i]))
			}
			_, err := b.Commit(ctx)
			return err
		})
		if status.Code(err) != codes.AlreadyExists {
			return err
		}
	}
	each, ctx := errgroup.WithContext(ctx)
	each.SetLimit(posters)
	for i := range events {
		each.Go(func() error { return create(ctx, event(doc, events[i].ID), newEventDoc(&events[i])) })
	}
	return each.Wait()
}

func newEventDoc(e *store.Event) eventDoc {
	return eventDoc{ID: e.ID, Type: text(e.Type), Time: e.Time, Received: e.Received, Data: e.Data}
}

// Inbox reads the oldest events.
func (s *Store) Inbox(ctx context.Context, key cluster.Key, limit int) ([]store.Event, error) {
	var events []store.Event
	size := 0
	docs := s.cluster(key).Collection(inbox).OrderBy("received", firestore.Asc).Limit(store.InboxSize(limit)).Documents(ctx)
	defer docs.Stop()
	for size <= store.MaxInboxBytes {
		snap, err := docs.Next()
		if errors.Is(err, iterator.Done) {
			break
		}
		if err != nil {
			return nil, explain(ctx, "reading the inbox", err)
		}
		var d eventDoc
		if err := snap.DataTo(&d); err != nil {
			return nil, fmt.Errorf("reading event %s, %w", snap.Ref.ID, err)
		}
		size += len(d.Data)
		events = append(events, store.Event(d))
	}
	slices.SortStableFunc(events, func(a, b store.Event) int {
		return cmp.Or(a.Received.Compare(b.Received), cmp.Compare(a.ID, b.ID))
	})
	return events, nil
}

// Discard deletes events outside of any lease.
func (s *Store) Discard(ctx context.Context, key cluster.Key, ids ...string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	for chunk := range slices.Chunk(ids, postSize) {
		err := again(ctx, func(ctx context.Context) error {
			b := s.batch()
			for _, id := range chunk {
				b.Delete(event(s.cluster(key), id))
			}
			_, err := b.Commit(ctx)
			return err
		})
		if err != nil {
			return explain(ctx, "discarding events", err)
		}
	}
	return nil
}
