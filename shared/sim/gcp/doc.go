// Package gcp is a simulated Google Cloud: a [Server] that speaks the REST
// wire format of Compute Engine v1, Filestore v1 and Secret Manager v1, so that
// the official Go REST clients run against it unchanged.
//
// It is made for those who automate managed instance groups, resize requests
// and flex-start VMs, and want to see what their automation does when
// capacity is short, answers get lost, and machines break:
//
//	cloud, err := gcp.New(gcp.Options{Project: "my-project"})
//	…
//	defer cloud.Close()
//	instances, err := compute.NewInstancesRESTClient(ctx, cloud.ClientOptions()...)
//
// [Server.ClientOptions] let a client in the same process do without a
// socket, which also works in the virtual time of testing/synctest. Anything
// else can reach it as an [net/http.Handler], with option.WithEndpoint and
// option.WithoutAuthentication.
//
// # What it knows
//
// Networks and subnetworks, machine types, instance templates, instances,
// disks, managed instance groups and their resize requests, operations;
// Filestore instances; secrets and their versions. Each has the methods that
// the route tables in this package list; any other answers 404. Requests are
// checked as the service checks them, and refused in its words: 400 with the
// field, 404, 409, 412 for a fingerprint that is out of date, and 403 for a
// quota. Mutations with a requestId happen once.
//
// Operations run for a while; those of groups are DONE when what they ask for
// is merely scheduled. A VM goes from PROVISIONING through STAGING to RUNNING
// and, some day, through STOPPING to TERMINATED or away. Resize requests go
// from CREATING to ACCEPTED, where they wait for capacity, and get all their
// VMs or none. A VM with a limited run time ends when it is over. What happens
// is told to [Options.Events] in audit-log entries, and to [Options.Machines]
// for those that simulate the guests.
//
// Where Google's documentation leaves open what happens, [Behavior] has both.
// What is not simulated: regional groups, autoscalers, health checks, rolling
// updates (a new template is for new VMs), per-instance configurations,
// suspending, and everything that has to do with permissions.
//
// # Time
//
// Things happen when they are due according to [Options.Clock], whether or not
// anybody looks. Given the same clock, seed and requests, the same things
// happen. With [Options.File] they also survive kill -9.
//
// # Control
//
// Tests and demonstrations steer it with methods of [Server], or over HTTP with
// JSON:
//
//	GET    /sim/summary     everything that exists
//	GET    /sim/leftovers   what a cleaned-up project should not have
//	GET    /sim/journal     every request; ?method=compute.instances.* filters
//	GET    /sim/counts      requests by method
//	DELETE /sim/journal     forgets both
//	PUT    /sim/capacity    {"zone":"us-central1-a","machineType":"a3-ultragpu-8g","vms":4}; -1 is unlimited
//	PUT    /sim/quotas      {"PREEMPTIBLE_NVIDIA_H200_GPUS":32}
//	GET    /sim/delays      how long things take
//	PUT    /sim/delays      {"Staging":"90s"}
//	POST   /sim/faults      a [Fault], latency as in "250ms"; answers {"fault":3}
//	DELETE /sim/faults/3    ends one, and lets go what it holds
//	DELETE /sim/faults      ends all
//	POST   /sim/freeze/instances   stale answers from now on
//	POST   /sim/thaw/instances     and no longer
//	POST   /sim/zones/Z/instances/I/{preempt,failHost,endLease,powerOff,vanish,deleteByHand,maintain,terminateForMaintenance}
//	POST   /sim/zones/Z/instanceGroupManagers/M/resizeRequests/R/fail   {"code":"…","message":"…"}
//
// # What may not live here
//
// Knowledge of who uses it: names, labels and policies of a cluster are its
// clients' business.
package gcp
