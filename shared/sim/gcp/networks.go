package gcp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"cloud.google.com/go/compute/apiv1/computepb"
)

func networkRoutes() []route {
	const networks = "/compute/v1/projects/{project}/global/networks"
	const subnetworks = "/compute/v1/projects/{project}/regions/{region}/subnetworks"
	return []route{
		{"POST", networks, "compute.networks.insert", (*Server).insertNetwork},
		{"GET", networks, "compute.networks.list", func(s *Server, c *call) (wire, error) {
			return s.list(c, "compute#networkList", s.networks.shown(c.key()+"/"))
		}},
		{"GET", networks + "/{network}", "compute.networks.get", func(s *Server, c *call) (wire, error) { return getResource(s, c, s.networks) }},
		{"DELETE", networks + "/{network}", "compute.networks.delete", func(s *Server, c *call) (wire, error) {
			return deleteResource(s, c, s.networks, s.networkUser)
		}},
		{"POST", subnetworks, "compute.subnetworks.insert", (*Server).insertSubnetwork},
		{"GET", subnetworks, "compute.subnetworks.list", func(s *Server, c *call) (wire, error) {
			return s.list(c, "compute#subnetworkList", s.subnetworks.shown(c.key()+"/"))
		}},
		{"GET", subnetworks + "/{subnetwork}", "compute.subnetworks.get", func(s *Server, c *call) (wire, error) {
			return getResource(s, c, s.subnetworks)
		}},
		{"DELETE", subnetworks + "/{subnetwork}", "compute.subnetworks.delete", func(s *Server, c *call) (wire, error) {
			return deleteResource(s, c, s.subnetworks, s.subnetworkUser)
		}},
	}
}

// autoRanges are the ranges that auto-mode networks have in the regions.
// Regions that are not named get the ones that follow.
func autoRange(region string, i int) string {
	known := map[string]string{
		"us-central1": "10.128.0.0/20", "europe-west1": "10.132.0.0/20", "us-west1": "10.138.0.0/20",
		"asia-northeast1": "10.146.0.0/20", "us-east1": "10.142.0.0/20", "us-east4": "10.150.0.0/20",
		"asia-southeast1": "10.148.0.0/20", "europe-west4": "10.164.0.0/20", "us-west4": "10.182.0.0/20",
		"us-south1": "10.206.0.0/20", "us-east5": "10.202.0.0/20",
	}
	if r, ok := known[region]; ok {
		return r
	}
	return fmt.Sprintf("10.%d.%d.0/20", 210+i/16, i%16*16)
}

func (s *Server) createDefaultNetwork() {
	key := "global/networks/default"
	s.networks.put(key, s.newNetwork("default", &computepb.Network{AutoCreateSubnetworks: new(true), Description: new("Default network for the project")}), resourceState{})
	s.createAutoSubnetworks(key)
}

func (s *Server) newNetwork(name string, n *computepb.Network) *computepb.Network {
	key := "global/networks/" + name
	n.Kind, n.Id, n.Name = new("compute#network"), new(s.newID()), new(name)
	n.SelfLink = new(s.link(key))
	n.SelfLinkWithId = new(s.link(fmt.Sprintf("global/networks/%d", n.GetId())))
	n.CreationTimestamp = new(timestamp(s.now))
	n.Subnetworks = nil
	n.NetworkFirewallPolicyEnforcementOrder = new("AFTER_CLASSIC_FIREWALL")
	if n.Mtu == nil {
		n.Mtu = new(int32(1460))
	}
	if n.GetRoutingConfig().GetRoutingMode() == "" {
		n.RoutingConfig = &computepb.NetworkRoutingConfig{RoutingMode: new("REGIONAL")}
	}
	return n
}

