package spec

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/nearest"
	"github.com/convoke-hpc/convoke/shared/slurm"
)

// place is where something stands in the text and how the text spells its path.
type place struct {
	path   string
	offset int
	// snake says that the object's own keys are in snake_case.
	snake bool
	// bad says that a fault was found there, so that nothing more need be said about it.
	bad bool
}

// reader reads a value by the tables. It collects faults, and places by canonical path (the one in lowerCamelCase), so
// that what is checked later can say where things stand.
type reader struct {
	faults []found
	places map[string]*place
	// snake is the spelling of the first name that shows one.
	snake, spelled bool
}

func newReader() *reader { return &reader{places: map[string]*place{}} }

// object reads an object into what dst points to.
func (r *reader) object(v value, t *table, dst any, path string) {
	here := r.places[path]
	if v.kind != objectValue {
		r.refuse(path, "is "+v.kind.String(), "an object")
		return
	}
	here.snake = r.style(v)
	seen := map[*field]string{}
	for _, m := range v.members {
		f := t.byName[m.key]
		if f == nil {
			if meant := r.unknown(m, t, here); meant != nil && r.places[join(path, meant.name)] == nil {
				// What was meant is not missing as well.
				r.places[join(path, meant.name)] = &place{path: join(here.path, m.key), offset: m.offset, bad: true}
			}
			continue
		}
		at := join(path, f.name)
		if before, twice := seen[f]; twice {
			problem := "is given twice"
			if before != m.key {
				problem = "is given as " + before + " too"
			}
			r.add(found{Fault: Fault{Path: join(here.path, m.key), Problem: problem}, offset: m.offset, beyond: before == m.key})
			continue
		}
		seen[f] = m.key
		if f.kind == outputField || m.value.kind == nullValue {
			continue
		}
		r.places[at] = &place{path: join(here.path, m.key), offset: m.offset, snake: here.snake}
		r.field(m.value, f, dst, at)
	}
	for i := range t.fields {
		if f := &t.fields[i]; f.required && r.places[join(path, f.name)] == nil {
			r.refuse(join(path, f.name), "is missing ("+purpose(f.doc)+")", f.rule.form)
		}
	}
}

// style reports whether an object is written in snake_case. One that does not show it is taken to be as the rest.
func (r *reader) style(v value) bool {
	for _, m := range v.members {
		under, upper := strings.Contains(m.key, "_"), strings.ToLower(m.key) != m.key
		if under != upper {
			if !r.spelled {
				r.snake, r.spelled = under, true
			}
			return under
		}
	}
	return r.snake
}

// unknown refuses a member that the table does not have, and tells which field was probably meant.
func (r *reader) unknown(m member, t *table, here *place) *field {
	f := Fault{Path: join(here.path, shownKey(m.key)), Problem: "is no field of " + article(t.name)}
	spell := camel
	if here.snake {
		spell = snake
	}
	name, near := nearest.Name(m.key, t.names(spell))
	if near {
		f.Problem += ", did you mean " + name + "?"
	} else {
		f.Allowed = strings.Join(slices.Collect(t.names(spell)), ", ")
	}
	r.add(found{Fault: f, offset: m.offset})
	return t.byName[name]
}

