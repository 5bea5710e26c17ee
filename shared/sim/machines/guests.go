package machines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/bootstrap"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
	"github.com/convoke-hpc/convoke/shared/sim/slurm"
)

// Guests are all running machines. It is what gcp.Options.Machines wants.
type Guests struct {
	options Options
	disks   *disks
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	work    sync.WaitGroup

	mu          sync.Mutex
	guests      map[uint64]*guest           // by instance id
	controllers map[cluster.Key]*controller // those whose slurmctld runs
	faults      map[faultKey]*Fault
	reports     int64 // events about running machines so far
}

// guest is one machine, from RUNNING until it is off.
type guest struct {
	instance gcp.Instance
	key      cluster.Key
	uid      string
	role     string
	ctx      context.Context
	off      context.CancelFunc
	ended    chan struct{} // closed when the goroutine that boots it, and on a controller runs it, has ended

	// Of a compute node, under Guests.mu.
	slurmd     time.Time // when slurmd started; zero before that
	registered bool      // slurmctld has had its registration
	fault      Fault     // what its start-up met
	notices    notices
}

// notices are what a machine has already been told by its metadata server.
type notices struct {
	preempted   bool
	maintenance string
}

// controller is a running slurmctld.
type controller struct {
	*slurm.Controller
	instance uint64
}

// New makes the machines of a cloud that has none yet.
func New(o Options) (*Guests, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Guests{
		options: o, disks: newDisks(o.Folder), ctx: ctx, cancel: cancel,
		guests: map[uint64]*guest{}, controllers: map[cluster.Key]*controller{}, faults: map[faultKey]*Fault{},
	}, nil
}

// Close turns all machines off, without telling anybody, and saves the controllers' state.
func (g *Guests) Close() {
	g.mu.Lock()
	g.cancel() // under mu, so that spawn starts nothing more
	g.mu.Unlock()
	g.work.Wait()
}

// spawn starts what Close waits for. Called under g.mu.
func (g *Guests) spawn(f func()) (started bool) {
	if g.ctx.Err() != nil {
		return false
	}
	g.work.Go(f)
	return true
}

// InstanceRunning implements gcp.Machines. A machine that is none of Convoke's is left to itself.
func (g *Guests) InstanceRunning(ctx context.Context, i gcp.Instance) {
	key, err := cluster.ParseKey(i.Metadata[bootstrap.KeyCluster])
	role := i.Metadata[bootstrap.KeyRole]
	if err != nil || role == "" {
		g.options.Logger.InfoContext(ctx, "a machine runs that is none of ours", "instance", i.Name)
		return
	}
	vm := &guest{instance: i, key: key, uid: i.Metadata[bootstrap.KeyUID], role: role, ended: make(chan struct{})}
	vm.ctx, vm.off = context.WithCancel(g.ctx)
	g.mu.Lock()
	known := g.guests[i.ID] != nil
	if !known {
		vm.fault = g.meets(vm)
		known = !g.spawn(func() {
			defer close(vm.ended)
			g.boot(vm)
		})
	}
	if known {
		g.mu.Unlock()
		vm.off()
		return
	}
	g.guests[i.ID] = vm
	g.mu.Unlock()
	if i.Preempted || i.Maintenance != "" {
		g.InstanceChanged(ctx, i)
	}
}

// InstanceGone implements gcp.Machines. Everything on the machine ends at once, and unannounced.
func (g *Guests) InstanceGone(_ context.Context, i gcp.Instance) {
	g.mu.Lock()
	vm := g.guests[i.ID]
	delete(g.guests, i.ID)
	g.mu.Unlock()
	if vm == nil {
		return
	}
	vm.off()
	<-vm.ended // a controller's disk is free when its VM is gone
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.controllers[vm.key]; c != nil && vm.registered && !g.another(vm) {
		c.Unregister(vm.instance.Name)
	}
}

// another reports whether a newer machine of the same name runs.
func (g *Guests) another(vm *guest) bool {
	for _, other := range g.guests {
		if other.key == vm.key && other.instance.Name == vm.instance.Name {
			return true
		}
	}
	return false
}

// InstanceChanged implements gcp.MachineWatcher: the machine's agent reads notices from the metadata server and passes them on.
func (g *Guests) InstanceChanged(_ context.Context, i gcp.Instance) {
	g.mu.Lock()
	vm := g.guests[i.ID]
	if vm == nil {
		g.mu.Unlock()
		return
	}
	old := vm.notices
	vm.notices = notices{preempted: i.Preempted, maintenance: i.Maintenance}
	g.mu.Unlock()
	if i.Preempted && !old.preempted {
		g.pass(vm, events.NoticePreempted, time.Time{})
	}
	if i.Maintenance != "" && i.Maintenance != old.maintenance {
		g.pass(vm, events.NoticeMaintenance, windowStart(i.Maintenance))
	}
}

// boot is a machine's start-up, and on a controller its life.
func (g *Guests) boot(vm *guest) {
	if vm.fault.Kind == NeverBoots || !g.sleep(vm.ctx, g.startup(vm)) {
		return
	}
	if vm.fault.Kind == BootFails {
		g.sayBooted(vm, false, cmp.Or(vm.fault.Reason, "the start-up script failed"))
		return
	}
	switch vm.role {
	case bootstrap.RoleController:
		g.control(vm)
	case bootstrap.RoleCompute:
		g.compute(vm)
	default:
		g.keepSayingBooted(vm)
	}
}

