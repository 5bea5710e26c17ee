// Package embedded keeps clusters in one file on one machine: what `convoke local` and most tests use. It keeps the same
// contract as Firestore does, with a bbolt database in the place of the service. One process owns the file; others go
// through that process's HTTP port.
//
// Every write is one transaction that is on the disk when the call returns, so that kill -9 loses nothing that was
// acknowledged. Writers that come at the same time share a transaction, and with it the wait for the disk. There are
// no goroutines and no timers between calls, so that a store works inside a testing/synctest bubble.
//
// What may not live here: policy, and anything that Firestore could not do as well.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

// fileName is the database's, in its data folder.
const fileName = "convoke.db"

// Stage is a moment of a write at which its answer can be lost.
type Stage int

// The stages.
const (
	BeforeWrite Stage = iota // nothing has been written yet
	AfterWrite               // all has been written
)

// Options are what can be chosen. The zero value is right for `convoke local`.
type Options struct {
	// LockTimeout is how long Open waits for another process to let go of the file. Default one second.
	LockTimeout time.Duration
	// NoSync leaves it to the operating system when data reaches the disk: a crash of the process still loses nothing, but
	// one of the machine may leave an unreadable file. For simulations.
	NoSync bool
	// TimelineTTL is how long timeline entries are kept. Default store.TimelineTTL.
	TimelineTTL time.Duration
	// Fault, in tests, is asked at each stage of every write; an error that it returns stands in for the lost answer.
	Fault func(Stage) error
}

// Store is the store. Make one with Open.
type Store struct {
	db   *bolt.DB
	opts Options

	// mu guards queue. turn is held by the writer whose transaction is under way; it carries out all that is queued.
	mu    sync.Mutex
	queue []*write
	turn  sync.Mutex
}

var _ store.Store = (*Store)(nil)

// Open opens the store in a data folder, and makes both when they are not there. A store that another process has open
// is refused, with an error that names the locked file.
func Open(dir string, opts Options) (*Store, error) {
	if opts.LockTimeout <= 0 {
		opts.LockTimeout = time.Second
	}
	if opts.TimelineTTL <= 0 {
		opts.TimelineTTL = store.TimelineTTL
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the data folder, %w", err)
	}
	path := filepath.Join(dir, fileName)
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: opts.LockTimeout, NoSync: opts.NoSync, FreelistType: bolt.FreelistMapType})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("opening the store, %s is locked: another process has it open; stop that process, or choose another data folder", path)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the store %s, %w", path, err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range buckets() {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the store %s, %w", path, err), db.Close())
	}
	return &Store{db: db, opts: opts}, nil
}

// Close waits for the calls under way and closes the file.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("closing the store, %w", err)
	}
	return nil
}

// attempts is how often a write whose answer is lost is sent. Each write finds out by itself whether it was applied
// before, so that sending it again is harmless.
const attempts = 3

// write is one caller's part of a transaction.
type write struct {
	apply func(*bolt.Tx) error
	done  bool
	err   error
}

// update carries a write out. apply reports only failures of the database as errors; refusals it leaves with its caller, and
// writes nothing then. It may be called several times, and must know what it has done before.
func (s *Store) update(ctx context.Context, doing string, apply func(*bolt.Tx) error) error {
	var err error
	for range attempts {
		if cerr := ctx.Err(); cerr != nil {
			return fmt.Errorf("%s, %w", doing, errors.Join(cerr, err))
		}
		if err = s.once(apply); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s, %w", doing, err)
}

func (s *Store) once(apply func(*bolt.Tx) error) error {
	if err := s.fault(BeforeWrite); err != nil {
		return err
	}
	w := &write{apply: apply}
	s.mu.Lock()
	s.queue = append(s.queue, w)
	s.mu.Unlock()
	if err := s.takeTurn(w); err != nil {
		return err
	}
	return s.fault(AfterWrite)
}

// takeTurn waits for the transaction under way. Whoever queued up meanwhile is carried out by the first of them in one
// more, and the others find that it has been done.
func (s *Store) takeTurn(w *write) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if w.done {
		return w.err
	}
	s.mu.Lock()
	group := s.queue
	s.queue = nil
	s.mu.Unlock()

	err := s.db.Update(func(tx *bolt.Tx) error {
		for _, w := range group {
			if err := w.apply(tx); err != nil {
				return err
			}
		}
		return nil
	})
	for _, w := range group {
		w.done, w.err = true, err
		if err != nil && len(group) > 1 {
			w.err = s.db.Update(w.apply) // one's failure is not the others'
		}
	}
	return w.err
}

func (s *Store) fault(at Stage) error {
	if s.opts.Fault == nil {
		return nil
	}
	return s.opts.Fault(at)
}

// view reads.
func (s *Store) view(ctx context.Context, doing string, read func(*bolt.Tx) error) error {
	err := ctx.Err()
	if err == nil {
		err = s.db.View(read)
	}
	if err != nil {
		return fmt.Errorf("%s, %w", doing, err)
	}
	return nil
}

// checkKey keeps keys apart: none may hold what separates the parts of a name in the file.
func checkKey(key cluster.Key) error {
	if err := key.Validate(); err != nil {
		return fmt.Errorf("naming a cluster, %w", err)
	}
	return nil
}
