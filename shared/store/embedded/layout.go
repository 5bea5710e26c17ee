package embedded

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
	"github.com/convoke-hpc/convoke/shared/store/internal/trail"
)

// The buckets, with what their keys are. CLUSTER is Key.Doc, TIME is 12 bytes that sort as the times do.
const (
	bucketHeads      = "heads"                 // CLUSTER: head
	bucketData       = "data"                  // CLUSTER: the cluster's document
	bucketDocuments  = "documents"             // CLUSTER 0 path: a document below it
	bucketSlurm      = "slurm"                 // CLUSTER: slurmHead
	bucketSlurmData  = "slurm-data"            // CLUSTER: the snapshot
	bucketInbox      = "inbox"                 // CLUSTER 0 TIME id: event, in the order in which they are read
	bucketEvents     = "events"                // CLUSTER 0 id: its key in the inbox
	bucketTimeline   = "timeline"              // CLUSTER 0 id: kept[cluster.Entry]
	bucketOperations = "operations"            // id: kept[cluster.Operation]
	bucketOpsByTime  = "operations-by-created" // TIME id: nothing
	bucketQuarantine = "quarantine"            // id: kept[store.Quarantined]
	bucketQuarByTime = "quarantine-by-receipt" // TIME id: nothing
	bucketDue        = "due"                   // TIME CLUSTER: nothing
	bucketExpire     = "expire"                // TIME bucket 0 key: nothing
)

func buckets() [][]byte {
	var all [][]byte
	for _, name := range []string{bucketHeads, bucketData, bucketDocuments, bucketSlurm, bucketSlurmData, bucketInbox, bucketEvents,
		bucketTimeline, bucketOperations, bucketOpsByTime, bucketQuarantine, bucketQuarByTime, bucketDue, bucketExpire} {
		all = append(all, []byte(name))
	}
	return all
}

// head is a cluster's document without its data.
type head struct {
	Key cluster.Key `json:"key"`
	// Born is the id of the commit that made it, which tells it from one of the same key that was forgotten.
	Born     string        `json:"born"`
	Holder   string        `json:"holder,omitempty"`
	Epoch    int64         `json:"epoch"`
	Until    time.Time     `json:"until,omitzero"`
	NextLook time.Time     `json:"nextLook,omitzero"`
	Expire   time.Time     `json:"expire,omitzero"`
	Trail    trail.Trail   `json:"trail"`
	Summary  store.Summary `json:"summary"`
}

// heldAgainst reports whether a live lease of another keeps the holder out.
func (h *head) heldAgainst(holder string, now time.Time) bool {
	return h.Holder != "" && h.Holder != holder && h.Until.After(now)
}

func (h *head) listed() store.Listed {
	return store.Listed{Key: h.Key, Summary: h.Summary, NextLook: h.NextLook, Epoch: h.Epoch, Held: h.Holder != ""}
}

// kept is something that the store forgets by itself.
type kept[T any] struct {
	Value  T         `json:"value"`
	Expire time.Time `json:"expire,omitzero"`
}

// get reads a JSON value; found is false when there is none.
func get[T any](tx *bolt.Tx, bucket string, key []byte) (value T, found bool, err error) {
	raw := tx.Bucket([]byte(bucket)).Get(key)
	if raw == nil {
		return value, false, nil
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return value, false, fmt.Errorf("reading %s of %s, %w", key, bucket, err)
	}
	return value, true, nil
}

// put writes a value as JSON.
func put(tx *bolt.Tx, bucket string, key []byte, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("writing %s of %s, %w", key, bucket, err)
	}
	return tx.Bucket([]byte(bucket)).Put(key, raw)
}

// loadHead is a cluster's head; nil when there is none.
func loadHead(tx *bolt.Tx, key cluster.Key) (*head, error) {
	h, found, err := get[head](tx, bucketHeads, []byte(key.Doc()))
	if err != nil || !found {
		return nil, err
	}
	return &h, nil
}

// saveHead writes a cluster's head and keeps what is due and what expires in step with it. was is the next look that the head
// had before.
func saveHead(tx *bolt.Tx, h *head, was time.Time) error {
	doc := h.Key.Doc()
	due := tx.Bucket([]byte(bucketDue))
	if !was.IsZero() {
		if err := due.Delete(timed(was, doc)); err != nil {
			return err
		}
	}
	if !h.NextLook.IsZero() {
		if err := due.Put(timed(h.NextLook, doc), nil); err != nil {
			return err
		}
	}
	if err := expireAt(tx, h.Expire, bucketHeads, []byte(doc)); err != nil {
		return err
	}
	return put(tx, bucketHeads, []byte(doc), h)
}

// dropHead removes a cluster's document and its snapshot.
func dropHead(tx *bolt.Tx, h *head) error {
	doc := h.Key.Doc()
	if !h.NextLook.IsZero() {
		if err := tx.Bucket([]byte(bucketDue)).Delete(timed(h.NextLook, doc)); err != nil {
			return err
		}
	}
	for _, bucket := range []string{bucketHeads, bucketData, bucketSlurm, bucketSlurmData} {
		if err := tx.Bucket([]byte(bucket)).Delete([]byte(doc)); err != nil {
			return err
		}
	}
	return nil
}

// below is the key of something that belongs to a cluster.
func below(key cluster.Key, path string) []byte { return []byte(key.Doc() + "\x00" + path) }

// timed is a key that sorts by time, then by what follows.
func timed(t time.Time, rest string) []byte {
	k := make([]byte, stampSize, stampSize+len(rest))
	binary.BigEndian.PutUint64(k, uint64(t.Unix())^(1<<63))   //nolint:gosec // the flipped sign makes times before 1970 sort first
	binary.BigEndian.PutUint32(k[8:], uint32(t.Nanosecond())) //nolint:gosec // less than 1e9
	return append(k, rest...)
}

// stampSize is the length of a time in a key.
const stampSize = 12
