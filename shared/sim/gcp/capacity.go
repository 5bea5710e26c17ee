package gcp

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
)

const activeRequests = "ACTIVE_RESIZE_REQUESTS"

// demand is what one VM of such properties counts for in quotas.
func (s *Server) demand(p *computepb.InstanceProperties) map[string]int {
	mt := s.machineTypes[lastSegment(p.GetMachineType())]
	out := map[string]int{"INSTANCES": 1}
	prefix := ""
	switch p.GetScheduling().GetProvisioningModel() {
	case modelSpot, modelFlex:
		prefix = "PREEMPTIBLE_"
	}
	if mt.GPUs > 0 {
		out[prefix+mt.GPUQuota+"_GPUS"] = mt.GPUs
	} else {
		out[prefix+"CPUS"] = mt.CPUs
	}
	for _, nic := range p.GetNetworkInterfaces() {
		if len(nic.GetAccessConfigs()) > 0 {
			out["IN_USE_ADDRESSES"]++
		}
	}
	return out
}

// count adds n times what an instance holds.
func (s *Server) count(r *instance, n int) {
	s.stock[r.State.Stock] += n
	region := s.regionOf[zoneOf(r.Key)]
	for metric, amount := range s.demand(propertiesOf(r.Wire)) {
		s.used[region+"/"+metric] += n * amount
	}
}

// hold takes capacity and quota for an instance.
func (s *Server) hold(r *instance) {
	r.State.Holds = true
	r.State.Stock = stockOf(zoneOf(r.Key), r.Wire.GetMachineType())
	s.count(r, 1)
	s.place(r)
	s.instances.changed(r)
}

// release gives capacity and quota back, to whoever waits for it.
func (s *Server) release(r *instance) {
	if !r.State.Holds {
		return
	}
	s.count(r, -1)
	r.State.Holds = false
	s.instances.changed(r)
	s.offerSoon()
}

func stockOf(zone, machineType string) string { return zone + "/" + lastSegment(machineType) }

// limit is a quota's limit in each region, if it is limited.
func (s *Server) limit(metric string) (int, bool) {
	limit, named := s.settings.Quotas[metric]
	return limit, named && limit != Unlimited
}

// usage of a quota in a region.
func (s *Server) usage(region, metric string) int {
	if metric != activeRequests {
		return s.used[region+"/"+metric]
	}
	n := 0
	for r := range s.requests.under("zones/") {
		if active(r) && s.regionOf[zoneOf(r.Key)] == region {
			n++
		}
	}
	return n
}

// shortage is why n VMs of such properties cannot be placed now, or nil.
func (s *Server) shortage(zone string, p *computepb.InstanceProperties, n int) *failure {
	region := s.regionOf[zone]
	demand := s.demand(p)
	for _, metric := range sortedKeys(demand) {
		if limit, limited := s.limit(metric); limited && s.used[region+"/"+metric]+n*demand[metric] > limit {
			return quotaFailure(metric, limit, region)
		}
	}
	stock := stockOf(zone, p.GetMachineType())
	if capacity, limited := s.settings.Capacity[stock]; limited && capacity != Unlimited && s.stock[stock]+n > capacity {
		return stockout(zone, lastSegment(p.GetMachineType()))
	}
	return nil
}

// offerSoon lets those who wait look again.
func (s *Server) offerSoon() { s.offerAfter(0) }

// offerAfter lets those who wait look again after d; once, if many ask for it.
func (s *Server) offerAfter(d time.Duration) {
	if !s.agenda.hasAt(s.now.Add(d), "capacity", "capacity.offer") {
		s.after(d, "capacity.offer", "capacity", "")
	}
}

// A waiter is a resize request or an instance that waits for capacity.
type waiter struct {
	ticket uint64
	offer  func()
}

// offerCapacity goes through those who wait, in the order in which they came.
// A request that does not fit does not hold up smaller ones behind it.
func (s *Server) offerCapacity(task) {
	var waiting []waiter
	for r := range s.requests.under("zones/") {
		if r.State.Queued {
			waiting = append(waiting, waiter{r.State.Ticket, func() { s.grant(r) }})
		}
	}
	for m := range s.managed.under("zones/") {
		if m.State.Queued {
			waiting = append(waiting, waiter{m.State.Ticket, func() { s.tryManaged(m) }})
		}
	}
	for r := range s.instances.under("zones/") {
		if r.State.Queued {
			waiting = append(waiting, waiter{r.State.Ticket, func() { s.tryInstance(r) }})
		}
	}
	slices.SortStableFunc(waiting, func(a, b waiter) int { return cmp.Compare(a.ticket, b.ticket) })
	for _, w := range waiting {
		w.offer()
	}
}

func (s *Server) retryDelay() time.Duration { return max(s.delays().Retry, time.Millisecond) }

// SetCapacity says how many VMs of a machine type a zone can hold. Fewer than
// there are evicts none.
func (s *Server) SetCapacity(zone, machineType string, vms int) error {
	if s.regionOf[zone] == "" {
		return invalidField("zone", zone, "Unknown zone.")
	}
	if _, ok := s.machineTypes[machineType]; !ok {
		return invalidField("machineType", machineType, "There is no such machine type.")
	}
	return s.locked(func() {
		s.settings.Capacity[zone+"/"+machineType] = vms
		s.settings.dirty = true
		s.offerSoon()
		s.advance()
	})
}

// SetQuota limits a metric in each region.
func (s *Server) SetQuota(metric string, limit int) error {
	return s.locked(func() {
		s.settings.Quotas[strings.ToUpper(metric)] = limit
		s.settings.dirty = true
		s.offerSoon()
		s.advance()
	})
}

// SetDelays changes how long things take that begin from now on.
func (s *Server) SetDelays(change func(*Delays)) error {
	return s.locked(func() {
		change(&s.settings.Delays)
		s.settings.dirty = true
	})
}
