// Package wiring puts the functions together: it opens what they stand on, and no more than the ones that are served need. The
// deployed program and `convoke local` are made by it alike. What may not live here: anything that happens when an event
// comes.
package wiring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/convoke-hpc/convoke/functions/api"
	"github.com/convoke-hpc/convoke/functions/clusters"
	"github.com/convoke-hpc/convoke/functions/console"
	"github.com/convoke-hpc/convoke/functions/delivery"
	"github.com/convoke-hpc/convoke/functions/hardware"
	"github.com/convoke-hpc/convoke/functions/preemption"
	"github.com/convoke-hpc/convoke/functions/reconcile"
	"github.com/convoke-hpc/convoke/functions/resize"
	"github.com/convoke-hpc/convoke/shared/cloud/gce"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/decide"
	"github.com/convoke-hpc/convoke/shared/steward"
	"github.com/convoke-hpc/convoke/shared/store/embedded"
	"github.com/convoke-hpc/convoke/shared/store/firestore"
	"github.com/convoke-hpc/convoke/shared/telemetry"
)

// Names are the functions, sorted.
func Names() []string {
	return []string{"api", "clusters", "console", "hardware", "preemption", "reconcile", "resize"}
}

// App is the functions, ready to serve.
type App struct {
	Config
	handlers  map[string]http.Handler
	publisher *publisher
	closers   []func() error // in the order in which they were opened
}

// New opens what the functions need. After an error nothing is left open.
func New(ctx context.Context, c Config) (*App, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("putting the functions together, %w", err)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Meter == nil {
		c.Meter = noop.NewMeterProvider().Meter("")
	}
	a := &App{Config: c, handlers: map[string]http.Handler{}}
	if err := a.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("putting the functions together, %w", err), a.Close())
	}
	return a, nil
}

// Handlers are the functions that are served, by name. With a Target, its paths begin at "/"; without one, each function's begin
// at "/NAME".
func (a *App) Handlers() map[string]http.Handler { return a.handlers }

// Close sends what is still to be published and closes what New opened, the last first. No request may be under way.
func (a *App) Close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i]())
	}
	a.closers = nil
	return errors.Join(errs...)
}

func (a *App) serves(names ...string) bool {
	if a.Target == "" {
		return true
	}
	for _, n := range names {
		if a.Target == n {
			return true
		}
	}
	return false
}

func (a *App) open(ctx context.Context) error {
	if err := a.openStore(ctx); err != nil {
		return err
	}
	if !a.serves("console") || a.Target == "" {
		if err := a.openPubSub(ctx); err != nil {
			return err
		}
	}
	if a.Target == "" || !a.serves("api", "console") {
		if err := a.eventFunctions(ctx); err != nil {
			return err
		}
	}
	if a.serves("api") {
		a.serve("api", api.New(api.Config{
			Store: a.Store, State: a.state, Publish: requests{a.publisher}, Project: a.Project, Now: a.Now,
			NewID: uuid.NewString, Log: a.Log.With("function", "api"),
		}))
	}
	if a.serves("console") {
		h, err := console.New(console.Config{Store: a.Store, State: a.state, Base: a.base("console"), Now: a.Now, Log: a.Log.With("function", "console")})
		if err != nil {
			return err
		}
		a.serve("console", h)
	}
	return nil
}

func (a *App) state(ctx context.Context, key cluster.Key) (*cluster.State, error) {
	return steward.ReadState(ctx, a.Store, key)
}

// base is the path under which a function is served.
func (a *App) base(name string) string {
	if a.Target != "" {
		return ""
	}
	return "/" + name
}

func (a *App) serve(name string, h http.Handler) {
	if base := a.base(name); base != "" {
		inner := http.StripPrefix(base, h)
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == base {
				http.Redirect(w, r, base+"/", http.StatusFound)
				return
			}
			inner.ServeHTTP(w, r)
		})
	}
	a.handlers[name] = telemetry.Traced(h)
}

func (a *App) openStore(ctx context.Context) error {
	if a.Store != nil {
		return nil
	}
	var err error
	if dir, ok := strings.CutPrefix(a.StoreAt, storeEmbedded); ok {
		a.Store, err = embedded.Open(dir, embedded.Options{})
	} else {
		a.Store, err = firestore.Open(ctx, a.Project, firestore.Options{Database: a.Database})
	}
	if err != nil {
		return err
	}
	a.closers = append(a.closers, a.Store.Close)
	return nil
}

func (a *App) openPubSub(ctx context.Context) error {
	client := a.PubSub
	if client == nil {
		var err error
		if client, err = pubsub.NewClient(ctx, a.Project); err != nil {
			return fmt.Errorf("connecting to Pub/Sub in project %s, %w", a.Project, err)
		}
		a.closers = append(a.closers, client.Close)
	}
	a.publisher = newPublisher(client, a.Now)
	a.closers = append(a.closers, a.publisher.close)
	return nil
}

// eventFunctions makes the functions that events reach, over one steward.
func (a *App) eventFunctions(ctx context.Context) error {
	cloud, err := gce.New(ctx, gce.Options{
		Project: a.Project, Endpoint: a.ComputeEndpoint, HTTPClient: a.HTTPClient, Now: a.Now, Logger: a.Log,
	})
	if err != nil {
		return err
	}
	a.closers = append(a.closers, func() error { cloud.Close(); return nil })
	adapter, err := delivery.NewAdapter(delivery.Options{Quarantine: a.Store, Log: a.Log, Meter: a.Meter, Now: a.Now})
	if err != nil {
		return err
	}
	s := steward.New(steward.Config{
		Store: a.Store, Cloud: cloud, Commands: a.publisher, Waker: a.publisher, Policy: a.policy(), Now: a.Now,
		Log: a.Log, Holder: holder(), Timing: a.Timing,
	})
	for name, fn := range a.functions(s) {
		if a.serves(name) {
			// Deliveries come to whatever path the subscription names.
			a.handlers[name] = telemetry.Traced(adapter.Handler(name, fn))
		}
	}
	return nil
}

func (a *App) functions(s *steward.Steward) map[string]delivery.Func {
	return map[string]delivery.Func{
		"clusters": clusters.New(clusters.Config{
			Steward: s, Project: a.Project, Defaults: cluster.Key{Project: a.Project, Location: a.Location}, Now: a.Now,
		}),
		"resize":     resize.New(s, a.Now),
		"preemption": preemption.New(s, a.Now),
		"hardware":   hardware.New(s, a.Now),
		"reconcile":  reconcile.New(s, a.Log.With("function", "reconcile")),
	}
}

func (a *App) policy() decide.Policy {
	p := decide.Defaults()
	if a.Policy != nil {
		p = *a.Policy
	}
	p.ControllerAccount = cmp.Or(a.ControllerAccount, p.ControllerAccount)
	return p
}

// holder names this process in leases: where it runs, for people, and something that no other process has.
func holder() string {
	where := cmp.Or(os.Getenv("K_REVISION"), "local")
	return where + "/" + uuid.NewString()
}
