package spec

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// Render writes a spec as the API does: lowerCamelCase names, empty fields left out. What [Parse] gave comes back from
// it as it was, and equal specs give equal bytes.
func Render(s *cluster.Spec) []byte {
	w := &writer{}
	w.object(specTable(), s)
	w.out.WriteByte('\n')
	return w.out.Bytes()
}

// writer writes indented JSON in the order of the tables.
type writer struct {
	out    bytes.Buffer
	indent int
}

func (w *writer) object(t *table, object any) {
	w.open('{')
	first := true
	for i := range t.fields {
		f := &t.fields[i]
		if !f.holds(object) {
			continue
		}
		w.next(&first)
		w.text(f.name)
		w.out.WriteString(": ")
		w.field(f, object)
	}
	w.close('}', first)
}

// holds reports whether an object has something to write in a field.
func (f *field) holds(object any) bool {
	switch f.kind {
	case textField:
		return *f.at(object).(*string) != ""
	case flagField:
		return *f.at(object).(*bool)
	case numberField:
		return f.written || *f.at(object).(*int) != 0
	case durationField:
		return *f.at(object).(*cluster.Duration) != 0
	case textsField:
		return len(*f.at(object).(*[]string)) > 0
	case labelsField, configField:
		return len(*f.at(object).(*map[string]string)) > 0
	case objectField:
		return f.isSet(object)
	case objectsField:
		return f.length(object) > 0
	case outputField:
	}
	return false
}

func (w *writer) field(f *field, object any) {
	switch f.kind {
	case textField:
		w.text(*f.at(object).(*string))
	case flagField:
		w.out.WriteString(strconv.FormatBool(*f.at(object).(*bool)))
	case numberField:
		w.out.WriteString(strconv.Itoa(*f.at(object).(*int)))
	case durationField:
		w.text(f.at(object).(*cluster.Duration).String())
	case textsField:
		w.list(*f.at(object).(*[]string))
	case labelsField, configField:
		w.pairs(*f.at(object).(*map[string]string))
	case objectField:
		w.object(f.table, f.at(object))
	case objectsField:
		w.open('[')
		first := true
		for i := range f.length(object) {
			w.next(&first)
			w.object(f.table, f.element(object, i))
		}
		w.close(']', first)
	case outputField:
	}
}

func (w *writer) list(texts []string) {
	w.open('[')
	first := true
	for _, text := range texts {
		w.next(&first)
		w.text(text)
	}
	w.close(']', first)
}

func (w *writer) pairs(pairs map[string]string) {
	w.open('{')
	first := true
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		w.next(&first)
		w.text(key)
		w.out.WriteString(": ")
		w.text(pairs[key])
	}
	w.close('}', first)
}

func (w *writer) open(bracket byte) {
	w.out.WriteByte(bracket)
	w.indent++
}

func (w *writer) close(bracket byte, empty bool) {
	w.indent--
	if !empty {
		w.line()
	}
	w.out.WriteByte(bracket)
}

// next goes to the line of the next member or entry.
func (w *writer) next(first *bool) {
	if !*first {
		w.out.WriteByte(',')
	}
	*first = false
	w.line()
}

func (w *writer) line() {
	w.out.WriteByte('\n')
	for range w.indent {
		w.out.WriteString("  ")
	}
}

// text writes a JSON string, with <, > and & as they are: scripts are read by people.
func (w *writer) text(s string) {
	e := json.NewEncoder(&w.out)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic("spec: a string that is no JSON: " + err.Error()) // there is none
	}
	w.out.Truncate(w.out.Len() - 1) // the line break that Encode adds
}
