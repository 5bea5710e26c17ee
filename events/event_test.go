package events_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

var (
	key = cluster.Key{Project: "team-train", Location: "us-central1", ID: "flexvm"}
	now = time.Date(2026, 3, 2, 10, 15, 30, 250_000_000, time.UTC)
)

const keyJSON = `"cluster":{"project":"team-train","location":"us-central1","id":"flexvm"}`

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ name, typ, data, want string }{
		{"no JSON", events.TypeNodesResume, `nodes=a`, "not a JSON object"},
		{"two values", events.TypeNodesResume, `{}{}`, "not a JSON object"},
		{"a list", events.TypeNodesResume, `[]`, "not a JSON object"},
		{"nothing", events.TypeNodesResume, ``, "cluster: project"},
		{"a key that would be two", events.TypeClusterDelete, `{"cluster":{"project":"team-train","location":"us-central1","id":"a~b"}}`, "cluster: cluster id"},
		{"a path for a key", events.TypeClusterDelete, `{"cluster":{"project":"../../etc","location":"us-central1","id":"ab"}}`, "cluster: project"},
		{"no nodes", events.TypeNodesSuspend, `{` + keyJSON + `,"nodes":"","time":"2026-01-01T00:00:00Z"}`, "nodes: must name"},
		{"another cluster's nodes", events.TypeNodesSuspend, `{` + keyJSON + `,"nodes":"flexvm-a3u-0,other-a3u-1","time":"2026-01-01T00:00:00Z"}`, `nodes: "other-a3u-1" is not a node of cluster flexvm`},
		{"a billion nodes", events.TypeNodesSuspend, `{` + keyJSON + `,"nodes":"flexvm-a3u-[0-999999999]","time":"2026-01-01T00:00:00Z"}`, "nodes: hostlist"},
		{"a shell's text", events.TypeNodesSuspend, `{` + keyJSON + `,"nodes":"flexvm-a3u-0;reboot","time":"2026-01-01T00:00:00Z"}`, "nodes: hostlist"},
		{"no time", events.TypeNodesSuspend, `{` + keyJSON + `,"nodes":"flexvm-a3u-0"}`, "time: 0001"},
		{"Slurm's never", events.TypeNodesSuspend, `{` + keyJSON + `,"nodes":"flexvm-a3u-0","time":"1970-01-01T00:00:00Z"}`, "time: 1970"},
		{"all at once", events.TypeNodeHealth, `{` + keyJSON + `,"node":"other-a3u-0","instanceId":"0","verdict":"poorly"}`, "node: "},
		{"every fault", events.TypeNodeHealth, `{` + keyJSON + `,"node":"flexvm-a3u-0","instanceId":"0","verdict":"poorly"}`, "instanceId: is missing: what a machine says is about one instance; time: "},
		{"a number for an id", events.TypeNodeBoot, `{` + keyJSON + `,"node":"flexvm-a3u-0","instanceId":12,"ok":true,"time":"2026-01-01T00:00:00Z"}`, "instanceId"},
		{"two wrong types", events.TypeNodeBoot, `{"cluster":7,"node":[],"instanceId":"12","ok":true,"time":"2026-01-01T00:00:00Z"}`, "; node: "},
		{"an index of letters", events.TypeNodeBoot, `{` + keyJSON + `,"node":"flexvm-a3u-x","instanceId":"12","ok":true,"time":"2026-01-01T00:00:00Z"}`, "node: "},
		{"health of the controller", events.TypeNodeHealth, `{` + keyJSON + `,"node":"flexvm-controller","instanceId":"12","verdict":"healthy","time":"2026-01-01T00:00:00Z"}`, "node: "},
		{"a spec that is null", events.TypeClusterCreate, `{` + keyJSON + `,"spec":null}`, "spec: must be a JSON object"},
		{"a spec that is a string", events.TypeClusterCreate, `{` + keyJSON + `,"spec":"{}"}`, "spec: must be a JSON object"},
		{"a spec that is too long", events.TypeClusterCreate, `{` + keyJSON + `,"spec":{"a":"` + strings.Repeat("x", events.MaxSpec) + `"}}`, "spec: is 5242"},
		{"an unknown mode", events.TypeClusterUpdate, `{` + keyJSON + `,"spec":{},"updateMode":"SOFTLY"}`, "updateMode: "},
		{"a snapshot without nodes", events.TypeSlurmSnapshot, `{` + keyJSON + `,"boot":"2026-01-01T00:00:00Z","sequence":1,"taken":"2026-01-01T00:00:00Z"}`, "nodes: is missing"},
		{"a command about nothing", events.TypeSlurmCommand, `{` + keyJSON + `,"id":"a","kind":"drain","time":"2026-01-01T00:00:00Z"}`, "nodes: the command"},
		{"an id with a slash", events.TypeSlurmCommand, `{` + keyJSON + `,"id":"../a","kind":"drain","nodes":"flexvm-a3u-0","time":"2026-01-01T00:00:00Z"}`, "id: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := events.Read(c.typ, []byte(c.data))
			var invalid *events.Invalid
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want it to contain %q", err, c.want)
			}
		})
	}
}

