package events_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/convoke-hpc/convoke/events"
)

const topic = "//pubsub.googleapis.com/projects/team-train/topics/slurm-events"

func TestMessageThereAndBack(t *testing.T) {
	for _, k := range events.Catalog() {
		want, err := events.Decode(example(t, k.Type))
		if err != nil {
			t.Fatal(err)
		}
		m, err := events.ToMessage(want)
		if err != nil {
			t.Fatal(err)
		}
		if doc := m.Attributes[events.AttributeCluster]; doc != want.Key().Doc() && !want.Key().IsZero() {
			t.Errorf("%s: a subscription cannot filter on cluster %q", k.Type, doc)
		}
		event, carried, err := events.FromMessage(m, topic)
		if err != nil || !carried {
			t.Fatal(carried, err)
		}
		got, err := events.Decode(event)
		if diff := cmp.Diff(want, got, cmp.Comparer(sameJSON)); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", k.Type, err, diff)
		}
	}
}

func TestFromMessage(t *testing.T) {
	wake := `{` + keyJSON + `}`
	structured, err := json.Marshal(example(t, events.TypeClusterWake))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		data           string
		attributes     map[string]string
		id, source, is string // "": no CloudEvent
	}{
		{"binary", wake, map[string]string{"ce-specversion": "1.0", "ce-id": "1", "ce-type": events.TypeClusterWake, "ce-source": "//a"}, "1", "//a", events.TypeClusterWake},
		{"binary, in other letters", wake, map[string]string{"Ce-Specversion": "1.0", "CE-ID": "1", "ce-Type": events.TypeClusterWake, "ce-source": "//a"}, "1", "//a", events.TypeClusterWake},
		{"binary, only a type", wake, map[string]string{"ce-type": events.TypeClusterWake}, "m1", topic, events.TypeClusterWake},
		{"by hand", wake, map[string]string{"type": events.TypeClusterWake}, "m1", topic, events.TypeClusterWake},
		{"by hand, all of it", wake, map[string]string{"specversion": "1.0", "type": "x.y", "id": "2", "source": "//b"}, "2", "//b", "x.y"},
		{"structured", string(structured), map[string]string{"content-type": "application/cloudevents+json; charset=utf-8"}, "wake-91-4", "//convoke/steward", events.TypeClusterWake},
		{"raw", wake, nil, "", "", ""},
		{"raw, with words of its own", wake, map[string]string{"id": "flexvm", "type": "spec"}, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			event, carried, err := events.FromMessage(events.Message{ID: "m1", Published: now, Data: []byte(c.data), Attributes: c.attributes}, topic)
			if err != nil || carried != (c.is != "") {
				t.Fatalf("carried %t, %v", carried, err)
			}
			if carried && (event.ID() != c.id || event.Source() != c.source || event.Type() != c.is) {
				t.Errorf("id %q, source %q, type %q", event.ID(), event.Source(), event.Type())
			}
			if carried && !event.Time().Equal(now) {
				t.Errorf("time %v", event.Time())
			}
		})
	}
}

func TestFromMessageRefuses(t *testing.T) {
	for _, c := range []struct {
		name, data string
		attributes map[string]string
		want       string
	}{
		{"structured and no JSON", "{", map[string]string{"content-type": "application/cloudevents+json"}, "structured"},
		{"no type", "{}", map[string]string{"ce-specversion": "1.0"}, "type"},
		{"a version of the future", "{}", map[string]string{"ce-specversion": "3.0", "ce-type": "a"}, "version"},
		{"a time that is none", "{}", map[string]string{"ce-type": "a", "ce-time": "noon"}, "time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, carried, err := events.FromMessage(events.Message{ID: "m1", Data: []byte(c.data), Attributes: c.attributes}, topic)
			if !carried || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("carried %t, %v", carried, err)
			}
		})
	}
}

func FuzzFromMessage(f *testing.F) {
	f.Add("application/cloudevents+json", "", "", "", []byte(`{"specversion":"1.0","type":"a","source":"b","id":"c","data_base64":"AA=="}`))
	f.Add("application/json", "1.0", "convoke.tick.v1", "2026-03-02T10:15:30.25Z", []byte(`{}`))
	f.Add("", "0.3", "a", "", []byte(nil))
	f.Fuzz(func(_ *testing.T, contentType, version, typ, when string, data []byte) {
		event, carried, err := events.FromMessage(events.Message{ID: "m1", Data: data, Attributes: map[string]string{
			"content-type": contentType, "ce-specversion": version, "ce-type": typ, "ce-time": when,
		}}, topic)
		if err == nil && carried {
			_, _ = events.Decode(event)
		}
	})
}
