package spec

import (
	"regexp"
	"strings"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/slurm"
)

// The cluster spec is described once, by tables of fields (table.go). Reading, the names that are suggested for unknown
// ones, the JSON Schema and writing all follow these tables, so that none of them can know a field that another does not.

// kind is what a field holds.
type kind int

const (
	textField     kind = iota // *string
	flagField                 // *bool
	numberField               // *int
	durationField             // *cluster.Duration
	textsField                // *[]string
	labelsField               // *map[string]string
	configField               // *map[string]string: slurm.conf parameters of a scope
	objectField               // another table
	objectsField              // a list of another table
	outputField               // set by the service: read over
)

// table describes an object.
type table struct {
	name   string // of the object's type
	doc    string
	fields []field
	// byName finds fields by either spelling.
	byName map[string]*field
}

// field describes one member of an object.
type field struct {
	// name is the JSON name in lowerCamelCase; the snake_case one follows from it.
	name     string
	doc      string
	kind     kind
	required bool
	rule     rule
	// most bounds the entries of a list or map.
	most int
	// written says that a zero is written too, since a reader would miss it.
	written bool
	scope   slurm.Scope // of a configField
	table   *table      // of an objectField or objectsField

	// at is a pointer to the Go field within the object that is given: to a struct for an objectField.
	at func(object any) any
	// make gives an objectField its object; isSet reports whether it has one.
	make  func(object any)
	isSet func(object any) bool
	// length, element and grow are for an objectsField.
	length  func(object any) int
	element func(object any, i int) any
	grow    func(object any, n int)
}

// rule is what a JSON Schema can say of a text or number, and of each entry of a list of texts.
type rule struct {
	// pattern and form: the text matches pattern, which is described as form.
	pattern *regexp.Regexp
	form    string
	// values are the legal texts; unset is the one that means that there is none, as protocol buffers have it.
	values []string
	unset  string
	// longest is the most characters of a text, biggest the most bytes (which a schema cannot say).
	longest int
	biggest int
	// lines says that the text may have several lines; without it control characters are refused.
	lines bool
	// max bounds a number. None may be negative.
	max int
}

func oneOf(values ...string) rule { return rule{values: values} }

func matching(form, pattern string) rule {
	return rule{form: form, pattern: regexp.MustCompile(pattern)}
}

func upTo(most int) rule { return rule{max: most} }

func (f field) must() field { f.required = true; return f }

func (f field) shown() field { f.written = true; return f }

func (f field) atMost(n int) field { f.most = n; return f }

func (f field) unlessText(unset string) field { f.rule.unset = unset; return f }

func textOf[T any](name, doc string, r rule, at func(*T) *string) field {
	return field{name: name, doc: doc, kind: textField, rule: r, at: erased(at)}
}

func flagOf[T any](name, doc string, at func(*T) *bool) field {
	return field{name: name, doc: doc, kind: flagField, at: erased(at)}
}

func numberOf[T any](name, doc string, r rule, at func(*T) *int) field {
	return field{name: name, doc: doc, kind: numberField, rule: r, at: erased(at)}
}

func durationOf[T any](name, doc string, at func(*T) *cluster.Duration) field {
	return field{name: name, doc: doc, kind: durationField, at: erased(at)}
}

func textsOf[T any](name, doc string, r rule, at func(*T) *[]string) field {
	return field{name: name, doc: doc, kind: textsField, rule: r, at: erased(at)}
}

func labelsOf[T any](name, doc string, at func(*T) *map[string]string) field {
	return field{name: name, doc: doc, kind: labelsField, at: erased(at)}
}

func configOf[T any](name, doc string, scope slurm.Scope, at func(*T) *map[string]string) field {
	return field{name: name, doc: doc, kind: configField, scope: scope, at: erased(at)}
}

// objectOf is an object that is part of its parent; it is written when it is not empty.
func objectOf[T any, U comparable](name string, t *table, at func(*T) *U) field {
	return field{
		name: name, doc: t.doc, kind: objectField, table: t, at: erased(at),
		make:  func(any) {},
		isSet: func(object any) bool { var empty U; return *at(object.(*T)) != empty },
	}
}

// partOf is an object that is part of its parent and always written.
func partOf[T, U any](name string, t *table, at func(*T) *U) field {
	return field{
		name: name, doc: t.doc, kind: objectField, table: t, at: erased(at),
		make: func(any) {}, isSet: func(any) bool { return true },
	}
}

// optionOf is an object that its parent may have or not.
func optionOf[T, U any](name string, t *table, at func(*T) **U) field {
	return field{
		name: name, doc: t.doc, kind: objectField, table: t,
		at:    func(object any) any { return *at(object.(*T)) },
		make:  func(object any) { *at(object.(*T)) = new(U) },
		isSet: func(object any) bool { return *at(object.(*T)) != nil },
	}
}

func objectsOf[T, U any](name string, t *table, at func(*T) *[]U) field {
	return field{
		name: name, doc: t.doc, kind: objectsField, table: t,
		length:  func(object any) int { return len(*at(object.(*T))) },
		element: func(object any, i int) any { return &(*at(object.(*T)))[i] },
		grow:    func(object any, n int) { *at(object.(*T)) = make([]U, n) },
	}
}

func output(name, doc string) field {
	return field{name: name, doc: "Output only: " + doc, kind: outputField}
}

func erased[T, U any](at func(*T) *U) func(any) any {
	return func(object any) any { return at(object.(*T)) }
}

// indexed makes a table, and the tables within it, ready for use.
func (t *table) indexed() *table {
	t.byName = make(map[string]*field, 2*len(t.fields))
	for i := range t.fields {
		f := &t.fields[i]
		t.byName[f.name], t.byName[snake(f.name)] = f, f
		if f.table != nil {
			f.table.indexed()
		}
	}
	return t
}

// names are the field names in one spelling.
func (t *table) names(spell func(string) string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, f := range t.fields {
			if f.kind != outputField && !yield(spell(f.name)) {
				return
			}
		}
	}
}

// snake is the snake_case form of a lowerCamelCase name.
func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if 'A' <= r && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func camel(name string) string { return name }
