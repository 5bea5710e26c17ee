package gcp

import (
	"crypto/md5" //nolint:gosec // a fingerprint of public content, as the service's own are
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
)

const nameRegex = `(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)`

var (
	namePattern       = regexp.MustCompile(`^` + nameRegex + `$`)
	labelKeyPattern   = regexp.MustCompile(`^[\p{Ll}\p{Lo}][\p{Ll}\p{Lo}\p{N}_-]{0,62}$`)
	labelValuePattern = regexp.MustCompile(`^[\p{Ll}\p{Lo}\p{N}_-]{0,63}$`)
	metadataKey       = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
)

func checkName(field, name string) error {
	if name == "" {
		return missingField(field)
	}
	if !namePattern.MatchString(name) {
		return invalidField(field, name, fmt.Sprintf("Must be a match of regex '%s'", nameRegex))
	}
	return nil
}

func checkLabels(field string, labels map[string]string) error {
	if len(labels) > 64 {
		return invalidField(field, fmt.Sprintf("%d labels", len(labels)), "A resource can have at most 64 labels.")
	}
	for _, key := range sortedKeys(labels) {
		if !labelKeyPattern.MatchString(key) {
			return invalidField(field, key, "Label keys start with a lowercase letter and hold up to 63 lowercase letters, digits, underscores and dashes.")
		}
		if !labelValuePattern.MatchString(labels[key]) {
			return invalidField(field+"["+key+"]", labels[key], "Label values hold up to 63 lowercase letters, digits, underscores and dashes.")
		}
	}
	return nil
}

func checkMetadata(field string, metadata *computepb.Metadata) error {
	seen := map[string]bool{}
	total := 0
	for i, item := range metadata.GetItems() {
		at := fmt.Sprintf("%s.items[%d].key", field, i)
		if !metadataKey.MatchString(item.GetKey()) {
			return invalidField(at, item.GetKey(), "Must be a match of regex '[a-zA-Z0-9-_]{1,128}'")
		}
		if seen[item.GetKey()] {
			return invalidField(at, item.GetKey(), "Metadata has duplicate key.")
		}
		seen[item.GetKey()] = true
		if len(item.GetValue()) > 256<<10 {
			return invalidField(strings.TrimSuffix(at, ".key")+".value", fmt.Sprintf("%d bytes", len(item.GetValue())), "A metadata value can hold at most 262144 bytes.")
		}
		total += len(item.GetKey()) + len(item.GetValue())
	}
	if total > 512<<10 {
		return invalidField(field, fmt.Sprintf("%d bytes", total), "The total size of all metadata can be at most 524288 bytes.")
	}
	return nil
}

// oneOf checks a field that the wire format has as a string and the service as
// an enumeration. Absent is valid.
func oneOf(field string, value *string, allowed ...string) error {
	if value == nil || slices.Contains(allowed, *value) {
		return nil
	}
	return invalidField(field, *value, "Must be one of: "+strings.Join(allowed, ", "))
}

// fingerprint of content, of 8 bytes in base64, as the service's are.
func fingerprint(parts ...any) string {
	h := fnv.New64a()
	enc := json.NewEncoder(h)
	for _, part := range parts {
		_ = enc.Encode(part) // strings and maps of strings always encode
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

func labelFingerprint(labels map[string]string) string { return fingerprint("labels", labels) }

// metadataFingerprint is the MD5 of what the metadata says, which for none is
// "1B2M2Y8AsgTpgAmY7PhCfg==".
func metadataFingerprint(metadata *computepb.Metadata) string {
	h := md5.New() //nolint:gosec // as above
	for _, item := range metadata.GetItems() {
		fmt.Fprintf(h, "%d:%s=%d:%s\n", len(item.GetKey()), item.GetKey(), len(item.GetValue()), item.GetValue())
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// timestamp is a time as Compute Engine writes it: RFC 3339 with milliseconds.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000-07:00") }

// lastSegment of a URL or path: the name of what it leads to.
func lastSegment(link string) string { return link[strings.LastIndexByte(link, '/')+1:] }

// relative is a key's path as messages and audit-log entries state it.
func (s *Server) relative(key string) string { return "projects/" + s.opts.Project + "/" + key }

// link is a key's URL.
func (s *Server) link(key string) string {
	return "https://www.googleapis.com/compute/v1/" + s.relative(key)
}

// resolve turns a full or partial URL into a key. A bare name, and a path that
// begins below fallback's kind, is taken to be in fallback, such as
// "global/networks". Another project's URL resolves to "".
func (s *Server) resolve(link, fallback string) string {
	if _, rest, ok := strings.Cut(link, "projects/"); ok {
		project, key, _ := strings.Cut(rest, "/")
		if !s.isProject(project) {
			return ""
		}
		return key
	}
	if !strings.Contains(link, "/") {
		return fallback + "/" + link
	}
	return strings.TrimPrefix(link, "/")
}

func (s *Server) isProject(id string) bool {
	return id == s.opts.Project || id == fmt.Sprint(s.opts.ProjectNumber)
}

// newID is a number that no resource had before, of the 19 digits that the
// service's have.
func (s *Server) newID() uint64 {
	s.settings.Counter++
	s.settings.dirty = true
	return wideID(s.opts.Seed, s.settings.Counter)
}

// wideID maps a counter, one to one for each seed, to 19 digits.
func wideID(seed, counter uint64) uint64 {
	const mask = 1<<62 - 1
	x := (counter + mix(seed)) & mask
	x = (x * 0x9E3779B97F4A7C15) & mask // an odd factor: a permutation
	x ^= x >> 31
	x = (x * 0xD6E8FEB86659FD93) & mask
	return x + 1<<61
}

// mix scrambles a number (the finaliser of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// stableID is the id of something that was always there.
func (s *Server) stableID(what string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(what))
	return h.Sum64()>>2 + 1<<61
}

// dice is a number below n that follows from the seed and what it is for.
func (s *Server) dice(n uint64, what ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, s.opts.Seed)
	fmt.Fprintln(h, what...)
	return mix(h.Sum64()) % n
}

func metadataMap(metadata *computepb.Metadata) map[string]string {
	out := make(map[string]string, len(metadata.GetItems()))
	for _, item := range metadata.GetItems() {
		out[item.GetKey()] = item.GetValue()
	}
	return out
}

func seconds(d *computepb.Duration) time.Duration {
	return time.Duration(d.GetSeconds())*time.Second + time.Duration(d.GetNanos())
}

func clonedLabels(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	return maps.Clone(labels)
}
