package gcp

import (
	"strings"
	"testing"

	"cloud.google.com/go/compute/apiv1/computepb"
)

// Whatever a filter says, it is read or refused; what is read decides on any
// instance without failing in other ways than an unknown field.
func FuzzFilter(f *testing.F) {
	for _, seed := range []string{
		`labels.cluster = "a" AND (name eq 'vm-.*' OR NOT status:RUN)`, "name=x", "((a=b))", `a = "\""`, "labels.a:*", "id > 3", "((((", "AND", `"`, "a.b.c != d e=f",
	} {
		f.Add(seed)
	}
	i := &computepb.Instance{Name: new("vm"), Id: new(uint64(7)), Labels: map[string]string{"cluster": "a"}, Status: new("RUNNING")}
	f.Fuzz(func(t *testing.T, text string) {
		keep, err := parseFilter(text)
		if err != nil {
			return
		}
		if _, err := keep(i); err != nil && !strings.Contains(err.Error(), "field") {
			t.Errorf("filter %q: %v", text, err)
		}
	})
}

// Whatever a field selection says, it is read or refused, and what is left of
// an answer is an answer.
func FuzzFieldMask(f *testing.F) {
	for _, seed := range []string{"items(id,name)", "items/*/instances/name,nextPageToken", "*", "a(b(c)),d", "((", "a/b(c/d,e)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		mask, err := parseFieldMask(text)
		if err != nil {
			return
		}
		if _, err := mask.apply(wire(`{"items":[{"id":"1","name":"x"}],"nextPageToken":"t"}`)); err != nil {
			t.Errorf("mask %q: %v", text, err)
		}
	})
}

func TestIDsAreUnique(t *testing.T) {
	seen := map[uint64]bool{}
	for n := range uint64(200_000) {
		id := wideID(3, n)
		if seen[id] || id < 1e18 {
			t.Fatalf("id %d of counter %d is not new, or has fewer than 19 digits", id, n)
		}
		seen[id] = true
	}
}
