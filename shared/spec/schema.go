package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/convoke-hpc/convoke/shared/slurm"
)

// SchemaID identifies the schema. It is a name, not an address.
const SchemaID = "https://convoke-hpc.github.io/convoke/cluster-spec.schema.json"

// Schema is a JSON Schema (draft 2020-12) of the cluster spec, for editors. It says all that a schema can say: whatever
// [Parse] accepts it accepts, and rules that go across fields are Parse's alone.
func Schema() []byte {
	w := schemaWriter{definitions: object{}}
	root := w.table(specTable())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = SchemaID
	root["title"] = "Cluster spec"
	root["$defs"] = w.definitions
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		panic("spec: a schema that is no JSON: " + err.Error()) // it is made of maps and strings
	}
	return out.Bytes()
}

type object = map[string]any

// schemaWriter describes each kind of object once and refers to it from wherever it stands.
type schemaWriter struct{ definitions object }

func (w schemaWriter) define(name string, describe func() object) object {
	if w.definitions[name] == nil {
		w.definitions[name] = object{} // it is being made
		w.definitions[name] = describe()
	}
	return object{"$ref": "#/$defs/" + name}
}

// table describes an object, each field in both spellings, of which at most one may be used.
func (w schemaWriter) table(t *table) object {
	properties := object{}
	var all []any
	for i := range t.fields {
		f := &t.fields[i]
		properties[f.name] = w.field(f)
		other := snake(f.name)
		switch {
		case other == f.name && f.required:
			all = append(all, object{"required": []string{f.name}})
		case other == f.name:
		case f.required:
			properties[other] = w.field(f)
			all = append(all, object{"oneOf": []any{object{"required": []string{f.name}}, object{"required": []string{other}}}})
		default:
			properties[other] = w.field(f)
			all = append(all, object{"not": object{"required": []string{f.name, other}}})
		}
	}
	s := object{"description": t.doc, "type": "object", "properties": properties, "additionalProperties": false}
	if len(all) > 0 {
		s["allOf"] = all
	}
	return s
}

func (w schemaWriter) field(f *field) object {
	s := w.plain(f)
	s["description"] = f.doc
	if !f.required {
		s = orNull(s)
	}
	return s
}

func (w schemaWriter) plain(f *field) object {
	switch f.kind {
	case textField:
		return f.textSchema(!f.required)
	case flagField:
		return object{"enum": []any{true, false, "true", "false"}}
	case numberField:
		return object{"type": []any{"integer", "string"}, "minimum": 0, "maximum": f.rule.max, "pattern": numberForm.String()}
	case durationField:
		return object{"type": "string", "pattern": orEmpty(durationForm.String())}
	case textsField:
		s := object{"type": "array", "items": f.textSchema(false), "maxItems": f.most}
		if !f.rule.lines {
			s["uniqueItems"] = true
		}
		return f.filled(s)
	case labelsField:
		return object{
			"type": "object", "maxProperties": f.most, "propertyNames": object{"pattern": labelKey.String()},
			"additionalProperties": object{"type": "string", "pattern": labelForm},
		}
	case configField:
		return w.define(string(f.scope)+"Config", f.configSchema)
	case objectField:
		return w.define(f.table.name, func() object { return w.table(f.table) })
	case objectsField:
		items := w.define(f.table.name, func() object { return w.table(f.table) })
		return f.filled(object{"type": "array", "items": items, "maxItems": f.most})
	case outputField:
	}
	return object{"readOnly": true}
}

func (f *field) filled(list object) object {
	if f.required {
		list["minItems"] = 1
	}
	return list
}

// textSchema describes a text by its rule. The empty text stands for none, where there may be none.
func (f *field) textSchema(empty bool) object {
	s := object{"type": "string"}
	if f.rule.values != nil {
		values := slices.Clone(f.rule.values)
		if f.rule.unset != "" {
			values = append(values, f.rule.unset)
		}
		if empty {
			values = append(values, "")
		}
		return object{"enum": anys(values)}
	}
	if f.rule.pattern != nil {
		pattern := f.rule.pattern.String()
		if empty {
			pattern = orEmpty(pattern)
		}
		s["pattern"] = pattern
	}
	if f.rule.longest > 0 {
		s["maxLength"] = f.rule.longest
	}
	return s
}

// configSchema names the parameters that may be set, for editors to offer; other spellings of them are let through.
func (f *field) configSchema() object {
	properties := object{}
	for _, p := range slurm.Parameters(f.scope) {
		if p.Refused != "" {
			continue
		}
		s := object{"type": "string"}
		if p.Values != nil {
			s["description"] = "Values: " + strings.Join(p.Values, ", ")
		}
		properties[p.Name] = s
	}
	return object{
		"type": "object", "maxProperties": f.most, "properties": properties,
		"propertyNames": object{"pattern": "^[A-Za-z0-9_]+$"}, "additionalProperties": object{"type": "string"},
	}
}

// orNull lets a field be null, which is as good as leaving it out.
func orNull(s object) object {
	switch t := s["type"].(type) {
	case string:
		s["type"] = []any{t, "null"}
	case []any:
		s["type"] = append(t, "null")
	}
	if values, ok := s["enum"].([]any); ok {
		s["enum"] = append(values, nil)
	}
	if s["$ref"] != nil {
		return object{"anyOf": []any{object{"$ref": s["$ref"]}, object{"type": "null"}}, "description": s["description"]}
	}
	return s
}

func orEmpty(pattern string) string { return fmt.Sprintf("^$|%s", pattern) }

func anys(texts []string) []any {
	list := make([]any, len(texts))
	for i, t := range texts {
		list[i] = t
	}
	return list
}
