package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/slurm"
)

// legalSpec draws a spec that every rule allows, with values in effect.
func legalSpec(t *rapid.T) *cluster.Spec {
	id := rapid.StringMatching(`[a-z][a-z0-9]{0,9}`).Draw(t, "cluster")
	mount := rapid.StringMatching(`projects/my-project/locations/us-central1(-[a-z])?/instances/[a-z][a-z0-9]{0,9}`)
	script := rapid.Map(rapid.StringN(0, 40, -1), func(s string) string { return "#!/bin/bash\n" + strings.ReplaceAll(s, "\x00", "") })
	labels := rapid.MapOfN(rapid.StringMatching(`[a-b][a-z0-9_-]{0,20}`), rapid.StringMatching(`[a-z0-9_-]{0,20}`), 0, 3)
	s := &cluster.Spec{
		Name:        "projects/my-project/locations/us-central1/modelDevelopmentClusters/" + id,
		DisplayName: rapid.StringMatching(`[A-Za-z0-9 _é<>&"\\-]{0,60}`).Draw(t, "display name"),
		Labels:      some(labels.Draw(t, "labels")),
		Network:     cluster.Network{Network: "projects/my-project/global/networks/" + rapid.StringMatching(`[a-z]{1,9}`).Draw(t, "network")},
		NodePools: []cluster.NodePool{{
			ID: "login", MachineSpec: cluster.MachineSpec{MachineType: "n2-standard-8"}, ProvisioningModel: cluster.OnDemand, Zone: "us-central1-a",
			ScalingSpec: cluster.ScalingSpec{MinNodeCount: 1, MaxNodeCount: 1}, BootDisk: cluster.BootDisk{Type: "pd-ssd", SizeGB: 100},
		}},
	}
	sl := s.Slurm()
	sl.HomeDirectoryStorage, sl.LoginNodePoolID = mount.Draw(t, "home"), "login"
	for i := range rapid.IntRange(1, 4).Draw(t, "pools") {
		p := legalPool(t, fmt.Sprintf("p%d", i))
		p.Filestores, p.Labels = listOf(mount).Draw(t, "filestores"), some(labels.Draw(t, "pool labels"))
		p.StartupScript = rapid.OneOf(rapid.Just(""), script).Draw(t, "start-up script")
		s.NodePools = append(s.NodePools, p)
		sl.Partitions = append(sl.Partitions, cluster.Partition{ID: "part" + p.ID, NodePoolIDs: []string{p.ID}, Config: some(rapid.MapOfN(
			rapid.SampledFrom([]string{"MaxNodes", "PriorityTier", "DefMemPerCPU"}), rapid.StringMatching(`[1-9][0-9]{0,3}`), 0, 3).Draw(t, "partition config"))})
		if rapid.Bool().Draw(t, "node set") {
			sl.NodeSets = append(sl.NodeSets, cluster.NodeSet{NodePoolID: p.ID, Config: map[string]string{"Weight": "7"}})
		}
	}
	sl.PrologBashScripts, sl.EpilogBashScripts = listOf(script).Draw(t, "prolog"), listOf(script).Draw(t, "epilog")
	if rapid.Bool().Draw(t, "older settings") {
		sl.Scheduling = &cluster.Scheduling{PriorityType: "priority/multifactor", PriorityWeightAge: rapid.IntRange(0, 1<<31-1).Draw(t, "weight")}
		sl.Accounting = &cluster.Accounting{AccountingStorageEnforce: "limits"}
	} else {
		sl.Config = some(rapid.MapOfN(rapid.SampledFrom([]string{"MailDomain", "SchedulerParameters", "Licenses"}), rapid.StringMatching(`[a-zA-Z0-9_,./:*+@%;<>&-]{1,20}`), 0, 3).Draw(t, "config"))
	}
	if rapid.Bool().Draw(t, "runtime") {
		s.RuntimeSpec.ServiceAccount = "nodes@my-project.iam.gserviceaccount.com"
	}
	if rapid.Bool().Draw(t, "export") {
		s.LustreExportConfig = &cluster.LustreExportConfig{DestinationBucket: "bucket-1", DaysOfWeek: listOf(rapid.SampledFrom([]string{"MONDAY", "FRIDAY"})).Draw(t, "days"),
			StartTime: cluster.TimeOfDay{Hours: rapid.IntRange(0, 23).Draw(t, "hours"), Minutes: rapid.IntRange(0, 59).Draw(t, "minutes")}}
	}
	return s
}

