// Package firestore keeps clusters in Google's Firestore, or in its emulator when FIRESTORE_EMULATOR_HOST is set.
//
// What lies where, below the database's root:
//
//	clusters/{project~location~id}     the cluster's document: data, summary, lease, next look, marks of its last commits
//	  pools/{id}  nodes/{id}           documents below it: data
//	  slurm/latest                     the newest snapshot of Slurm: boot, sequence, digest, data
//	  inbox/{event}                    events not yet consumed: id, type, time, received, data
//	  timeline/{epoch-step-n}          what was decided: at, kind, about, text, problem, place, expire
//	operations/{id}                    long-running operations: project, location, place, created, data, expire
//	quarantine/{id}                    what could not be understood: source, reason, received, type, data, size, expire
//
// Every query is answered from the indexes that Firestore makes of single fields; no composite index is needed. The
// fields called data need none at all, nor does trail, and `expire` of clusters, timeline, operations and quarantine carries the
// time-to-live policy: the infra folder says so to Firestore.
//
// There are no transactions. What must be one is one Commit call, conditioned on the time at which the cluster's
// document was last updated, and every such call changes that document. A transaction would lock what it reads: all who
// post would wait in line for the inbox, and those who died in it would block it for a minute.
//
// What may not live here: policy, and knowledge of what the documents mean.
package firestore

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

// Options are what can be chosen. The zero value is right for a project's default database.
type Options struct {
	// Database is the database's id. Default "(default)".
	Database string
	// TimelineTTL is how long timeline entries are kept. Default store.TimelineTTL.
	TimelineTTL time.Duration
	// Client are further options of the official client.
	Client []option.ClientOption
}

// Store is the store. Make one with Open.
type Store struct {
	client     *firestore.Client
	clusters   *firestore.CollectionRef
	operations *firestore.CollectionRef
	quarantine *firestore.CollectionRef
	opts       Options
}

var _ store.Store = (*Store)(nil)

// Open connects to the database of a project.
func Open(ctx context.Context, project string, opts Options) (*Store, error) {
	if opts.Database == "" {
		opts.Database = firestore.DefaultDatabaseID
	}
	if opts.TimelineTTL <= 0 {
		opts.TimelineTTL = store.TimelineTTL
	}
	client, err := firestore.NewClientWithDatabase(ctx, project, opts.Database, opts.Client...)
	if err != nil {
		return nil, fmt.Errorf("connecting to Firestore in project %s, %w", project, err)
	}
	return &Store{
		client:     client,
		clusters:   client.Collection("clusters"),
		operations: client.Collection("operations"),
		quarantine: client.Collection("quarantine"),
		opts:       opts,
	}, nil
}

// Close ends the connections.
func (s *Store) Close() error {
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("closing the connections to Firestore, %w", err)
	}
	return nil
}

// cluster is the reference of a cluster's document. The id of a good key is the key's own; any other names no document that
// exists, and none elsewhere.
func (s *Store) cluster(key cluster.Key) *firestore.DocumentRef {
	return s.clusters.Doc(docID(key.Doc()))
}

// checkKey keeps out what would name another document.
func checkKey(key cluster.Key) error {
	if err := key.Validate(); err != nil {
		return fmt.Errorf("naming a cluster, %w", err)
	}
	return nil
}

// maxDocID is how long an id may be that is written out. Firestore takes 1,500 bytes.
const maxDocID = 400

// docID makes any id the id of a document: escaped so that people can read it, or a hash when that is too long or reserved.
// Different ids have different documents.
func docID(id string) string {
	escaped := url.PathEscape(id)
	if escaped != "" && len(escaped) <= maxDocID && !strings.HasPrefix(escaped, "~") && !strings.HasPrefix(escaped, ".") && !strings.HasPrefix(escaped, "__") {
		return escaped
	}
	sum := sha256.Sum256([]byte(id))
	return "~" + base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])
}

// text makes any string one that Firestore takes: what a service or a person said may not be UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// explain says what was being done when an error came. When the caller has gone, that is the error's cause.
func explain(ctx context.Context, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return fmt.Errorf("%s, %w: %w", doing, ctx.Err(), err)
	default:
		return fmt.Errorf("%s, %w", doing, err)
	}
}

// attempts is how often a write is sent of which nothing is known, beside what the client does by itself.
const attempts = 5

// pause is how long to wait before a write is sent again.
func pause(ctx context.Context, attempt int) {
	timer := time.NewTimer(time.Duration(20<<attempt) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ambiguous reports whether an error leaves open what became of a write, or says that it may be sent again.
func ambiguous(err error) bool {
	switch status.Code(err) {
	case codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.Aborted, codes.Internal, codes.Unavailable, codes.ResourceExhausted:
		return true
	default:
		return false
	}
}

// again sends a write that may safely be made twice until something is known of it.
func again(ctx context.Context, write func(context.Context) error) error {
	var err error
	for attempt := range attempts {
		if err = write(ctx); err == nil || !ambiguous(err) || ctx.Err() != nil {
			return err
		}
		pause(ctx, attempt)
	}
	return err
}

// create makes a document. That it is there already is success.
func create(ctx context.Context, doc *firestore.DocumentRef, data any) error {
	return again(ctx, func(ctx context.Context) error {
		_, err := doc.Create(ctx, data)
		if status.Code(err) == codes.AlreadyExists {
			return nil
		}
		return err
	})
}

// batch is a list of writes that are made together: one Commit call, outside of any transaction. The client calls its
// type deprecated in favor of transactions, which take two calls and locks on the server to do what one call does, and of
// BulkWriter, which does not keep writes together.
type batch = firestore.WriteBatch //nolint:staticcheck // nothing else makes one call of several writes: see above

func (s *Store) batch() *batch {
	return s.client.Batch() //nolint:staticcheck // see type batch
}
