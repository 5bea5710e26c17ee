package pubsub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

const (
	defaultAddr      = "127.0.0.1:0"
	defaultMaxPushes = 64

	// The largest request that the API reads: 10 MB of messages and what surrounds them. A larger one is refused by
	// gRPC itself.
	maxRequestBytes = 20 << 20
)

// Options of a broker. The zero value is a broker in memory on a free port of the loopback interface.
type Options struct {
	// Addr is where the gRPC API listens; "127.0.0.1:0" if empty. There is no authentication: keep it on loopback.
	Addr string
	// File keeps topics, subscriptions and unacknowledged messages (bbolt). One broker at a time may have it open.
	// Empty: in memory.
	File string
	// Handlers serve the push endpoints on these hosts ("functions.local", "localhost:8080") in process, without a
	// socket. Endpoints on other hosts are reached over the network.
	Handlers map[string]http.Handler
	// MaxPushes bounds how many pushes of one subscription are under way at once; 64 if zero. Each subscription starts
	// with a few and comes to this bound by succeeding.
	MaxPushes int
	// Logger hears about the broker's own faults and about dead letters, never a message's data; [slog.Default] if nil.
	Logger *slog.Logger
}

// A Broker is a running Pub/Sub service. Its methods may be called concurrently.
type Broker struct {
	log       *slog.Logger
	journal   journal
	transport *transport
	maxPushes int
	server    *grpc.Server
	listener  net.Listener
	served    chan struct{} // closed when the server has stopped; nil without one

	work     workload       // messages that wait for a push endpoint
	inFlight sync.WaitGroup // pushes and dead letters under way

	pushing    context.Context // ends when pushes must be given up
	endPushes  context.CancelFunc
	consuming  context.Context // ends when pulls and streams must end
	endConsume context.CancelFunc

	// mu guards what follows. It is taken before any subscription's own lock, never after, and never while changes are
	// being applied, since whoever submits one may hold it.
	mu            sync.Mutex
	topics        map[string]*topic
	subscriptions map[string]*subscription
	lastID        uint64
	closing       bool

	closeOnce sync.Once
	closeErr  error
}

// New starts a broker: it reads the file, serves the API, and goes on pushing what was not acknowledged when the last
// broker on the file ended.
func New(o Options) (*Broker, error) {
	listener, err := net.Listen("tcp", cmp.Or(o.Addr, defaultAddr))
	if err != nil {
		return nil, fmt.Errorf("starting the Pub/Sub broker, %w", err)
	}
	b, err := open(o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the Pub/Sub broker, %w", err), listener.Close())
	}
	b.serve(listener)
	return b, nil
}

// open makes a broker that does not listen.
func open(o Options) (*Broker, error) {
	log := o.Logger
	if log == nil {
		log = slog.Default()
	}
	b := &Broker{
		log:           log,
		journal:       &memoryJournal{},
		maxPushes:     o.MaxPushes,
		topics:        map[string]*topic{},
		subscriptions: map[string]*subscription{},
		// Ids go on rising when a broker starts without a file or with a new one, so that what remembers ids of an
		// earlier run does not take new messages for old ones.
		lastID: uint64(max(time.Now().UnixMicro(), 0)),
	}
	if b.maxPushes <= 0 {
		b.maxPushes = defaultMaxPushes
	}
	b.transport = newTransport(o.Handlers, b.maxPushes, log)
	b.pushing, b.endPushes = context.WithCancel(context.Background())
	b.consuming, b.endConsume = context.WithCancel(context.Background())
	if o.File == "" {
		return b, nil
	}
	j, err := openJournal(o.File, log)
	if err != nil {
		return nil, err
	}
	kept, err := j.load()
	if err == nil {
		err = b.restore(kept)
	}
	if err != nil {
		return nil, errors.Join(err, j.close())
	}
	b.journal = j
	for _, config := range kept.subscriptions {
		b.subscriptions[config.Name].start()
	}
	return b, nil
}

