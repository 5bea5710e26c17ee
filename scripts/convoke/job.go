package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/machines"
	simslurm "github.com/convoke-hpc/convoke/shared/sim/slurm"
	"github.com/convoke-hpc/convoke/shared/slurm"
)

const onlySimulated = "For the simulated Slurm of `convoke local` alone: on a real cluster, log in and use sbatch, scancel and squeue."

// job speaks to the simulated Slurm.
func (a app) job() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Submit, cancel and list jobs of the simulated Slurm",
		Long:  "Job submits, cancels and lists jobs.\n\n" + onlySimulated,
		Example: `  convoke job submit flexvm --nodes 2 --run-for 30s
  convoke job list flexvm
  convoke job cancel flexvm 1`,
		Args: known,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.jobSubmit(), a.jobCancel(), a.jobList())
	return cmd
}

// slurmCall calls the simulated Slurm of a cluster.
func (r *remote) slurmCall(ctx context.Context, method string, k cluster.Key, what string, in *machines.Request, out any) error {
	var body any
	if in != nil {
		body = in
	}
	err := r.call(ctx, method, machines.ControlPrefix+url.PathEscape(k.Doc())+"/"+what, body, out)
	var missing notFound
	if !errors.As(err, &missing) {
		return err
	}
	if _, local := r.localStatus(ctx); local != nil {
		return local
	}
	if _, gone := r.summary(ctx, k); gone != nil {
		return gone
	}
	return fmt.Errorf("slurmctld of cluster %s does not run (yet); `convoke status %s` shows how far its controller is", k.ID, k.ID)
}

func (a app) jobSubmit() *cobra.Command {
	var r remote
	q := &machines.Request{}
	var runFor, limit time.Duration
	var quiet bool
	cmd := &cobra.Command{
		Use:   "submit CLUSTER",
		Short: "Submit a job",
		Long:  "Submit submits a job that keeps its nodes busy for as long as --run-for says, and prints its id.\n\n" + onlySimulated + "\n\nExit codes: 0 submitted, 1 Slurm refused it, 2 the command line is wrong, 3 there is no such cluster.",
		Example: `  convoke job submit flexvm --nodes 2 --run-for 30s
  convoke job submit flexvm --partition a3u --array 10 --run-for 5s --name sweep`,
		Args: arguments(cobra.ExactArgs(1)),
	}
	r.flags(cmd.Flags())
	f := cmd.Flags()
	f.IntVarP(&q.Count, "nodes", "N", 1, "how many nodes")
	f.DurationVar(&runFor, "run-for", 30*time.Second, "how long it runs")
	f.DurationVarP(&limit, "time", "t", 0, "its time limit (none)")
	f.StringVarP(&q.Partition, "partition", "p", "", "partition (the default one)")
	f.StringVarP(&q.Name, "name", "J", "train", "its name")
	f.StringVar(&q.User, "user", "ada", "whose it is")
	f.IntVar(&q.Array, "array", 0, "submit an array of so many")
	f.StringVarP(&q.Nodes, "nodelist", "w", "", "the very nodes it must have, as a hostlist")
	f.BoolVar(&q.NoRequeue, "no-requeue", false, "let it fail when a node fails")
	f.BoolVarP(&quiet, "quiet", "q", false, "print the id and nothing else")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q.RunFor, q.TimeLimit = machines.Span(runFor), machines.Span(limit)
		k, err := r.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		var answer struct {
			Job int64 `json:"job"`
		}
		if err := r.slurmCall(cmd.Context(), http.MethodPost, k, "submit", q, &answer); err != nil {
			return err
		}
		if quiet {
			a.print("%d\n", answer.Job)
			return nil
		}
		a.print("submitted batch job %d\n  see it wait and run: convoke job list %s\n", answer.Job, k.ID)
		return nil
	}
	return cmd
}

func (a app) jobCancel() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:     "cancel CLUSTER JOB",
		Short:   "Cancel a job",
		Long:    "Cancel cancels a job that waits or runs.\n\n" + onlySimulated + "\n\nExit codes: 0 cancelled, 1 Slurm refused, 2 the command line is wrong, 3 there is no such cluster.",
		Example: `  convoke job cancel flexvm 1`,
		Args:    arguments(cobra.ExactArgs(2)),
	}
	r.flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return misused(cmd, fmt.Errorf("%q is not the id of a job", args[1]))
		}
		k, err := r.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if err := r.slurmCall(cmd.Context(), http.MethodPost, k, "cancel", &machines.Request{Job: id}, nil); err != nil {
			return err
		}
		a.print("job %d is cancelled\n", id)
		return nil
	}
	return cmd
}

func (a app) jobList() *cobra.Command {
	var r remote
	var output string
	var all bool
	cmd := &cobra.Command{
		Use:   "list CLUSTER",
		Short: "List jobs",
		Long:  "List shows the jobs that wait or run; with --all those that have ended, too.\n\n" + onlySimulated + "\n\nExit codes: 0 listed, 1 slurmctld does not run, 2 the command line is wrong, 3 there is no such cluster.",
		Example: `  convoke job list flexvm
  convoke job list flexvm --all --output json`,
		Args: arguments(cobra.ExactArgs(1)),
	}
	r.flags(cmd.Flags())
	check := outputFlag(cmd, &output)
	cmd.Flags().BoolVarP(&all, "all", "a", false, "those that have ended, too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := check(); err != nil {
			return err
		}
		k, err := r.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		jobs, err := r.jobs(cmd.Context(), k)
		if err != nil {
			return err
		}
		if !all {
			jobs = slices.DeleteFunc(jobs, func(j simslurm.Job) bool { return j.State.Finished() })
		}
		if output == "json" {
			return a.json(append([]simslurm.Job{}, jobs...))
		}
		a.showSimulatedJobs(jobs, time.Now())
		return nil
	}
	return cmd
}

func (r *remote) jobs(ctx context.Context, k cluster.Key) ([]simslurm.Job, error) {
	var jobs []simslurm.Job
	return jobs, r.slurmCall(ctx, http.MethodGet, k, "jobs", nil, &jobs)
}

func (a app) showSimulatedJobs(jobs []simslurm.Job, now time.Time) {
	if len(jobs) == 0 {
		a.print("there are no jobs\n")
		return
	}
	p := painted(a.out)
	t := table{paint: p, head: []string{"JOB", "NAME", "USER", "PARTITION", "STATE", "TIME", "WANTS", "NODES OR REASON", "COMMENT"}}
	for _, j := range jobs {
		since, until := j.Submitted, now
		if !j.Started.IsZero() {
			since = j.Started
		}
		if !j.Ended.IsZero() {
			until = j.Ended
		}
		t.add(p.bold(strconv.FormatInt(j.ID, 10)), j.Name, j.User, j.Partition, p.word(string(j.State)), age(until.Sub(since)), strconv.Itoa(j.NodeCount),
			cmp.Or(slurm.CompressHostlist(j.Nodes), j.Reason), p.dim(j.Comment))
	}
	t.write(a.out)
}
