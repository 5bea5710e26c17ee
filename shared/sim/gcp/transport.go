package gcp

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"

	"google.golang.org/api/option"
)

// Transport is a round tripper that hands requests to the simulator within
// the process, without a socket: it also works where package time is virtual.
// The caller's goroutine does the work.
func (s *Server) Transport() http.RoundTripper { return inProcess{s} }

// ClientOptions let any of the official REST clients use the simulator within
// the process.
func (s *Server) ClientOptions() []option.ClientOption {
	return []option.ClientOption{
		option.WithEndpoint("http://gcp.simulated"),
		option.WithHTTPClient(&http.Client{Transport: s.Transport()}),
	}
}

var errConnectionLost = errors.New("the simulated connection was lost: there is no answer")

type inProcess struct{ handler http.Handler }

// RoundTrip implements [http.RoundTripper].
func (t inProcess) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	if r.Body == nil {
		r = r.Clone(r.Context())
		r.Body = http.NoBody
	}
	defer func() { _ = r.Body.Close() }() // nothing was written to it
	defer func() {
		if p := recover(); p != nil {
			if p != any(http.ErrAbortHandler) {
				panic(p)
			}
			resp, err = nil, errConnectionLost
			if cause := r.Context().Err(); cause != nil {
				err = cause
			}
		}
	}()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := &response{header: http.Header{}}
	t.handler.ServeHTTP(w, r)
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header, Request: r,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()),
	}, nil
}

type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
