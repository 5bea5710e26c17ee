package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// valueKind is what a JSON value is.
type valueKind int

const (
	nullValue valueKind = iota
	boolValue
	numberValue
	stringValue
	arrayValue
	objectValue
)

func (k valueKind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "a list", "an object"}[k]
}

// value is a JSON value that knows where it stands. Unlike what package encoding/json makes of a text, it keeps the order
// of an object's members and shows a key that is there twice.
type value struct {
	kind   valueKind
	offset int // of its first byte
	// text is the string, or the literal of a number or boolean as written.
	text    string
	members []member
	items   []value
}

type member struct {
	key    string
	offset int // of the key
	value  value
}

// maxDepth is deeper than any spec goes.
const maxDepth = 20

// readJSON reads a text into a value. What is wrong with its syntax is one fault, since all that follows it is a guess.
func readJSON(t *text) (value, *found) {
	if at := invalidUTF8(t.data); at >= 0 {
		return value{}, &found{Fault: Fault{Problem: "the text is not UTF-8"}, offset: at}
	}
	var raw json.RawMessage
	if err := json.Unmarshal(t.data, &raw); err != nil {
		return value{}, syntaxFault(t, err)
	}
	r := jsonReader{data: t.data, decoder: json.NewDecoder(bytes.NewReader(t.data))}
	r.decoder.UseNumber()
	v, err := r.value(0)
	if err != nil {
		return value{}, &found{Fault: Fault{Problem: err.Error()}, offset: r.at}
	}
	return v, nil
}

func syntaxFault(t *text, err error) *found {
	f := &found{Fault: Fault{Problem: "the text is not JSON: " + err.Error()}}
	if len(bytes.TrimSpace(t.data)) == 0 {
		f.Problem, f.Allowed = "the text is empty", "a JSON object"
		return f
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		// The offset is behind the offending byte, and the end of the text when more should have come.
		f.offset = max(0, min(int(syntax.Offset)-1, len(t.data)))
		if strings.Contains(err.Error(), "unexpected end") {
			f.Problem, f.offset = "the text is not JSON: it ends too early", len(t.data)
		}
	}
	return f
}

func invalidUTF8(data []byte) int {
	for at := 0; at < len(data); {
		if data[at] < utf8.RuneSelf {
			at++
			continue
		}
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

// jsonReader reads a text that is known to be JSON.
type jsonReader struct {
	data    []byte
	decoder *json.Decoder
	at      int // where the newest token begins
}

func (r *jsonReader) token() (json.Token, error) {
	at := int(r.decoder.InputOffset())
	for at < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[at]) >= 0 {
		at++
	}
	r.at = at
	return r.decoder.Token()
}

func (r *jsonReader) value(depth int) (value, error) {
	t, err := r.token()
	if err != nil {
		return value{}, fmt.Errorf("the text is not JSON: %w", err)
	}
	v := value{offset: r.at}
	if depth > maxDepth {
		return value{}, fmt.Errorf("the text is nested more than %d deep", maxDepth)
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return r.array(v, depth)
		}
		return r.object(v, depth)
	case string:
		v.kind, v.text = stringValue, t
	case json.Number:
		v.kind, v.text = numberValue, t.String()
	case bool:
		v.kind, v.text = boolValue, strconv.FormatBool(t)
	case nil:
		v.kind = nullValue
	}
	return v, nil
}

func (r *jsonReader) array(v value, depth int) (value, error) {
	v.kind = arrayValue
	for r.decoder.More() {
		item, err := r.value(depth + 1)
		if err != nil {
			return value{}, err
		}
		v.items = append(v.items, item)
	}
	_, err := r.token()
	return v, err
}

func (r *jsonReader) object(v value, depth int) (value, error) {
	v.kind = objectValue
	for r.decoder.More() {
		key, err := r.token()
		if err != nil {
			return value{}, err
		}
		m := member{offset: r.at}
		m.key, _ = key.(string)
		if m.value, err = r.value(depth + 1); err != nil {
			return value{}, err
		}
		v.members = append(v.members, m)
	}
	_, err := r.token()
	return v, err
}

// text is what is read, and finds lines and columns in it.
type text struct {
	data  []byte
	lines []int // offsets at which lines begin
}

func newText(data []byte) *text {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // a byte order mark, as some editors write it
	t := &text{data: data, lines: []int{0}}
	for at, b := range data {
		if b == '\n' {
			t.lines = append(t.lines, at+1)
		}
	}
	return t
}

func (t *text) position(offset int) (line, column int) {
	low, high := 0, len(t.lines)
	for high-low > 1 {
		if mid := (low + high) / 2; t.lines[mid] <= offset {
			low = mid
		} else {
			high = mid
		}
	}
	return low + 1, utf8.RuneCount(t.data[t.lines[low]:min(offset, len(t.data))]) + 1
}
