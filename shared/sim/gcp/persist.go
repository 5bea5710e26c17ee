package gcp

import (
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// settings are what the simulator knows beside its resources.
type settings struct {
	Counter  uint64         // of everything that was ever numbered
	Now      time.Time      // the latest time that was acted upon
	Capacity map[string]int // by "ZONE/MACHINE_TYPE"
	Quotas   map[string]int // by metric
	Delays   Delays

	dirty bool
}

func (s *settings) tableName() string { return "settings" }

func (s *settings) changes(put func(string, []byte) error, _ func(string) error) error {
	if !s.dirty {
		return nil
	}
	value, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encoding settings, %w", err)
	}
	return put("settings", value)
}

func (s *settings) pending() bool { return s.dirty }

func (s *settings) saved() { s.dirty = false }

func (s *settings) load(_ string, value []byte) error { return json.Unmarshal(value, s) }

// A file keeps tables on disk. Each save is one transaction: after a crash the
// file holds everything up to some answer, and nothing of what came after it.
type file struct{ db *bbolt.DB }

func openFile(path string) (*file, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: 2 * time.Second})
	if err != nil {
		return nil, fmt.Errorf("opening the simulated cloud's file %s (is another simulator using it?), %w", path, err)
	}
	return &file{db: db}, nil
}

func (f *file) close() error { return f.db.Close() }

func (f *file) load(tables []table) error {
	return f.db.View(func(tx *bbolt.Tx) error {
		for _, t := range tables {
			bucket := tx.Bucket([]byte(t.tableName()))
			if bucket == nil {
				continue
			}
			err := bucket.ForEach(func(key, value []byte) error {
				if err := t.load(string(key), value); err != nil {
					return fmt.Errorf("reading %s of table %s, %w", key, t.tableName(), err)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *file) save(tables []table) error {
	err := f.db.Update(func(tx *bbolt.Tx) error {
		for _, t := range tables {
			bucket, err := tx.CreateBucketIfNotExists([]byte(t.tableName()))
			if err != nil {
				return err
			}
			err = t.changes(
				func(key string, value []byte) error { return bucket.Put([]byte(key), value) },
				func(key string) error { return bucket.Delete([]byte(key)) },
			)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("saving the simulated cloud, %w", err)
	}
	for _, t := range tables {
		t.saved()
	}
	return nil
}
