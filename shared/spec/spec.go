// Package spec reads a cluster spec: the JSON that people write for the modelDevelopmentClusters API. It takes both
// spellings of every field, fills in what was left out, and says everything that is wrong at once, each fault with its
// path and its place in the text.
//
// What lives here: the table of fields, the rules of creating a cluster, the JSON Schema that follows from the table, and
// the way back from a spec to its text. What may not: reading files, asking the cloud whether what is named exists, and
// deciding anything about a cluster that is there.
package spec

import (
	"fmt"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// Options is what is known of a spec from elsewhere.
type Options struct {
	// Key is the cluster, or the parts of its name that are known: from the URL, from an event's attributes.
	Key cluster.Key
	// Guess takes a project and location that nothing states from the spec's home directory and zones. It is for checking
	// a file; whatever would be created must be told where.
	Guess bool
}

// Parse reads a spec, checks it, and fills in what was left out: the result holds the values in effect, has its full
// name, names slurm.conf parameters as SchedMD does, and depends on nothing but its arguments. When there are faults
// there is no spec.
func Parse(data []byte, o Options) (*cluster.Spec, Faults) {
	spec, all, text := parse(data, o)
	if len(all) > 0 {
		return nil, inOrder(all, text)
	}
	return spec, nil
}

func parse(data []byte, o Options) (*cluster.Spec, []found, *text) {
	text := newText(data)
	if len(data) > MaxSize {
		f := Fault{Problem: fmt.Sprintf("the text has %d bytes", len(data)), Allowed: fmt.Sprintf("at most %d", MaxSize)}
		return nil, []found{{Fault: f, beyond: true}}, text
	}
	v, fault := readJSON(text)
	if fault != nil {
		fault.beyond = true
		return nil, []found{*fault}, text
	}
	if v.kind != objectValue {
		return nil, []found{{Fault: Fault{Problem: "the spec is " + v.kind.String(), Allowed: "an object"}, offset: v.offset}}, text
	}
	r := newReader()
	r.places[""] = &place{offset: v.offset}
	spec := &cluster.Spec{}
	r.object(v, specTable(), spec, "")
	c := &checker{reader: r, spec: spec}
	c.check(o)
	return spec, r.faults, text
}
