// Command convoke is the tool for people: it checks cluster specs and talks to the clusters. Each command is a file of
// its own with a method of app that returns it, listed in commands.
//
// What lives here: reading flags and files, calling the packages that know, and showing what they say. What may not:
// rules and decisions, which people's other tools would then not have.
//
// It ends with 0 when all went well, 1 when something failed, 2 when its input or its use was wrong, and 3 when what it was
// to look at is not there.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK       = 0
	exitFailure  = 1
	exitBadInput = 2
	exitNotFound = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	code := app{in: os.Stdin, out: os.Stdout, err: os.Stderr}.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// app is what the commands share: where they read and write.
type app struct {
	in       io.Reader
	out, err io.Writer
}

// commands are all there are.
func (a app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.validate(), a.schema(), a.local(), a.demo(),
		a.create(), a.delete(), a.reportFault(), a.clusters(), a.status(), a.timeline(), a.operation(),
		a.job(), a.sim(),
	}
}

// badInput is an error of whoever called: exit code 2. One that was shown already has no error within.
type badInput struct{ error }

func (b badInput) Unwrap() error { return b.error }

// notFound is the lack of what was asked about: exit code 3.
type notFound struct{ error }

func (n notFound) Unwrap() error { return n.error }

func (a app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(append([]string{}, args...)) // nil would mean the arguments of this process
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	bad, isBad := errors.AsType[badInput](err)
	if !isBad || bad.error != nil {
		_, _ = fmt.Fprintln(a.err, "convoke:", err)
	}
	if isBad {
		return exitBadInput
	}
	if _, missing := errors.AsType[notFound](err); missing {
		return exitNotFound
	}
	return exitFailure
}

func (a app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "convoke",
		Short: "Training clusters of your own on Google Cloud",
		Long: `Convoke keeps Slurm clusters on Google Cloud as their specs describe them.

"convoke local" runs a whole deployment on this machine, with a simulated Google Cloud and Slurm; "convoke demo" shows in a
minute what it does. The other commands talk to a running deployment, the one on this machine unless --server names another.

Exit codes: 0 all went well, 1 something failed, 2 the input or the command line was wrong, 3 there is no such cluster,
operation or job.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          known,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misused(cmd, err) })
	root.AddCommand(a.commands()...)
	return root
}

// misused is an error in how a command was called, with the way to its help.
func misused(cmd *cobra.Command, err error) error {
	return badInput{fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())}
}

// known refuses what is no command, and says which one was probably meant.
func known(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("there is no command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w, did you mean %s?", err, strings.Join(near, " or "))
	}
	return misused(cmd, err)
}

// arguments makes a wrong number of arguments a misuse.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return misused(cmd, err)
		}
		return nil
	}
}
