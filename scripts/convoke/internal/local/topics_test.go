package local

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/convoke-hpc/convoke/functions/wiring"
)

// terraform is all of the deployment's description.
func terraform(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../../../../infra/*.tf")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no infra folder: %v", err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// The deployment on this machine has the topics, subscriptions and roads that Terraform makes.
func TestTopicsAreThoseOfTheDeployment(t *testing.T) {
	text := terraform(t)
	block := regexp.MustCompile(`(?s)\n  topics = \{(.*?)\n  \}`).FindStringSubmatch(text)
	if block == nil {
		t.Fatal("infra has no local.topics any more")
	}
	want := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^    ([a-z-]+) += `).FindAllStringSubmatch(block[1], -1) {
		want[m[1]] = nil
	}
	served := []string{}
	for _, m := range regexp.MustCompile(`(?m)^    ([a-z]+) += \{ topics = \[(.*?)\]`).FindAllStringSubmatch(text, -1) {
		served = append(served, m[1])
		for _, topic := range regexp.MustCompile(`"([a-z-]+)"`).FindAllStringSubmatch(m[2], -1) {
			want[topic[1]] = append(want[topic[1]], m[1])
		}
	}
	got := maps.Clone(pushes)
	for _, m := range []map[string][]string{got, want} {
		for k := range m {
			m[k] = slices.Sorted(slices.Values(m[k]))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("topics and the functions that they are pushed to (-infra +here)\n%s", diff)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(served)), wiring.Names()); diff != "" {
		t.Errorf("functions (-infra +here)\n%s", diff)
	}
}

func TestSubscriptionsAreThoseOfTheDeployment(t *testing.T) {
	text := terraform(t)
	for what, line := range map[string]string{
		"names":          `"${topic}-${name}" => { function = name, topic = topic }`,
		"ack deadline":   `ack_seconds     = 180`,
		"attempts":       `max_delivery_attempts = 20`,
		"tick retention": `each.value.topic == "ticks" ? "600s" : local.week`,
		"first back-off": `minimum_backoff = "10s"`,
		"last back-off":  `maximum_backoff = "600s"`,
		"the sink":       `log_id("cloudaudit.googleapis.com/activity") AND protoPayload.methodName=~"compute\.instances\.delete"`,
		"Eventarc":       `value     = "v1.compute.instances.delete"`,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%s: infra no longer says %q; say here what it says, and change this test", what, line)
		}
	}
	subs := subscriptions("p", "http://f", Real())
	if len(subs) != 8 {
		t.Errorf("%d subscriptions, want the seven that are pushed and the dead letters", len(subs))
	}
	for _, s := range subs {
		if s.GetPushConfig() == nil {
			continue
		}
		if s.GetAckDeadlineSeconds() != 180 || s.GetDeadLetterPolicy().GetMaxDeliveryAttempts() != 20 ||
			s.GetRetryPolicy().GetMinimumBackoff().AsDuration() != 10*time.Second || s.GetRetryPolicy().GetMaximumBackoff().AsDuration() != 600*time.Second {
			t.Errorf("%s is another than infra makes", s.GetName())
		}
	}
}

func TestSink(t *testing.T) {
	const system, activity = "projects/p/logs/cloudaudit.googleapis.com%2Fsystem_event", "projects/p/logs/cloudaudit.googleapis.com%2Factivity"
	for _, c := range []struct {
		log, method string
		want        bool
	}{
		{system, "compute.instances.preempted", true},
		{activity, "v1.compute.instances.delete", true},
		{activity, "v1.compute.instances.insert", false},
		{activity, "v1.compute.instanceGroupManagers.delete", false},
	} {
		if sunk(c.log, c.method) != c.want {
			t.Errorf("%s of %s: %t", c.method, c.log, !c.want)
		}
	}
}
