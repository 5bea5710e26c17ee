package gce

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"cloud.google.com/go/compute/apiv1/computepb"
	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/api/googleapi"
	rpc "google.golang.org/genproto/googleapis/rpc/code"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// A fault is one thing that went wrong, in the words of the service, however it was reported: as an HTTP answer, as the
// error of an operation, of a resize request or of a managed instance, or as no answer at all.
type fault struct {
	status  int    // of the HTTP answer; 0 when there was none
	code    string // the service's reason or code, in capitals: QUOTA_EXCEEDED
	message string // one line, of bounded length
	quota   string // the metric of a quota that is used up, where the service states it apart from the message
}

// failure is an error that consists of faults: what an operation, a request or an attempt ended with.
type failure []fault

func (f failure) Error() string { return f[worst(f)].message }

// faultsOf finds the faults of any error; there is always at least one.
func faultsOf(err error) []fault {
	var f failure
	if errors.As(err, &f) && len(f) > 0 {
		return f
	}
	var http *googleapi.Error
	if errors.As(err, &http) {
		return httpFaults(http, err)
	}
	return []fault{{message: unanswered(err)}}
}

// unanswered says why there was no answer, without the URL that was called: its request id and its filters help nobody.
func unanswered(err error) string {
	var u *url.Error
	if !errors.As(err, &u) {
		return oneLine(err.Error())
	}
	host := u.URL
	if parsed, bad := url.Parse(u.URL); bad == nil {
		host = parsed.Host
	}
	return oneLine("no answer from " + host + ": " + u.Err.Error())
}

// httpFaults reads both forms of error answers: Compute Engine's, with a list of errors that have reasons, and the newer
// one of Filestore and Secret Manager, with a status and perhaps a reason among its details.
func httpFaults(e *googleapi.Error, err error) []fault {
	var out []fault
	for _, item := range e.Errors {
		out = append(out, fault{status: e.Code, code: capitals(item.Reason), message: oneLine(item.Message)})
	}
	if len(out) > 0 {
		return out
	}
	f := fault{status: e.Code, message: oneLine(e.Message)}
	var body struct{ Error struct{ Status string } }
	if json.Unmarshal([]byte(e.Body), &body) == nil {
		f.code = capitals(body.Error.Status)
	}
	var api *apierror.APIError
	if errors.As(err, &api) && api.Reason() != "" {
		f.code = capitals(api.Reason())
	}
	if f.message == "" {
		f.message = strings.TrimSpace(fmt.Sprintf("the answer was HTTP %d %s", e.Code, http.StatusText(e.Code)))
	}
	return []fault{f}
}

