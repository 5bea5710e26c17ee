package gce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// answers is a cloud that gives each request the next of the answers, and the last one again and again.
type answers struct {
	t    *testing.T
	list []func(*http.Request) (*http.Response, error)
	got  []*http.Request
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			a.t.Error(err)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
	}
	a.got = append(a.got, r)
	return a.list[min(len(a.got), len(a.list))-1](r)
}

func (a *answers) client(limits Limits) *Client {
	a.t.Helper()
	c, err := New(a.t.Context(), Options{
		Project: "my-project", Endpoint: "http://cloud.test", HTTPClient: &http.Client{Transport: a},
		Limits: limits, Logger: discard(),
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

func answer(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			Status: fmt.Sprint(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
		}, nil
	}
}

func noAnswer(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func refusal(reason, message string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"errors":[{"domain":"global","reason":%q,"message":%q}]}}`, message, reason, message)
}

func newer(status, reason, message string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"status":%q,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":%q,"domain":"googleapis.com"}]}}`, message, status, reason)
}

func ended(errs ...string) string {
	return `{"name":"op-1","status":"DONE","httpErrorStatusCode":400,"httpErrorMessage":"BAD REQUEST","error":{"errors":[` + strings.Join(errs, ",") + `]}}`
}

func item(code, message string) string { return fmt.Sprintf(`{"code":%q,"message":%q}`, code, message) }

