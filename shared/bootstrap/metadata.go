// Package bootstrap holds what a VM is started with: its instance metadata and its start-up script, made from a spec by pure
// functions. What may not live here: secrets (a machine fetches them with its own identity), and anything that does I/O.
package bootstrap

// The metadata keys that a machine of ours finds. The values are not secret: everything on the machine can read them.
const (
	KeyCluster    = "convoke-cluster"    // cluster.Key.String()
	KeyUID        = "convoke-uid"        // the cluster's incarnation
	KeyRole       = "convoke-role"       // RoleController, RoleLogin, RoleCompute
	KeyPool       = "convoke-pool"       // the node pool's id; not on the controller
	KeyController = "convoke-controller" // name of the controller's VM
	KeyHome       = "convoke-home"       // ADDRESS:/SHARE, mounted as /home
	KeySecrets    = "convoke-secrets"    //nolint:gosec // names of Secret Manager secrets (munge=NAME,jwt=NAME), not secrets
	KeySpec       = "convoke-spec"       // the cluster.Spec as JSON; on the controller only
	KeyStartup    = "startup-script"     // Compute Engine's own key
)

// The roles of a machine.
const (
	RoleController = "controller"
	RoleLogin      = "login"
	RoleCompute    = "compute"
)