func legalPool(t *rapid.T, id string) cluster.NodePool {
	machine, _ := slurm.LookupMachine(rapid.SampledFrom(append(slurm.GPUMachineTypes(), "n2-standard-2", "n2-highmem-128")).Draw(t, "machine type"))
	low := rapid.IntRange(0, 3).Draw(t, "min") * machine.Multiple
	p := cluster.NodePool{
		ID:              id,
		MachineSpec:     cluster.MachineSpec{MachineType: machine.Type, AcceleratorType: machine.Accelerator, AcceleratorCount: machine.GPUs},
		ScalingSpec:     cluster.ScalingSpec{MinNodeCount: low, MaxNodeCount: low + rapid.IntRange(0, 3).Draw(t, "more")*machine.Multiple},
		Zone:            "us-central1-" + rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"),
		EnablePublicIPs: rapid.Bool().Draw(t, "public addresses"),
		BootDisk:        cluster.BootDisk{Type: rapid.SampledFrom(machine.BootDisks).Draw(t, "disk"), SizeGB: rapid.IntRange(leastBootDisk, mostBootDisk).Draw(t, "size")},
		NodeImage:       rapid.SampledFrom([]string{"", "projects/p-1/global/images/family/f"}).Draw(t, "image"),
	}
	models := []cluster.ProvisioningModel{cluster.OnDemand, cluster.Spot, cluster.Reservation}
	if machine.FlexStart {
		models = append(models, cluster.FlexStart)
	}
	p.ProvisioningModel = rapid.SampledFrom(models).Draw(t, "model")
	switch p.ProvisioningModel {
	case cluster.Reservation:
		p.MachineSpec.ReservationAffinity = &cluster.ReservationAffinity{Type: "SPECIFIC_RESERVATION", Key: reservationKey, Values: []string{"projects/p-1/zones/" + p.Zone + "/reservations/r"}}
	case cluster.FlexStart:
		p.FlexStartMaxDuration = cluster.Duration(time.Duration(rapid.IntRange(leastFlexStart, mostFlexStart).Draw(t, "duration")) * time.Second)
	case cluster.OnDemand, cluster.Spot:
	}
	return p
}

func some(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

func listOf(g *rapid.Generator[string]) *rapid.Generator[[]string] {
	return rapid.Map(rapid.SliceOfNDistinct(g, 0, 2, rapid.ID), func(list []string) []string {
		if len(list) == 0 {
			return nil
		}
		return list
	})
}

func TestWhatIsRenderedIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := legalSpec(t)
		text := Render(want)
		got, faults := Parse(text, Options{})
		if len(faults) > 0 {
			t.Fatalf("refused:\n%v\n%s", faults, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
		if again := Render(got); !bytes.Equal(text, again) {
			t.Fatalf("rendered differently:\n%s\n%s", text, again)
		}
	})
}

// The table and the model's own JSON tags are the same names.
func TestTheModelReadsWhatIsRendered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := legalSpec(t)
		d := json.NewDecoder(bytes.NewReader(Render(want)))
		d.DisallowUnknownFields()
		got := &cluster.Spec{}
		if err := d.Decode(got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}

// However the spellings are mixed, the spec is the same, and the schema agrees.
func TestSpellingsMayBeMixed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := legalSpec(rt)
		var tree any
		if err := json.Unmarshal(Render(want), &tree); err != nil {
			rt.Fatal(err)
		}
		text, err := json.Marshal(respelled(rt, tree, specTable()))
		if err != nil {
			rt.Fatal(err)
		}
		got, faults := Parse(text, Options{})
		if len(faults) > 0 {
			rt.Fatalf("refused:\n%v\n%s", faults, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("(-want +got)\n%s", diff)
		}
		if rapid.IntRange(0, 4).Draw(rt, "with the schema") == 0 { // which is slow
			checkAgainstSchema(t, string(text))
		}
	})
}

