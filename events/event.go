package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

// ErrUnknownType says that the type is not in the catalog. Not a fault of the sender's, who may be newer than we are.
var ErrUnknownType = errors.New("not a kind of event that is known here")

// Payload is what an event says: a pointer to one of this package's types.
type Payload interface {
	// Key is the cluster that the event is about; zero for a tick, which is about all of them.
	Key() cluster.Key
	// check brings the payload into its normal form (times as cluster.Moment has them, short node names, texts within
	// their bounds) and notes every fault.
	check(f *faults)
}

// Event is an event of the catalog: its envelope, and what it says.
type Event struct {
	ID      string
	Source  string
	Type    string
	Time    time.Time
	Payload Payload
}

// Key is the cluster that the event is about; zero for a tick.
func (e *Event) Key() cluster.Key { return e.Payload.Key() }

// Kind is one line of the catalog.
type Kind struct {
	Type  string
	Topic string
	// New makes an empty payload of the kind.
	New func() Payload
}

// The topics.
const (
	TopicRequests  = "cluster-requests"
	TopicSlurm     = "slurm-events"
	TopicInstances = "instance-events"
	TopicTicks     = "ticks"
	TopicCommands  = "slurm-commands"
)

// Catalog is every kind there is, in the order of package doc's table. Kinds without a topic never leave the inbox.
func Catalog() []Kind {
	return []Kind{
		{TypeClusterCreate, TopicRequests, func() Payload { return new(ClusterCreate) }},
		{TypeClusterUpdate, TopicRequests, func() Payload { return new(ClusterUpdate) }},
		{TypeClusterDelete, TopicRequests, func() Payload { return new(ClusterDelete) }},
		{TypeReportFaulty, TopicRequests, func() Payload { return new(ReportFaulty) }},
		{TypeNodesResume, TopicSlurm, func() Payload { return new(NodesResume) }},
		{TypeNodesSuspend, TopicSlurm, func() Payload { return new(NodesSuspend) }},
		{TypeNodesResumeFailed, TopicSlurm, func() Payload { return new(NodesResumeFailed) }},
		{TypeSlurmSnapshot, TopicSlurm, func() Payload { return new(SlurmSnapshot) }},
		{TypeCommandDone, TopicSlurm, func() Payload { return new(CommandDone) }},
		{TypeNodeBoot, TopicSlurm, func() Payload { return new(NodeBoot) }},
		{TypeNodeHealth, TopicSlurm, func() Payload { return new(NodeHealth) }},
		{TypeNodeNotice, TopicSlurm, func() Payload { return new(NodeNotice) }},
		{TypeInstanceLost, TopicInstances, func() Payload { return new(InstanceLost) }},
		{TypeTick, TopicTicks, func() Payload { return new(Tick) }},
		{TypeClusterWake, TopicTicks, func() Payload { return new(ClusterWake) }},
		{TypeSlurmCommand, TopicCommands, func() Payload { return new(SlurmCommand) }},
		{TypeSlurmChanged, "", func() Payload { return new(SlurmChanged) }},
	}
}

// Read reads the payload of an event of that type. It fails with ErrUnknownType or with *Invalid.
func Read(typ string, data []byte) (Payload, error) {
	kinds := Catalog()
	at := slices.IndexFunc(kinds, func(k Kind) bool { return k.Type == typ })
	if at < 0 {
		return nil, fmt.Errorf("%q: %w", typ, ErrUnknownType)
	}
	if len(data) == 0 {
		data = []byte("{}") // a tick has nothing to say; for the others this is then a list of what is missing
	}
	p := kinds[at].New()
	if err := json.Unmarshal(data, p); err != nil {
		return nil, &Invalid{Type: typ, Faults: jsonFaults(data, kinds[at].New, err)}
	}
	return p, validate(typ, p)
}

// Decode reads a CloudEvent of the catalog. It fails with ErrUnknownType, or with *Invalid, which lists all faults.
func Decode(e ce.Event) (*Event, error) {
	p, err := Read(e.Type(), e.Data())
	if err != nil {
		return nil, err
	}
	if e.ID() == "" || e.Source() == "" {
		return nil, &Invalid{Type: e.Type(), Faults: []string{"id, source: an event without them cannot be told from another"}}
	}
	return &Event{ID: e.ID(), Source: e.Source(), Type: e.Type(), Time: cluster.Moment(e.Time()), Payload: p}, nil
}

// CloudEvent is the event as a CloudEvent. What this process says is held to the same rules as what it is told.
func (e *Event) CloudEvent() (ce.Event, error) {
	if err := validate(e.Type, e.Payload); err != nil {
		return ce.Event{}, err
	}
	out := ce.New()
	out.SetID(e.ID)
	out.SetType(e.Type)
	out.SetSource(e.Source)
	out.SetTime(e.Time)
	if k := e.Key(); !k.IsZero() {
		out.SetSubject(k.String())
	}
	if err := out.SetData(ce.ApplicationJSON, e.Payload); err != nil {
		return ce.Event{}, fmt.Errorf("writing %s as JSON, %w", e.Type, err)
	}
	if err := out.Validate(); err != nil {
		return ce.Event{}, fmt.Errorf("making a CloudEvent of %s, %w", e.Type, err)
	}
	return out, nil
}

// ToInbox is the event as it is posted to its cluster.
func ToInbox(e *Event, received time.Time) (store.Event, error) {
	data, err := json.Marshal(e.Payload)
	if err != nil {
		return store.Event{}, fmt.Errorf("writing %s as JSON, %w", e.Type, err)
	}
	return store.Event{
		ID:       InboxID(e.Type, e.Source, e.ID),
		Type:     e.Type,
		Time:     cluster.Moment(e.Time),
		Data:     data,
		Received: cluster.Moment(received),
	}, nil
}
