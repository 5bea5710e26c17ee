package gcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"cloud.google.com/go/compute/apiv1/computepb"
)

// apiError is a refusal, in the words of the API that it is sent by.
type apiError struct {
	status  int
	reason  string // Compute Engine's errors[].reason
	domain  string // Compute Engine's errors[].domain; "global" when empty
	message string
}

func (e *apiError) Error() string { return fmt.Sprintf("%d %s: %s", e.status, e.reason, e.message) }

func notFound(path string) *apiError {
	return &apiError{status: http.StatusNotFound, reason: "notFound", message: fmt.Sprintf("The resource '%s' was not found", path)}
}

func alreadyExists(path string) *apiError {
	return &apiError{status: http.StatusConflict, reason: "alreadyExists", message: fmt.Sprintf("The resource '%s' already exists", path)}
}

func conditionNotMet(what string) *apiError {
	return &apiError{status: http.StatusPreconditionFailed, reason: "conditionNotMet", message: what + " fingerprint is invalid or does not match: the resource has changed since it was read"}
}

func notReady(path string) *apiError {
	return &apiError{status: http.StatusBadRequest, reason: "resourceNotReady", message: fmt.Sprintf("The resource '%s' is not ready", path)}
}

func inUse(path, by string) *apiError {
	return &apiError{
		status: http.StatusBadRequest, reason: "resourceInUseByAnotherResource",
		message: fmt.Sprintf("The resource '%s' is already being used by '%s'", path, by),
	}
}

// invalidField refuses a value, naming the field as the service does:
// "resource.properties.machineType".
func invalidField(field, value, why string) *apiError {
	return &apiError{status: http.StatusBadRequest, reason: "invalid", message: fmt.Sprintf("Invalid value for field '%s': '%s'. %s", field, value, why)}
}

func missingField(field string) *apiError {
	return &apiError{status: http.StatusBadRequest, reason: "required", message: fmt.Sprintf("Required field '%s' not specified", field)}
}

// invalid refuses a request whose fields are each valid.
func invalid(format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, reason: "invalid", message: fmt.Sprintf(format, args...)}
}

func quotaExceeded(metric string, limit int, region string) *apiError {
	return &apiError{
		status: http.StatusForbidden, reason: "quotaExceeded", domain: "usageLimits",
		message: fmt.Sprintf("Quota '%s' exceeded.  Limit: %.1f in region %s.", metric, float64(limit), region),
	}
}

// respondError writes the error in the form of the API that was called.
func respondError(w http.ResponseWriter, r *http.Request, err error) {
	var e *apiError
	if !errors.As(err, &e) {
		e = &apiError{status: http.StatusServiceUnavailable, reason: "backendError", message: "Internal error. Please try again or contact Google Support. (" + err.Error() + ")"}
	}
	body := map[string]any{"code": e.status, "message": e.message}
	if strings.HasPrefix(r.URL.Path, "/compute/") {
		domain := e.domain
		if domain == "" {
			domain = "global"
		}
		body["errors"] = []map[string]string{{"domain": domain, "message": e.message, "reason": e.reason}}
	} else {
		body["status"] = rpcStatus(e)
	}
	out, _ := json.MarshalIndent(map[string]any{"error": body}, "", "  ") // strings and numbers always encode
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(e.status)
	_, _ = w.Write(out) // the client has gone; there is nobody to tell
}

// rpcStatus is the google.rpc.Code of an HTTP status, as newer APIs state it.
func rpcStatus(e *apiError) string {
	switch e.status {
	case http.StatusBadRequest:
		if e.reason == "failedPrecondition" {
			return "FAILED_PRECONDITION"
		}
		return "INVALID_ARGUMENT"
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusConflict:
		if e.reason == "aborted" {
			return "ABORTED"
		}
		return "ALREADY_EXISTS"
	case http.StatusPreconditionFailed:
		return "FAILED_PRECONDITION"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	default:
		return "INTERNAL"
	}
}

// failure is why an operation, a request or an attempt failed after it had
// been accepted.
type failure struct {
	Code    string // "ZONE_RESOURCE_POOL_EXHAUSTED"
	Message string
	HTTP    int // of an operation: httpErrorStatusCode
}

func (f *failure) wire() *computepb.Errors {
	return &computepb.Errors{Code: new(f.Code), Message: new(f.Message)}
}

func (f *failure) error() *computepb.Error {
	return &computepb.Error{Errors: []*computepb.Errors{f.wire()}}
}

func stockout(zone, machineType string) *failure {
	return &failure{
		Code: "ZONE_RESOURCE_POOL_EXHAUSTED", HTTP: http.StatusServiceUnavailable,
		Message: fmt.Sprintf("The zone '%s' does not have enough resources available to fulfill the request. '(resource type:compute)' (machine type: %s).  Try a different zone, or try again later.", zone, machineType),
	}
}

func quotaFailure(metric string, limit int, region string) *failure {
	return &failure{
		Code: "QUOTA_EXCEEDED", HTTP: http.StatusForbidden,
		Message: fmt.Sprintf("Quota '%s' exceeded.  Limit: %.1f in region %s.", metric, float64(limit), region),
	}
}

func takenFailure(path string) *failure {
	return &failure{Code: "RESOURCE_ALREADY_EXISTS", Message: fmt.Sprintf("The resource '%s' already exists", path), HTTP: http.StatusConflict}
}

var protoFieldError = regexp.MustCompile(`invalid value for \S+ (?:field|type) ?(\w*):? ?(.*)$`)

// undecodable turns protojson's complaint into the service's.
func undecodable(err error) *apiError {
	text := strings.TrimPrefix(err.Error(), "proto:")
	if m := protoFieldError.FindStringSubmatch(text); m != nil && m[1] != "" {
		return invalidField("resource."+m[1], strings.Trim(m[2], `"`), "The value has the wrong type.")
	}
	return &apiError{status: http.StatusBadRequest, reason: "parseError", message: "Parse Error: the request's body is not valid JSON for this resource:" + text}
}
