package gcp

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"cloud.google.com/go/filestore/apiv1/filestorepb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
)

// Server is a simulated Google Cloud. It is an [http.Handler] for the REST
// APIs and, below /sim/, for its own controls.
//
// One lock guards everything. Whoever takes it first carries out what has
// become due since, each thing at its own time, then does what it came for,
// and then saves, hands out what others must hear, and arms the one timer for
// the next thing due. There is no other goroutine, and no state that depends
// on when a timer really fired.
type Server struct {
	opts         Options
	machineTypes map[string]MachineType
	regionOf     map[string]string // of a zone
	mux          *http.ServeMux
	journal      *journal
	faults       *faults

	mu       sync.Mutex
	closed   bool
	now      time.Time     // what time it is for what is being done
	ahead    time.Duration // how far the file's time was ahead of the clock's
	timer    Timer
	timerAt  time.Time
	handlers map[string]func(task)
	file     *file
	tables   []table
	outbox   []letter
	waiters  map[string][]chan struct{} // by operation
	byID     map[string]string          // operation by requestId
	ended    []string                   // operations, in the order in which they ended
	stock    map[string]int             // VMs that hold capacity, by "ZONE/MACHINE_TYPE"
	used     map[string]int             // of quotas, by "REGION/METRIC"
	failures []*failure                 // that await the next resize requests
	inUse    map[string]map[string]bool // addresses, by subnetwork
	lastHost map[string]uint32          // that was given out, by subnetwork

	settings    settings
	agenda      *agenda
	networks    *collection[*computepb.Network, resourceState]
	subnetworks *collection[*computepb.Subnetwork, resourceState]
	templates   *collection[*computepb.InstanceTemplate, resourceState]
	disks       *collection[*computepb.Disk, resourceState]
	groups      *collection[*computepb.InstanceGroupManager, groupState]
	managed     *collection[*computepb.ManagedInstance, managedState]
	requests    *collection[*computepb.InstanceGroupManagerResizeRequest, requestState]
	instances   *collection[*computepb.Instance, instanceState]
	operations  *collection[*computepb.Operation, operationState]
	filestores  *collection[*filestorepb.Instance, resourceState]
	fileOps     *collection[*longrunningpb.Operation, fileOperationState]
	secrets     *collection[*secretmanagerpb.Secret, secretState]
	versions    *collection[*secretmanagerpb.SecretVersion, versionState]

	events   *courier
	machines *courier
}

// resourceState is what the service knows of an ordinary resource.
type resourceState struct {
	Creating  bool   // its insert operation has not finished
	Operation string // that deletes it
}

// New starts a simulated cloud. Close it when it is no longer needed.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	s := &Server{
		opts:         opts,
		machineTypes: map[string]MachineType{},
		regionOf:     map[string]string{},
		journal:      newJournal(),
		faults:       newFaults(opts.Clock),
		waiters:      map[string][]chan struct{}{},
		byID:         map[string]string{},
		stock:        map[string]int{},
		used:         map[string]int{},
		inUse:        map[string]map[string]bool{},
		lastHost:     map[string]uint32{},
		settings:     settings{Capacity: map[string]int{}, Quotas: map[string]int{}, Delays: *opts.Delays},
		agenda:       newAgenda(),
		networks:     newCollection[*computepb.Network, resourceState]("networks"),
		subnetworks:  newCollection[*computepb.Subnetwork, resourceState]("subnetworks"),
		templates:    newCollection[*computepb.InstanceTemplate, resourceState]("instanceTemplates"),
		disks:        newCollection[*computepb.Disk, resourceState]("disks"),
		groups:       newCollection[*computepb.InstanceGroupManager, groupState]("instanceGroupManagers"),
		managed:      newCollection[*computepb.ManagedInstance, managedState]("managedInstances"),
		requests:     newCollection[*computepb.InstanceGroupManagerResizeRequest, requestState]("resizeRequests"),
		instances:    newCollection[*computepb.Instance, instanceState]("instances"),
		operations:   newCollection[*computepb.Operation, operationState]("operations"),
		filestores:   newCollection[*filestorepb.Instance, resourceState]("filestoreInstances"),
		fileOps:      newCollection[*longrunningpb.Operation, fileOperationState]("filestoreOperations"),
		secrets:      newCollection[*secretmanagerpb.Secret, secretState]("secrets"),
		versions:     newCollection[*secretmanagerpb.SecretVersion, versionState]("secretVersions"),
		events:       newCourier(),
		machines:     newCourier(),
	}
	s.tables = []table{
		&s.settings, s.agenda, s.networks, s.subnetworks, s.templates, s.disks, s.groups, s.managed,
		s.requests, s.instances, s.operations, s.filestores, s.fileOps, s.secrets, s.versions,
	}
	for _, mt := range opts.MachineTypes {
		s.machineTypes[mt.Name] = mt
	}
	for region, zones := range opts.Regions {
		for _, zone := range zones {
			s.regionOf[zone] = region
		}
	}
	s.handlers = s.taskHandlers()
	s.mux = s.routes()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		if s.file != nil {
			err = errors.Join(err, s.file.close())
		}
		return nil, err
	}
	return s, nil
}

