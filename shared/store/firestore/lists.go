package firestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

// collect reads documents until there are no more or keep has kept enough of them.
func collect[D, T any](ctx context.Context, doing string, q firestore.Query, limit int, keep func(*D) (T, bool, error)) ([]T, error) {
	var all []T
	docs := q.Documents(ctx)
	defer docs.Stop()
	for len(all) < limit {
		snap, err := docs.Next()
		if errors.Is(err, iterator.Done) {
			break
		}
		if err != nil {
			return nil, explain(ctx, doing, err)
		}
		var d D
		if err := snap.DataTo(&d); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", doing, snap.Ref.ID, err)
		}
		v, ok, err := keep(&d)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", doing, snap.Ref.ID, err)
		}
		if ok {
			all = append(all, v)
		}
	}
	return all, nil
}

// Due lists clusters that must be looked at.
func (s *Store) Due(ctx context.Context, now time.Time, limit int) ([]cluster.Key, error) {
	limit = store.PageSize(limit)
	q := s.clusters.Where("nextLook", "<=", now).OrderBy("nextLook", firestore.Asc).Limit(limit).Select("project", "location", "id")
	return collect(ctx, "reading what is due", q, limit, func(d *clusterDoc) (cluster.Key, bool, error) { return d.key(), true, nil })
}

// Read is the cluster's document without a lease.
func (s *Store) Read(ctx context.Context, key cluster.Key) ([]byte, store.Listed, error) {
	doc, _, err := s.read(ctx, key)
	if err == nil && doc == nil {
		err = store.ErrNoCluster
	}
	if err != nil {
		return nil, store.Listed{}, err
	}
	return doc.Data, doc.listed(), nil
}

// List lists clusters, and reads no more of them than it shows.
func (s *Store) List(ctx context.Context, project, location, after string, limit int) ([]store.Listed, error) {
	limit = store.PageSize(limit)
	q := s.clusters.OrderBy(firestore.DocumentID, firestore.Asc).Limit(limit).
		Select("project", "location", "id", "phase", "uid", "nodes", "problem", "created", "nextLook", "epoch", "holder")
	if project != "" {
		q = q.Where("project", "==", project)
	}
	if location != "" {
		q = q.Where("location", "==", location)
	}
	if after != "" {
		q = q.StartAfter(after)
	}
	return collect(ctx, "listing clusters", q, limit, func(d *clusterDoc) (store.Listed, bool, error) { return d.listed(), true, nil })
}

// timeline is the collection of entries below a cluster's document.
const timeline = "timeline"

// entryDoc is a timeline entry. Place repeats its id: Firestore keeps no descending index of ids.
type entryDoc struct {
	Place   string      `firestore:"place"`
	At      time.Time   `firestore:"at"`
	Kind    string      `firestore:"kind"`
	About   string      `firestore:"about,omitempty"`
	Text    string      `firestore:"text"`
	Problem *problemDoc `firestore:"problem,omitempty"`
	Expire  time.Time   `firestore:"expire"`
}

// problemDoc is a cluster.Problem with Firestore's names.
type problemDoc struct {
	Class    cluster.Class `firestore:"class"`
	Doing    string        `firestore:"doing,omitempty"`
	Resource string        `firestore:"resource,omitempty"`
	Message  string        `firestore:"message"`
	Remedy   string        `firestore:"remedy,omitempty"`
	At       time.Time     `firestore:"at,omitempty"`
}

func newEntryDoc(id string, e *cluster.Entry, expire time.Time) entryDoc {
	d := entryDoc{Place: id, At: e.At, Kind: text(e.Kind), About: text(e.About), Text: text(e.Text), Expire: expire}
	if p := e.Problem; p != nil {
		d.Problem = &problemDoc{
			Class: p.Class, Doing: text(p.Doing), Resource: text(p.Resource), Message: text(p.Message), Remedy: text(p.Remedy), At: p.At,
		}
	}
	return d
}

// Timeline reads entries newest first.
func (s *Store) Timeline(ctx context.Context, key cluster.Key, before string, limit int) ([]store.TimelineEntry, error) {
	limit = store.PageSize(limit)
	q := s.cluster(key).Collection(timeline).OrderBy("place", firestore.Desc).Limit(limit)
	if before != "" {
		q = q.StartAfter(before)
	}
	return collect(ctx, "reading the timeline", q, limit, func(d *entryDoc) (store.TimelineEntry, bool, error) {
		entry := cluster.Entry{At: d.At, Kind: d.Kind, About: d.About, Text: d.Text, Problem: (*cluster.Problem)(d.Problem)}
		return store.TimelineEntry{ID: d.Place, Entry: entry}, true, nil
	})
}

