package slurm

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/convoke-hpc/convoke/shared/nearest"
)

// Scope is the kind of line in slurm.conf on which a parameter stands.
type Scope string

// The scopes.
const (
	Global    Scope = "global"    // a line of its own
	Partition Scope = "partition" // a PartitionName line
	Node      Scope = "node"      // a NodeName line
)

func scopes() []Scope { return []Scope{Global, Partition, Node} }

// setting is the field of the cluster spec in which a scope's parameters are given.
func (s Scope) setting() string {
	switch s {
	case Partition:
		return "a partition's config"
	case Node:
		return "a node set's config"
	default:
		return "the cluster's config"
	}
}

// Parameter is one parameter of slurm.conf.
type Parameter struct {
	// Name is as SchedMD writes it.
	Name  string
	Scope Scope
	Kind  Kind
	// Values are the legal ones of a Word or of each of Words.
	Values []string
	// Newer says that Slurm 22.05, which Debian 12 has, does not know it: slurmctld of that version ends on it.
	Newer bool
	// Refused is why the parameter may not be given in a cluster spec; empty when it may.
	Refused string
}

// Parameters are the parameters of a scope, sorted by name: those of Slurm 22.05 to 24.11.
func Parameters(scope Scope) []Parameter {
	all := catalog()[scope]
	list := make([]Parameter, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[key])
	}
	return list
}

// FindParameter finds a parameter of a scope. As in the cluster spec, case and underscores are ignored: def_mem_per_cpu is
// DefMemPerCPU.
func FindParameter(scope Scope, key string) (Parameter, bool) {
	p, ok := catalog()[scope][plainKey(key)]
	return p, ok
}

// Refusal says what is wrong with a parameter and, where that can be said, what is allowed.
type Refusal struct {
	Problem string
	Allowed string
}

// CheckParameter finds a parameter that a cluster spec gives for a scope and says why it is refused; nil when it is legal.
// A legal value is one word of slurm.conf: it can neither end its line nor begin another parameter.
func CheckParameter(scope Scope, key, value string) (Parameter, *Refusal) {
	p, ok := FindParameter(scope, key)
	switch {
	case !ok:
		return Parameter{}, unknownParameter(scope, key)
	case p.Refused != "":
		return p, &Refusal{Problem: p.Name + " may not be set: " + p.Refused}
	}
	if r := checkText(value); r != nil {
		return p, r
	}
	return p, p.checkValue(value)
}

func unknownParameter(scope Scope, key string) *Refusal {
	for _, other := range scopes() {
		if p, ok := FindParameter(other, key); ok && p.Refused == "" {
			return &Refusal{Problem: p.Name + " is not a parameter of " + scope.setting() + ", it belongs in " + other.setting()}
		}
	}
	for _, name := range strings.Fields(slurmdbdParameters) {
		if plainKey(name) == plainKey(key) {
			return &Refusal{Problem: name + " is a parameter of slurmdbd.conf, which is managed for you"}
		}
	}
	switch plainKey(key) {
	case "nodename", "partitionname", "nodeset", "downnodes", "frontendname", "include":
		return &Refusal{Problem: shorten(key) + " begins a line of slurm.conf that is written for you"}
	}
	r := &Refusal{Problem: "Slurm has no parameter " + shorten(key) + " in " + scope.setting()}
	if name, ok := nearest.Name(key, legalNames(scope)); ok {
		r.Problem += ", did you mean " + name + "?"
	}
	return r
}

// legalNames are the names of the parameters that may be given in a scope.
func legalNames(scope Scope) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, p := range Parameters(scope) {
			if p.Refused == "" && !yield(p.Name) {
				return
			}
		}
	}
}

var unseparated = strings.NewReplacer("_", "")

func plainKey(key string) string { return strings.ToLower(unseparated.Replace(key)) }

// catalog is every parameter by scope and plain key.
var catalog = sync.OnceValue(func() map[Scope]map[string]Parameter {
	all := map[Scope]map[string]Parameter{Global: {}, Partition: {}, Node: {}}
	for _, group := range parameterGroups() {
		for _, name := range strings.Fields(group.names) {
			all[group.scope][plainKey(name)] = Parameter{Name: name, Scope: group.scope, Kind: group.kind, Values: group.values}
		}
	}
	for scope, byReason := range refusedParameters() {
		for reason, names := range byReason {
			for _, name := range strings.Fields(names) {
				p := all[scope][plainKey(name)]
				p.Refused = reason
				all[scope][plainKey(name)] = p
			}
		}
	}
	for _, name := range strings.Fields(newerParameters) {
		for _, scope := range scopes() {
			if p, ok := all[scope][plainKey(name)]; ok {
				p.Newer = true
				all[scope][plainKey(name)] = p
			}
		}
	}
	return all
})
