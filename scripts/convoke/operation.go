package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// longRunning is what commands read of an operation.
type longRunning struct {
	Name     string `json:"name"`
	Done     bool   `json:"done,omitempty"`
	Metadata struct {
		Type    string `json:"@type"`
		Generic struct {
			Create time.Time `json:"createTime"`
			Update time.Time `json:"updateTime"`
		} `json:"genericMetadata"`
		Progress string `json:"progressMessage,omitempty"`
	} `json:"metadata"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Details []struct {
			Violations []struct {
				Field       string `json:"field"`
				Description string `json:"description"`
			} `json:"fieldViolations"`
		} `json:"details,omitempty"`
	} `json:"error,omitempty"`
}

func (o *longRunning) id() string { return o.Name[strings.LastIndexByte(o.Name, '/')+1:] }

// verb is what the operation does: create, update, delete, reportFaultyNodes.
func (o *longRunning) verb() string {
	word, _, _ := strings.Cut(o.Metadata.Type[strings.LastIndexByte(o.Metadata.Type, '.')+1:], "ModelDevelopment")
	word, _, _ = strings.Cut(word, "OperationMetadata")
	if word == "" {
		return "operation"
	}
	return strings.ToLower(word[:1]) + word[1:]
}

// failure is why the operation failed; nil when it did not.
func (o *longRunning) failure() error {
	if o.Error == nil {
		return nil
	}
	r := &refusal{message: fmt.Sprintf("%s failed: %s", o.verb(), o.Error.Message)}
	for _, d := range o.Error.Details {
		for _, v := range d.Violations {
			r.details = append(r.details, strings.TrimPrefix(v.Field+": "+v.Description, ": "))
		}
	}
	return r
}

// operation shows an operation.
func (a app) operation() *cobra.Command {
	var r remote
	var output string
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "operation ID",
		Short: "Show what became of a request",
		Long: `Operation shows whether a request (create, update, delete, report-fault) is still being worked on, has been carried out or has
failed, and why. The ID is what those commands print, or the operation's full name.

Exit codes: 0 it is being worked on or has been carried out (with --wait: has been carried out), 1 it failed or did not end in
time, 2 the command line is wrong, 3 there is no such operation.`,
		Example: `  convoke operation 0b8f2a7c-1f0e-4c55-9f3a-2d6f3c0c9a11
  convoke operation --wait --timeout 20m "$(convoke create --quiet cluster.json)"
  convoke operation --output json ID | jq .error`,
		Args: arguments(cobra.ExactArgs(1)),
	}
	r.flags(cmd.Flags())
	check := outputFlag(cmd, &output)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it has ended")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Hour, "how long to wait")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := check(); err != nil {
			return err
		}
		name, err := r.operationName(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		op, err := r.operation(cmd.Context(), name)
		if err == nil && wait && !op.Done {
			op, err = a.await(cmd.Context(), &r, name, timeout)
		}
		if err != nil {
			return err
		}
		if output == "json" {
			if err := a.json(op); err != nil {
				return err
			}
		} else {
			a.showOperation(op, time.Now())
		}
		return op.failure()
	}
	return cmd
}

// operationName is the full name of an operation.
func (r *remote) operationName(ctx context.Context, id string) (string, error) {
	if parts := strings.Split(id, "/"); len(parts) == 6 && parts[0] == "projects" && parts[2] == "locations" && parts[4] == "operations" {
		return id, nil
	}
	if strings.Contains(id, "/") {
		return "", badInput{fmt.Errorf("%q is not the name of an operation: projects/P/locations/L/operations/ID", id)}
	}
	project, location, err := r.home(ctx)
	if err != nil {
		return "", err
	}
	if location == "" {
		return "", badInput{fmt.Errorf("in which location is operation %s? Give its full name, --location or %s", id, envLocation)}
	}
	return "projects/" + project + "/locations/" + location + "/operations/" + id, nil
}

func (r *remote) operation(ctx context.Context, name string) (*longRunning, error) {
	op := new(longRunning)
	return op, r.call(ctx, http.MethodGet, "/v1beta1/"+name, nil, op)
}

// pollEvery is how often a command that waits looks.
const pollEvery = 300 * time.Millisecond

// pause waits until the next look; it fails when the context ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// await waits until an operation has ended.
func (a app) await(ctx context.Context, r *remote, name string, timeout time.Duration) (*longRunning, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		op, err := r.operation(ctx, name)
		if err != nil || op.Done {
			return op, err
		}
		if err := pause(ctx, pollEvery); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				err = fmt.Errorf("%s is still being worked on after %s (%s)", op.verb(), timeout, cmp.Or(op.Metadata.Progress, "no word of its progress"))
			}
			return nil, err
		}
	}
}

func (a app) showOperation(op *longRunning, now time.Time) {
	p := painted(a.out)
	state := p.yellow("in progress")
	took := now.Sub(op.Metadata.Generic.Create)
	switch {
	case op.Error != nil:
		state = p.red("failed")
	case op.Done:
		state = p.green("done")
	}
	if op.Done {
		took = op.Metadata.Generic.Update.Sub(op.Metadata.Generic.Create)
	}
	a.print("%s %s, %s: %s\n", op.verb(), state, age(took), cmp.Or(op.Metadata.Progress, "no word of its progress"))
}

// accepted says what becomes of a request, and waits for it if that is wanted.
func (a app) accepted(ctx context.Context, r *remote, k cluster.Key, op *longRunning, o waiting) error {
	if o.quiet {
		a.print("%s\n", op.Name)
	} else {
		a.print("%s of %s is accepted: operation %s\n", op.verb(), k.ID, op.id())
	}
	if !o.wait {
		if !o.quiet {
			name := op.Name
			if _, location, err := r.home(ctx); err == nil && location == k.Location {
				name = op.id()
			}
			a.print("  watch it:    convoke timeline %s --follow\n  wait for it: convoke operation %s --wait\n", k.ID, name)
		}
		return nil
	}
	return a.attend(ctx, r, k, op, o)
}
