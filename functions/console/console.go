// Package console is the function for people who want to see how their clusters are: a page of all of them, and one for each,
// with its nodes, allocations, jobs, and what was decided and why. Pages are plain HTML without scripts, and look again by
// themselves.
//
// It only reads. What may not live here: anything that changes a cluster, and who may look, which is decided in front of
// it.
package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

//go:embed pages
var pages embed.FS

// Store is what the console reads.
type Store interface {
	List(ctx context.Context, project, location, after string, limit int) ([]store.Listed, error)
	Timeline(ctx context.Context, key cluster.Key, before string, limit int) ([]store.TimelineEntry, error)
	Quarantined(ctx context.Context, limit int) ([]store.Quarantined, error)
}

// Config is what the function is made of. All fields but Base are needed.
type Config struct {
	Store Store
	// State is a cluster as it is kept, whole; store.ErrNoCluster when there is none.
	State func(ctx context.Context, key cluster.Key) (*cluster.State, error)
	// Base is the path under which the function is served, without a slash at its end: "" or "/console".
	Base string
	Now  func() time.Time
	Log  *slog.Logger
}

type console struct {
	Config
	pages  *template.Template
	style  template.CSS
	policy string
}

// How much of a thing a page shows.
const (
	clustersShown    = 200
	quarantinedShown = 20
	timelineShown    = 100
	rowsShown        = 200
)

// New makes the function.
func New(c Config) (http.Handler, error) {
	style, err := pages.ReadFile("pages/style.css")
	if err != nil {
		return nil, fmt.Errorf("reading the console's style, %w", err)
	}
	hash := sha256.Sum256(style)
	con := &console{
		Config: c,
		style:  template.CSS(style), //nolint:gosec // a file of ours, not input
		// Nothing but this one style sheet: no script, no image, no form, no frame, whatever a job may be called.
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}
	con.pages, err = template.New("").Funcs(template.FuncMap{
		"age": age, "time": clock, "phaseClass": phaseClass, "nodeClass": nodeClass, "conditionClass": conditionClass,
	}).ParseFS(pages, "pages/*.html")
	if err != nil {
		return nil, fmt.Errorf("reading the console's pages, %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", con.page(con.list))
	mux.HandleFunc("GET /clusters/{cluster}", con.page(con.cluster))
	mux.HandleFunc("/", con.page(func(r *http.Request) (view, error) {
		return view{}, &notFound{"There is no page " + r.URL.Path + "."}
	}))
	return mux, nil
}

// view is a page to be shown: its template, and what that is given.
type view struct {
	name string
	data any
}

// frame is what every page is given.
type frame struct {
	Title string
	Style template.CSS
	Base  string
	Now   time.Time
}

type notFound struct{ text string }

func (e *notFound) Error() string { return e.text }

func (c *console) frame(title string) frame {
	return frame{Title: title, Style: c.style, Base: c.Base, Now: cluster.Moment(c.Now())}
}

func (c *console) page(build func(*http.Request) (view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				c.Log.ErrorContext(r.Context(), "the console panicked", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				c.fail(w, http.StatusInternalServerError, "This page cannot be shown", "It is a fault of this service's, and has been logged.")
			}
		}()
		v, err := build(r)
		var missing *notFound
		switch {
		case errors.As(err, &missing):
			c.fail(w, http.StatusNotFound, "Not found", missing.text)
		case err != nil:
			c.Log.ErrorContext(r.Context(), "a page could not be made", "path", r.URL.Path, "error", err)
			c.fail(w, http.StatusServiceUnavailable, "Not now", "What this page shows could not be read: "+err.Error()+".")
		default:
			c.write(w, http.StatusOK, v)
		}
	}
}

func (c *console) fail(w http.ResponseWriter, status int, title, text string) {
	c.write(w, status, view{name: "error.html", data: struct {
		frame
		Text string
	}{c.frame(title), text}})
}

// write makes the whole page before it sends any of it, so that a page is there or is not.
func (c *console) write(w http.ResponseWriter, status int, v view) {
	var b bytes.Buffer
	if err := c.pages.ExecuteTemplate(&b, v.name, v.data); err != nil {
		c.Log.Error("a page's template failed", "page", v.name, "error", err)
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", c.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // whoever asked may be gone
}

func (c *console) list(r *http.Request) (view, error) {
	after := r.URL.Query().Get("after")
	if _, err := cluster.ParseKey(after); err != nil {
		after = ""
	}
	all, err := c.Store.List(r.Context(), "", "", after, clustersShown)
	if err != nil {
		return view{}, fmt.Errorf("listing clusters, %w", err)
	}
	aside, err := c.Store.Quarantined(r.Context(), quarantinedShown)
	if err != nil {
		return view{}, fmt.Errorf("listing what was put aside, %w", err)
	}
	data := struct {
		frame
		Clusters    []store.Listed
		Next        string
		Quarantined []store.Quarantined
	}{frame: c.frame("Clusters"), Quarantined: aside}
	for _, l := range all {
		if l.Phase != cluster.PhaseNone && l.Phase != cluster.PhaseDeleted {
			data.Clusters = append(data.Clusters, l)
		}
	}
	if len(all) == clustersShown {
		data.Next = all[len(all)-1].Key.Doc()
	}
	return view{name: "list.html", data: data}, nil
}

func (c *console) cluster(r *http.Request) (view, error) {
	key, err := cluster.ParseKey(r.PathValue("cluster"))
	if err != nil {
		return view{}, &notFound{"There is no such cluster: " + err.Error() + "."}
	}
	state, err := c.State(r.Context(), key)
	if errors.Is(err, store.ErrNoCluster) {
		return view{}, &notFound{"There is no cluster " + key.String() + "."}
	}
	if err != nil {
		return view{}, fmt.Errorf("reading cluster %s, %w", key, err)
	}
	before := r.URL.Query().Get("before")
	if events.OperationID(before) != before { // ids of all kinds are of the same safe characters
		before = ""
	}
	entries, err := c.Store.Timeline(r.Context(), key, before, timelineShown)
	if err != nil {
		return view{}, fmt.Errorf("reading the timeline of cluster %s, %w", key, err)
	}
	return view{name: "cluster.html", data: clusterPage(c.frame(key.ID), state, entries)}, nil
}

// age is how long ago something was, in the two largest units.
func age(now, since time.Time) string {
	if since.IsZero() {
		return ""
	}
	d := now.Sub(since)
	switch {
	case d < 0:
		return "0 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

func phaseClass(p cluster.Phase) string {
	switch p {
	case cluster.PhaseRunning:
		return "ready"
	case cluster.PhaseProvisioning, cluster.PhaseUpdating:
		return "coming"
	case cluster.PhaseStopping:
		return "going"
	case cluster.PhaseError:
		return "bad"
	}
	return "none"
}

func conditionClass(c cluster.Condition) string {
	switch {
	case strings.HasPrefix(c.Type, "PoolWaiting"): // the one kind that is good when it is not so
		return "waiting"
	case c.Status == "True":
		return "ready"
	case c.Status == "False":
		return "waiting"
	}
	return "none"
}
