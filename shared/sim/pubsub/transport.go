package pubsub

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync"
	"time"
)

// A transport carries pushes to their endpoints: to handlers in this process, or over the network.
type transport struct {
	client   *http.Client
	network  *http.Transport
	handlers map[string]http.Handler // by host
	running  sync.WaitGroup          // handlers, those included whose push has timed out
	log      *slog.Logger
}

func newTransport(handlers map[string]http.Handler, maxPushes int, log *slog.Logger) *transport {
	t := &transport{
		handlers: handlers,
		log:      log,
		network: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			MaxIdleConnsPerHost: 4 * maxPushes, // several subscriptions often push to one host
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true,
		},
	}
	t.client = &http.Client{
		Transport: t,
		// A redirect is not an acknowledgement, and is not followed.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return t
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if h := t.handlers[req.URL.Host]; h != nil {
		return t.serve(h, req)
	}
	return t.network.RoundTrip(req)
}

// serve lets a handler answer the request. As over the network, the caller does not wait longer than the request's
// context, while the handler may go on.
func (t *transport) serve(h http.Handler, req *http.Request) (*http.Response, error) {
	answer := &recorder{header: http.Header{}, processing: make(chan struct{})}
	done := make(chan error, 1)
	t.running.Add(1)
	go func() {
		defer t.running.Done()
		done <- t.run(h, answer, serverRequest(req))
	}()
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
		return answer.response(req), nil
	case <-answer.processing:
		return newResponse(req, http.StatusProcessing, nil, nil), nil
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
}

// run calls the handler; a panic is a connection that broke.
func (t *transport) run(h http.Handler, answer *recorder, req *http.Request) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		err = fmt.Errorf("the push handler panicked: %v", p)
		if p != http.ErrAbortHandler { //nolint:errorlint // a panic value, compared as net/http does
			t.log.Error("pubsub: a push handler panicked", "path", req.URL.Path, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	h.ServeHTTP(answer, req)
	return nil
}

// serverRequest is the request as a server sees it.
func serverRequest(req *http.Request) *http.Request {
	in := req.Clone(req.Context())
	in.RequestURI = req.URL.RequestURI()
	in.URL = &url.URL{Path: req.URL.Path, RawPath: req.URL.RawPath, RawQuery: req.URL.RawQuery}
	in.Host = req.URL.Host
	in.RemoteAddr = "127.0.0.1:0"
	in.GetBody = nil
	if in.Body == nil {
		in.Body = http.NoBody
	}
	return in
}

// maxAnswer is how much of an answer's body is kept: enough to say in a log what was wrong.
const maxAnswer = 1 << 10

// A recorder is the [http.ResponseWriter] of a handler in this process. It belongs to the handler's goroutine until the
// handler returns, except for processing.
type recorder struct {
	header     http.Header
	code       int
	body       bytes.Buffer
	processing chan struct{} // closed when the handler says 102
	early      bool
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(code int) {
	switch {
	case code == http.StatusProcessing && !r.early:
		r.early = true
		close(r.processing)
	case code >= http.StatusOK && r.code == 0:
		r.code = code
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if room := maxAnswer - r.body.Len(); room > 0 {
		r.body.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// Flush implements [http.Flusher]; there is nothing between the handler and the recorder.
func (r *recorder) Flush() { r.WriteHeader(http.StatusOK) }

func (r *recorder) response(req *http.Request) *http.Response {
	r.WriteHeader(http.StatusOK)
	return newResponse(req, r.code, r.header, r.body.Bytes())
}

func newResponse(req *http.Request, code int, header http.Header, body []byte) *http.Response {
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", code, http.StatusText(code)),
		StatusCode: code,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     header,
		Body:       io.NopCloser(bytes.NewReader(body)),
		Request:    req,
	}
}
