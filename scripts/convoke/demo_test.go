package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/convoke-hpc/convoke/scripts/convoke/internal/local"
)

// give gives the demonstration at a quick pace, in a temporary folder of its own, and gives what was said and what is left
// of the folder.
func give(t *testing.T, s staging) (said string, left []os.DirEntry, err error) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	var out bytes.Buffer
	err = app{in: strings.NewReader(""), out: &out, err: &out}.runDemo(t.Context(), s)
	left, readErr := os.ReadDir(dir)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return out.String(), left, err
}

func staged(examples string) staging {
	s := staging{examples: examples, pace: local.Quick(), patience: 2 * time.Minute}
	s.pace.Cloud.Queue = time.Second // so that the job is seen to wait
	return s
}

func TestDemo(t *testing.T) {
	t.Setenv(local.EnvPubSub, "127.0.0.1:1") // what a shell may hold is another deployment's
	said, left, err := give(t, staged("../../examples"))
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for _, want := range []string{
		"1. A deployment starts", "waits (", "waits in the queue for capacity", "capacity granted for flexvm-a3u-[0-1]", "job 1 runs on flexvm-a3u-[0-1]",
		"steady-a3u-0 is back after", "left over in the cloud   none", "All as it should be",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if len(left) > 0 {
		t.Errorf("it leaves %v behind", left)
	}
}

// A step that is not as it should be ends the demonstration, which says so and keeps the log.
func TestDemoFails(t *testing.T) {
	broken := t.TempDir()
	impossible := t.TempDir()
	for name, edit := range map[string]*strings.Replacer{
		"flexvm.json": strings.NewReplacer(),
		"static.json": strings.NewReplacer(`"FLEX_START"`, `"FLEX"`),
	} {
		text, err := os.ReadFile(filepath.Join("../../examples", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(broken, name), []byte(edit.Replace(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		unknown := strings.Replace(string(text), `"n2-standard-8"`, `"n2-standard-7"`, 1)
		if err := os.WriteFile(filepath.Join(impossible, name), []byte(unknown), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	never := staged("../../examples")
	never.pace.Machines.Compute, never.patience = time.Hour, 3*time.Second
	cannot := staged(impossible)
	cannot.pace.Policy.BreakerAfter = 1
	for name, c := range map[string]struct {
		staging
		says string
	}{
		"a spec with a fault":        {staged(broken), "part 2 (Two clusters are asked for), the spec has"},
		"machines that nobody makes": {cannot, "is in ERROR: creating instance"},
		"machines that do not boot":  {never, "part 2 (Two clusters are asked for), it is not so after 3s that both clusters are running"},
		"a folder without the specs": {staged(t.TempDir()), "run it in the repository, or give --examples"},
	} {
		t.Run(name, func(t *testing.T) {
			said, left, err := give(t, c.staging)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v\n%s", err, said)
			}
			if begun := strings.Contains(said, "1. A deployment starts"); begun != (len(left) == 1) || begun && !strings.Contains(said, "the log is "+os.Getenv("TMPDIR")) {
				t.Errorf("%v is left\n%s", left, said)
			}
		})
	}
}
