package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/slurm"
)

// Bounds of how long a FLEX_START machine runs, in seconds.
const (
	leastFlexStart = 30
	mostFlexStart  = 604_800
)

// maxPoolLabels leaves room for our own on a machine, which may have 64.
const maxPoolLabels = 56

// poolChecker checks one pool and fills in what was left out of it.
type poolChecker struct {
	*checker
	pool *cluster.NodePool
	path string
}

func (p *poolChecker) check() {
	p.machine()
	p.accelerators()
	p.provisioning()
	p.reservation()
	p.flexStart()
	p.scaling()
	p.zone()
	p.bootDisk()
	p.machineLabels()
}

func (p *poolChecker) fault(field, problem, allowed string) {
	p.checker.fault(join(p.path, field), problem, allowed)
}

func (p *poolChecker) machineType() string { return p.pool.MachineSpec.MachineType }

func (p *poolChecker) gpu() bool { return slurm.GPUFamily(p.machineType()) }

// machine: of machines with GPUs only those of the catalog will do.
func (p *poolChecker) machine() {
	if _, ok := slurm.LookupMachine(p.machineType()); !ok && p.gpu() {
		p.fault("machineSpec.machineType", shown(p.machineType())+" is not a GPU machine type of training clusters", choice(slurm.GPUMachineTypes()))
	}
}

// accelerators follow from the machine type and may only repeat it.
func (p *poolChecker) accelerators() {
	m := &p.pool.MachineSpec
	machine, ok := slurm.LookupMachine(m.MachineType)
	switch {
	case m.MachineType == "" || !ok && p.gpu():
		return
	case machine.GPUs == 0 && m.AcceleratorType != "":
		p.fault("machineSpec.acceleratorType", m.MachineType+" has no accelerators", "no accelerator type, or one of "+strings.Join(slurm.GPUMachineTypes(), ", "))
	case machine.GPUs == 0 && m.AcceleratorCount != 0:
		p.fault("machineSpec.acceleratorCount", m.MachineType+" has no accelerators", "0")
	case machine.GPUs == 0:
		return
	}
	if m.AcceleratorType != "" && m.AcceleratorType != machine.Accelerator {
		p.fault("machineSpec.acceleratorType", m.MachineType+" has no "+m.AcceleratorType, machine.Accelerator)
	}
	if m.AcceleratorCount != 0 && m.AcceleratorCount != machine.GPUs {
		p.fault("machineSpec.acceleratorCount", fmt.Sprintf("%s has %d accelerators, not %d", m.MachineType, machine.GPUs, m.AcceleratorCount), strconv.Itoa(machine.GPUs))
	}
	m.AcceleratorType, m.AcceleratorCount = machine.Accelerator, machine.GPUs
}

// provisioning fills in the model where that is allowed: for GPUs it is a choice that costs money or time.
func (p *poolChecker) provisioning() {
	affinity := p.pool.MachineSpec.ReservationAffinity != nil
	switch {
	case p.pool.ProvisioningModel != "" || !p.known("provisioningModel") || p.machineType() == "":
	case !p.gpu():
		p.pool.ProvisioningModel = cluster.OnDemand
	case affinity:
		p.pool.ProvisioningModel = cluster.Reservation
	default:
		p.fault("provisioningModel", "is missing, and a pool of GPUs has no default", "FLEX_START, SPOT, ON_DEMAND, or RESERVATION with a reservation affinity")
	}
	if p.pool.ProvisioningModel == cluster.FlexStart && p.machineType() != "" && !flexStart(p.machineType()) {
		p.fault("provisioningModel", p.machineType()+" machines cannot be had by FLEX_START", "another model, or a machine type with GPUs that are not A4X")
	}
}

func flexStart(machineType string) bool {
	m, ok := slurm.LookupMachine(machineType)
	if !ok { // a GPU type that is not there is refused already
		return slurm.GPUFamily(machineType) || strings.HasPrefix(machineType, "h4d-")
	}
	return m.FlexStart
}

// known reports whether a field of the pool was read well or is not there at all.
func (p *poolChecker) known(field string) bool {
	at := p.places[join(p.path, field)]
	return at == nil || !at.bad
}

// reservation: an affinity goes with the model RESERVATION and with no other, and is in the pool's zone.
func (p *poolChecker) reservation() {
	a := p.pool.MachineSpec.ReservationAffinity
	model := p.pool.ProvisioningModel
	switch {
	case a == nil && model == cluster.Reservation:
		p.fault("machineSpec.reservationAffinity", "is missing, and the provisioning model is RESERVATION", "a reservation affinity, or another model")
	case a != nil && model != cluster.Reservation && model != "":
		p.fault("machineSpec.reservationAffinity", "is given, and the provisioning model is "+string(model), "the provisioning model RESERVATION, or no reservation affinity")
	}
	if a == nil {
		return
	}
	if a.Key == "" {
		a.Key = reservationKey
	}
	for i, name := range a.Values {
		if zone := zoneOf(name); p.pool.Zone != "" && zone != p.pool.Zone {
			p.fault(at("machineSpec.reservationAffinity.values", i), "is in "+zone, "a reservation in "+p.pool.Zone+", where the pool is")
		}
	}
}

