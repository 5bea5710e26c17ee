package gcp_test

import (
	"errors"
	"hash/crc32"
	"net/http"
	"strings"
	"testing"

	"cloud.google.com/go/compute/apiv1/computepb"
	"cloud.google.com/go/filestore/apiv1/filestorepb"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"github.com/googleapis/gax-go/v2/apierror"

	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

func TestNetworks(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		n, err := w.networks.Get(w.ctx, &computepb.GetNetworkRequest{Project: project, Network: "default"})
		w.ok("getting the default network", err)
		if len(n.GetSubnetworks()) != len(gcp.DefaultRegions()) {
			t.Errorf("the default network has %d subnetworks, want one in each region", len(n.GetSubnetworks()))
		}
		sub, err := w.subnetworks.Get(w.ctx, &computepb.GetSubnetworkRequest{Project: project, Region: region, Subnetwork: "default"})
		w.ok("getting the default subnetwork", err)
		if sub.GetIpCidrRange() != "10.128.0.0/20" || sub.GetGatewayAddress() != "10.128.0.1" {
			t.Errorf("the default subnetwork is %v", sub)
		}

		network := &computepb.InsertNetworkRequest{Project: project, NetworkResource: &computepb.Network{Name: new("net"), AutoCreateSubnetworks: new(false)}}
		subnetwork := func(cidr string) *computepb.InsertSubnetworkRequest {
			return &computepb.InsertSubnetworkRequest{Project: project, Region: region, SubnetworkResource: &computepb.Subnetwork{Name: new("sub"), Network: new("global/networks/net"), IpCidrRange: new(cidr)}}
		}
		_, err = w.subnetworks.Insert(w.ctx, subnetwork("10.0.0.0/16"))
		w.refused(err, 404, "notFound")
		op, err := w.networks.Insert(w.ctx, network)
		w.ok("inserting", err)
		_, err = w.subnetworks.Insert(w.ctx, subnetwork("10.0.0.0/16"))
		w.refused(err, 400, "resourceNotReady")
		w.done(op, nil)
		_, err = w.networks.Insert(w.ctx, network)
		w.refused(err, 409, "alreadyExists")
		for _, bad := range []string{"", "10.0.0.0", "10.0.0.1/16", "10.0.0.0/30", "fd00::/64"} {
			_, err := w.subnetworks.Insert(w.ctx, subnetwork(bad))
			if message := w.refused(err, 400, "invalid"); !strings.Contains(message, "resource.ipCidrRange") {
				t.Errorf("the refusal of %q does not name the field: %s", bad, message)
			}
		}
		w.done(w.subnetworks.Insert(w.ctx, subnetwork("10.0.0.0/16")))
		overlapping := subnetwork("10.0.128.0/20")
		overlapping.SubnetworkResource.Name = new("other")
		_, err = w.subnetworks.Insert(w.ctx, overlapping)
		w.refused(err, 400, "invalid")

		_, err = w.networks.Delete(w.ctx, &computepb.DeleteNetworkRequest{Project: project, Network: "net"})
		w.refused(err, 400, "resourceInUseByAnotherResource")
		w.done(w.subnetworks.Delete(w.ctx, &computepb.DeleteSubnetworkRequest{Project: project, Region: region, Subnetwork: "sub"}))
		w.done(w.networks.Delete(w.ctx, &computepb.DeleteNetworkRequest{Project: project, Network: "net"}))
		w.done(w.networks.Delete(w.ctx, &computepb.DeleteNetworkRequest{Project: project, Network: "default"}))
		if left := all(w, w.subnetworks.List(w.ctx, &computepb.ListSubnetworksRequest{Project: project, Region: region}).Next); len(left) > 0 {
			t.Errorf("there are still %d subnetworks", len(left))
		}
	})
}

