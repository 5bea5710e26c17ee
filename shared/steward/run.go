package steward

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/decide"
	"github.com/convoke-hpc/convoke/shared/store"
)

// run holds the cluster while there is something to do now. That another invocation holds it is success: that one sees
// what was posted.
func (s *Steward) run(ctx context.Context, key cluster.Key, create bool) error {
	began := s.Now()
	holder := fmt.Sprintf("%s/%d", s.Holder, s.invocations.Add(1))
	for {
		h, err := s.hold(ctx, key, holder, create, began)
		if errors.Is(err, store.ErrHeld) {
			return nil
		}
		if err != nil {
			return err
		}
		err = h.steps(ctx)
		if errors.Is(err, store.ErrFenced) {
			s.Log.WarnContext(ctx, "the lease was lost; another invocation goes on", "cluster", key.String(), "epoch", h.lease.Epoch)
			return nil
		}
		if err != nil {
			return err
		}
		// Whoever posted while the lease was held has gone away, trusting that the holder looks once more.
		rest, err := s.Store.Inbox(ctx, key, 1)
		if err != nil {
			return fmt.Errorf("looking into the inbox of cluster %s once more, %w", key, err)
		}
		switch {
		case len(rest) == 0 && !h.unfinished:
			return nil
		case h.over():
			if err := s.Waker.Wake(ctx, key); err != nil {
				return fmt.Errorf("handing cluster %s over, %w", key, err)
			}
			return nil
		}
		create = false
	}
}

// holding is one lease of a cluster, with its state in memory.
type holding struct {
	s        *Steward
	lease    *store.Lease
	keep     keeper
	outcomes []cluster.Outcome
	ends     time.Time // of the invocation's budget
	// unfinished: the budget ended with work left.
	unfinished bool
}

func (s *Steward) hold(ctx context.Context, key cluster.Key, holder string, create bool, began time.Time) (*holding, error) {
	now := s.Now()
	lease, err := s.Store.Lease(ctx, key, holder, now, now.Add(s.Timing.Lease), create)
	if err != nil {
		if errors.Is(err, store.ErrHeld) || errors.Is(err, store.ErrNoCluster) {
			return nil, err
		}
		return nil, fmt.Errorf("taking the lease of cluster %s, %w", key, err)
	}
	h := &holding{s: s, lease: lease, ends: began.Add(s.Timing.Budget)}
	docs, err := s.Store.Documents(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("reading cluster %s, %w", key, err)
	}
	if err := h.keep.load(key, lease.Data, docs); err != nil {
		return nil, err
	}
	return h, h.keep.loadSlurm(ctx, s.Store)
}

// over reports whether the invocation's budget is spent.
func (h *holding) over() bool { return !h.s.Now().Before(h.ends) }

// steps steps until there is nothing left to do now, or the budget is spent. The last step has released the lease.
func (h *holding) steps(ctx context.Context) error {
	nudged, stop := h.s.listen(h.lease.Key)
	defer stop()
	idle := 0
	for {
		released, next, err := h.step(ctx)
		if err != nil || released {
			return err
		}
		if len(h.outcomes) > 0 {
			idle = 0
			continue
		}
		// A step that asked for nothing and wants the next one at once (what it must see could not be seen, say) gets it
		// after a pause that grows, whatever was decided: nothing may make a holder spin.
		if err := h.linger(ctx, next, h.s.Now().Add(idlePause<<min(idle, 6)), nudged); err != nil {
			return err
		}
		idle++
	}
}

// idlePause is the shortest pause between two steps that have nothing to carry out.
const idlePause = 10 * time.Millisecond

