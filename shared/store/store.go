// Package store says how a cluster is kept: a document with a lease, further documents below it, a mailbox, a timeline. The
// contract is DESIGN section 1: posting never fights, one holder at a time steps, a commit is one compare-and-swap on
// the cluster's document, and whoever releases looks at the mailbox once more. Package firestore keeps it in Firestore
// or its emulator, package embedded in one file on one machine, and package storetest proves that they keep the
// contract.
//
// A store knows nothing of what the documents mean: data is bytes. What may not live here: policy, and any knowledge
// of specs, nodes or clouds.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// The errors that callers act on; everything else is a failure of the store itself, after which nothing is known.
var (
	// ErrHeld: another invocation holds a live lease and will see what was posted.
	ErrHeld = errors.New("the cluster is held by another invocation")
	// ErrNoCluster: there is no cluster document, and the caller did not want to make one.
	ErrNoCluster = errors.New("no such cluster")
	// ErrFenced: the lease has been lost; nothing of the commit was written.
	ErrFenced = errors.New("the lease has passed to another holder")
	// ErrTooLarge: the commit, or one document of it, is larger than the store takes; nothing of it was written.
	ErrTooLarge = errors.New("too large for one commit")
	// ErrNotFound: there is no such document.
	ErrNotFound = errors.New("not found")
)

// Event is something that happened, in a cluster's mailbox until a commit consumes it.
type Event struct {
	ID   string    `json:"id"`
	Type string    `json:"type"` // as package events names it
	Time time.Time `json:"time"`
	Data []byte    `json:"data"` // JSON
	// Received is when it was posted.
	Received time.Time `json:"received"`
}

// Lease is the right to step a cluster, until Until. It is good for one commit after another: each renews its token.
type Lease struct {
	Key    cluster.Key
	Holder string
	Epoch  int64
	Until  time.Time
	// Data is the cluster's document as it was when the lease was taken; nil when the lease made it.
	Data []byte
	// Steps counts the commits under this lease; with Epoch it names timeline entries.
	Steps int
	// Token is the store's own: what the next commit is conditioned on. A lease that was released or lost has none.
	Token any
}

// Documents are the documents below a cluster's, by path relative to it: pools/a3u, nodes/a3u-0. They lie in the
// collections that Collections names.
type Documents map[string][]byte

// Change is one commit.
type Change struct {
	// Cluster is the cluster's document, nil to leave its data as it is.
	Cluster []byte
	// Put and Delete are documents below it.
	Put    Documents
	Delete []string
	// Consume are the ids of inbox events that are thereby dealt with.
	Consume []string
	// Timeline entries, in order.
	Timeline []cluster.Entry
	// Operations to write.
	Operations []cluster.Operation
	// Summary is what lists show without reading the document's data; a zero one leaves it as it is.
	Summary Summary
	// Until extends the lease; zero leaves it.
	Until time.Time
	// Release gives the lease up; NextLook is then when the cluster must be looked at next. Zero: never, by itself.
	Release  bool
	NextLook time.Time
	// Forget removes the cluster's document and its Slurm snapshot altogether: there is nothing to know about it. Only
	// with Release. What else lies below it is removed with Delete, or stays.
	Forget bool
	// Expire, when set, lets the store forget the cluster's document after it (a tombstone's TTL). A commit with Cluster
	// and without Expire takes an earlier one back: the cluster lives again.
	Expire time.Time
	// Now is the caller's clock, for timestamps.
	Now time.Time
}

// Summary is the part of a cluster that lists show.
type Summary struct {
	Phase   cluster.Phase `json:"phase"`
	UID     string        `json:"uid,omitempty"`
	Nodes   int           `json:"nodes"`
	Problem string        `json:"problem,omitempty"`
	Created time.Time     `json:"created,omitzero"`
}

// Listed is one line of a list of clusters.
type Listed struct {
	Key cluster.Key `json:"key"`
	Summary
	NextLook time.Time `json:"nextLook,omitzero"`
	Epoch    int64     `json:"epoch"`
	// Held: a lease was taken and not released. It may have run out: then NextLook is past.
	Held bool `json:"held"`
}

