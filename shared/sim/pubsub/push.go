package pubsub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"golang.org/x/net/http/httpguts"
)

const (
	pushUserAgent   = "CloudPubSub-Google"
	publishedFormat = "2006-01-02T15:04:05.999Z07:00"
)

// An envelope is the body of a wrapped push, as the real service sends it: ids and times in both spellings.
type envelope struct {
	DeliveryAttempt int             `json:"deliveryAttempt,omitempty"`
	Message         envelopeMessage `json:"message"`
	Subscription    string          `json:"subscription"`
}

type envelopeMessage struct {
	Attributes       map[string]string `json:"attributes,omitempty"`
	Data             []byte            `json:"data,omitempty"` // base64
	MessageID        string            `json:"messageId"`
	MessageIDSnake   string            `json:"message_id"`
	OrderingKey      string            `json:"orderingKey,omitempty"`
	PublishTime      string            `json:"publishTime"`
	PublishTimeSnake string            `json:"publish_time"`
}

// A pushJob is one delivery to an endpoint, with the configuration that was in force when it began.
type pushJob struct {
	entry        *entry
	lease        uint64
	subscription string
	config       *pubsubpb.PushConfig
	attempt      int // 0 is not sent
	timeout      time.Duration
}

// startPushes begins as many pushes as the window allows. The subscription's lock is held.
func (s *subscription) startPushes(now time.Time) {
	for s.window.open(now, s.pushing) {
		// Without a deadline: a push always ends, by the request's timeout at the latest.
		taken := s.queue.take(now, 1, math.MaxInt, time.Time{}, nil)
		if len(taken) == 0 {
			return
		}
		e := taken[0]
		s.pushing++
		s.counters.delivered++
		s.b.inFlight.Add(1)
		go s.push(pushJob{
			entry:        e,
			lease:        e.lease,
			subscription: s.name,
			config:       s.config.PushConfig,
			attempt:      s.attempt(e),
			timeout:      s.ackDeadline(),
		})
	}
}

// push makes one delivery and draws the consequences.
func (s *subscription) push(job pushJob) {
	defer s.b.inFlight.Done()
	err := s.b.transport.deliver(s.b.pushing, job)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.pushing--
	if s.retired {
		return
	}
	now := time.Now()
	e := job.entry
	current := !e.gone && e.leased && e.lease == job.lease
	switch {
	case err == nil:
		s.window.success()
		s.acknowledge(e.id, job.lease)
	case s.b.pushing.Err() != nil:
		// Given up by the broker, not refused by the endpoint: the message waits for the next broker.
	case current:
		s.counters.nacked++
		s.refuse(e, now)
		s.slowDown(now, job, err)
	}
	s.proceed()
}

// slowDown narrows the window after a refusal, and pauses a subscription whose endpoint refuses everything.
func (s *subscription) slowDown(now time.Time, job pushJob, err error) {
	ill := s.window.refusal(now)
	s.b.log.Debug("pubsub: push refused", "subscription", s.name, "message", job.entry.proto.MessageId,
		"refusals", job.entry.refusals, "error", err)
	if ill {
		s.b.log.Warn("pubsub: the push endpoint refuses everything, pushes are slowed down",
			"subscription", s.name, "endpoint", job.config.PushEndpoint, "refusals", illAfter, "error", err)
	}
}

// errProcessing ends a request whose endpoint said 102: the message is acknowledged, the rest of the answer is not read.
var errProcessing = errors.New("102 Processing")

// deliver makes one POST. Nil means that the endpoint acknowledged the message.
func (t *transport) deliver(ctx context.Context, job pushJob) error {
	ctx, cancel := context.WithTimeoutCause(ctx, job.timeout, fmt.Errorf("no answer within the ack deadline of %v", job.timeout))
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			if code == http.StatusProcessing {
				return errProcessing
			}
			return nil
		},
	})
	req, err := pushRequest(ctx, job)
	if err != nil {
		return err
	}
	res, err := t.client.Do(req)
	switch {
	case errors.Is(err, errProcessing):
		return nil
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	}
	defer func() { _ = res.Body.Close() }()
	const excerpt = 200
	said, _ := io.ReadAll(io.LimitReader(res.Body, excerpt))
	// Read on, within reason, so that the connection can be used again.
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
	if acknowledges(res.StatusCode) {
		return nil
	}
	return fmt.Errorf("the endpoint answered %s: %q", res.Status, said)
}

// acknowledges reports whether a push that was answered with this status is acknowledged.
// Source: cloud.google.com/pubsub/docs/push, "Receive messages".
func acknowledges(code int) bool {
	switch code {
	case http.StatusProcessing, http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent:
		return true
	}
	return false
}

func pushRequest(ctx context.Context, job pushJob) (*http.Request, error) {
	m := job.entry.proto
	published := m.PublishTime.AsTime().Format(publishedFormat)
	unwrapped := job.config.GetNoWrapper()
	body := m.Data
	if unwrapped == nil {
		var err error
		body, err = json.Marshal(envelope{
			DeliveryAttempt: job.attempt,
			Message: envelopeMessage{
				Attributes:       m.Attributes,
				Data:             m.Data,
				MessageID:        m.MessageId,
				MessageIDSnake:   m.MessageId,
				OrderingKey:      m.OrderingKey,
				PublishTime:      published,
				PublishTimeSnake: published,
			},
			Subscription: job.subscription,
		})
		if err != nil {
			return nil, fmt.Errorf("encoding message %s, %w", m.MessageId, err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, job.config.PushEndpoint, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("addressing %s, %w", job.config.PushEndpoint, err)
	}
	req.Header.Set("User-Agent", pushUserAgent)
	req.Header.Set("Content-Type", "application/json")
	if unwrapped.GetWriteMetadata() {
		writeMetadata(req.Header, job, published)
	}
	return req, nil
}

// writeMetadata puts what an unwrapped push leaves out of the body into headers. Attributes that cannot be headers are
// left out.
func writeMetadata(header http.Header, job pushJob, published string) {
	m := job.entry.proto
	for key, value := range m.Attributes {
		if httpguts.ValidHeaderFieldName(key) && httpguts.ValidHeaderFieldValue(value) {
			header.Set(key, value)
		}
	}
	header.Set("X-Goog-Pubsub-Subscription-Name", job.subscription)
	header.Set("X-Goog-Pubsub-Message-Id", m.MessageId)
	header.Set("X-Goog-Pubsub-Publish-Time", published)
	if m.OrderingKey != "" && httpguts.ValidHeaderFieldValue(m.OrderingKey) {
		header.Set("X-Goog-Pubsub-Ordering-Key", m.OrderingKey)
	}
}
