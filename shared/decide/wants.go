package decide

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/convoke-hpc/convoke/shared/bootstrap"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// want is one resource that the spec calls for, and how it is obtained.
type want struct {
	cluster.ResourceRef
	Role   string
	first  bool // what comes after it in its stage needs it
	intent func(*cluster.Resource) cluster.Intent
}

// wants are the resources of the given kinds that the spec calls for.
func (t *Turn) wants(kinds []cluster.ResourceKind) []want {
	var out []want
	for _, k := range kinds {
		switch k {
		case cluster.KindNetwork:
			out = append(out, check(k, roleNetwork, t.s.Spec.Network.Network))
		case cluster.KindSubnetwork:
			if sub := t.s.Spec.Network.Subnetwork; sub != "" {
				out = append(out, check(k, roleSubnetwork, sub))
			}
		case cluster.KindFilestore:
			out = append(out, check(k, roleHome, t.s.Spec.Slurm().HomeDirectoryStorage))
		case cluster.KindSecret:
			out = append(out, t.secret(roleMunge, 128), t.secret(roleJWT, 32))
		case cluster.KindTemplate:
			out = append(out, t.controllerTemplate())
			for i := range t.s.Spec.NodePools {
				out = append(out, t.poolTemplate(&t.s.Spec.NodePools[i]))
			}
		case cluster.KindDisk:
			out = append(out, t.stateDisk())
		case cluster.KindInstance:
			out = append(out, t.controller())
		}
	}
	return out
}

func check(kind cluster.ResourceKind, role, name string) want {
	ref := cluster.ResourceRef{Kind: kind, Name: name}
	return want{ResourceRef: ref, Role: role, intent: func(*cluster.Resource) cluster.Intent { return cluster.Check{Ref: ref} }}
}

func (t *Turn) secret(role string, bytes int) want {
	ref := cluster.ResourceRef{Kind: cluster.KindSecret, Name: t.secretName(role)}
	return want{ResourceRef: ref, Role: role, intent: func(r *cluster.Resource) cluster.Intent {
		return cluster.EnsureSecret{Ref: ref, Bytes: bytes, Labels: t.s.Owner().Labels(), ID: t.requestID("secret", ref.Name, round(r.Since, r.Problem))}
	}}
}

func (t *Turn) secretName(role string) string {
	return "convoke-" + t.s.Key.ID + "-" + t.s.UID + "-" + role
}

// controllerZone is where the controller stands: with the login nodes.
func (t *Turn) controllerZone() string { return t.s.Spec.LoginPool().Zone }

func (t *Turn) stateDisk() want {
	ref := cluster.ResourceRef{Kind: cluster.KindDisk, Name: cluster.ControllerName(t.s.Key.ID) + "-state", Zone: t.controllerZone()}
	return want{ResourceRef: ref, Role: roleController, first: true, intent: func(r *cluster.Resource) cluster.Intent {
		return cluster.EnsureDisk{Ref: ref, Type: "pd-ssd", SizeGB: t.policy.StateDiskGB,
			Labels: t.labels(bootstrap.RoleController, ""), ID: t.requestID("disk", ref.Name, round(r.Since, r.Problem))}
	}}
}

func (t *Turn) controller() want {
	ref := cluster.ResourceRef{Kind: cluster.KindInstance, Name: cluster.ControllerName(t.s.Key.ID), Zone: t.controllerZone()}
	return want{ResourceRef: ref, Role: roleController, intent: func(r *cluster.Resource) cluster.Intent {
		// The template that was made, not the one that this version of the program would make.
		return cluster.EnsureInstance{Ref: ref, Template: t.templateName(roleController), Disk: t.stateDisk().Name,
			ID: t.requestID("instance", ref.Name, itoa(r.Generation), strconv.Itoa(r.Tries))}
	}}
}

// controllerTemplate is what the controller is made from. The spec does not describe it: it is ours to size.
func (t *Turn) controllerTemplate() want {
	template := t.template(bootstrap.RoleController, &cluster.NodePool{
		MachineSpec:       cluster.MachineSpec{MachineType: t.policy.ControllerMachine},
		ProvisioningModel: cluster.OnDemand,
		BootDisk:          cluster.BootDisk{Type: "pd-ssd", SizeGB: t.policy.ControllerDiskGB},
		EnablePublicIPs:   t.s.Spec.LoginPool().EnablePublicIPs,
	})
	if t.policy.ControllerAccount != "" {
		template.ServiceAccount = t.policy.ControllerAccount
	}
	// The controller builds Slurm's configuration from the spec.
	spec, err := json.Marshal(t.s.Spec)
	if err == nil { // a spec is plain data: it always marshals
		template.Metadata[bootstrap.KeySpec] = string(spec)
	}
	return t.templateWant(roleController, template)
}

