// Package request reads what people ask for, as they write it: the bodies of the API's methods, or a bare spec that somebody
// published. It turns them into request events of the catalog. What may not live here: the rules of a spec (package
// spec), and any decision about whether a request can be met.
package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
)

// KeyOf says which cluster a spec is about. Each part is what is given beside the spec, else what the spec's name says,
// else the default; the id is at last the display name. (A name may end in a slash, with no id, and may give the
// project's number, which is no project id.)
func KeyOf(spec []byte, given, defaults cluster.Key) (cluster.Key, error) {
	var s struct {
		Name             string `json:"name"`
		DisplayName      string `json:"displayName"`
		DisplayNameSnake string `json:"display_name"`
	}
	if err := json.Unmarshal(spec, &s); err != nil {
		return cluster.Key{}, fmt.Errorf("the spec is not a JSON object, %w", err)
	}
	var named cluster.Key
	if p := strings.Split(s.Name, "/"); len(p) >= 5 && p[0] == "projects" && p[2] == "locations" {
		named.Location = p[3]
		if strings.Trim(p[1], "0123456789") != "" {
			named.Project = p[1]
		}
		if len(p) == 6 {
			named.ID = p[5]
		}
	}
	k := cluster.Key{
		Project:  first(given.Project, named.Project, defaults.Project),
		Location: first(given.Location, named.Location, defaults.Location),
		ID:       first(given.ID, named.ID, s.DisplayName, s.DisplayNameSnake),
	}
	if err := k.Validate(); err != nil {
		return cluster.Key{}, fmt.Errorf("the spec does not say which cluster it is about, %w", err)
	}
	return k, nil
}

func first(options ...string) string {
	for _, s := range options {
		if s != "" {
			return s
		}
	}
	return ""
}

// The attributes of a Pub/Sub message whose body is a bare spec. All of them may be missing.
const (
	attributeProject  = "project"
	attributeLocation = "location"
	attributeID       = "cluster-id"
	attributeShortID  = "id"
	attributeVerb     = "verb"
	attributeMask     = "update-mask"
	attributeMode     = "update-mode"
	attributeNode     = "node"
)

// FromMessage reads a Pub/Sub message whose body is a request's body as it is: the spec for create and update, what
// reportFaultyNodes takes, and nothing for delete. The message's id is the operation's.
func FromMessage(m events.Message, defaults cluster.Key) (*events.Event, error) {
	if m.ID == "" {
		return nil, errors.New("the message has no id, so a second delivery could not be told from a second request: " +
			"have the subscription write metadata, or send a CloudEvent")
	}
	verb := cluster.Verb(first(m.Attributes[attributeVerb], string(cluster.VerbCreate)))
	given := cluster.Key{
		Project: m.Attributes[attributeProject], Location: m.Attributes[attributeLocation],
		ID: first(m.Attributes[attributeID], m.Attributes[attributeShortID]),
	}
	body := bytes.TrimSpace(m.Data)
	if len(body) == 0 && verb != cluster.VerbCreate && verb != cluster.VerbUpdate {
		body = []byte("{}")
	}
	key, err := KeyOf(body, given, defaults)
	if err != nil {
		return nil, err
	}
	p, typ, err := payload(verb, key, body, m.Attributes)
	if err != nil {
		return nil, err
	}
	e := &events.Event{ID: m.ID, Source: "//pubsub.googleapis.com/" + events.TopicRequests, Type: typ, Time: cluster.Moment(m.Published), Payload: p}
	if _, err := e.CloudEvent(); err != nil { // held to the rules of the catalog
		return nil, err
	}
	return e, nil
}

func payload(verb cluster.Verb, key cluster.Key, body []byte, attributes map[string]string) (events.Payload, string, error) {
	switch verb {
	case cluster.VerbCreate:
		return &events.ClusterCreate{Cluster: key, Spec: body}, events.TypeClusterCreate, nil
	case cluster.VerbUpdate:
		return &events.ClusterUpdate{
			Cluster: key, Spec: body, UpdateMask: Mask(attributes[attributeMask]), UpdateMode: attributes[attributeMode],
		}, events.TypeClusterUpdate, nil
	case cluster.VerbDelete:
		return &events.ClusterDelete{Cluster: key}, events.TypeClusterDelete, nil
	case cluster.VerbReport:
		if node := attributes[attributeNode]; node != "" {
			return &events.ReportFaulty{Cluster: key, Node: node}, events.TypeReportFaulty, nil
		}
		report, err := Report(key, body)
		return report, events.TypeReportFaulty, err
	}
	return nil, "", fmt.Errorf("the attribute verb is %q, not create, update, delete or reportFaultyNodes", verb)
}

// Mask is an updateMask: field paths with commas between them.
func Mask(s string) []string {
	var mask []string
	for path := range strings.SplitSeq(s, ",") {
		if path = strings.TrimSpace(path); path != "" {
			mask = append(mask, path)
		}
	}
	return mask
}

// Report reads the body of reportFaultyNodes: one node, to be made anew or to have its host reported.
func Report(key cluster.Key, body []byte) (*events.ReportFaulty, error) {
	var r struct {
		NodeActions []struct {
			NodeID           string `json:"nodeId"`
			ReportFaultyHost *struct {
				FaultReasons []struct {
					Behavior    string `json:"behavior"`
					Description string `json:"description"`
				} `json:"faultReasons"`
			} `json:"reportFaultyHost"`
		} `json:"nodeActions"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("the body is not what reportFaultyNodes takes, %w", err)
	}
	if len(r.NodeActions) != 1 {
		return nil, fmt.Errorf("nodeActions: names %d nodes; report one at a time", len(r.NodeActions))
	}
	action := r.NodeActions[0]
	id, _, ok := cluster.ParseNodeName(action.NodeID)
	if !ok || id != key.ID {
		return nil, fmt.Errorf("nodeActions[0].nodeId: %q is not a node of cluster %s", action.NodeID, key.ID)
	}
	out := &events.ReportFaulty{Cluster: key, Node: action.NodeID}
	if action.ReportFaultyHost == nil {
		return out, nil
	}
	out.Host = true
	var reasons []string
	for i, f := range action.ReportFaultyHost.FaultReasons {
		switch f.Behavior {
		case "PERFORMANCE", "SILENT_DATA_CORRUPTION", "UNRECOVERABLE_GPU_ERROR", "BEHAVIOR_UNSPECIFIED", "":
		default:
			return nil, fmt.Errorf("nodeActions[0].reportFaultyHost.faultReasons[%d].behavior: %q is not PERFORMANCE, "+
				"SILENT_DATA_CORRUPTION or UNRECOVERABLE_GPU_ERROR", i, f.Behavior)
		}
		reasons = append(reasons, strings.TrimSuffix(first(f.Behavior, "BEHAVIOR_UNSPECIFIED")+": "+f.Description, ": "))
	}
	out.Reason = strings.Join(reasons, "; ")
	return out, nil
}
