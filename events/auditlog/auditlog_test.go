package auditlog_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/events/auditlog"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// entry is one of the captured entries, with its instance made one of ours and other parts replaced.
func entry(t *testing.T, file string, replace ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	replace = append([]string{"instances/instance-1", "instances/flexvm-a3u-0"}, replace...)
	s := string(text)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(s, replace[i]) {
			t.Fatalf("%s holds no %q", file, replace[i])
		}
		s = strings.ReplaceAll(s, replace[i], replace[i+1])
	}
	return []byte(s)
}

func TestCapturedLosses(t *testing.T) {
	flexvm := cluster.Key{Project: "project-1", Location: "us-central1", ID: "flexvm"}
	evening := time.Date(2020, 5, 11, 15, 56, 44, 808_000_000, time.UTC)
	const systemEvents = "//cloudaudit.googleapis.com/projects/project-1/logs/system_event"
	for _, c := range []struct {
		file string
		want events.Event
	}{
		{"audit-preempted.json", events.Event{
			ID: "epf7fkd2vsm-20200511T155644.808Z", Source: systemEvents,
			Payload: &events.InstanceLost{
				Cluster: flexvm, Name: "flexvm-a3u-0", Zone: "us-central1-a", InstanceID: 2162224123123123213,
				Method: "compute.instances.preempted", Time: evening,
			},
		}},
		{"audit-host-error.json", events.Event{
			ID: "epf7fkd2vsn-20200511T155644.808Z", Source: systemEvents,
			Payload: &events.InstanceLost{
				Cluster: flexvm, Name: "flexvm-a3u-0", Zone: "us-central1-a", InstanceID: 2162224123123123213,
				Method: "compute.instances.hostError", Message: "Instance terminated by Compute Engine.", HostError: true, Time: evening,
			},
		}},
		// The resource's name carries the project's number; the label its id.
		{"audit-instance-delete-first.json", events.Event{
			ID: "7rriyre2bn74-20200504T020740.933Z", Source: "//cloudaudit.googleapis.com/projects/project-1/logs/activity",
			Payload: &events.InstanceLost{
				Cluster: flexvm, Name: "flexvm-a3u-0", Zone: "us-central1-a", InstanceID: 3771111960822,
				Method: "compute.instances.delete", Time: time.Date(2020, 5, 4, 2, 7, 40, 933_000_000, time.UTC),
			},
		}},
	} {
		t.Run(c.file, func(t *testing.T) {
			got, err := auditlog.Read(entry(t, c.file))
			if err != nil {
				t.Fatal(err)
			}
			c.want.Type, c.want.Time = events.TypeInstanceLost, c.want.Payload.(*events.InstanceLost).Time
			if diff := cmp.Diff(auditlog.Entry{Lost: &c.want}, got); diff != "" {
				t.Fatal(diff)
			}
			if _, err := got.Lost.CloudEvent(); err != nil {
				t.Errorf("the loss is no event of the catalog: %v", err)
			}
		})
	}
}

// TestEveryMethodThatTakesAnInstanceAway: in either log, in any API version.
func TestEveryMethodThatTakesAnInstanceAway(t *testing.T) {
	for _, method := range []string{
		"compute.instances.preempted", "compute.instances.hostError", "compute.instances.terminateOnHostMaintenance",
		"compute.instance.terminateOnHostMaintenance", "compute.instances.deferredStop", "compute.instances.deferredDelete",
		"compute.instances.guestTerminate", "compute.instances.repair.recreateInstance",
		"compute.instances.instanceManagerHaltForRestart", "compute.instances.baremetalCaretakerPreempted",
		"compute.instances.stoppedDueToPdDoubleServe", "compute.instances.kmsKeyError",
		"compute.instances.localSsdRecoveryAttempting", "compute.instances.localSsdRecoveryTimeoutError",
		"compute.instances.localSsdRecoveryFailedError", "compute.instances.scratchDiskCreationFailed",
		"v1.compute.instances.delete", "beta.compute.instances.delete", "alpha.compute.instances.delete",
		"v1.compute.instances.stop", "beta.compute.instances.suspend", "compute.instances.reportHostAsFaulty",
	} {
		got, err := auditlog.Read(entry(t, "audit-preempted.json", "compute.instances.preempted", method))
		if err != nil || got.Lost == nil {
			t.Errorf("%s: %+v, %v", method, got, err)
			continue
		}
		lost := got.Lost.Payload.(*events.InstanceLost)
		if lost.HostError != (lost.Method == "compute.instances.hostError") || !strings.HasPrefix(lost.Method, "compute.instances.") {
			t.Errorf("%s: %+v", method, lost)
		}
	}
}

