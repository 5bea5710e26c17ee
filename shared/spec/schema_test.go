package spec

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var compiledSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaID, document); err != nil {
		return nil, err
	}
	return c.Compile(SchemaID)
})

var hugeExponent = regexp.MustCompile(`[0-9][eE][+-]?[0-9]{3}`)

// checkAgainstSchema compares the verdicts: what Parse accepts the schema accepts, and what Parse refuses for a reason
// that a schema can express the schema refuses.
func checkAgainstSchema(t testing.TB, text string) {
	t.Helper()
	schema, err := compiledSchema()
	if err != nil {
		t.Fatal(err)
	}
	if _, fault := readJSON(newText([]byte(text))); fault != nil {
		return // not JSON: nothing for a schema to say
	}
	if hugeExponent.MatchString(text) {
		return // the validator makes such numbers exact, digit by digit
	}
	instance, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
	if err != nil {
		t.Fatal(err)
	}
	refusal := schema.Validate(instance)
	_, all, _ := parse([]byte(text), Options{Guess: true})
	expressible := 0
	for _, f := range all {
		if f.Problem == "is given twice" {
			return // the schema sees the last one only
		}
		if !f.beyond {
			expressible++
		}
	}
	switch {
	case len(all) == 0 && refusal != nil:
		t.Errorf("the schema refuses what Parse accepts: %v", refusal)
	case expressible > 0 && refusal == nil:
		t.Errorf("the schema accepts what Parse refuses by its table: %v", all)
	case expressible == 0 && refusal != nil:
		t.Errorf("the schema refuses what Parse refuses only by rules across fields, %v: %v", all, refusal)
	}
}

func TestSchemaAcceptsTheExamples(t *testing.T) {
	paths, err := filepath.Glob("../../examples/*.json")
	if err != nil {
		t.Fatal(err)
	}
	golden, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(paths, golden...) {
		checkAgainstSchema(t, string(read(t, path)))
	}
}

func TestSchemaIsDeterministic(t *testing.T) {
	if !bytes.Equal(Schema(), Schema()) {
		t.Error("two calls differ")
	}
}
