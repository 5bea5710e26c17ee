package gce

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// problem says of an error what people and policy need to know.
func (c *Client) problem(doing, resource string, err error) *cluster.Problem {
	var p *cluster.Problem
	if errors.As(err, &p) {
		filled := *p
		p = &filled
	} else {
		p = c.explain(faultsOf(err))
	}
	if p.Doing == "" {
		p.Doing = doing
	}
	if p.Resource == "" {
		p.Resource = resource
	}
	p.At = cluster.Moment(c.now())
	return p
}

// explain makes one problem of the faults of one thing.
func (c *Client) explain(faults []fault) *cluster.Problem {
	f := faults[worst(faults)]
	class := f.class()
	message := f.message
	others := map[cluster.Class]bool{}
	for _, o := range faults {
		if o.class() != class {
			others[o.class()] = true
		}
	}
	if len(others) > 0 {
		var names []string
		for _, k := range []cluster.Class{cluster.Permission, cluster.Quota, cluster.NotFound, cluster.Conflict, cluster.Capacity, cluster.Throttle, cluster.Unknown} {
			if others[k] {
				names = append(names, string(k))
			}
		}
		message = oneLine(message + " (and there were errors of class " + strings.Join(names, ", ") + ")")
	}
	return &cluster.Problem{Class: class, Message: message, Remedy: c.remedy(class, f)}
}

// reported is the problem that a resource itself reports, in a list of errors; nil when it reports none.
func (c *Client) reported(doing, resource string, errs failure) *cluster.Problem {
	if len(errs) == 0 {
		return nil
	}
	return c.problem(doing, resource, errs)
}

var (
	permissionNamed = regexp.MustCompile(`\b(?:compute|file|secretmanager|iam)\.[a-zA-Z]+\.[a-zA-Z]+\b`)
	projectNamed    = regexp.MustCompile(`\bprojects/([a-z0-9.:-]+)`)
	serviceNamed    = regexp.MustCompile(`\b([a-z]+\.googleapis\.com)\b`)
	quotaNamed      = regexp.MustCompile(`(?i)\bquota(?: metric)? '([A-Za-z0-9_./ -]+)'`)
	regionNamed     = regexp.MustCompile(`\bin region ([a-z]+-[a-z]+[0-9]+)`)
)

// roles are the predefined roles that hold a permission, by the longest prefix of its name that stands here.
var roles = []struct{ prefix, role string }{
	{"compute.subnetworks.use", "roles/compute.networkUser"},
	{"compute.networks.use", "roles/compute.networkUser"},
	{"compute.networks.get", "roles/compute.networkViewer"},
	{"compute.subnetworks.get", "roles/compute.networkViewer"},
	{"iam.serviceAccounts.", "roles/iam.serviceAccountUser"},
	{"compute.", "roles/compute.instanceAdmin.v1"},
	{"file.", "roles/file.viewer"},
	{"secretmanager.", "roles/secretmanager.admin"},
}

// remedy says what a person can do about a fault.
func (c *Client) remedy(class cluster.Class, f fault) string {
	switch class {
	case cluster.Capacity:
		return "nothing needs to be done, it is asked for again; if this lasts, use another zone, a reservation or Flex Start"
	case cluster.Quota:
		return quotaRemedy(f)
	case cluster.Throttle:
		return "nothing needs to be done, the call is made again later"
	case cluster.Permission:
		return c.permissionRemedy(f)
	case cluster.Configuration:
		if orgPolicy.MatchString(f.message) {
			return "a policy of the organization forbids this: ask its administrators for an exception, or change the cluster spec"
		}
		return "change the cluster spec: what it asks for is not possible"
	case cluster.NotFound:
		return "create what is missing, or change the cluster spec so that it names something that exists"
	case cluster.Conflict:
		return "nothing needs to be done if this passes, it is tried again; if it does not, see what holds the resource"
	}
	return "nothing needs to be done, it is tried again"
}

func quotaRemedy(f fault) string {
	what := "the quota"
	if f.quota != "" {
		what = "quota " + f.quota
	} else if m := quotaNamed.FindStringSubmatch(f.message); m != nil {
		what = "quota " + m[1]
	}
	if m := regionNamed.FindStringSubmatch(f.message); m != nil {
		what += " in " + m[1]
	}
	return "ask for more of " + what + " (IAM & Admin, Quotas & System Limits), or make the pools smaller"
}

func (c *Client) permissionRemedy(f fault) string {
	project := c.project
	if m := projectNamed.FindStringSubmatch(f.message); m != nil {
		project = m[1]
	}
	switch f.code {
	case "SERVICE_DISABLED", "ACCESS_NOT_CONFIGURED":
		service := "the API"
		if m := serviceNamed.FindStringSubmatch(f.message); m != nil {
			service = m[1]
		}
		return fmt.Sprintf("enable %s in project %s", service, project)
	case "BILLING_DISABLED", "BILLING_NOT_ENABLED":
		return fmt.Sprintf("enable billing for project %s", project)
	case "AUTH_ERROR", "UNAUTHENTICATED":
		return "give the functions a service account whose credentials are valid"
	}
	if strings.Contains(f.message, "serviceAccountUser") { // this refusal names the role and not the permission
		return "grant the functions' service account roles/iam.serviceAccountUser on the nodes' service account (iam.serviceAccounts.actAs is missing)"
	}
	for _, m := range permissionNamed.FindAllString(f.message, -1) {
		for _, r := range roles {
			if strings.HasPrefix(m, r.prefix) {
				return fmt.Sprintf("grant the functions' service account %s in project %s (%s is missing)", r.role, project, m)
			}
		}
	}
	return fmt.Sprintf("grant the functions' service account the roles that the installation asks for in project %s", project)
}

// foreign is the refusal to use or change what is there and is not ours. The mark is what it bears of an owner: a
// description, or labels.
func foreign(what, mark string) *cluster.Problem {
	return &cluster.Problem{
		Class:   cluster.Conflict,
		Message: oneLine(fmt.Sprintf("a %s of this name exists and is not this cluster's: %s", what, mark)),
		Remedy:  "remove it or have it renamed, or choose another cluster id",
	}
}

// vanished is the error of a look at what was in the way of a creation: when it has gone meanwhile, creating it may work now.
func vanished(look error) error {
	if !missing(look) {
		return look
	}
	return &cluster.Problem{
		Class: cluster.Conflict, Message: "it existed when it was to be created, and was gone a moment later",
		Remedy: "nothing needs to be done, it is tried again",
	}
}

// whose says whom a description or labels name as owner.
func whose(description string, labels map[string]string) string {
	if id := labels[cluster.LabelCluster]; id != "" {
		return fmt.Sprintf("its labels say that it belongs to cluster %s (uid %s)", id, labels[cluster.LabelUID])
	}
	if description != "" {
		return fmt.Sprintf("its description is %q", description)
	}
	return "it bears no mark of an owner"
}

// bears reports whether labels hold all that an owner's mark asks for.
func bears(labels, mark map[string]string) bool {
	for k, v := range mark {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}
