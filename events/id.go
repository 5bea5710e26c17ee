package events

import (
	"regexp"
	"strings"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// safeID is what may be a document's id in any store as it is. (Firestore refuses '/', "." and "..", and names that begin
// and end with two underscores.)
var safeID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$`)

// InboxID is the id under which an event is posted to its cluster's inbox. A request's is its operation's id. Any
// other's is derived from source and id, which together identify it, since ids are only unique within their source: two nodes
// that both number their reports from 1 do not hide each other's. At most 128 characters, all of them safe in a path.
func InboxID(typ, source, id string) string {
	if IsRequest(typ) {
		return OperationID(id)
	}
	return shortType(typ) + "-" + cluster.RequestID("event", typ, source, id)
}

// IsRequest reports whether events of the type begin an operation.
func IsRequest(typ string) bool {
	switch typ {
	case TypeClusterCreate, TypeClusterUpdate, TypeClusterDelete, TypeReportFaulty:
		return true
	}
	return false
}

// OperationID is the id of the operation that a request of that id begins: the same where it can be a document's id, and
// derived from it where it cannot.
func OperationID(id string) string {
	if safeID.MatchString(id) {
		return id
	}
	return cluster.RequestID("operation", id)
}

// shortType is the readable part of a type: node.boot of convoke.node.boot.v1.
func shortType(typ string) string {
	s := strings.TrimPrefix(typ, "convoke.")
	if at := strings.LastIndexByte(s, '.'); at > 0 {
		s = s[:at]
	}
	if !safeID.MatchString(s) || len(s) > 40 {
		return "event"
	}
	return s
}
