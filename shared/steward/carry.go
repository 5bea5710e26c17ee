package steward

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// carryOut carries intents out side by side. It ends before the lease does: an intent that is still under way when
// another holder decides could undo what that one does.
func (h *holding) carryOut(ctx context.Context, intents []cluster.Intent) []cluster.Outcome {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	outcomes := make([]cluster.Outcome, len(intents))
	slots := make(chan struct{}, h.s.Timing.Side)
	var wg sync.WaitGroup
	for i, intent := range intents {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			outcomes[i] = h.s.do(ctx, h.lease.Key, intent)
		})
	}
	wg.Wait()
	return outcomes
}

// observe looks at the cloud.
func (h *holding) observe(ctx context.Context, q cluster.Query) cluster.Observation {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	o := h.s.Cloud.Observe(ctx, q)
	for i := range o.Problems {
		h.s.Log.WarnContext(ctx, "could not be looked at", "cluster", h.lease.Key.String(), "problem", o.Problems[i].Error())
	}
	return o
}

func (h *holding) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	now := h.s.Now()
	left := min(h.s.Timing.Call, h.lease.Until.Sub(now)-h.s.Timing.Margin)
	return context.WithTimeout(ctx, left)
}

// do carries out one intent.
func (s *Steward) do(ctx context.Context, key cluster.Key, intent cluster.Intent) (o cluster.Outcome) {
	if c, ok := intent.(cluster.Command); ok {
		o = cluster.Outcome{Intent: intent}
		now := s.Now()
		if err := s.Commands.Command(ctx, events.CommandOf(key, c, now, now.Add(commandLife))); err != nil {
			o.Problem = &cluster.Problem{Class: cluster.ClassOf(err), Doing: intent.Do(), Message: fmt.Sprintf("publishing the command, %v", err)}
		}
	} else {
		o = s.Cloud.Do(ctx, intent)
	}
	o.At = cluster.Moment(s.Now())
	if o.Problem != nil {
		s.Log.WarnContext(ctx, "an intent failed", "cluster", key.String(), "intent", intent.Do(), "problem", o.Problem.Error())
	} else {
		s.Log.DebugContext(ctx, "an intent was carried out", "cluster", key.String(), "intent", intent.Do(), "operation", o.Operation)
	}
	return o
}

// commandLife is how long a command may wait for its agent. What it was decided from is older by then than anything
// that is decided from.
const commandLife = 10 * time.Minute