// Slurm is the newest snapshot, as one opaque document.
type Slurm struct {
	Boot     time.Time // newer boots win; within one boot the higher sequence
	Sequence int64
	// Digest is of what the snapshot says apart from its times; equal digests say the same.
	Digest string
	Data   []byte
}

// Quarantined is something that could not be understood, kept with the reason.
type Quarantined struct {
	ID       string    `json:"id"`
	Source   string    `json:"source"` // which function, which subscription
	Reason   string    `json:"reason"`
	Received time.Time `json:"received"`
	Type     string    `json:"type,omitempty"`
	Data     []byte    `json:"data"` // at most 256 KiB of it
	Size     int       `json:"size"`
}

// TimelineEntry is an entry with its place, as TimelineID gives it.
type TimelineEntry struct {
	ID string `json:"id"`
	cluster.Entry
}

// Store keeps clusters. All methods are safe for concurrent use by any number of processes that share the store.
type Store interface {
	// Post creates the event in the cluster's inbox under its id. That it is there already is success.
	Post(ctx context.Context, key cluster.Key, events ...Event) error
	// Lease takes the cluster's lease until the given time: compare-and-swap on the cluster's document with holder, epoch + 1
	// and expiry, and sets the cluster's next look to that expiry. With create, a document that is not there is made.
	// It fails with ErrHeld while another holder's lease lives (its expiry is after now), and with ErrNoCluster.
	Lease(ctx context.Context, key cluster.Key, holder string, now, until time.Time, create bool) (*Lease, error)
	// Documents reads all documents below the cluster's.
	Documents(ctx context.Context, key cluster.Key) (Documents, error)
	// Inbox reads up to limit events, and never more than MaxInbox or much more than MaxInboxBytes, oldest first by
	// Received, then id. There may be more after them.
	Inbox(ctx context.Context, key cluster.Key, limit int) ([]Event, error)
	// Commit writes the change as one: all of it, or, with ErrFenced or ErrTooLarge, nothing. It recognizes its own
	// earlier success when the answer to it was lost. After any other error nothing is known, and the lease must not
	// be used again.
	Commit(ctx context.Context, lease *Lease, change Change) error
	// Discard deletes events of the inbox outside of any lease: those posted to a cluster that does not exist.
	Discard(ctx context.Context, key cluster.Key, ids ...string) error
	// PutSlurm keeps the snapshot if it is newer than the one kept, and reports whether it was and whether it says
	// something else.
	PutSlurm(ctx context.Context, key cluster.Key, s Slurm) (newer, changed bool, err error)
	// Slurm is the snapshot kept; ErrNotFound when there is none.
	Slurm(ctx context.Context, key cluster.Key) (Slurm, error)
	// Due lists clusters whose next look is at or before now, the longest overdue first.
	Due(ctx context.Context, now time.Time, limit int) ([]cluster.Key, error)
	// Read is the cluster's document without a lease; ErrNoCluster.
	Read(ctx context.Context, key cluster.Key) (data []byte, listed Listed, err error)
	// List lists clusters in the order of their document ids (Key.Doc), after the given one when it is not empty; project
	// and location filter when not empty.
	List(ctx context.Context, project, location, after string, limit int) ([]Listed, error)
	// Timeline reads entries newest first, before the given id when it is not empty.
	Timeline(ctx context.Context, key cluster.Key, before string, limit int) ([]TimelineEntry, error)
	// PutOperation writes an operation outside of any lease, unless one of that id is there already; Operation reads one.
	PutOperation(ctx context.Context, op cluster.Operation) error
	Operation(ctx context.Context, id string) (cluster.Operation, error)
	// Operations lists operations of a project and location, newest first by Created; an empty one means all.
	Operations(ctx context.Context, project, location string, limit int) ([]cluster.Operation, error)
	// Quarantine keeps what could not be understood; the same id again is success. Quarantined lists it, newest first.
	Quarantine(ctx context.Context, q Quarantined) error
	Quarantined(ctx context.Context, limit int) ([]Quarantined, error)
	// Close ends the store's own connections and files.
	Close() error
}
