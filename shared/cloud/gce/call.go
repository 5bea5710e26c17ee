package gce

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	gax "github.com/googleapis/gax-go/v2"
	"google.golang.org/api/option"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// once turns the clients' own retries off: they would take their jitter from a global source and know no bound but the
// context's deadline.
var once = gax.WithRetry(func() gax.Retryer { return nil })

// attempt makes one call, within the limits.
func attempt[T any](ctx context.Context, c *Client, call func(context.Context) (T, error)) (T, error) {
	var none T
	if err := c.limiter.Wait(ctx); err != nil {
		return none, &cluster.Problem{
			Class:   cluster.Throttle,
			Message: fmt.Sprintf("no call could be made within the limit of %g a second that this program keeps (%v)", float64(c.limits.Rate), err),
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.limits.Call)
	defer cancel()
	return call(ctx)
}

// persist makes a call that is harmless to make twice, and makes it again when it was throttled or had no answer.
func persist[T any](ctx context.Context, c *Client, call func(context.Context) (T, error)) (T, error) {
	for try := 1; ; try++ {
		value, err := attempt(ctx, c, call)
		if err == nil || try == c.limits.Attempts || !passing(err) || !c.pause(ctx, try, err) {
			return value, err
		}
	}
}

// passing reports whether a call that failed like this may work when it is made again at once.
func passing(err error) bool {
	faults := faultsOf(err)
	f := faults[worst(faults)]
	switch f.class() {
	case cluster.Throttle:
		return true
	case cluster.Unknown:
		switch f.status {
		case 0, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
	}
	return false
}

// pause waits before another attempt, and reports whether there is time for one.
func (c *Client) pause(ctx context.Context, try int, err error) bool {
	longest := c.limits.Pause
	for range try - 1 {
		longest *= 3
	}
	wait := longest/2 + time.Duration(c.jitter(uint64(longest/2)+1)) //nolint:gosec // a pause fits
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false
	}
	c.logger.LogAttrs(ctx, slog.LevelInfo, "calling Google Cloud again",
		slog.Int("attempt", try+1), slog.Duration("after", wait), slog.String("since", oneLine(err.Error())))
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// jitter is a random number below n. A source that fails costs no more than the jitter.
func (c *Client) jitter(n uint64) uint64 {
	var b [8]byte
	if err := c.readRandom(b[:]); err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b[:]) % n
}

func (c *Client) readRandom(b []byte) error {
	c.randomLock.Lock()
	defer c.randomLock.Unlock()
	_, err := io.ReadFull(c.random, b)
	return err
}

// read makes a call that changes nothing.
func read[Request, Answer any](ctx context.Context, c *Client, method func(context.Context, Request, ...gax.CallOption) (Answer, error), request Request) (Answer, error) {
	return persist(ctx, c, func(ctx context.Context) (Answer, error) { return method(ctx, request, once) })
}

// mutate makes a call that begins a Compute Engine operation, and returns the operation's path: "" when it is over already.
// The scope is "global" or "zones/ZONE".
func mutate[Request any](ctx context.Context, c *Client, scope string, method func(context.Context, Request, ...gax.CallOption) (*compute.Operation, error), request Request) (string, error) {
	op, err := persist(ctx, c, func(ctx context.Context) (*compute.Operation, error) { return method(ctx, request, once) })
	if err != nil {
		return "", err
	}
	if err := operationFailure(op.Proto()); err != nil {
		return "", err
	}
	if op.Done() {
		return "", nil
	}
	if op.Name() == "" {
		return "", fmt.Errorf("the service accepted the call and named no operation")
	}
	return "projects/" + c.project + "/" + scope + "/operations/" + op.Name(), nil
}

// requestID is an intent's request id as a call's parameter.
func requestID(intent cluster.Intent) *string {
	if id := intent.Request(); id != "" {
		return &id
	}
	return nil
}

// The clients' list methods leave the context out of the requests that they make, so that neither a deadline nor a
// cancellation reaches them; nor can they be asked for parts of an answer. So a list is read with a client of its own, whose
// transport adds both. Making one takes 15 µs.
type lister struct {
	ctx    context.Context
	fields string // a field mask; "" for all fields
	base   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (l *lister) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(l.ctx)
	if l.fields != "" {
		q := r.URL.Query()
		q.Set("fields", l.fields)
		r.URL.RawQuery = q.Encode()
	}
	base := l.base
	if base == nil {
		base = http.DefaultTransport
	}
	return base.RoundTrip(r)
}

// listing makes a client for one page of a list.
func listing[T any](ctx context.Context, c *Client, fields string, construct constructor[T]) (*T, error) {
	client := *c.http
	client.Transport = &lister{ctx: ctx, fields: fields, base: c.http.Transport}
	return construct(ctx, append(c.base[:len(c.base):len(c.base)], option.WithHTTPClient(&client))...)
}

// page is one page of a list: the clients' InternalFetch is of this form. It is used rather than Next, which skips a page
// without entries and the warnings that come with it.
type page[T any] func(size int, token string) (entries []T, next string, err error)

// pages reads a list to its end, a page at a time, and hands each page's entries to each.
func pages[T any](ctx context.Context, c *Client, fetch func(ctx context.Context) (page[T], error), each func([]T)) error {
	type result struct {
		entries []T
		next    string
	}
	for token := ""; ; {
		got, err := persist(ctx, c, func(ctx context.Context) (result, error) {
			fetch, err := fetch(ctx)
			if err != nil {
				return result{}, err
			}
			entries, next, err := fetch(c.limits.Page, token)
			return result{entries, next}, err
		})
		if err != nil {
			return err
		}
		each(got.entries)
		if got.next == "" {
			return nil
		}
		if got.next == token {
			return fmt.Errorf("the list goes on with the page that it had reached, for ever")
		}
		token = got.next
	}
}
