package cluster

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Key names a cluster: the same id may exist in several locations of several projects.
type Key struct {
	Project  string `json:"project"`
	Location string `json:"location"`
	ID       string `json:"id"`
}

// String is the resource name as the product's API has it: projects/P/locations/L/modelDevelopmentClusters/ID.
func (k Key) String() string {
	return fmt.Sprintf("projects/%s/locations/%s/modelDevelopmentClusters/%s", k.Project, k.Location, k.ID)
}

// Doc is the key as one document id: PROJECT~LOCATION~ID. None of the three may contain '~' or '/'.
func (k Key) Doc() string { return k.Project + "~" + k.Location + "~" + k.ID }

// IsZero reports whether the key names nothing.
func (k Key) IsZero() bool { return k == Key{} }

// Validate says what is wrong with a key that came from outside. It is looser than the spec's own rules: it only
// keeps out what could not be a document id or would be read as another key.
func (k Key) Validate() error {
	switch {
	case !projectPattern.MatchString(k.Project):
		return fmt.Errorf("project %q is not a project id (6 to 30 lowercase letters, digits and hyphens, with an optional domain)", k.Project)
	case !locationPattern.MatchString(k.Location):
		return fmt.Errorf("location %q is not a region such as us-central1", k.Location)
	case !ValidClusterID(k.ID):
		return fmt.Errorf("cluster id %q must be 1 to 10 lowercase letters and digits, starting with a letter", k.ID)
	}
	return nil
}

var (
	projectPattern  = regexp.MustCompile(`^([a-z0-9][a-z0-9.-]{0,62}:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	locationPattern = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+$`)
)

// ValidClusterID reports whether s is a cluster id: 1 to 10 lowercase letters and digits, a letter first, and no hyphen.
func ValidClusterID(s string) bool {
	return len(s) >= 1 && len(s) <= 10 && lower(s[0]) && all(s, func(c byte) bool { return lower(c) || digit(c) })
}

// ValidPoolID reports whether s has the form of a pool id: lowercase letters, digits and hyphens, a letter first and no
// hyphen last, at most MaxPoolIDLength.
func ValidPoolID(s string) bool {
	return len(s) >= 1 && len(s) <= MaxPoolIDLength && lower(s[0]) && s[len(s)-1] != '-' &&
		all(s, func(c byte) bool { return lower(c) || digit(c) || c == '-' })
}

// validIndex: digits without leading zeros, at most MaxIndex.
func validIndex(s string) bool {
	return len(s) >= 1 && len(s) <= 5 && (s[0] != '0' || len(s) == 1) && all(s, digit)
}

// These stand in place of regular expressions since ten thousand names are parsed at every look at a large cluster.

func lower(c byte) bool { return c >= 'a' && c <= 'z' }

func digit(c byte) bool { return c >= '0' && c <= '9' }

func all(s string, ok func(byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}

// ParseKey reads either form of a key: the resource name or the document id.
func ParseKey(s string) (Key, error) {
	if p := strings.Split(s, "/"); len(p) == 6 && p[0] == "projects" && p[2] == "locations" && p[4] == "modelDevelopmentClusters" {
		k := Key{Project: p[1], Location: p[3], ID: p[5]}
		return k, k.Validate()
	}
	if p := strings.Split(s, "~"); len(p) == 3 {
		k := Key{Project: p[0], Location: p[1], ID: p[2]}
		return k, k.Validate()
	}
	return Key{}, fmt.Errorf("%q does not name a cluster: want projects/P/locations/L/modelDevelopmentClusters/ID", s)
}

// MaxPoolIDLength keeps every derived name (CLUSTER-POOL-INDEX, CLUSTER-POOL-HASH, template names) within the 63
// characters of an RFC 1035 label.
const MaxPoolIDLength = 30

// MaxIndex is the largest node index: five digits, far beyond the 10,000 nodes that one cluster is built for.
const MaxIndex = 99_999

// NodeID is a node within its cluster.
type NodeID struct {
	Pool  string `json:"pool"`
	Index int    `json:"index"`
}

// NodeName is CLUSTER-POOL-INDEX: the name of the Slurm node and of its VM.
func NodeName(clusterID string, n NodeID) string {
	return clusterID + "-" + n.Pool + "-" + strconv.Itoa(n.Index)
}

// ControllerName is the name of the controller's VM. It cannot be a node's name, since it has no index.
func ControllerName(clusterID string) string { return clusterID + "-controller" }

// ParseNodeName takes a node name apart; a fully qualified name is accepted and its domain ignored. The result is the only
// one possible: a cluster id has no hyphen, so it ends at the first one, and an index has none, so it begins after the
// last one.
func ParseNodeName(name string) (clusterID string, n NodeID, ok bool) {
	host, _, _ := strings.Cut(name, ".")
	clusterID, rest, found := strings.Cut(host, "-")
	if !found || !ValidClusterID(clusterID) {
		return "", NodeID{}, false
	}
	at := strings.LastIndexByte(rest, '-')
	if at < 0 {
		return "", NodeID{}, false
	}
	pool, index := rest[:at], rest[at+1:]
	if !ValidPoolID(pool) || !validIndex(index) {
		return "", NodeID{}, false
	}
	i, err := strconv.Atoi(index)
	if err != nil {
		return "", NodeID{}, false
	}
	return clusterID, NodeID{Pool: pool, Index: i}, true
}

// InstanceCluster names the cluster that an instance of this name would belong to: a node's or the controller's.
func InstanceCluster(name string) (clusterID string, ok bool) {
	if id, _, ok := ParseNodeName(name); ok {
		return id, true
	}
	id, rest, found := strings.Cut(name, "-")
	return id, found && rest == "controller" && ValidClusterID(id)
}

// Region is the region of a zone: us-central1 of us-central1-a. A name that is no zone is returned as it is.
func Region(zone string) string {
	if at := strings.LastIndexByte(zone, '-'); at > 0 && len(zone)-at == 2 {
		return zone[:at]
	}
	return zone
}

// Hash is a short, stable digest of what identifies a thing, as part of its name: 10 characters of [a-z2-7]. The
// parts are length-prefixed, so that ("ab","c") and ("a","bc") differ.
func Hash(parts ...string) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(digest(parts)))[:10]
}

// RequestID is the requestId of a mutation, a UUID derived from what the mutation is for: asking twice asks once.
func RequestID(parts ...string) string {
	d := digest(parts)
	d[6] = d[6]&0x0f | 0x80 // version 8: made by the application
	d[8] = d[8]&0x3f | 0x80 // the RFC's variant
	h := hex.EncodeToString(d[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func digest(parts []string) []byte {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return h.Sum(nil)
}
