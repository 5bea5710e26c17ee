package store

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// Limits that both implementations keep, with room below Firestore's own: 1 MiB a document and 10 MiB a request, of which
// its emulator takes no more than about 4 MB before it hangs.
const (
	MaxDocument    = 900 << 10
	MaxCommit      = 3 << 20
	MaxInbox       = 500     // events read at a time
	MaxInboxBytes  = 8 << 20 // of event data read at a time, give or take one event
	MaxID          = 4 << 10 // bytes of an event's, an operation's or a quarantined thing's id, which is UTF-8
	MaxQuarantined = 256 << 10
)

// How long things are kept that nobody deletes. An operation's time begins anew with each change to it.
const (
	TimelineTTL   = 30 * 24 * time.Hour
	OperationTTL  = 90 * 24 * time.Hour
	QuarantineTTL = 30 * 24 * time.Hour
)

// Collections are the names under which documents may lie below a cluster's: the first part of their paths.
func Collections() []string { return []string{"pools", "nodes"} }

// documentPattern is the second part of a document's path. It leaves out what Firestore reserves: `.`, `..` and `__x__`.
var documentPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~-]{0,199}$`)

// SplitPath takes the path of a document below a cluster's apart, or says why it is none.
func SplitPath(path string) (collection, id string, err error) {
	collection, id, _ = strings.Cut(path, "/")
	if !slices.Contains(Collections(), collection) || !documentPattern.MatchString(id) {
		return "", "", fmt.Errorf("%q is not the path of a document below a cluster's: want pools/ID or nodes/ID", path)
	}
	return collection, id, nil
}

// TimelineID is the place of the n-th entry, from 0, of a commit: epoch-step-n, zero-padded so that ids sort as the
// entries happened.
func TimelineID(epoch int64, step, n int) string {
	return fmt.Sprintf("%012d-%06d-%04d", epoch, step, n)
}

// writeOverhead is what one write adds to a request beside its data: names, timestamps, preconditions.
const writeOverhead = 300

// Validate says what is wrong with a change whatever it is applied to: ErrTooLarge, or a mistake of the caller's.
func (c *Change) Validate() error {
	if c.Forget && !c.Release {
		return fmt.Errorf("a change that forgets a cluster must release it")
	}
	if err := checkDocument("the cluster's document", c.Cluster); err != nil {
		return err
	}
	size := len(c.Cluster) + writeOverhead
	for path, data := range c.Put {
		if _, _, err := SplitPath(path); err != nil {
			return err
		}
		if err := checkDocument(path, data); err != nil {
			return err
		}
		size += len(path) + len(data) + writeOverhead
	}
	for _, path := range c.Delete {
		if _, _, err := SplitPath(path); err != nil {
			return err
		}
		size += len(path) + writeOverhead
	}
	for _, id := range c.Consume {
		if err := checkID("an event's id", id); err != nil {
			return err
		}
		size += len(id) + writeOverhead
	}
	for i := range c.Timeline {
		size += entrySize(&c.Timeline[i])
	}
	for i := range c.Operations {
		if err := checkID("an operation's id", c.Operations[i].ID); err != nil {
			return err
		}
		size += operationSize(&c.Operations[i])
	}
	if size > MaxCommit {
		return fmt.Errorf("%w: %d bytes, of which %d are allowed", ErrTooLarge, size, MaxCommit)
	}
	return nil
}

func entrySize(e *cluster.Entry) int {
	return writeOverhead + len(e.Kind) + len(e.About) + len(e.Text) + problemSize(e.Problem)
}

func operationSize(o *cluster.Operation) int {
	size := 2*writeOverhead + len(o.Progress) + problemSize(o.Error)
	for _, f := range o.Faults {
		size += len(f)
	}
	return size
}

func problemSize(p *cluster.Problem) int {
	if p == nil {
		return 0
	}
	return len(p.Doing) + len(p.Resource) + len(p.Message) + len(p.Remedy)
}

// Validate says what is wrong with an event, whoever it is for: ErrTooLarge, or a mistake of the caller's.
func (e *Event) Validate() error {
	if err := checkID("an event's id", e.ID); err != nil {
		return err
	}
	return checkDocument("event "+e.ID, e.Data)
}

// Validate says what is wrong with a snapshot: ErrTooLarge.
func (s *Slurm) Validate() error { return checkDocument("the Slurm snapshot", s.Data) }

// Trimmed is the quarantined thing as it is kept: with no more than MaxQuarantined of its data, and the size that the
// data had.
func (q Quarantined) Trimmed() (Quarantined, error) {
	if err := checkID("a quarantined thing's id", q.ID); err != nil {
		return Quarantined{}, err
	}
	q.Size = max(q.Size, len(q.Data))
	q.Data = q.Data[:min(len(q.Data), MaxQuarantined)]
	return q, nil
}

func checkDocument(what string, data []byte) error {
	if len(data) > MaxDocument {
		return fmt.Errorf("%w: %s has %d bytes, of which %d are allowed", ErrTooLarge, what, len(data), MaxDocument)
	}
	return nil
}

func checkID(what, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%s is empty", what)
	case len(id) > MaxID:
		return fmt.Errorf("%w: %s has %d bytes, of which %d are allowed", ErrTooLarge, what, len(id), MaxID)
	case !utf8.ValidString(id):
		return fmt.Errorf("%s, %q, is not UTF-8", what, id)
	}
	return nil
}

// PageSize is how many things a reader is given that asks for limit: 100 when it does not say.
func PageSize(limit int) int {
	if limit <= 0 {
		return 100
	}
	return limit
}

// InboxSize is how many events a reader of an inbox is given that asks for limit: MaxInbox when it does not say.
func InboxSize(limit int) int {
	if limit <= 0 {
		return MaxInbox
	}
	return min(limit, MaxInbox)
}

// Newer reports whether the snapshot is newer than one of the given boot and sequence.
func (s *Slurm) Newer(boot time.Time, sequence int64) bool {
	return s.Boot.After(boot) || s.Boot.Equal(boot) && s.Sequence > sequence
}
