package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/functions/api"
	"github.com/convoke-hpc/convoke/scripts/convoke/internal/local"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
	simslurm "github.com/convoke-hpc/convoke/shared/sim/slurm"
	"github.com/convoke-hpc/convoke/shared/store"
	"github.com/convoke-hpc/convoke/shared/telemetry"
)

// demo shows a cluster's life from its spec to nothing.
func (a app) demo() *cobra.Command {
	s := staging{pace: local.Fast(), patience: 30 * time.Second}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show in a minute what Convoke does",
		Long: `Demo runs a deployment on this machine, in a folder that it makes and removes, and shows two clusters from their specs to
nothing: how they come up, how a job gets its nodes and gives them back, how a node whose lease is over comes back, and
that nothing is left at the end. Every step is checked.

Exit codes: 0 everything was as it should be, 1 something was not, 2 the command line is wrong.`,
		Example: `  convoke demo
  convoke demo --examples examples`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runDemo(cmd.Context(), s) },
	}
	cmd.Flags().StringVar(&s.examples, "examples", "examples", "folder of the specs flexvm.json and static.json")
	return cmd
}

// The clusters of the demonstration: one that has nodes when jobs need them, and one that always has one.
var (
	flexKey   = cluster.Key{Project: "my-project", Location: "us-central1", ID: "flexvm"}
	steadyKey = cluster.Key{Project: "my-project", Location: "us-central1", ID: "steady"}
)

// staging is how a demonstration is given.
type staging struct {
	examples string
	pace     local.Pace
	// patience is how long a step may take. They take seconds; a slow machine may take more.
	patience time.Duration
}

// performance is a demonstration that is under way.
type performance struct {
	app
	staging
	paint  paint
	local  *local.Local
	remote remote
	began  time.Time
	tails  []*tail
	seen   map[string][]store.TimelineEntry // by cluster
	parts  []part
}

// part is one part of the demonstration, as the summary tells it.
type part struct {
	title string
	took  time.Duration
	outcome
}

// outcome is what came of a part: for the moment it ends, and for the summary.
type outcome struct{ said, short string }

func (a app) runDemo(ctx context.Context, s staging) error {
	specs := map[string][]byte{}
	for _, name := range []string{"flexvm.json", "static.json"} {
		text, err := os.ReadFile(filepath.Join(s.examples, name)) //nolint:gosec // where the person says
		if err != nil {
			return badInput{fmt.Errorf("reading the example (run it in the repository, or give --examples), %w", err)}
		}
		specs[name] = text
	}
	dir, err := os.MkdirTemp("", "convoke-demo-")
	if err != nil {
		return fmt.Errorf("making a folder for the demonstration, %w", err)
	}
	log, err := os.Create(filepath.Join(dir, "log")) //nolint:gosec // in a folder of our own
	if err != nil {
		return fmt.Errorf("making a log, %w", err)
	}
	d := &performance{app: a, staging: s, paint: painted(a.out), began: time.Now(), seen: map[string][]store.TimelineEntry{}}
	err = d.perform(ctx, local.Options{
		DataDir: filepath.Join(dir, "data"), Seed: 1, Project: flexKey.Project, Location: flexKey.Location, Pace: s.pace,
		Logger: telemetry.NewLogger(log, telemetry.LogOptions{Format: telemetry.Text}),
	}, specs)
	err = errors.Join(err, log.Close())
	if ctx.Err() != nil {
		return errors.Join(errors.New("the demonstration was interrupted"), os.RemoveAll(dir))
	}
	if err != nil {
		a.print("\n%s  the log is %s\n", d.paint.red("The demonstration failed."), log.Name())
		return err
	}
	return os.RemoveAll(dir)
}

