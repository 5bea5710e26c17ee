package gce

import (
	"bytes"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

var update = flag.Bool("update", false, "write the golden files anew")

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// golden compares a message, as JSON, with testdata/NAME.json.
func golden(t *testing.T, name string, m proto.Message) {
	t.Helper()
	raw, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := json.Indent(&got, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func testTemplate() cluster.Template {
	owner := cluster.Owner{Cluster: "c1", UID: "u1"}
	return cluster.Template{
		Description: owner.Description(), MachineType: "n2-standard-8",
		Image: "projects/my-project/global/images/family/convoke", DiskType: "hyperdisk-balanced", DiskSizeGB: 100,
		Network: "projects/my-project/global/networks/net",
		Labels:  owner.Labels(),
		Metadata: map[string]string{
			"startup-script": "#!/bin/bash\n", "convoke-role": "compute", "convoke-cluster": "projects/my-project/locations/us-central1/modelDevelopmentClusters/c1",
		},
		Model: cluster.OnDemand,
	}
}

func TestTemplates(t *testing.T) {
	for name, change := range map[string]func(*cluster.Template){
		"on-demand": func(*cluster.Template) {},
		"flex-start": func(t *cluster.Template) {
			t.MachineType, t.Model, t.Run, t.TerminateOnMaintenance = "a3-ultragpu-8g", cluster.FlexStart, 7*24*time.Hour, true
			t.Network = "projects/host-project/global/networks/net"
			t.Subnetwork = "projects/host-project/regions/us-central1/subnetworks/sub"
			t.ServiceAccount, t.Tags = "nodes@my-project.iam.gserviceaccount.com", []string{"convoke", "c1"}
		},
		"spot": func(t *cluster.Template) { t.Model, t.PublicIP = cluster.Spot, true },
		"reservation": func(t *cluster.Template) {
			t.MachineType, t.Model, t.TerminateOnMaintenance = "a4-highgpu-8g", cluster.Reservation, true
			t.Reservation = &cluster.ReservationAffinity{
				Type: "SPECIFIC_RESERVATION", Key: "compute.googleapis.com/reservation-name",
				Values: []string{"projects/my-project/zones/us-central1-a/reservations/r1"},
			}
		},
		"confidential": func(t *cluster.Template) { t.Confidential, t.Run = "SEV_SNP", 90*time.Minute+500*time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			template := testTemplate()
			change(&template)
			golden(t, "template-"+name, instanceTemplate("my-project", "c1-t-"+name, &template))
		})
	}
}

func TestReservationName(t *testing.T) {
	for in, want := range map[string]string{
		"projects/my-project/zones/us-central1-a/reservations/r1":                      "r1",
		"projects/other/zones/us-central1-a/reservations/r1":                           "projects/other/reservations/r1",
		"projects/other/zones/us-central1-a/reservations/r1/reservationBlocks/b":       "projects/other/reservations/r1/reservationBlocks/b",
		"projects/my-project/zones/us-central1-a/reservations/r1/reservationBlocks/b1": "r1/reservationBlocks/b1",
		"r1":                             "r1",
		"projects/other/reservations/r1": "projects/other/reservations/r1",
	} {
		if got := reservationName("my-project", in); got != want {
			t.Errorf("reservationName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestMatch(t *testing.T) {
	const pattern = "projects/*/zones/*/operations/*"
	for in, want := range map[string][]string{
		"projects/p/zones/z/operations/o":                                       {"p", "z", "o"},
		"https://www.googleapis.com/compute/v1/projects/p/zones/z/operations/o": {"p", "z", "o"},
		"projects/p/zones/z/operations/":                                        nil,
		"projects/p/regions/z/operations/o":                                     nil,
		"projects/p/zones/z/operations/o/wait":                                  nil,
		"":                                                                      nil,
	} {
		got, ok := match(in, pattern)
		if !cmp.Equal(got, want) || ok != (want != nil) {
			t.Errorf("match(%q) = %q, %v, want %q", in, got, ok, want)
		}
	}
}