func respelled(t *rapid.T, tree any, table *table) any {
	switch tree := tree.(type) {
	case []any:
		for i := range tree {
			tree[i] = respelled(t, tree[i], table)
		}
	case map[string]any:
		out := map[string]any{}
		for i := range table.fields {
			f := &table.fields[i]
			v, there := tree[f.name]
			if !there {
				continue
			}
			if f.table != nil {
				v = respelled(t, v, f.table)
			}
			if n, ok := v.(float64); ok && rapid.Bool().Draw(t, "quoted") {
				v = fmt.Sprint(int(n))
			}
			out[rapid.SampledFrom([]string{f.name, snake(f.name)}).Draw(t, "spelling")] = v
		}
		return out
	}
	return tree
}

// No two nodes of any legal clusters and pools share a name, nor does a node share one with a controller.
func TestNodeNamesAreReadInOneWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[a-z][a-z0-9]{0,9}`).Draw(t, "cluster")
		pool := rapid.StringMatching(`[a-z]([a-z0-9-]{0,28}[a-z0-9])?`).Draw(t, "pool")
		want := cluster.NodeID{Pool: pool, Index: rapid.IntRange(0, MaxNodes-1).Draw(t, "index")}
		name := cluster.NodeName(id, want)
		gotID, got, ok := cluster.ParseNodeName(name)
		if !ok || gotID != id || got != want {
			t.Fatalf("%s is read as %s, %v, %v", name, gotID, got, ok)
		}
		if name == cluster.ControllerName(id) {
			t.Fatalf("%s is the controller's name too", name)
		}
		if len(name) > 63 {
			t.Fatalf("%s has %d characters", name, len(name))
		}
	})
}

// FuzzParse checks that nothing panics, that all that is accepted comes back as it was, and that no fault breaks its line.
func FuzzParse(f *testing.F) {
	for _, path := range []string{"../../examples/flexvm.json", "../../examples/preemption.json", "testdata/base.json"} {
		f.Add(read(f, path))
	}
	f.Add([]byte(`{"node_pools":[{"id":1}],"x\n":{"y":[null,1e9,"2"]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, faults := Parse(data, Options{Guess: true})
		if (s == nil) != (len(faults) > 0) {
			t.Fatalf("got %v and %v", s, faults)
		}
		for _, fault := range faults {
			if fault.Problem == "" || strings.ContainsAny(fault.String(), "\n\r\x00") || len(fault.String()) > 2000 {
				t.Fatalf("fault %q", fault.String())
			}
		}
		if s != nil {
			text := Render(s)
			back, faults := Parse(text, Options{})
			if len(faults) > 0 {
				t.Fatalf("refused when it comes back:\n%v\n%s", faults, text)
			}
			if diff := cmp.Diff(s, back); diff != "" {
				t.Fatalf("(-first +second)\n%s", diff)
			}
		}
		checkAgainstSchema(t, string(data))
	})
}

func BenchmarkParse(b *testing.B) {
	texts := map[string][]byte{"flexvm": read(b, "../../examples/flexvm.json"), "50 pools": Render(bigSpec())}
	for name, text := range texts {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, faults := Parse(text, Options{}); len(faults) > 0 {
					b.Fatal(faults)
				}
			}
		})
	}
}

func bigSpec() *cluster.Spec {
	s := &cluster.Spec{Name: "projects/my-project/locations/us-central1/modelDevelopmentClusters/big", Network: cluster.Network{Network: "projects/my-project/global/networks/n"}}
	sl := s.Slurm()
	sl.HomeDirectoryStorage, sl.LoginNodePoolID = "projects/my-project/locations/us-central1-a/instances/home", "p0"
	for i := range 50 {
		p := cluster.NodePool{ID: fmt.Sprintf("p%d", i), MachineSpec: cluster.MachineSpec{MachineType: "n2-standard-8"}, Zone: "us-central1-a", ScalingSpec: cluster.ScalingSpec{MinNodeCount: 4, MaxNodeCount: 4}}
		if i > 0 {
			p.MachineSpec.MachineType, p.ProvisioningModel, p.ScalingSpec = "a4-highgpu-8g", cluster.FlexStart, cluster.ScalingSpec{MinNodeCount: 2, MaxNodeCount: 200}
			sl.Partitions = append(sl.Partitions, cluster.Partition{ID: p.ID, NodePoolIDs: []string{p.ID}, Config: map[string]string{"MaxTime": "1-0", "PriorityTier": "10"}})
		}
		s.NodePools = append(s.NodePools, p)
	}
	return s
}
