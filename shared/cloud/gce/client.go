// Package gce carries out intents and looks at the cloud with Google's own REST clients: Compute Engine for machines,
// Filestore for shared storage, Secret Manager for keys. Here a call's shape and the meaning of its failure are decided,
// and nothing else: what is wanted, when to try again and what follows from a failure are the caller's business.
//
// # What may be relied on
//
//  1. Every mutation carries the intent's request id, so that one whose answer was lost is repeated without effect. Compute
//     Engine remembers a request id for about an hour; after that, what is there already is looked at, and taken for ours
//     only if it bears our mark.
//  2. No long operation is waited for. Its name, a path such as projects/P/zones/Z/operations/O, is in the outcome; an
//     operation that is over in the answer has been checked and leaves no name.
//  3. Removing what is not there is success. What is in use gives a Conflict: try again later.
//  4. What is there and not ours is neither used nor changed: a Conflict that says whose it is.
//  5. A failed, refused or partial look leaves its subject out of the observation and a problem in its place.
//  6. Throttled and unanswered calls are repeated a few times, with growing pauses, within the caller's deadline. All
//     retries are made here, and those of the clients are turned off, so that randomness and time are the ones passed in.
package gce

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	filestore "cloud.google.com/go/filestore/apiv1"
	secretmanager "cloud.google.com/go/secretmanager/apiv1"
	"golang.org/x/time/rate"
	"google.golang.org/api/option"
	transport "google.golang.org/api/transport/http"

	"github.com/convoke-hpc/convoke/shared/cloud"
)

var _ cloud.Cloud = (*Client)(nil)

// Options say where the cloud is and how it may be called. Only Project is required.
type Options struct {
	// Project is the id of the project whose machines are ours.
	Project string
	// Endpoint is the base URL of one server that answers for all three services and asks for no credentials, such as
	// the simulator. Empty: Google Cloud, with the application default credentials.
	Endpoint string
	// HTTPClient carries all requests as it is, credentials included. nil: one is made.
	HTTPClient *http.Client
	// Random is where secrets and the jitter of pauses come from: crypto/rand's Reader when nil.
	Random io.Reader
	// Now is the clock: time.Now when nil.
	Now func() time.Time
	// Logger hears of repeated calls: slog.Default when nil.
	Logger *slog.Logger
	Limits Limits
}

// Limits bound what a client asks of the services. A zero field means the default that it names.
type Limits struct {
	// Concurrency is how many calls one Observe makes at a time: 8.
	Concurrency int
	// Rate is how many calls the client begins each second, and Burst how many of them at once: no limit, and 1.
	Rate  rate.Limit
	Burst int
	// Call is the longest that one attempt at a call may take: 30 s.
	Call time.Duration
	// Attempts is how often a throttled or unanswered call is made in all: 3.
	Attempts int
	// Pause is the longest pause before the second attempt, which triples with each further one: 500 ms.
	Pause time.Duration
	// Page is how many entries a list call asks for at a time, at most 500: 500.
	Page int
}

func (l Limits) withDefaults() Limits {
	if l.Concurrency <= 0 {
		l.Concurrency = 8
	}
	if l.Rate <= 0 {
		l.Rate = rate.Inf
	}
	if l.Burst <= 0 {
		l.Burst = 1
	}
	if l.Call <= 0 {
		l.Call = 30 * time.Second
	}
	if l.Attempts <= 0 {
		l.Attempts = 3
	}
	if l.Pause <= 0 {
		l.Pause = 500 * time.Millisecond
	}
	if l.Page <= 0 || l.Page > 500 {
		l.Page = 500
	}
	return l
}

