package cluster

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Class says what kind of failure a problem is, and so what may be done about it.
type Class string

// The classes of failure.
const (
	Capacity      Class = "capacity"      // the zone has no such machine now: wait
	Quota         Class = "quota"         // the project may have no more: wait, and ask a person for more
	Throttle      Class = "throttle"      // too many calls: slow down
	Permission    Class = "permission"    // an identity lacks a role: a person must act
	Configuration Class = "configuration" // what was asked for cannot be: a person must change it
	NotFound      Class = "not found"     // what was named is not there
	Conflict      Class = "conflict"      // it is there already, in use, or has changed meanwhile
	Unknown       Class = "unknown"       // no answer, or one that says nothing: try again
)

// Permanent reports whether trying again without a person's help is of no use.
func (c Class) Permanent() bool { return c == Permission || c == Configuration }

// Problem is a failure as a value: kept on records, shown to people, and an error on its way there.
type Problem struct {
	Class    Class     `json:"class"`
	Doing    string    `json:"doing,omitempty"`    // "creating instance template"
	Resource string    `json:"resource,omitempty"` // the name or path of what it was done to
	Message  string    `json:"message"`            // what the service said
	Remedy   string    `json:"remedy,omitempty"`   // what a person can do
	At       time.Time `json:"at,omitzero"`
}

// Error says all of it in one line.
func (p *Problem) Error() string {
	var b strings.Builder
	if p.Doing != "" {
		b.WriteString(p.Doing)
	}
	if p.Resource != "" {
		fmt.Fprintf(&b, " %s", p.Resource)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	fmt.Fprintf(&b, "%s (%s)", p.Message, p.Class)
	if p.Remedy != "" {
		fmt.Fprintf(&b, "; %s", p.Remedy)
	}
	return b.String()
}

// ClassOf is the class of an error: that of the Problem it wraps, or Unknown.
func ClassOf(err error) Class {
	var p *Problem
	if errors.As(err, &p) {
		return p.Class
	}
	return Unknown
}

// Moment brings a time into the form that records keep: UTC, no monotonic reading, whole milliseconds.
func Moment(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