// begin loads the file, or sets up an empty project.
func (s *Server) begin() error {
	if s.opts.File != "" {
		f, err := openFile(s.opts.File)
		if err != nil {
			return err
		}
		s.file = f
		if err := f.load(s.tables); err != nil {
			return err
		}
	}
	now := s.opts.Clock.Now()
	s.ahead = max(0, s.settings.Now.Sub(now))
	s.now = s.settings.Now // what became due since is about to happen, at its time
	if s.settings.Now.IsZero() {
		s.now = now
		s.settings.Capacity = copyOf(s.opts.Capacity)
		s.settings.Quotas = copyOf(s.opts.Quotas)
		s.settings.dirty = true
		s.createDefaultNetwork()
	}
	if _, set := s.settings.Quotas[activeRequests]; !set {
		s.settings.Quotas[activeRequests] = 100
	}
	s.reindex()
	s.advance()
	for r := range s.instances.under("") {
		if r.Wire.GetStatus() == statusRunning && !r.State.Announced {
			s.announce(r, true)
		}
	}
	return s.settle()
}

// reindex rebuilds what follows from the tables.
func (s *Server) reindex() {
	for r := range s.operations.under("") {
		if r.State.RequestID != "" {
			s.byID[r.State.RequestID] = r.Key
		}
	}
	s.ended = s.endedOperations()
	for r := range s.instances.under("") {
		if r.State.Holds {
			s.count(r, 1)
		}
		s.holdAddresses(r)
		r.State.Announced = false // to the machines of this process
	}
}

// Close stops the simulated time, ends what is being waited for, and closes
// the file. Requests are answered with 503 from now on. It returns when the
// last call of Events and Machines has.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	for _, waiting := range s.waiters {
		for _, done := range waiting {
			close(done)
		}
	}
	clear(s.waiters)
	var err error
	if s.file != nil {
		err = s.file.close()
	}
	s.mu.Unlock()
	s.faults.close()
	s.events.close()
	s.machines.close()
	return err
}

// locked runs do with everything up to date and the lock held, and saves what
// it changed.
func (s *Server) locked(do func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return &apiError{status: http.StatusServiceUnavailable, reason: "backendError", message: "The simulated cloud is closed."}
	}
	s.advance()
	do()
	return s.settle()
}

// advance carries out what has become due.
func (s *Server) advance() {
	now := s.clockTime()
	for t := s.agenda.due(now); t != nil; t = s.agenda.due(now) {
		if t.At.After(s.now) {
			s.now = t.At
		}
		handle, known := s.handlers[t.Kind]
		if !known {
			s.opts.Logger.Error("the simulated cloud's file plans something unknown", "kind", t.Kind, "owner", t.Owner)
			continue
		}
		handle(*t)
	}
	s.now = now
}

// settle saves, hands out, and arms the timer.
func (s *Server) settle() error {
	defer s.arm()
	if err := s.save(); err != nil {
		s.opts.Logger.Error("the simulated cloud's state is not on disk", "error", err)
		return err
	}
	for _, l := range s.outbox {
		l.to.send(l.call)
	}
	s.outbox = nil
	return nil
}

func (s *Server) save() error {
	if s.file == nil {
		for _, t := range s.tables {
			t.saved()
		}
		return nil
	}
	if !s.unsaved() {
		return nil
	}
	s.settings.Now = s.now
	s.settings.dirty = true
	return s.file.save(s.tables)
}

func (s *Server) unsaved() bool {
	for _, t := range s.tables {
		if t.pending() {
			return true
		}
	}
	return false
}

func (s *Server) arm() {
	at, planned := s.agenda.nextAt()
	if s.timer != nil && planned && at.Equal(s.timerAt) {
		return
	}
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if !planned || s.closed {
		return
	}
	s.timerAt = at
	s.timer = s.opts.Clock.AfterFunc(max(0, at.Sub(s.opts.Clock.Now().Add(s.ahead))), s.wake)
}

// wake is what the timer calls.
func (s *Server) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.timer = nil
	s.advance()
	_ = s.settle() // logged there; tried again with the next change
}

// after plans a task.
func (s *Server) after(d time.Duration, kind, owner, arg string) {
	s.agenda.add(s.now.Add(d), kind, owner, arg)
}

func (s *Server) delays() Delays { return s.settings.Delays }

// Flush returns when every call of Events and Machines that is due has
// returned. It must not be called from within one.
func (s *Server) Flush() error {
	if err := s.locked(func() {}); err != nil {
		return err
	}
	s.events.wait()
	s.machines.wait()
	return nil
}

func copyOf(m map[string]int) map[string]int {
	out := make(map[string]int, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// Now is the simulated time.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clockTime()
}

// clockTime never goes back, although clocks may: what has happened has
// happened.
func (s *Server) clockTime() time.Time {
	now := s.opts.Clock.Now().Add(s.ahead)
	if now.Before(s.now) {
		return s.now
	}
	return now
}

func (s *Server) String() string { return fmt.Sprintf("simulated project %s", s.opts.Project) }
