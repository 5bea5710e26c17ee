package steward_test

import (
	"os"
	"strconv"
	"testing"
)

// TestACrashAfterAnyCallEndsTheSame runs each scenario once for each of its calls to the store and the cloud, killing the
// process after that call: what it was doing there is done, its answer lost, and nothing further happens in that
// process. The message that it worked on comes again, or the tick finds the cluster, and the scenario must end as ever, with
// nothing doubled and nothing left over (laws 1, 2, 6 and 7).
//
// All scenarios but the first begin with a cluster that has come up, which the first tries.
//
// CONVOKE_CRASH=N tries every Nth call; 1 is all of them, as scripts/test does. (All of them are about 3,000 runs, of which each takes
// a tenth of a second and most of that goes into the calls to the simulated cloud.)
func TestACrashAfterAnyCallEndsTheSame(t *testing.T) {
	stride := int64(61)
	if s := os.Getenv("CONVOKE_CRASH"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 1 {
			t.Fatalf("CONVOKE_CRASH=%q: want a whole number from 1 on", s)
		}
		stride = n
	}
	for i, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			calls, up := inWorld(t, 0, s.run)
			first := int64(1)
			if i > 0 {
				first = max(1, up)
			}
			tried := 0
			for n := first; n <= calls && !t.Failed(); n += stride {
				inWorld(t, n, s.run)
				tried++
			}
			t.Logf("%d of %d calls tried, from number %d on", tried, calls, first)
		})
	}
}
