package machines

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// FaultKind is something that goes wrong on a machine when it starts.
type FaultKind string

// The faults of a start-up.
const (
	NeverBoots  FaultKind = "neverBoots"  // the VM runs and nothing is ever heard of it
	SlowBoot    FaultKind = "slowBoot"    // it boots, so much later
	BootFails   FaultKind = "bootFails"   // its start-up script ends with a failure, which it reports
	FewerGPUs   FaultKind = "fewerGPUs"   // slurmd finds fewer GPUs than the node is configured with
	SlurmdHangs FaultKind = "slurmdHangs" // it boots and reports so, but its slurmd is never heard of
)

// Fault is set on a machine's name and met by the next machines of that name.
type Fault struct {
	Node string    `json:"node"`
	Kind FaultKind `json:"kind"`
	// Delay is how much later a slow machine boots; 0: an hour.
	Delay time.Duration `json:"delay,omitempty"`
	// Reason is what the machine reports.
	Reason string `json:"reason,omitempty"`
	// Times is how many machines meet it; 0: all, until it is cleared.
	Times int `json:"times,omitempty"`
}

func (f *Fault) delay() time.Duration {
	if f.Delay > 0 {
		return f.Delay
	}
	return time.Hour
}

type faultKey struct {
	cluster cluster.Key
	node    string
}

// The errors of control calls.
var (
	ErrNotRunning = errors.New("no such machine runs")
	ErrFault      = errors.New("there is no such fault")
)

// Inject sets a fault. It replaces one that was set on the same name before.
func (g *Guests) Inject(key cluster.Key, f Fault) error {
	switch f.Kind {
	case NeverBoots, SlowBoot, BootFails, FewerGPUs, SlurmdHangs:
	default:
		return fmt.Errorf("fault %q of %s: %w", f.Kind, f.Node, ErrFault)
	}
	if id, ok := cluster.InstanceCluster(f.Node); !ok || id != key.ID {
		return fmt.Errorf("%q is not a machine of cluster %s", f.Node, key.ID)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults[faultKey{key, f.Node}] = &f
	return nil
}

// Clear removes the fault that is set on a name, if there is one.
func (g *Guests) Clear(key cluster.Key, node string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.faults, faultKey{key, node})
}

// Faults are the faults set on a cluster's machines, by name.
func (g *Guests) Faults(key cluster.Key) []Fault {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := []Fault{}
	for k, f := range g.faults {
		if k.cluster == key {
			out = append(out, *f)
		}
	}
	slices.SortFunc(out, func(a, b Fault) int { return strings.Compare(a.Node, b.Node) })
	return out
}

// meets is the fault that a machine starts with, the zero value for none. Called under g.mu.
func (g *Guests) meets(vm *guest) Fault {
	k := faultKey{vm.key, vm.instance.Name}
	f := g.faults[k]
	if f == nil || vm.instance.Resumed {
		return Fault{}
	}
	met := *f
	if f.Times > 0 {
		if f.Times--; f.Times == 0 {
			delete(g.faults, k)
		}
	}
	return met
}

// Report has a running node report its health.
func (g *Guests) Report(key cluster.Key, node string, verdict events.Verdict, check, evidence string) error {
	vm, err := g.running(key, node)
	if err != nil {
		return err
	}
	return g.tell(vm, events.TypeNodeHealth, &events.NodeHealth{
		Cluster: key, Node: node, InstanceID: vm.instance.ID, Verdict: verdict, Check: check, Evidence: evidence, Time: g.now(),
	})
}

// Notify has a running machine pass a notice on, as if its metadata server had given it.
func (g *Guests) Notify(key cluster.Key, node, notice string, at time.Time) error {
	vm, err := g.running(key, node)
	if err != nil {
		return err
	}
	return g.notify(vm, notice, at)
}

func (g *Guests) notify(vm *guest, notice string, at time.Time) error {
	return g.tell(vm, events.TypeNodeNotice, &events.NodeNotice{
		Cluster: vm.key, Node: vm.instance.Name, InstanceID: vm.instance.ID, Notice: notice, At: at, Time: g.now(),
	})
}

// pass passes on what the metadata server announced.
func (g *Guests) pass(vm *guest, notice string, at time.Time) {
	if err := g.notify(vm, notice, at); err != nil {
		g.options.Logger.ErrorContext(vm.ctx, "a notice is not passed on", "machine", vm.instance.Name, "error", err)
	}
}

// tell says something in the background, for as long as the machine runs.
func (g *Guests) tell(vm *guest, typ string, data events.Payload) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reports++
	id := fmt.Sprintf("%d-%d-%d", vm.instance.ID, g.now().UnixMilli(), g.reports)
	if _, err := (&events.Event{ID: id, Source: vm.instance.Name, Type: typ, Time: g.now(), Payload: data}).CloudEvent(); err != nil {
		return err
	}
	g.spawn(func() { g.say(vm.ctx, vm, id, typ, data) })
	return nil
}

// Hang stops a node's slurmd from answering, while its VM runs on. Revive starts it anew.
func (g *Guests) Hang(key cluster.Key, node string) error {
	vm, err := g.running(key, node)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	vm.slurmd, vm.registered = time.Time{}, false
	if c := g.controllers[key]; c != nil {
		c.Unregister(node)
	}
	return nil
}

// Revive starts a node's slurmd anew: it registers as one that has just booted.
func (g *Guests) Revive(key cluster.Key, node string) error {
	vm, err := g.running(key, node)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	vm.slurmd, vm.registered, vm.fault, vm.instance.Resumed = g.now(), false, Fault{}, false
	g.register(vm)
	return nil
}

func (g *Guests) running(key cluster.Key, node string) (*guest, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var newest *guest
	for _, vm := range g.guests {
		if vm.key == key && vm.instance.Name == node && (newest == nil || vm.instance.ID > newest.instance.ID) {
			newest = vm
		}
	}
	if newest == nil {
		return nil, fmt.Errorf("%s: %w", node, ErrNotRunning)
	}
	return newest, nil
}

// windowStart is when an announced maintenance begins; zero when it does not say.
func windowStart(maintenance string) time.Time {
	var m struct {
		WindowStartTime time.Time `json:"windowStartTime"`
	}
	if err := json.Unmarshal([]byte(maintenance), &m); err != nil {
		return time.Time{}
	}
	return m.WindowStartTime
}
