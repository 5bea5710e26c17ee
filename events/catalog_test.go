package events_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/events/internal/schema"
)

func TestSchemasAreThoseOfTheTypes(t *testing.T) {
	source, err := os.ReadFile(schema.Source)
	if err != nil {
		t.Fatal(err)
	}
	want, err := schema.Generate(source)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range want {
		got, err := events.Schema(strings.TrimSuffix(name, ".json"))
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("schemas/%s is not what the Go types say (%v); run go generate ./events", name, err)
		}
	}
	for _, folder := range []string{"schemas", "examples"} {
		files, err := filepath.Glob(folder + "/*")
		if err != nil || len(files) != len(events.Catalog()) {
			t.Errorf("%s holds %d files for %d kinds (%v)", folder, len(files), len(events.Catalog()), err)
		}
	}
}

// TestExamples holds type, schema and example of each kind to one another.
func TestExamples(t *testing.T) {
	for _, k := range events.Catalog() {
		t.Run(k.Type, func(t *testing.T) {
			event := example(t, k.Type)
			if event.Type() != k.Type {
				t.Fatalf("the example is a %s", event.Type())
			}
			compiled := compile(t, k.Type)
			if err := compiled.Validate(parse(t, event.Data())); err != nil {
				t.Errorf("the example is not as the schema says: %v", err)
			}
			decoded, err := events.Decode(event)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := reflect.TypeOf(decoded.Payload), reflect.TypeOf(k.New()); got != want {
				t.Errorf("decoded as %s, want %s", got, want)
			}
			again, err := decoded.CloudEvent()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, event.Data()), parse(t, again.Data())); diff != "" {
				t.Errorf("the example says something that the Go type does not hold (-example +type):\n%s", diff)
			}
			if err := compiled.Validate(parse(t, again.Data())); err != nil {
				t.Errorf("what the Go type writes is not as the schema says: %v", err)
			}
			for _, path := range missing(reflect.ValueOf(decoded.Payload).Elem(), "") {
				if path != ".ok" { // true or false, and one of them is Go's zero
					t.Errorf("the example says nothing of %s", path)
				}
			}
		})
	}
}

// TestSchemasRefuseWhatDecodeRefuses breaks each example one field at a time.
func TestSchemasRefuseWhatDecodeRefuses(t *testing.T) {
	for _, k := range events.Catalog() {
		compiled := compile(t, k.Type)
		whole := parse(t, example(t, k.Type).Data()).(map[string]any)
		for field := range whole {
			for what, broken := range map[string]any{"a wrong type": []any{[]any{1}}, "nothing": nil} {
				changed := map[string]any{}
				for f, v := range whole {
					changed[f] = v
				}
				changed[field] = broken
				if broken == nil {
					delete(changed, field)
				}
				data, err := json.Marshal(changed)
				if err != nil {
					t.Fatal(err)
				}
				bySchema := compiled.Validate(parse(t, data))
				_, byType := events.Read(k.Type, data)
				if bySchema != nil && byType == nil && field != "ok" {
					t.Errorf("%s with %s in %s: the schema refuses it and Read does not: %v", k.Type, what, field, bySchema)
				}
				if what == "a wrong type" && (byType == nil || !strings.Contains(byType.Error(), field)) {
					t.Errorf("%s with %s in %s: %v", k.Type, what, field, byType)
				}
			}
		}
	}
}

// missing lists the fields of a value that hold nothing.
func missing(v reflect.Value, path string) []string {
	var out []string
	for i := range v.NumField() {
		f, at := v.Field(i), path+"."+strings.Split(v.Type().Field(i).Tag.Get("json"), ",")[0]
		switch {
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			// Each field must be there in one of the entries.
			absent := map[string]int{}
			for j := range f.Len() {
				for _, p := range missing(f.Index(j), at) {
					absent[p]++
				}
			}
			for p, n := range absent {
				if n == f.Len() {
					out = append(out, p)
				}
			}
			if f.Len() == 0 {
				out = append(out, at)
			}
		case f.IsZero():
			out = append(out, at)
		}
	}
	return out
}

func example(t *testing.T, typ string) ce.Event {
	t.Helper()
	text, err := events.Example(typ)
	if err != nil {
		t.Fatal(err)
	}
	var event ce.Event
	if err := json.Unmarshal(text, &event); err != nil {
		t.Fatalf("%s: %v", typ, err)
	}
	return event
}

func compile(t *testing.T, typ string) *jsonschema.Schema {
	t.Helper()
	text, err := events.Schema(typ)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("urn:convoke:event:"+typ, parse(t, text)); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("urn:convoke:event:" + typ)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func parse(t *testing.T, text []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(fmt.Errorf("%w in %s", err, text))
	}
	return v
}