func TestTemplates(t *testing.T) {
	inVirtualTime(t, gcp.Options{Quotas: map[string]int{"INSTANCE_TEMPLATES": 1}}, func(w *world) {
		w.template("t1", flexProperties())
		got, err := w.templates.Get(w.ctx, &computepb.GetInstanceTemplateRequest{Project: project, InstanceTemplate: "t1"})
		w.ok("getting", err)
		p := got.GetProperties()
		if p.GetDisks()[0].GetDeviceName() != "boot" || p.GetDisks()[0].GetInterface() != "SCSI" || p.GetNetworkInterfaces()[0].GetName() != "nic0" {
			t.Errorf("the service has not filled in the template: %v", p)
		}
		if p.GetMetadata().GetFingerprint() == "" {
			t.Error("the metadata has no fingerprint")
		}
		insert := func(name string, change func(*computepb.InstanceProperties)) error {
			p := flexProperties()
			change(p)
			_, err := w.templates.Insert(w.ctx, &computepb.InsertInstanceTemplateRequest{Project: project, InstanceTemplateResource: &computepb.InstanceTemplate{Name: new(name), Properties: p}})
			return err
		}
		same := func(*computepb.InstanceProperties) {}
		w.refused(insert("t1", same), 409, "alreadyExists")
		w.refused(insert("t2", same), 403, "quotaExceeded")
		message := w.refused(insert("t2", func(p *computepb.InstanceProperties) { p.MachineType = new("zones/" + zone + "/machineTypes/" + h200) }), 400, "invalid")
		if !strings.Contains(message, "resource.properties.machineType") {
			t.Errorf("the refusal does not name the field: %s", message)
		}
		w.refused(insert("t2", func(p *computepb.InstanceProperties) {
			p.Scheduling.MaxRunDuration.Seconds = new(int64(8 * 24 * 3600))
		}), 400, "invalid")
	})
}

func TestMachineTypes(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		mt, err := w.types.Get(w.ctx, &computepb.GetMachineTypeRequest{Project: project, Zone: zone, MachineType: h200})
		w.ok("getting", err)
		if mt.GetGuestCpus() != 224 || mt.GetMemoryMb() != 2952<<10 || mt.GetAccelerators()[0].GetGuestAcceleratorCount() != 8 {
			t.Errorf("the machine type is %v", mt)
		}
		_, err = w.types.Get(w.ctx, &computepb.GetMachineTypeRequest{Project: project, Zone: zone, MachineType: "m9-none"})
		w.refused(err, 404, "notFound")
		list := all(w, w.types.List(w.ctx, &computepb.ListMachineTypesRequest{Project: project, Zone: zone, Filter: new("guestCpus >= 200")}).Next)
		if len(list) != 4 {
			t.Errorf("%d machine types have 200 CPUs or more, want 4", len(list))
		}
	})
}

// rpcRefused expects an error of the newer APIs.
func (w *world) rpcRefused(err error, status int) {
	w.t.Helper()
	var e *apierror.APIError
	if !errors.As(err, &e) || e.HTTPCode() != status {
		w.t.Fatalf("got %v, want status %d", err, status)
	}
}

func TestFilestore(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		create := func(change func(*filestorepb.Instance)) error {
			f := &filestorepb.Instance{
				Tier:       filestorepb.Instance_ZONAL,
				FileShares: []*filestorepb.FileShareConfig{{Name: "nfsshare", CapacityGb: 1024}},
				Networks:   []*filestorepb.NetworkConfig{{Network: "projects/my-project/global/networks/default", Modes: []filestorepb.NetworkConfig_AddressMode{filestorepb.NetworkConfig_MODE_IPV4}}},
			}
			change(f)
			op, err := w.filestores.CreateInstance(w.ctx, &filestorepb.CreateInstanceRequest{Parent: "projects/my-project/locations/" + zone, InstanceId: "home", Instance: f})
			if err != nil {
				return err
			}
			made, err := op.Wait(w.ctx)
			if err == nil && made.GetState() != filestorepb.Instance_READY {
				t.Errorf("the instance is %s when its operation is done", made.GetState())
			}
			return err
		}
		w.rpcRefused(create(func(f *filestorepb.Instance) { f.FileShares[0].CapacityGb = 100 }), http.StatusBadRequest)
		w.rpcRefused(create(func(f *filestorepb.Instance) { f.Networks[0].Network = "projects/my-project/global/networks/none" }), http.StatusBadRequest)
		w.rpcRefused(create(func(f *filestorepb.Instance) { f.Tier = filestorepb.Instance_ENTERPRISE }), http.StatusBadRequest)
		same := func(*filestorepb.Instance) {}
		w.ok("creating", create(same))
		w.rpcRefused(create(same), http.StatusConflict)
		name := "projects/my-project/locations/" + zone + "/instances/home"
		f, err := w.filestores.GetInstance(w.ctx, &filestorepb.GetInstanceRequest{Name: name})
		w.ok("getting", err)
		if f.GetName() != name || len(f.GetNetworks()[0].GetIpAddresses()) != 1 || f.GetNetworks()[0].GetReservedIpRange() == "" {
			t.Errorf("the instance is %v", f)
		}
		list := all(w, w.filestores.ListInstances(w.ctx, &filestorepb.ListInstancesRequest{Parent: "projects/my-project/locations/-"}).Next)
		if len(list) != 1 {
			t.Errorf("there are %d instances, want 1", len(list))
		}
		op, err := w.filestores.DeleteInstance(w.ctx, &filestorepb.DeleteInstanceRequest{Name: name})
		w.ok("deleting", err)
		w.ok("waiting", op.Wait(w.ctx))
		_, err = w.filestores.GetInstance(w.ctx, &filestorepb.GetInstanceRequest{Name: name})
		w.rpcRefused(err, http.StatusNotFound)
	})
}

