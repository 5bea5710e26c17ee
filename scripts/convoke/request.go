package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/spec"
)

// waiting is whether and how a command waits for what it asked for.
type waiting struct {
	wait, quiet bool
	timeout     time.Duration
}

func (w *waiting) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait until it is done, and show what happens meanwhile")
	cmd.Flags().BoolVarP(&w.quiet, "quiet", "q", false, "print the operation's name and nothing else")
	cmd.Flags().DurationVar(&w.timeout, "timeout", time.Hour, "how long to wait")
}

// create asks for a cluster.
func (a app) create() *cobra.Command {
	var r remote
	var w waiting
	var id string
	cmd := &cobra.Command{
		Use:   "create FILE",
		Short: "Ask for a cluster",
		Long: `Create asks for a cluster as a spec describes it. The spec is checked first; one with faults is not sent. The cluster's id is
that of the spec's name, or its display name, or what --id says.

The request is accepted at once and carried out afterwards: see "convoke operation" and "convoke timeline".

Exit codes: 0 accepted (with --wait: the cluster runs), 1 it failed or exists already, 2 the spec has faults or the command
line is wrong.`,
		Example: `  convoke create examples/flexvm.json
  convoke create --wait examples/flexvm.json
  jq .spec request.json | convoke create --id c1 -`,
		Args: arguments(cobra.ExactArgs(1)),
	}
	r.flags(cmd.Flags())
	w.flags(cmd)
	cmd.Flags().StringVar(&id, "id", "", "id of the cluster, if the spec does not say it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := a.read(args[0])
		if err != nil {
			return err
		}
		parsed, faults := spec.Parse(data, spec.Options{Key: cluster.Key{Project: r.project, Location: r.location, ID: id}, Guess: true})
		if len(faults) > 0 {
			if err := a.tell(verdict{File: args[0], Faults: faults}); err != nil {
				return err
			}
			return badInput{fmt.Errorf("%s has %d fault(s); nothing was sent", args[0], len(faults))}
		}
		k := parsed.Key()
		op := new(longRunning)
		path := fmt.Sprintf("/v1beta1/projects/%s/locations/%s/modelDevelopmentClusters?modelDevelopmentClusterId=%s&requestId=%s",
			k.Project, k.Location, url.QueryEscape(k.ID), uuid.NewString())
		if err := r.call(cmd.Context(), http.MethodPost, path, rawJSON(data), op); err != nil {
			return err
		}
		return a.accepted(cmd.Context(), &r, k, op, w)
	}
	return cmd
}

// rawJSON is text that is JSON already.
type rawJSON []byte

// MarshalJSON implements json.Marshaler.
func (j rawJSON) MarshalJSON() ([]byte, error) { return j, nil }

// delete asks for a cluster to be removed.
func (a app) delete() *cobra.Command {
	var r remote
	var w waiting
	cmd := &cobra.Command{
		Use:   "delete CLUSTER",
		Short: "Ask for a cluster to be removed",
		Long: `Delete asks for a cluster to be removed, with everything that was made for it. Jobs that run on it end. Networks and Filestore
instances, which it only used, stay.

Exit codes: 0 accepted (with --wait: nothing is left of it), 1 it failed, 2 the command line is wrong, 3 there is no such cluster.`,
		Example: `  convoke delete flexvm
  convoke delete --wait flexvm
  convoke delete projects/my-project/locations/us-central1/modelDevelopmentClusters/flexvm`,
		Args: arguments(cobra.ExactArgs(1)),
	}
	r.flags(cmd.Flags())
	w.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k, err := r.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		op := new(longRunning)
		if err := r.call(cmd.Context(), http.MethodDelete, clusterPath(k)+"?requestId="+uuid.NewString(), nil, op); err != nil {
			return err
		}
		return a.accepted(cmd.Context(), &r, k, op, w)
	}
	return cmd
}

// behaviors are what a host can be reported for.
var behaviors = []string{"PERFORMANCE", "SILENT_DATA_CORRUPTION", "UNRECOVERABLE_GPU_ERROR", "BEHAVIOR_UNSPECIFIED"}

// reportFault asks for a node to be made anew, or for its host to be reported.
func (a app) reportFault() *cobra.Command {
	var r remote
	var w waiting
	var host, description string
	cmd := &cobra.Command{
		Use:   "report-fault NODE",
		Short: "Have a faulty node replaced, or its host reported",
		Long: `Report-fault asks for a node to be deleted and made anew; with --host, for the machine under it to be reported as faulty to
Google Cloud, which repairs it. A job that runs on the node is requeued.

What a host can be reported for: PERFORMANCE, SILENT_DATA_CORRUPTION, UNRECOVERABLE_GPU_ERROR, BEHAVIOR_UNSPECIFIED.

Exit codes: 0 accepted, 1 it failed, 2 the command line is wrong, 3 there is no such cluster.`,
		Example: `  convoke report-fault flexvm-a3u-1
  convoke report-fault flexvm-a3u-1 --host UNRECOVERABLE_GPU_ERROR --description "Xid 79 again and again"`,
		Args: arguments(cobra.ExactArgs(1)),
	}
	r.flags(cmd.Flags())
	w.flags(cmd)
	cmd.Flags().StringVar(&host, "host", "", "report the host, for this `BEHAVIOR`")
	cmd.Flags().StringVar(&description, "description", "", "what was seen, for those who repair the host")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, _, ok := cluster.ParseNodeName(args[0])
		if !ok {
			return badInput{fmt.Errorf("%q is not the name of a node, CLUSTER-POOL-INDEX", args[0])}
		}
		action := map[string]any{"nodeId": args[0]}
		if host != "" {
			action["reportFaultyHost"] = map[string]any{"faultReasons": []any{map[string]string{"behavior": host, "description": description}}}
		} else if description != "" {
			return misused(cmd, errors.New("--description is about a host; it goes with --host"))
		}
		k, err := r.find(cmd.Context(), id)
		if err != nil {
			return err
		}
		op := new(longRunning)
		body := map[string]any{"nodeActions": []any{action}}
		if err := r.call(cmd.Context(), http.MethodPost, clusterPath(k)+":reportFaultyNodes?requestId="+uuid.NewString(), body, op); err != nil {
			return err
		}
		return a.accepted(cmd.Context(), &r, k, op, w)
	}
	_ = cmd.RegisterFlagCompletionFunc("host", cobra.FixedCompletions(behaviors, cobra.ShellCompDirectiveNoFileComp)) // of a flag that is there
	return cmd
}

// attend shows a cluster's timeline until the operation has ended.
func (a app) attend(ctx context.Context, r *remote, k cluster.Key, op *longRunning, o waiting) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	t := &tail{remote: r, key: k, from: op.Metadata.Generic.Create}
	for {
		now, err := r.operation(ctx, op.Name)
		if err == nil && !o.quiet {
			err = t.show(ctx, a)
		}
		if err == nil && now.Done {
			if !o.quiet {
				a.showOperation(now, time.Now())
			}
			return now.failure()
		}
		if err == nil {
			err = pause(ctx, pollEvery)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%s of %s is still being worked on after %s", op.verb(), k.ID, o.timeout)
		}
		if err != nil {
			return err
		}
	}
}