// startup is how long the machine's start-up takes. One that ran already when the simulation was started anew has it behind it.
func (g *Guests) startup(vm *guest) time.Duration {
	if vm.instance.Resumed {
		return 0
	}
	takes := g.options.Delays.Compute
	switch vm.role {
	case bootstrap.RoleController:
		takes = g.options.Delays.Controller
	case bootstrap.RoleLogin:
		takes = g.options.Delays.Login
	}
	if spread := g.options.Delays.Spread; spread > 0 {
		takes += time.Duration(vm.instance.ID%uint64(spread/time.Millisecond+1)) * time.Millisecond //nolint:gosec // a delay is far from the types' limits
	}
	if vm.fault.Kind == SlowBoot {
		takes += vm.fault.delay()
	}
	return takes
}

// compute is a compute node's slurmd: it starts behind the start-up, and registers when there is a slurmctld.
func (g *Guests) compute(vm *guest) {
	g.mu.Lock()
	if vm.ctx.Err() == nil && vm.fault.Kind != SlurmdHangs {
		vm.slurmd = g.now()
		g.register(vm)
	}
	g.mu.Unlock()
	g.sayBooted(vm, true, "")
}

// powerFlags are those of a node that slurmctld does not take to be up.
const powerFlags = cluster.FlagPoweringUp | cluster.FlagPoweringDown | cluster.FlagPoweredDown

// register has the node's slurmd talk to slurmctld: to register, once, or to answer a slurmctld that has been started anew. Called under
// g.mu.
func (g *Guests) register(vm *guest) {
	c := g.controllers[vm.key]
	if c == nil || vm.slurmd.IsZero() {
		return
	}
	name := vm.instance.Name
	known, _ := c.Node(name)
	var err error
	switch {
	case vm.registered:
		err = c.Reconnect(name, vm.slurmd)
	case vm.instance.Resumed && !known.Booted.IsZero() && !known.Flags.Any(powerFlags):
		// The simulation was started anew, not the machine.
		vm.slurmd = known.Booted
		err = c.Reconnect(name, vm.slurmd)
	case vm.fault.Kind == FewerGPUs:
		reason := cmp.Or(vm.fault.Reason, fmt.Sprintf("gres/gpu count reported lower than configured (0 < %d)", max(1, vm.instance.GPUs)))
		_, err = c.RegisterInvalid(name, vm.slurmd, reason)
	default:
		_, err = c.Register(name, vm.slurmd)
	}
	if err != nil {
		g.options.Logger.Warn("slurmctld does not know a node", "cluster", vm.key.ID, "error", err)
	}
	vm.registered = true
}

// keepSayingBooted tells again and again that a machine is up, until it is off.
func (g *Guests) keepSayingBooted(vm *guest) {
	for {
		g.sayBooted(vm, true, "")
		if !g.sleep(vm.ctx, g.options.Repeat) {
			return
		}
	}
}

// sayBooted tells of the end of a machine's start-up, until it is heard. Each report is an event of its own.
func (g *Guests) sayBooted(vm *guest, ok bool, reason string) {
	boot := &events.NodeBoot{
		Cluster: vm.key, Node: vm.instance.Name, InstanceID: vm.instance.ID, OK: ok, Reason: reason, Time: g.now(),
	}
	if !ok {
		boot.Log = "convoke: start-up of " + vm.instance.Name + " failed\n" + reason
	}
	g.say(vm.ctx, vm, fmt.Sprintf("boot-%d-%d", vm.instance.ID, boot.Time.UnixMilli()), events.TypeNodeBoot, boot)
}

// say publishes what a machine has to say, until it is heard or the machine is off. The id stays the same.
func (g *Guests) say(ctx context.Context, vm *guest, id, typ string, data events.Payload) {
	e := &events.Event{ID: id, Source: Source(vm.key, vm.instance.Name), Type: typ, Time: g.now(), Payload: data}
	for wait := g.options.Timing.Retry; ; wait = min(2*wait, g.options.Timing.RetryMax) {
		err := g.options.Publisher.Publish(ctx, events.TopicSlurm, e)
		if err == nil || ctx.Err() != nil {
			return
		}
		if invalid := (*events.Invalid)(nil); errors.As(err, &invalid) {
			g.options.Logger.ErrorContext(ctx, "a machine says what nobody would take", "machine", vm.instance.Name, "error", err)
			return
		}
		g.options.Logger.WarnContext(ctx, "a machine will try again", "machine", vm.instance.Name, "type", typ, "in", wait, "error", err)
		if !g.sleep(ctx, wait) {
			return
		}
	}
}

// Source is the CloudEvents source of what a machine of a cluster says.
func Source(key cluster.Key, machine string) string {
	return "//convoke/clusters/" + key.Doc() + "/machines/" + machine
}

func (g *Guests) now() time.Time { return cluster.Moment(g.options.Clock.Now()) }

// sleep waits, by the simulated clock; false when the context ended before.
func (g *Guests) sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	over := make(chan struct{})
	timer := g.options.Clock.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-over:
		return true
	}
}

// Controllers are the clusters whose slurmctld runs, by name.
func (g *Guests) Controllers() []cluster.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	keys := make([]cluster.Key, 0, len(g.controllers))
	for k := range g.controllers {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b cluster.Key) int { return cmp.Compare(a.Doc(), b.Doc()) })
	return keys
}

// Slurm is the slurmctld of a cluster, while it runs.
func (g *Guests) Slurm(key cluster.Key) (*slurm.Controller, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.controllers[key]
	if c == nil {
		return nil, false
	}
	return c.Controller, true
}