func (s *Server) insertNetwork(c *call) (wire, error) {
	n := &computepb.Network{}
	if err := c.decode(n); err != nil {
		return nil, err
	}
	if err := checkName("resource.name", n.GetName()); err != nil {
		return nil, err
	}
	if n.Mtu != nil && (n.GetMtu() < 1300 || n.GetMtu() > 8896) {
		return nil, invalidField("resource.mtu", fmt.Sprint(n.GetMtu()), "Must be between 1300 and 8896, inclusive.")
	}
	if n.IPv4Range != nil {
		return nil, invalid("Legacy networks can no longer be created: leave out IPv4Range.")
	}
	if n.AutoCreateSubnetworks == nil {
		n.AutoCreateSubnetworks = new(true)
	}
	key := "global/networks/" + n.GetName()
	if s.networks.get(key) != nil {
		return nil, alreadyExists(s.relative(key))
	}
	for region := range s.opts.Regions {
		sub := "regions/" + region + "/subnetworks/" + n.GetName()
		if n.GetAutoCreateSubnetworks() && s.subnetworks.get(sub) != nil {
			return nil, alreadyExists(s.relative(sub))
		}
	}
	answer, err := insertResource(s, c, s.networks, key, s.newNetwork(n.GetName(), n), c.route.name)
	if err == nil && n.GetAutoCreateSubnetworks() {
		s.createAutoSubnetworks(key)
	}
	return answer, err
}

func (s *Server) createAutoSubnetworks(network string) {
	for i, region := range sortedKeys(s.opts.Regions) {
		sub := &computepb.Subnetwork{Name: new(lastSegment(network)), IpCidrRange: new(autoRange(region, i))}
		s.putSubnetwork(network, region, sub, resourceState{})
	}
}

func (s *Server) putSubnetwork(network, region string, sub *computepb.Subnetwork, state resourceState) {
	key := "regions/" + region + "/subnetworks/" + sub.GetName()
	prefix := netip.MustParsePrefix(sub.GetIpCidrRange())
	sub.Kind, sub.Id = new("compute#subnetwork"), new(s.newID())
	sub.Network, sub.Region, sub.SelfLink = new(s.link(network)), new(s.link("regions/"+region)), new(s.link(key))
	sub.CreationTimestamp = new(timestamp(s.now))
	sub.GatewayAddress = new(prefix.Addr().Next().String())
	sub.Fingerprint = new(fingerprint(key, sub.GetIpCidrRange(), sub.GetId()))
	if sub.Purpose == nil {
		sub.Purpose = new("PRIVATE")
	}
	if sub.StackType == nil {
		sub.StackType = new("IPV4_ONLY")
	}
	if sub.PrivateIpGoogleAccess == nil {
		sub.PrivateIpGoogleAccess = new(false)
	}
	s.subnetworks.put(key, sub, state)
	n := s.networks.get(network)
	n.Wire.Subnetworks = append(n.Wire.Subnetworks, sub.GetSelfLink())
	slices.Sort(n.Wire.Subnetworks)
	s.networks.changed(n)
}

func (s *Server) insertSubnetwork(c *call) (wire, error) {
	sub := &computepb.Subnetwork{}
	if err := c.decode(sub); err != nil {
		return nil, err
	}
	if err := checkName("resource.name", sub.GetName()); err != nil {
		return nil, err
	}
	if sub.GetNetwork() == "" {
		return nil, missingField("resource.network")
	}
	network, refused := usable(s, s.networks, s.resolve(sub.GetNetwork(), "global/networks"))
	if refused != nil {
		return nil, refused
	}
	prefix, err := netip.ParsePrefix(sub.GetIpCidrRange())
	if err != nil || !prefix.Addr().Is4() || prefix != prefix.Masked() || prefix.Bits() > 29 || prefix.Bits() < 4 {
		return nil, invalidField("resource.ipCidrRange", sub.GetIpCidrRange(), "Must be a valid IPv4 CIDR range, such as 10.0.0.0/20.")
	}
	for other := range s.subnetworks.under("regions/") {
		if other.Wire.GetNetwork() == network.Wire.GetSelfLink() && netip.MustParsePrefix(other.Wire.GetIpCidrRange()).Overlaps(prefix) {
			return nil, invalid("Invalid IPCidrRange: %s conflicts with existing subnetwork '%s' in region '%s'.", prefix, other.Wire.GetName(), lastSegment(other.Wire.GetRegion()))
		}
	}
	region := c.path("region")
	key := "regions/" + region + "/subnetworks/" + sub.GetName()
	if s.subnetworks.get(key) != nil {
		return nil, alreadyExists(s.relative(key))
	}
	s.putSubnetwork(network.Key, region, sub, resourceState{Creating: true})
	return s.answerWith(c, operationSpec{
		scope: "regions/" + region, kind: c.route.name, target: key, targetID: sub.GetId(), method: c.route.name,
	}, s.delays().Operation, "resource.created")
}

