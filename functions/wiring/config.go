package wiring

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"go.opentelemetry.io/otel/metric"

	"github.com/convoke-hpc/convoke/shared/decide"
	"github.com/convoke-hpc/convoke/shared/steward"
	"github.com/convoke-hpc/convoke/shared/store"
)

// Config says what the functions stand on. Project is needed; everything else has a default that suits Google Cloud.
type Config struct {
	// Target is the one function that is served, at "/"; empty: all of them, each at "/NAME" and below.
	Target string
	// Project is the project of the clusters, Location the region of requests that name none.
	Project, Location string
	// StoreAt is where clusters are kept: "firestore", or "embedded:" and a data folder. Database is Firestore's.
	StoreAt, Database string
	// ComputeEndpoint is the base URL of a server that stands in for Compute Engine, Filestore and Secret Manager.
	ComputeEndpoint string
	// ControllerAccount is the email of the service account of controllers; empty: the spec's.
	ControllerAccount string

	// What follows takes the place of what would be made. It stays its owner's: Close does not close it.

	Store  store.Store
	PubSub *pubsub.Client
	// HTTPClient carries the requests to the cloud.
	HTTPClient *http.Client
	Policy     *decide.Policy
	Timing     steward.Timing
	Now        func() time.Time
	Log        *slog.Logger
	Meter      metric.Meter
}

// The environment that FromEnvironment reads.
const (
	envTarget     = "FUNCTION_TARGET"
	envProject    = "CONVOKE_PROJECT"
	envProject2   = "GOOGLE_CLOUD_PROJECT"
	envLocation   = "CONVOKE_LOCATION"
	envStore      = "CONVOKE_STORE"
	envDatabase   = "CONVOKE_DATABASE"
	envCompute    = "CONVOKE_COMPUTE_ENDPOINT"
	envController = "CONVOKE_CONTROLLER_ACCOUNT"
)

var (
	projectPattern  = regexp.MustCompile(`^[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	locationPattern = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+$`)
)

// FromEnvironment reads a configuration from environment variables and says everything that is wrong with them.
func FromEnvironment(getenv func(string) string) (Config, error) {
	c := Config{
		Target:            getenv(envTarget),
		Project:           cmp.Or(getenv(envProject), getenv(envProject2)),
		Location:          getenv(envLocation),
		StoreAt:           cmp.Or(getenv(envStore), storeFirestore),
		Database:          getenv(envDatabase),
		ComputeEndpoint:   getenv(envCompute),
		ControllerAccount: getenv(envController),
	}
	return c, c.validate()
}

const (
	storeFirestore = "firestore"
	storeEmbedded  = "embedded:"
)

func (c *Config) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Target != "" && !slices.Contains(Names(), c.Target) {
		fault("%s: there is no function %q; there are %s", envTarget, c.Target, strings.Join(Names(), ", "))
	}
	switch {
	case c.Project == "":
		fault("%s: is not set, nor is %s", envProject, envProject2)
	case !projectPattern.MatchString(c.Project):
		fault("%s: %q is not a project id (6 to 30 lowercase letters, digits and hyphens)", envProject, c.Project)
	}
	if c.Location != "" && !locationPattern.MatchString(c.Location) {
		fault("%s: %q is not a region such as us-central1", envLocation, c.Location)
	}
	dir, embedded := strings.CutPrefix(c.StoreAt, storeEmbedded)
	if c.StoreAt != "" && c.StoreAt != storeFirestore && (!embedded || dir == "") {
		fault("%s: %q is neither firestore nor embedded:FOLDER", envStore, c.StoreAt)
	}
	if e := c.ComputeEndpoint; e != "" && !strings.HasPrefix(e, "http://") && !strings.HasPrefix(e, "https://") {
		fault("%s: %q is not an http or https URL", envCompute, e)
	}
	return errors.Join(faults...)
}
