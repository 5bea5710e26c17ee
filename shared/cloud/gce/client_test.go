package gce

import (
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

func TestNewSaysWhatIsWrong(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none.json"))
	for project, want := range map[string]string{"": `"" is not a project id`, "My Project": "not a project id", "my-project": "none.json"} {
		c, err := New(t.Context(), Options{Project: project})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "connecting to Google Cloud") {
			t.Errorf("New for project %q: %v, %v", project, c, err)
		}
	}
}

// Over a socket, with the client's own http.Client, as a program on one machine uses the simulator.
func TestOverASocket(t *testing.T) {
	sim, err := gcp.New(gcp.Options{Logger: discard()})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	server := httptest.NewServer(sim)
	defer server.Close()
	c, err := New(t.Context(), Options{Project: "my-project", Endpoint: server.URL + "/", Logger: discard()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.Do(t.Context(), ensureTemplate("c1-t", cpuTemplate(testOwner))); got.Problem != nil {
		t.Error(got.Problem)
	}
	seen := c.Observe(t.Context(), cluster.Query{Owner: testOwner, Instances: true, Sweep: true})
	if len(seen.Problems) > 0 || seen.Instances == nil || seen.Owned == nil || len(seen.Owned.Templates) != 1 {
		t.Errorf("got %+v", seen)
	}
}
