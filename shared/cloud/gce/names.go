package gce

import (
	"regexp"
	"strings"
)

var projectPattern = regexp.MustCompile(`^([a-z0-9][a-z0-9.-]{0,62}:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)

// last is the last segment of a URL or path: the name of what it leads to.
func last(link string) string { return link[strings.LastIndexByte(link, '/')+1:] }

// relative is a link from "projects/" on, whether it came as a URL or as a path.
func relative(link string) string {
	if at := strings.Index(link, "/projects/"); at >= 0 {
		return link[at+1:]
	}
	return link
}

// match takes a link apart by a pattern such as "projects/*/global/networks/*", and returns what stands for each asterisk.
func match(link, pattern string) ([]string, bool) {
	have, want := strings.Split(relative(link), "/"), strings.Split(pattern, "/")
	if len(have) != len(want) {
		return nil, false
	}
	var out []string
	for i, segment := range want {
		switch {
		case segment == "*" && have[i] != "":
			out = append(out, have[i])
		case segment != have[i]:
			return nil, false
		}
	}
	return out, true
}

// path is a resource of the project: path("zones", zone, "disks", name).
func (c *Client) path(segments ...string) string {
	return "projects/" + c.project + "/" + strings.Join(segments, "/")
}
