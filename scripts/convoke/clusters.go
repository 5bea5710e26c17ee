package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// clusters lists the clusters.
func (a app) clusters() *cobra.Command {
	var r remote
	var output string
	cmd := &cobra.Command{
		Use:   "clusters",
		Short: "List clusters",
		Long: `Clusters lists the clusters of a project in all locations, or in the one that --location names.

Exit codes: 0 listed (even if there is none), 1 the deployment did not answer, 2 the command line is wrong.`,
		Example: `  convoke clusters
  convoke clusters --location us-central1
  convoke clusters --output json | jq -r '.[].name'`,
		Args: arguments(cobra.NoArgs),
	}
	r.flags(cmd.Flags())
	check := outputFlag(cmd, &output)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := check(); err != nil {
			return err
		}
		project, _, err := r.home(cmd.Context())
		if err != nil {
			return err
		}
		location := r.location
		if location == "" {
			location = "-"
		}
		if output == "json" {
			all, err := r.listRaw(cmd.Context(), project, location)
			if err != nil {
				return err
			}
			return a.json(all)
		}
		all, err := r.list(cmd.Context(), project, location)
		if err != nil {
			return err
		}
		a.showClusters(all, time.Now())
		return nil
	}
	return cmd
}

func (a app) showClusters(all []resource, now time.Time) {
	if len(all) == 0 {
		a.print("there are no clusters; `convoke create FILE` makes one\n")
		return
	}
	p := painted(a.out)
	t := table{paint: p, head: []string{"CLUSTER", "LOCATION", "STATE", "NODES", "AGE", "NOT AS IT SHOULD BE"}}
	for _, c := range all {
		k, err := cluster.ParseKey(c.Name)
		if err != nil {
			continue // a name of another API's
		}
		running := 0
		for _, n := range c.Status.Nodes {
			if n.State == "RUNNING" {
				running++
			}
		}
		wrong := c.Status.Detail
		if c.Status.Error != nil {
			wrong = c.Status.Error.Message
		}
		t.add(p.bold(k.ID), k.Location, p.word(c.Status.State), fmt.Sprintf("%d of %d", running, len(c.Status.Nodes)), age(now.Sub(c.Create)),
			strings.ReplaceAll(wrong, "\n", " "))
	}
	t.write(a.out)
}