func (d *performance) perform(ctx context.Context, o local.Options, specs map[string][]byte) (err error) {
	d.print("%s\n", d.paint.bold("Convoke: two training clusters from their specs to nothing, on this machine. Everything in the cloud is simulated."))
	acts := []struct {
		title string
		do    func(context.Context) (outcome, error)
	}{
		{"A deployment starts", func(ctx context.Context) (outcome, error) { return d.start(ctx, o) }},
		{"Two clusters are asked for", func(ctx context.Context) (outcome, error) { return d.create(ctx, specs) }},
		{"A job waits for two machines, gets them and runs", d.runJob},
		{"Machines that no job needs are given back", d.giveBack},
		{"The lease of a static node ends", d.endLease},
		{"Both clusters are deleted", d.deleteBoth},
		{"What is left", d.checkLeft},
	}
	defer func() {
		if d.local == nil {
			return
		}
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		if closed := d.local.Close(closing); closed != nil {
			err = errors.Join(err, fmt.Errorf("ending the deployment, %w", closed))
		}
	}()
	for i, act := range acts {
		d.print("\n%s\n", d.paint.bold(fmt.Sprintf("%d. %s", i+1, act.title)))
		began := time.Now()
		result, err := act.do(ctx)
		if err != nil {
			d.postMortem(ctx)
			return fmt.Errorf("part %d (%s), %w", i+1, act.title, err)
		}
		d.parts = append(d.parts, part{act.title, time.Since(began), result})
		d.print("  %s %s\n", d.paint.green("✓"), result.said)
	}
	return d.summarize(ctx)
}

// command shows what a person would type, and does it.
func (d *performance) command(ctx context.Context, args ...string) error {
	d.print("  %s\n", d.paint.dim("$ convoke "+strings.Join(args, " ")))
	unseen := app{in: d.in, out: io.Discard, err: d.err}
	if code := unseen.run(ctx, append(args, "--server", d.local.URL())); code != exitOK {
		return fmt.Errorf("convoke %s ended with exit code %d", strings.Join(args, " "), code)
	}
	return nil
}

// lookEvery is how often the demonstration looks while it waits.
const lookEvery = 60 * time.Millisecond

// until shows what happens until something is so, and fails when it is not so in time.
func (d *performance) until(ctx context.Context, what string, is func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	for {
		ok, err := is(ctx)
		if shown := d.show(ctx); err == nil {
			err = shown
		}
		if err == nil && ok {
			return nil
		}
		if err == nil {
			err = pause(ctx, lookEvery)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("it is not so after %s that %s", d.patience, what)
		}
		if err != nil {
			return fmt.Errorf("waiting until %s, %w", what, err)
		}
	}
}

// show prints what has come to the timelines.
func (d *performance) show(ctx context.Context) error {
	for _, t := range d.tails {
		entries, err := t.next(ctx)
		if err != nil {
			return err
		}
		for _, e := range entries {
			d.seen[t.key.ID] = append(d.seen[t.key.ID], e)
			text := e.Text
			if e.Kind == "node" {
				text = e.About + ": " + text
			}
			switch {
			case e.Problem != nil:
				text = d.paint.yellow(text)
			case e.Kind == "resource":
				text = d.paint.dim(text)
			}
			d.print("  %s  %s %s\n", d.paint.dim(fmt.Sprintf("%5.1f s", e.At.Sub(d.began).Seconds())), d.paint.cyan(t.key.ID), text)
		}
	}
	return nil
}

// told reports whether the timeline of a cluster has said something of a thing since the given number of entries.
func (d *performance) told(k cluster.Key, since int, kind, about, text string) bool {
	for _, e := range d.seen[k.ID][since:] {
		if e.Kind == kind && strings.Contains(e.About, about) && strings.Contains(e.Text, text) {
			return true
		}
	}
	return false
}

func (d *performance) start(ctx context.Context, o local.Options) (outcome, error) {
	var err error
	if d.local, err = local.Start(ctx, o); err != nil {
		return outcome{}, err
	}
	d.remote = remote{server: d.local.URL(), project: flexKey.Project}
	left, err := d.remote.localStatus(ctx)
	if err != nil {
		return outcome{}, err
	}
	if len(left.Leftovers) != 0 {
		return outcome{}, fmt.Errorf("the cloud is not empty at the start: %s", strings.Join(left.Leftovers, ", "))
	}
	d.print("  console %s/console/, Pub/Sub %s\n", d.local.URL(), d.local.PubSubAddr())
	return outcome{"seven functions, Pub/Sub, a store and a scheduler over an empty cloud", "seven functions over an empty cloud"}, nil
}

