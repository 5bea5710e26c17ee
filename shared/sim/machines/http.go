package machines

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/slurm"
	hostlist "github.com/convoke-hpc/convoke/shared/slurm"
)

// ControlPrefix is where Handler serves.
const ControlPrefix = "/sim/slurm/"

// maxBody is the largest request.
const maxBody = 1 << 20

// Span is a length of time, in JSON as Go writes it: "1h30m".
type Span time.Duration

// UnmarshalText reads "1h30m".
func (s *Span) UnmarshalText(b []byte) error {
	d, err := time.ParseDuration(string(b))
	*s = Span(d)
	return err
}

// MarshalText writes "1h30m0s".
func (s Span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// Request is the body of a control call. Each call reads the fields that it needs; what it does not know is refused.
type Request struct {
	// Submit.
	Name      string    `json:"name,omitempty"`
	User      string    `json:"user,omitempty"`
	Partition string    `json:"partition,omitempty"`
	Count     int       `json:"count,omitempty"` // of nodes
	TimeLimit Span      `json:"timeLimit,omitempty"`
	RunFor    Span      `json:"runFor,omitempty"`
	NoRequeue bool      `json:"noRequeue,omitempty"`
	WholeNode bool      `json:"wholeNode,omitempty"`
	Array     int       `json:"array,omitempty"`
	Begin     time.Time `json:"begin,omitzero"`
	Comment   string    `json:"comment,omitempty"`
	// Cancel, requeue.
	Job int64 `json:"job,omitempty"`
	// What is done to nodes: a hostlist, and the reason. For submit, the nodes that the job must have.
	Nodes  string `json:"nodes,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Faults and reports are about one machine.
	Node     string         `json:"node,omitempty"`
	Kind     FaultKind      `json:"kind,omitempty"`
	Delay    Span           `json:"delay,omitempty"`
	Times    int            `json:"times,omitempty"`
	Verdict  events.Verdict `json:"verdict,omitempty"`
	Check    string         `json:"check,omitempty"`
	Evidence string         `json:"evidence,omitempty"`
	Notice   string         `json:"notice,omitempty"`
	At       time.Time      `json:"at,omitzero"`
}

// NodeView is a node in the answer to nodes: with its state as scontrol and as sinfo write it.
type NodeView struct {
	slurm.Node
	Text  string `json:"text"`
	Short string `json:"short"`
}

// errBadRequest marks what the caller got wrong.
var errBadRequest = errors.New("cannot be read")

// Handler is the control of the simulated clusters and machines:
//
//	GET  /sim/slurm/                                  the clusters whose slurmctld runs
//	GET  /sim/slurm/CLUSTER/{jobs,nodes,faults}       as JSON
//	GET  /sim/slurm/CLUSTER/{squeue,sinfo}            as text
//	POST /sim/slurm/CLUSTER/submit                    {"partition", "count", "runFor", …}: {"job": 1}
//	POST /sim/slurm/CLUSTER/{cancel,requeue}          {"job"}
//	POST /sim/slurm/CLUSTER/{drain,down,resume,powerUp,powerDown}  {"nodes", "reason", "user"}
//	POST /sim/slurm/CLUSTER/{fault,clear}             {"node", "kind", "delay", "reason", "times"}
//	POST /sim/slurm/CLUSTER/health                    {"node", "verdict", "check", "evidence"}
//	POST /sim/slurm/CLUSTER/notice                    {"node", "notice", "at"}
//	POST /sim/slurm/CLUSTER/{hang,revive}             {"node"}
//
// CLUSTER is the cluster's id where that is enough to tell it, or its key as cluster.Key.Doc has it. Errors are {"error"}.
func (g *Guests) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ControlPrefix+"{$}", func(w http.ResponseWriter, _ *http.Request) { reply(w, g.Controllers(), nil) })
	look := func(name string, f func(w http.ResponseWriter, key cluster.Key, c *slurm.Controller)) {
		mux.HandleFunc("GET "+ControlPrefix+"{cluster}/"+name, func(w http.ResponseWriter, r *http.Request) {
			key, c, err := g.find(r.PathValue("cluster"))
			if err != nil {
				reply(w, nil, err)
				return
			}
			f(w, key, c)
		})
	}
	look("jobs", func(w http.ResponseWriter, _ cluster.Key, c *slurm.Controller) { reply(w, c.Jobs(), nil) })
	look("nodes", func(w http.ResponseWriter, _ cluster.Key, c *slurm.Controller) { reply(w, nodeViews(c), nil) })
	look("faults", func(w http.ResponseWriter, key cluster.Key, _ *slurm.Controller) { reply(w, g.Faults(key), nil) })
	look("squeue", func(w http.ResponseWriter, _ cluster.Key, c *slurm.Controller) { write(w, c.Squeue()) })
	look("sinfo", func(w http.ResponseWriter, _ cluster.Key, c *slurm.Controller) { write(w, c.Sinfo()) })
	for name, act := range g.acts() {
		mux.HandleFunc("POST "+ControlPrefix+"{cluster}/"+name, func(w http.ResponseWriter, r *http.Request) {
			answer, err := g.act(r, act)
			reply(w, answer, err)
		})
	}
	return mux
}

// act is what a POST does. The answer nil is {}.
type act func(key cluster.Key, c *slurm.Controller, q *Request) (any, error)

func (g *Guests) acts() map[string]act {
	plain := func(f func(key cluster.Key, c *slurm.Controller, q *Request) error) act {
		return func(key cluster.Key, c *slurm.Controller, q *Request) (any, error) { return nil, f(key, c, q) }
	}
	onNodes := func(f func(c *slurm.Controller, nodes []string, q *Request) error) act {
		return plain(func(_ cluster.Key, c *slurm.Controller, q *Request) error {
			nodes, err := hostlist.ExpandHostlist(q.Nodes)
			if err != nil || len(nodes) == 0 {
				return fmt.Errorf("nodes %q %w: %w", q.Nodes, errBadRequest, cmp.Or(err, error(slurm.ErrNodeName)))
			}
			return f(c, nodes, q)
		})
	}
	return map[string]act{
		"submit":  submit,
		"cancel":  plain(func(_ cluster.Key, c *slurm.Controller, q *Request) error { return c.Cancel(q.Job) }),
		"requeue": plain(func(_ cluster.Key, c *slurm.Controller, q *Request) error { return c.Requeue(q.Job) }),
		"drain": onNodes(func(c *slurm.Controller, nodes []string, q *Request) error {
			return c.Drain(nodes, q.Reason, cmp.Or(q.User, "admin"))
		}),
		"down": onNodes(func(c *slurm.Controller, nodes []string, q *Request) error {
			return c.Down(nodes, q.Reason, cmp.Or(q.User, "admin"))
		}),
		"resume":    onNodes(func(c *slurm.Controller, nodes []string, _ *Request) error { return c.Resume(nodes) }),
		"powerUp":   onNodes(func(c *slurm.Controller, nodes []string, _ *Request) error { return c.PowerUp(nodes) }),
		"powerDown": onNodes(func(c *slurm.Controller, nodes []string, _ *Request) error { return c.PowerDownForce(nodes) }),
		"fault": plain(func(key cluster.Key, _ *slurm.Controller, q *Request) error {
			return g.Inject(key, Fault{Node: q.Node, Kind: q.Kind, Delay: time.Duration(q.Delay), Reason: q.Reason, Times: q.Times})
		}),
		"clear": plain(func(key cluster.Key, _ *slurm.Controller, q *Request) error { g.Clear(key, q.Node); return nil }),
		"health": plain(func(key cluster.Key, _ *slurm.Controller, q *Request) error {
			return g.Report(key, q.Node, q.Verdict, q.Check, q.Evidence)
		}),
		"notice": plain(func(key cluster.Key, _ *slurm.Controller, q *Request) error {
			return g.Notify(key, q.Node, q.Notice, q.At)
		}),
		"hang":   plain(func(key cluster.Key, _ *slurm.Controller, q *Request) error { return g.Hang(key, q.Node) }),
		"revive": plain(func(key cluster.Key, _ *slurm.Controller, q *Request) error { return g.Revive(key, q.Node) }),
	}
}

func submit(_ cluster.Key, c *slurm.Controller, q *Request) (any, error) {
	nodes, err := hostlist.ExpandHostlist(q.Nodes)
	if err != nil {
		return nil, fmt.Errorf("nodes %q %w: %w", q.Nodes, errBadRequest, err)
	}
	id, err := c.Submit(slurm.JobSpec{
		Name: q.Name, User: q.User, Partition: q.Partition, Nodes: q.Count, TimeLimit: time.Duration(q.TimeLimit),
		RunFor: time.Duration(q.RunFor), NoRequeue: q.NoRequeue, WholeNode: q.WholeNode, Array: q.Array, Begin: q.Begin,
		NodeList: nodes, Comment: q.Comment,
	})
	return map[string]int64{"job": id}, err
}

func (g *Guests) act(r *http.Request, act act) (any, error) {
	key, c, err := g.find(r.PathValue("cluster"))
	if err != nil {
		return nil, err
	}
	q := new(Request)
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(q); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the request %w: %w", errBadRequest, err)
	}
	return act(key, c, q)
}

// find is the cluster of that id or key, whose slurmctld must run.
func (g *Guests) find(name string) (cluster.Key, *slurm.Controller, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var found []cluster.Key
	for key := range g.controllers {
		if key.ID == name || key.Doc() == name || key.String() == name {
			found = append(found, key)
		}
	}
	switch len(found) {
	case 0:
		return cluster.Key{}, nil, fmt.Errorf("controller of cluster %q: %w", name, ErrNotRunning)
	case 1:
		return found[0], g.controllers[found[0]].Controller, nil
	}
	return cluster.Key{}, nil, fmt.Errorf("cluster %q %w: there are %d of that id, such as %s", name, errBadRequest, len(found), found[0].Doc())
}

func nodeViews(c *slurm.Controller) []NodeView {
	nodes := c.Nodes()
	out := make([]NodeView, len(nodes))
	for i, n := range nodes {
		out[i] = NodeView{Node: n, Text: n.String(), Short: n.Short()}
	}
	return out
}

func write(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text)
}

func reply(w http.ResponseWriter, answer any, err error) {
	status := http.StatusOK
	var refusal slurm.Refusal
	switch {
	case err == nil:
	case errors.Is(err, ErrNotRunning):
		status = http.StatusNotFound
	case errors.As(err, &refusal) && !errors.Is(err, errBadRequest):
		status = http.StatusConflict // slurmctld understood, and says no
	default:
		status = http.StatusBadRequest
	}
	if err != nil {
		answer = map[string]string{"error": err.Error()}
	} else if answer == nil {
		answer = struct{}{}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}