// networkUser is what keeps a network from being deleted.
func (s *Server) networkUser(n *record[*computepb.Network, resourceState]) string {
	for sub := range s.subnetworks.under("regions/") {
		if sub.Wire.GetNetwork() != n.Wire.GetSelfLink() {
			continue
		}
		if !n.Wire.GetAutoCreateSubnetworks() {
			return sub.Key
		}
		if user := s.subnetworkUser(sub); user != "" {
			return user
		}
	}
	return ""
}

func (s *Server) subnetworkUser(sub *record[*computepb.Subnetwork, resourceState]) string {
	for i := range s.instances.under("zones/") {
		for _, nic := range i.Wire.GetNetworkInterfaces() {
			if nic.GetSubnetwork() == sub.Wire.GetSelfLink() {
				return i.Key
			}
		}
	}
	return ""
}

func (s *Server) dropNetwork(key string) {
	n := s.networks.get(key)
	for sub := range s.subnetworks.under("regions/") {
		if sub.Wire.GetNetwork() == n.Wire.GetSelfLink() {
			s.subnetworks.drop(sub.Key)
			delete(s.inUse, sub.Key)
		}
	}
	s.networks.drop(key)
}

func (s *Server) dropSubnetwork(key string) {
	sub := s.subnetworks.get(key)
	if n := s.networks.get(s.resolve(sub.Wire.GetNetwork(), "")); n != nil {
		n.Wire.Subnetworks = slices.DeleteFunc(n.Wire.Subnetworks, func(link string) bool { return link == sub.Wire.GetSelfLink() })
		s.networks.changed(n)
	}
	s.subnetworks.drop(key)
	delete(s.inUse, key)
}

// connect fills in an interface's network and subnetwork, without an address.
func (s *Server) connect(field, region string, nic *computepb.NetworkInterface) *apiError {
	if link := nic.GetSubnetwork(); link != "" {
		sub, refused := usable(s, s.subnetworks, s.resolve(link, "regions/"+region+"/subnetworks"))
		if refused != nil {
			return invalidField(field+".subnetwork", link, "The referenced subnetwork resource cannot be found.")
		}
		if lastSegment(sub.Wire.GetRegion()) != region {
			return invalidField(field+".subnetwork", link, "The subnetwork is not in the instance's region "+region+".")
		}
		nic.Subnetwork, nic.Network = sub.Wire.SelfLink, sub.Wire.Network
		return nil
	}
	link := nic.GetNetwork()
	if link == "" {
		link = "global/networks/default"
	}
	network, refused := usable(s, s.networks, s.resolve(link, "global/networks"))
	if refused != nil {
		return invalidField(field+".network", link, "The referenced network resource cannot be found.")
	}
	if !network.Wire.GetAutoCreateSubnetworks() {
		return invalidField(field, link, "Network interface must specify a subnet if the network resource is in custom subnet mode.")
	}
	for _, sub := range network.Wire.GetSubnetworks() {
		if strings.Contains(sub, "/regions/"+region+"/") {
			nic.Network, nic.Subnetwork = network.Wire.SelfLink, new(sub)
			return nil
		}
	}
	return invalidField(field+".network", link, "The network has no subnetwork in region "+region+".")
}

