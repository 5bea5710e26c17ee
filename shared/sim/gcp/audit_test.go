package gcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/convoke-hpc/convoke/shared/sim/gcp"
)

var varying = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`"insertId": "[a-z0-9]+"`), `"insertId": "INSERT_ID"`},
	{regexp.MustCompile(`(operation|systemevent)-\d+-[0-9a-f]{13}-[0-9a-f]{8}-[0-9a-f]{8}`), `$1-ID`},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.(\d+)Z`), `TIME.$1`},
	{regexp.MustCompile(`TIME\.\d{6}"`), `TIME.micros"`},
	{regexp.MustCompile(`TIME\.\d{9}"`), `TIME.nanos"`},
	{regexp.MustCompile(`"callerSuppliedUserAgent": "[^"]*"`), `"callerSuppliedUserAgent": "AGENT"`},
}

// compareEntries compares the entries with the ones that are known to be of
// the real form. UPDATE=1 writes them.
func compareEntries(t *testing.T, entries []gcp.LogEntry, instance uint64, requestID string) {
	t.Helper()
	var b bytes.Buffer
	for _, e := range entries {
		if err := json.Indent(&b, e.JSON, "", "  "); err != nil {
			t.Fatalf("entry %s is not JSON: %v", e.Method, err)
		}
		b.WriteString("\n")
	}
	got := b.String()
	for _, v := range varying {
		got = v.pattern.ReplaceAllString(got, v.with)
	}
	got = strings.ReplaceAll(got, fmt.Sprint(instance), "INSTANCE_ID")
	got = strings.ReplaceAll(got, requestID, "REQUEST_ID")
	const golden = "testdata/audit.golden"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the audit log is not as in %s (UPDATE=1 writes it):\n%s", golden, got)
	}
}
