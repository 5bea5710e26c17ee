package gcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// A route leads one API method to what carries it out. do runs under the
// lock.
type route struct {
	method  string
	pattern string // of http.ServeMux, perhaps with a ":verb" at its end
	name    string // "compute.instances.insert": what faults and the journal call it
	do      func(*Server, *call) (wire, error)
}

// A call is one request to one route.
type call struct {
	r           *http.Request
	route       route
	query       url.Values
	body        []byte
	requestID   string
	fingerprint string // of everything but the requestId
}

// path is a variable of the route's pattern.
func (c *call) path(name string) string {
	value := c.r.PathValue(name)
	if verb := c.route.verb(); verb != "" {
		value = strings.TrimSuffix(value, ":"+verb)
	}
	return value
}

// key is the requested path below the project.
func (c *call) key() string {
	_, rest, _ := strings.Cut(c.r.URL.Path, "/projects/")
	_, key, _ := strings.Cut(rest, "/")
	return key
}

// decode reads the body into m. Unknown fields are ignored, as the service
// does.
func (c *call) decode(m proto.Message) error {
	if len(bytes.TrimSpace(c.body)) == 0 {
		return nil
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true, AllowPartial: true}).Unmarshal(c.body, m); err != nil {
		return undecodable(err)
	}
	return nil
}

func (r route) verb() string {
	i := strings.LastIndexByte(r.pattern, ':')
	if i < strings.LastIndexByte(r.pattern, '/') {
		return ""
	}
	return r.pattern[i+1:]
}

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	verbs := map[string]map[string]route{} // by method and path
	for _, routes := range [][]route{
		catalogRoutes(), networkRoutes(), templateRoutes(), diskRoutes(), instanceRoutes(), groupRoutes(),
		requestRoutes(), operationRoutes(), filestoreRoutes(), secretRoutes(),
	} {
		for _, rt := range routes {
			at := rt.method + " " + strings.TrimSuffix(rt.pattern, ":"+rt.verb())
			if verbs[at] == nil {
				verbs[at] = map[string]route{}
				mux.Handle(at, s.endpoint(verbs[at]))
			}
			verbs[at][rt.verb()] = rt
		}
	}
	s.controlRoutes(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		respondError(w, r, &apiError{
			status: http.StatusNotFound, reason: "notFound",
			message: fmt.Sprintf("The simulated cloud has no method %s %s.", r.Method, r.URL.Path),
		})
	})
	return mux
}

// ServeHTTP answers a request of any of the APIs.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

const maxBody = 32 << 20

func (s *Server) endpoint(verbs map[string]route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last := lastSegment(r.URL.Path)
		_, verb, _ := strings.Cut(last, ":")
		rt, ok := verbs[verb]
		if !ok {
			respondError(w, r, &apiError{status: http.StatusNotFound, reason: "notFound", message: "There is no method :" + verb})
			return
		}
		c := &call{r: r, route: rt, query: r.URL.Query()}
		entry := s.journal.begin(c, s.Now())
		answer, err := s.answer(c, http.MaxBytesReader(w, r.Body, maxBody))
		if errors.Is(err, http.ErrAbortHandler) {
			s.journal.end(entry, 0, "", s.Now())
			panic(http.ErrAbortHandler) // the answer is lost
		}
		s.journal.end(entry, statusOf(err), reasonOf(err), s.Now())
		if err != nil {
			respondError(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		_, _ = w.Write(answer) // the client has gone; there is nobody to tell
	})
}

// answer carries the call out, with the faults that are planned for it.
func (s *Server) answer(c *call, body io.Reader) (wire, error) {
	var err error
	if c.body, err = io.ReadAll(body); err != nil {
		return nil, invalid("The request's body cannot be read: %v.", err)
	}
	fault := s.faults.next(c)
	if err := fault.before(c.r.Context()); err != nil {
		return nil, err
	}
	var answer wire
	var refused error
	err = s.locked(func() { answer, refused = s.dispatch(c) })
	if err = errors.Join(err, refused); err != nil {
		return nil, err
	}
	if c.route.name == waitRoute {
		if answer, err = s.waitForOperation(c, answer); err != nil {
			return nil, err
		}
	}
	if fields := c.query.Get("fields"); fields != "" {
		mask, err := parseFieldMask(fields)
		if err != nil {
			return nil, err
		}
		if answer, err = mask.apply(answer); err != nil {
			return nil, err
		}
	}
	return answer, fault.after()
}

// dispatch checks what all methods have in common. The lock is held.
func (s *Server) dispatch(c *call) (wire, error) {
	if project := c.path("project"); !s.isProject(project) {
		return nil, notFound("projects/" + project)
	}
	if zone := c.path("zone"); zone != "" && s.regionOf[zone] == "" {
		return nil, invalidField("zone", zone, "Unknown zone.")
	}
	if region := c.path("region"); region != "" && s.opts.Regions[region] == nil {
		return nil, invalidField("region", region, "Unknown region.")
	}
	if id := c.query.Get("requestId"); id != "" && c.r.Method != http.MethodGet {
		answer, err := s.sameRequest(c, id)
		if answer != nil || err != nil {
			return answer, err
		}
	}
	return c.route.do(s, c)
}

// sameRequest answers a request that was made before with the operation that
// it started.
func (s *Server) sameRequest(c *call, id string) (wire, error) {
	parsed, err := uuid.Parse(id)
	if err != nil || parsed == uuid.Nil {
		return nil, invalidField("requestId", id, "Must be a valid, non-zero UUID.")
	}
	c.requestID = id
	c.fingerprint = c.print()
	op := s.operations.get(s.byID[id])
	if op == nil || s.now.Sub(op.State.Started) > s.delays().RequestID {
		return nil, nil
	}
	if op.State.Fingerprint != c.fingerprint {
		return nil, invalidField("requestId", id, "The request id was used before by a request with different parameters.")
	}
	return encode(op.Wire)
}

// print identifies what a request asks for. Two encodings of one body are the
// same request.
func (c *call) print() string {
	query := url.Values{}
	for name, values := range c.query {
		if name != "requestId" && name != "alt" && name != "prettyPrint" && name != "fields" {
			query[name] = values
		}
	}
	var body any
	if err := json.Unmarshal(c.body, &body); err != nil {
		body = string(c.body)
	}
	return fingerprint(c.r.Method, c.r.URL.Path, query.Encode(), body)
}

func statusOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	var e *apiError
	if errors.As(err, &e) {
		return e.status
	}
	return http.StatusServiceUnavailable
}

func reasonOf(err error) string {
	var e *apiError
	if errors.As(err, &e) {
		return e.reason
	}
	return ""
}
