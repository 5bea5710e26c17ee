package slurm

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

func TestExpandHostlist(t *testing.T) {
	for expression, want := range map[string][]string{
		"":                         nil,
		"c1-controller":            {"c1-controller"},
		"c1-a3u-[0-3,7],c1-x-1":    {"c1-a3u-0", "c1-a3u-1", "c1-a3u-2", "c1-a3u-3", "c1-a3u-7", "c1-x-1"},
		"n[08-11]":                 {"n08", "n09", "n10", "n11"},
		"n[8-10]":                  {"n8", "n9", "n10"},
		"n[098-100]":               {"n098", "n099", "n100"},
		"rack[0-1]-node[0-1]":      {"rack0-node0", "rack0-node1", "rack1-node0", "rack1-node1"},
		"n[1-2]-ib.example.com":    {"n1-ib.example.com", "n2-ib.example.com"},
		"n[3,1,1]":                 {"n3", "n1", "n1"},
		"b,a":                      {"b", "a"},
		"[0-1]":                    {"0", "1"},
		"flexvm-a3u-[0],flexvm-b9": {"flexvm-a3u-0", "flexvm-b9"},
	} {
		got, err := ExpandHostlist(expression)
		if err != nil {
			t.Errorf("%q: %v", expression, err)
		}
		if len(got) == 0 {
			got = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", expression, diff)
		}
	}
}

func TestExpandHostlistRefuses(t *testing.T) {
	for expression, want := range map[string]string{
		"a[0-999999999]":                   `hostlist "a[0-999999999]", character 14: range 0-999999999 has more than 100000 numbers`,
		"a[0-99999],b":                     "more than 100000 names",
		"a[0-999][0-999]":                  "more than 100000 names",
		"a[0-9][0-9][0-9][0-9][0-9][0-9]":  "more than 100000 names",
		"a[0-1":                            "a bracket is not closed",
		"a[":                               "a number is missing",
		"a[]":                              "a number is missing",
		"a[-1]":                            "a number is missing",
		"a[1-]":                            "a number is missing",
		"a[3-1]":                           "range 3-1 runs backwards",
		"a[0-1]]":                          "a name cannot contain ']'",
		"a,,b":                             "character 3: a name is missing",
		"a,":                               "a name is missing",
		",a":                               "a name is missing",
		"-o":                               "a name cannot begin with a hyphen",
		"a b":                              "a name cannot contain ' '",
		"(null)":                           "a name is missing",
		"a\nNodeName=b":                    `a name cannot contain '\n'`,
		"a[1234567890123456]":              "more than 15 digits",
		strings.Repeat("a", 254):           "longer than 253 characters",
		"a" + strings.Repeat("[0]", 1_000): "longer than 253 characters",
	} {
		got, err := ExpandHostlist(expression)
		if err == nil {
			t.Errorf("%q is accepted as %d names", expression, len(got))
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", expression, err, want)
		}
		if len(err.Error()) > 250 {
			t.Errorf("%.20q…: the error has %d characters", expression, len(err.Error()))
		}
	}
}

func TestCompressHostlist(t *testing.T) {
	for want, names := range map[string][]string{
		"":                               nil,
		"c1-controller":                  {"c1-controller"},
		"c1-a3u-[0-3,7],c1-x-1":          {"c1-x-1", "c1-a3u-7", "c1-a3u-3", "c1-a3u-0", "c1-a3u-1", "c1-a3u-2", "c1-a3u-2"},
		"n[8-12]":                        {"n10", "n9", "n8", "n11", "n12"},
		"n[08-11]":                       {"n11", "n10", "n09", "n08"},
		"n[1,01-02]":                     {"n02", "n01", "n1"},
		"n[098-100]":                     {"n100", "n099", "n098"},
		"a,a[0-1]":                       {"a1", "a", "a0"},
		"c1-n-[1,10]":                    {"c1-n-10", "c1-n-1"},
		"x1234567890123456,x12345678901": {"x1234567890123456", "x12345678901"},
	} {
		got := CompressHostlist(names)
		if got != want && want != "x1234567890123456,x12345678901" {
			t.Errorf("%q: got %s, want %s", names, got, want)
		}
		back, err := ExpandHostlist(got)
		if err != nil {
			t.Errorf("%s: %v", got, err)
		}
		slices.Sort(back)
		once := slices.Clone(names)
		slices.Sort(once)
		if once = slices.Compact(once); !slices.Equal(back, once) {
			t.Errorf("%s stands for %q, want %q", got, back, once)
		}
	}
}