func TestEveryFailureHasAClass(t *testing.T) {
	const stockout = "The zone 'projects/my-project/zones/us-central1-a' does not have enough resources available to fulfill the request. Try a different zone, or try again later."
	for name, c := range map[string]struct {
		status int
		body   string
		class  cluster.Class
		says   string // in the message
		remedy string // in the remedy
	}{
		"quota": {403, refusal("quotaExceeded", "Quota 'PREEMPTIBLE_NVIDIA_H200_GPUS' exceeded.  Limit: 8.0 in region us-central1."),
			cluster.Quota, "exceeded. Limit", "quota PREEMPTIBLE_NVIDIA_H200_GPUS in us-central1"},
		"limit":            {403, refusal("limitExceeded", "Too many templates"), cluster.Quota, "Too many", "Quotas"},
		"rate, 403":        {403, refusal("rateLimitExceeded", "Quota exceeded for quota metric 'Queries'"), cluster.Throttle, "", "later"},
		"rate of a user":   {403, refusal("userRateLimitExceeded", "Slow down"), cluster.Throttle, "", ""},
		"rate, 429":        {429, refusal("rateLimitExceeded", "Slow down"), cluster.Throttle, "", ""},
		"rate, newer form": {429, newer("RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED", "Quota exceeded"), cluster.Throttle, "", ""},
		"permission": {403, refusal("forbidden", "Required 'compute.instanceGroupManagers.create' permission for 'projects/my-project/zones/us-central1-a/instanceGroupManagers/g'"),
			cluster.Permission, "", "grant the functions' service account roles/compute.instanceAdmin.v1 in project my-project (compute.instanceGroupManagers.create is missing)"},
		"permission on a host project": {403, refusal("forbidden", "Required 'compute.subnetworks.use' permission for 'projects/host-project/regions/us-central1/subnetworks/s'"),
			cluster.Permission, "", "roles/compute.networkUser in project host-project"},
		"permission to act as": {403, refusal("forbidden", "The user does not have access to service account 'x@my-project.iam.gserviceaccount.com'.  Ask a project owner to grant you the iam.serviceAccountUser role on the service account"),
			cluster.Permission, "", "roles/iam.serviceAccountUser"},
		"permission that is not named": {403, refusal("accessDenied", "No."), cluster.Permission, "No.", "the installation asks for in project my-project"},
		"API not enabled": {403, newer("PERMISSION_DENIED", "SERVICE_DISABLED", "Secret Manager API has not been used in project 1 before or it is disabled. Visit https://console.developers.google.com/apis/api/secretmanager.googleapis.com"),
			cluster.Permission, "", "enable secretmanager.googleapis.com in project"},
		"no credentials":      {401, refusal("authError", "Invalid Credentials"), cluster.Permission, "", "credentials are valid"},
		"invalid":             {400, refusal("invalid", "Invalid value for field 'resource.properties.machineType': 'a9'."), cluster.Configuration, "a9", "change the cluster spec"},
		"invalid, newer form": {400, newer("INVALID_ARGUMENT", "", "bad"), cluster.Configuration, "", ""},
		"a field is missing":  {400, refusal("required", "Required field"), cluster.Configuration, "", ""},
		"in use":              {400, refusal("resourceInUseByAnotherResource", "The instance_template resource is already being used"), cluster.Conflict, "", ""},
		"not ready":           {400, refusal("resourceNotReady", "The resource is not ready"), cluster.Conflict, "", ""},
		"precondition":        {400, newer("FAILED_PRECONDITION", "", "it is in use"), cluster.Conflict, "", ""},
		"fingerprint":         {412, refusal("conditionNotMet", "Fingerprint does not match"), cluster.Conflict, "", ""},
		"organization policy": {412, refusal("conditionNotMet", "Constraint constraints/compute.vmExternalIpAccess violated for project my-project."),
			cluster.Configuration, "", "policy of the organization"},
		"referenced thing missing":    {404, refusal("notFound", "The resource 'projects/my-project/global/instanceTemplates/t' was not found"), cluster.NotFound, "t' was not found", ""},
		"a proxy's 404":               {404, `<html>no such page</html>`, cluster.Unknown, "HTTP 404 Not Found", ""},
		"backend":                     {503, refusal("backendError", "Internal error"), cluster.Unknown, "", ""},
		"gateway":                     {502, `<html>`, cluster.Unknown, "HTTP 502 Bad Gateway", ""},
		"stockout at once":            {503, refusal("ZONE_RESOURCE_POOL_EXHAUSTED", stockout), cluster.Capacity, "", ""},
		"reservation used up":         {400, refusal("invalid", "Specified reservation 'r1' does not have available resources for the request."), cluster.Capacity, "", ""},
		"not JSON at all":             {200, `!`, cluster.Unknown, "", ""},
		"an operation without a name": {200, `{}`, cluster.Unknown, "named no operation", ""},

		"operation: stockout":             {200, ended(item("ZONE_RESOURCE_POOL_EXHAUSTED", stockout)), cluster.Capacity, "does not have enough resources", "another zone"},
		"operation: stockout in detail":   {200, ended(item("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", stockout)), cluster.Capacity, "", ""},
		"operation: stockout by type":     {200, ended(item("GPU_TYPE_STOCKOUT", "none left")), cluster.Capacity, "", ""},
		"operation: quota":                {200, ended(item("QUOTA_EXCEEDED", "Quota 'CPUS' exceeded.  Limit: 24.0 in region us-east1.")), cluster.Quota, "", "quota CPUS in us-east1"},
		"operation: quota in its details": {200, ended(`{"code":"QUOTA_EXCEEDED","message":"too many","errorDetails":[{"quotaInfo":{"metricName":"compute.googleapis.com/cpus"}}]}`), cluster.Quota, "", "compute.googleapis.com/cpus"},
		"operation: limit":                {200, ended(item("LIMIT_EXCEEDED", "too many")), cluster.Quota, "", ""},
		"operation: rate":                 {200, ended(item("RESOURCE_OPERATION_RATE_EXCEEDED", "too fast")), cluster.Throttle, "", ""},
		"operation: permission":           {200, ended(item("PERMISSIONS_ERROR", "Required 'compute.disks.create' permission for 'projects/my-project/zones/z/disks/d'")), cluster.Permission, "", "instanceAdmin"},
		"operation: missing":              {200, ended(item("RESOURCE_NOT_FOUND", "The resource 'x' was not found")), cluster.NotFound, "", ""},
		"operation: invalid":              {200, ended(item("INVALID_USAGE", "cannot be so")), cluster.Configuration, "", ""},
		"operation: in use":               {200, ended(item("RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", "used")), cluster.Conflict, "", ""},
		"operation: internal":             {200, ended(item("INTERNAL_ERROR", "oops")), cluster.Unknown, "oops", ""},
		"operation: a code of tomorrow":   {200, ended(item("SOMETHING_NEW", "what?")), cluster.Configuration, "what?", ""}, // by its HTTP status, 400
		"operation: no details":           {200, `{"name":"o","status":"DONE","httpErrorStatusCode":503,"httpErrorMessage":"SERVICE UNAVAILABLE"}`, cluster.Unknown, "SERVICE UNAVAILABLE", ""},

		// A list of errors is as bad as its worst item, and says what else there was: a throttled call among stockouts
		// is not made a stockout of, and what a person must change comes first.
		"throttle, then stockout":      {200, ended(item("RESOURCE_OPERATION_RATE_EXCEEDED", "fast"), item("ZONE_RESOURCE_POOL_EXHAUSTED", stockout)), cluster.Capacity, "throttle", ""},
		"stockout, then permission":    {200, ended(item("ZONE_RESOURCE_POOL_EXHAUSTED", stockout), item("PERMISSIONS_ERROR", "no")), cluster.Permission, "no (and there were errors of class capacity)", ""},
		"only throttles":               {200, ended(item("RESOURCE_OPERATION_RATE_EXCEEDED", "a"), item("RATE_LIMIT_EXCEEDED", "b")), cluster.Throttle, "a", ""},
		"internal error with stockout": {200, ended(item("INTERNAL_ERROR", "a"), item("ZONE_RESOURCE_POOL_EXHAUSTED", stockout)), cluster.Capacity, "unknown", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := &answers{t: t, list: []func(*http.Request) (*http.Response, error){answer(c.status, c.body)}}
			got := cloud.client(Limits{Attempts: 1}).Do(t.Context(), cluster.CreateGroup{Group: "c1-a3u", Zone: "us-central1-a", ID: cluster.RequestID("x")})
			p := got.Problem
			if p == nil {
				t.Fatalf("no problem, but %+v", got)
			}
			if p.Class != c.class || !strings.Contains(p.Message, c.says) || !strings.Contains(p.Remedy, c.remedy) || p.Remedy == "" {
				t.Errorf("got %q, %s\nwant class %q, a message with %q, a remedy with %q", p.Class, p.Error(), c.class, c.says, c.remedy)
			}
			if p.Doing != "creating managed instance group" || p.Resource != "c1-a3u" || p.At.IsZero() {
				t.Errorf("it does not say what was done to what, and when: %+v", p)
			}
			if got.Operation != "" {
				t.Errorf("a failure leaves operation %q to follow", got.Operation)
			}
		})
	}
}