func (t *Turn) poolTemplate(p *cluster.NodePool) want {
	role := bootstrap.RoleCompute
	if t.s.Spec.IsLogin(p.ID) {
		role = bootstrap.RoleLogin
	}
	return t.templateWant(p.ID, t.template(role, p))
}

// templateName is the name of the template that was made for a role: a pool's, or the controller's.
func (t *Turn) templateName(role string) string {
	if r := t.s.Resource(cluster.KindTemplate, role); r != nil {
		return r.Name
	}
	return ""
}

func (t *Turn) templateWant(role string, template cluster.Template) want {
	// Templates cannot be changed, so a template's name tells its content.
	content, err := json.Marshal(template)
	if err != nil {
		content = fmt.Append(nil, template)
	}
	ref := cluster.ResourceRef{Kind: cluster.KindTemplate, Name: t.s.Key.ID + "-" + role + "-" + cluster.Hash(t.s.UID, string(content))}
	return want{ResourceRef: ref, Role: role, intent: func(r *cluster.Resource) cluster.Intent {
		return cluster.EnsureTemplate{Ref: ref, Template: template, ID: t.requestID("template", ref.Name, round(r.Since, r.Problem))}
	}}
}

func (t *Turn) template(role string, p *cluster.NodePool) cluster.Template {
	spec := t.s.Spec
	metadata := map[string]string{
		bootstrap.KeyCluster:    t.s.Key.String(),
		bootstrap.KeyUID:        t.s.UID,
		bootstrap.KeyRole:       role,
		bootstrap.KeyController: cluster.ControllerName(t.s.Key.ID),
		bootstrap.KeySecrets:    roleMunge + "=" + t.secretName(roleMunge) + "," + roleJWT + "=" + t.secretName(roleJWT),
	}
	if home := t.s.Resource(cluster.KindFilestore, roleHome); home != nil {
		metadata[bootstrap.KeyHome] = home.Found.Address + ":/" + home.Found.Share
	}
	if p.ID != "" {
		metadata[bootstrap.KeyPool] = p.ID
	}
	if p.StartupScript != "" {
		metadata[bootstrap.KeyStartup] = p.StartupScript
	}
	labels := t.labels(role, p.ID)
	for k, v := range p.Labels {
		if _, ours := labels[k]; !ours {
			labels[k] = v
		}
	}
	image := p.NodeImage
	if image == "" {
		image = t.policy.Image
	}
	template := cluster.Template{
		Description: t.s.Owner().Description(), MachineType: p.MachineSpec.MachineType, Image: image,
		DiskType: p.BootDisk.Type, DiskSizeGB: p.BootDisk.SizeGB,
		Network: spec.Network.Network, Subnetwork: spec.Network.Subnetwork, PublicIP: p.EnablePublicIPs,
		ServiceAccount: spec.RuntimeSpec.ServiceAccount, Labels: labels, Metadata: metadata,
		Tags: []string{"convoke", "convoke-" + t.s.Key.ID}, Model: p.ProvisioningModel,
		Reservation:            p.MachineSpec.ReservationAffinity,
		TerminateOnMaintenance: p.GPU() || p.ProvisioningModel == cluster.FlexStart || p.ProvisioningModel == cluster.Spot,
	}
	if p.ProvisioningModel == cluster.FlexStart {
		template.Run = p.FlexStartMaxDuration.D()
	}
	if p.ConfidentialInstanceConfig != nil {
		template.Confidential = p.ConfidentialInstanceConfig.Type
	}
	return template
}

func (t *Turn) labels(role, pool string) map[string]string {
	labels := maps.Clone(t.s.Spec.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, t.s.Owner().Labels())
	labels[cluster.LabelRole] = role
	if pool != "" {
		labels[cluster.LabelPool] = pool
	}
	return labels
}

// requestID is the request id of something that is done for this incarnation of the cluster.
func (t *Turn) requestID(parts ...string) string {
	return cluster.RequestID(append([]string{t.s.Key.String(), t.s.UID}, parts...)...)
}

// round tells one asking for a thing from the next: it stays the same while no answer has come, so that asking again is the
// same request, and is another after every refusal and whenever the thing is asked for anew. A service answers a request
// that it remembers as it did then, even when what it made is gone.
func round(since time.Time, last *cluster.Problem) string {
	at := since.UnixMilli()
	if last != nil && last.At.After(since) {
		at = last.At.UnixMilli()
	}
	return itoa(at)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// join is a list of node indices as text, to derive names from.
func join(nodes []int) string {
	s := make([]string, len(nodes))
	for i, n := range slices.Sorted(slices.Values(nodes)) {
		s[i] = strconv.Itoa(n)
	}
	return strings.Join(s, ",")
}
