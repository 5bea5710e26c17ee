package pubsub

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"
	"google.golang.org/protobuf/proto"
)

// The journal's file. Messages are kept once; the backlog of a subscription refers to them by id.
//
//	meta           format → "1"
//	topics         name → Topic
//	subscriptions  name → Subscription
//	messages       id → PubsubMessage; the bucket's sequence is the last id ever given
//	backlog        subscription name → bucket: id → number of refusals (uvarint)
var (
	metaBucket         = []byte("meta")
	topicBucket        = []byte("topics")
	subscriptionBucket = []byte("subscriptions")
	messageBucket      = []byte("messages")
	backlogBucket      = []byte("backlog")

	formatKey = []byte("format")
)

const (
	journalFormat = "1"

	// lazyDelay is how long acknowledgements are gathered before they are written. Losing the last few only means that
	// their messages come again.
	lazyDelay = 5 * time.Millisecond
	lazyMost  = 2000
)

var errClosed = errors.New("the broker is closed")

// A change is one step of the broker's durable state.
type change func(tx *bbolt.Tx) error

// A journal makes changes durable, in the order in which they are handed over.
type journal interface {
	// submit hands over a change. The returned function waits until it is durable. Before it returns, applied has run;
	// the applied functions run one at a time, in the order of the changes, and only for changes that are durable.
	submit(c change, applied func()) (wait func() error)
	// later hands over a change that nobody waits for.
	later(c change)
	// close writes what is left. Changes that come after it fail.
	close() error
}

// memoryJournal keeps nothing: a change takes effect at once.
type memoryJournal struct {
	mu     sync.Mutex
	closed bool
}

func (j *memoryJournal) submit(_ change, applied func()) func() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return func() error { return errClosed }
	}
	if applied != nil {
		applied()
	}
	return func() error { return nil }
}

func (j *memoryJournal) later(change) {}

func (j *memoryJournal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	return nil
}

// fileJournal is a bbolt file with one writer, which puts everything that came while it wrote into its next transaction:
// the more publishers, the fewer writes for each.
type fileJournal struct {
	db  *bbolt.DB
	log *slog.Logger

	mu      sync.Mutex
	pending []pendingChange
	timer   *time.Timer // set while only lazy changes wait
	closed  bool

	wake chan struct{}
	done chan struct{}
}

type pendingChange struct {
	change  change
	applied func()
	result  chan error // nil when nobody waits
}

// openJournal opens or makes the file. Another process that has it open is an error after a second.
func openJournal(file string, log *slog.Logger) (*fileJournal, error) {
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{
		Timeout:        time.Second,
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
	})
	if errors.Is(err, bberrors.ErrTimeout) {
		return nil, fmt.Errorf("opening %s: another process has it open", file)
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s, %w", file, err)
	}
	if err := db.Update(prepare); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing %s, %w", file, err), db.Close())
	}
	j := &fileJournal{db: db, log: log, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go j.run()
	return j, nil
}

// prepare makes the buckets of a new file and refuses a file of another format.
func prepare(tx *bbolt.Tx) error {
	for _, name := range [][]byte{metaBucket, topicBucket, subscriptionBucket, messageBucket, backlogBucket} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	meta := tx.Bucket(metaBucket)
	switch format := string(meta.Get(formatKey)); format {
	case journalFormat:
		return nil
	case "":
		return meta.Put(formatKey, []byte(journalFormat))
	default:
		return fmt.Errorf("it has format %q, this broker reads %q", format, journalFormat)
	}
}

func (j *fileJournal) submit(c change, applied func()) func() error {
	result := make(chan error, 1)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return func() error { return errClosed }
	}
	j.pending = append(j.pending, pendingChange{change: c, applied: applied, result: result})
	j.rouse()
	return func() error { return <-result }
}

func (j *fileJournal) later(c change) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	j.pending = append(j.pending, pendingChange{change: c})
	switch {
	case len(j.pending) >= lazyMost:
		j.rouse()
	case j.timer == nil:
		j.timer = time.AfterFunc(lazyDelay, j.rouse)
	}
}