func (d *performance) create(ctx context.Context, specs map[string][]byte) (outcome, error) {
	began := time.Now()
	d.tails = []*tail{{remote: &d.remote, key: flexKey}, {remote: &d.remote, key: steadyKey}}
	d.print("  %s\n", d.paint.dim(`$ gcloud pubsub topics publish cluster-requests --message "$(cat examples/flexvm.json)"`))
	if err := d.local.Publish(ctx, events.TopicRequests, specs["flexvm.json"], nil); err != nil {
		return outcome{}, err
	}
	d.print("  %s\n", d.paint.dim(`$ convoke create examples/static.json`))
	op := new(longRunning)
	path := "/v1beta1/projects/" + steadyKey.Project + "/locations/" + steadyKey.Location + "/modelDevelopmentClusters?modelDevelopmentClusterId=" + steadyKey.ID
	if err := d.remote.call(ctx, http.MethodPost, path, rawJSON(specs["static.json"]), op); err != nil {
		return outcome{}, err
	}
	err := d.until(ctx, "both clusters are running, and the static node is ready", func(ctx context.Context) (bool, error) {
		flex, err := d.running(ctx, flexKey)
		if err != nil || flex == nil {
			return false, err
		}
		steady, err := d.running(ctx, steadyKey)
		return err == nil && steady != nil && inPhase(steady, "a3u", cluster.Ready) == 1, err
	})
	if err != nil {
		return outcome{}, err
	}
	took := time.Since(began).Seconds()
	return outcome{
		fmt.Sprintf("both run after %.1f s: flexvm with its controller and login node alone, steady with its one static node, too", took),
		"both run, on 5 machines",
	}, d.machines(ctx, 5)
}

// summary is a cluster's, nil while there is none.
func (d *performance) summary(ctx context.Context, k cluster.Key) (*api.Summary, error) {
	s, err := d.remote.summary(ctx, k)
	var missing notFound
	if errors.As(err, &missing) {
		return nil, nil //nolint:nilnil // both are answers: there is none
	}
	return s, err
}

// running is a cluster's summary once it runs, nil before that, and an error if it cannot.
func (d *performance) running(ctx context.Context, k cluster.Key) (*api.Summary, error) {
	s, err := d.summary(ctx, k)
	switch {
	case err != nil || s == nil:
		return nil, err
	case s.Phase == cluster.PhaseError && s.Problem != nil:
		return nil, fmt.Errorf("cluster %s is in ERROR: %w", k.ID, s.Problem)
	case s.Phase != cluster.PhaseRunning:
		return nil, nil //nolint:nilnil // not yet
	}
	return s, nil
}

// inPhase counts the nodes of a pool that are in a phase.
func inPhase(s *api.Summary, pool string, phase cluster.NodePhase) int {
	n := 0
	for i := range s.Pools {
		for _, g := range s.Pools[i].Nodes {
			if s.Pools[i].ID == pool && g.Phase == phase {
				n += g.Count
			}
		}
	}
	return n
}

// machines checks how many machines there are.
func (d *performance) machines(ctx context.Context, want int) error {
	s, err := d.remote.localStatus(ctx)
	if err == nil && s.Machines != want {
		err = fmt.Errorf("there are %d machines in the cloud, want %d", s.Machines, want)
	}
	return err
}

const (
	jobNodes = "flexvm-a3u-[0-1]"
	jobTime  = 3 * time.Second
)

