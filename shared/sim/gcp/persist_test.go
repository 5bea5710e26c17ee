package gcp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/api/option"

	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

// A cloud that ends at any moment and starts again on its file carries on:
// queued requests keep their place, leases end at their time, and request ids
// are remembered.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "cloud.db")
		w := newWorld(t, gcp.Options{File: file, Seed: 7, Capacity: map[string]int{zone + "/" + h200: 1}})
		restart := func() {
			w.ok("closing", w.cloud.Close())
			w = newWorld(t, gcp.Options{File: file, Seed: 7})
		}
		w.flexGroup()
		start := time.Now()
		_, err := w.requests.Insert(w.ctx, &computepb.InsertInstanceGroupManagerResizeRequestRequest{
			Project: project, Zone: zone, InstanceGroupManager: "mig", RequestId: requestID(1),
			InstanceGroupManagerResizeRequestResource: &computepb.InstanceGroupManagerResizeRequest{Name: new("r1"), Instances: []*computepb.PerInstanceConfig{{Name: new("node-0")}}, RequestedRunDuration: &computepb.Duration{Seconds: new(int64(3600))}},
		})
		w.ok("asking", err)
		for _, at := range []time.Duration{2, 8, 22, 30, 40} {
			w.at(start, at*time.Second)
			restart()
		}
		w.at(start, 51*time.Second)
		w.wantState("r1", "SUCCEEDED")
		before, err := w.instance("node-0")
		w.ok("getting", err)
		w.done(w.request("mig", "r2", "node-1"))
		w.pass(time.Minute)
		_, err = w.secrets.CreateSecret(w.ctx, &secretmanagerpb.CreateSecretRequest{Parent: "projects/my-project", SecretId: "s", Secret: &secretmanagerpb.Secret{Replication: &secretmanagerpb.Replication{Replication: &secretmanagerpb.Replication_Automatic_{}}}})
		w.ok("creating a secret", err)
		_, err = w.secrets.AddSecretVersion(w.ctx, &secretmanagerpb.AddSecretVersionRequest{Parent: "projects/my-project/secrets/s", Payload: &secretmanagerpb.SecretPayload{Data: []byte("key")}})
		w.ok("adding a version", err)

		restart()
		if news := w.heardNews(); len(news) != 1 || news[0] != "node-0 runs" || !w.guest("node-0").Resumed {
			t.Errorf("after the restart the guests heard %q", news)
		}
		after, err := w.instance("node-0")
		w.ok("getting", err)
		if before.GetId() != after.GetId() || before.GetResourceStatus().GetScheduling().GetTerminationTimestamp() != after.GetResourceStatus().GetScheduling().GetTerminationTimestamp() {
			t.Errorf("the restart changed the instance from %v to %v", before, after)
		}
		_, err = w.requests.Insert(w.ctx, &computepb.InsertInstanceGroupManagerResizeRequestRequest{
			Project: project, Zone: zone, InstanceGroupManager: "mig", RequestId: requestID(1),
			InstanceGroupManagerResizeRequestResource: &computepb.InstanceGroupManagerResizeRequest{Name: new("r1"), ResizeBy: new(int32(1))},
		})
		if message := w.refused(err, 400, "invalid"); !strings.Contains(message, "different parameters") {
			t.Errorf("the request id is forgotten: %s", message)
		}
		got, err := w.secrets.AccessSecretVersion(w.ctx, &secretmanagerpb.AccessSecretVersionRequest{Name: "projects/my-project/secrets/s/versions/latest"})
		w.ok("accessing the secret", err)
		if string(got.GetPayload().GetData()) != "key" {
			t.Errorf("the secret is %q", got.GetPayload().GetData())
		}

		// The lease ends while the cloud is down, and r2 gets what is free.
		w.ok("closing", w.cloud.Close())
		time.Sleep(2 * time.Hour)
		w = newWorld(t, gcp.Options{File: file, Seed: 7})
		w.wantStatus("node-0", "gone")
		w.wantState("r2", "SUCCEEDED")
		sum, err := w.cloud.Summarize()
		w.ok("summarizing", err)
		if got := sum.Capacity[zone+"/"+h200]; got.Limit != 1 || got.Used > 1 {
			t.Errorf("the capacity is %+v", got)
		}
		w.ok("closing", w.cloud.Close())
	})
}

// A file that is not one is refused, and so is one that is in use.
func TestBadFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cloud.db")
	if err := os.WriteFile(file, []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := gcp.New(gcp.Options{File: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that is no database: %v", err)
	}
}

const childFile = "GCP_TEST_FILE"

// TestMain serves a cloud when it is the child of TestKill.
func TestMain(m *testing.M) {
	if file := os.Getenv(childFile); file != "" {
		os.Exit(serve(file))
	}
	os.Exit(m.Run())
}

func serve(file string) int {
	delays := gcp.QuickDelays()
	cloud, err := gcp.New(gcp.Options{File: file, Delays: &delays})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	server := httptest.NewServer(cloud)
	fmt.Println(server.URL)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent ends, or kills this
	return 0
}

// Whatever was answered is still there after kill -9.
func TestKill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cloud.db")
	ctx := context.Background()
	for round := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childFile+"="+file)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var url string
		if _, err := fmt.Fscanln(out, &url); err != nil {
			t.Fatalf("the child does not say where it is: %v", err)
		}
		networks, err := compute.NewNetworksRESTClient(ctx, option.WithEndpoint(url), option.WithoutAuthentication())
		if err != nil {
			t.Fatal(err)
		}
		for before := range round {
			if _, err := networks.Get(ctx, &computepb.GetNetworkRequest{Project: project, Network: fmt.Sprintf("net-%d", before)}); err != nil {
				t.Errorf("the network of round %d is lost: %v", before, err)
			}
		}
		if _, err := networks.Insert(ctx, &computepb.InsertNetworkRequest{Project: project, NetworkResource: &computepb.Network{Name: new(fmt.Sprintf("net-%d", round))}}); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed, and says so
		_ = in.Close()
		http.DefaultClient.CloseIdleConnections()
	}
}
