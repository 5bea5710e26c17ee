// Command functions serves Convoke's functions. The same program is every one of them: FUNCTION_TARGET says which it is, at
// "/"; when it is unset, all are served, each at /NAME.
//
// It is told everything else by its environment, too:
//
//	PORT                        where it listens; 8080
//	CONVOKE_HOST                the address it listens on; 127.0.0.1, and on Cloud Run all
//	CONVOKE_PROJECT             the project of the clusters; GOOGLE_CLOUD_PROJECT when it is unset
//	CONVOKE_LOCATION            the region of requests that name none; none
//	CONVOKE_STORE               firestore, or embedded:FOLDER for one process on one machine; firestore
//	CONVOKE_DATABASE            the Firestore database; (default)
//	CONVOKE_CONTROLLER_ACCOUNT  the service account of Slurm controllers; the spec's
//	CONVOKE_COMPUTE_ENDPOINT    a server that stands in for Compute Engine, Filestore and Secret Manager; Google Cloud
//	CONVOKE_LOG                 json, or text for people; json unless it writes to a terminal
//	CONVOKE_LOG_LEVEL           debug, info, warn or error; info
//	FIRESTORE_EMULATOR_HOST, PUBSUB_EMULATOR_HOST   as Google's clients take them
//
// On SIGTERM it takes no further request, waits for those in flight, and ends. What may not live here: anything but
// starting and ending.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"

	"github.com/convoke-hpc/convoke/functions/delivery"
	"github.com/convoke-hpc/convoke/functions/wiring"
	"github.com/convoke-hpc/convoke/shared/telemetry"
)

// lastWord is how long requests in flight may take to end: Cloud Run kills a process ten seconds after it has asked it to go.
const lastWord = 9 * time.Second

func main() {
	log, err := logger()
	if err == nil {
		err = serve(log)
	}
	if err != nil {
		log.Error("the functions cannot be served", "error", err)
		os.Exit(1)
	}
}

func logger() (*slog.Logger, error) {
	options := telemetry.LogOptions{
		Format:  telemetry.Format(os.Getenv("CONVOKE_LOG")),
		Project: cmp.Or(os.Getenv("CONVOKE_PROJECT"), os.Getenv("GOOGLE_CLOUD_PROJECT")),
	}
	var faults error
	switch options.Format {
	case telemetry.Auto, telemetry.JSON, telemetry.Text:
	default:
		faults = fmt.Errorf("CONVOKE_LOG: %q is neither json nor text", options.Format)
		options.Format = telemetry.JSON
	}
	level := slog.LevelInfo
	if s := os.Getenv("CONVOKE_LOG_LEVEL"); s != "" {
		if err := level.UnmarshalText([]byte(s)); err != nil {
			faults = errors.Join(faults, fmt.Errorf("CONVOKE_LOG_LEVEL: %q is not debug, info, warn or error", s))
		}
	}
	options.Level = level
	log := telemetry.NewLogger(os.Stderr, options)
	slog.SetDefault(log)
	return log, faults
}

func serve(log *slog.Logger) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	config, err := wiring.FromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	config.Log = log
	app, err := wiring.New(ctx, config)
	if err != nil {
		return err
	}
	var gate delivery.Gate
	if err := register(app, &gate); err != nil {
		return errors.Join(err, app.Close())
	}
	served := make(chan error, 1)
	port := cmp.Or(os.Getenv("PORT"), "8080")
	go func() { served <- funcframework.StartHostPort(host(), port) }()
	log.Info("serving", "target", cmp.Or(config.Target, "all"), "port", port)
	select {
	case err := <-served:
		return errors.Join(fmt.Errorf("serving on port %s, %w", port, err), app.Close())
	case <-ctx.Done():
	}
	log.Info("ending", "inFlight", gate.InFlight())
	last, cancel := context.WithTimeout(context.Background(), lastWord)
	defer cancel()
	if err := gate.Drain(last); err != nil {
		// Whatever is cut off is delivered again.
		log.Warn("ending with requests in flight", "error", err)
		return nil
	}
	return app.Close()
}

// host keeps a process on somebody's own machine to that machine. On Cloud Run the platform stands in front.
func host() string {
	if os.Getenv("K_SERVICE") != "" {
		return ""
	}
	return cmp.Or(os.Getenv("CONVOKE_HOST"), "127.0.0.1")
}

// register makes the handlers known to the framework, which serves a function at "/NAME" and nothing below it; so those
// with paths of their own are registered once more for what is below.
func register(app *wiring.App, gate *delivery.Gate) error {
	for name, h := range app.Handlers() {
		h = gate.Wrap(h)
		functions.HTTP(name, h.ServeHTTP)
		if app.Target != "" {
			continue
		}
		if err := funcframework.RegisterHTTPFunctionContext(context.Background(), "/"+name+"/", http.HandlerFunc(h.ServeHTTP)); err != nil {
			return fmt.Errorf("registering function %s, %w", name, err)
		}
	}
	return nil
}
