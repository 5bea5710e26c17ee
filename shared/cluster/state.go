package cluster

import (
	"slices"
	"time"
)

// Phase is the state of a whole cluster, as the product's API names it.
type Phase string

// The phases of a cluster. Deleted is a tombstone's: the API shows such a cluster as not found.
const (
	PhaseNone         Phase = ""
	PhaseProvisioning Phase = "PROVISIONING"
	PhaseRunning      Phase = "RUNNING"
	PhaseUpdating     Phase = "UPDATING"
	PhaseStopping     Phase = "STOPPING"
	PhaseError        Phase = "ERROR"
	PhaseDeleted      Phase = "DELETED"
)

// Record is the cluster's own document: everything about it but its pools and nodes.
type Record struct {
	Key Key `json:"key"`
	// UID is the cluster's incarnation: two clusters of the same key have different ones. It is part of what every name and
	// requestId is derived from, so that a new cluster never meets its predecessor's resources or answers.
	UID            string      `json:"uid"`
	Spec           *Spec       `json:"spec,omitempty"`
	SpecGeneration int64       `json:"specGeneration,omitempty"`
	Phase          Phase       `json:"phase"`
	Problem        *Problem    `json:"problem,omitempty"`
	Conditions     []Condition `json:"conditions,omitempty"`
	Resources      []Resource  `json:"resources,omitempty"`
	Created        time.Time   `json:"created,omitzero"`
	Updated        time.Time   `json:"updated,omitzero"`
	Started        time.Time   `json:"started,omitzero"` // first time RUNNING
	// CreateOperation made this cluster, DeleteOperation is removing it.
	CreateOperation string    `json:"createOperation,omitempty"`
	DeleteOperation string    `json:"deleteOperation,omitempty"`
	DeleteRequested time.Time `json:"deleteRequested,omitzero"`
	// Emptied is when a cluster that is being deleted had lost everything that its records know of; only a complete look
	// after that shows that nothing is left.
	Emptied time.Time `json:"emptied,omitzero"`
	// Handled lists the operations that were carried to an end lately, the newest last, so that a late duplicate of a
	// request is told from a new one.
	Handled []string `json:"handled,omitempty"`
	// Swept is when the cloud was last searched for what nobody owns; Seen when the instances were last listed in full.
	Swept time.Time `json:"swept,omitzero"`
	Seen  time.Time `json:"seen,omitzero"`
	// Orphans are machines and groups of ours that no record knows, with when each was first seen.
	Orphans []Orphan `json:"orphans,omitempty"`
	// Events are the 100 most recent cluster_events.
	Events []Event `json:"events,omitempty"`
	// Expire is when a tombstone may be forgotten.
	Expire time.Time `json:"expire,omitzero"`
}

// Condition is one thing about a cluster that is so, is not so, or is not known, and why.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"` // True, False, Unknown
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since"`
}

// Event is one of the product's cluster_events.
type Event struct {
	Type    string    `json:"eventType"`
	Time    time.Time `json:"eventTime"`
	Message string    `json:"eventMessage"`
}

// OrphanKind is the kind of a thing that no record knows.
type OrphanKind string

// The kinds that are searched for.
const (
	OrphanInstance OrphanKind = "instance"
	OrphanGroup    OrphanKind = "group"
	OrphanTemplate OrphanKind = "template"
)

// Orphan is a thing in the cloud that carries our owner's mark and that no record knows.
type Orphan struct {
	Kind  OrphanKind `json:"kind"`
	Name  string     `json:"name"`
	Zone  string     `json:"zone,omitempty"`
	ID    uint64     `json:"id,omitempty"`
	Group string     `json:"group,omitempty"` // of an instance
	First time.Time  `json:"first"`
	Asked time.Time  `json:"asked,omitzero"`
}

// ResourceKind is a kind of cloud resource that the cluster itself needs, apart from its nodes.
type ResourceKind string

// The kinds, in the order in which creation goes.
const (
	KindNetwork    ResourceKind = "network"    // checked, never made
	KindSubnetwork ResourceKind = "subnetwork" // checked, never made
	KindFilestore  ResourceKind = "filestore"  // checked, never made; gives Address and Share
	KindSecret     ResourceKind = "secret"
	KindTemplate   ResourceKind = "template"
	KindDisk       ResourceKind = "disk"
	KindInstance   ResourceKind = "instance"
)

// Owned reports whether the cluster makes, and so removes, resources of this kind.
func (k ResourceKind) Owned() bool {
	return k != KindNetwork && k != KindSubnetwork && k != KindFilestore
}

// ResourcePhase is where a resource is.
type ResourcePhase string

// The phases of a resource.
const (
	ResourceWanted   ResourcePhase = "wanted"   // not yet looked at or asked for, or to be tried again
	ResourceCreating ResourcePhase = "creating" // asked for
	ResourceReady    ResourcePhase = "ready"    // there, and fit for use
	ResourceLeaving  ResourcePhase = "leaving"  // its removal has been asked for, or is to be
)

