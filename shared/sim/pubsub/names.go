package pubsub

import (
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// deletedTopic is the topic of a subscription whose topic was deleted.
const deletedTopic = "_deleted-topic_"

var (
	// projectPattern is more lenient than the real rule (6 characters at least), so that "local" is a project, too.
	projectPattern = regexp.MustCompile(`^[a-z]([a-z0-9.:-]{0,61}[a-z0-9])?$`)
	// resourcePattern is the rule for topic and subscription ids; that they must not begin with "goog" is checked apart.
	resourcePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9\-_.~+%]{2,254}$`)
)

// A resourceName is projects/{project}/{collection}/{id}.
type resourceName struct {
	project string
	id      string
}

// parseName takes a full resource name of the collection ("topics" or "subscriptions") apart.
func parseName(collection, name string) (resourceName, error) {
	parts := strings.Split(name, "/")
	if len(parts) != 4 || parts[0] != "projects" || parts[2] != collection {
		return resourceName{}, fmt.Errorf("%q is not of the form projects/PROJECT/%s/ID", name, collection)
	}
	if !projectPattern.MatchString(parts[1]) {
		return resourceName{}, fmt.Errorf("%q has no valid project id", name)
	}
	if !resourcePattern.MatchString(parts[3]) || strings.HasPrefix(parts[3], "goog") {
		return resourceName{}, fmt.Errorf("%q: an id is 3 to 255 of letters, digits and -_.~+%%, begins with a letter and not with goog", name)
	}
	return resourceName{project: parts[1], id: parts[3]}, nil
}

// parseProject takes the project id out of projects/{project}.
func parseProject(name string) (string, error) {
	project, ok := strings.CutPrefix(name, "projects/")
	if !ok || !projectPattern.MatchString(project) {
		return "", fmt.Errorf("%q is not of the form projects/PROJECT", name)
	}
	return project, nil
}

// faults collects everything that is wrong with a request, each with its field, so that the caller hears all at once.
type faults []string

func (f *faults) add(field, format string, args ...any) {
	*f = append(*f, field+": "+fmt.Sprintf(format, args...))
}

func (f *faults) addError(field string, err error) {
	if err != nil {
		f.add(field, "%v", err)
	}
}

// err is nil or an INVALID_ARGUMENT that names every fault.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return status.Error(codes.InvalidArgument, strings.Join(f, "; "))
}

func notFound(name string) error {
	return status.Errorf(codes.NotFound, "Resource not found (resource=%s).", name)
}

func alreadyExists(name string) error {
	return status.Errorf(codes.AlreadyExists, "Resource already exists in the project (resource=%s).", name)
}
