package slurm

import "testing"

// The figures are those that users of Slurm on Compute Engine know: what a node of the type registers with.
func TestMachineFigures(t *testing.T) {
	for _, want := range []struct {
		machineType                       string
		vcpus, memory, real, gpus, perCPU int
		sockets, cores, threads           int
		accelerator, family, defaultDisk  string
	}{
		{"a3-ultragpu-8g", 224, 3022848, 2933888, 8, 13097, 2, 56, 2, "NVIDIA_H200_141GB", "a3-ultra", HyperdiskBalanced},
		{"a4-highgpu-8g", 224, 4063232, 3943792, 8, 17606, 2, 56, 2, "NVIDIA_B200", "a4", HyperdiskBalanced},
		{"a3-megagpu-8g", 208, 1916928, 1860368, 8, 8944, 2, 52, 2, "NVIDIA_H100_MEGA_80GB", "a3-mega", PDSSD},
		{"a3-highgpu-8g", 208, 1916928, 1860368, 8, 8944, 2, 52, 2, "NVIDIA_H100_80GB", "a3-high", PDSSD},
		{"n2-standard-8", 8, 32768, 31408, 0, 3926, 1, 4, 2, "", "n2", PDSSD},
		{"n2-standard-2", 2, 8192, 7552, 0, 3776, 1, 1, 2, "", "n2", PDSSD},
		{"n2-highmem-128", 128, 884736, 858416, 0, 6706, 1, 64, 2, "", "n2", PDSSD},
		{"n2-highcpu-16", 16, 16384, 15504, 0, 969, 1, 8, 2, "", "n2", PDSSD},
	} {
		m, ok := LookupMachine(want.machineType)
		if !ok {
			t.Errorf("%s is not in the catalog", want.machineType)
			continue
		}
		got := want
		got.vcpus, got.memory, got.real, got.gpus, got.perCPU = m.VCPUs, m.MemoryMB, m.RealMemoryMB(), m.GPUs, m.DefMemPerCPU()
		got.sockets, got.cores, got.threads = m.Sockets, m.CoresPerSocket, m.ThreadsPerCore
		got.accelerator, got.family, got.defaultDisk = m.Accelerator, m.Family, m.DefaultBootDisk()
		if got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", want.machineType, got, want)
		}
	}
}

func TestMachinesAddUp(t *testing.T) {
	types := append(GPUMachineTypes(), "n2-standard-2", "n2-standard-128", "n2-highmem-96")
	for _, name := range types {
		m, ok := LookupMachine(name)
		if !ok || m.Type != name {
			t.Errorf("%s: got %+v", name, m)
		}
		if m.Sockets*m.CoresPerSocket*m.ThreadsPerCore != m.VCPUs {
			t.Errorf("%s: %d×%d×%d is not %d", name, m.Sockets, m.CoresPerSocket, m.ThreadsPerCore, m.VCPUs)
		}
		if (m.GPUs > 0) != GPUFamily(name) || (m.GPUs > 0) != (m.Accelerator != "") {
			t.Errorf("%s: %d GPUs, %q, GPU family %v", name, m.GPUs, m.Accelerator, GPUFamily(name))
		}
	}
}

func TestMachinesNotInTheCatalog(t *testing.T) {
	for _, name := range []string{"", "n2", "n2-standard", "n2-standard-0", "n2-standard-08", "n2-standard-256", "n2-highcpu-128", "e2-standard-4", "a3-highgpu-1g", "n2-standard-8 "} {
		if m, ok := LookupMachine(name); ok {
			t.Errorf("%q is in the catalog: %+v", name, m)
		}
	}
}
