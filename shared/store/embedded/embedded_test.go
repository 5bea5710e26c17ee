package embedded_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
	"github.com/convoke-hpc/convoke/shared/store/embedded"
	"github.com/convoke-hpc/convoke/shared/store/storetest"
)

var key = cluster.Key{Project: "example", Location: "us-central1", ID: "c1"}

func open(t *testing.T, dir string, opts embedded.Options) *embedded.Store {
	t.Helper()
	s, err := embedded.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestASecondOpenerIsToldWhichFileIsLocked(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, embedded.Options{})
	_, err := embedded.Open(dir, embedded.Options{LockTimeout: time.Millisecond})
	if err == nil {
		t.Fatal("a second opener was let in")
	}
	for _, want := range []string{filepath.Join(dir, "convoke.db"), "locked", "another process"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestAFileThatIsNoStoreIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "convoke.db"), []byte(strings.Repeat("not a database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := embedded.Open(dir, embedded.Options{})
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "convoke.db")) {
		t.Errorf("Open() = %v, want an error that names the file", err)
	}
}

// Inside a bubble a call may wait for others, but nothing may stay behind that keeps time from moving on.
func TestItWorksInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), embedded.Options{NoSync: true})
		var posters sync.WaitGroup
		for i := range 20 {
			posters.Go(func() {
				time.Sleep(time.Duration(i%3) * time.Hour)
				e := store.Event{ID: fmt.Sprint(i), Received: time.Now()}
				if err := s.Post(t.Context(), key, e); err != nil {
					t.Error(err)
				}
			})
		}
		posters.Wait()
		events, err := s.Inbox(t.Context(), key, 0)
		if err != nil || len(events) != 20 {
			t.Fatalf("%d events, %v", len(events), err)
		}
		if got := events[19].Received.Sub(events[0].Received); got != 2*time.Hour {
			t.Errorf("the last event came %s after the first, want 2h", got)
		}
	})
}

// TestKilledWriter kills a process that posts and commits, again and again, and looks for everything that it said was
// done.
func TestKilledWriter(t *testing.T) {
	if dir := os.Getenv("CONVOKE_TEST_WRITER"); dir != "" {
		writeUntilKilled(t, dir)
		return
	}
	if testing.Short() {
		t.Skip("starts and kills processes")
	}
	dir := t.TempDir()
	for round := range 4 {
		said := killAfter(t, dir, 100+50*round)
		checkSaid(t, dir, said)
	}
}

// writeUntilKilled posts events, and consumes every other one with a timeline entry of its name.
func writeUntilKilled(t *testing.T, dir string) {
	s := open(t, dir, embedded.Options{})
	now := time.Now()
	lease, err := s.Lease(t.Context(), key, fmt.Sprint(os.Getpid()), now, now, true) // it has run out when the next writer comes
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		id := fmt.Sprintf("%d-%d", lease.Epoch, i)
		if err := s.Post(t.Context(), key, store.Event{ID: id, Received: now}); err != nil {
			t.Fatal(err)
		}
		fmt.Println("posted", id)
		if i%2 == 0 {
			continue
		}
		change := store.Change{Consume: []string{id}, Timeline: []cluster.Entry{{Text: id}}, Now: now}
		if err := s.Commit(t.Context(), lease, change); err != nil {
			t.Fatal(err)
		}
		fmt.Println("consumed", id)
	}
}

// killAfter starts a writer, kills it when it has said so many lines, and returns them.
func killAfter(t *testing.T, dir string, lines int) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$")
	cmd.Env = append(os.Environ(), "CONVOKE_TEST_WRITER="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for in := bufio.NewScanner(out); in.Scan(); {
		said = append(said, in.Text())
		if len(said) == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	if len(said) < lines {
		t.Fatalf("the writer said only %q", said)
	}
	return said
}

func checkSaid(t *testing.T, dir string, said []string) {
	t.Helper()
	s, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	waiting, happened := map[string]bool{}, map[string]bool{}
	events, err := s.Inbox(context.Background(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		waiting[e.ID] = true
	}
	entries, err := s.Timeline(context.Background(), key, "", 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		happened[e.Text] = true
	}
	for _, line := range said {
		what, id, _ := strings.Cut(line, " ")
		switch what {
		case "posted":
			if waiting[id] == happened[id] {
				t.Errorf("%s: in the inbox %v, on the timeline %v, want one of them", id, waiting[id], happened[id])
			}
		case "consumed":
			if waiting[id] || !happened[id] {
				t.Errorf("%s was consumed: in the inbox %v, on the timeline %v", id, waiting[id], happened[id])
			}
		}
	}
}

// overLine opens a store whose writes go over a line.
func overLine(sync bool) storetest.Open {
	return func(t testing.TB, line *storetest.Line) store.Store {
		s, err := embedded.Open(t.TempDir(), embedded.Options{NoSync: !sync, Fault: func(at embedded.Stage) error {
			if at == embedded.BeforeWrite {
				return line.Before()
			}
			return line.After()
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
}

func TestContract(t *testing.T) { storetest.Run(t, overLine(false)) }

func BenchmarkStore(b *testing.B) { storetest.Bench(b, overLine(true)) }