// zoneOf is the zone of a reservation, whose form has been checked.
func zoneOf(reservation string) string { return strings.Split(reservation, "/")[3] }

func (p *poolChecker) flexStart() {
	model := p.pool.ProvisioningModel
	switch d := &p.pool.FlexStartMaxDuration; {
	case *d != 0 && model != cluster.FlexStart && model != "":
		p.fault("flexStartMaxDuration", "is given, and the provisioning model is "+string(model), "the provisioning model FLEX_START, or no duration")
	case *d == 0 && model == cluster.FlexStart:
		*d = cluster.Duration(mostFlexStart * time.Second)
	}
}

func (p *poolChecker) scaling() {
	s := p.pool.ScalingSpec
	if s.MinNodeCount > s.MaxNodeCount {
		p.fault("scalingSpec.minNodeCount", fmt.Sprintf("%d is more than the maximum, %d", s.MinNodeCount, s.MaxNodeCount), "0 to the maximum")
		return
	}
	machine, ok := slurm.LookupMachine(p.machineType())
	if !ok || machine.Multiple == 1 {
		return
	}
	allowed := fmt.Sprintf("a multiple of %d, since %s machines come by whole racks", machine.Multiple, p.machineType())
	if s.MinNodeCount%machine.Multiple != 0 {
		p.fault("scalingSpec.minNodeCount", fmt.Sprintf("is %d", s.MinNodeCount), allowed)
	}
	if s.MaxNodeCount%machine.Multiple != 0 {
		p.fault("scalingSpec.maxNodeCount", fmt.Sprintf("is %d", s.MaxNodeCount), allowed)
	}
}

func (p *poolChecker) zone() {
	switch {
	case p.pool.Zone == "":
		p.fault("zone", "is missing, and neither a reservation nor the other pools tell it", "a zone such as "+cmp.Or(p.key.Location, "us-central1")+"-a")
	case p.key.Location != "" && cluster.Region(p.pool.Zone) != p.key.Location:
		p.fault("zone", shown(p.pool.Zone)+" is not in "+p.key.Location+", where the cluster is", "a zone such as "+p.key.Location+"-a")
	}
}

// bootDisk: not every family starts from every type.
func (p *poolChecker) bootDisk() {
	d := &p.pool.BootDisk
	types := []string{slurm.PDSSD, slurm.PDStandard, slurm.HyperdiskBalanced}
	if m, ok := slurm.LookupMachine(p.machineType()); ok {
		types = m.BootDisks
	}
	if d.Type != "" && !slices.Contains(types, d.Type) {
		p.fault("bootDisk.bootDiskType", p.machineType()+" machines do not start from "+d.Type, choice(types))
	}
	if d.Type == "" {
		d.Type = types[0]
	}
	switch {
	case d.SizeGB == 0:
		d.SizeGB = defaultBootDisk
	case d.SizeGB < leastBootDisk:
		p.fault("bootDisk.bootDiskSizeGb", fmt.Sprintf("%d GB is less than an image needs", d.SizeGB), fmt.Sprintf("%d to %d", leastBootDisk, mostBootDisk))
	}
}

// machineLabels: a pool's labels go on machines, where Compute Engine allows 63 characters and some are ours.
func (p *poolChecker) machineLabels() {
	for key, value := range p.pool.Labels {
		path := join("labels", shownKey(key))
		switch {
		case len(key) > 63 || len(value) > 63:
			p.fault(path, "has a key or value of more than 63 characters", "at most 63 on a machine")
		case strings.HasPrefix(key, "convoke-") || strings.HasPrefix(key, "goog-"):
			p.fault(path, "labels that begin with convoke- or goog- are set for you", "another key")
		}
	}
}

// defaultZone gives a zone to pools that name none, where it can be known: a reservation is in one zone, and pools that
// all name one zone leave no doubt.
func (c *checker) defaultZone() {
	zones := map[string]bool{}
	for i := range c.spec.NodePools {
		p := &c.spec.NodePools[i]
		if a := p.MachineSpec.ReservationAffinity; p.Zone == "" && a != nil && len(a.Values) > 0 && c.places[at("nodePools", i, "zone")] == nil {
			p.Zone = zoneOf(a.Values[0])
		}
		if p.Zone != "" {
			zones[p.Zone] = true
		}
	}
	if len(zones) != 1 {
		return
	}
	for zone := range zones {
		for i := range c.spec.NodePools {
			if p := &c.spec.NodePools[i]; p.Zone == "" {
				p.Zone = zone
			}
		}
	}
}
