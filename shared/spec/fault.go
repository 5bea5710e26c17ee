package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a spec.
type Fault struct {
	// Path leads to the field, spelled as the spec spells it: node_pools[1].machineSpec.accelerator_type. Empty: the whole.
	Path string `json:"path,omitempty"`
	// Problem is what is wrong, Allowed what would be right, where that can be said.
	Problem string `json:"problem"`
	Allowed string `json:"allowed,omitempty"`
	// Line and Column are where in the text, from 1; columns count characters.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// String is the fault in one line, without its place in the text.
func (f Fault) String() string {
	var b strings.Builder
	if f.Path != "" {
		b.WriteString(f.Path)
		b.WriteString(": ")
	}
	b.WriteString(f.Problem)
	if f.Allowed != "" {
		b.WriteString("; allowed: ")
		b.WriteString(f.Allowed)
	}
	return b.String()
}

// Faults are all that is wrong with a spec, in the order of its text.
type Faults []Fault

// Error is one line for each fault.
func (f Faults) Error() string { return strings.Join(f.Lines(), "\n") }

// Lines are the faults, each in one line.
func (f Faults) Lines() []string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return lines
}

// Err is the faults as an error: nil when there are none.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// maxFaults is how many faults are told at once: a file that is no spec at all has one at every word.
const maxFaults = 100

// found is a fault with its place, while faults are still being collected.
type found struct {
	Fault
	offset int
	// beyond says that a JSON Schema could not have seen it.
	beyond bool
}

// inOrder brings faults into the order of the text and says where in it each one is.
func inOrder(all []found, text *text) Faults {
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(a.offset, b.offset) })
	var faults Faults
	for i, f := range all {
		if i == maxFaults {
			return append(faults, Fault{Problem: fmt.Sprintf("%d more faults are not shown", len(all)-i)})
		}
		f.Line, f.Column = text.position(f.offset)
		faults = append(faults, f.Fault)
	}
	return faults
}
