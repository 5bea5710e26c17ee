package slurm

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// Controller is one cluster's slurmctld and agent. All methods are safe for concurrent use.
type Controller struct {
	options Options
	timing  Timing

	mu     sync.Mutex
	nodes  []*node // by pool as the spec has them, then by index
	byName map[string]*node
	jobs   []*job // by id
	byID   map[int64]*job
	// partitions by name, each with its nodes.
	partitions map[string]*partition
	order      []string // the partitions' names as the spec has them
	fallback   string   // the default partition

	reservations []Reservation
	lastJob      int64
	started      time.Time // of this slurmctld and its agent
	powerAt      time.Time // when the power-saving thread acts next; zero when nothing was asked of it
	agent        agent

	wake    chan struct{} // something has changed: look again at what is due next
	publish chan struct{} // there is something to publish
}

// partition is a set of nodes that jobs are sent to.
type partition struct {
	name  string
	nodes []*node
}

// New makes a slurmctld that starts for the first time: CLOUD nodes, all powered down.
func New(o Options) (*Controller, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Controller{
		options:    o,
		timing:     *o.Timing,
		byName:     map[string]*node{},
		byID:       map[int64]*job{},
		partitions: map[string]*partition{},
		fallback:   o.Spec.DefaultPartition(),
		wake:       make(chan struct{}, 1),
		publish:    make(chan struct{}, 1),
	}
	c.started = c.now()
	c.agent.start(c.started)
	pools := map[string][]*node{}
	for i := range o.Spec.NodePools {
		pool := &o.Spec.NodePools[i]
		if o.Spec.IsLogin(pool.ID) {
			continue
		}
		for index := range pool.ScalingSpec.MaxNodeCount {
			n := newNode(o.Key.ID, cluster.NodeID{Pool: pool.ID, Index: index}, pool.Static(index))
			c.nodes = append(c.nodes, n)
			c.byName[n.name] = n
			pools[pool.ID] = append(pools[pool.ID], n)
		}
	}
	for _, p := range o.Spec.Slurm().Partitions {
		part := &partition{name: p.ID}
		for _, id := range p.NodePoolIDs {
			part.nodes = append(part.nodes, pools[id]...)
		}
		c.partitions[p.ID] = part
		c.order = append(c.order, p.ID)
	}
	return c, nil
}

// Run waits for what is due and does it, and publishes, until the context ends. The state is saved a last time then.
func (c *Controller) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return c.keepTime(ctx) })
	g.Go(func() error { return c.keepPublishing(ctx) })
	return g.Wait()
}

func (c *Controller) keepTime(ctx context.Context) error {
	for {
		due := make(chan struct{})
		var timer Timer
		next := c.Step()
		c.saveBetween(ctx)
		if !next.IsZero() {
			timer = c.options.AfterFunc(max(0, next.Sub(c.options.Now())), func() { close(due) })
		}
		select {
		case <-ctx.Done():
			if timer != nil {
				timer.Stop()
			}
			return nil
		case <-due:
		case <-c.wake:
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// saveBetween keeps the state on disk also while nothing can be published.
func (c *Controller) saveBetween(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.save(); err != nil {
		c.options.Logger.WarnContext(ctx, "the controller will try again", "cluster", c.options.Key.ID, "error", err)
	}
}

// Step does everything that is due by now and reports when something is due next; the zero time: never, by itself. It is
// what Run calls; a test that keeps its own time may call it instead.
func (c *Controller) Step() (next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.settle(now)
	return c.next(now)
}

// do makes one change, and what follows from it now.
func (c *Controller) do(change func(now time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.settle(now)
	if err := change(now); err != nil {
		return err
	}
	c.changed(now)
	c.settle(now)
	signal(c.wake)
	return nil
}

// settle does what is due until nothing more is: one thing's end is often another's beginning.
func (c *Controller) settle(now time.Time) {
	for range maxRounds {
		if !c.round(now) {
			break
		}
		c.changed(now)
	}
	if c.snapshotDue(now) {
		signal(c.publish)
	}
}

// maxRounds bounds the things that follow from each other at one instant when delays are set to nothing.
const maxRounds = 100

func (c *Controller) round(now time.Time) (changed bool) {
	for _, due := range []func(time.Time) bool{
		c.endJobs, c.timeouts, c.ping, c.suspendIdle, c.power, c.errands, c.configured, c.schedule,
	} {
		if due(now) {
			changed = true
		}
	}
	return changed
}

// next is when something is due by itself.
func (c *Controller) next(now time.Time) time.Time {
	var at earliest
	at.take(c.powerAt)
	at.take(c.nextSnapshot())
	pinging := false
	for _, n := range c.nodes {
		at.take(c.nodeDue(n))
		pinging = pinging || n.awaitsPing()
	}
	if pinging {
		at.take(c.tick(now, c.pingPeriod()))
	}
	configured := false
	for _, j := range c.jobs {
		at.take(c.jobDue(j, now))
		configured = configured || c.isConfigured(j)
	}
	if configured {
		at.take(c.tick(now, c.timing.Configuring))
	}
	for _, r := range c.reservations {
		if r.Start.After(now) {
			at.take(r.Start)
		}
	}
	return at.time
}

// tick is the next beat of something that slurmctld does periodically since it started.
func (c *Controller) tick(now time.Time, period time.Duration) time.Time {
	beats := now.Sub(c.started)/period + 1
	return c.started.Add(beats * period)
}

// onTick reports whether now is such a beat, or one has passed since the last look at it.
func (c *Controller) onTick(now time.Time, period time.Duration, last *time.Time) bool {
	beat := c.started.Add(now.Sub(c.started) / period * period)
	if !beat.After(*last) {
		return false
	}
	*last = beat
	return true
}

func (c *Controller) now() time.Time { return cluster.Moment(c.options.Now()) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// earliest gathers the earliest of some times, of which zero ones mean never.
type earliest struct{ time time.Time }

func (e *earliest) take(t time.Time) {
	if !t.IsZero() && (e.time.IsZero() || t.Before(e.time)) {
		e.time = t
	}
}

// names are the names of some nodes.
func names(nodes []*node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.name
	}
	return out
}

func sortNodes(nodes []*node) {
	slices.SortFunc(nodes, func(a, b *node) int { return compareIDs(a.id, b.id) })
}