// ResourceRef names a resource: its kind and its name within the project (for networks, subnetworks and Filestore
// instances the full resource name). Zone is set for zonal kinds.
type ResourceRef struct {
	Kind ResourceKind `json:"kind"`
	Name string       `json:"name"`
	Zone string       `json:"zone,omitempty"`
}

// Resource is the record of one resource of the cluster itself.
type Resource struct {
	ResourceRef
	// Role says what it is for: munge, jwt, controller, login, the pool's id …
	Role  string        `json:"role"`
	Phase ResourcePhase `json:"phase"`
	Since time.Time     `json:"since"`
	Look  time.Time     `json:"look,omitzero"`
	// Operation is the long operation that is under way, as the service named it.
	Operation string   `json:"operation,omitempty"`
	Tries     int      `json:"tries,omitempty"`
	Problem   *Problem `json:"problem,omitempty"`
	Found     Found    `json:"found,omitzero"`
	// Generation rises with every new machine (instances only); Booted is when its agent reported a good start.
	Generation int64     `json:"generation,omitempty"`
	Booted     time.Time `json:"booted,omitzero"`
	// Confirmed is when it was last seen to exist.
	Confirmed time.Time `json:"confirmed,omitzero"`
}

// Found is what was learned of a resource by looking at it.
type Found struct {
	Link       string `json:"link,omitempty"`    // self link or resource name
	Address    string `json:"address,omitempty"` // Filestore: IPv4 address
	Share      string `json:"share,omitempty"`   // Filestore: name of the file share
	Network    string `json:"network,omitempty"` // Filestore: the network it is attached to
	Status     string `json:"status,omitempty"`  // as the service calls it
	InstanceID uint64 `json:"instanceId,omitempty"`
}

// State is a cluster, whole: what is wanted, what is recorded, and what Slurm last said.
type State struct {
	Record
	Pools map[string]*Pool
	// Nodes are the node records of each pool, sorted by index. A node that never had a machine may have no record.
	Nodes map[string][]Node
	// Slurm is the newest snapshot; nil when there has been none.
	Slurm *Snapshot
}

// NewState is a cluster of which nothing is known.
func NewState(k Key) *State {
	return &State{Record: Record{Key: k}, Pools: map[string]*Pool{}, Nodes: map[string][]Node{}}
}

// Pool is the record of a pool, made when there is none.
func (s *State) Pool(id string) *Pool {
	p := s.Pools[id]
	if p == nil {
		p = &Pool{ID: id}
		s.Pools[id] = p
	}
	return p
}

// Node finds a node's record; nil when there is none. The pointer is good until a record is added to the pool.
func (s *State) Node(id NodeID) *Node {
	nodes := s.Nodes[id.Pool]
	// Records are usually dense from 0, so that a node stands at its own index.
	if id.Index < len(nodes) && nodes[id.Index].Index == id.Index {
		return &nodes[id.Index]
	}
	at, found := slices.BinarySearchFunc(nodes, id.Index, func(n Node, i int) int { return n.Index - i })
	if !found {
		return nil
	}
	return &nodes[at]
}

// EnsureNode is the node's record, made when there is none. The pointer is good until another record is added to the pool.
func (s *State) EnsureNode(id NodeID) *Node {
	if n := s.Node(id); n != nil {
		return n
	}
	nodes := s.Nodes[id.Pool]
	at, _ := slices.BinarySearchFunc(nodes, id.Index, func(n Node, i int) int { return n.Index - i })
	s.Nodes[id.Pool] = slices.Insert(nodes, at, Node{Index: id.Index})
	return &s.Nodes[id.Pool][at]
}

// Name is the name of one of the cluster's nodes.
func (s *State) Name(id NodeID) string { return NodeName(s.Key.ID, id) }

// Owner is the mark that everything made for the cluster carries where it can carry one.
func (s *State) Owner() Owner { return Owner{Cluster: s.Key.ID, UID: s.UID} }

// Owner marks what belongs to a cluster's incarnation: as labels on what has labels, as a description on what has not.
type Owner struct {
	Cluster string
	UID     string
}

// The labels of everything that has labels.
const (
	LabelCluster = "convoke-cluster"
	LabelUID     = "convoke-uid"
	LabelPool    = "convoke-pool"
	LabelRole    = "convoke-role" // controller, login, compute
)

// Labels are the owner's labels.
func (o Owner) Labels() map[string]string {
	return map[string]string{LabelCluster: o.Cluster, LabelUID: o.UID}
}

// Description is the owner's mark on things without labels.
func (o Owner) Description() string { return "convoke cluster=" + o.Cluster + " uid=" + o.UID }

// Resource finds the resource of a kind and role; nil when there is none.
func (r *Record) Resource(kind ResourceKind, role string) *Resource {
	for i := range r.Resources {
		if r.Resources[i].Kind == kind && r.Resources[i].Role == role {
			return &r.Resources[i]
		}
	}
	return nil
}
