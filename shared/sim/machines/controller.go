package machines

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/bootstrap"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/slurm"
)

// control is a controller's life: slurmctld on the cluster's state disk, and the agent beside it, until the VM is off.
func (g *Guests) control(vm *guest) {
	c, err := g.slurmctld(vm)
	if err != nil {
		g.options.Logger.ErrorContext(vm.ctx, "a controller does not start", "cluster", vm.key.ID, "error", err)
		g.sayBooted(vm, false, err.Error())
		return
	}
	var daemons errgroup.Group
	daemons.Go(func() error { return c.Run(vm.ctx) })
	daemons.Go(func() error { g.listen(vm, c); return nil })
	g.enter(vm, c)
	g.keepSayingBooted(vm)
	g.leave(vm)
	if err := daemons.Wait(); err != nil {
		g.options.Logger.Error("a controller ended badly", "cluster", vm.key.ID, "error", err)
	}
}

// slurmctld is the cluster's, as the spec in the VM's metadata describes it, on what the disk holds.
func (g *Guests) slurmctld(vm *guest) (*slurm.Controller, error) {
	spec := new(cluster.Spec)
	if err := json.Unmarshal([]byte(vm.instance.Metadata[bootstrap.KeySpec]), spec); err != nil {
		return nil, fmt.Errorf("reading the spec from metadata %s, %w", bootstrap.KeySpec, err)
	}
	state, err := g.disks.read(vm.key, vm.uid)
	if err != nil {
		return nil, err
	}
	source := Source(vm.key, vm.instance.Name)
	c, err := slurm.New(slurm.Options{
		Spec: spec, Key: vm.key, Timing: g.options.Timing, Logger: g.options.Logger,
		Now:       g.options.Clock.Now,
		AfterFunc: func(d time.Duration, f func()) slurm.Timer { return g.options.Clock.AfterFunc(d, f) },
		Publish: func(ctx context.Context, typ, id string, data events.Payload) error {
			return g.options.Publisher.Publish(ctx, events.TopicSlurm,
				&events.Event{ID: id, Source: source, Type: typ, Time: g.now(), Payload: data})
		},
		Save: func(state []byte) error { return g.disks.write(vm.key, vm.uid, state) },
	})
	if err != nil || state == nil {
		return c, err
	}
	return c, c.Load(state)
}

// enter makes the slurmctld the one that the cluster's slurmds talk to.
func (g *Guests) enter(vm *guest, c *slurm.Controller) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.controllers[vm.key] = &controller{Controller: c, instance: vm.instance.ID}
	var nodes []*guest
	for _, other := range g.guests {
		if other.key == vm.key && other.role == bootstrap.RoleCompute {
			nodes = append(nodes, other)
		}
	}
	slices.SortFunc(nodes, func(a, b *guest) int { return cmp.Compare(a.instance.ID, b.instance.ID) })
	for _, n := range nodes {
		g.register(n)
	}
}

func (g *Guests) leave(vm *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.controllers[vm.key]; c != nil && c.instance == vm.instance.ID {
		delete(g.controllers, vm.key)
	}
}

// listen carries out the steward's commands while the controller runs.
func (g *Guests) listen(vm *guest, c *slurm.Controller) {
	for wait := g.options.Timing.Retry; ; wait = min(2*wait, g.options.Timing.RetryMax) {
		err := g.options.Commands.Receive(vm.ctx, vm.key, func(cmd *events.SlurmCommand) { c.Command(*cmd) })
		if vm.ctx.Err() != nil {
			return
		}
		g.options.Logger.WarnContext(vm.ctx, "an agent will listen again", "cluster", vm.key.ID, "in", wait, "error", err)
		if !g.sleep(vm.ctx, wait) {
			return
		}
	}
}
