package pubsub

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxFilterBytes is the longest filter that Pub/Sub accepts.
const maxFilterBytes = 256

// maxFilterDepth bounds the nesting of a filter, and so the recursion of its parser.
const maxFilterDepth = 64

// A filter decides from a message's attributes whether a subscription wants it.
type filter interface {
	match(attributes map[string]string) bool
}

type (
	everything struct{}                    // the empty filter
	hasKey     struct{ key string }        // attributes:key
	equals     struct{ key, value string } // attributes.key = "value"
	hasPrefix  struct{ key, value string } // hasPrefix(attributes.key, "value")
	negation   struct{ of filter }         // NOT f, -f, attributes.key != "value"
	allOf      []filter                    // f AND g AND …
	anyOf      []filter                    // f OR g OR …
)

func (everything) match(map[string]string) bool { return true }

func (f hasKey) match(attributes map[string]string) bool {
	_, ok := attributes[f.key]
	return ok
}

func (f equals) match(attributes map[string]string) bool {
	value, ok := attributes[f.key]
	return ok && value == f.value
}

func (f hasPrefix) match(attributes map[string]string) bool {
	value, ok := attributes[f.key]
	return ok && strings.HasPrefix(value, f.value)
}

func (f negation) match(attributes map[string]string) bool { return !f.of.match(attributes) }

func (f allOf) match(attributes map[string]string) bool {
	for _, part := range f {
		if !part.match(attributes) {
			return false
		}
	}
	return true
}

func (f anyOf) match(attributes map[string]string) bool {
	for _, part := range f {
		if part.match(attributes) {
			return true
		}
	}
	return false
}

// parseFilter reads an expression of Pub/Sub's filter language:
//
//	expression = term { "AND" term } | term { "OR" term }
//	term       = [ "NOT" | "-" ] ( "(" expression ")" | comparison )
//	comparison = "attributes" ":" key
//	           | "attributes" "." key ( "=" | "!=" ) string
//	           | "hasPrefix" "(" "attributes" "." key "," string ")"
//	key        = string | name of letters, digits, "_" and "-"
//
// Operators are upper case. AND and OR do not mix without parentheses: neither binds tighter. A comparison with !=
// also matches messages without the key.
func parseFilter(text string) (filter, error) {
	if len(text) > maxFilterBytes {
		return nil, fmt.Errorf("filter has %d bytes, at most %d are allowed", len(text), maxFilterBytes)
	}
	if strings.TrimSpace(text) == "" {
		return everything{}, nil
	}
	tokens, err := lexFilter(text)
	if err != nil {
		return nil, fmt.Errorf("filter %q: %w", text, err)
	}
	p := filterParser{tokens: tokens}
	f, err := p.expression()
	if err == nil && p.peek().kind != endToken {
		err = p.unexpected("AND, OR or the end")
	}
	if err != nil {
		return nil, fmt.Errorf("filter %q: %w", text, err)
	}
	return f, nil
}

type tokenKind int

const (
	endToken    tokenKind = iota
	nameToken             // attributes, AND, a bare key
	stringToken           // "…", text unescaped
	symbolToken           // ( ) , . : = != -
)

type filterToken struct {
	kind tokenKind
	text string
	at   int // byte offset, for messages
}

func (t filterToken) String() string {
	switch t.kind {
	case endToken:
		return "the end"
	case stringToken:
		return fmt.Sprintf("string %q at byte %d", t.text, t.at+1)
	default:
		return fmt.Sprintf("%q at byte %d", t.text, t.at+1)
	}
}

func lexFilter(text string) ([]filterToken, error) {
	var tokens []filterToken
	for i := 0; i < len(text); {
		rest := text[i:]
		token := filterToken{kind: symbolToken, at: i}
		length := 1
		switch c := text[i]; {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			i++
			continue
		case strings.IndexByte("(),.:=-", c) >= 0:
			token.text = rest[:1]
		case strings.HasPrefix(rest, "!="):
			token.text, length = "!=", 2
		case c == '"':
			quoted, value, err := lexString(rest)
			if err != nil {
				return nil, fmt.Errorf("string at byte %d: %w", i+1, err)
			}
			token.kind, token.text, length = stringToken, value, len(quoted)
		case isNameByte(c):
			for length < len(rest) && (isNameByte(rest[length]) || rest[length] == '-') {
				length++
			}
			token.kind, token.text = nameToken, rest[:length]
		default:
			r, _ := utf8.DecodeRuneInString(rest)
			return nil, fmt.Errorf("unexpected %q at byte %d; keys with such characters must be quoted", r, i+1)
		}
		tokens = append(tokens, token)
		i += length
	}
	return append(tokens, filterToken{kind: endToken, at: len(text)}), nil
}

