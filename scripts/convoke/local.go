package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/convoke-hpc/convoke/scripts/convoke/internal/local"
	"github.com/convoke-hpc/convoke/shared/telemetry"
)

const defaultDataDir = ".convoke"

// local runs a deployment on this machine.
func (a app) local() *cobra.Command {
	o := local.Options{PubSubEmulator: os.Getenv(local.EnvPubSub), FirestoreEmulator: os.Getenv(local.EnvFirestore)}
	var pace, level string
	var tick time.Duration
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Run a whole deployment on this machine",
		Long: `Local runs everything in one process: the functions, Pub/Sub, their store, a scheduler that ticks, and a simulated Google Cloud
whose machines run a simulated Slurm. Nothing leaves this machine, and nothing asks for credentials.

Everything is kept in the data folder: Ctrl-C ends it cleanly, and started again, also after a crash, it carries on. A folder
belongs to one process at a time.

With --pace fast, things take seconds that really take minutes: machines boot in 3 s, idle nodes are given back after 4 s.
With --pace real they take as long as they do on Google Cloud.

Where PUBSUB_EMULATOR_HOST or FIRESTORE_EMULATOR_HOST is set, Google's emulator is used in place of the part of this process.
They keep nothing, so what they held is lost with them.

Exit codes: 0 ended by Ctrl-C or SIGTERM, 1 it could not start or end well, 2 the command line is wrong.`,
		Example: `  convoke local
  convoke local --data-dir /tmp/convoke --addr 127.0.0.1:0 --pace real

  # Publish, and read dead letters, with gcloud. (Client libraries take PUBSUB_EMULATOR_HOST.)
  export CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB=http://127.0.0.1:8920/ CLOUDSDK_AUTH_DISABLE_CREDENTIALS=true
  gcloud pubsub topics publish cluster-requests --project my-project --message "$(cat examples/flexvm.json)"
  gcloud pubsub subscriptions pull dead-letters --project my-project`,
		Args: arguments(cobra.NoArgs),
	}
	f := cmd.Flags()
	f.StringVar(&o.DataDir, "data-dir", defaultDataDir, "folder that everything is kept in")
	f.StringVar(&o.Addr, "addr", "127.0.0.1:8920", "where HTTP listens; port 0 is any")
	f.StringVar(&o.PubSubAddr, "pubsub-addr", "127.0.0.1:8921", "where Pub/Sub listens; port 0 is any")
	f.StringVar(&o.Project, "project", "my-project", "id of the simulated project")
	f.StringVar(&o.Location, "location", "us-central1", "region of requests that name none")
	f.StringSliceVar(&o.Filestores, "filestore", []string{"us-central1-a/home"}, "Filestore instances that there are, as LOCATION/NAME")
	f.StringVar(&pace, "pace", "fast", "how long things take: fast or real")
	f.DurationVar(&tick, "tick", 0, "how often the scheduler ticks (as the pace says)")
	f.Uint64Var(&o.Seed, "seed", 1, "what is random in the simulated cloud follows from it")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		if o.Pace, err = local.PaceNamed(pace); err != nil {
			return misused(cmd, fmt.Errorf("--pace, %w", err))
		}
		if tick < 0 {
			return misused(cmd, fmt.Errorf("--tick is %s, want more than nothing", tick))
		}
		if tick > 0 {
			o.Pace.Tick = tick
		}
		var l slog.Level
		if err := l.UnmarshalText([]byte(level)); err != nil {
			return misused(cmd, fmt.Errorf("--log-level is %q, want debug, info, warn or error", level))
		}
		o.Logger = telemetry.NewLogger(a.err, telemetry.LogOptions{Format: telemetry.Text, Level: l})
		return a.runLocal(cmd.Context(), o)
	}
	return cmd
}

// endTime is how long what is under way may take to end after Ctrl-C; what is cut off comes again at the next start.
const endTime = 15 * time.Second

func (a app) runLocal(ctx context.Context, o local.Options) error {
	l, err := local.Start(ctx, o)
	if err != nil {
		return err
	}
	a.welcome(l, o)
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-l.Failed():
	}
	a.print("ending: what is under way comes to its end\n")
	// A second Ctrl-C ends it at once, as the first no longer stops anything.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	began := time.Now()
	if err := errors.Join(failed, l.Close(closing)); err != nil {
		return err
	}
	a.print("ended after %.1f s; `convoke local --data-dir %s` carries on\n", time.Since(began).Seconds(), o.DataDir)
	return nil
}

func (a app) welcome(l *local.Local, o local.Options) {
	p := painted(a.out)
	dir := o.DataDir
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	store := "in the data folder"
	if o.FirestoreEmulator != "" {
		store = "Firestore emulator at " + o.FirestoreEmulator
	}
	a.print("%s\n", p.bold("Convoke runs on this machine."))
	t := table{head: []string{"", ""}, paint: p}
	t.add("  console", l.URL()+"/console/")
	t.add("  API", l.URL()+"/v1beta1/projects/"+o.Project+"/locations/"+o.Location+"/modelDevelopmentClusters")
	t.add("  Pub/Sub", "export "+local.EnvPubSub+"="+l.PubSubAddr())
	t.add("  gcloud", "export CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB="+l.URL()+"/ CLOUDSDK_AUTH_DISABLE_CREDENTIALS=true")
	t.add("  store", store)
	t.add("  data folder", dir)
	t.rowsOnly(a.out)
	server := ""
	if l.URL() != defaultServer {
		server = "export " + envServer + "=" + l.URL() + "\n  "
	}
	me := "convoke"
	if strings.ContainsRune(os.Args[0], filepath.Separator) { // it is not on the person's path
		me = os.Args[0]
	}
	a.print("\nIn another terminal:\n  %s%[2]s create --wait examples/flexvm.json\n  %[2]s job submit flexvm --nodes 2 --run-for 20s\n  %[2]s status flexvm --watch\n\nCtrl-C ends it.\n\n",
		server, me)
}
