package request_test

import (
	"strings"
	"testing"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/functions/internal/request"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

func TestKeyOf(t *testing.T) {
	defaults := cluster.Key{Project: "team-train", Location: "us-central1"}
	for _, c := range []struct {
		name, spec string
		given      cluster.Key
		want       string // "" for an error
	}{
		{"all in the name", `{"name":"projects/proj-a/locations/us-east4/modelDevelopmentClusters/c1","displayName":"shown"}`, cluster.Key{}, "proj-a~us-east4~c1"},
		{"a name that ends in a slash", `{"name":"projects/proj-a/locations/us-east4/modelDevelopmentClusters/","display_name":"c1"}`, cluster.Key{}, "proj-a~us-east4~c1"},
		{"a project's number", `{"name":"projects/123456/locations/us-east4/modelDevelopmentClusters/c1"}`, cluster.Key{}, "team-train~us-east4~c1"},
		{"what is given goes first", `{"name":"projects/proj-a/locations/us-east4/modelDevelopmentClusters/c1"}`, cluster.Key{Project: "proj-b", ID: "c2"}, "proj-b~us-east4~c2"},
		{"no name at all", `{"displayName":"c1"}`, cluster.Key{}, "team-train~us-central1~c1"},
		{"a name of another form", `{"name":"c1","displayName":"c2"}`, cluster.Key{}, "team-train~us-central1~c2"},
		{"a number for a name", `{"displayName":7}`, cluster.Key{}, ""},
		{"a display name that is no id", `{"displayName":"My cluster"}`, cluster.Key{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := request.KeyOf([]byte(c.spec), c.given, defaults)
			if (err != nil) != (c.want == "") || err == nil && got.Doc() != c.want {
				t.Errorf("got %s, %v", got.Doc(), err)
			}
		})
	}
}

// FuzzFromMessage: what is taken for a request is one that the catalog takes, too.
func FuzzFromMessage(f *testing.F) {
	f.Add("create", "", `{"displayName":"c1"}`)
	f.Add("delete", "c1", ``)
	f.Add("reportFaultyNodes", "c1", `{"nodeActions":[{"nodeId":"c1-a-0","reportFaultyHost":{"faultReasons":[{"behavior":"PERFORMANCE"}]}}]}`)
	f.Add("update", "c1", `{"a":"<b>"}`)
	f.Fuzz(func(t *testing.T, verb, id, body string) {
		m := events.Message{ID: "1", Data: []byte(body), Attributes: map[string]string{"verb": verb, "id": id, "update-mask": strings.ToUpper(verb) + ","}}
		e, err := request.FromMessage(m, cluster.Key{Project: "team-train", Location: "us-central1"})
		if err != nil {
			return
		}
		c, err := e.CloudEvent()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := events.Decode(c); err != nil {
			t.Fatal(err)
		}
		if !events.IsRequest(e.Type) || e.Key().Validate() != nil {
			t.Fatalf("%+v", e)
		}
	})
}
