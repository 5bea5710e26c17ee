package pubsub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

const (
	// pullPatience is how long a Pull waits for a first message before it answers with none.
	pullPatience = time.Minute
	// A batch of pulled messages is bounded in number and bytes.
	maxBatch      = 1000
	maxBatchBytes = 10 << 20
)

var errClosing = status.Error(codes.Unavailable, "the broker is closing")

// A consumer is one who pulls: what it has not settled yet, and how much of that it allows. The lock of its subscription
// guards it.
type consumer struct {
	deadline    time.Duration // of its leases
	messages    int           // outstanding
	bytes       int
	maxMessages int
	maxBytes    int
}

// room is how many messages and bytes the consumer may get now. A stream that has room for one byte gets a message of
// any size, as with the real service.
func (c *consumer) room() (messages, bytes int) {
	messages, bytes = min(c.maxMessages-c.messages, maxBatch), min(c.maxBytes-c.bytes, maxBatchBytes)
	if bytes <= 0 {
		return 0, 0
	}
	return messages, bytes
}

// lease gives the consumer what there is for it, or a channel on which to wait.
func (s *subscription) lease(c *consumer) ([]*pubsubpb.ReceivedMessage, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.retired:
		return nil, nil, notFound(s.name)
	case s.pushes():
		return nil, nil, status.Errorf(codes.FailedPrecondition, "%s is a push subscription, it cannot be pulled from", s.name)
	case s.stopped:
		return nil, nil, errClosing
	}
	now := time.Now()
	s.dropStale(now)
	messages, bytes := c.room()
	taken := s.queue.take(now, messages, bytes, now.Add(c.deadline), c)
	if len(taken) == 0 {
		return nil, s.whenChanged(), nil
	}
	s.counters.delivered += int64(len(taken))
	received := make([]*pubsubpb.ReceivedMessage, len(taken))
	for i, e := range taken {
		received[i] = &pubsubpb.ReceivedMessage{
			AckId:           ackID{e.id, e.lease, s.mark}.String(),
			Message:         e.proto,
			DeliveryAttempt: int32(s.attempt(e)), //nolint:gosec // bounded by the number of refusals
		}
	}
	s.setTimer(now)
	return received, nil, nil
}

func (r subscriber) Pull(ctx context.Context, req *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
	s, err := r.b.subscription(req.GetSubscription())
	if err != nil {
		return nil, err
	}
	if req.MaxMessages <= 0 {
		return nil, faults{"max_messages: must be at least 1"}.err()
	}
	patience := time.NewTimer(pullPatience)
	defer patience.Stop()
	c := &consumer{
		deadline:    time.Duration(s.currentConfig().AckDeadlineSeconds) * time.Second,
		maxMessages: int(req.MaxMessages),
		maxBytes:    math.MaxInt,
	}
	for {
		received, changed, err := s.lease(c)
		if err != nil {
			return nil, err
		}
		if len(received) > 0 || req.ReturnImmediately { //nolint:staticcheck // deprecated, but part of the API
			return &pubsubpb.PullResponse{ReceivedMessages: received}, nil
		}
		select {
		case <-changed:
		case <-patience.C:
			return &pubsubpb.PullResponse{}, nil
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-r.b.consuming.Done():
			return nil, errClosing
		}
	}
}

func (r subscriber) StreamingPull(stream pubsubpb.Subscriber_StreamingPullServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	s, c, err := r.openStream(first)
	if err != nil {
		return err
	}
	properties := &pubsubpb.StreamingPullResponse_SubscriptionProperties{
		MessageOrderingEnabled: s.currentConfig().EnableMessageOrdering,
	}
	requests := make(chan error, 1) // how the stream of requests ended
	pings := make(chan struct{}, 1) // a request without content wants a sign of life
	go func() { requests <- r.readStream(stream, s, c, first, pings) }()
	for {
		received, changed, err := s.lease(c)
		if err != nil {
			return err
		}
		if len(received) == 0 {
			select {
			case <-changed:
				continue
			case <-pings:
			case err := <-requests:
				return err
			case <-stream.Context().Done():
				return status.FromContextError(stream.Context().Err()).Err()
			case <-r.b.consuming.Done():
				return errClosing
			}
		}
		err = stream.Send(&pubsubpb.StreamingPullResponse{ReceivedMessages: received, SubscriptionProperties: properties})
		if err != nil {
			return err
		}
	}
}

// openStream checks a stream's first request.
func (r subscriber) openStream(first *pubsubpb.StreamingPullRequest) (*subscription, *consumer, error) {
	s, err := r.b.subscription(first.GetSubscription())
	if err != nil {
		return nil, nil, err
	}
	c := &consumer{
		deadline:    time.Duration(first.StreamAckDeadlineSeconds) * time.Second,
		maxMessages: math.MaxInt,
		maxBytes:    math.MaxInt,
	}
	var wrong faults
	wrong.addError("stream_ack_deadline_seconds", checkBetween(c.deadline, minAckDeadline, maxAckDeadline))
	if n := first.MaxOutstandingMessages; n > 0 {
		c.maxMessages = int(n)
	}
	if n := first.MaxOutstandingBytes; n > 0 {
		c.maxBytes = int(n)
	}
	return s, c, wrong.err()
}

