package gcp

import (
	"fmt"
	"time"
)

// Summary is everything that exists in the project.
type Summary struct {
	Time          time.Time           `json:"time"`
	Networks      []string            `json:"networks"`    // but the default one
	Subnetworks   []string            `json:"subnetworks"` // but those of auto-mode networks
	Templates     []string            `json:"templates"`
	Groups        []GroupSummary      `json:"groups"`
	Requests      []RequestSummary    `json:"requests"`
	Instances     []InstanceSummary   `json:"instances"`
	Disks         []string            `json:"disks"`
	Filestores    []string            `json:"filestores"`
	Secrets       []string            `json:"secrets"`
	Operations    int                 `json:"operations"` // that run
	Capacity      map[string]Capacity `json:"capacity"`   // of what is limited or in use, by "ZONE/MACHINE_TYPE"
	ActiveQuotas  map[string]int      `json:"quotas"`
	StaleAnswers  []string            `json:"staleAnswers,omitempty"`
	PlannedFaults int                 `json:"plannedFaults"`
}

// GroupSummary is a managed instance group.
type GroupSummary struct {
	Zone       string `json:"zone"`
	Name       string `json:"name"`
	TargetSize int    `json:"targetSize"`
	Members    int    `json:"members"`
	Deleting   bool   `json:"deleting,omitempty"`
}

// RequestSummary is a resize request.
type RequestSummary struct {
	Zone      string   `json:"zone"`
	Group     string   `json:"group"`
	Name      string   `json:"name"`
	State     string   `json:"state"`
	Instances []string `json:"instances"`
}

// InstanceSummary is a VM.
type InstanceSummary struct {
	Zone            string            `json:"zone"`
	Name            string            `json:"name"`
	ID              uint64            `json:"id,string"`
	Status          string            `json:"status"`
	MachineType     string            `json:"machineType"`
	Group           string            `json:"group,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	TerminationTime time.Time         `json:"terminationTime,omitzero"`
}

// Capacity of a machine type in a zone.
type Capacity struct {
	Limit int `json:"limit"` // Unlimited, or how many VMs there can be
	Used  int `json:"used"`
}

// Summarize states everything that exists: what is left over, at the end of a
// test.
func (s *Server) Summarize() (Summary, error) {
	out := Summary{Capacity: map[string]Capacity{}}
	err := s.locked(func() {
		out.Time = s.now
		s.summarizeNetworks(&out)
		out.Templates, out.Disks = namesOf(s.templates.keys), append([]string{}, s.disks.keys...)
		out.Filestores, out.Secrets = append([]string{}, s.filestores.keys...), namesOf(s.secrets.keys)
		s.summarizeGroups(&out)
		for r := range s.instances.under("") {
			out.Instances = append(out.Instances, InstanceSummary{
				Zone: zoneOf(r.Key), Name: r.Wire.GetName(), ID: r.Wire.GetId(), Status: r.Wire.GetStatus(),
				MachineType: lastSegment(r.Wire.GetMachineType()), Group: lastSegment(r.State.Group),
				Labels: clonedLabels(r.Wire.GetLabels()), TerminationTime: r.State.LeaseEnd,
			})
		}
		out.Operations = len(s.operations.keys) - len(s.ended)
		for stock, used := range s.stock {
			if used > 0 {
				out.Capacity[stock] = Capacity{Limit: Unlimited, Used: used}
			}
		}
		for stock, limit := range s.settings.Capacity {
			out.Capacity[stock] = Capacity{Limit: limit, Used: s.stock[stock]}
		}
		out.ActiveQuotas = copyOf(s.settings.Quotas)
		for _, stale := range []struct {
			name string
			is   bool
		}{{"instances", s.instances.stale}, {"instanceGroupManagers", s.groups.stale}, {"managedInstances", s.managed.stale}, {"resizeRequests", s.requests.stale}} {
			if stale.is {
				out.StaleAnswers = append(out.StaleAnswers, stale.name)
			}
		}
	})
	out.PlannedFaults = s.faults.count()
	return out, err
}

func (s *Server) summarizeNetworks(out *Summary) {
	auto := map[string]bool{}
	for n := range s.networks.under("") {
		auto[n.Wire.GetSelfLink()] = n.Wire.GetAutoCreateSubnetworks()
		if n.Wire.GetName() != "default" {
			out.Networks = append(out.Networks, n.Wire.GetName())
		}
	}
	for sub := range s.subnetworks.under("") {
		if !auto[sub.Wire.GetNetwork()] {
			out.Subnetworks = append(out.Subnetworks, sub.Key)
		}
	}
}

func (s *Server) summarizeGroups(out *Summary) {
	for g := range s.groups.under("") {
		out.Groups = append(out.Groups, GroupSummary{
			Zone: zoneOf(g.Key), Name: g.Wire.GetName(), TargetSize: int(g.Wire.GetTargetSize()),
			Members: len(s.managed.span(g.Key + "/")), Deleting: g.State.DeleteOp != "",
		})
	}
	for r := range s.requests.under("") {
		out.Requests = append(out.Requests, RequestSummary{
			Zone: zoneOf(r.Key), Group: lastSegment(requestGroup(r)), Name: r.Wire.GetName(), State: r.Wire.GetState(),
			Instances: append([]string(nil), r.State.Names...),
		})
	}
}

// Leftovers lists, one a line, what a project that was cleaned up should not
// have: everything but the default network, finished operations, and
// finished resize requests, which go with their group.
func (sum Summary) Leftovers() []string {
	var out []string
	add := func(kind string, names ...string) {
		for _, name := range names {
			out = append(out, kind+" "+name)
		}
	}
	add("network", sum.Networks...)
	add("subnetwork", sum.Subnetworks...)
	add("template", sum.Templates...)
	for _, g := range sum.Groups {
		add("group", fmt.Sprintf("%s/%s of target size %d with %d members", g.Zone, g.Name, g.TargetSize, g.Members))
	}
	for _, i := range sum.Instances {
		add("instance", fmt.Sprintf("%s/%s %s", i.Zone, i.Name, i.Status))
	}
	add("disk", sum.Disks...)
	add("filestore", sum.Filestores...)
	add("secret", sum.Secrets...)
	return out
}

func namesOf(keys []string) []string {
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = lastSegment(key)
	}
	return out
}
