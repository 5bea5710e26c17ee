package local

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/convoke-hpc/convoke/shared/sim/machines"
)

// switchboard passes requests to the functions by the first part of their path. Until there are functions, requests
// wait: the broker goes on pushing what is left from the last run as soon as it is opened.
type switchboard struct {
	ready chan struct{}
	to    map[string]http.Handler
}

func newSwitchboard() *switchboard { return &switchboard{ready: make(chan struct{})} }

// open lets the requests through. It is called once.
func (s *switchboard) open(to map[string]http.Handler) {
	s.to = to
	close(s.ready)
}

// ServeHTTP implements http.Handler.
func (s *switchboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.ready:
	case <-r.Context().Done():
		http.Error(w, "this process is starting; try again", http.StatusServiceUnavailable)
		return
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	h, ok := s.to[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h.ServeHTTP(w, r)
}

// StatusPath is where a Status is served.
const StatusPath = "/sim/local"

// handler is everything that is served over HTTP.
func (l *Local) handler() http.Handler {
	mux := http.NewServeMux()
	functions := l.gate.Wrap(l.board)
	for name := range l.app.Handlers() {
		mux.Handle("/"+name, functions)
		mux.Handle("/"+name+"/", functions)
	}
	mux.Handle("/v1beta1/", below("/api", functions)) // where a deployment's API service has it
	mux.Handle("/compute/", l.world.cloud)
	mux.Handle("/v1/", l.world.cloud)
	mux.Handle("/sim/", l.world.cloud)
	pubsubRoutes(mux, l.bus.client)
	mux.Handle(machines.ControlPrefix, l.world.guests.Handler())
	mux.HandleFunc("GET "+StatusPath, func(w http.ResponseWriter, r *http.Request) {
		s, err := l.Status(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s) // a client that has gone hears nothing
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/console/", http.StatusFound) })
	return mux
}

// below serves requests as if they had been made below a prefix.
func below(prefix string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u := *r.URL
		u.Path = prefix + u.Path
		if u.RawPath != "" {
			u.RawPath = prefix + u.RawPath
		}
		inner := *r
		inner.URL = &u
		h.ServeHTTP(w, &inner)
	})
}
