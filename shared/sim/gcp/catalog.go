package gcp

import (
	"fmt"
	"slices"

	"cloud.google.com/go/compute/apiv1/computepb"
)

// MachineType is an entry of the catalog.
type MachineType struct {
	Name     string
	CPUs     int
	MemoryMB int
	// GPU is the accelerator that the type is built with, such as
	// "nvidia-h200-141gb", and GPUs how many; none for CPU types.
	GPU  string
	GPUs int
	// GPUQuota is the accelerator's part of a quota metric, such as
	// "NVIDIA_H200" of PREEMPTIBLE_NVIDIA_H200_GPUS.
	GPUQuota string
	// DiskTypes are the boot disks that it takes; any when empty.
	DiskTypes []string
}

// DefaultMachineTypes are the types that training clusters are made of, with
// the sizes that Compute Engine's documentation states.
func DefaultMachineTypes() []MachineType {
	hyperdisk := []string{"hyperdisk-balanced", "hyperdisk-extreme", "hyperdisk-throughput", "hyperdisk-ml"}
	persistent := append([]string{"pd-ssd", "pd-balanced"}, hyperdisk...)
	types := []MachineType{
		{Name: "a3-highgpu-8g", CPUs: 208, MemoryMB: 1872 << 10, GPU: "nvidia-h100-80gb", GPUs: 8, GPUQuota: "NVIDIA_H100", DiskTypes: persistent},
		{Name: "a3-megagpu-8g", CPUs: 208, MemoryMB: 1872 << 10, GPU: "nvidia-h100-mega-80gb", GPUs: 8, GPUQuota: "NVIDIA_H100_MEGA", DiskTypes: persistent},
		{Name: "a3-ultragpu-8g", CPUs: 224, MemoryMB: 2952 << 10, GPU: "nvidia-h200-141gb", GPUs: 8, GPUQuota: "NVIDIA_H200", DiskTypes: hyperdisk},
		{Name: "a4-highgpu-8g", CPUs: 224, MemoryMB: 3968 << 10, GPU: "nvidia-b200", GPUs: 8, GPUQuota: "NVIDIA_B200", DiskTypes: hyperdisk},
		{Name: "a4x-highgpu-4g", CPUs: 140, MemoryMB: 884 << 10, GPU: "nvidia-gb200", GPUs: 4, GPUQuota: "NVIDIA_GB200", DiskTypes: hyperdisk},
		{Name: "h4d-standard-192", CPUs: 192, MemoryMB: 720 << 10, DiskTypes: hyperdisk},
		{Name: "e2-medium", CPUs: 2, MemoryMB: 4 << 10},
		{Name: "n1-standard-1", CPUs: 1, MemoryMB: 3840},
	}
	for _, cpus := range []int{2, 4, 8, 16, 32, 48, 64, 80, 96, 128} {
		types = append(types,
			MachineType{Name: fmt.Sprintf("n2-standard-%d", cpus), CPUs: cpus, MemoryMB: cpus * 4 << 10},
			MachineType{Name: fmt.Sprintf("n2-highmem-%d", cpus), CPUs: cpus, MemoryMB: cpus * 8 << 10})
	}
	for _, cpus := range []int{2, 4, 8, 16, 32} {
		types = append(types, MachineType{Name: fmt.Sprintf("e2-standard-%d", cpus), CPUs: cpus, MemoryMB: cpus * 4 << 10})
	}
	return types
}

// DefaultRegions are regions that offer accelerator machines, with their real
// zones.
func DefaultRegions() map[string][]string {
	zones := func(region string, letters ...string) []string {
		out := make([]string, len(letters))
		for i, letter := range letters {
			out[i] = region + "-" + letter
		}
		return out
	}
	out := map[string][]string{"us-central1": zones("us-central1", "a", "b", "c", "f")}
	for _, region := range []string{"asia-northeast1", "asia-southeast1", "us-east4", "us-east5", "us-south1", "us-west1", "us-west4"} {
		out[region] = zones(region, "a", "b", "c")
	}
	for _, region := range []string{"europe-west1", "us-east1"} {
		out[region] = zones(region, "b", "c", "d")
	}
	out["europe-west4"] = zones("europe-west4", "a", "b", "c")
	return out
}