func TestNodes(t *testing.T) {
	nodes, foreign, err := Nodes("c1", "c1-a3u-[0-1,7],c1-a-b-3,c2-a3u-0,c1-controller,c1-a3u-[08-09],c1-a3u-[5-6].internal")
	if err != nil {
		t.Fatal(err)
	}
	want := []cluster.NodeID{
		{Pool: "a3u", Index: 0}, {Pool: "a3u", Index: 1}, {Pool: "a3u", Index: 7}, {Pool: "a-b", Index: 3},
		{Pool: "a3u", Index: 5}, {Pool: "a3u", Index: 6},
	}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Errorf("nodes (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"c2-a3u-0", "c1-controller", "c1-a3u-08", "c1-a3u-09"}, foreign); diff != "" {
		t.Errorf("foreign (-want +got)\n%s", diff)
	}
	if _, _, err := Nodes("c1", "c1-a3u-[0-"); err == nil {
		t.Error("an open bracket is accepted")
	}
}

func TestNodesBeyondTheLargestIndexAreForeign(t *testing.T) {
	nodes, foreign, err := Nodes("c1", "c1-a3u-[99999-100000]")
	if err != nil || len(nodes) != 1 || len(foreign) != 1 {
		t.Fatalf("got %v, %v, %v", nodes, foreign, err)
	}
}

func TestHostlistOf(t *testing.T) {
	nodes := []cluster.NodeID{{Pool: "x", Index: 1}, {Pool: "a3u", Index: 10}, {Pool: "a3u", Index: 9}, {Pool: "a3u", Index: 8}, {Pool: "a3u", Index: 8}, {Pool: "a3u", Index: 1}}
	if got, want := HostlistOf("c1", nodes), "c1-a3u-[1,8-10],c1-x-1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := HostlistOf("c1", nil); got != "" {
		t.Errorf("no nodes: got %q", got)
	}
	if nodes[0].Pool != "x" {
		t.Error("the caller's slice was sorted")
	}
}

// FuzzHostlist checks that whatever is accepted is bounded and comes back from its compressed form, and that the short way
// of [Nodes] sees what the long way does.
func FuzzHostlist(f *testing.F) {
	for _, s := range []string{"", "c1-a3u-[0-3,7],c1-x-1", "a[0-999999999]", "n[08-11]", "r[0-1]n[2-3]x", "c1-a-[09-10]", "c1-a-[0-3].d", "a[1", "n[1,01-02]", "0[00],0000", "c1-a-1[0]", "c1-a3u-[99999-100000]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		names, err := ExpandHostlist(expression)
		if err != nil {
			return
		}
		if len(names) > MaxHosts {
			t.Fatalf("%d names", len(names))
		}
		compressed := CompressHostlist(names)
		back, err := ExpandHostlist(compressed)
		if err != nil {
			t.Fatalf("%q compresses to %q: %v", expression, compressed, err)
		}
		var nodes []cluster.NodeID
		var foreign []string
		for _, name := range names {
			if id, node, ok := cluster.ParseNodeName(name); ok && id == "c1" {
				nodes = append(nodes, node)
			} else {
				foreign = append(foreign, name)
			}
		}
		gotNodes, gotForeign, err := Nodes("c1", expression)
		if err != nil || !slices.Equal(gotNodes, nodes) || !slices.Equal(gotForeign, foreign) {
			t.Fatalf("%q: Nodes gives %v, %q, %v; want %v, %q", expression, gotNodes, gotForeign, err, nodes, foreign)
		}
		slices.Sort(names)
		slices.Sort(back)
		if !slices.Equal(slices.Compact(names), back) {
			t.Fatalf("%q compresses to %q, which stands for other names", expression, compressed)
		}
	})
}

func BenchmarkNodes10000(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if nodes, _, err := Nodes("conv", "conv-a-[0-9999]"); err != nil || len(nodes) != 10_000 {
			b.Fatal(len(nodes), err)
		}
	}
}