// step is one step: read the inbox, fold, look, decide, commit, carry out.
func (h *holding) step(ctx context.Context) (released bool, next time.Time, err error) {
	s, key := h.s, h.lease.Key
	if h.over() {
		// What came of the intents is kept; what is in the inbox, and what to do, is for the next invocation.
		h.unfinished = true
		turn := h.begin()
		return true, next, h.commit(ctx, turn.Notes(), nil, s.Now(), true)
	}
	inbox, err := s.Store.Inbox(ctx, key, store.MaxInbox)
	if err != nil {
		return false, next, fmt.Errorf("reading the inbox of cluster %s, %w", key, err)
	}
	payloads, consumed, err := h.read(ctx, inbox)
	if err != nil {
		return false, next, err
	}
	turn := h.begin()
	for i, p := range payloads {
		if p != nil {
			turn.Fold(inbox[i].ID, p)
		}
	}
	if q := turn.Query(); !q.Empty() {
		turn.Observe(h.observe(ctx, q))
	}
	plan := turn.Decide()
	now := s.Now()
	resting := len(plan.Intents) == 0 && len(inbox) < store.MaxInbox && (plan.Look.IsZero() || plan.Look.Sub(now) > s.Timing.Linger)
	if err := h.commit(ctx, plan, consumed, now, resting); err != nil {
		return false, next, err
	}
	if resting {
		return true, next, nil
	}
	h.outcomes = h.carryOut(ctx, plan.Intents)
	return false, plan.Look, nil
}

// begin begins a turn with what came of the intents of the one before.
func (h *holding) begin() *decide.Turn {
	turn := decide.Begin(h.keep.state, h.s.Now(), h.s.Policy)
	for _, o := range h.outcomes {
		turn.Settle(o)
	}
	h.outcomes = nil
	return turn
}

// read reads the inbox's events. One that cannot be understood is put into quarantine, and is thereby dealt with.
func (h *holding) read(ctx context.Context, inbox []store.Event) (payloads []events.Payload, consumed []string, err error) {
	payloads, consumed = make([]events.Payload, len(inbox)), make([]string, len(inbox))
	slurm := false
	for i, e := range inbox {
		consumed[i] = e.ID
		p, err := events.Read(e.Type, e.Data)
		if err != nil {
			q := store.Quarantined{ID: h.lease.Key.Doc() + "." + e.ID, Source: "inbox of " + h.lease.Key.String(), Reason: err.Error(),
				Received: e.Received, Type: e.Type, Data: e.Data, Size: len(e.Data)}
			if err := h.s.Store.Quarantine(ctx, q); err != nil {
				return nil, nil, fmt.Errorf("putting event %s of cluster %s into quarantine, %w", e.ID, h.lease.Key, err)
			}
			continue
		}
		payloads[i] = p
		slurm = slurm || e.Type == events.TypeSlurmChanged
	}
	if slurm {
		return payloads, consumed, h.keep.loadSlurm(ctx, h.s.Store)
	}
	return payloads, consumed, nil
}

func (h *holding) commit(ctx context.Context, plan decide.Plan, consumed []string, now time.Time, release bool) error {
	c := store.Change{Consume: consumed, Timeline: plan.Timeline, Operations: plan.Operations, Summary: h.keep.summary(),
		Until: now.Add(h.s.Timing.Lease), Release: release, Now: now}
	if release {
		c.NextLook = plan.Look
		if h.unfinished {
			c.NextLook = now
		}
		c.Forget = plan.Forget
	}
	if err := h.keep.change(&c); err != nil {
		return fmt.Errorf("writing cluster %s, %w", h.lease.Key, err)
	}
	if h.keep.state.Phase == cluster.PhaseDeleted {
		c.Expire = h.keep.state.Expire // a tombstone's
	}
	if err := h.s.Store.Commit(ctx, h.lease, c); err != nil {
		return fmt.Errorf("committing a step of cluster %s, %w", h.lease.Key, err)
	}
	for _, e := range plan.Timeline {
		h.s.Log.InfoContext(ctx, e.Text, "cluster", h.lease.Key.String(), "kind", e.Kind, "about", e.About)
	}
	return nil
}

// linger waits for the next look, and until the earliest time in any case, or for something in the inbox.
func (h *holding) linger(ctx context.Context, next, earliest time.Time, nudged <-chan struct{}) error {
	if next.Before(earliest) {
		next = earliest
	}
	for {
		wait := next.Sub(h.s.Now())
		if wait <= 0 || h.over() {
			return nil
		}
		timer := time.NewTimer(min(wait, h.s.Timing.Peek))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-nudged:
			timer.Stop()
			return nil
		case <-timer.C:
		}
		events, err := h.s.Store.Inbox(ctx, h.lease.Key, 1)
		if err != nil {
			return fmt.Errorf("looking into the inbox of cluster %s, %w", h.lease.Key, err)
		}
		if len(events) > 0 {
			return nil
		}
	}
}