// operationDoc is an operation: as JSON, beside the fields by which it is found.
type operationDoc struct {
	ID       string    `firestore:"id"`
	Project  string    `firestore:"project"`
	Location string    `firestore:"location"`
	Place    string    `firestore:"place"` // project~location~created, which sorts as the operations of a place do
	Created  time.Time `firestore:"created"`
	Done     bool      `firestore:"done"`
	Data     []byte    `firestore:"data"`
	Expire   time.Time `firestore:"expire"`
}

// operationPlace is the beginning of the places of all operations of a project and location.
func operationPlace(project, location string) string { return project + "~" + location + "~" }

// sortable is a time as text that sorts as times do.
const sortable = "2006-01-02T15:04:05.000000000"

func newOperationDoc(op *cluster.Operation) (operationDoc, error) {
	data, err := json.Marshal(op)
	if err != nil {
		return operationDoc{}, fmt.Errorf("writing operation %s, %w", op.ID, err)
	}
	return operationDoc{
		ID: op.ID, Project: text(op.Key.Project), Location: text(op.Key.Location),
		Place:   text(operationPlace(op.Key.Project, op.Key.Location) + op.Created.UTC().Format(sortable)),
		Created: op.Created, Done: op.Done, Data: data, Expire: op.Updated.Add(store.OperationTTL),
	}, nil
}

func (d *operationDoc) operation() (cluster.Operation, error) {
	var op cluster.Operation
	if err := json.Unmarshal(d.Data, &op); err != nil {
		return op, fmt.Errorf("reading operation %s, %w", d.ID, err)
	}
	return op, nil
}

// PutOperation writes an operation unless it is there already.
func (s *Store) PutOperation(ctx context.Context, op cluster.Operation) error {
	change := store.Change{Operations: []cluster.Operation{op}}
	if err := change.Validate(); err != nil {
		return err
	}
	d, err := newOperationDoc(&op)
	if err != nil {
		return err
	}
	return explain(ctx, "writing an operation", create(ctx, s.operations.Doc(docID(op.ID)), d))
}

// Operation reads an operation.
func (s *Store) Operation(ctx context.Context, id string) (cluster.Operation, error) {
	snap, err := s.operations.Doc(docID(id)).Get(ctx)
	if status.Code(err) == codes.NotFound {
		err = store.ErrNotFound
	}
	if err != nil {
		return cluster.Operation{}, explain(ctx, "reading an operation", err)
	}
	var d operationDoc
	if err := snap.DataTo(&d); err != nil {
		return cluster.Operation{}, fmt.Errorf("reading operation %s, %w", id, err)
	}
	return d.operation()
}

// Operations lists operations, newest first. Those of one project and location are found by their place; with only one of
// the two, the newest are read until there are enough.
func (s *Store) Operations(ctx context.Context, project, location string, limit int) ([]cluster.Operation, error) {
	limit = store.PageSize(limit)
	q := s.operations.OrderBy("created", firestore.Desc)
	if project != "" && location != "" {
		begin := operationPlace(project, location)
		q = s.operations.Where("place", ">=", begin).Where("place", "<", begin+"~").OrderBy("place", firestore.Desc).Limit(limit)
	}
	return collect(ctx, "listing operations", q, limit, func(d *operationDoc) (cluster.Operation, bool, error) {
		if project != "" && d.Project != project || location != "" && d.Location != location {
			return cluster.Operation{}, false, nil
		}
		op, err := d.operation()
		return op, true, err
	})
}

// quarantineDoc is something that could not be understood.
type quarantineDoc struct {
	ID       string    `firestore:"id"`
	Source   string    `firestore:"source"`
	Reason   string    `firestore:"reason"`
	Received time.Time `firestore:"received"`
	Type     string    `firestore:"type,omitempty"`
	Data     []byte    `firestore:"data"`
	Size     int       `firestore:"size"`
	Expire   time.Time `firestore:"expire"`
}

// Quarantine keeps what could not be understood.
func (s *Store) Quarantine(ctx context.Context, q store.Quarantined) error {
	q, err := q.Trimmed()
	if err != nil {
		return err
	}
	return explain(ctx, "quarantining", create(ctx, s.quarantine.Doc(docID(q.ID)), quarantineDoc{
		ID: q.ID, Source: text(q.Source), Reason: text(q.Reason), Received: q.Received, Type: text(q.Type), Data: q.Data, Size: q.Size,
		Expire: q.Received.Add(store.QuarantineTTL),
	}))
}

// Quarantined lists what could not be understood, newest first.
func (s *Store) Quarantined(ctx context.Context, limit int) ([]store.Quarantined, error) {
	limit = store.PageSize(limit)
	q := s.quarantine.OrderBy("received", firestore.Desc).Limit(limit)
	return collect(ctx, "listing what is quarantined", q, limit, func(d *quarantineDoc) (store.Quarantined, bool, error) {
		return store.Quarantined{
			ID: d.ID, Source: d.Source, Reason: d.Reason, Received: d.Received, Type: d.Type, Data: d.Data, Size: d.Size,
		}, true, nil
	})
}