func TestNoAnswerIsUnknown(t *testing.T) {
	for name, err := range map[string]error{
		"refused":  errors.New("dial tcp 10.0.0.1:443: connect: connection refused"),
		"cut":      io.ErrUnexpectedEOF,
		"too late": context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			cloud := &answers{t: t, list: []func(*http.Request) (*http.Response, error){noAnswer(err)}}
			got := cloud.client(Limits{Attempts: 1}).Do(t.Context(), cluster.DeleteGroup{Group: "g", Zone: "us-central1-a", ID: cluster.RequestID("x")})
			want := "no answer from cloud.test: " + err.Error()
			if got.Problem == nil || got.Problem.Class != cluster.Unknown || got.Problem.Message != want {
				t.Errorf("got %+v, want class unknown and %q", got.Problem, want)
			}
		})
	}
}

// A call that was throttled, or whose answer was lost, is made again with the same request id, after growing pauses.
func TestPassingFailuresAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &answers{t: t, list: []func(*http.Request) (*http.Response, error){
			noAnswer(io.ErrUnexpectedEOF),
			answer(429, refusal("rateLimitExceeded", "slow down")),
			answer(200, `{"name":"op-1","status":"RUNNING"}`),
		}}
		began := time.Now()
		id := cluster.RequestID("delete")
		got := cloud.client(Limits{Attempts: 3, Pause: time.Second}).Do(t.Context(), cluster.DeleteGroup{Group: "g", Zone: "us-central1-a", ID: id})
		if got.Problem != nil || got.Operation != "projects/my-project/zones/us-central1-a/operations/op-1" {
			t.Fatalf("got %+v", got)
		}
		if len(cloud.got) != 3 {
			t.Fatalf("%d calls were made, want 3", len(cloud.got))
		}
		for _, r := range cloud.got {
			if r.URL.Query().Get("requestId") != id {
				t.Errorf("%s has another request id", r.URL)
			}
		}
		if took := time.Since(began); took < 2*time.Second || took > 4*time.Second {
			t.Errorf("the pauses took %v: want half to all of 1 s, then of 3 s", took)
		}
	})
}