// readStream carries out a stream's requests until it ends; a client that is done with sending is done.
func (r subscriber) readStream(
	stream pubsubpb.Subscriber_StreamingPullServer, s *subscription, c *consumer,
	req *pubsubpb.StreamingPullRequest, pings chan<- struct{},
) error {
	for first := true; ; first = false {
		if err := s.settle(c, req, first); err != nil {
			return err
		}
		if len(req.AckIds) == 0 && len(req.ModifyDeadlineAckIds) == 0 {
			select {
			case pings <- struct{}{}:
			default:
			}
		}
		var err error
		if req, err = stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// settle carries out one request of a stream.
func (s *subscription) settle(c *consumer, req *pubsubpb.StreamingPullRequest, first bool) error {
	var wrong faults
	if !first && req.Subscription != "" {
		wrong.add("subscription", "may only be set in the first request of a stream")
	}
	if n := req.StreamAckDeadlineSeconds; n != 0 && !first {
		wrong.addError("stream_ack_deadline_seconds", checkBetween(time.Duration(n)*time.Second, minAckDeadline, maxAckDeadline))
	}
	if len(req.ModifyDeadlineAckIds) != len(req.ModifyDeadlineSeconds) {
		wrong.add("modify_deadline_seconds", "are %d for %d ack ids", len(req.ModifyDeadlineSeconds), len(req.ModifyDeadlineAckIds))
	}
	for i, n := range req.ModifyDeadlineSeconds {
		wrong.addError(fmt.Sprintf("modify_deadline_seconds[%d]", i), checkBetween(time.Duration(n)*time.Second, 0, maxAckDeadline))
	}
	acked := s.parseAckIDs(&wrong, "ack_ids", req.AckIds)
	modified := s.parseAckIDs(&wrong, "modify_deadline_ack_ids", req.ModifyDeadlineAckIds)
	if err := wrong.err(); err != nil {
		return err
	}
	s.acknowledgeAll(acked)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := req.StreamAckDeadlineSeconds; n != 0 {
		c.deadline = time.Duration(n) * time.Second
	}
	for i, id := range modified {
		s.modify(id, time.Duration(req.ModifyDeadlineSeconds[i])*time.Second)
	}
	if len(modified) > 0 {
		s.proceed()
	}
	return nil
}

func (r subscriber) Acknowledge(_ context.Context, req *pubsubpb.AcknowledgeRequest) (*emptypb.Empty, error) {
	s, err := r.b.subscription(req.GetSubscription())
	if err != nil {
		return nil, err
	}
	var wrong faults
	ids := s.parseAckIDs(&wrong, "ack_ids", req.AckIds)
	if len(req.AckIds) == 0 {
		wrong.add("ack_ids", "there are none")
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	s.acknowledgeAll(ids)
	return &emptypb.Empty{}, nil
}

func (r subscriber) ModifyAckDeadline(_ context.Context, req *pubsubpb.ModifyAckDeadlineRequest) (*emptypb.Empty, error) {
	s, err := r.b.subscription(req.GetSubscription())
	if err != nil {
		return nil, err
	}
	var wrong faults
	deadline := time.Duration(req.AckDeadlineSeconds) * time.Second
	wrong.addError("ack_deadline_seconds", checkBetween(deadline, 0, maxAckDeadline))
	ids := s.parseAckIDs(&wrong, "ack_ids", req.AckIds)
	if len(req.AckIds) == 0 {
		wrong.add("ack_ids", "there are none")
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.modify(id, deadline)
	}
	s.proceed()
	return &emptypb.Empty{}, nil
}

func (s *subscription) acknowledgeAll(ids []ackID) {
	if len(ids) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.acknowledge(id.message, id.lease)
	}
	s.proceed()
}

// modify gives a lease a new deadline, counted from now; 0 refuses the message. A lease that is over is left alone: the
// message may be somebody else's by now. The subscription's lock is held.
func (s *subscription) modify(id ackID, deadline time.Duration) {
	e := s.queue.entries[id.message]
	if e == nil || !e.leased || e.lease != id.lease || e.at < 0 { // the last: settled, but still kept
		return
	}
	now := time.Now()
	if deadline == 0 {
		s.counters.nacked++
		s.refuse(e, now)
		return
	}
	s.queue.extend(e, now.Add(deadline))
}

// An ackID names one lease of one message in one subscription. Clients take it for opaque.
type ackID struct {
	message uint64
	lease   uint64
	mark    uint32 // of the subscription
}

func (a ackID) String() string {
	return strconv.FormatUint(a.message, 10) + "-" + strconv.FormatUint(a.lease, 10) + "-" + strconv.FormatUint(uint64(a.mark), 16)
}

func parseAckID(text string) (ackID, error) {
	parts := strings.Split(text, "-")
	if len(parts) != 3 {
		return ackID{}, fmt.Errorf("%.60q is not an ack id", text)
	}
	message, err1 := strconv.ParseUint(parts[0], 10, 64)
	lease, err2 := strconv.ParseUint(parts[1], 10, 64)
	mark, err3 := strconv.ParseUint(parts[2], 16, 32)
	if err1 != nil || err2 != nil || err3 != nil {
		return ackID{}, fmt.Errorf("%.60q is not an ack id", text)
	}
	return ackID{message: message, lease: lease, mark: uint32(mark)}, nil
}

func (s *subscription) parseAckIDs(wrong *faults, field string, texts []string) []ackID {
	ids := make([]ackID, 0, len(texts))
	for i, text := range texts {
		id, err := parseAckID(text)
		if err == nil && id.mark != s.mark {
			err = fmt.Errorf("%.60q is of another subscription", text)
		}
		wrong.addError(fmt.Sprintf("%s[%d]", field, i), err)
		ids = append(ids, id)
	}
	return ids
}
