package events

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/slurm"
)

// The bounds of what a payload may hold. Texts that are longer are cut, since a report is worth more than its last line;
// everything else that is beyond its bound makes the event unreadable.
const (
	MaxSpec     = 512 << 10 // bytes of a spec: as part of an event it must fit a document
	MaxHostlist = 256 << 10 // bytes of one hostlist: 10,000 nodes of which no two are neighbors take 60,000
	MaxText     = 1 << 10   // bytes of a reason, a message, a comment
	MaxLog      = 16 << 10  // bytes of a log's last lines
	MaxEntries  = 100_000   // entries of one list
)

// Invalid lists everything that is wrong with an event.
type Invalid struct {
	Type   string
	Faults []string // each begins with the field's path
}

func (e *Invalid) Error() string {
	return e.Type + " is not as its schema says: " + strings.Join(e.Faults, "; ")
}

func validate(typ string, p Payload) error {
	var f faults
	p.check(&f)
	if len(f.list) > 0 {
		return &Invalid{Type: typ, Faults: f.list}
	}
	return nil
}

// faults collects what is wrong. Its methods also bring a field into its normal form.
type faults struct{ list []string }

func (f *faults) add(path, format string, args ...any) {
	f.list = append(f.list, path+": "+fmt.Sprintf(format, args...))
}

func (f *faults) cluster(k cluster.Key) {
	if err := k.Validate(); err != nil {
		f.add("cluster", "%v", err)
	}
}

// hostlist wants nodes of that cluster, and at least one.
func (f *faults) hostlist(path string, k cluster.Key, s string) {
	if s == "" {
		f.add(path, "must name at least one node")
		return
	}
	f.optionalHostlist(path, k, s)
}

func (f *faults) optionalHostlist(path string, k cluster.Key, s string) {
	if s == "" {
		return
	}
	if len(s) > MaxHostlist {
		f.add(path, "is %d bytes long, more than %d", len(s), MaxHostlist)
		return
	}
	_, foreign, err := slurm.Nodes(k.ID, s)
	if err != nil {
		f.add(path, "%v", err)
		return
	}
	if len(foreign) > 0 {
		f.add(path, "%q is not a node of cluster %s (%d such)", foreign[0], k.ID, len(foreign))
	}
}

// node wants the name of a node of that cluster; a fully qualified one is shortened.
func (f *faults) node(path string, k cluster.Key, name *string) {
	*name, _, _ = strings.Cut(*name, ".")
	if id, _, ok := cluster.ParseNodeName(*name); !ok || id != k.ID {
		f.add(path, "%q is not a node of cluster %s", clip(*name), k.ID)
	}
}

// machine wants the name of a node or of the controller of that cluster; a fully qualified one is shortened.
func (f *faults) machine(path string, k cluster.Key, name *string) {
	*name, _, _ = strings.Cut(*name, ".")
	if id, ok := cluster.InstanceCluster(*name); !ok || id != k.ID {
		f.add(path, "%q is not a machine of cluster %s", clip(*name), k.ID)
	}
}

func (f *faults) instance(id uint64) {
	if id == 0 {
		f.add("instanceId", "is missing: what a machine says is about one instance")
	}
}

// earliest and latest bound the times that make sense. Slurm writes "never" as times that do not.
var (
	earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

func (f *faults) time(path string, t *time.Time) {
	*t = cluster.Moment(*t)
	if t.Before(earliest) || t.After(latest) {
		f.add(path, "%s is missing or makes no sense", t.Format(time.RFC3339))
	}
}

func (f *faults) optionalTime(path string, t *time.Time) {
	if t.IsZero() {
		*t = time.Time{}
		return
	}
	f.time(path, t)
}

var wordPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$`)

// word wants a short name or id of safe characters.
func (f *faults) word(path, s string) {
	if !wordPattern.MatchString(s) {
		f.add(path, "%q must be 1 to 128 letters, digits, '.', '_', '~' and '-'", clip(s))
	}
}

func (f *faults) count(path string, n int) {
	if n > MaxEntries {
		f.add(path, "has %d entries, more than %d", n, MaxEntries)
	}
}

func (f *faults) spec(raw json.RawMessage) {
	switch {
	case len(raw) == 0 || raw[0] != '{':
		f.add("spec", "must be a JSON object")
	case len(raw) > MaxSpec:
		f.add("spec", "is %d bytes long, more than %d", len(raw), MaxSpec)
	}
}

// text cuts a text to MaxText, at a character's border, and takes out what would break a line or a terminal.
func text(s *string) {
	*s = trimTo(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) {
			return ' '
		}
		return r
	}, *s), MaxText)
}

// lines is text for what has several lines, of which the last ones matter most.
func lines(s *string, limit int) {
	clean := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if r == utf8.RuneError || unicode.IsControl(r) {
			return -1
		}
		return r
	}, *s)
	for len(clean) > limit {
		at := len(clean) - limit
		for at < len(clean) && !utf8.RuneStart(clean[at]) {
			at++
		}
		clean = clean[at:]
	}
	*s = clean
}

func trimTo(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// clip keeps what an error quotes short, since it came from outside.
func clip(s string) string { return trimTo(s, 80) }

// jsonFaults says which fields encoding/json could not read, each by itself, since its own error stops at the first and often
// does not name it.
func jsonFaults(data []byte, empty func() Payload, err error) []string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return []string{"not a JSON object: " + clip(err.Error())}
	}
	var f faults
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		one, err := json.Marshal(map[string]json.RawMessage{name: fields[name]})
		if err != nil {
			continue
		}
		if err := json.Unmarshal(one, empty()); err != nil {
			f.add(clip(name), "%s", clip(err.Error()))
		}
	}
	if len(f.list) == 0 {
		f.add("data", "%s", clip(err.Error()))
	}
	return f.list
}
