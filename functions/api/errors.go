package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/spec"
)

// code is a google.rpc.Code, by its name.
type code string

const (
	codeInvalid       code = "INVALID_ARGUMENT"
	codeNotFound      code = "NOT_FOUND"
	codeExists        code = "ALREADY_EXISTS"
	codePermission    code = "PERMISSION_DENIED"
	codeExhausted     code = "RESOURCE_EXHAUSTED"
	codePrecondition  code = "FAILED_PRECONDITION"
	codeUnimplemented code = "UNIMPLEMENTED"
	codeInternal      code = "INTERNAL"
	codeUnavailable   code = "UNAVAILABLE"
)

// numbers are the code as google.rpc.Status has it, and as HTTP does.
func (c code) numbers() (rpc, status int) {
	switch c {
	case codeInvalid:
		return 3, http.StatusBadRequest
	case codeNotFound:
		return 5, http.StatusNotFound
	case codeExists:
		return 6, http.StatusConflict
	case codePermission:
		return 7, http.StatusForbidden
	case codeExhausted:
		return 8, http.StatusTooManyRequests
	case codePrecondition:
		return 9, http.StatusBadRequest
	case codeUnimplemented:
		return 12, http.StatusNotImplemented
	case codeUnavailable:
		return 14, http.StatusServiceUnavailable
	}
	return 13, http.StatusInternalServerError
}

// apiError is a failure as the API answers it.
type apiError struct {
	code       code
	message    string
	violations []violation
}

func (e *apiError) Error() string { return string(e.code) + ": " + e.message }

func problem(c code, format string, args ...any) *apiError {
	return &apiError{code: c, message: fmt.Sprintf(format, args...)}
}

// violation is one fault of a request, as google.rpc.BadRequest lists them.
type violation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

type badRequest struct {
	Type       string      `json:"@type"`
	Violations []violation `json:"fieldViolations"`
}

func details(violations []violation) []badRequest {
	if len(violations) == 0 {
		return nil
	}
	return []badRequest{{Type: "type.googleapis.com/google.rpc.BadRequest", Violations: violations}}
}

// refused lists every fault of a spec.
func refused(faults spec.Faults) *apiError {
	e := problem(codeInvalid, "the spec has %d fault(s); the first: %s", len(faults), faults[0].String())
	for _, f := range faults {
		at := f
		at.Path = ""
		e.violations = append(e.violations, violation{Field: f.Path, Description: at.String()})
	}
	return e
}

// violationsOf reads the faults that an operation keeps, each of them "path: what".
func violationsOf(faults []string) []violation {
	var out []violation
	for _, f := range faults {
		path, what, found := strings.Cut(f, ": ")
		if !found {
			path, what = "", f
		}
		out = append(out, violation{Field: path, Description: what})
	}
	return out
}

func writeError(w http.ResponseWriter, e *apiError) {
	_, status := e.code.numbers()
	if e.code == codeUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	writeJSON(w, status, map[string]any{"error": struct {
		Code    int          `json:"code"`
		Message string       `json:"message"`
		Status  code         `json:"status"`
		Details []badRequest `json:"details,omitempty"`
	}{status, e.message, e.code, details(e.violations)}})
}

// rpcStatus is a google.rpc.Status, as operations and clusters carry it.
type rpcStatus struct {
	Code    int          `json:"code"`
	Message string       `json:"message"`
	Details []badRequest `json:"details,omitempty"`
}

// statusOf is a problem as a google.rpc.Status. What is in the way of a create is there already; anywhere else it is in a state that
// does not allow what was asked.
func statusOf(p *cluster.Problem, verb cluster.Verb, faults []string) *rpcStatus {
	if p == nil {
		return nil
	}
	c := codeUnavailable
	switch p.Class {
	case cluster.Capacity, cluster.Quota, cluster.Throttle:
		c = codeExhausted
	case cluster.Permission:
		c = codePermission
	case cluster.Configuration:
		c = codeInvalid
	case cluster.NotFound:
		c = codeNotFound
	case cluster.Conflict:
		c = codePrecondition
		if verb == cluster.VerbCreate {
			c = codeExists
		}
	case cluster.Unknown:
	}
	rpc, _ := c.numbers()
	return &rpcStatus{Code: rpc, Message: p.Error(), Details: details(violationsOf(faults))}
}