func TestReadTakes(t *testing.T) {
	t.Run("fields that are not known", func(t *testing.T) {
		if _, err := events.Read(events.TypeClusterDelete, []byte(`{`+keyJSON+`,"force":{"since":"v9"}}`)); err != nil {
			t.Error(err)
		}
	})
	t.Run("fully qualified names", func(t *testing.T) {
		p, err := events.Read(events.TypeNodeBoot, []byte(`{`+keyJSON+`,"node":"flexvm-a3u-0.us-central1-a.c.team-train.internal","instanceId":"7","ok":true,"time":"2026-03-02T11:15:30.2504+01:00"}`))
		want := &events.NodeBoot{Cluster: key, Node: "flexvm-a3u-0", InstanceID: 7, OK: true, Time: now}
		if diff := cmp.Diff(want, p); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	})
	t.Run("texts of any length", func(t *testing.T) {
		p, err := events.Read(events.TypeNodeBoot, []byte(`{`+keyJSON+`,"node":"flexvm-controller","instanceId":"7","time":"2026-03-02T11:15:30Z",
			"reason":"`+strings.Repeat("ä", 5000)+`","log":"first\n`+strings.Repeat("日本\\n", 9000)+`last\u001b[2J\n"}`))
		if err != nil {
			t.Fatal(err)
		}
		b := p.(*events.NodeBoot)
		if len(b.Reason) != events.MaxText || !utf8.ValidString(b.Reason) {
			t.Errorf("a reason of %d bytes", len(b.Reason))
		}
		if len(b.Log) > events.MaxLog || !utf8.ValidString(b.Log) || !strings.HasSuffix(b.Log, "\nlast[2J\n") {
			t.Errorf("a log of %d bytes that ends with %q", len(b.Log), b.Log[len(b.Log)-10:])
		}
	})
	t.Run("a tick that says nothing", func(t *testing.T) {
		if p, err := events.Read(events.TypeTick, nil); err != nil || !p.Key().IsZero() {
			t.Error(p, err)
		}
	})
}

func TestDecodeWantsAnIdentity(t *testing.T) {
	event := ce.New()
	event.SetType(events.TypeTick)
	event.SetID("1")
	if _, err := events.Decode(event); err == nil || !strings.Contains(err.Error(), "source") {
		t.Errorf("without a source: %v", err)
	}
	event.SetType("convoke.node.dreamt.v1")
	if _, err := events.Decode(event); !errors.Is(err, events.ErrUnknownType) {
		t.Errorf("of an unknown type: %v", err)
	}
}

func TestCloudEventHoldsUsToTheSameRules(t *testing.T) {
	e := &events.Event{ID: "1", Source: "//convoke/test", Type: events.TypeNodesResume, Payload: &events.NodesResume{Cluster: key}}
	if _, err := e.CloudEvent(); err == nil {
		t.Error("an event that nobody could read was made")
	}
}

func TestInbox(t *testing.T) {
	e := &events.Event{ID: "12", Source: "//convoke/a", Type: events.TypeClusterWake, Time: now, Payload: &events.ClusterWake{Cluster: key}}
	posted, err := events.ToInbox(e, now.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if string(posted.Data) != `{`+keyJSON+`}` || posted.Type != e.Type || !posted.Time.Equal(now) || !posted.Received.Equal(now.Add(time.Second)) {
		t.Errorf("%+v", posted)
	}
	if p, err := events.Read(posted.Type, posted.Data); err != nil || p.Key() != key {
		t.Errorf("what was posted cannot be read: %v", err)
	}
}

func TestInboxID(t *testing.T) {
	id := events.InboxID(events.TypeNodeBoot, "//convoke/a", "1")
	if !strings.HasPrefix(id, "node.boot-") || id != events.InboxID(events.TypeNodeBoot, "//convoke/a", "1") {
		t.Errorf("%q is not derived from source and id alone", id)
	}
	for _, other := range []string{
		events.InboxID(events.TypeNodeBoot, "//convoke/b", "1"),
		events.InboxID(events.TypeNodeBoot, "//convoke/a", "2"),
		events.InboxID(events.TypeNodeHealth, "//convoke/a", "1"),
		events.InboxID(events.TypeNodeBoot, "//convoke/", "a1"),
	} {
		if other == id {
			t.Errorf("%q is another event's, too", id)
		}
	}
	if id := events.InboxID(events.TypeClusterCreate, "//anything", "op-1"); id != "op-1" {
		t.Errorf("a request's id %q is not its operation's", id)
	}
}

func FuzzInboxID(f *testing.F) {
	f.Add(events.TypeNodeBoot, "//a", "1")
	f.Add(events.TypeClusterCreate, "", "../../x")
	f.Add("__x__", "__", "__x__")
	f.Fuzz(func(t *testing.T, typ, source, id string) {
		got := events.InboxID(typ, source, id)
		if got == "" || len(got) > 128 || strings.ContainsAny(got, "/ \n\x00") || strings.HasPrefix(got, ".") || strings.HasPrefix(got, "_") || !utf8.ValidString(got) {
			t.Errorf("%q cannot be a document's id", got)
		}
	})
}

// FuzzDecode: whatever is read is written and read again as the same.
func FuzzDecode(f *testing.F) {
	for i, k := range events.Catalog() {
		text, err := events.Example(k.Type)
		if err != nil {
			f.Fatal(err)
		}
		var event ce.Event
		if err := json.Unmarshal(text, &event); err != nil {
			f.Fatal(err)
		}
		f.Add(i, event.Data())
	}
	f.Fuzz(func(t *testing.T, kind int, data []byte) {
		kinds := events.Catalog()
		if kind < 0 {
			kind = -(kind + 1)
		}
		typ := kinds[kind%len(kinds)].Type
		p, err := events.Read(typ, data)
		if err != nil {
			var invalid *events.Invalid
			if !errors.As(err, &invalid) || len(invalid.Faults) == 0 {
				t.Fatalf("an error without faults: %v", err)
			}
			return
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := events.Read(typ, text)
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		if diff := cmp.Diff(p, again, cmp.Comparer(sameJSON), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
		if s, ok := p.(*events.SlurmSnapshot); ok {
			if _, err := s.Digest(); err != nil {
				t.Error(err)
			}
			_, _ = s.Model() // may fail, may not panic
		}
	})
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && cmp.Equal(x, y)
}