func article(name string) string {
	if strings.ContainsRune("AEIO", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}

// field reads a member that is not null into its place in dst.
func (r *reader) field(v value, f *field, dst any, path string) {
	switch f.kind {
	case textField:
		r.textInto(v, f, f.at(dst).(*string), path)
	case flagField:
		r.flag(v, f.at(dst).(*bool), path)
	case numberField:
		r.number(v, f, f.at(dst).(*int), path)
	case durationField:
		r.duration(v, f.at(dst).(*cluster.Duration), path)
	case textsField:
		r.texts(v, f, f.at(dst).(*[]string), path)
	case labelsField, configField:
		r.pairs(v, f, f.at(dst).(*map[string]string), path)
	case objectField:
		f.make(dst)
		r.object(v, f.table, f.at(dst), path)
	case objectsField:
		r.objects(v, f, dst, path)
	case outputField:
	}
}

func (r *reader) objects(v value, f *field, dst any, path string) {
	if !r.list(v, f, path) {
		return
	}
	f.grow(dst, len(v.items))
	for i, item := range v.items {
		r.object(item, f.table, f.element(dst, i), r.item(path, i, item))
	}
}

func (r *reader) textInto(v value, f *field, dst *string, path string) {
	if text, ok := r.text(v, f, path); ok {
		*dst = text
	} else if f.required && v.kind == stringValue && v.text == "" {
		r.refuse(path, "is empty ("+purpose(f.doc)+")", f.rule.form)
	}
}

// text reads a text and holds it against the field's rule. An empty one is as good as none.
func (r *reader) text(v value, f *field, path string) (string, bool) {
	if v.kind != stringValue {
		r.refuse(path, "is "+v.kind.String(), "a string")
		return "", false
	}
	if v.text == "" || f.rule.unset != "" && v.text == f.rule.unset {
		return "", false
	}
	problem, allowed := f.rule.fault(v.text)
	if problem == "" {
		return v.text, true
	}
	beyond := strings.ContainsFunc(v.text, forbidden(f.rule.lines)) || f.rule.biggest > 0 && len(v.text) > f.rule.biggest
	r.refuseAt(path, problem, allowed, beyond)
	return "", false
}

// fault holds a text against the rule: what is wrong with it, and what would be right.
func (u rule) fault(text string) (problem, allowed string) {
	if at := strings.IndexFunc(text, forbidden(u.lines)); at >= 0 {
		bad, _ := utf8.DecodeRuneInString(text[at:])
		if u.lines {
			return fmt.Sprintf("contains the character %q", bad), "text"
		}
		return fmt.Sprintf("contains the control character %q", bad), "one line of text"
	}
	switch {
	case u.values != nil && !slices.Contains(u.values, text):
		return shown(text) + " is not known here", choice(u.values)
	case u.longest > 0 && utf8.RuneCountInString(text) > u.longest:
		return fmt.Sprintf("has %d characters", utf8.RuneCountInString(text)), fmt.Sprintf("at most %d", u.longest)
	case u.biggest > 0 && len(text) > u.biggest:
		return fmt.Sprintf("has %d bytes", len(text)), fmt.Sprintf("at most %d", u.biggest)
	case u.pattern != nil && !u.pattern.MatchString(text):
		return shown(text) + " does not have the right form", u.form
	}
	return "", ""
}

// forbidden are the characters that no text may have: control characters, or in a text of lines only NUL.
func forbidden(lines bool) func(rune) bool {
	if lines {
		return func(c rune) bool { return c == 0 }
	}
	return func(c rune) bool { return c < ' ' || c == 0x7f || c == '\u2028' || c == '\u2029' }
}

func (r *reader) flag(v value, dst *bool, path string) {
	if v.kind != boolValue && v.kind != stringValue || v.text != "true" && v.text != "false" {
		r.refuse(path, "is "+described(v), "true or false")
		return
	}
	*dst = v.text == "true"
}

func (r *reader) number(v value, f *field, dst *int, path string) {
	n, ok := wholeNumber(v)
	allowed := fmt.Sprintf("a whole number from 0 to %d", f.rule.max)
	switch {
	case !ok:
		r.refuseAt(path, "is "+described(v), allowed, v.kind == stringValue && numberForm.MatchString(v.text))
	case n < 0 || n > f.rule.max:
		r.refuseAt(path, fmt.Sprintf("%d is out of range", n), allowed, v.kind == stringValue)
	default:
		*dst = n
	}
}

// wholeNumber reads what protocol buffers take for an int32: 2, "2", 2.0 and 2e0.
func wholeNumber(v value) (int, bool) {
	if v.kind != numberValue && v.kind != stringValue || len(v.text) > 40 || !numberForm.MatchString(v.text) {
		return 0, false
	}
	if n, err := strconv.Atoi(v.text); err == nil {
		return n, true
	}
	x, err := strconv.ParseFloat(v.text, 64)
	if err != nil || x != math.Trunc(x) || math.Abs(x) > math.MaxInt32 {
		return 0, false
	}
	return int(x), true
}

var (
	numberForm   = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	durationForm = regexp.MustCompile(`^([0-9]{1,9})(\.0{1,9})?s$`)
)

func (r *reader) duration(v value, dst *cluster.Duration, path string) {
	if v.kind == stringValue && v.text == "" {
		return
	}
	match := durationForm.FindStringSubmatch(v.text)
	if v.kind != stringValue || match == nil {
		r.refuse(path, "is "+described(v), `whole seconds, such as "604800s"`)
		return
	}
	seconds, err := strconv.Atoi(match[1])
	if err != nil || seconds < leastFlexStart || seconds > mostFlexStart {
		r.refuseAt(path, v.text+" is out of range", fmt.Sprintf(`"%ds" to "%ds"`, leastFlexStart, mostFlexStart), true)
		return
	}
	*dst = cluster.Duration(time.Duration(seconds) * time.Second)
}

// list holds a value against what is said of a list, and reports whether it is one.
func (r *reader) list(v value, f *field, path string) bool {
	switch {
	case v.kind != arrayValue:
		r.refuse(path, "is "+v.kind.String(), "a list")
	case f.required && len(v.items) == 0:
		r.refuse(path, "is empty ("+purpose(f.doc)+")", f.rule.form)
	case len(v.items) > f.most:
		r.refuse(path, fmt.Sprintf("has %d entries", len(v.items)), fmt.Sprintf("at most %d", f.most))
	default:
		return len(v.items) > 0
	}
	return false
}

// item notes the place of a list's entry.
func (r *reader) item(path string, i int, v value) string {
	list := r.places[path]
	index := "[" + strconv.Itoa(i) + "]"
	r.places[path+index] = &place{path: list.path + index, offset: v.offset, snake: list.snake}
	return path + index
}

func (r *reader) texts(v value, f *field, dst *[]string, path string) {
	if !r.list(v, f, path) {
		return
	}
	texts := make([]string, 0, len(v.items))
	for i, item := range v.items {
		at := r.item(path, i, item)
		text, ok := r.text(item, f, at)
		if !ok {
			r.refuse(at, "is empty", f.rule.form) // unless something is said of it already
			continue
		}
		if slices.Contains(texts, text) && !f.rule.lines {
			r.refuse(at, shown(text)+" is there twice", "each one once")
			continue
		}
		texts = append(texts, text)
	}
	if len(texts) == len(v.items) { // else nothing more could be said of an entry by its index
		*dst = texts
	}
}

// pairs reads a map. Labels stay as they are; parameters of slurm.conf get the names that SchedMD gives them.
func (r *reader) pairs(v value, f *field, dst *map[string]string, path string) {
	switch {
	case v.kind != objectValue:
		r.refuse(path, "is "+v.kind.String(), "an object")
		return
	case len(v.members) > f.most:
		r.refuse(path, fmt.Sprintf("has %d entries", len(v.members)), fmt.Sprintf("at most %d", f.most))
		return
	case len(v.members) == 0:
		return
	}
	pairs := make(map[string]string, len(v.members))
	spelled := make(map[string]string, len(v.members))
	for _, m := range v.members {
		at := join(path, shownKey(m.key))
		r.places[at] = &place{path: join(r.places[path].path, shownKey(m.key)), offset: m.offset}
		if m.value.kind != stringValue {
			r.refuse(at, "is "+described(m.value), "a string")
			continue
		}
		key, ok := r.pair(m, f, at)
		if before, twice := spelled[key]; ok && twice {
			problem := "is given twice"
			if before != m.key {
				problem = "is given as " + before + " too"
			}
			r.add(found{Fault: Fault{Path: r.places[at].path, Problem: problem}, offset: m.offset, beyond: true})
			continue
		}
		pairs[key], spelled[key] = m.value.text, m.key
	}
	*dst = pairs
}

// pair checks one entry of a map and gives the key that it is kept under.
func (r *reader) pair(m member, f *field, path string) (string, bool) {
	if f.kind == labelsField {
		problem, allowed := labelFault(m.key, m.value.text)
		if problem != "" {
			r.refuse(path, problem, allowed)
		}
		return m.key, problem == ""
	}
	p, refusal := slurm.CheckParameter(f.scope, m.key, m.value.text)
	if refusal != nil {
		r.refuseAt(path, refusal.Problem, refusal.Allowed, true)
	}
	return p.Name, refusal == nil
}

const labelForm = `^[a-z0-9_-]{0,64}$`

var (
	labelKey   = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
	labelValue = regexp.MustCompile(labelForm)
)

func labelFault(key, value string) (problem, allowed string) {
	switch {
	case !labelKey.MatchString(key):
		return "the key " + shown(key) + " is not one of a label", "1 to 64 lowercase letters, digits, underscores and hyphens, beginning with a letter"
	case !labelValue.MatchString(value):
		return shown(value) + " is not the value of a label", "at most 64 lowercase letters, digits, underscores and hyphens"
	}
	return "", ""
}

// refuse adds a fault that a JSON Schema would have seen, refuseAt one of either sort. The path is the canonical one and
// may lead to what is not there. Of each place only the first fault is told.
func (r *reader) refuse(path, problem, allowed string) { r.refuseAt(path, problem, allowed, false) }

func (r *reader) refuseAt(path, problem, allowed string, beyond bool) {
	at := r.locate(path)
	if at.bad {
		return
	}
	r.add(found{Fault: Fault{Path: at.path, Problem: problem, Allowed: allowed}, offset: at.offset, beyond: beyond})
	at.bad = true
	r.places[path] = at
}

func (r *reader) add(f found) { r.faults = append(r.faults, f) }

// locate is the place of a path, or of what would be there: it stands where the object does that lacks it.
func (r *reader) locate(path string) *place {
	if at := r.places[path]; at != nil {
		return at
	}
	parent, name := split(path)
	outer := r.locate(parent)
	if outer.snake {
		name = snake(name)
	}
	return &place{path: join(outer.path, name), offset: outer.offset, snake: outer.snake, bad: outer.bad && parent != ""}
}

// ok reports whether something is there and nothing was found wrong with it.
func (r *reader) ok(path string) bool {
	at := r.places[path]
	return at != nil && !at.bad
}

func join(path, name string) string {
	switch {
	case path == "":
		return name
	case strings.HasPrefix(name, "["):
		return path + name
	}
	return path + "." + name
}

// split is the reverse of join.
func split(path string) (parent, name string) {
	if at := strings.LastIndexAny(path, ".["); at > 0 {
		return path[:at], strings.TrimPrefix(path[at:], ".")
	}
	return "", path
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,100}$`)

// shownKey is a key of a map as part of a path.
func shownKey(key string) string {
	if plainName.MatchString(key) {
		return key
	}
	return "[" + shown(key) + "]"
}

// shown quotes a text that came from outside; a long one is cut.
func shown(s string) string {
	const keep = 60
	if utf8.RuneCountInString(s) > keep {
		return strconv.Quote(string([]rune(s)[:keep])) + "…"
	}
	return strconv.Quote(s)
}

func described(v value) string {
	switch v.kind {
	case stringValue:
		return shown(v.text)
	case numberValue:
		return strings.Trim(shown(v.text), `"`)
	case boolValue:
		return v.text
	}
	return v.kind.String()
}

func choice(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	return "one of " + strings.Join(values, ", ")
}

// purpose is the first sentence of a field's description.
func purpose(doc string) string {
	first, _, _ := strings.Cut(doc, ". ")
	return strings.TrimSuffix(first, ".")
}
