package machines

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// disks are the controllers' state disks, which outlive their VMs: one for each incarnation of a cluster.
type disks struct {
	folder string

	mu     sync.Mutex
	memory map[string][]byte
}

func newDisks(folder string) *disks { return &disks{folder: folder, memory: map[string][]byte{}} }

const (
	diskPrefix = "slurm-"
	diskSuffix = ".json"
)

// diskName is safe as a file's name, since a key's parts and a hash are.
func diskName(key cluster.Key, uid string) string {
	return diskPrefix + key.Doc() + "~" + cluster.Hash("disk", uid) + diskSuffix
}

// read is what the disk holds; nil when it is new. Those of the cluster's earlier incarnations are thrown away then.
func (d *disks) read(key cluster.Key, uid string) ([]byte, error) {
	if d.folder == "" {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.memory[diskName(key, uid)], nil
	}
	data, err := os.ReadFile(filepath.Join(d.folder, diskName(key, uid)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, d.forget(key)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state disk of %s, %w", key.ID, err)
	}
	return data, nil
}

// write replaces what the disk holds, whole or not at all.
func (d *disks) write(key cluster.Key, uid string, data []byte) error {
	if d.folder == "" {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.memory[diskName(key, uid)] = data
		return nil
	}
	path := filepath.Join(d.folder, diskName(key, uid))
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return fmt.Errorf("writing the state disk of %s, %w", key.ID, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing the state disk of %s, %w", key.ID, err)
	}
	return nil
}

// forget removes the disks of all incarnations of a cluster.
func (d *disks) forget(key cluster.Key) error {
	if err := os.MkdirAll(d.folder, 0o700); err != nil {
		return fmt.Errorf("making the folder of the state disks, %w", err)
	}
	entries, err := os.ReadDir(d.folder)
	if err != nil {
		return fmt.Errorf("looking for old state disks of %s, %w", key.ID, err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), diskPrefix+key.Doc()+"~") {
			continue
		}
		if err := os.Remove(filepath.Join(d.folder, e.Name())); err != nil {
			return fmt.Errorf("removing an old state disk of %s, %w", key.ID, err)
		}
	}
	return nil
}
