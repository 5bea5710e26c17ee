package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write the golden files anew")

// called is a call of the command in this process, and what a person sees of it.
func called(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = app{in: strings.NewReader(stdin), out: &out, err: &errs}.run(t.Context(), args)
	return code, out.String(), errs.String()
}

// TestGolden calls the command and compares all that it says: its exit code, standard output and standard error.
func TestGolden(t *testing.T) {
	base, err := os.ReadFile("testdata/good.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		stdin string
		args  []string
	}{
		"help-validate":      {"", []string{"help", "validate"}},
		"help-schema":        {"", []string{"schema", "--help"}},
		"unknown-command":    {"", []string{"validat"}},
		"unknown-flag":       {"", []string{"validate", "--strict", "x"}},
		"no-files":           {"", []string{"validate"}},
		"good":               {"", []string{"validate", "testdata/good.json", "../../examples/flexvm.json", "../../examples/preemption.json"}},
		"good-json":          {"", []string{"validate", "-o", "json", "testdata/good.json"}},
		"faults":             {"", []string{"validate", "testdata/faults.json", "testdata/good.json"}},
		"faults-json":        {"", []string{"validate", "--output", "json", "testdata/faults.json"}},
		"syntax":             {`{"name": }`, []string{"validate", "-"}},
		"stdin":              {string(base), []string{"validate", "-"}},
		"flags":              {string(base), []string{"validate", "-", "--project", "other-project", "--location", "us-east1", "--id", "c9"}},
		"flags-illegal":      {string(base), []string{"validate", "-", "--id", "C9"}},
		"id-and-many-files":  {"", []string{"validate", "a", "b", "--id", "c9"}},
		"unknown-output":     {"", []string{"validate", "a", "-o", "yaml"}},
		"missing":            {"", []string{"validate", "testdata/missing.json", "testdata/good.json"}},
		"missing-json":       {"", []string{"validate", "-o", "json", "testdata/missing.json"}},
		"schema-arguments":   {"", []string{"schema", "x"}},
		"help-local":         {"", []string{"help", "local"}},
		"help-demo":          {"", []string{"help", "demo"}},
		"help-create":        {"", []string{"help", "create"}},
		"help-delete":        {"", []string{"help", "delete"}},
		"help-report-fault":  {"", []string{"help", "report-fault"}},
		"help-clusters":      {"", []string{"help", "clusters"}},
		"help-status":        {"", []string{"help", "status"}},
		"help-timeline":      {"", []string{"help", "timeline"}},
		"help-operation":     {"", []string{"help", "operation"}},
		"help-job":           {"", []string{"help", "job"}},
		"help-job-submit":    {"", []string{"help", "job", "submit"}},
		"help-job-list":      {"", []string{"help", "job", "list"}},
		"help-job-cancel":    {"", []string{"help", "job", "cancel"}},
		"help-sim":           {"", []string{"help", "sim"}},
		"help-sim-end-lease": {"", []string{"help", "sim", "end-lease"}},
		"help-sim-capacity":  {"", []string{"help", "sim", "capacity"}},
		"help-sim-leftovers": {"", []string{"help", "sim", "leftovers"}},
		"help-sim-machines":  {"", []string{"help", "sim", "machines"}},
		"local-pace":         {"", []string{"local", "--pace", "slow"}},
		"local-level":        {"", []string{"local", "--log-level", "loud"}},
		"timeline-limit":     {"", []string{"timeline", "c1", "--limit", "0"}},
		"timeline-json":      {"", []string{"timeline", "c1", "--follow", "-o", "json"}},
		"status-json":        {"", []string{"status", "--watch", "-o", "json"}},
		"no-cluster-id":      {"", []string{"status", "C1"}},
		"no-node":            {"", []string{"report-fault", "controller"}},
		"no-host":            {"", []string{"report-fault", "c1-a3u-0", "--description", "hot"}},
		"no-job":             {"", []string{"job", "cancel", "c1", "first"}},
		"job-unknown":        {"", []string{"job", "submitt"}},
		"create-faults":      {"", []string{"create", "testdata/faults.json"}},
		"create-missing":     {"", []string{"create", "testdata/missing.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := called(t, c.stdin, c.args...)
			got := "$ convoke " + strings.Join(c.args, " ") + "\n" + stdout + "--- stderr\n" + stderr + "--- exit code " + string(rune('0'+code)) + "\n"
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestWithoutArgumentsTheCommandsAreListed(t *testing.T) {
	code, stdout, stderr := called(t, "")
	if code != exitOK || stderr != "" {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	for _, c := range (app{}).commands() {
		if !strings.Contains(stdout, c.Short) {
			t.Errorf("%s is not listed in\n%s", c.Name(), stdout)
		}
	}
}

func TestSchemaIsPrinted(t *testing.T) {
	code, stdout, stderr := called(t, "", "schema")
	var schema struct {
		Schema string `json:"$schema"`
	}
	if err := json.Unmarshal([]byte(stdout), &schema); err != nil || code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, %v, %s", code, err, stderr)
	}
	if schema.Schema != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("$schema is %q", schema.Schema)
	}
}

func TestALongFileIsNotReadToItsEnd(t *testing.T) {
	code, stdout, _ := called(t, strings.Repeat(" ", 1<<20), "validate", "-")
	if want := "<stdin>:1:1: the text has 524289 bytes; allowed: at most 524288\n"; code != exitBadInput || stdout != want {
		t.Errorf("exit code %d, got %q, want %q", code, stdout, want)
	}
}

// Every command tells a person what it does and shows how it is used.
func TestCommandsAreDocumented(t *testing.T) {
	var check func(commands []*cobra.Command)
	check = func(commands []*cobra.Command) {
		for _, c := range commands {
			if c.Short == "" || c.Long == "" || c.Example == "" {
				t.Errorf("%s lacks a description or an example", c.CommandPath())
			}
			check(c.Commands())
		}
	}
	check(app{}.commands())
}
