package embedded

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// Writers that come while a transaction is under way share the next one; one that fails does not take the others
// along.
func TestWritersShareATransaction(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const writers = 30
	broken := errors.New("broken")
	var mu sync.Mutex
	attempts := map[int]int{} // transaction: writers in it
	errs := make([]error, writers)
	bucket := []byte(bucketQuarantine)

	s.turn.Lock() // a transaction is under way
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			errs[i] = s.update(context.Background(), "testing", func(tx *bolt.Tx) error {
				mu.Lock()
				attempts[tx.ID()]++
				mu.Unlock()
				if i == 7 {
					return broken
				}
				return tx.Bucket(bucket).Put([]byte{byte(i)}, nil)
			})
		})
	}
	for queued := 0; queued < writers; {
		s.mu.Lock()
		queued = len(s.queue)
		s.mu.Unlock()
		runtime.Gosched()
	}
	s.turn.Unlock()
	all.Wait()

	for i, err := range errs {
		if want := i == 7; errors.Is(err, broken) != want || (err != nil) != want {
			t.Errorf("writer %d: %v", i, err)
		}
	}
	err = s.view(context.Background(), "counting", func(tx *bolt.Tx) error {
		if n := tx.Bucket(bucket).Stats().KeyN; n != writers-1 {
			t.Errorf("%d keys were written, want %d", n, writers-1)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	shared := 0
	for _, n := range attempts {
		shared = max(shared, n)
	}
	if shared < 2 {
		t.Errorf("at most %d writers shared a transaction: %v", shared, attempts)
	}
}
