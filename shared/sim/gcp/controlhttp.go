package gcp

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// controlRoutes are the controls over HTTP: the methods of Server, as JSON.
func (s *Server) controlRoutes(mux *http.ServeMux) {
	control := func(pattern string, do func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			out, err := do(r)
			if err != nil {
				var e *apiError
				if !errors.As(err, &e) {
					err = invalid("%v", err)
				}
				respondError(w, r, err)
				return
			}
			w.Header().Set("Content-Type", "application/json; charset=UTF-8")
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			_ = enc.Encode(out) // the client has gone; there is nobody to tell
		})
	}
	control("GET /sim/summary", func(*http.Request) (any, error) { return s.Summarize() })
	control("GET /sim/leftovers", func(*http.Request) (any, error) {
		sum, err := s.Summarize()
		return append([]string{}, sum.Leftovers()...), err
	})
	control("GET /sim/journal", func(r *http.Request) (any, error) {
		return append([]Request{}, s.Journal(r.URL.Query()["method"]...)...), nil
	})
	control("GET /sim/counts", func(*http.Request) (any, error) { return s.Counts(), nil })
	control("DELETE /sim/journal", func(*http.Request) (any, error) {
		s.ForgetRequests()
		return done, nil
	})
	s.controlSettings(control)
	control("POST /sim/faults", func(r *http.Request) (any, error) {
		var in faultJSON
		if err := readJSON(r, &in); err != nil {
			return nil, err
		}
		f, err := in.fault()
		if err != nil {
			return nil, err
		}
		return map[string]int{"fault": s.AddFault(f)}, nil
	})
	control("DELETE /sim/faults", func(*http.Request) (any, error) {
		s.ClearFaults()
		return done, nil
	})
	control("DELETE /sim/faults/{fault}", func(r *http.Request) (any, error) {
		number, err := strconv.Atoi(r.PathValue("fault"))
		if err != nil || !s.RemoveFault(number) {
			return nil, notFound("sim/faults/" + r.PathValue("fault"))
		}
		return done, nil
	})
	control("POST /sim/freeze/{kind}", func(r *http.Request) (any, error) { return done, s.Freeze(r.PathValue("kind")) })
	control("POST /sim/thaw/{kind}", func(r *http.Request) (any, error) { return done, s.Thaw(r.PathValue("kind")) })
	control("POST /sim/zones/{zone}/instances/{instance}/{what}", s.befallOverHTTP)
	control("POST /sim/zones/{zone}/instanceGroupManagers/{group}/resizeRequests/{request}/fail", func(r *http.Request) (any, error) {
		in := struct{ Code, Message string }{"INTERNAL_ERROR", "A planned failure."}
		if err := readJSON(r, &in); err != nil {
			return nil, err
		}
		return done, s.FailRequest(r.PathValue("zone"), r.PathValue("group"), r.PathValue("request"), in.Code, in.Message)
	})
}

var done = struct {
	Done bool `json:"done"`
}{true}

func (s *Server) controlSettings(control func(string, func(*http.Request) (any, error))) {
	control("PUT /sim/capacity", func(r *http.Request) (any, error) {
		var in struct {
			Zone, MachineType string
			VMs               *int
		}
		if err := readJSON(r, &in); err != nil {
			return nil, err
		}
		if in.VMs == nil {
			return nil, missingField("vms")
		}
		return done, s.SetCapacity(in.Zone, in.MachineType, *in.VMs)
	})
	control("PUT /sim/quotas", func(r *http.Request) (any, error) {
		var in map[string]int
		if err := readJSON(r, &in); err != nil {
			return nil, err
		}
		for _, metric := range sortedKeys(in) {
			if err := s.SetQuota(metric, in[metric]); err != nil {
				return nil, err
			}
		}
		return done, nil
	})
	control("GET /sim/delays", func(*http.Request) (any, error) {
		var d Delays
		err := s.locked(func() { d = s.settings.Delays })
		return d, err
	})
	control("PUT /sim/delays", func(r *http.Request) (any, error) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		err = json.Unmarshal(text, &Delays{}) // before any is changed
		if err != nil {
			return nil, err
		}
		return done, s.SetDelays(func(d *Delays) { _ = json.Unmarshal(text, d) }) // checked above
	})
}

// befallOverHTTP does to an instance what the last part of the path says.
func (s *Server) befallOverHTTP(r *http.Request) (any, error) {
	zone, name := r.PathValue("zone"), r.PathValue("instance")
	switch r.PathValue("what") {
	case "preempt":
		return done, s.Preempt(zone, name)
	case "failHost":
		return done, s.FailHost(zone, name)
	case "endLease":
		return done, s.EndLease(zone, name)
	case "powerOff":
		return done, s.PowerOff(zone, name)
	case "vanish":
		return done, s.Vanish(zone, name)
	case "deleteByHand":
		return done, s.DeleteByHand(zone, name)
	case "terminateForMaintenance":
		return done, s.TerminateForMaintenance(zone, name)
	case "maintain":
		var m Maintenance
		if err := readJSON(r, &m); err != nil {
			return nil, err
		}
		return done, s.Maintain(zone, name, m)
	}
	return nil, notFound(r.URL.Path)
}

// faultJSON is a Fault whose latency is a duration string.
type faultJSON struct {
	Fault
	Latency string `json:"latency"`
}

func (f faultJSON) fault() (Fault, error) {
	out := f.Fault
	if f.Latency != "" {
		d, err := time.ParseDuration(f.Latency)
		if err != nil {
			return Fault{}, invalidField("latency", f.Latency, "Must be a duration, such as 250ms.")
		}
		out.Latency = d
	}
	return out, nil
}

// readJSON reads a body. An empty one changes nothing; unknown fields are
// refused, since a control that is misspelled would do nothing.
func readJSON(r *http.Request, into any) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return invalid("The body cannot be read: %v.", err)
	}
	return nil
}