// Client is a cloud.Cloud for one project. It is safe for concurrent use.
type Client struct {
	project string
	now     func() time.Time
	logger  *slog.Logger
	limits  Limits
	limiter *rate.Limiter

	randomLock sync.Mutex
	random     io.Reader

	http *http.Client
	ours bool // http was made here
	base []option.ClientOption

	instances   *compute.InstancesClient
	templates   *compute.InstanceTemplatesClient
	groups      *compute.InstanceGroupManagersClient
	requests    *compute.InstanceGroupManagerResizeRequestsClient
	disks       *compute.DisksClient
	networks    *compute.NetworksClient
	subnetworks *compute.SubnetworksClient
	zonal       *compute.ZoneOperationsClient
	global      *compute.GlobalOperationsClient
	files       *filestore.CloudFilestoreManagerClient
	secrets     *secretmanager.Client
}

// New makes a client. All clients of the services share one http.Client, which makes them so cheap (80 µs for all) that
// none is put off until it is needed. New makes no call: credentials that are missing on Google Cloud fail here, those that
// are refused fail at the first call.
func New(ctx context.Context, o Options) (*Client, error) {
	if !projectPattern.MatchString(o.Project) {
		return nil, fmt.Errorf("connecting to Google Cloud: %q is not a project id", o.Project)
	}
	c := &Client{
		project: o.Project, now: o.Now, logger: o.Logger, random: o.Random,
		limits: o.Limits.withDefaults(), http: o.HTTPClient,
	}
	c.limiter = rate.NewLimiter(c.limits.Rate, c.limits.Burst)
	if c.now == nil {
		c.now = time.Now
	}
	if c.logger == nil {
		c.logger = slog.Default()
	}
	if c.random == nil {
		c.random = rand.Reader
	}
	if err := c.connect(ctx, strings.TrimSuffix(o.Endpoint, "/")); err != nil {
		return nil, fmt.Errorf("connecting to Google Cloud, %w", err)
	}
	return c, nil
}

func (c *Client) connect(ctx context.Context, endpoint string) error {
	if c.http == nil {
		c.ours = true
		c.http = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
		if endpoint == "" {
			var err error
			c.http, _, err = transport.NewClient(ctx, option.WithScopes("https://www.googleapis.com/auth/cloud-platform"))
			if err != nil {
				return err
			}
		}
	}
	// The clients' own debug log would hold whole requests, and so the secrets that are made here.
	c.base = []option.ClientOption{option.WithLogger(slog.New(slog.DiscardHandler))}
	if endpoint != "" {
		c.base = append(c.base, option.WithEndpoint(endpoint))
	}
	options := append(c.base[:len(c.base):len(c.base)], option.WithHTTPClient(c.http))

	var errs []error
	open(ctx, &errs, options, &c.instances, compute.NewInstancesRESTClient)
	open(ctx, &errs, options, &c.templates, compute.NewInstanceTemplatesRESTClient)
	open(ctx, &errs, options, &c.groups, compute.NewInstanceGroupManagersRESTClient)
	open(ctx, &errs, options, &c.requests, compute.NewInstanceGroupManagerResizeRequestsRESTClient)
	open(ctx, &errs, options, &c.disks, compute.NewDisksRESTClient)
	open(ctx, &errs, options, &c.networks, compute.NewNetworksRESTClient)
	open(ctx, &errs, options, &c.subnetworks, compute.NewSubnetworksRESTClient)
	open(ctx, &errs, options, &c.zonal, compute.NewZoneOperationsRESTClient)
	open(ctx, &errs, options, &c.global, compute.NewGlobalOperationsRESTClient)
	open(ctx, &errs, options, &c.files, filestore.NewCloudFilestoreManagerRESTClient)
	open(ctx, &errs, options, &c.secrets, secretmanager.NewRESTClient)
	return errors.Join(errs...)
}

type constructor[T any] func(context.Context, ...option.ClientOption) (*T, error)

func open[T any](ctx context.Context, errs *[]error, options []option.ClientOption, into **T, construct constructor[T]) {
	client, err := construct(ctx, options...)
	if err != nil {
		*errs = append(*errs, err)
		return
	}
	*into = client
}

// Close lets go of idle connections, if they are the client's own. No call may be under way.
func (c *Client) Close() {
	if c.ours {
		c.http.CloseIdleConnections()
	}
}
