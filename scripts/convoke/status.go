package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/convoke-hpc/convoke/functions/api"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/slurm"
)

// status shows how clusters are.
func (a app) status() *cobra.Command {
	var r remote
	var output string
	var watch bool
	cmd := &cobra.Command{
		Use:   "status [CLUSTER…]",
		Short: "Show how clusters are, and what is in motion",
		Long: `Status shows a cluster's phase and conditions, its nodes by phase, what has been asked of Compute Engine and how far that is,
and its jobs. Without a name it shows all clusters.

Exit codes: 0 shown, 1 the deployment did not answer, 2 the command line is wrong, 3 there is no such cluster.`,
		Example: `  convoke status
  convoke status flexvm --watch
  convoke status flexvm --output json | jq '.[0].pools[].allocations'`,
	}
	r.flags(cmd.Flags())
	check := outputFlag(cmd, &output)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again every second, until Ctrl-C")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := check(); err != nil {
			return err
		}
		if watch && output == "json" {
			return misused(cmd, errors.New("--watch shows text, and --output is json"))
		}
		if !watch {
			all, err := r.summaries(cmd.Context(), args)
			if err != nil {
				return err
			}
			if output == "json" {
				return a.json(all)
			}
			a.showSummaries(all, time.Now())
			return nil
		}
		return a.watch(cmd.Context(), &r, args)
	}
	return cmd
}

const watchEvery = time.Second

func (a app) watch(ctx context.Context, r *remote, names []string) error {
	for {
		all, err := r.summaries(ctx, names)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // Ctrl-C is how it ends
		case err != nil:
			return err
		}
		if painted(a.out) {
			a.print("\x1b[H\x1b[2J") // a clean screen
		} else {
			a.print("--- %s\n", time.Now().Format("15:04:05"))
		}
		a.showSummaries(all, time.Now())
		if pause(ctx, watchEvery) != nil {
			return nil //nolint:nilerr // as above
		}
	}
}

// summaries are those of the named clusters, or of all.
func (r *remote) summaries(ctx context.Context, names []string) ([]api.Summary, error) {
	out := []api.Summary{}
	if len(names) == 0 {
		project, _, err := r.home(ctx)
		if err != nil {
			return nil, err
		}
		all, err := r.list(ctx, project, cmp.Or(r.location, "-"))
		if err != nil {
			return nil, err
		}
		for _, c := range all {
			names = append(names, c.Name)
		}
	}
	for _, name := range names {
		k, err := r.find(ctx, name)
		if err != nil {
			return nil, err
		}
		s, err := r.summary(ctx, k)
		if err != nil {
			return nil, err
		}
		out = append(out, *s)
	}
	return out, nil
}

func (r *remote) summary(ctx context.Context, k cluster.Key) (*api.Summary, error) {
	s := new(api.Summary)
	return s, r.call(ctx, http.MethodGet, clusterPath(k)+"/summary", nil, s)
}

func (a app) showSummaries(all []api.Summary, now time.Time) {
	if len(all) == 0 {
		a.print("there are no clusters; `convoke create FILE` makes one\n")
	}
	for i := range all {
		if i > 0 {
			a.print("\n")
		}
		a.showSummary(&all[i], now)
	}
}

