package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/convoke-hpc/convoke/functions/delivery"
	"github.com/convoke-hpc/convoke/functions/wiring"
	"github.com/convoke-hpc/convoke/shared/store"
	"github.com/convoke-hpc/convoke/shared/telemetry"
)

// The variables of the environment by which Google's clients find emulators.
const (
	EnvPubSub    = "PUBSUB_EMULATOR_HOST"
	EnvFirestore = "FIRESTORE_EMULATOR_HOST"
)

// Options say how a deployment runs on this machine. DataDir is needed.
type Options struct {
	// DataDir is the folder that holds everything. It is made if it is not there. One process at a time has it.
	DataDir string
	// Addr is where HTTP listens, PubSubAddr where Pub/Sub's gRPC API does; "127.0.0.1:0" if empty. Nothing asks for
	// credentials: keep both on the loopback interface.
	Addr, PubSubAddr string
	// Project is the simulated project's id; "my-project" if empty. Location is the region of requests that name none;
	// "us-central1" if empty.
	Project, Location string
	// Filestores are the Filestore instances that there are from the start, as LOCATION/ID; nil: us-central1-a/home.
	Filestores []string
	// Pace says how long everything takes; Fast if it is zero. A Pace.Tick of zero never ticks.
	Pace Pace
	// Seed decides what is random in the simulated cloud.
	Seed uint64
	// PubSubEmulator and FirestoreEmulator are the addresses of Google's emulators, to be used in place of the broker and the
	// embedded store of this process.
	PubSubEmulator, FirestoreEmulator string
	// Logger hears from all parts; slog.Default if nil.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.DataDir == "" {
		return o, errors.New("a deployment on this machine needs a data folder")
	}
	o.Addr = cmp.Or(o.Addr, "127.0.0.1:0")
	o.PubSubAddr = cmp.Or(o.PubSubAddr, "127.0.0.1:0")
	o.Project = cmp.Or(o.Project, "my-project")
	o.Location = cmp.Or(o.Location, "us-central1")
	if o.Filestores == nil {
		o.Filestores = []string{"us-central1-a/home"}
	}
	if o.Pace.Name == "" {
		o.Pace = Fast()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}

// filestoreKeys are the Filestore instances as the simulated cloud names them.
func (o Options) filestoreKeys() []string {
	keys := make([]string, len(o.Filestores))
	for i, f := range o.Filestores {
		location, id, _ := strings.Cut(f, "/")
		keys[i] = "locations/" + location + "/instances/" + id
	}
	return keys
}

// Local is a running deployment.
type Local struct {
	options  Options
	listener net.Listener
	web      *http.Server
	gate     *delivery.Gate
	board    *switchboard
	bus      *bus
	store    store.Store
	world    *world
	app      *wiring.App
	metrics  *telemetry.Metrics

	scheduler   sync.WaitGroup
	stopTicking context.CancelFunc
	closeOnce   sync.Once
	closeErr    error
	served      chan struct{} // closed when HTTP is no longer served
	failed      chan error
}

// Start starts a deployment, on what its data folder holds. It runs until Close.
func Start(ctx context.Context, o Options) (*Local, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("making the data folder, %w", err)
	}
	l := &Local{options: o, gate: &delivery.Gate{}, board: newSwitchboard(), metrics: telemetry.NewMetrics(), served: make(chan struct{}), failed: make(chan error, 1)}
	if err := l.open(ctx); err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return nil, errors.Join(err, l.Close(closing))
	}
	return l, nil
}

func (l *Local) open(ctx context.Context) error {
	var err error
	if l.store, err = openStore(ctx, l.options); err != nil {
		return err
	}
	if l.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", l.options.Addr); err != nil {
		return fmt.Errorf("listening for HTTP (--addr chooses another port), %w", err)
	}
	if l.bus, err = openBus(ctx, l.options, l.gate.Wrap(l.board), l.URL()); err != nil {
		return err
	}
	if l.world, err = openWorld(ctx, l.options, l.bus, l.gate.Wrap(l.board)); err != nil {
		return err
	}
	if l.app, err = l.openApp(ctx); err != nil {
		return err
	}
	l.board.open(l.app.Handlers())
	l.web = &http.Server{Handler: l.handler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(l.options.Logger.Handler(), slog.LevelWarn)}
	go func() {
		defer close(l.served)
		if err := l.web.Serve(l.listener); !errors.Is(err, http.ErrServerClosed) {
			l.failed <- fmt.Errorf("serving HTTP, %w", err)
		}
	}()
	if l.options.Pace.Tick > 0 {
		ticking, stop := context.WithCancel(context.WithoutCancel(ctx))
		l.stopTicking = stop
		ticks := l.bus.ticks()
		l.scheduler.Go(func() { schedule(ticking, ticks, l.options.Project, l.options.Pace.Tick, l.options.Logger) })
	}
	return nil
}

// URL is where HTTP is served.
func (l *Local) URL() string { return "http://" + l.listener.Addr().String() }

// PubSubAddr is the value for PUBSUB_EMULATOR_HOST.
func (l *Local) PubSubAddr() string { return l.bus.addr }

// Failed tells when HTTP is no longer served although nobody closed the deployment.
func (l *Local) Failed() <-chan error { return l.failed }

// Idle waits until no message waits to be pushed or is being pushed, or until ctx ends. With Google's emulator, which
// does not tell, it fails.
func (l *Local) Idle(ctx context.Context) error {
	if l.bus.broker == nil {
		return errors.New("the Pub/Sub emulator does not tell what is waiting")
	}
	return l.bus.broker.Idle(ctx)
}

// Close ends the deployment: nothing new is begun, what is under way comes to its end, or, when ctx ends before, is cut off
// and comes again when the deployment is started anew.
func (l *Local) Close(ctx context.Context) error {
	l.closeOnce.Do(func() { l.closeErr = l.close(ctx) })
	return l.closeErr
}

func (l *Local) close(ctx context.Context) error {
	var errs []error
	if l.stopTicking != nil {
		l.stopTicking()
		l.scheduler.Wait()
	}
	if l.world != nil {
		l.world.halt()
	}
	errs = append(errs, l.stopServing(ctx))
	if l.bus != nil {
		errs = append(errs, l.bus.drain(ctx)) // what is being worked on may still publish
	}
	errs = append(errs, l.gate.Drain(ctx))
	if l.app != nil {
		errs = append(errs, l.app.Close())
	}
	if l.world != nil {
		errs = append(errs, l.world.close())
	}
	if l.bus != nil {
		errs = append(errs, l.bus.disconnect())
	}
	if l.store != nil {
		errs = append(errs, l.store.Close())
	}
	return errors.Join(errs...)
}

// lastWord is how long a request over HTTP that is under way may take to end.
const lastWord = 5 * time.Second

func (l *Local) stopServing(ctx context.Context) error {
	if l.web == nil {
		if l.listener == nil {
			return nil
		}
		return l.listener.Close()
	}
	ctx, cancel := context.WithTimeout(ctx, lastWord)
	defer cancel()
	if l.web.Shutdown(ctx) != nil {
		_ = l.web.Close() // of connections that are cut off either way
	}
	<-l.served
	return nil
}
