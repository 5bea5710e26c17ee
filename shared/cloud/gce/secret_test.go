package gce

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

// counting is a source of bytes that a test can foresee.
type counting struct{ n byte }

func (c *counting) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = c.n
		c.n++
	}
	return len(p), nil
}

func (w *world) secretValue(name, version string) []byte {
	w.t.Helper()
	var got struct{ Payload struct{ Data []byte } }
	if err := json.Unmarshal(w.call("GET", "/v1/projects/my-project/secrets/"+name+"/versions/"+version+":access", ""), &got); err != nil {
		w.t.Fatal(err)
	}
	return got.Payload.Data
}

func TestSecret(t *testing.T) {
	const adds = "secretmanager.versions.add"
	intent := cluster.EnsureSecret{Ref: ref(cluster.KindSecret, "c1-munge"), Bytes: 16, Labels: testOwner.Labels(), ID: id("x")}
	inVirtualTime(t, gcp.Options{}, Options{Random: &counting{}, Limits: Limits{Attempts: 1}}, func(t *testing.T, w *world) {
		// It crashes after the first of the two calls: the next one adds what is missing.
		w.sim.FailNext(adds, 1, 503)
		w.refused(intent, cluster.Unknown, "did not take a version")
		w.must(intent)
		want := []byte{16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31} // the second 16 that were drawn
		if got := w.secretValue("c1-munge", "latest"); !bytes.Equal(got, want) {
			t.Errorf("the secret is %v, want %v", got, want)
		}
		// What is there stays, however often it is asked for.
		w.must(intent)
		if n := w.sim.Count(adds); n != 2 {
			t.Errorf("versions were added by %d calls, want one that failed and one that did not", n)
		}
		// A version that a person has disabled is replaced.
		w.call("POST", "/v1/projects/my-project/secrets/c1-munge/versions/1:disable", "{}")
		w.must(intent)
		w.must(intent)
		if n := w.sim.Count(adds); n != 3 {
			t.Errorf("versions were added by %d calls, want one more", n)
		}
		// It is made and gone at once, and labels are its owner's mark.
		w.must(cluster.Remove{Ref: intent.Ref, Owner: testOwner, ID: id("y")})
		w.must(cluster.Remove{Ref: intent.Ref, ID: id("y")})
	})
}

// The value gets into no log, no error and no outcome, even if the service quotes it.
func TestTheSecretStaysSecret(t *testing.T) {
	value := make([]byte, 24)
	for i := range value {
		value[i] = byte(i) // as counting draws them
	}
	quoted := base64.StdEncoding.EncodeToString(value)
	// This makes the official clients write what they send to standard error, unless they are told not to.
	t.Setenv("GOOGLE_SDK_GO_LOGGING_LEVEL", "debug")
	written, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer func(was *os.File) { os.Stderr = was }(os.Stderr)
	os.Stderr = written
	secret := `{"name":"projects/1/secrets/s","labels":{"convoke-cluster":"c1","convoke-uid":"u1"}}`
	for _, bad := range []string{
		refusal("invalid", "Invalid payload: "+quoted),
		newer("INVALID_ARGUMENT", "", "Invalid payload: "+string(value)),
		newer("INTERNAL", "", "Failed on "+quoted),
	} {
		cloud := &answers{t: t, list: []func(*http.Request) (*http.Response, error){
			answer(200, secret), answer(200, `{}`), answer(500, bad),
		}}
		var log bytes.Buffer
		c, err := New(t.Context(), Options{
			Project: "my-project", Endpoint: "http://cloud.test", HTTPClient: &http.Client{Transport: cloud}, Random: &counting{},
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		if err != nil {
			t.Fatal(err)
		}
		got := c.Do(t.Context(), cluster.EnsureSecret{Ref: ref(cluster.KindSecret, "s"), Bytes: 24, Labels: testOwner.Labels(), ID: id("x")})
		if got.Problem == nil || len(cloud.got) < 3 {
			t.Fatalf("after %d calls: %+v", len(cloud.got), got)
		}
		said, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		stderr, err := os.ReadFile(written.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{string(said), got.Problem.Error(), log.String(), string(stderr)} {
			if strings.Contains(text, quoted) || strings.Contains(text, string(value)) {
				t.Errorf("the secret is in %q", text)
			}
		}
	}
	// A refusal that came before anybody looked at the value keeps its words, since a person needs them.
	cloud := &answers{t: t, list: []func(*http.Request) (*http.Response, error){
		answer(200, secret), answer(200, `{}`), answer(403, newer("PERMISSION_DENIED", "IAM_PERMISSION_DENIED", "Permission 'secretmanager.versions.add' denied on resource 'projects/my-project/secrets/s'")),
	}}
	got := cloud.client(Limits{}).Do(t.Context(), cluster.EnsureSecret{Ref: ref(cluster.KindSecret, "s"), Bytes: 24, Labels: testOwner.Labels(), ID: id("x")})
	if got.Problem == nil || got.Problem.Class != cluster.Permission || !strings.Contains(got.Problem.Remedy, "roles/secretmanager.admin in project my-project (secretmanager.versions.add is missing)") {
		t.Errorf("got %v", got.Problem)
	}
}