func (d *performance) runJob(ctx context.Context) (outcome, error) {
	began := time.Now()
	since := len(d.seen[flexKey.ID])
	if err := d.command(ctx, "job", "submit", flexKey.ID, "--nodes", "2", "--run-for", jobTime.String()); err != nil {
		return outcome{}, err
	}
	job, err := d.job(ctx)
	if err != nil {
		return outcome{}, err
	}
	if job.State != simslurm.Pending && job.State != simslurm.Configuring {
		return outcome{}, fmt.Errorf("the job is %s although there is no machine for it", job.State)
	}
	d.print("  job %d of %d nodes waits (%s)\n", job.ID, job.NodeCount, job.State)
	var waited time.Duration
	for _, step := range []struct {
		what string
		is   func(context.Context) (bool, error)
	}{
		{"the resize request waits in the queue", func(context.Context) (bool, error) {
			return d.told(flexKey, since, "allocation", "", "waits in the queue for capacity"), nil
		}},
		{"capacity is granted", func(context.Context) (bool, error) {
			return d.told(flexKey, since, "allocation", "", "capacity granted for "+jobNodes), nil
		}},
		{"both machines boot and are ready", func(context.Context) (bool, error) {
			for _, n := range []string{"flexvm-a3u-0", "flexvm-a3u-1"} {
				if !d.told(flexKey, since, "node", n, "starting up") || !d.told(flexKey, since, "node", n, "ready") {
					return false, nil
				}
			}
			return true, nil
		}},
		{"the job runs on both", d.jobIs(simslurm.Running)},
		{"the job is done", d.jobIs(simslurm.Completed)},
	} {
		if err := d.until(ctx, step.what, step.is); err != nil {
			return outcome{}, err
		}
		if step.what == "the job runs on both" {
			waited = time.Since(began)
			d.print("  job %d runs on %s\n", job.ID, jobNodes)
		}
	}
	return outcome{
		fmt.Sprintf("the job had both machines %.1f s after it was submitted, and ran on them for %s", waited.Seconds(), jobTime),
		fmt.Sprintf("%.1f s from submission to start", waited.Seconds()),
	}, nil
}

func (d *performance) job(ctx context.Context) (simslurm.Job, error) {
	jobs, err := d.remote.jobs(ctx, flexKey)
	if err != nil {
		return simslurm.Job{}, err
	}
	if len(jobs) != 1 {
		return simslurm.Job{}, fmt.Errorf("there are %d jobs, want 1", len(jobs))
	}
	return jobs[0], nil
}

// jobIs reports whether the job has come so far.
func (d *performance) jobIs(state simslurm.JobState) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		job, err := d.job(ctx)
		if err != nil {
			return false, err
		}
		if job.Restarts > 0 || job.State.Finished() && job.State != simslurm.Completed {
			return false, fmt.Errorf("the job is %s after %d restarts", job.State, job.Restarts)
		}
		return job.State == state || state == simslurm.Running && job.State.Finished(), nil
	}
}

