package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

// timeline shows what was decided about a cluster.
func (a app) timeline() *cobra.Command {
	var r remote
	var output string
	var follow bool
	var limit int
	cmd := &cobra.Command{
		Use:   "timeline CLUSTER",
		Short: "Show what was decided about a cluster, and why",
		Long: `Timeline shows what was decided about a cluster, refused, waited for, or failed, and why: the newest lines, the latest last.
The timeline of a deleted cluster is kept for some weeks.

Exit codes: 0 shown, 1 the deployment did not answer, 2 the command line is wrong, 3 there is no such cluster.`,
		Example: `  convoke timeline flexvm
  convoke timeline flexvm --follow
  convoke timeline flexvm --limit 500 --output json | jq '.[] | select(.kind == "node")'`,
		Args: arguments(cobra.ExactArgs(1)),
	}
	r.flags(cmd.Flags())
	check := outputFlag(cmd, &output)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on showing what is added, until Ctrl-C")
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "how many lines at most")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := check(); err != nil {
			return err
		}
		switch {
		case limit < 1:
			return misused(cmd, fmt.Errorf("--limit is %d, want at least 1", limit))
		case follow && output == "json":
			return misused(cmd, fmt.Errorf("--follow shows text, and --output is json"))
		}
		k, err := r.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		entries, err := r.timeline(cmd.Context(), k, "", limit)
		if err != nil {
			return err
		}
		if len(entries) == 0 && !follow {
			return notFound{fmt.Errorf("nothing is known of a cluster %s", k)}
		}
		if output == "json" {
			return a.json(entries)
		}
		t := &tail{remote: &r, key: k}
		t.print(a, entries)
		if !follow {
			return nil
		}
		for {
			if err := pause(cmd.Context(), pollEvery); err != nil {
				return nil //nolint:nilerr // Ctrl-C is how it ends
			}
			if err := t.show(cmd.Context(), a); err != nil && cmd.Context().Err() == nil {
				return err
			}
		}
	}
	return cmd
}

// timeline reads entries that are newer than the given id, at most so many, oldest first.
func (r *remote) timeline(ctx context.Context, k cluster.Key, after string, limit int) ([]store.TimelineEntry, error) {
	all := []store.TimelineEntry{}
	for token := ""; len(all) < limit; {
		var page struct {
			Entries []store.TimelineEntry `json:"entries"`
			Next    string                `json:"nextPageToken"`
		}
		path := fmt.Sprintf("%s/timeline?pageSize=%d&pageToken=%s", clusterPath(k), min(limit-len(all), 500), url.QueryEscape(token))
		if err := r.call(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		known := slices.IndexFunc(page.Entries, func(e store.TimelineEntry) bool { return e.ID == after })
		if known >= 0 {
			page.Entries, page.Next = page.Entries[:known], ""
		}
		all = append(all, page.Entries...)
		if token = page.Next; token == "" {
			break
		}
	}
	slices.Reverse(all)
	return all, nil
}

// tail shows each entry of a timeline once.
type tail struct {
	remote *remote
	key    cluster.Key
	from   time.Time // entries from before are not shown
	last   string    // id of the last one seen
}

// tailAtOnce is how many entries a look reads at most; between two looks there are not more.
const tailAtOnce = 2000

func (t *tail) next(ctx context.Context) ([]store.TimelineEntry, error) {
	entries, err := t.remote.timeline(ctx, t.key, t.last, tailAtOnce)
	if len(entries) > 0 {
		t.last = entries[len(entries)-1].ID
	}
	return slices.DeleteFunc(entries, func(e store.TimelineEntry) bool { return e.At.Before(t.from) }), err
}

func (t *tail) show(ctx context.Context, a app) error {
	entries, err := t.next(ctx)
	t.print(a, entries)
	return err
}

func (t *tail) print(a app, entries []store.TimelineEntry) {
	p := painted(a.out)
	for _, e := range entries {
		a.print("%s\n", entryLine(p, e, t.key.ID))
		t.last = e.ID
	}
}

// entryLine is an entry for people: when, about what, and what. Names that the text says already are left out.
func entryLine(p paint, e store.TimelineEntry, id string) string {
	about := e.About
	if about == "" || strings.Contains(e.Text, about) {
		about = ""
	} else if at := strings.LastIndexByte(about, '/'); at >= 0 {
		about = about[at+1:]
	}
	if about == "" {
		about = id
	}
	text := e.Text
	if e.Problem != nil {
		text = p.yellow(text)
	}
	return p.dim(e.At.Local().Format("15:04:05.0")) + "  " + p.cyan(fmt.Sprintf("%-22s", about)) + " " + text
}