func TestSecrets(t *testing.T) {
	inVirtualTime(t, gcp.Options{}, func(w *world) {
		create := func(id string, replication *secretmanagerpb.Replication) (*secretmanagerpb.Secret, error) {
			return w.secrets.CreateSecret(w.ctx, &secretmanagerpb.CreateSecretRequest{Parent: "projects/my-project", SecretId: id, Secret: &secretmanagerpb.Secret{Replication: replication, Labels: map[string]string{"cluster": "c1"}}})
		}
		automatic := &secretmanagerpb.Replication{Replication: &secretmanagerpb.Replication_Automatic_{Automatic: &secretmanagerpb.Replication_Automatic{}}}
		_, err := create("munge", nil)
		w.rpcRefused(err, http.StatusBadRequest)
		secret, err := create("munge", automatic)
		w.ok("creating", err)
		if secret.GetName() != "projects/123456789012/secrets/munge" || secret.GetEtag() == "" {
			t.Errorf("the secret is %v", secret)
		}
		_, err = create("munge", automatic)
		w.rpcRefused(err, http.StatusConflict)

		access := func(version string) (*secretmanagerpb.AccessSecretVersionResponse, error) {
			return w.secrets.AccessSecretVersion(w.ctx, &secretmanagerpb.AccessSecretVersionRequest{Name: "projects/my-project/secrets/munge/versions/" + version})
		}
		_, err = access("latest")
		w.rpcRefused(err, http.StatusNotFound)
		add := func(data string, sum *int64) (*secretmanagerpb.SecretVersion, error) {
			return w.secrets.AddSecretVersion(w.ctx, &secretmanagerpb.AddSecretVersionRequest{Parent: "projects/my-project/secrets/munge", Payload: &secretmanagerpb.SecretPayload{Data: []byte(data), DataCrc32C: sum}})
		}
		_, err = add("key one", new(int64(1)))
		w.rpcRefused(err, http.StatusBadRequest)
		first, err := add("key one", new(int64(crc32.Checksum([]byte("key one"), crc32.MakeTable(crc32.Castagnoli)))))
		w.ok("adding", err)
		_, err = add("key two", nil)
		w.ok("adding", err)
		for version, want := range map[string]string{"latest": "key two", "1": "key one"} {
			got, err := access(version)
			w.ok("accessing", err)
			if string(got.GetPayload().GetData()) != want {
				t.Errorf("version %s is %q, want %q", version, got.GetPayload().GetData(), want)
			}
		}
		_, err = w.secrets.DestroySecretVersion(w.ctx, &secretmanagerpb.DestroySecretVersionRequest{Name: first.GetName(), Etag: `"stale"`})
		w.rpcRefused(err, http.StatusBadRequest)
		gone, err := w.secrets.DestroySecretVersion(w.ctx, &secretmanagerpb.DestroySecretVersionRequest{Name: first.GetName()})
		w.ok("destroying", err)
		if gone.GetState() != secretmanagerpb.SecretVersion_DESTROYED {
			t.Errorf("the version is %s", gone.GetState())
		}
		_, err = access("1")
		w.rpcRefused(err, http.StatusBadRequest)
		if versions := all(w, w.secrets.ListSecretVersions(w.ctx, &secretmanagerpb.ListSecretVersionsRequest{Parent: "projects/my-project/secrets/munge"}).Next); len(versions) != 2 {
			t.Errorf("there are %d versions, want 2", len(versions))
		}
		if secrets := all(w, w.secrets.ListSecrets(w.ctx, &secretmanagerpb.ListSecretsRequest{Parent: "projects/my-project", Filter: "labels.cluster=c1"}).Next); len(secrets) != 1 {
			t.Errorf("there are %d secrets, want 1", len(secrets))
		}
		w.ok("deleting", w.secrets.DeleteSecret(w.ctx, &secretmanagerpb.DeleteSecretRequest{Name: "projects/my-project/secrets/munge"}))
		_, err = w.secrets.GetSecret(w.ctx, &secretmanagerpb.GetSecretRequest{Name: "projects/my-project/secrets/munge"})
		w.rpcRefused(err, http.StatusNotFound)
	})
}