func catalogRoutes() []route {
	return []route{
		{"GET", "/compute/v1/projects/{project}/zones/{zone}/machineTypes/{machineType}", "compute.machineTypes.get", (*Server).getMachineType},
		{"GET", "/compute/v1/projects/{project}/zones/{zone}/machineTypes", "compute.machineTypes.list", (*Server).listMachineTypes},
		{"GET", "/compute/v1/projects/{project}/zones/{zone}", "compute.zones.get", (*Server).getZone},
		{"GET", "/compute/v1/projects/{project}/zones", "compute.zones.list", (*Server).listZones},
		{"GET", "/compute/v1/projects/{project}/regions/{region}", "compute.regions.get", (*Server).getRegion},
		{"GET", "/compute/v1/projects/{project}/regions", "compute.regions.list", (*Server).listRegions},
	}
}

func (s *Server) getMachineType(c *call) (wire, error) {
	mt, ok := s.machineTypes[c.path("machineType")]
	if !ok {
		return nil, notFound(s.relative(c.key()))
	}
	return encode(s.machineTypeWire(c.path("zone"), mt))
}

func (s *Server) listMachineTypes(c *call) (wire, error) {
	rows := make([]row, 0, len(s.machineTypes))
	for _, name := range sortedKeys(s.machineTypes) {
		rows = append(rows, row{key: name, message: s.machineTypeWire(c.path("zone"), s.machineTypes[name])})
	}
	return s.list(c, "compute#machineTypeList", rows)
}

func (s *Server) machineTypeWire(zone string, mt MachineType) *computepb.MachineType {
	out := &computepb.MachineType{
		Kind:         new("compute#machineType"),
		Id:           new(s.stableID("machineType/" + mt.Name)),
		Name:         new(mt.Name),
		Description:  new(fmt.Sprintf("%d vCPUs, %d GB RAM", mt.CPUs, mt.MemoryMB>>10)),
		GuestCpus:    new(int32(mt.CPUs)),     //nolint:gosec // a machine's size
		MemoryMb:     new(int32(mt.MemoryMB)), //nolint:gosec // a machine's size
		IsSharedCpu:  new(false),
		Architecture: new("X86_64"),
		Zone:         new(zone),
		SelfLink:     new(s.link("zones/" + zone + "/machineTypes/" + mt.Name)),
	}
	if mt.GPUs > 0 {
		out.Accelerators = []*computepb.Accelerators{{
			GuestAcceleratorType:  new(mt.GPU),
			GuestAcceleratorCount: new(int32(mt.GPUs)), //nolint:gosec // a machine's size
		}}
	}
	return out
}

func (s *Server) getZone(c *call) (wire, error) { return encode(s.zoneWire(c.path("zone"))) }

func (s *Server) listZones(c *call) (wire, error) {
	var rows []row
	for _, zone := range sortedKeys(s.regionOf) {
		rows = append(rows, row{key: zone, message: s.zoneWire(zone)})
	}
	return s.list(c, "compute#zoneList", rows)
}

func (s *Server) zoneWire(zone string) *computepb.Zone {
	return &computepb.Zone{
		Kind: new("compute#zone"), Id: new(s.stableID("zone/" + zone)), Name: new(zone), Description: new(zone),
		Status: new("UP"), Region: new(s.link("regions/" + s.regionOf[zone])), SelfLink: new(s.link("zones/" + zone)),
	}
}

func (s *Server) getRegion(c *call) (wire, error) { return encode(s.regionWire(c.path("region"))) }

func (s *Server) listRegions(c *call) (wire, error) {
	var rows []row
	for _, region := range sortedKeys(s.opts.Regions) {
		rows = append(rows, row{key: region, message: s.regionWire(region)})
	}
	return s.list(c, "compute#regionList", rows)
}

// regionWire states the limits and the usage of the quotas that are limited.
func (s *Server) regionWire(region string) *computepb.Region {
	out := &computepb.Region{
		Kind: new("compute#region"), Id: new(s.stableID("region/" + region)), Name: new(region), Description: new(region),
		Status: new("UP"), SelfLink: new(s.link("regions/" + region)),
	}
	zones := slices.Clone(s.opts.Regions[region])
	slices.Sort(zones)
	for _, zone := range zones {
		out.Zones = append(out.Zones, s.link("zones/"+zone))
	}
	for _, metric := range sortedKeys(s.settings.Quotas) {
		out.Quotas = append(out.Quotas, &computepb.Quota{
			Metric: new(metric), Limit: new(float64(s.settings.Quotas[metric])), Usage: new(float64(s.usage(region, metric))),
		})
	}
	return out
}
