package gcp

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A filter decides whether a list request wants a resource.
type filter func(proto.Message) (bool, error)

// parseFilter reads Compute Engine's filter expressions: comparisons
// `field OP value` with = != > >= < <= : eq ne, combined with AND, OR and NOT,
// grouped by parentheses. Comparisons without a word between them are combined
// with AND. Fields are written as in JSON: `labels.owner`,
// `scheduling.automaticRestart`.
func parseFilter(text string) (filter, error) {
	p := &filterParser{rest: text}
	f, err := p.or(0)
	if err != nil {
		return nil, err
	}
	if tok := p.peek(); tok != "" {
		return nil, fmt.Errorf("unexpected %s", tok)
	}
	return f, nil
}

type filterParser struct{ rest string }

var filterToken = regexp.MustCompile(`^\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\(|\)|!=|>=|<=|=|<|>|:|[^\s()=!<>:"']+)`)

const maxFilterDepth = 50

func (p *filterParser) peek() string {
	m := filterToken.FindStringSubmatch(p.rest)
	if m == nil {
		return strings.TrimSpace(p.rest)
	}
	return m[1]
}

func (p *filterParser) next() string {
	m := filterToken.FindStringSubmatchIndex(p.rest)
	if m == nil {
		rest := p.rest
		p.rest = ""
		return strings.TrimSpace(rest)
	}
	tok := p.rest[m[2]:m[3]]
	p.rest = p.rest[m[1]:]
	return tok
}

func (p *filterParser) or(depth int) (filter, error) {
	left, err := p.and(depth)
	if err != nil {
		return nil, err
	}
	for p.peek() == "OR" {
		p.next()
		right, err := p.and(depth)
		if err != nil {
			return nil, err
		}
		first := left
		left = func(m proto.Message) (bool, error) {
			ok, err := first(m)
			if ok || err != nil {
				return ok, err
			}
			return right(m)
		}
	}
	return left, nil
}

func (p *filterParser) and(depth int) (filter, error) {
	left, err := p.term(depth)
	if err != nil {
		return nil, err
	}
	for {
		switch p.peek() {
		case "", ")", "OR":
			return left, nil
		case "AND":
			p.next()
		}
		right, err := p.term(depth)
		if err != nil {
			return nil, err
		}
		first := left
		left = func(m proto.Message) (bool, error) {
			ok, err := first(m)
			if !ok || err != nil {
				return false, err
			}
			return right(m)
		}
	}
}

func (p *filterParser) term(depth int) (filter, error) {
	if depth > maxFilterDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxFilterDepth)
	}
	switch p.peek() {
	case "NOT":
		p.next()
		inner, err := p.term(depth + 1)
		if err != nil {
			return nil, err
		}
		return func(m proto.Message) (bool, error) {
			ok, err := inner(m)
			return !ok && err == nil, err
		}, nil
	case "(":
		p.next()
		inner, err := p.or(depth + 1)
		if err != nil {
			return nil, err
		}
		if tok := p.next(); tok != ")" {
			return nil, fmt.Errorf("a parenthesis is not closed (found %q)", tok)
		}
		return inner, nil
	}
	return p.comparison()
}

var fieldPattern = regexp.MustCompile(`^[A-Za-z_][\w-]*(\.[\w-]+)*$`)

func (p *filterParser) comparison() (filter, error) {
	field := unquote(p.next())
	if !fieldPattern.MatchString(field) {
		return nil, fmt.Errorf("%q is not a field", field)
	}
	op := p.next()
	raw := p.next()
	if raw == "" || raw == ")" || raw == "(" {
		return nil, fmt.Errorf("%s %s has no value", field, op)
	}
	matches, err := comparator(op, unquote(raw))
	if err != nil {
		return nil, err
	}
	path := strings.Split(field, ".")
	return func(m proto.Message) (bool, error) {
		value, present, err := fieldValue(m.ProtoReflect(), path)
		if err != nil {
			return false, err
		}
		return matches(value, present), nil
	}, nil
}

func unquote(tok string) string {
	if len(tok) < 2 || (tok[0] != '"' && tok[0] != '\'') {
		return tok
	}
	var b strings.Builder
	inner := tok[1 : len(tok)-1]
	for i := 0; i < len(inner); i++ {
		if inner[i] == '\\' && i+1 < len(inner) {
			i++
		}
		b.WriteByte(inner[i])
	}
	return b.String()
}

// comparator returns what a field's value, and whether it is present, must
// satisfy.
func comparator(op, want string) (func(string, bool) bool, error) {
	switch op {
	case "=":
		return func(got string, _ bool) bool { return got == want }, nil
	case "!=":
		return func(got string, _ bool) bool { return got != want }, nil
	case ":":
		if want == "*" {
			return func(_ string, present bool) bool { return present }, nil
		}
		return func(got string, present bool) bool { return present && strings.Contains(got, want) }, nil
	case "eq", "ne":
		re, err := regexp.Compile(`^(?:` + want + `)$`)
		if err != nil {
			return nil, fmt.Errorf("%q is not a regular expression", want)
		}
		return func(got string, _ bool) bool { return re.MatchString(got) == (op == "eq") }, nil
	case ">", ">=", "<", "<=":
		return func(got string, present bool) bool { return present && ordered(op, compare(got, want)) }, nil
	}
	return nil, fmt.Errorf("%q is not an operator", op)
}

// compare orders numbers as numbers and everything else, such as times, as
// text.
func compare(a, b string) int {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX != nil || errY != nil {
		return strings.Compare(a, b)
	}
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func ordered(op string, c int) bool {
	switch op {
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	case "<":
		return c < 0
	}
	return c <= 0
}

// fieldValue follows a path of JSON names through a message.
func fieldValue(m protoreflect.Message, path []string) (value string, present bool, err error) {
	if len(path) == 0 {
		return "", true, nil
	}
	fd := m.Descriptor().Fields().ByJSONName(path[0])
	if fd == nil {
		return "", false, fmt.Errorf("there is no field %q in %s", path[0], m.Descriptor().Name())
	}
	switch {
	case fd.IsMap():
		if len(path) == 1 {
			return "", m.Has(fd), nil
		}
		v := m.Get(fd).Map().Get(protoreflect.ValueOfString(strings.Join(path[1:], ".")).MapKey())
		if !v.IsValid() {
			return "", false, nil
		}
		return v.String(), true, nil
	case fd.IsList():
		return "", m.Has(fd), nil
	case fd.Message() != nil:
		if len(path) == 1 {
			return "", m.Has(fd), nil
		}
		return fieldValue(m.Get(fd).Message(), path[1:])
	case len(path) > 1:
		return "", false, fmt.Errorf("%s has no fields", path[0])
	case fd.Enum() != nil:
		name := fd.Enum().Values().ByNumber(m.Get(fd).Enum())
		if name == nil || !m.Has(fd) {
			return "", false, nil
		}
		return string(name.Name()), true, nil
	}
	return m.Get(fd).String(), m.Has(fd), nil
}
