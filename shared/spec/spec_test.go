package spec

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

var update = flag.Bool("update", false, "write the golden files anew")

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parsed(t testing.TB, text string, o Options) *cluster.Spec {
	t.Helper()
	s, faults := Parse([]byte(text), o)
	if len(faults) > 0 {
		t.Fatalf("refused:\n%v", faults)
	}
	return s
}

// edited is the base spec with some text replaced: old, new, old, new …
func edited(t testing.TB, edits ...string) string {
	t.Helper()
	text := string(read(t, "testdata/base.json"))
	for pair := range slices.Chunk(edits, 2) {
		if !strings.Contains(text, pair[0]) {
			t.Fatalf("the base spec does not contain %q", pair[0])
		}
		text = strings.Replace(text, pair[0], pair[1], 1)
	}
	return text
}

func TestExamplesAreAcceptedAsTheyAre(t *testing.T) {
	examples, err := filepath.Glob("../../examples/*.json")
	if err != nil || len(examples) < 2 {
		t.Fatal("no examples", err)
	}
	for _, path := range examples {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s := parsed(t, string(read(t, path)), Options{Guess: true})
			golden := "testdata/" + strings.TrimSuffix(filepath.Base(path), ".json") + ".golden.json"
			if *update {
				if err := os.WriteFile(golden, Render(s), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(read(t, golden)), string(Render(s))); diff != "" {
				t.Errorf("rendered (-want +got)\n%s", diff)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	s := parsed(t, edited(t), Options{})
	if got := s.Network.Network; got != "projects/my-project/global/networks/default" {
		t.Errorf("network is %s", got)
	}
	want := cluster.NodePool{
		ID: "login", MachineSpec: cluster.MachineSpec{MachineType: "n2-standard-8"}, ProvisioningModel: cluster.OnDemand,
		ScalingSpec: cluster.ScalingSpec{MinNodeCount: 1, MaxNodeCount: 1}, Zone: "us-central1-a", BootDisk: cluster.BootDisk{Type: "pd-ssd", SizeGB: 100},
	}
	if diff := cmp.Diff(want, s.NodePools[0]); diff != "" {
		t.Errorf("login pool (-want +got)\n%s", diff)
	}
	want = cluster.NodePool{
		ID: "gpu", MachineSpec: cluster.MachineSpec{MachineType: "a3-ultragpu-8g", AcceleratorType: "NVIDIA_H200_141GB", AcceleratorCount: 8},
		ProvisioningModel: cluster.FlexStart, FlexStartMaxDuration: cluster.Duration(7 * 24 * time.Hour), ScalingSpec: cluster.ScalingSpec{MaxNodeCount: 2},
		Zone: "us-central1-a", BootDisk: cluster.BootDisk{Type: "hyperdisk-balanced", SizeGB: 100},
	}
	if diff := cmp.Diff(want, s.NodePools[1]); diff != "" {
		t.Errorf("gpu pool (-want +got)\n%s", diff)
	}
	if s.Slurm().DefaultPartitionID != "" {
		t.Errorf("default partition is %q, and should stay empty", s.Slurm().DefaultPartitionID)
	}
}

func TestZoneIsTakenFromWhereItIsKnown(t *testing.T) {
	const reserved = `"machine_spec": { "machine_type": "a3-ultragpu-8g", "reservation_affinity": {
		"reservation_affinity_type": "SPECIFIC_RESERVATION", "values": [ "projects/p-1/zones/us-central1-b/reservations/r1" ] } }`
	s := parsed(t, edited(t, `"machine_spec": { "machine_type": "a3-ultragpu-8g" }`, reserved,
		`"provisioning_model": "FLEX_START",`, "", "\"max_node_count\": 2 },\n      \"zone\": \"us-central1-a\"", `"max_node_count": 2 }`), Options{})
	if p := s.NodePools[1]; p.Zone != "us-central1-b" || p.ProvisioningModel != cluster.Reservation || p.MachineSpec.ReservationAffinity.Key != reservationKey {
		t.Errorf("with a reservation: %+v", p)
	}
	s = parsed(t, edited(t, "\"max_node_count\": 1 },\n      \"zone\": \"us-central1-a\"", `"max_node_count": 1 }`), Options{})
	if p := s.NodePools[0]; p.Zone != "us-central1-a" {
		t.Errorf("with another pool's zone: %+v", p)
	}
}

func TestProtoJSON(t *testing.T) {
	s := parsed(t, edited(t,
		`"min_node_count": 0, "max_node_count": 2`, `"min_node_count": "2", "maxNodeCount": 2.0`,
		`"provisioning_model": "FLEX_START",`, `"provisioning_model": "FLEX_START", "flex_start_max_duration": "3600.000s", "enable_public_ips": "true", "lustres": null, "startup_script": "", "labels": {},`,
	), Options{})
	p := s.NodePools[1]
	if p.ScalingSpec.MinNodeCount != 2 || p.FlexStartMaxDuration.D() != time.Hour || !p.EnablePublicIPs || p.Lustres != nil || p.Labels != nil {
		t.Errorf("got %+v", p)
	}
}

func TestParametersGetTheirNames(t *testing.T) {
	s := parsed(t, edited(t, `"login_node_pool_id"`, `"config": {"priority_weight_age": "10", "PREEMPTMODE": "requeue"}, "login_node_pool_id"`), Options{})
	if diff := cmp.Diff(map[string]string{"PriorityWeightAge": "10", "PreemptMode": "requeue"}, s.Slurm().Config); diff != "" {
		t.Errorf("config (-want +got)\n%s", diff)
	}
}

// A spec as the API gives it back holds what only the API sets.
func TestWhatTheAPIReturnsCanBeSentAgain(t *testing.T) {
	sent := edited(t,
		`"node_pools"`, `"clusterStatus": {"state": "RUNNING"}, "cluster_events": [{}], "createTime": "2026-01-01T00:00:00Z", "update_time": "x", "startTime": 1, "runtime": {"trainingServices": []}, "node_pools"`,
		`"provisioning_model"`, `"effectiveFlexStartMaxDuration": "604800s", "provisioning_model"`)
	if diff := cmp.Diff(parsed(t, edited(t), Options{}), parsed(t, sent, Options{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	numbered := strings.Replace(edited(t), "projects/my-project/locations/us-central1/", "projects/123456789012/locations/us-central1/", 1)
	s := parsed(t, numbered, Options{Key: cluster.Key{Project: "my-project"}})
	if s.Name != "projects/my-project/locations/us-central1/modelDevelopmentClusters/c1" {
		t.Errorf("with the project's number the name is %s", s.Name)
	}
}

func TestIdentity(t *testing.T) {
	full := "projects/my-project/locations/us-central1/modelDevelopmentClusters/"
	for _, c := range []struct {
		about, name, display string
		o                    Options
		want                 string // the name, or a fault
	}{
		{"id in the name", full + "c1", "My cluster", Options{}, full + "c1"},
		{"id from the display name", full, "c2", Options{}, full + "c2"},
		{"no slash at the end", strings.TrimSuffix(full, "/"), "c2", Options{}, full + "c2"},
		{"id from outside", full, "A long display name, with capitals", Options{Key: cluster.Key{ID: "c3"}}, full + "c3"},
		{"all from outside", "", "", Options{Key: cluster.Key{Project: "my-project", Location: "us-central1", ID: "c4"}}, full + "c4"},
		{"guessed", "", "c5", Options{Guess: true}, full + "c5"},
		{"guess does not overrule", full + "c1", "", Options{Guess: true}, full + "c1"},
		{"other id outside", full + "c1", "", Options{Key: cluster.Key{ID: "c2"}}, `name: names the id "c1"; allowed: c2, as given outside the spec`},
		{"other project outside", full + "c1", "", Options{Key: cluster.Key{Project: "my-projekt"}}, `name: names the project "my-project"; allowed: my-projekt, as given outside the spec`},
		{"other location outside", full + "c1", "", Options{Key: cluster.Key{Location: "us-east1"}}, `name: names the location "us-central1"; allowed: us-east1, as given outside the spec`},
		{"nothing", "", "c1", Options{}, "name: does not give the project and the location, and nothing else does; allowed: projects/PROJECT/locations/LOCATION/modelDevelopmentClusters/ID"},
		{"no id", full, "", Options{}, "display_name: is missing, and nothing else gives the cluster's id; allowed: 1 to 10 lowercase letters and digits, beginning with a letter"},
		{"no legal id", full, "My-cluster", Options{}, `display_name: "My-cluster" cannot be the cluster's id, and nothing else gives it; allowed: an id in name, or 1 to 10 lowercase letters and digits, beginning with a letter`},
		{"long id", full + "abcdefghijk", "", Options{}, `name: has the id "abcdefghijk"; allowed: 1 to 10 lowercase letters and digits, beginning with a letter`},
		{"id with a hyphen", full + "a-b", "", Options{}, `name: has the id "a-b"; allowed: 1 to 10 lowercase letters and digits, beginning with a letter`},
		{"illegal id outside", full, "", Options{Key: cluster.Key{ID: "A"}}, `the id given outside the spec is "A"; allowed: 1 to 10 lowercase letters and digits, beginning with a letter`},
		{"zone for a location", strings.Replace(full, "us-central1", "us-central1-a", 1) + "c1", "", Options{}, `name: has the location "us-central1-a"; allowed: a region such as us-central1`},
		{"project number", strings.Replace(full, "my-project", "123456", 1) + "c1", "", Options{}, `name: has the project "123456"; allowed: a project id: 6 to 30 lowercase letters, digits and hyphens`},
		{"some other name", "clusters/c1", "", Options{}, `name: "clusters/c1" does not have the right form; allowed: projects/PROJECT/locations/LOCATION/modelDevelopmentClusters/ID`},
	} {
		t.Run(c.about, func(t *testing.T) {
			name, err := json.Marshal(map[string]string{"name": c.name, "display_name": c.display})
			if err != nil {
				t.Fatal(err)
			}
			text := edited(t, `"name": "projects/my-project/locations/us-central1/modelDevelopmentClusters/c1"`, strings.Trim(string(name), "{}"))
			s, faults := Parse([]byte(text), c.o)
			got := faults.Error()
			if s != nil {
				got = s.Name
			}
			// What follows from an unknown location is said too, and is not what is looked for here.
			if first, _, _ := strings.Cut(got, "\n"); first != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestSyntax(t *testing.T) {
	for text, want := range map[string]Fault{
		"":                       {Problem: "the text is empty", Allowed: "a JSON object", Line: 1, Column: 1},
		" \n ":                   {Problem: "the text is empty", Allowed: "a JSON object", Line: 1, Column: 1},
		"{":                      {Problem: "the text is not JSON: it ends too early", Line: 1, Column: 2},
		"{\n  \"a\": 1,\n}":      {Problem: "the text is not JSON: invalid character '}' looking for beginning of object key string", Line: 3, Column: 1},
		"{\n  \"é\": tru }":      {Problem: "the text is not JSON: invalid character ' ' in literal true (expecting 'e')", Line: 2, Column: 11},
		"{} {}":                  {Problem: "the text is not JSON: invalid character '{' after top-level value", Line: 1, Column: 4},
		"{\"a\": \"\xff\"}":      {Problem: "the text is not UTF-8", Line: 1, Column: 8},
		"[]":                     {Problem: "the spec is a list", Allowed: "an object", Line: 1, Column: 1},
		"null":                   {Problem: "the spec is null", Allowed: "an object", Line: 1, Column: 1},
		strings.Repeat("[", 100): {Problem: "the text is not JSON: it ends too early", Line: 1, Column: 101},
		strings.Repeat("[", 99) + strings.Repeat("]", 99): {Problem: "the text is nested more than 20 deep", Line: 1, Column: 22},
	} {
		s, faults := Parse([]byte(text), Options{})
		if s != nil || len(faults) != 1 {
			t.Errorf("%q: got %v, %v", text, s, faults)
			continue
		}
		if diff := cmp.Diff(want, faults[0]); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", text, diff)
		}
	}
	if _, faults := Parse(make([]byte, MaxSize+1), Options{}); len(faults) != 1 || faults[0].Problem != "the text has 524289 bytes" {
		t.Errorf("a big text: %v", faults)
	}
	if s, faults := Parse([]byte("\xef\xbb\xbf"+edited(t)), Options{}); s == nil {
		t.Errorf("a byte order mark: %v", faults)
	}
}

func TestFaultsComeTogetherInOrderAndWithTheirPlaces(t *testing.T) {
	text := edited(t, `"n2-standard-8"`, `7`, `"id": "gpu"`, `"id": "gpu", "shape": 1`, `"max_node_count": 2`, `"max_node_count": -2`, `[ "gpu" ]`, `[ "cpu" ]`)
	s, faults := Parse([]byte(text), Options{})
	if s != nil {
		t.Error("there is a spec all the same")
	}
	want := Faults{
		{Path: "node_pools[0].machine_spec.machine_type", Problem: "is a number", Allowed: "a string", Line: 6, Column: 25},
		{Path: "node_pools[1].shape", Problem: "is no field of a NodePool", Allowed: "id, machine_spec, provisioning_model, flex_start_max_duration, scaling_spec, zone, enable_public_ips, boot_disk, filestores, lustres, startup_script, labels, node_image, confidential_instance_config", Line: 11, Column: 20},
		{Path: "node_pools[1].scaling_spec.max_node_count", Problem: "-2 is out of range", Allowed: "a whole number from 0 to 10000", Line: 14, Column: 46},
		{Path: "orchestrator_spec.slurm_spec.partitions[0].node_pool_ids[0]", Problem: `there is no pool "cpu"`, Allowed: "gpu", Line: 22, Column: 56},
	}
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := faults.Err(); err == nil || strings.Count(err.Error(), "\n") != len(want)-1 {
		t.Errorf("as an error: %v", err)
	}
	if Faults(nil).Err() != nil {
		t.Error("no faults are an error")
	}
}

func TestManyFaultsAreCounted(t *testing.T) {
	_, faults := Parse([]byte(edited(t, `[ "gpu" ]`, "["+strings.Repeat("1,", 99)+"1]", `"us-central1-a"`, `"x"`, `"us-central1-a"`, `"x"`)), Options{})
	if len(faults) != maxFaults+1 || faults[maxFaults].Problem != "2 more faults are not shown" {
		t.Errorf("got %d: %v", len(faults), faults[len(faults)-1])
	}
}
