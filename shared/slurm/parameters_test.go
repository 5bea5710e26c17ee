package slurm

import (
	"strings"
	"testing"
)

func TestCheckParameterAccepts(t *testing.T) {
	for _, c := range []struct {
		scope            Scope
		key, value, name string
	}{
		{Global, "PriorityType", "priority/multifactor", "PriorityType"},
		{Global, "priority_weight_age", "1000", "PriorityWeightAge"},
		{Global, "PREEMPTMODE", "suspend,GANG", "PreemptMode"},
		{Global, "PreemptExemptTime", "00:10:00", "PreemptExemptTime"},
		{Global, "PriorityMaxAge", "7-0", "PriorityMaxAge"},
		{Global, "SchedulerParameters", "bf_continue,bf_window=1440,bf_resolution=600", "SchedulerParameters"},
		{Global, "AccountingStorageEnforce", "associations,limits,qos", "AccountingStorageEnforce"},
		{Global, "Licenses", `"matlab:3 fluent:4"`, "Licenses"},
		{Global, "SuspendTime", "INFINITE", "SuspendTime"},
		{Partition, "def_mem_per_cpu", "4096", "DefMemPerCPU"},
		{Partition, "MaxTime", "1-00:00:00", "MaxTime"},
		{Partition, "MaxTime", "UNLIMITED", "MaxTime"},
		{Partition, "OverSubscribe", "FORCE:2", "OverSubscribe"},
		{Partition, "PriorityTier", "10", "PriorityTier"},
		{Partition, "AllowQos", "high,low", "AllowQos"},
		{Partition, "DenyAccounts", "guests", "DenyAccounts"},
		{Node, "Weight", "10", "Weight"},
		{Node, "Features", "a,b", "Features"},
		{Node, "MemSpecLimit", "10G", "MemSpecLimit"},
	} {
		p, refusal := CheckParameter(c.scope, c.key, c.value)
		if refusal != nil || p.Name != c.name {
			t.Errorf("%s %s=%s: got %s, %+v", c.scope, c.key, c.value, p.Name, refusal)
		}
	}
}

func TestCheckParameterRefuses(t *testing.T) {
	for _, c := range []struct {
		scope      Scope
		key, value string
		want       string
	}{
		{Global, "PriorityWiegthAge", "1", `Slurm has no parameter "PriorityWiegthAge" in the cluster's config, did you mean PriorityWeightAge?`},
		{Global, "bogus", "1", `Slurm has no parameter "bogus" in the cluster's config`},
		{Global, "MaxTime", "1", "MaxTime is not a parameter of the cluster's config, it belongs in a partition's config"},
		{Node, "priority_tier", "1", "PriorityTier is not a parameter of a node set's config, it belongs in a partition's config"},
		{Partition, "Weight", "1", "Weight is not a parameter of a partition's config, it belongs in a node set's config"},
		{Global, "StorageHost", "db", "StorageHost is a parameter of slurmdbd.conf, which is managed for you"},
		{Global, "purge_job_after", "1month", "PurgeJobAfter is a parameter of slurmdbd.conf, which is managed for you"},
		{Global, "NodeName", "x", `"NodeName" begins a line of slurm.conf that is written for you`},
		{Global, "Include", "/etc/passwd", `"Include" begins a line of slurm.conf that is written for you`},
		{Global, "HealthCheckProgram", "/bin/x", "HealthCheckProgram may not be set: node health is checked for you"},
		{Global, "health_check_interval", "1", "HealthCheckInterval may not be set: node health is checked for you"},
		{Global, "HealthCheckNodeState", "ANY", "HealthCheckNodeState may not be set: node health is checked for you"},
		{Global, "RequeueExit", "1", "RequeueExit may not be set: jobs of broken nodes are requeued for you"},
		{Global, "Prolog", "/x", "Prolog may not be set: scripts are given as prolog_bash_scripts and epilog_bash_scripts"},
		{Global, "Epilog", "/x", "Epilog may not be set: scripts are given as prolog_bash_scripts and epilog_bash_scripts"},
		{Partition, "Default", "YES", "Default may not be set: the default partition is named by default_partition_id"},
		{Global, "ResumeProgram", "/x", "ResumeProgram may not be set: nodes are powered up and down for you"},
		{Global, "PriorityWeightAge", "many", `"many" is not a number; 0 to 4294967293, or INFINITE`},
		{Global, "MessageTimeout", "65534", `"65534" is not a number; 0 to 65533, or INFINITE`},
		{Global, "PreemptType", "preempt/luck", `"preempt/luck" is not a value of PreemptType; preempt/none, preempt/partition_prio, preempt/qos`},
		{Global, "PreemptMode", "REQUEUE,MAYBE", `"MAYBE" is not a value of PreemptMode; a list of CANCEL, GANG, OFF, PRIORITY, REQUEUE, SUSPEND, WITHIN`},
		{Partition, "OverSubscribe", "FORCE:x", `"FORCE:x" is not a value of OverSubscribe; EXCLUSIVE, FORCE, FORCE:N, NO, YES, YES:N`},
		{Partition, "MaxTime", "an hour", `"an hour" contains a space outside of double quotes`},
		{Partition, "MaxTime", "1h", `"1h" is not a time; minutes, MM:SS, HH:MM:SS`},
		{Partition, "DefMemPerCPU", "-1k", `"-1k" is not a number`},
		{Partition, "DefMemPerCPU", "4GG", `"4GG" is not a number`},
	} {
		_, refusal := CheckParameter(c.scope, c.key, c.value)
		if refusal == nil {
			t.Errorf("%s %s=%s is accepted", c.scope, c.key, c.value)
			continue
		}
		got := refusal.Problem
		if refusal.Allowed != "" {
			got += "; " + refusal.Allowed
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %s=%s:\n got %s\nwant %s", c.scope, c.key, c.value, got, c.want)
		}
	}
}

