package slurm

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Boot disk types of the cluster spec.
const (
	PDSSD             = "pd-ssd"
	PDStandard        = "pd-standard"
	HyperdiskBalanced = "hyperdisk-balanced"
)

// Machine is what is known of a machine type: enough to tell Slurm of a node before there is one.
type Machine struct {
	// Type is Compute Engine's name, Family the series it belongs to (n2, a3-ultra …).
	Type   string
	Family string
	VCPUs  int
	// MemoryMB is in MiB, as Compute Engine's memoryMb.
	MemoryMB int
	GPUs     int
	// Accelerator is the product's name for the GPUs, empty for a type without any.
	Accelerator string
	// Sockets × CoresPerSocket × ThreadsPerCore = VCPUs.
	Sockets        int
	CoresPerSocket int
	ThreadsPerCore int
	// BootDisks are the types of boot disk that the family starts from, its default first.
	BootDisks []string
	// FlexStart reports whether the family can be had by FLEX_START.
	FlexStart bool
	// Multiple is what a pool's node counts must be a multiple of: 18 for machines that come in whole racks, else 1.
	Multiple int
}

// RealMemoryMB is the RealMemory of the node in slurm.conf. The rest is left to the system: a node that registers with
// less than slurm.conf says is drained.
func (m Machine) RealMemoryMB() int {
	const fixed, perGiB = 400, 30
	return max(1, m.MemoryMB-(fixed+perGiB*(m.MemoryMB/1024)))
}

// DefMemPerCPU is a share of RealMemory for each CPU, in MiB: what a job gets that asks for none.
func (m Machine) DefMemPerCPU() int { return max(100, m.RealMemoryMB()/m.VCPUs) }

// DefaultBootDisk is the boot disk type of a pool that names none.
func (m Machine) DefaultBootDisk() string { return m.BootDisks[0] }

// LookupMachine finds a machine type in the catalog: the GPU machines of training clusters and the n2 series.
func LookupMachine(machineType string) (Machine, bool) {
	for _, m := range gpuMachines() {
		if m.Type == machineType {
			return m, true
		}
	}
	return n2(machineType)
}

// GPUMachineTypes are the machine types with GPUs, sorted.
func GPUMachineTypes() []string {
	var types []string
	for _, m := range gpuMachines() {
		types = append(types, m.Type)
	}
	slices.Sort(types)
	return types
}

// Accelerators are the product's names of the accelerators, sorted.
func Accelerators() []string {
	var names []string
	for _, m := range gpuMachines() {
		names = append(names, m.Accelerator)
	}
	slices.Sort(names)
	return names
}

// GPUFamily reports whether a machine type, in the catalog or not, belongs to a series that comes with GPUs.
func GPUFamily(machineType string) bool { return gpuFamily.MatchString(machineType) }

var gpuFamily = regexp.MustCompile(`^(a[0-9]+x?|g[0-9]+)-`)

func gpuMachines() []Machine {
	return []Machine{
		{
			Type: "a3-highgpu-8g", Family: "a3-high", VCPUs: 208, MemoryMB: 1916928, GPUs: 8, Accelerator: "NVIDIA_H100_80GB",
			Sockets: 2, CoresPerSocket: 52, ThreadsPerCore: 2, BootDisks: []string{PDSSD, HyperdiskBalanced}, FlexStart: true, Multiple: 1,
		},
		{
			Type: "a3-megagpu-8g", Family: "a3-mega", VCPUs: 208, MemoryMB: 1916928, GPUs: 8, Accelerator: "NVIDIA_H100_MEGA_80GB",
			Sockets: 2, CoresPerSocket: 52, ThreadsPerCore: 2, BootDisks: []string{PDSSD, HyperdiskBalanced}, FlexStart: true, Multiple: 1,
		},
		{
			Type: "a3-ultragpu-8g", Family: "a3-ultra", VCPUs: 224, MemoryMB: 3022848, GPUs: 8, Accelerator: "NVIDIA_H200_141GB",
			Sockets: 2, CoresPerSocket: 56, ThreadsPerCore: 2, BootDisks: []string{HyperdiskBalanced}, FlexStart: true, Multiple: 1,
		},
		{
			Type: "a4-highgpu-8g", Family: "a4", VCPUs: 224, MemoryMB: 4063232, GPUs: 8, Accelerator: "NVIDIA_B200",
			Sockets: 2, CoresPerSocket: 56, ThreadsPerCore: 2, BootDisks: []string{HyperdiskBalanced}, FlexStart: true, Multiple: 1,
		},
		{
			// Arm: a core has one thread. Its machines come by racks of 18 and cannot be had by FLEX_START.
			Type: "a4x-highgpu-4g", Family: "a4x", VCPUs: 140, MemoryMB: 905216, GPUs: 4, Accelerator: "NVIDIA_GB200",
			Sockets: 2, CoresPerSocket: 70, ThreadsPerCore: 1, BootDisks: []string{HyperdiskBalanced}, Multiple: 18,
		},
	}
}

// n2 makes the figures of an n2 machine type by the series' rule: so many GiB for each vCPU, two threads a core.
func n2(machineType string) (Machine, bool) {
	shape, size, ok := cutLast(machineType, "-")
	vcpus, err := strconv.Atoi(size)
	if !ok || err != nil || strconv.Itoa(vcpus) != size || !slices.Contains([]int{2, 4, 8, 16, 32, 48, 64, 80, 96, 128}, vcpus) {
		return Machine{}, false
	}
	var gib int
	switch {
	case shape == "n2-standard":
		gib = 4 * vcpus
	case shape == "n2-highmem" && vcpus == 128: // the largest has less than the rule gives
		gib = 864
	case shape == "n2-highmem":
		gib = 8 * vcpus
	case shape == "n2-highcpu" && vcpus <= 96:
		gib = vcpus
	default:
		return Machine{}, false
	}
	return Machine{
		Type: machineType, Family: "n2", VCPUs: vcpus, MemoryMB: gib * 1024, Sockets: 1, CoresPerSocket: vcpus / 2, ThreadsPerCore: 2,
		BootDisks: []string{PDSSD, PDStandard, HyperdiskBalanced}, FlexStart: false, Multiple: 1,
	}, true
}

func cutLast(s, sep string) (before, after string, found bool) {
	at := strings.LastIndex(s, sep)
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+len(sep):], true
}
