package nearest

import (
	"slices"
	"testing"
)

func TestName(t *testing.T) {
	known := []string{"machineType", "machineSpec", "zone", "id", "PriorityWeightAge", "PreemptMode"}
	for got, want := range map[string]string{
		"machine_typ":       "machineType",
		"machineTpye":       "machineType",
		"machine_specs":     "machineSpec",
		"zones":             "zone",
		"PriorityWiegthAge": "PriorityWeightAge",
		"preempt-mode":      "PreemptMode",
		"ID":                "id",
		"shape":             "",
		"":                  "",
		"x":                 "",
	} {
		name, ok := Name(got, slices.Values(known))
		if name != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", got, name, ok, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"same", "same", 0}, {"abcd", "abdc", 1}} {
		if got := distance(c.a, c.b); got != c.want || distance(c.b, c.a) != c.want {
			t.Errorf("%q, %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
