package gcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A fieldMask is the parts of an answer that a request's `fields` parameter
// asks for: "items(id,networkInterfaces/networkIP),nextPageToken". An empty
// one is everything.
type fieldMask map[string]fieldMask

func parseFieldMask(text string) (fieldMask, error) {
	p := &maskParser{rest: text}
	m, err := p.list(0)
	if err == nil && p.rest != "" {
		err = fmt.Errorf("unexpected %q", p.rest)
	}
	if err != nil {
		return nil, invalidField("fields", text, "Invalid field selection: "+err.Error()+".")
	}
	return m, nil
}

type maskParser struct{ rest string }

func (p *maskParser) list(depth int) (fieldMask, error) {
	if depth > maxFilterDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxFilterDepth)
	}
	out := fieldMask{}
	for {
		if err := p.path(out, depth); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(p.rest, ",") {
			return out, nil
		}
		p.rest = p.rest[1:]
	}
}

// path reads "a/b/c" or "a/b(c,d)" into the mask.
func (p *maskParser) path(into fieldMask, depth int) error {
	end := strings.IndexAny(p.rest, ",()")
	if end < 0 {
		end = len(p.rest)
	}
	at := into
	for _, name := range strings.Split(p.rest[:end], "/") {
		if name = strings.TrimSpace(name); name == "" {
			return fmt.Errorf("a name is missing before %q", p.rest[end:])
		}
		if at[name] == nil {
			at[name] = fieldMask{}
		}
		at = at[name]
	}
	p.rest = p.rest[end:]
	if !strings.HasPrefix(p.rest, "(") {
		return nil
	}
	p.rest = p.rest[1:]
	inner, err := p.list(depth + 1)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(p.rest, ")") {
		return fmt.Errorf("a parenthesis is not closed")
	}
	p.rest = p.rest[1:]
	for name, sub := range inner {
		at[name] = sub
	}
	return nil
}

// apply leaves of an answer what the mask names.
func (m fieldMask) apply(answer wire) (wire, error) {
	dec := json.NewDecoder(bytes.NewReader(answer))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("reading an answer to select fields, %w", err)
	}
	return json.Marshal(m.prune(v))
}

func (m fieldMask) prune(v any) any {
	if len(m) == 0 {
		return v
	}
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			v[i] = m.prune(item)
		}
	case map[string]any:
		for name, value := range v {
			sub, named := m[name]
			if !named {
				if sub, named = m["*"]; !named {
					delete(v, name)
					continue
				}
			}
			v[name] = sub.prune(value)
		}
	}
	return v
}
