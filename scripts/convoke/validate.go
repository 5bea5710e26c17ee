package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/spec"
)

// validate checks cluster specs.
func (a app) validate() *cobra.Command {
	var key cluster.Key
	var output string
	cmd := &cobra.Command{
		Use:   "validate FILE…",
		Short: "Check cluster specs",
		Long: `Validate reads cluster specs and says for each whether a cluster could be created from it, or everything that is
wrong with it, one fault a line:

  FILE:LINE:COLUMN: PATH: what is wrong; allowed: what would be right

It asks nothing of Google Cloud: whether the network, the storage and the reservations exist is found out at creation.
A project and a location that neither the spec nor a flag gives are taken from its home directory and its zones.

Exit codes: 0 all specs are good, 1 a file could not be read, 2 a spec has faults or the command line is wrong.`,
		Example: `  convoke validate cluster.json
  convoke validate examples/*.json
  jq .spec request.json | convoke validate -
  convoke validate --project my-project --location us-central1 --id c1 cluster.json
  convoke validate --output json cluster.json | jq '.[].faults'`,
		RunE: func(cmd *cobra.Command, files []string) error {
			switch {
			case len(files) == 0:
				return misused(cmd, errors.New("there is no file to check, want its name or -"))
			case output != "text" && output != "json":
				return misused(cmd, fmt.Errorf("--output is %q, want text or json", output))
			case key.ID != "" && len(files) > 1:
				return misused(cmd, fmt.Errorf("--id names one cluster, and there are %d files", len(files)))
			}
			return a.validateFiles(files, spec.Options{Key: key, Guess: true}, output)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&key.Project, "project", "", "project of the cluster, if the spec does not say it")
	flags.StringVar(&key.Location, "location", "", "region of the cluster, if the spec does not say it")
	flags.StringVar(&key.ID, "id", "", "id of the cluster, if the spec does not say it")
	flags.StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// verdict is what is said of one file.
type verdict struct {
	File  string `json:"file"`
	Valid bool   `json:"valid"`
	// Name is the cluster's full name.
	Name   string      `json:"name,omitempty"`
	Faults spec.Faults `json:"faults,omitempty"`
	// Error is why the file could not be read.
	Error string `json:"error,omitempty"`
}

func (a app) validateFiles(files []string, o spec.Options, output string) error {
	verdicts := make([]verdict, len(files))
	unread, faulty := 0, 0
	for i, file := range files {
		v := a.judge(file, o)
		switch {
		case v.Error != "":
			unread++
		case !v.Valid:
			faulty++
		}
		if output == "text" {
			if err := a.tell(v); err != nil {
				return err
			}
		}
		verdicts[i] = v
	}
	if output == "json" {
		e := json.NewEncoder(a.out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(verdicts); err != nil {
			return fmt.Errorf("writing the verdicts, %w", err)
		}
	}
	switch {
	case faulty > 0:
		return badInput{} // the faults have been shown
	case unread > 0:
		return fmt.Errorf("%d of %d files could not be read", unread, len(files))
	}
	return nil
}

func (a app) judge(file string, o spec.Options) verdict {
	data, err := a.read(file)
	if file == "-" {
		file = "<stdin>"
	}
	if err != nil {
		return verdict{File: file, Error: err.Error()}
	}
	s, faults := spec.Parse(data, o)
	if len(faults) > 0 {
		return verdict{File: file, Faults: faults}
	}
	return verdict{File: file, Valid: true, Name: s.Name}
}

// read reads a file, or standard input for "-"; of one that is too long as much as shows it.
func (a app) read(file string) ([]byte, error) {
	in := a.in
	if file != "-" {
		f, err := os.Open(file) //nolint:gosec // the file that the person named
		if err != nil {
			return nil, fmt.Errorf("reading the spec, %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, spec.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading the spec, %w", err)
	}
	return data, nil
}

func (a app) tell(v verdict) error {
	if v.Error != "" {
		_, err := fmt.Fprintf(a.err, "%s: %s\n", v.File, v.Error)
		return err
	}
	if v.Valid {
		_, err := fmt.Fprintf(a.out, "%s: ok, %s\n", v.File, v.Name)
		return err
	}
	for _, f := range v.Faults {
		place := v.File
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d:%d", v.File, f.Line, f.Column)
		}
		if _, err := fmt.Fprintf(a.out, "%s: %s\n", place, f); err != nil {
			return err
		}
	}
	return nil
}
