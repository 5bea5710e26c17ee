package gce

import (
	"maps"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

const cloudPlatform = "https://www.googleapis.com/auth/cloud-platform"

// instanceTemplate is a template as Compute Engine takes it. Accelerators are not named: the machine types that clusters are
// made of are built with theirs.
func instanceTemplate(project, name string, t *cluster.Template) *computepb.InstanceTemplate {
	p := &computepb.InstanceProperties{
		MachineType:         &t.MachineType,
		Labels:              t.Labels,
		Metadata:            metadata(t.Metadata),
		Disks:               []*computepb.AttachedDisk{bootDisk(t)},
		NetworkInterfaces:   []*computepb.NetworkInterface{networkInterface(t)},
		ServiceAccounts:     []*computepb.ServiceAccount{{Email: new(orDefault(t.ServiceAccount)), Scopes: []string{cloudPlatform}}},
		Scheduling:          scheduling(t),
		ReservationAffinity: reservation(project, t),
	}
	if len(t.Tags) > 0 {
		p.Tags = &computepb.Tags{Items: t.Tags}
	}
	if t.Confidential != "" {
		p.ConfidentialInstanceConfig = &computepb.ConfidentialInstanceConfig{
			EnableConfidentialCompute: new(true), ConfidentialInstanceType: &t.Confidential,
		}
	}
	return &computepb.InstanceTemplate{Name: &name, Description: &t.Description, Properties: p}
}

// orDefault names the project's default Compute Engine service account when no other is named.
func orDefault(account string) string {
	if account == "" {
		return "default"
	}
	return account
}

func bootDisk(t *cluster.Template) *computepb.AttachedDisk {
	return &computepb.AttachedDisk{
		Boot: new(true), AutoDelete: new(true), Type: new("PERSISTENT"), Mode: new("READ_WRITE"),
		InitializeParams: &computepb.AttachedDiskInitializeParams{
			SourceImage: &t.Image, DiskType: &t.DiskType, DiskSizeGb: new(int64(t.DiskSizeGB)), Labels: t.Labels,
		},
	}
}

func networkInterface(t *cluster.Template) *computepb.NetworkInterface {
	nic := &computepb.NetworkInterface{Network: &t.Network}
	if t.Subnetwork != "" {
		nic.Subnetwork = &t.Subnetwork
	}
	if t.PublicIP {
		nic.AccessConfigs = []*computepb.AccessConfig{{Name: new("External NAT"), Type: new("ONE_TO_ONE_NAT")}}
	}
	return nic
}

// metadata in the order of its keys, so that the same template is always the same request.
func metadata(m map[string]string) *computepb.Metadata {
	out := &computepb.Metadata{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out.Items = append(out.Items, &computepb.Items{Key: &k, Value: new(m[k])})
	}
	return out
}

// scheduling of a machine that may be taken away, or whose time is limited, ends in its deletion: a stopped machine would
// keep the node's name. Machines on demand and in reservations are restarted by Compute Engine when their host fails.
func scheduling(t *cluster.Template) *computepb.Scheduling {
	s := &computepb.Scheduling{ProvisioningModel: new("STANDARD")}
	switch t.Model {
	case cluster.FlexStart, cluster.Spot:
		s.ProvisioningModel = new(string(t.Model))
		s.AutomaticRestart = new(false)
		s.InstanceTerminationAction = new("DELETE")
	}
	if t.Run > 0 {
		s.MaxRunDuration = duration(t.Run)
		s.InstanceTerminationAction = new("DELETE")
	}
	if t.TerminateOnMaintenance || t.Confidential != "" || t.Model == cluster.FlexStart || t.Model == cluster.Spot {
		s.OnHostMaintenance = new("TERMINATE")
	}
	return s
}

func duration(d time.Duration) *computepb.Duration {
	out := &computepb.Duration{Seconds: new(int64(d / time.Second))}
	if nanos := d % time.Second; nanos != 0 {
		out.Nanos = new(int32(nanos))
	}
	return out
}

// reservation says which reservations a machine may use up: the named ones, and otherwise none for those that may be taken
// away, which must not use them, and Compute Engine's default (any that fits) for those on demand.
//
// A pool in a reservation has the provisioning model STANDARD with a specific affinity, which every reservation accepts;
// RESERVATION_BOUND exists for those alone whose machines end with them.
func reservation(project string, t *cluster.Template) *computepb.ReservationAffinity {
	switch {
	case t.Reservation != nil:
		out := &computepb.ReservationAffinity{ConsumeReservationType: &t.Reservation.Type}
		if t.Reservation.Key != "" {
			out.Key = &t.Reservation.Key
		}
		for _, v := range t.Reservation.Values {
			out.Values = append(out.Values, reservationName(project, v))
		}
		return out
	case t.Model == cluster.FlexStart || t.Model == cluster.Spot:
		return &computepb.ReservationAffinity{ConsumeReservationType: new("NO_RESERVATION")}
	}
	return nil
}

// reservationName turns the spec's projects/P/zones/Z/reservations/R, with or without a block, into what Compute Engine
// takes: R in the project itself, projects/P/reservations/R in another.
func reservationName(project, name string) string {
	parts := strings.Split(relative(name), "/")
	if len(parts) < 6 || parts[0] != "projects" || parts[2] != "zones" || parts[4] != "reservations" {
		return name
	}
	rest := strings.Join(parts[5:], "/")
	if parts[1] == project {
		return rest
	}
	return "projects/" + parts[1] + "/reservations/" + rest
}
