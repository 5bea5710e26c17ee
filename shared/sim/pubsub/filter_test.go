package pubsub

import (
	"strings"
	"testing"
)

func TestFilter(t *testing.T) {
	messages := map[string]map[string]string{
		"none":   nil,
		"en com": {"lang": "en", "name": "com"},
		"en net": {"lang": "en", "name": "net"},
		"fr":     {"lang": "fr"},
		"slash":  {"iana.org/language_tag": "en", "ce-type": "dev.convoke.node"},
		"quote":  {"name": `a"b\c`},
	}
	tests := []struct {
		filter string
		want   string // names of the messages that match
	}{
		{``, "en com,en net,fr,none,quote,slash"},
		{`  `, "en com,en net,fr,none,quote,slash"},
		{`attributes:lang`, "en com,en net,fr"},
		{`attributes:"lang"`, "en com,en net,fr"},
		{`attributes:"iana.org/language_tag"`, "slash"},
		{`attributes.ce-type = "dev.convoke.node"`, "slash"},
		{`attributes."iana.org/language_tag"="en"`, "slash"},
		{`attributes.lang = "en"`, "en com,en net"},
		{`attributes.lang = "EN"`, ""},
		{`attributes.lang != "en"`, "fr,none,quote,slash"},
		{`hasPrefix(attributes.name, "n")`, "en net"},
		{`hasPrefix ( attributes . "name" , "" )`, "en com,en net,quote"},
		{`NOT attributes:lang`, "none,quote,slash"},
		{`-attributes:lang`, "none,quote,slash"},
		{`NOT NOT attributes:lang`, "en com,en net,fr"},
		{`attributes.lang="en" AND attributes.name="net"`, "en net"},
		{`attributes.lang="fr" OR attributes.name="net"`, "en net,fr"},
		{`attributes:lang AND NOT attributes.name="net" AND attributes:name`, "en com"},
		{`attributes:lang AND (attributes.name="net" OR NOT attributes:name)`, "en net,fr"},
		{`NOT (attributes:lang OR attributes:name)`, "none,slash"},
		{`attributes.name = "a\"b\\c"`, "quote"},
		{`attributes.lang = "\x65\u006e"`, "en com,en net"},
		{`attributes:attributes`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.filter, func(t *testing.T) {
			f, err := parseFilter(tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, name := range []string{"en com", "en net", "fr", "none", "quote", "slash"} {
				if f.match(messages[name]) {
					got = append(got, name)
				}
			}
			if got := strings.Join(got, ","); got != tt.want {
				t.Errorf("matches %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFilterFaults(t *testing.T) {
	tests := []struct {
		filter string
		want   string // part of the message
	}{
		{`attributes`, `found the end, wanted "."`},
		{`attributes.name`, `wanted "=" or "!="`},
		{`attributes.name = com`, `found "com" at byte 19, wanted a string in double quotes`},
		{`attributes.name = "com`, `string at byte 19: not closed`},
		{`attributes.name = "\q"`, `unknown escape`},
		{`attributes.name = "\xff"`, `not valid UTF-8`},
		{`attributes.iana.org = "x"`, `found "." at byte 16`},
		{`attributes:"" `, `wanted an attribute's key`},
		{`name = "com"`, `found "name" at byte 1, wanted attributes`},
		{`attributes:a and attributes:b`, `found "and" at byte 14, wanted AND, OR or the end`},
		{`attributes:a AND`, `found the end, wanted attributes`},
		{`attributes:a AND attributes:b OR attributes:c`, `AND and OR mixed at byte 31`},
		{`(attributes:a`, `found the end, wanted ")"`},
		{`attributes:a)`, `found ")" at byte 13`},
		{`hasPrefix(attributes.a)`, `wanted ","`},
		{`hasPrefix(attributes:a, "x")`, `wanted "."`},
		{`hasSuffix(attributes.a, "x")`, `found "hasSuffix" at byte 1`},
		{`attributes.a > "x"`, `unexpected '>' at byte 14`},
		{`attributes:日本`, `keys with such characters must be quoted`},
		{strings.Repeat("(", 100) + "attributes:a" + strings.Repeat(")", 100), `nested more than 64 deep`},
		{strings.Repeat("-", 200) + "attributes:a", `nested more than 64 deep`},
		{`attributes:` + strings.Repeat("a", 250), `at most 256`},
	}
	for _, tt := range tests {
		t.Run(tt.filter, func(t *testing.T) {
			_, err := parseFilter(tt.filter)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want one with %q", err, tt.want)
			}
		})
	}
}

// FuzzFilter feeds the parser anything. What it accepts must stay acceptable, and turn into its opposite, behind NOT.
func FuzzFilter(f *testing.F) {
	for _, seed := range []string{
		``, `attributes:a`, `attributes.a = "b"`, `attributes.a != "b"`, `hasPrefix(attributes."a b", "\x41")`,
		`NOT (attributes:a AND -attributes:b) `, `attributes:a OR attributes:b OR attributes:c`, `((`, `"`, `attributes."\`,
	} {
		f.Add(seed, "a", "b")
	}
	f.Fuzz(func(t *testing.T, text, key, value string) {
		parsed, err := parseFilter(text)
		if err != nil || strings.TrimSpace(text) == "" {
			return
		}
		attributes := map[string]string{key: value}
		matches := parsed.match(attributes)
		opposite, err := parseFilter("NOT(" + text + ")")
		if err != nil {
			if len(text)+5 <= maxFilterBytes && !strings.Contains(err.Error(), "nested") {
				t.Fatalf("%q is accepted, but not behind NOT: %v", text, err)
			}
			return
		}
		if opposite.match(attributes) == matches {
			t.Fatalf("%q and its opposite agree about %q", text, attributes)
		}
	})
}