func (d *performance) giveBack(ctx context.Context) (outcome, error) {
	began := time.Now()
	d.print("  Slurm gives nodes back that were idle for %s\n", d.pace.Slurm.SuspendTime)
	err := d.until(ctx, "flexvm has no compute node and has asked for none", func(ctx context.Context) (bool, error) {
		s, err := d.summary(ctx, flexKey)
		if err != nil || s == nil {
			return false, err
		}
		for i := range s.Pools {
			if p := &s.Pools[i]; p.ID == "a3u" && len(p.Nodes)+len(p.Allocations) > 0 {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return outcome{}, err
	}
	took := fmt.Sprintf("gone %.1f s after the job's end", time.Since(began).Seconds())
	return outcome{"both machines and their group are " + took, took}, d.machines(ctx, 5)
}

const staticNode = "steady-a3u-0"

func (d *performance) endLease(ctx context.Context) (outcome, error) {
	began := time.Now()
	since := len(d.seen[steadyKey.ID])
	before, err := d.remote.machine(ctx, staticNode)
	if err != nil {
		return outcome{}, err
	}
	d.print("  %s\n", d.paint.dim("$ convoke sim end-lease "+staticNode))
	if err := d.remote.call(ctx, http.MethodPost, "/sim/zones/"+before.Zone+"/instances/"+before.Name+"/endLease", nil, nil); err != nil {
		return outcome{}, err
	}
	var after gcp.InstanceSummary
	err = d.until(ctx, staticNode+" is ready again, on another machine", func(ctx context.Context) (bool, error) {
		if !d.told(steadyKey, since, "node", staticNode, "ready") {
			return false, nil
		}
		var err error
		after, err = d.remote.machine(ctx, staticNode)
		return err == nil && after.ID != before.ID && after.Status == "RUNNING", err
	})
	if err != nil {
		return outcome{}, err
	}
	took := fmt.Sprintf("%s is back after %.1f s", staticNode, time.Since(began).Seconds())
	return outcome{took + ": another machine under the same name, and no job had to ask for it", took}, d.machines(ctx, 5)
}

func (d *performance) deleteBoth(ctx context.Context) (outcome, error) {
	began := time.Now()
	for _, k := range []cluster.Key{flexKey, steadyKey} {
		if err := d.command(ctx, "delete", k.ID); err != nil {
			return outcome{}, err
		}
	}
	err := d.until(ctx, "both clusters are gone", func(ctx context.Context) (bool, error) {
		for _, k := range []cluster.Key{flexKey, steadyKey} {
			if s, err := d.summary(ctx, k); err != nil || s != nil {
				return false, err
			}
		}
		return true, nil
	})
	took := fmt.Sprintf("gone after %.1f s", time.Since(began).Seconds())
	return outcome{"both are " + took, took}, err
}

func (d *performance) checkLeft(ctx context.Context) (outcome, error) {
	var operations struct {
		All []longRunning `json:"operations"`
	}
	if err := d.remote.call(ctx, http.MethodGet, "/v1beta1/projects/"+flexKey.Project+"/locations/"+flexKey.Location+"/operations", nil, &operations); err != nil {
		return outcome{}, err
	}
	for _, op := range operations.All {
		if !op.Done || op.Error != nil {
			return outcome{}, fmt.Errorf("operation %s (%s) did not end well: %w", op.id(), op.verb(), errors.Join(op.failure(), errors.New("see its timeline")))
		}
	}
	s, err := d.remote.localStatus(ctx)
	if err != nil {
		return outcome{}, err
	}
	for _, c := range []struct {
		what  string
		wrong bool
		which string
	}{
		{"operations", len(operations.All) != 4, fmt.Sprintf("%d, want 4", len(operations.All))},
		{"left over in the cloud", len(s.Leftovers) > 0, strings.Join(s.Leftovers, ", ")},
		{"dead letters", s.DeadLetters > 0, fmt.Sprint(s.DeadLetters)},
		{"quarantined events", s.Quarantined > 0, fmt.Sprint(s.Quarantined)},
	} {
		if c.wrong {
			return outcome{}, fmt.Errorf("%s: %s", c.what, c.which)
		}
		d.print("  %-24s %s\n", c.what, map[bool]string{true: "4, all done", false: "none"}[c.what == "operations"])
	}
	return outcome{"nothing: no machine, disk, group, template or secret, no undelivered and no unread event", "nothing"}, nil
}

func (d *performance) summarize(ctx context.Context) error {
	s, err := d.remote.localStatus(ctx)
	if err != nil {
		return err
	}
	d.print("\n")
	t := table{paint: d.paint, head: []string{"PART", "TOOK", "WHAT HAPPENED"}}
	for i, p := range d.parts {
		t.add(fmt.Sprintf("%d. %s", i+1, p.title), fmt.Sprintf("%4.1f s", p.took.Seconds()), p.short)
	}
	t.write(d.out)
	entries := 0
	for _, seen := range d.seen {
		entries += len(seen)
	}
	d.print("\n%s %d events delivered, %d calls of the cloud's API, %d decisions on the timelines. Left over in the cloud: nothing.\n",
		d.paint.green(fmt.Sprintf("All as it should be, in %.1f s.", time.Since(d.began).Seconds())), s.Events, s.Calls, entries)
	d.print("To go on by hand: convoke local\n")
	return nil
}

// postMortem shows how things stand when something was not as it should be.
func (d *performance) postMortem(ctx context.Context) {
	if d.local == nil || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_ = d.show(ctx) // as far as it still can
	for _, t := range d.tails {
		if s, err := d.summary(ctx, t.key); err == nil && s != nil {
			d.print("\n")
			d.showSummary(s, time.Now())
		}
	}
	if s, err := d.remote.localStatus(ctx); err == nil && len(s.Leftovers) > 0 {
		d.print("\nin the cloud:\n  %s\n", strings.Join(s.Leftovers, "\n  "))
	}
}