func (j *fileJournal) rouse() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

func (j *fileJournal) run() {
	defer close(j.done)
	for range j.wake {
		j.mu.Lock()
		batch, closed := j.pending, j.closed
		j.pending = nil
		if j.timer != nil {
			j.timer.Stop()
			j.timer = nil
		}
		j.mu.Unlock()
		j.write(batch)
		if closed {
			return
		}
	}
}

// write makes a batch durable in one transaction, applies it and answers those who wait.
func (j *fileJournal) write(batch []pendingChange) {
	if len(batch) == 0 {
		return
	}
	err := j.db.Update(func(tx *bbolt.Tx) error {
		for _, p := range batch {
			if err := p.change(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		j.log.Error("pubsub: the journal could not be written", "file", j.db.Path(), "changes", len(batch), "error", err)
	}
	for _, p := range batch {
		if err == nil && p.applied != nil {
			p.applied()
		}
		if p.result != nil {
			p.result <- err
		}
	}
}

func (j *fileJournal) close() error {
	j.mu.Lock()
	already := j.closed
	j.closed = true
	j.mu.Unlock()
	if already {
		return nil
	}
	j.rouse()
	<-j.done
	return j.db.Close()
}

func messageKey(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

func putProto(bucket []byte, name string, m proto.Message) change {
	return func(tx *bbolt.Tx) error {
		data, err := proto.Marshal(m)
		if err != nil {
			return fmt.Errorf("encoding %s, %w", name, err)
		}
		return tx.Bucket(bucket).Put([]byte(name), data)
	}
}

func putTopic(t *pubsubpb.Topic) change { return putProto(topicBucket, t.Name, t) }

// putSubscription writes the configuration and, for a new subscription, an empty backlog.
func putSubscription(s *pubsubpb.Subscription) change {
	return func(tx *bbolt.Tx) error {
		if _, err := tx.Bucket(backlogBucket).CreateBucketIfNotExists([]byte(s.Name)); err != nil {
			return err
		}
		return putProto(subscriptionBucket, s.Name, s)(tx)
	}
}

func dropTopic(name string) change {
	return func(tx *bbolt.Tx) error { return tx.Bucket(topicBucket).Delete([]byte(name)) }
}

// dropSubscription removes a subscription, its backlog, and the messages that only it still held.
func dropSubscription(name string, orphans []uint64) change {
	return func(tx *bbolt.Tx) error {
		if err := tx.Bucket(subscriptionBucket).Delete([]byte(name)); err != nil {
			return err
		}
		err := tx.Bucket(backlogBucket).DeleteBucket([]byte(name))
		if err != nil && !errors.Is(err, bberrors.ErrBucketNotFound) {
			return err
		}
		for _, id := range orphans {
			if err := tx.Bucket(messageBucket).Delete(messageKey(id)); err != nil {
				return err
			}
		}
		return nil
	}
}

// putMessages writes published messages and their places in the backlogs.
func putMessages(routed []routedMessage) change {
	return func(tx *bbolt.Tx) error {
		messages := tx.Bucket(messageBucket)
		for _, r := range routed {
			if r.id > messages.Sequence() {
				if err := messages.SetSequence(r.id); err != nil {
					return err
				}
			}
			if len(r.to) == 0 {
				continue
			}
			data, err := proto.Marshal(r.proto)
			if err != nil {
				return fmt.Errorf("encoding message %d, %w", r.id, err)
			}
			key := messageKey(r.id)
			if err := messages.Put(key, data); err != nil {
				return err
			}
			for _, s := range r.to {
				backlog := tx.Bucket(backlogBucket).Bucket([]byte(s.name))
				if backlog == nil {
					continue // deleted meanwhile
				}
				if err := backlog.Put(key, []byte{0}); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// dropMessage takes a message out of a backlog, and out of the file when no other subscription holds it.
func dropMessage(subscription string, id uint64, last bool) change {
	return func(tx *bbolt.Tx) error {
		if backlog := tx.Bucket(backlogBucket).Bucket([]byte(subscription)); backlog != nil {
			if err := backlog.Delete(messageKey(id)); err != nil {
				return err
			}
		}
		if !last {
			return nil
		}
		return tx.Bucket(messageBucket).Delete(messageKey(id))
	}
}

// putRefusals records how often a message was refused, unless it is gone meanwhile.
func putRefusals(subscription string, id uint64, refusals int) change {
	return func(tx *bbolt.Tx) error {
		backlog := tx.Bucket(backlogBucket).Bucket([]byte(subscription))
		if backlog == nil || backlog.Get(messageKey(id)) == nil {
			return nil
		}
		return backlog.Put(messageKey(id), binary.AppendUvarint(nil, uint64(max(refusals, 0))))
	}
}

func together(changes ...change) change {
	return func(tx *bbolt.Tx) error {
		for _, c := range changes {
			if err := c(tx); err != nil {
				return err
			}
		}
		return nil
	}
}

// A snapshot is what a journal's file holds when the broker starts.
type snapshot struct {
	topics        []*pubsubpb.Topic
	subscriptions []*pubsubpb.Subscription
	backlogs      map[string][]backlogItem // by subscription, each by message id
	lastID        uint64
	dangling      int // places in backlogs whose message is missing: an earlier broker could not write
}

type backlogItem struct {
	message  *message
	refusals int
}

// load reads the file, and removes messages that no backlog refers to any more.
func (j *fileJournal) load() (snapshot, error) {
	s := snapshot{backlogs: map[string][]backlogItem{}}
	err := j.db.Update(func(tx *bbolt.Tx) error {
		s.lastID = tx.Bucket(messageBucket).Sequence()
		err := tx.Bucket(topicBucket).ForEach(func(k, v []byte) error {
			t := &pubsubpb.Topic{}
			s.topics = append(s.topics, t)
			return decode("topic", k, v, t)
		})
		if err != nil {
			return err
		}
		err = tx.Bucket(subscriptionBucket).ForEach(func(k, v []byte) error {
			sub := &pubsubpb.Subscription{}
			s.subscriptions = append(s.subscriptions, sub)
			return decode("subscription", k, v, sub)
		})
		if err != nil {
			return err
		}
		return s.loadBacklogs(tx)
	})
	if err != nil {
		return snapshot{}, fmt.Errorf("reading %s, %w", j.db.Path(), err)
	}
	return s, nil
}

func (s *snapshot) loadBacklogs(tx *bbolt.Tx) error {
	messages := map[string]*message{}
	err := tx.Bucket(messageBucket).ForEach(func(k, v []byte) error {
		if len(k) != 8 {
			return fmt.Errorf("message %x: an id has 8 bytes", k)
		}
		m := &message{id: binary.BigEndian.Uint64(k), proto: &pubsubpb.PubsubMessage{}, size: len(v)}
		messages[string(k)] = m
		return decode("message", k, v, m.proto)
	})
	if err != nil {
		return err
	}
	for _, sub := range s.subscriptions {
		backlog := tx.Bucket(backlogBucket).Bucket([]byte(sub.Name))
		if backlog == nil {
			return fmt.Errorf("subscription %s has no backlog", sub.Name)
		}
		err := backlog.ForEach(func(k, v []byte) error {
			m := messages[string(k)]
			if m == nil {
				s.dangling++
				return nil
			}
			refusals, _ := binary.Uvarint(v)
			m.refs.Add(1)
			s.backlogs[sub.Name] = append(s.backlogs[sub.Name], backlogItem{message: m, refusals: int(min(refusals, 1<<20))})
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, m := range messages {
		if m.refs.Load() > 0 {
			continue
		}
		if err := tx.Bucket(messageBucket).Delete(messageKey(m.id)); err != nil {
			return err
		}
	}
	return nil
}

func decode(what string, key, value []byte, into proto.Message) error {
	if err := proto.Unmarshal(value, into); err != nil {
		return fmt.Errorf("decoding %s %q, %w", what, key, err)
	}
	return nil
}
