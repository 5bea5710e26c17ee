package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	broker "github.com/convoke-hpc/convoke/shared/sim/pubsub"
)

// TestMain makes the test's own program serve the functions when it is told to, so that the real one is tested.
func TestMain(m *testing.M) {
	if os.Getenv("CONVOKE_TEST_SERVE") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is the functions in a process of their own.
type program struct {
	cmd  *exec.Cmd
	log  lockedBuffer
	url  string
	done chan error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start starts the program and waits until it answers. Between the choice of a port and its use another process may take it; then
// another one is tried.
func start(t *testing.T, env ...string) *program {
	t.Helper()
	for range 5 {
		if p := tryStart(t, env...); p != nil {
			return p
		}
	}
	t.Fatal("the program never answered")
	return nil
}

func tryStart(t *testing.T, env ...string) *program {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	p := &program{cmd: exec.Command(os.Args[0]), url: "http://127.0.0.1:" + port, done: make(chan error, 1)}
	p.cmd.Env = append([]string{"CONVOKE_TEST_SERVE=1", "PORT=" + port, "CONVOKE_LOG=json"}, env...)
	p.cmd.Stderr = &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	for {
		select {
		case err := <-p.done:
			if strings.Contains(p.log.String(), "address already in use") {
				return nil
			}
			t.Fatalf("the program ended, %v: %s", err, p.log.String())
		case <-time.After(20 * time.Millisecond):
		}
		if answer, err := http.Get(p.url + "/no-such-path"); err == nil {
			_ = answer.Body.Close()
			return p
		}
	}
}

// end asks the program to end, as Cloud Run does, and gives its exit status.
func (p *program) end(t *testing.T) int {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.done:
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			return failed.ExitCode()
		}
		return 0
	case <-time.After(time.Minute):
		t.Fatalf("the program does not end: %s", p.log.String())
		return -1
	}
}

func (p *program) get(t *testing.T, path string) (int, string) {
	t.Helper()
	answer, err := http.Get(p.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func environment(t *testing.T) []string {
	t.Helper()
	b, err := broker.New(broker.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return []string{
		"CONVOKE_PROJECT=my-project", "CONVOKE_LOCATION=us-central1", "CONVOKE_STORE=embedded:" + t.TempDir(),
		"CONVOKE_COMPUTE_ENDPOINT=http://127.0.0.1:1", "PUBSUB_EMULATOR_HOST=" + b.Addr(),
	}
}

// TestAllFunctions: each at its name, those with paths of their own also below it.
func TestAllFunctions(t *testing.T) {
	p := start(t, environment(t)...)
	for path, want := range map[string]int{
		"/console/": 200, "/console": 200, "/console/clusters/none": 404,
		"/api/v1beta1/projects/my-project/locations/us-central1/modelDevelopmentClusters": 200, "/api/x": 404,
		"/clusters": 405, "/resize": 405, "/preemption": 405, "/hardware": 405, "/reconcile": 405,
	} {
		if code, body := p.get(t, path); code != want {
			t.Errorf("%s answers %d: %s", path, code, body)
		}
	}
	answer, err := http.Post(p.url+"/reconcile", "text/plain", strings.NewReader("tick"))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		t.Errorf("a tick: %d, %s", answer.StatusCode, p.log.String())
	}
	if code := p.end(t); code != 0 {
		t.Errorf("exit %d: %s", code, p.log.String())
	}
}

// TestOneFunction is at the root, alone, and lets a request in flight come to its end.
func TestOneFunction(t *testing.T) {
	p := start(t, append(environment(t), "FUNCTION_TARGET=clusters")...)
	// A request whose body has not ended is in flight for as long as we like.
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const body = `{"displayName":"My Cluster"}`
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: f\r\nX-Goog-Pubsub-Message-Id: 1\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	answers := bufio.NewReader(conn)
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q, %v: the function does not read the body", line, err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(p.log.String(), `"message":"ending"`) {
		time.Sleep(5 * time.Millisecond)
	}
	fmt.Fprint(conn, body)
	answer, err := io.ReadAll(answers)
	if err != nil || !bytes.Contains(answer, []byte("HTTP/1.1 204")) {
		t.Errorf("the request in flight was answered %q, %v", answer, err)
	}
	if err := <-p.done; err != nil {
		t.Errorf("%v: %s", err, p.log.String())
	}
}

func TestBadEnvironment(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"CONVOKE_TEST_SERVE=1", "CONVOKE_LOG=json", "FUNCTION_TARGET=no%s"}
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if !errors.As(err, &failed) || failed.ExitCode() != 1 || !strings.Contains(string(out), `no function \"no%s\"`) || !strings.Contains(string(out), "CONVOKE_PROJECT: is not set") {
		t.Errorf("%v: %s", err, out)
	}
	cmd = exec.Command(os.Args[0])
	cmd.Env = []string{"CONVOKE_TEST_SERVE=1", "CONVOKE_LOG=xml", "CONVOKE_LOG_LEVEL=loud"}
	out, err = cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "CONVOKE_LOG: ") || !strings.Contains(string(out), "CONVOKE_LOG_LEVEL: ") {
		t.Errorf("%v: %s", err, out)
	}
}
