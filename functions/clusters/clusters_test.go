package clusters_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/functions/clusters"
	"github.com/convoke-hpc/convoke/functions/delivery"
	"github.com/convoke-hpc/convoke/functions/internal/functest"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

func newFunction() (*functest.Steward, delivery.Func) {
	s := &functest.Steward{}
	return s, clusters.New(clusters.Config{
		Steward: s, Defaults: cluster.Key{Project: "team-train", Location: "us-central1"}, Now: functest.Now,
	})
}

func spec(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestKinds(t *testing.T) {
	s, fn := newFunction()
	functest.TakesOnly(t, s, fn, events.TypeClusterCreate, events.TypeClusterUpdate, events.TypeClusterDelete, events.TypeReportFaulty)
}

// TestBareSpec: a spec is published as it stands in its file, and the message's id becomes the operation's.
func TestBareSpec(t *testing.T) {
	for _, c := range []struct {
		name, file string
		attributes map[string]string
		want       cluster.Key
	}{
		{"the documentation's Flex Start spec, whose name ends in a slash", "flexvm.json", nil,
			cluster.Key{Project: "my-project", Location: "us-central1", ID: "flexvm"}},
		{"one that says nothing of where", "preemption.json", nil,
			cluster.Key{Project: "team-train", Location: "us-central1", ID: "prio"}},
		{"one that is told where", "preemption.json", map[string]string{"cluster-id": "other", "project": "some-project", "location": "europe-west4"},
			cluster.Key{Project: "some-project", Location: "europe-west4", ID: "other"}},
		{"one that is told its id in short", "preemption.json", map[string]string{"id": "other"},
			cluster.Key{Project: "team-train", Location: "us-central1", ID: "other"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, fn := newFunction()
			b := functest.New(t, fn)
			if status := b.Push("2070443601311540", spec(t, c.file), c.attributes); status != http.StatusNoContent {
				t.Fatal(status, b.Log)
			}
			calls := s.Calls()
			if len(calls) != 1 || calls[0].Key != c.want || !calls[0].Create || calls[0].Event.ID != "2070443601311540" {
				t.Fatalf("%+v %v", calls, b.Quarantined())
			}
			p, err := events.Read(calls[0].Event.Type, calls[0].Event.Data)
			if create, ok := p.(*events.ClusterCreate); err != nil || !ok || !strings.Contains(string(create.Spec), "orchestrator") {
				t.Errorf("%T, %v", p, err)
			}
		})
	}
}

func TestOtherVerbs(t *testing.T) {
	for _, c := range []struct {
		name, body string
		attributes map[string]string
		want       string
	}{
		{"delete", "", map[string]string{"verb": "delete", "cluster-id": "flexvm"}, `{"cluster":KEY}`},
		{"update", `{"nodePools":[]}`, map[string]string{"verb": "update", "cluster-id": "flexvm", "update-mask": "node_pools, labels", "update-mode": "USER_ONLY"},
			`{"cluster":KEY,"spec":{"nodePools":[]},"updateMask":["node_pools","labels"],"updateMode":"USER_ONLY"}`},
		{"report", `{"nodeActions":[{"nodeId":"flexvm-a3u-0"}]}`, map[string]string{"verb": "reportFaultyNodes", "cluster-id": "flexvm"},
			`{"cluster":KEY,"node":"flexvm-a3u-0"}`},
		{"report a host", `{"nodeActions":[{"nodeId":"flexvm-a3u-0","reportFaultyHost":{"faultReasons":[{"behavior":"PERFORMANCE","description":"slow"}]}}]}`,
			map[string]string{"verb": "reportFaultyNodes", "cluster-id": "flexvm"}, `{"cluster":KEY,"node":"flexvm-a3u-0","reportFaultyHost":true,"reason":"PERFORMANCE: slow"}`},
		{"report by attribute", "", map[string]string{"verb": "reportFaultyNodes", "cluster-id": "flexvm", "node": "flexvm-a3u-1"},
			`{"cluster":KEY,"node":"flexvm-a3u-1"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, fn := newFunction()
			b := functest.New(t, fn)
			status := b.Push("m1", []byte(c.body), c.attributes)
			calls := s.Calls()
			want := strings.Replace(c.want, "KEY", `{"project":"team-train","location":"us-central1","id":"flexvm"}`, 1)
			if status != 204 || len(calls) != 1 || string(calls[0].Event.Data) != want {
				t.Errorf("%d, %+v, quarantined %q", status, calls, b.Quarantined())
			}
		})
	}
}

func TestQuarantined(t *testing.T) {
	for _, c := range []struct {
		name, body string
		attributes map[string]string
		want       string
	}{
		{"no JSON", "display_name: flexvm", nil, "not a JSON object"},
		{"a list", "[]", nil, "not a JSON object"},
		{"nothing", "", nil, "not a JSON object"},
		{"no name", `{"nodePools":[]}`, nil, "does not say which cluster"},
		{"a name that is none", `{"displayName":"My Cluster"}`, nil, `"My Cluster"`},
		{"a location that is a zone", `{"displayName":"c1"}`, map[string]string{"location": "us-central1-a"}, "us-central1-a"},
		{"an unknown verb", `{"displayName":"c1"}`, map[string]string{"verb": "destroy"}, `"destroy"`},
		{"two nodes at a time", `{"nodeActions":[{"nodeId":"c1-a-0"},{"nodeId":"c1-a-1"}]}`, map[string]string{"verb": "reportFaultyNodes", "id": "c1"}, "one at a time"},
		{"another cluster's node", `{"nodeActions":[{"nodeId":"c2-a-0"}]}`, map[string]string{"verb": "reportFaultyNodes", "id": "c1"}, "not a node of cluster c1"},
		{"a behavior of its own", `{"nodeActions":[{"nodeId":"c1-a-0","reportFaultyHost":{"faultReasons":[{"behavior":"RUDE"}]}}]}`,
			map[string]string{"verb": "reportFaultyNodes", "id": "c1"}, `"RUDE"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, fn := newFunction()
			b := functest.New(t, fn)
			status := b.Push("m1", []byte(c.body), c.attributes)
			q := b.Quarantined()
			if status != 204 || len(s.Calls()) != 0 || len(q) != 1 || !strings.Contains(q[0], c.want) {
				t.Errorf("%d, quarantined %q", status, q)
			}
		})
	}
	t.Run("a body with no id around it", func(t *testing.T) {
		_, fn := newFunction()
		b := functest.New(t, fn)
		status := b.Post([]byte(`{"displayName":"c1"}`), nil)
		if q := b.Quarantined(); status != 204 || len(q) != 1 || !strings.Contains(q[0], "has no id") {
			t.Errorf("%d, quarantined %q", status, q)
		}
	})
}