// lexString reads the string literal that text begins with. The escapes are those of Go and C: \" \\ \n, octal,
// hexadecimal and Unicode.
func lexString(text string) (quoted, value string, err error) {
	quoted, err = strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", fmt.Errorf("not closed, or with an unknown escape")
	}
	value, err = strconv.Unquote(quoted)
	if err != nil {
		return "", "", fmt.Errorf("unquoting, %w", err)
	}
	if !utf8.ValidString(value) {
		return "", "", fmt.Errorf("not valid UTF-8")
	}
	return quoted, value, nil
}

func isNameByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

type filterParser struct {
	tokens []filterToken
	next   int
	depth  int
}

func (p *filterParser) peek() filterToken { return p.tokens[p.next] }

func (p *filterParser) take() filterToken {
	token := p.tokens[p.next]
	if token.kind != endToken {
		p.next++
	}
	return token
}

// accept takes the next token if it is this symbol or name.
func (p *filterParser) accept(kind tokenKind, text string) bool {
	if token := p.peek(); token.kind != kind || token.text != text {
		return false
	}
	p.next++
	return true
}

func (p *filterParser) expect(symbol string) error {
	if !p.accept(symbolToken, symbol) {
		return p.unexpected(strconv.Quote(symbol))
	}
	return nil
}

func (p *filterParser) unexpected(wanted string) error {
	return fmt.Errorf("found %v, wanted %s", p.peek(), wanted)
}

func (p *filterParser) expression() (filter, error) {
	if p.depth++; p.depth > maxFilterDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxFilterDepth)
	}
	defer func() { p.depth-- }()

	first, err := p.term()
	if err != nil {
		return nil, err
	}
	terms, operator := []filter{first}, ""
	for {
		token := p.peek()
		if token.kind != nameToken || token.text != "AND" && token.text != "OR" {
			break
		}
		if operator != "" && token.text != operator {
			return nil, fmt.Errorf("AND and OR mixed at byte %d; parentheses must say which comes first", token.at+1)
		}
		operator = p.take().text
		next, err := p.term()
		if err != nil {
			return nil, err
		}
		terms = append(terms, next)
	}
	switch operator {
	case "AND":
		return allOf(terms), nil
	case "OR":
		return anyOf(terms), nil
	default:
		return first, nil
	}
}

func (p *filterParser) term() (filter, error) {
	switch {
	case p.accept(nameToken, "NOT"), p.accept(symbolToken, "-"):
		if p.depth++; p.depth > maxFilterDepth {
			return nil, fmt.Errorf("nested more than %d deep", maxFilterDepth)
		}
		defer func() { p.depth-- }()
		of, err := p.term()
		return negation{of}, err
	case p.accept(symbolToken, "("):
		inner, err := p.expression()
		if err != nil {
			return nil, err
		}
		return inner, p.expect(")")
	case p.accept(nameToken, "attributes"):
		return p.comparison()
	case p.accept(nameToken, "hasPrefix"):
		return p.prefix()
	default:
		return nil, p.unexpected("attributes, hasPrefix, NOT or \"(\"")
	}
}

// comparison reads what follows the word attributes.
func (p *filterParser) comparison() (filter, error) {
	if p.accept(symbolToken, ":") {
		key, err := p.key()
		return hasKey{key}, err
	}
	if err := p.expect("."); err != nil {
		return nil, err
	}
	key, err := p.key()
	if err != nil {
		return nil, err
	}
	unequal := p.accept(symbolToken, "!=")
	if !unequal && !p.accept(symbolToken, "=") {
		return nil, p.unexpected(`"=" or "!="`)
	}
	value, err := p.value()
	if err != nil {
		return nil, err
	}
	if unequal {
		return negation{equals{key, value}}, nil
	}
	return equals{key, value}, nil
}

// prefix reads what follows the word hasPrefix.
func (p *filterParser) prefix() (filter, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	if !p.accept(nameToken, "attributes") {
		return nil, p.unexpected("attributes")
	}
	if err := p.expect("."); err != nil {
		return nil, err
	}
	key, err := p.key()
	if err != nil {
		return nil, err
	}
	if err := p.expect(","); err != nil {
		return nil, err
	}
	value, err := p.value()
	if err != nil {
		return nil, err
	}
	return hasPrefix{key, value}, p.expect(")")
}

func (p *filterParser) key() (string, error) {
	if token := p.peek(); token.kind != nameToken && token.kind != stringToken || token.text == "" {
		return "", p.unexpected("an attribute's key")
	}
	return p.take().text, nil
}

func (p *filterParser) value() (string, error) {
	if p.peek().kind != stringToken {
		return "", p.unexpected("a string in double quotes")
	}
	return p.take().text, nil
}
