package cluster

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNodeNamesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[a-z][a-z0-9]{0,9}`).Draw(t, "cluster")
		n := NodeID{Pool: rapid.StringMatching(`[a-z]([a-z0-9-]{0,28}[a-z0-9])?`).Draw(t, "pool"), Index: rapid.IntRange(0, MaxIndex).Draw(t, "index")}
		name := NodeName(id, n)
		if len(name) > 63 {
			t.Fatalf("%q is longer than an RFC 1035 label", name)
		}
		for _, form := range []string{name, name + ".us-central1-a.c.my-project.internal"} {
			gotID, got, ok := ParseNodeName(form)
			if !ok || gotID != id || got != n {
				t.Fatalf("ParseNodeName(%q) = %q, %v, %v; want %q, %v", form, gotID, got, ok, id, n)
			}
		}
	})
}

func TestNamesThatAreNoNodes(t *testing.T) {
	for _, name := range []string{
		"", "c1", "c1-", "c1-a3u", "c1-a3u-", "c1-a3u-x", "c1-a3u-01", "c1-a3u-100000", "c1-a3u--1", "c1--0", "C1-a3u-0",
		"1c-a3u-0", "c1-3au-0", "c1-a3u-0\n", "c1-a3u;reboot-0", "cluster1234567-a3u-0", "c1-" + strings.Repeat("a", 31) + "-0",
		"c1-controller",
	} {
		if id, n, ok := ParseNodeName(name); ok {
			t.Errorf("ParseNodeName(%q) = %q, %v; want it refused", name, id, n)
		}
	}
}

func TestInstanceCluster(t *testing.T) {
	for name, want := range map[string]string{"c1-controller": "c1", "c1-a3u-0": "c1", "c1-other": "", "controller": "", "c-n-10": "c"} {
		if got, ok := InstanceCluster(name); ok != (want != "") || ok && got != want {
			t.Errorf("InstanceCluster(%q) = %q, %v; want %q", name, got, ok, want)
		}
	}
}

func TestKeysRoundTrip(t *testing.T) {
	k := Key{Project: "my-project", Location: "us-central1", ID: "flexvm"}
	for _, s := range []string{k.String(), k.Doc()} {
		if got, err := ParseKey(s); err != nil || got != k {
			t.Errorf("ParseKey(%q) = %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "flexvm", "projects/p/locations/l/modelDevelopmentClusters/", "my-project~us-central1~flex/vm", "a~b~c~d"} {
		if got, err := ParseKey(s); err == nil {
			t.Errorf("ParseKey(%q) = %v, want an error", s, got)
		}
	}
}

func TestRequestIDsAreUUIDsAndTellWhatTheyAreFor(t *testing.T) {
	a, b := RequestID("x", "yz"), RequestID("xy", "z")
	if a == b || a != RequestID("x", "yz") {
		t.Errorf("ids %q and %q: want them stable, and different for different parts", a, b)
	}
	if len(a) != 36 || a[14] != '8' {
		t.Errorf("%q is not a version 8 UUID", a)
	}
}

func FuzzParseNodeName(f *testing.F) {
	f.Add("c1-a3u-0")
	f.Fuzz(func(t *testing.T, s string) {
		if id, n, ok := ParseNodeName(s); ok && NodeName(id, n) != strings.SplitN(s, ".", 2)[0] {
			t.Errorf("%q was read as %q", s, NodeName(id, n))
		}
	})
}
