package steward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cloud"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/decide"
	"github.com/convoke-hpc/convoke/shared/store"
)

// Commander sends commands to the agents on the controllers.
type Commander interface {
	Command(ctx context.Context, c *events.SlurmCommand) error
}

// Waker has a cluster woken soon by some invocation, this one or another.
type Waker interface {
	Wake(ctx context.Context, key cluster.Key) error
}

// Config is what a steward is made of. All fields but the last are needed.
type Config struct {
	Store    store.Store
	Cloud    cloud.Cloud
	Commands Commander
	Waker    Waker
	Policy   decide.Policy
	// Now is the clock.
	Now func() time.Time
	Log *slog.Logger
	// Holder names this process in leases; it must be unique to it. Each invocation adds a number of its own: a store gives a
	// holder its own lease again, so that two invocations of one name would take it from each other.
	Holder string
	Timing Timing
}

// Timing is how long a steward holds and waits. The zero value takes DefaultTiming.
type Timing struct {
	// Lease is how long a lease lasts from each commit on; a dead holder's cluster is stuck for as long at most.
	Lease time.Duration
	// Budget is how long one invocation steps before it hands over.
	Budget time.Duration
	// Linger is how near the next look may be for the holder to wait for it rather than to let go.
	Linger time.Duration
	// Peek is how often a lingering holder looks into the inbox.
	Peek time.Duration
	// Call is the deadline of one intent or look; calls also end before the lease does, by Margin.
	Call, Margin time.Duration
	// Side is how many intents are carried out side by side.
	Side int
	// TickSide is how many clusters one tick steps side by side, DueAtOnce how many it takes on.
	TickSide, DueAtOnce int
}

// DefaultTiming suits functions that may run for a minute.
func DefaultTiming() Timing {
	return Timing{
		Lease: time.Minute, Budget: 30 * time.Second, Linger: 2 * time.Second, Peek: 500 * time.Millisecond,
		Call: 30 * time.Second, Margin: 10 * time.Second, Side: 16, TickSide: 8, DueAtOnce: 500,
	}
}

// Steward keeps clusters. It is safe for concurrent use.
type Steward struct {
	Config
	invocations atomic.Int64

	mu     sync.Mutex
	nudges map[cluster.Key]chan struct{} // of the clusters that this process holds and lingers over
}

// New makes a steward.
func New(c Config) *Steward {
	if c.Timing == (Timing{}) {
		c.Timing = DefaultTiming()
	}
	return &Steward{Config: c, nudges: map[cluster.Key]chan struct{}{}}
}

// Deliver posts events to a cluster and sees to it that they are dealt with: by this invocation, or by the one that
// holds the cluster. With create, a cluster that is not there is begun; without, its events are dropped and
// store.ErrNoCluster returned. After any other error the events may or may not have been posted: deliver them again.
func (s *Steward) Deliver(ctx context.Context, key cluster.Key, create bool, evs ...store.Event) error {
	if err := s.Store.Post(ctx, key, evs...); err != nil {
		return fmt.Errorf("posting to cluster %s, %w", key, err)
	}
	s.nudge(key)
	err := s.run(ctx, key, create)
	if errors.Is(err, store.ErrNoCluster) {
		ids := make([]string, len(evs))
		for i, e := range evs {
			ids[i] = e.ID
		}
		return errors.Join(err, s.Store.Discard(ctx, key, ids...))
	}
	return err
}

// Snapshot keeps a snapshot of Slurm and, if it says something else than the one before, wakes its cluster.
func (s *Steward) Snapshot(ctx context.Context, snap *events.SlurmSnapshot) error {
	now := s.Now()
	if snap.Taken.After(now) { // a controller's clock that runs ahead must not make its word newer than what follows
		clamped := *snap
		clamped.Taken = now
		snap = &clamped
	}
	digest, err := snap.Digest()
	if err != nil {
		return fmt.Errorf("reading a snapshot of cluster %s, %w", snap.Cluster, err)
	}
	data, err := encode(snap)
	if err != nil {
		return fmt.Errorf("keeping a snapshot of cluster %s, %w", snap.Cluster, err)
	}
	if _, _, err := s.Store.Read(ctx, snap.Cluster); err != nil {
		return err // a cluster that does not exist has no Slurm
	}
	newer, changed, err := s.Store.PutSlurm(ctx, snap.Cluster, store.Slurm{
		Boot: cluster.Moment(snap.Boot), Sequence: snap.Sequence, Digest: digest, Data: data})
	if err != nil {
		return fmt.Errorf("keeping a snapshot of cluster %s, %w", snap.Cluster, err)
	}
	if !newer || !changed {
		return nil
	}
	// The event makes whoever holds the cluster now read the snapshot again. Its id tells this snapshot from others: one id
	// for all of them could be consumed on behalf of an older one.
	id := fmt.Sprintf("slurm-%d-%d", snap.Boot.UnixMilli(), snap.Sequence)
	body, err := json.Marshal(events.SlurmChanged{Cluster: snap.Cluster})
	if err != nil {
		return fmt.Errorf("waking cluster %s, %w", snap.Cluster, err)
	}
	return s.Deliver(ctx, snap.Cluster, false, store.Event{ID: id, Type: events.TypeSlurmChanged, Time: cluster.Moment(snap.Taken),
		Data: body, Received: cluster.Moment(now)})
}

// Wake steps a cluster if there is anything to do.
func (s *Steward) Wake(ctx context.Context, key cluster.Key) error { return s.run(ctx, key, false) }

// Tick wakes every cluster that is due, and says how many it took on. Those that it cannot finish with are left to the next tick; the
// failure of one does not keep the others from being looked at.
func (s *Steward) Tick(ctx context.Context) (int, error) {
	due, err := s.Store.Due(ctx, s.Now(), s.Timing.DueAtOnce)
	if err != nil {
		return 0, fmt.Errorf("listing clusters that are due, %w", err)
	}
	var failures []error
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, s.Timing.TickSide)
	for _, key := range due {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := s.Wake(ctx, key); err != nil && !errors.Is(err, store.ErrNoCluster) {
				mu.Lock()
				failures = append(failures, fmt.Errorf("stepping cluster %s, %w", key, err))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return len(due), errors.Join(failures...)
}

// nudge tells a holder of this process that lingers over the cluster that there is something in the inbox.
func (s *Steward) nudge(key cluster.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.nudges[key]; ok {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (s *Steward) listen(key cluster.Key) (nudged <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	s.nudges[key] = c
	s.mu.Unlock()
	return c, func() {
		s.mu.Lock()
		delete(s.nudges, key)
		s.mu.Unlock()
	}
}

// ReadState is a cluster as it is kept, without a lease: for people to look at.
func ReadState(ctx context.Context, st store.Store, key cluster.Key) (*cluster.State, error) {
	data, _, err := st.Read(ctx, key)
	if err != nil {
		return nil, err
	}
	docs, err := st.Documents(ctx, key)
	if err != nil {
		return nil, err
	}
	var k keeper
	if err := k.load(key, data, docs); err != nil {
		return nil, err
	}
	if err := k.loadSlurm(ctx, st); err != nil {
		return nil, err
	}
	return k.state, nil
}

// isEmpty reports whether a document says nothing.
func isEmpty(data []byte) bool { return len(bytes.TrimSpace(data)) == 0 }