// restore takes over what a journal kept.
func (b *Broker) restore(kept snapshot) error {
	if kept.dangling > 0 {
		b.log.Error("pubsub: the journal lost messages that had not been acknowledged", "messages", kept.dangling)
	}
	b.lastID = max(b.lastID, kept.lastID)
	for _, config := range kept.topics {
		b.topics[config.Name] = &topic{config: config}
	}
	for _, config := range kept.subscriptions {
		s, err := b.newSubscription(config)
		if err != nil {
			return fmt.Errorf("subscription %s, %w", config.Name, err)
		}
		for _, item := range kept.backlogs[config.Name] {
			s.queue.add(item.message, item.refusals)
		}
		b.attach(s)
	}
	return nil
}

// attach makes a subscription known to the broker and to its topic.
func (b *Broker) attach(s *subscription) {
	b.subscriptions[s.name] = s
	if t := b.topics[s.config.Topic]; t != nil {
		t.attach(s)
	}
}

func (b *Broker) serve(listener net.Listener) {
	b.listener = listener
	b.served = make(chan struct{})
	b.server = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	pubsubpb.RegisterPublisherServer(b.server, publisher{b: b})
	pubsubpb.RegisterSubscriberServer(b.server, subscriber{b: b})
	go func() {
		defer close(b.served)
		if err := b.server.Serve(listener); err != nil {
			b.log.Error("pubsub: serving the API ended", "error", err)
		}
	}()
}

// Addr is the host and port of the gRPC API: the value for PUBSUB_EMULATOR_HOST.
func (b *Broker) Addr() string { return b.listener.Addr().String() }

// Idle waits until no message waits for a push endpoint or is being pushed, or until ctx ends; its error is then the
// context's. Messages that wait for somebody to pull them do not count.
func (b *Broker) Idle(ctx context.Context) error { return b.work.wait(ctx) }

// Close stops pushing, waits for the pushes under way until ctx ends, and then ends the API and the file. What is not
// acknowledged by then stays in the file. While pushes are waited for, the API still serves their handlers.
func (b *Broker) Close(ctx context.Context) error {
	b.closeOnce.Do(func() { b.closeErr = b.close(ctx) })
	return b.closeErr
}

func (b *Broker) close(ctx context.Context) error {
	b.mu.Lock()
	b.closing = true
	for _, s := range b.subscriptions {
		s.stop()
	}
	b.mu.Unlock()

	var late error
	if !waitFor(ctx, &b.inFlight) {
		late = fmt.Errorf("closing the Pub/Sub broker with pushes under way, %w", context.Cause(ctx))
	}
	b.endPushes()
	b.inFlight.Wait() // they end with their context
	if !waitFor(ctx, &b.transport.running) && late == nil {
		late = fmt.Errorf("closing the Pub/Sub broker while a push handler still runs, %w", context.Cause(ctx))
	}
	b.endConsume()
	if b.server != nil {
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			b.server.GracefulStop()
		}()
		select {
		case <-stopped:
		case <-ctx.Done():
			b.server.Stop()
			<-stopped
		}
		<-b.served
	}
	b.transport.network.CloseIdleConnections()
	return errors.Join(late, b.journal.close())
}

// waitFor waits for the group until ctx ends, and says whether the group was done.
func waitFor(ctx context.Context, group *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		group.Wait()
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// A workload counts messages, and tells when there are none.
type workload struct {
	mu    sync.Mutex
	count int
	none  chan struct{} // closed when count comes to 0; nil while nobody waits
}

func (w *workload) add(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count += n
	if w.count == 0 && w.none != nil {
		close(w.none)
		w.none = nil
	}
}

func (w *workload) wait(ctx context.Context) error {
	w.mu.Lock()
	if w.count == 0 {
		w.mu.Unlock()
		return nil
	}
	if w.none == nil {
		w.none = make(chan struct{})
	}
	none := w.none
	w.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the Pub/Sub backlog, %w", ctx.Err())
	}
}