// operationFailure is what an operation ended with; nil when it succeeded or goes on.
func operationFailure(op *computepb.Operation) error {
	out := errorFaults(op.GetError().GetErrors(), int(op.GetHttpErrorStatusCode()))
	if status := int(op.GetHttpErrorStatusCode()); len(out) == 0 && status >= 300 {
		out = failure{{status: status, message: oneLine(op.GetHttpErrorMessage())}}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// errorFaults reads the form in which operations, resize requests and managed instances report errors.
func errorFaults(errs []*computepb.Errors, status int) failure {
	var out failure
	for _, e := range errs {
		f := fault{status: status, code: capitals(e.GetCode()), message: oneLine(e.GetMessage())}
		for _, d := range e.GetErrorDetails() {
			if m := d.GetQuotaInfo().GetMetricName(); m != "" {
				f.quota = m
			}
			// A localized message is the one that the service means people to read, where the plain one is missing.
			if f.message == "" {
				f.message = oneLine(d.GetLocalizedMessage().GetMessage())
			}
		}
		if f.message == "" {
			f.message = f.code
		}
		out = append(out, f)
	}
	return out
}

// codes says what a code means by itself, whatever HTTP status came with it. Codes that are only another word for their HTTP
// status are left to the status.
var codes = map[string]cluster.Class{
	"RESOURCES_EXHAUSTED":                  cluster.Capacity,
	"INSUFFICIENT_CAPACITY":                cluster.Capacity,
	"STOCKOUT":                             cluster.Capacity,
	"VM_MIN_COUNT_NOT_REACHED":             cluster.Capacity,
	"QUOTA_EXCEEDED":                       cluster.Quota,
	"LIMIT_EXCEEDED":                       cluster.Quota,
	"RESOURCE_QUOTA_EXCEEDED":              cluster.Quota,
	"RATE_LIMIT_EXCEEDED":                  cluster.Throttle,
	"USER_RATE_LIMIT_EXCEEDED":             cluster.Throttle,
	"CONCURRENT_LIMIT_EXCEEDED":            cluster.Throttle,
	"DAILY_LIMIT_EXCEEDED":                 cluster.Throttle,
	"TOO_MANY_REQUESTS":                    cluster.Throttle,
	"RESOURCE_EXHAUSTED":                   cluster.Throttle, // the newer APIs' status for 429
	"RESOURCE_OPERATION_RATE_EXCEEDED":     cluster.Throttle,
	"CONCURRENT_OPERATIONS_QUOTA_EXCEEDED": cluster.Throttle,
	"ACCESS_DENIED":                        cluster.Permission,
	"FORBIDDEN":                            cluster.Permission,
	"PERMISSION_DENIED":                    cluster.Permission,
	"PERMISSIONS_ERROR":                    cluster.Permission,
	"IAM_PERMISSION_DENIED":                cluster.Permission,
	"INSUFFICIENT_PERMISSIONS":             cluster.Permission,
	"ACCESS_TOKEN_SCOPE_INSUFFICIENT":      cluster.Permission,
	"AUTH_ERROR":                           cluster.Permission,
	"UNAUTHENTICATED":                      cluster.Permission,
	"SERVICE_ACCOUNT_ACCESS_DENIED":        cluster.Permission,
	"SERVICE_DISABLED":                     cluster.Permission,
	"ACCESS_NOT_CONFIGURED":                cluster.Permission,
	"BILLING_DISABLED":                     cluster.Permission,
	"BILLING_NOT_ENABLED":                  cluster.Permission,
	"NOT_FOUND":                            cluster.NotFound,
	"RESOURCE_NOT_FOUND":                   cluster.NotFound,
	"ALREADY_EXISTS":                       cluster.Conflict,
	"RESOURCE_ALREADY_EXISTS":              cluster.Conflict,
	"RESOURCE_IN_USE":                      cluster.Conflict,
	"RESOURCE_IN_USE_BY_ANOTHER_RESOURCE":  cluster.Conflict,
	"RESOURCE_NOT_READY":                   cluster.Conflict,
	"CONDITION_NOT_MET":                    cluster.Conflict,
	"FAILED_PRECONDITION":                  cluster.Conflict,
	"FINGERPRINT_MISMATCH":                 cluster.Conflict,
	"ABORTED":                              cluster.Conflict,
	"OPERATION_CANCELED_BY_USER":           cluster.Conflict,
	"BAD_REQUEST":                          cluster.Configuration,
	"UNSUPPORTED_OPERATION":                cluster.Configuration,
	"NOT_SUPPORTED":                        cluster.Configuration,
	"REQUIRED":                             cluster.Configuration,
	"INVALID":                              cluster.Configuration,
	"OUT_OF_RANGE":                         cluster.Configuration,
	"INTERNAL":                             cluster.Unknown,
	"INTERNAL_ERROR":                       cluster.Unknown,
	"BACKEND_ERROR":                        cluster.Unknown,
	"UNAVAILABLE":                          cluster.Unknown,
	"DEADLINE_EXCEEDED":                    cluster.Unknown,
}

var (
	// The organization refuses with 412 conditionNotMet what its policies forbid, which does not pass by itself.
	orgPolicy = regexp.MustCompile(`(?i)\bconstraints?[ /]`)
	// A reservation that is used up is reported as an invalid request.
	reservationFull = regexp.MustCompile(`(?i)\breservation\b.*\b(does not have|has no|not enough|insufficient)\b.*\b(resources?|capacity|vms?|instances?)\b`)
)

// class says what may be done about a fault. The code decides where it says something, since one HTTP status serves several
// meanings (403: quota, rate and permission) and operations have none; then the status.
func (f fault) class() cluster.Class {
	switch {
	case orgPolicy.MatchString(f.message) && (f.code == "CONDITION_NOT_MET" || f.status == http.StatusPreconditionFailed):
		return cluster.Configuration
	case reservationFull.MatchString(f.message):
		return cluster.Capacity
	}
	if class, ok := codes[f.code]; ok {
		return class
	}
	switch {
	case strings.Contains(f.code, "RESOURCE_POOL_EXHAUSTED"), strings.HasSuffix(f.code, "_STOCKOUT"):
		return cluster.Capacity
	case strings.HasSuffix(f.code, "QUOTA_EXCEEDED"):
		return cluster.Quota
	case strings.HasPrefix(f.code, "INVALID_"), strings.HasPrefix(f.code, "UNSUPPORTED_"):
		return cluster.Configuration
	case strings.HasSuffix(f.code, "_NOT_FOUND"):
		return cluster.NotFound
	}
	return statusClass(f.status)
}

// statusClass is what the status of an answer means that says nothing else. A bare 404 means nothing: see missing.
func statusClass(status int) cluster.Class {
	switch status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return cluster.Configuration
	case http.StatusUnauthorized, http.StatusForbidden:
		return cluster.Permission
	case http.StatusConflict, http.StatusPreconditionFailed:
		return cluster.Conflict
	case http.StatusTooManyRequests:
		return cluster.Throttle
	}
	return cluster.Unknown
}

// permanence orders the classes by how little passes by itself.
var permanence = map[cluster.Class]int{
	cluster.Unknown: 0, cluster.Throttle: 1, cluster.Capacity: 2, cluster.Conflict: 3,
	cluster.NotFound: 4, cluster.Quota: 5, cluster.Permission: 6, cluster.Configuration: 7,
}

// worst is the index of the fault that stands for all of them: the one that is the least likely to pass by itself, since
// what they are faults of can only succeed once each of them is gone. What went wrong with several things is never
// put together here: each managed instance, each group, each zone has a problem of its own, so that one zone's
// throttled call is not taken for its neighbour's stockout.
func worst(faults []fault) int {
	at := 0
	for i, f := range faults {
		if permanence[f.class()] > permanence[faults[at].class()] {
			at = i
		}
	}
	return at
}

// missing reports whether a call failed since the service knows nothing of that name. A 404 without the service's own
// reason is none of its: a proxy's, or a wrong endpoint's, which says nothing of what is there.
func missing(err error) bool { return only(err, "NOT_FOUND", "RESOURCE_NOT_FOUND") }

// taken reports whether a call failed since the name that it wanted is in use.
func taken(err error) bool { return only(err, "ALREADY_EXISTS", "RESOURCE_ALREADY_EXISTS") }

func only(err error, codes ...string) bool {
	if err == nil {
		return false
	}
	return !slices.ContainsFunc(faultsOf(err), func(f fault) bool { return !slices.Contains(codes, f.code) })
}

// capitals brings quotaExceeded and QUOTA_EXCEEDED into one form.
func capitals(code string) string {
	var b strings.Builder
	lower := false
	for _, r := range code {
		if unicode.IsUpper(r) && lower {
			b.WriteByte('_')
		}
		lower = unicode.IsLower(r) || unicode.IsDigit(r)
		if r == '-' || r == ' ' {
			r = '_'
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}

// maxMessage bounds what is kept of a message, in characters: it goes onto records and into lists.
const maxMessage = 400

// oneLine makes a message fit for a record: one line of printable characters, and not too long.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > maxMessage {
		s = string(runes[:maxMessage-1]) + "…"
	}
	return s
}

// classOf is the class of any error; that of no error is the empty one.
func classOf(err error) cluster.Class {
	if err == nil {
		return ""
	}
	var p *cluster.Problem
	if errors.As(err, &p) {
		return p.Class
	}
	faults := faultsOf(err)
	return faults[worst(faults)].class()
}

// statusFault is a google.rpc.Status, as long operations of the newer services end with it.
func statusFault(code int32, message string) fault {
	return fault{code: capitals(rpc.Code(code).String()), message: oneLine(message)}
}