// assignAddresses gives each interface a free address of its subnetwork.
func (s *Server) assignAddresses(i *computepb.Instance) *failure {
	for n, nic := range i.GetNetworkInterfaces() {
		key := s.resolve(nic.GetSubnetwork(), "")
		sub := s.subnetworks.get(key)
		if sub == nil {
			return &failure{Code: "RESOURCE_NOT_FOUND", Message: fmt.Sprintf("The resource '%s' was not found", s.relative(key)), HTTP: 404}
		}
		ip, ok := s.freeAddress(key, netip.MustParsePrefix(sub.Wire.GetIpCidrRange()))
		if !ok {
			return &failure{
				Code: "IP_SPACE_EXHAUSTED", HTTP: 403,
				Message: fmt.Sprintf("IP space of '%s' is exhausted.", s.relative(key)),
			}
		}
		if wanted := nic.GetNetworkIP(); wanted != "" {
			if failed := s.checkAddress(key, sub.Wire.GetIpCidrRange(), wanted); failed != nil {
				for _, unassigned := range i.GetNetworkInterfaces()[n:] {
					unassigned.NetworkIP = nil // it is not the instance's to free
				}
				return failed
			}
			ip = wanted
		}
		s.takeAddress(key, ip)
		nic.NetworkIP = new(ip)
		nic.Kind, nic.Name = new("compute#networkInterface"), new(fmt.Sprintf("nic%d", n))
		nic.Fingerprint = new(fingerprint(i.GetId(), n, ip))
		if nic.StackType == nil {
			nic.StackType = new("IPV4_ONLY")
		}
		for _, access := range nic.GetAccessConfigs() {
			s.openAccess(access)
		}
	}
	return nil
}

// checkAddress is whether an address that is asked for can be had.
func (s *Server) checkAddress(subnetwork, cidr, wanted string) *failure {
	ip, err := netip.ParseAddr(wanted)
	if err != nil || !netip.MustParsePrefix(cidr).Contains(ip) {
		return &failure{
			Code: "INVALID_FIELD_VALUE", HTTP: 400,
			Message: invalidField("resource.networkInterfaces[].networkIP", wanted, "Must be an address within the subnetwork's range "+cidr+".").message,
		}
	}
	if s.inUse[subnetwork][wanted] {
		return &failure{Code: "IP_IN_USE_BY_ANOTHER_RESOURCE", Message: fmt.Sprintf("IP '%s' is already being used by another resource.", wanted), HTTP: 400}
	}
	return nil
}

func (s *Server) openAccess(access *computepb.AccessConfig) {
	access.Kind = new("compute#accessConfig")
	if access.Type == nil {
		access.Type = new("ONE_TO_ONE_NAT")
	}
	if access.Name == nil {
		access.Name = new("External NAT")
	}
	if access.NetworkTier == nil {
		access.NetworkTier = new("PREMIUM")
	}
	if access.NatIP == nil {
		s.newID()
		access.NatIP = new(addressAt(netip.MustParseAddr("34.64.0.0"), uint32(s.settings.Counter)).String()) //nolint:gosec // wraps after four billion
	}
}

// freeAddress is the first free one after the last that was given out, so
// that an address does not come back at once.
func (s *Server) freeAddress(key string, prefix netip.Prefix) (string, bool) {
	size := uint32(1) << (32 - prefix.Bits())
	const reserved = 4 // network, gateway, second to last, broadcast
	usableHosts := size - reserved
	from := s.lastHost[key]
	for n := range usableHosts {
		host := (from+n)%usableHosts + 2
		ip := addressAt(prefix.Addr(), host).String()
		if !s.inUse[key][ip] {
			s.lastHost[key] = host - 1
			return ip, true
		}
	}
	return "", false
}

func addressAt(base netip.Addr, n uint32) netip.Addr {
	b := base.As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+n)
	return netip.AddrFrom4(b)
}

func (s *Server) takeAddress(key, ip string) {
	if s.inUse[key] == nil {
		s.inUse[key] = map[string]bool{}
	}
	s.inUse[key][ip] = true
}

func (s *Server) holdAddresses(r *instance) {
	for _, nic := range r.Wire.GetNetworkInterfaces() {
		if nic.GetNetworkIP() != "" {
			s.takeAddress(s.resolve(nic.GetSubnetwork(), ""), nic.GetNetworkIP())
		}
	}
}

func (s *Server) freeAddresses(r *instance) {
	for _, nic := range r.Wire.GetNetworkInterfaces() {
		delete(s.inUse[s.resolve(nic.GetSubnetwork(), "")], nic.GetNetworkIP())
	}
}