func TestIgnored(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"an insert", entry(t, "audit-instance-delete-first.json", "compute.instances.delete", "compute.instances.insert"), auditlog.OtherMethod},
		{"a migration", entry(t, "audit-preempted.json", "instances.preempted", "instances.migrateOnHostMaintenance"), auditlog.OtherMethod},
		{"a restart", entry(t, "audit-preempted.json", "instances.preempted", "instances.automaticRestart"), auditlog.OtherMethod},
		{"an announcement", entry(t, "audit-preempted.json", "instances.preempted", "instances.upcomingMaintenance"), auditlog.OtherMethod},
		{"a method that only ends alike", entry(t, "audit-preempted.json", "compute.instances.preempted", "compute.disks.delete"), auditlog.OtherMethod},
		{"somebody else's machine", entry(t, "audit-preempted.json", "flexvm-a3u-0", "bastion"), auditlog.ForeignMachine},
		{"a machine with a longer name", entry(t, "audit-preempted.json", "flexvm-a3u-0", "Flex_vm-a3u-0"), auditlog.ForeignMachine},
		{"a group", entry(t, "audit-preempted.json", "instances/flexvm-a3u-0", "instanceGroupManagers/flexvm-a3u"), auditlog.OtherResource},
		{"another service", entry(t, "audit-preempted.json", "compute.googleapis.com", "storage.googleapis.com"), auditlog.NotCompute},
		{"a line of text", []byte(`{"insertId":"a","logName":"projects/p/logs/syslog","textPayload":"hello"}`), auditlog.NotCompute},
		{"a call that failed", entry(t, "audit-instance-delete-first.json", `"authenticationInfo": {}`, `"status": {"code": 5, "message": "NOT_FOUND"}`), auditlog.FailedCall},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := auditlog.Read(c.data)
			if err != nil || got.Lost != nil || got.Ignored != c.want {
				t.Errorf("got %+v, %v, want it ignored: %s", got, err, c.want)
			}
		})
	}
}

func TestSystemEventsWithAStatusAreNoFailedCalls(t *testing.T) {
	got, err := auditlog.Read(entry(t, "audit-host-error.json", `"status": {`, `"status": {"code": 13,`))
	if err != nil || got.Lost == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestFirstAndLast: a long operation is told twice, as two events; the same entry told twice is one.
func TestFirstAndLast(t *testing.T) {
	first, err := auditlog.Read(entry(t, "audit-instance-delete-first.json"))
	if err != nil {
		t.Fatal(err)
	}
	last, err := auditlog.Read(entry(t, "audit-instance-delete-first.json", `"first": true`, `"last": true`, "7rriyre2bn74", "8sskzsf3co85", "02:07:40.933Z", "02:09:01.000Z"))
	if err != nil || last.Lost == nil || last.Lost.ID == first.Lost.ID {
		t.Errorf("%+v, %v", last, err)
	}
	received, err := auditlog.Read(entry(t, "audit-instance-delete-first.json", "02:07:41.604695630Z", "02:09:41.604695630Z"))
	if err != nil || received.Lost.ID != first.Lost.ID {
		t.Errorf("the same entry, received later, has the id %q, not %q", received.Lost.ID, first.Lost.ID)
	}
}

func TestUnfamiliarEntries(t *testing.T) {
	t.Run("details of an unknown type", func(t *testing.T) {
		got, err := auditlog.Read(entry(t, "audit-host-error.json", `"status": {`,
			`"status": {"details": [{"@type": "type.googleapis.com/google.cloud.nobody.knows.V9", "a": {"b": [1]}}],`))
		if err != nil || got.Lost == nil {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("a new severity, new fields", func(t *testing.T) {
		got, err := auditlog.Read(entry(t, "audit-host-error.json", `"severity": "INFO"`, `"severity": "SHOUTED", "apphub": {"a": 1}`))
		if err != nil || got.Lost == nil {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("no labels", func(t *testing.T) {
		got, err := auditlog.Read(entry(t, "audit-preempted.json", `"project_id": "project-1"`, `"x": ""`, `"instance_id": "2162224123123123213"`, `"y": ""`))
		if err != nil || got.Lost == nil || got.Lost.Key().Project != "project-1" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestReadRefuses(t *testing.T) {
	for name, data := range map[string][]byte{
		"nothing":              nil,
		"no JSON":              []byte("preempted!"),
		"a list":               []byte("[]"),
		"no entry":             []byte(`{"hello":"world"}`),
		"half an entry":        entry(t, "audit-preempted.json")[:200],
		"an id of letters":     entry(t, "audit-preempted.json", "2162224123123123213", "twelve"),
		"a zone of no region":  entry(t, "audit-preempted.json", "zones/us-central1-a", "zones/mars"),
		"a timestamp of words": entry(t, "audit-preempted.json", `"timestamp": "2020-05-11T15:56:44.808Z"`, `"timestamp": "noon"`),
	} {
		if got, err := auditlog.Read(data); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add([]byte(strings.ReplaceAll(string(text), "instance-1", "c1-a3u-0")))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := auditlog.Read(data)
		if err != nil {
			return
		}
		if (got.Lost == nil) == (got.Ignored == "") {
			t.Fatalf("neither or both: %+v", got)
		}
		if got.Lost == nil {
			return
		}
		text, err := json.Marshal(got.Lost.Payload)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := events.Read(events.TypeInstanceLost, text); err != nil {
			t.Fatalf("the loss is no event of the catalog: %v", err)
		}
	})
}