// Whatever is accepted stays within its own place in slurm.conf.
func TestValuesCannotLeaveTheirPlace(t *testing.T) {
	for _, value := range []string{
		"", `""`, "a\nResumeProgram=/x", "a\r", "a\x00b", "a ResumeProgram=/x", "a\tb", `"a" ResumeProgram="/x"`, `a"b`, `"a`, `a"`, `"`,
		"a#b", `"a#b"`, `a\`, "a\\\nb", "=b", "é", "a b", "\u2028", strings.Repeat("a", maxParameterValue+1),
	} {
		if _, refusal := CheckParameter(Global, "MailDomain", value); refusal == nil {
			t.Errorf("%q is accepted", value)
		} else if refusal.Allowed == "" || len(refusal.Problem) > 200 {
			t.Errorf("%q: %+v", value, refusal)
		}
	}
}

func TestParametersAreListedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range parameterGroups() {
		for _, name := range strings.Fields(g.names) {
			key := string(g.scope) + " " + plainKey(name)
			if seen[key] {
				t.Errorf("%s is listed twice", key)
			}
			seen[key] = true
		}
	}
	for scope, byReason := range refusedParameters() {
		for _, names := range byReason {
			for _, name := range strings.Fields(names) {
				if !seen[string(scope)+" "+plainKey(name)] {
					t.Errorf("%s %s is refused but not listed", scope, name)
				}
			}
		}
	}
	for _, name := range strings.Fields(newerParameters) {
		if !seen["global "+plainKey(name)] && !seen["partition "+plainKey(name)] && !seen["node "+plainKey(name)] {
			t.Errorf("%s is said to be newer but not listed", name)
		}
	}
	if n := len(Parameters(Global)); n < 200 {
		t.Errorf("only %d global parameters", n)
	}
}

func FuzzCheckParameter(f *testing.F) {
	f.Add("PriorityType", "priority/multifactor")
	f.Add("def_mem_per_cpu", "12k")
	f.Add("PreemptMode", "GANG,SUSPEND")
	f.Add("Licenses", `"a b"`)
	f.Fuzz(func(t *testing.T, key, value string) {
		for _, scope := range scopes() {
			p, refusal := CheckParameter(scope, key, value)
			if refusal != nil {
				if refusal.Problem == "" || strings.ContainsAny(refusal.Problem, "\n\r\x00") {
					t.Fatalf("%q=%q: problem %q", key, value, refusal.Problem)
				}
				continue
			}
			quoted := value[0] == '"' && strings.Count(value, `"`) == 2 && value[len(value)-1] == '"'
			if len(strings.Fields(p.Name+"="+value)) != 1 && !quoted {
				t.Fatalf("%q=%q is more than one word", key, value)
			}
			if strings.ContainsAny(value, "\n\r\x00#\\") {
				t.Fatalf("%q=%q", key, value)
			}
		}
	})
}
