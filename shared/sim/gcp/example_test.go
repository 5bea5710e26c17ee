package gcp_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/googleapi"

	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

// A client meets a zone that is out of machines, and a service that is
// down for a moment.
func Example() {
	delays := gcp.QuickDelays()
	cloud, err := gcp.New(gcp.Options{Delays: &delays, Capacity: map[string]int{"us-central1-a/n2-standard-8": 0}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = cloud.Close() }()
	cloud.FailNext("compute.instances.insert", 1, http.StatusServiceUnavailable)

	ctx := context.Background()
	instances, err := compute.NewInstancesRESTClient(ctx, cloud.ClientOptions()...)
	if err != nil {
		log.Fatal(err)
	}
	p := plainProperties()
	request := &computepb.InsertInstanceRequest{Project: "my-project", Zone: "us-central1-a", InstanceResource: &computepb.Instance{
		Name: new("vm"), MachineType: p.MachineType, Disks: p.Disks, NetworkInterfaces: p.NetworkInterfaces,
	}}
	_, err = instances.Insert(ctx, request)
	var refused *googleapi.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Code, refused.Errors[0].Reason)
	}
	op, err := instances.Insert(ctx, request)
	if err != nil {
		log.Fatal(err)
	}
	if err := op.Wait(ctx); err != nil {
		fmt.Println(op.Proto().GetError().GetErrors()[0].GetCode())
	}
	fmt.Println(cloud.Count("compute.instances.insert"), "requests")
	// Output:
	// 503 backendError
	// ZONE_RESOURCE_POOL_EXHAUSTED
	// 2 requests
}
