package gcp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

// mutations are requests that create something, with a body that is accepted.
var mutations = []struct{ path, body string }{
	{"/compute/v1/projects/my-project/global/networks", `{"name":"n"}`},
	{"/compute/v1/projects/my-project/regions/us-central1/subnetworks", `{"name":"s","network":"global/networks/custom","ipCidrRange":"10.1.0.0/20"}`},
	{"/compute/v1/projects/my-project/global/instanceTemplates", `{"name":"t","properties":{"machineType":"n2-standard-8","disks":[{"boot":true,"initializeParams":{"sourceImage":"i"}}],"networkInterfaces":[{}],"scheduling":{"maxRunDuration":{"seconds":"60"}}}}`},
	{"/compute/v1/projects/my-project/zones/us-central1-a/disks", `{"name":"d","sizeGb":"10"}`},
	{"/compute/v1/projects/my-project/zones/us-central1-a/instances", `{"name":"i","machineType":"n2-standard-8","disks":[{"boot":true,"initializeParams":{"sourceImage":"i"}}],"networkInterfaces":[{"networkIP":"10.128.0.9"}]}`},
	{"/compute/v1/projects/my-project/zones/us-central1-a/instanceGroupManagers", `{"name":"g","instanceTemplate":"global/instanceTemplates/t","targetSize":2,"baseInstanceName":"n-##[3]"}`},
	{"/compute/v1/projects/my-project/zones/us-central1-a/instanceGroupManagers/g/resizeRequests", `{"name":"r","resizeBy":1,"requestedRunDuration":{"seconds":"600"}}`},
	{"/compute/v1/projects/my-project/zones/us-central1-a/instanceGroupManagers/g/createInstances", `{"instances":[{"name":"x"}]}`},
	{"/compute/v1/projects/my-project/zones/us-central1-a/instanceGroupManagers/g/deleteInstances", `{"instances":["zones/us-central1-a/instances/x"]}`},
	{"/compute/v1/projects/my-project/zones/us-central1-a/instances/i/setMetadata", `{"items":[{"key":"a","value":"b"}]}`},
	{"/v1/projects/my-project/locations/us-central1-a/instances?instanceId=f", `{"tier":"ZONAL","fileShares":[{"name":"s","capacityGb":"1024"}],"networks":[{"network":"default"}]}`},
	{"/v1/projects/my-project/secrets?secretId=s", `{"replication":{"automatic":{}}}`},
	{"/v1/projects/my-project/secrets/s:addVersion", `{"payload":{"data":"aGk="}}`},
	{"/sim/faults", `{"method":"nothing"}`},
}

// Whatever is sent, the answer is one that the service could give: nothing
// panics, and nothing is the simulator's own fault.
func FuzzRequests(f *testing.F) {
	for i, m := range mutations {
		f.Add(i, m.body)
	}
	f.Fuzz(func(t *testing.T, which int, body string) {
		delays := gcp.QuickDelays()
		cloud, err := gcp.New(gcp.Options{Delays: &delays})
		if err != nil {
			t.Fatal(err)
		}
		send := func(path, body string) {
			t.Helper()
			r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://gcp.simulated"+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := cloud.Transport().RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body) // it is in memory
			if resp.StatusCode >= 500 {
				t.Errorf("%s with %s answers %d: %s", path, body, resp.StatusCode, text)
			}
		}
		n := len(mutations)
		which = (which%n + n) % n
		for _, m := range mutations[:which] {
			send(m.path, m.body)
		}
		send(mutations[which].path, body)
		for _, m := range mutations[which+1:] {
			send(m.path, m.body)
		}
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
}