func TestRetriesEnd(t *testing.T) {
	unavailable := []func(*http.Request) (*http.Response, error){answer(503, refusal("backendError", "try later"))}
	intent := cluster.DeleteGroup{Group: "g", Zone: "us-central1-a", ID: cluster.RequestID("x")}
	t.Run("after so many attempts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cloud := &answers{t: t, list: unavailable}
			got := cloud.client(Limits{Attempts: 4}).Do(t.Context(), intent)
			if len(cloud.got) != 4 || got.Problem == nil || got.Problem.Class != cluster.Unknown {
				t.Errorf("%d calls, %v", len(cloud.got), got.Problem)
			}
		})
	})
	t.Run("before a deadline that a pause would miss", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cloud := &answers{t: t, list: unavailable}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			got := cloud.client(Limits{Attempts: 4, Pause: time.Second}).Do(ctx, intent)
			if len(cloud.got) != 1 || got.Problem == nil || time.Since(began) > 0 {
				t.Errorf("%d calls in %v, %v", len(cloud.got), time.Since(began), got.Problem)
			}
		})
	})
	t.Run("when the caller leaves", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cloud := &answers{t: t, list: unavailable}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			began := time.Now()
			cloud.client(Limits{Attempts: 4, Pause: time.Minute}).Do(ctx, intent)
			if len(cloud.got) != 1 || time.Since(began) != 100*time.Millisecond {
				t.Errorf("%d calls in %v", len(cloud.got), time.Since(began))
			}
		})
	})
	t.Run("at once for what does not pass", func(t *testing.T) {
		for _, body := range []string{refusal("invalid", "no"), refusal("forbidden", "no"), refusal("quotaExceeded", "no"), refusal("ZONE_RESOURCE_POOL_EXHAUSTED", "no")} {
			cloud := &answers{t: t, list: []func(*http.Request) (*http.Response, error){answer(503, body)}}
			cloud.client(Limits{}).Do(t.Context(), intent)
			if len(cloud.got) != 1 {
				t.Errorf("%s: %d calls", body, len(cloud.got))
			}
		}
	})
}

// The clients' list methods ignore the context: a list that hangs must end with the call's time limit all the same, and with
// the caller's own.
func TestAListThatHangsEnds(t *testing.T) {
	hang := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	for name, timeout := range map[string]time.Duration{"the call's limit": time.Hour, "the caller's": 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			cloud := &answers{t: t, list: []func(*http.Request) (*http.Response, error){hang}}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			began := time.Now()
			got := cloud.client(Limits{Attempts: 1, Call: 10 * time.Second}).Observe(ctx, cluster.Query{Instances: true})
			if took, want := time.Since(began), min(timeout, 10*time.Second); took != want {
				t.Errorf("%s: the list ended after %v, want %v", name, took, want)
			}
			if got.Instances != nil || len(got.Problems) != 1 || got.Problems[0].Class != cluster.Unknown {
				t.Errorf("%s: got %+v", name, got)
			}
		})
	}
}

func TestTheLimitOfCallsIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &answers{t: t, list: []func(*http.Request) (*http.Response, error){answer(200, `{}`)}}
		c := cloud.client(Limits{Rate: 2, Burst: 1})
		query := cluster.Query{Machines: make([]cluster.MachineQuery, 9)}
		for i := range query.Machines {
			query.Machines[i] = cluster.MachineQuery{Zone: "us-central1-a", Name: fmt.Sprint("n", i)}
		}
		began := time.Now()
		c.Observe(t.Context(), query)
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("nine calls at two a second took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		got := c.Do(ctx, cluster.DeleteGroup{Group: "g", Zone: "us-central1-a"})
		if got.Problem == nil || got.Problem.Class != cluster.Throttle {
			t.Errorf("a call that its own limit prevents: %v", got.Problem)
		}
	})
}

func TestCapitals(t *testing.T) {
	for in, want := range map[string]string{
		"quotaExceeded": "QUOTA_EXCEEDED", "QUOTA_EXCEEDED": "QUOTA_EXCEEDED", "stockout": "STOCKOUT", "": "",
		"resourceInUseByAnotherResource": "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", "not-ready": "NOT_READY", "error2Big": "ERROR2_BIG",
	} {
		if got := capitals(in); got != want {
			t.Errorf("capitals(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzOneLine(f *testing.F) {
	for _, s := range []string{"", "a\nb", "\x1b[31mred\x1b[0m", "\xff\xfe", strings.Repeat("ü", 1000), "%s %d", "a\u2028b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := oneLine(s)
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\t\x1b\u2028") || utf8.RuneCountInString(got) > maxMessage {
			t.Errorf("oneLine(%q) = %q", s, got)
		}
		if again := oneLine(got); again != got {
			t.Errorf("oneLine is not stable: %q, then %q", got, again)
		}
	})
}
