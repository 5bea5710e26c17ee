package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

// mishaps are what can befall a simulated machine: the command's name, the control's, and what it is.
var mishaps = []struct{ name, control, short, long string }{
	{"end-lease", "endLease", "Let the lease of a Flex Start machine be over", "The machine's run time is over now: Compute Engine stops and deletes it."},
	{"fail-host", "failHost", "Break the host under a machine", "The machine is gone at once, with a host error in the audit log; it restarts elsewhere if it may."},
	{"preempt", "preempt", "Preempt a Spot machine", "The machine gets its notice of 30 seconds and is then stopped or deleted."},
	{"power-off", "powerOff", "Shut a machine down from within", "The machine ends as after a shutdown in its operating system."},
	{"vanish", "vanish", "Make a machine disappear without a trace", "The machine is gone, and nothing in the audit log tells of it."},
	{"delete-by-hand", "deleteByHand", "Delete a machine as a person would", "Somebody deletes the machine in the console, without asking its owner."},
}

// sim acts on the simulated cloud.
func (a app) sim() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Let things happen in the simulated cloud",
		Long: `Sim lets things happen to the simulated machines of "convoke local", as they happen to real ones, and shows what there is in the
simulated cloud.`,
		Example: `  convoke sim end-lease steady-a3u-0
  convoke sim capacity us-central1-a a3-ultragpu-8g 0
  convoke sim leftovers`,
		Args: known,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, m := range mishaps {
		cmd.AddCommand(a.mishap(m.name, m.control, m.short, m.long))
	}
	cmd.AddCommand(a.simCapacity(), a.simMachines(), a.simLeftovers())
	return cmd
}

func (a app) mishap(name, control, short, long string) *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: name + " MACHINE", Short: short,
		Long:    long + "\n\nExit codes: 0 done, 1 it cannot happen to that machine, 2 the command line is wrong, 3 there is no such machine.",
		Example: "  convoke sim " + name + " flexvm-a3u-0",
		Args:    arguments(cobra.ExactArgs(1)),
	}
	r.flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := r.machine(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if err := r.call(cmd.Context(), http.MethodPost, "/sim/zones/"+m.Zone+"/instances/"+m.Name+"/"+control, nil, nil); err != nil {
			return err
		}
		a.print("done: %s, %s\n", name, m.Name)
		return nil
	}
	return cmd
}

func (r *remote) cloud(ctx context.Context) (*gcp.Summary, error) {
	if _, err := r.localStatus(ctx); err != nil {
		return nil, err
	}
	sum := new(gcp.Summary)
	return sum, r.call(ctx, http.MethodGet, "/sim/summary", nil, sum)
}

// machine is a simulated machine.
func (r *remote) machine(ctx context.Context, name string) (gcp.InstanceSummary, error) {
	sum, err := r.cloud(ctx)
	if err != nil {
		return gcp.InstanceSummary{}, err
	}
	for _, i := range sum.Instances {
		if i.Name == name {
			return i, nil
		}
	}
	return gcp.InstanceSummary{}, notFound{fmt.Errorf("there is no machine %q; `convoke sim machines` lists them", name)}
}

func (a app) simCapacity() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "capacity ZONE MACHINE_TYPE NUMBER",
		Short: "Say how many machines of a type a zone has",
		Long: `Capacity says how many machines of a type there can be in a zone; "unlimited" is as many as anybody wants. Machines that are
there already stay.

Exit codes: 0 set, 1 it failed, 2 the command line is wrong, or there is no such zone or type.`,
		Example: `  convoke sim capacity us-central1-a a3-ultragpu-8g 0
  convoke sim capacity us-central1-a a3-ultragpu-8g unlimited`,
		Args: arguments(cobra.ExactArgs(3)),
	}
	r.flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		vms, err := strconv.Atoi(args[2])
		if args[2] == "unlimited" {
			vms, err = gcp.Unlimited, nil
		}
		if err != nil || vms < gcp.Unlimited {
			return misused(cmd, fmt.Errorf("%q is neither a number nor unlimited", args[2]))
		}
		if _, err := r.localStatus(cmd.Context()); err != nil {
			return err
		}
		body := map[string]any{"zone": args[0], "machineType": args[1], "vms": vms}
		if err := r.call(cmd.Context(), http.MethodPut, "/sim/capacity", body, nil); err != nil {
			return err
		}
		a.print("%s has %s machines %s\n", args[0], args[2], args[1])
		return nil
	}
	return cmd
}

func (a app) simMachines() *cobra.Command {
	var r remote
	var output string
	cmd := &cobra.Command{
		Use: "machines", Short: "List the simulated machines",
		Long:    "Machines lists every machine of the simulated cloud as Compute Engine would.\n\nExit codes: 0 listed, 1 the deployment did not answer, 2 the command line is wrong.",
		Example: "  convoke sim machines\n  convoke sim machines --output json",
		Args:    arguments(cobra.NoArgs),
	}
	r.flags(cmd.Flags())
	check := outputFlag(cmd, &output)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := check(); err != nil {
			return err
		}
		sum, err := r.cloud(cmd.Context())
		if err != nil {
			return err
		}
		if output == "json" {
			return a.json(append([]gcp.InstanceSummary{}, sum.Instances...))
		}
		if len(sum.Instances) == 0 {
			a.print("there are no machines\n")
			return nil
		}
		p := painted(a.out)
		t := table{paint: p, head: []string{"MACHINE", "TYPE", "ZONE", "STATUS", "ID", "LEASE ENDS IN"}}
		for _, i := range sum.Instances {
			lease := "never"
			if !i.TerminationTime.IsZero() {
				lease = age(i.TerminationTime.Sub(sum.Time))
			}
			t.add(p.bold(i.Name), i.MachineType, i.Zone, p.word(i.Status), strconv.FormatUint(i.ID, 10), lease)
		}
		t.write(a.out)
		return nil
	}
	return cmd
}

func (a app) simLeftovers() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: "leftovers", Short: "List what exists in the simulated cloud",
		Long: `Leftovers lists everything that exists in the simulated cloud but was not there from the start: what ought to be nothing when all
clusters are deleted.

Exit codes: 0 there is nothing, 1 there is something, or the deployment did not answer, 2 the command line is wrong.`,
		Example: `  convoke sim leftovers && echo clean`,
		Args:    arguments(cobra.NoArgs),
	}
	r.flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := r.localStatus(cmd.Context())
		if err != nil {
			return err
		}
		slices.Sort(s.Leftovers)
		for _, l := range s.Leftovers {
			a.print("%s\n", l)
		}
		if n := len(s.Leftovers); n > 0 {
			return fmt.Errorf("%d things exist in the simulated cloud", n)
		}
		a.print("nothing\n")
		return nil
	}
	return cmd
}