// TestSpecWithFaultsIsDelivered: its faults belong into the operation, where whoever asked will look.
func TestSpecWithFaultsIsDelivered(t *testing.T) {
	s, fn := newFunction()
	b := functest.New(t, fn)
	if status := b.Push("m1", []byte(`{"displayName":"c1","nodePools":"many","color":"red"}`), nil); status != 204 || len(s.Calls()) != 1 || len(b.Quarantined()) != 0 {
		t.Errorf("%d, quarantined %q", status, b.Quarantined())
	}
}

func TestAnotherProject(t *testing.T) {
	s := &functest.Steward{}
	fn := clusters.New(clusters.Config{Steward: s, Project: "team-train", Defaults: cluster.Key{Project: "team-train", Location: "us-central1"}, Now: functest.Now})
	b := functest.New(t, fn)
	status := b.Push("m1", spec(t, "flexvm.json"), nil)
	if q := b.Quarantined(); status != 204 || len(s.Calls()) != 0 || len(q) != 1 || !strings.Contains(q[0], `"my-project"`) {
		t.Errorf("%d, quarantined %q", status, q)
	}
}

func TestStoreIsDown(t *testing.T) {
	s, fn := newFunction()
	s.Err = errors.New("firestore: 100%s unavailable")
	b := functest.New(t, fn)
	if status := b.Push("m1", spec(t, "flexvm.json"), nil); status != http.StatusServiceUnavailable || len(b.Quarantined()) != 0 {
		t.Errorf("%d, quarantined %q", status, b.Quarantined())
	}
	s.Err = store.ErrTooLarge
	if status := b.Push("m1", spec(t, "flexvm.json"), nil); status != 204 || len(b.Quarantined()) != 1 {
		t.Errorf("what will never fit: %d, quarantined %q", status, b.Quarantined())
	}
}