func (a app) showSummary(s *api.Summary, now time.Time) {
	p := painted(a.out)
	k, err := cluster.ParseKey(s.Name)
	if err != nil {
		k.ID = s.Name
	}
	a.print("%s  %s  in %s of %s, made %s ago\n", p.bold(k.ID), p.word(string(s.Phase)), k.Location, k.Project, age(now.Sub(s.Created)))
	if s.Problem != nil {
		a.print("  %s\n", p.red(s.Problem.Error()))
	}
	for _, c := range s.Conditions {
		if c.Status != "True" {
			a.print("  %s: %s%s\n", c.Type, p.word(c.Status), prefixed(", ", c.Message))
		}
	}
	for i := range s.Resources {
		res := &s.Resources[i]
		a.print("  %s %s: %s for %s", res.Kind, res.Name, p.word(string(res.Phase)), age(now.Sub(res.Since)))
		if res.Problem != nil {
			a.print(": %s", res.Problem.Error())
		}
		a.print("\n")
	}
	a.print("\n")
	a.showPools(s, now)
	a.showAllocations(s, now)
	a.showJobs(s, now)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func (a app) showPools(s *api.Summary, now time.Time) {
	p := painted(a.out)
	t := table{paint: p, head: []string{"POOL", "MACHINES", "WANTED", "NODES"}}
	for i := range s.Pools {
		pool := &s.Pools[i]
		wanted := fmt.Sprintf("%d to %d", pool.MinNodeCount, pool.MaxNodeCount)
		if pool.MinNodeCount == pool.MaxNodeCount {
			wanted = strconv.Itoa(pool.MinNodeCount)
		}
		lines := poolLines(p, pool, now)
		t.add(p.bold(pool.ID), pool.MachineType+" "+string(pool.ProvisioningModel), wanted, lines[0])
		for _, l := range lines[1:] {
			t.add("", "", "", l)
		}
	}
	t.write(a.out)
}

// poolLines say how a pool's nodes are.
func poolLines(p paint, pool *api.PoolSummary, now time.Time) []string {
	var lines []string
	for _, g := range pool.Nodes {
		line := p.word(string(g.Phase)) + " " + g.Nodes
		if g.Phase != cluster.Ready {
			line += " for " + age(now.Sub(g.Since))
		}
		if !g.LeaseEnd.IsZero() {
			line += ", lease ends in " + age(g.LeaseEnd.Sub(now))
		}
		lines = append(lines, line+prefixed(": ", g.Reason))
	}
	if b := pool.Breaker; b.State != cluster.BreakerClosed {
		line := p.red("breaker " + string(b.State))
		if !b.Until.IsZero() {
			line += ", next attempt in " + age(b.Until.Sub(now))
		}
		if b.Problem != nil {
			line += ": " + b.Problem.Error()
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return []string{p.dim("none")}
	}
	return lines
}

func (a app) showAllocations(s *api.Summary, now time.Time) {
	p := painted(a.out)
	t := table{paint: p, head: []string{"ALLOCATION", "NODES", "FOR", "SINCE", "STATE"}}
	for i := range s.Pools {
		pool := &s.Pools[i]
		for j := range pool.Allocations {
			al := &pool.Allocations[j]
			whom := "static nodes"
			if al.Job != 0 {
				whom = fmt.Sprint("job ", al.Job)
			}
			if pool.Login {
				whom = "login"
			}
			state := p.word(string(al.Phase))
			if al.Request != "" && al.Phase != cluster.Granted {
				state += " (" + al.Request + ")"
			}
			why := al.Retired
			if al.Problem != nil {
				why = al.Problem.Error()
			}
			t.add(al.Name, indices(al.Nodes), whom, age(now.Sub(al.Since)), state+prefixed(": ", why))
		}
	}
	if len(t.rows) > 0 {
		a.print("\n")
		t.write(a.out)
	}
}

// indices are numbers as a hostlist writes them.
func indices(numbers []int) string {
	names := make([]string, len(numbers))
	for i, n := range numbers {
		names[i] = "-" + strconv.Itoa(n)
	}
	return strings.TrimPrefix(slurm.CompressHostlist(names), "-")
}

func (a app) showJobs(s *api.Summary, now time.Time) {
	p := painted(a.out)
	t := table{paint: p, head: []string{"JOB", "NAME", "USER", "PARTITION", "STATE", "TIME", "NODES OR REASON"}}
	for _, j := range s.Jobs {
		since := j.Submitted
		if !j.Started.IsZero() {
			since = j.Started
		}
		t.add(p.bold(strconv.FormatInt(j.ID, 10)), j.Name, j.User, j.Partition, p.word(j.State), age(now.Sub(since)), cmp.Or(j.Nodes, j.Reason))
	}
	if len(t.rows) > 0 {
		a.print("\n")
		t.write(a.out)
	}
}
