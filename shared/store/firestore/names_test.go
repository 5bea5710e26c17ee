package firestore

import (
	"strings"
	"testing"
)

func FuzzDocID(f *testing.F) {
	for _, s := range []string{"", ".", "..", "__x__", "a/b", "a%2Fb", "~", "~A", "\x00", "ü", strings.Repeat("/", 1000), "7.Z-_~x"} {
		f.Add(s, s+"x")
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		id := docID(one)
		if len(id) > 1500 || strings.ContainsAny(id, "/\x00") || id == "." || id == ".." || strings.HasPrefix(id, "__") {
			t.Errorf("Firestore would refuse %q for %q", id, one)
		}
		if id == "" {
			t.Errorf("%q has no document", one)
		}
		if one != two && id == docID(two) {
			t.Errorf("%q and %q have one document, %q", one, two, id)
		}
	})
}

func TestDocIDsCanBeRead(t *testing.T) {
	for id, want := range map[string]string{
		"example.com:p-1~us-central1~c1": "example.com:p-1~us-central1~c1",
		"17350212":                       "17350212",
		"c1-a3u-0.boot.7":                "c1-a3u-0.boot.7",
		"projects/p/operations/op-1":     "projects%2Fp%2Foperations%2Fop-1",
		"//compute/audit log, line 3":    "%2F%2Fcompute%2Faudit%20log%2C%20line%203",
	} {
		if got := docID(id); got != want {
			t.Errorf("docID(%q) = %q, want %q", id, got, want)
		}
	}
}
