package spec

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/slurm"
)

// checker holds a spec that was read against the rules that go beyond a single field, and fills in what was left out.
// Each rule is a method that is named for what it is about.
type checker struct {
	*reader
	spec *cluster.Spec
	key  cluster.Key
}

func (c *checker) check(o Options) {
	c.guess(&o)
	c.identity(o)
	c.network()
	c.poolIDs()
	c.defaultZone()
	for i := range c.spec.NodePools {
		p := poolChecker{checker: c, pool: &c.spec.NodePools[i], path: at("nodePools", i)}
		p.check()
	}
	c.clusterSize()
	c.loginPool()
	c.partitions()
	c.nodeSets()
	c.nodeFigures()
	c.storageRegion()
	c.olderSettings()
	c.lustreExport()
}

// fault says what is wrong at a canonical path, unless something is said of it already.
func (c *checker) fault(path, problem, allowed string) { c.refuseAt(path, problem, allowed, true) }

// at is a canonical path: at("nodePools", 1, "zone").
func at(parts ...any) string {
	path := ""
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			path += "[" + strconv.Itoa(p) + "]"
		case string:
			path = join(path, p)
		}
	}
	return path
}

// guess takes the parts of the key that nothing states from what the spec uses.
func (c *checker) guess(o *Options) {
	if !o.Guess {
		return
	}
	project, location, _ := cutName(c.spec.Name)
	if home := strings.Split(c.spec.OrchestratorSpec.SlurmSpec.HomeDirectoryStorage, "/"); o.Key.Project == "" && project == "" && len(home) == 6 {
		o.Key.Project = home[1]
	}
	for _, p := range c.spec.NodePools {
		if region := cluster.Region(p.Zone); o.Key.Location == "" && location == "" && region != "" {
			o.Key.Location = region
		}
	}
}

var (
	projectID     = regexp.MustCompile(`^([a-z0-9][a-z0-9.-]{0,62}:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	projectNumber = regexp.MustCompile(`^[0-9]+$`)
	region        = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+$`)
	clusterID     = regexp.MustCompile(`^[a-z][a-z0-9]{0,9}$`)
)

const (
	clusterIDForm = "1 to 10 lowercase letters and digits, beginning with a letter"
	projectForms  = "a project id: 6 to 30 lowercase letters, digits and hyphens"
)

// identity finds the cluster's project, location and id, and gives the spec its full name.
func (c *checker) identity(o Options) {
	if at := c.places["name"]; at != nil && at.bad {
		return
	}
	project, location, id := cutName(c.spec.Name)
	// The API names projects by number; the id is then known from elsewhere, and the two cannot be compared.
	if projectNumber.MatchString(project) && o.Key.Project != "" {
		project = o.Key.Project
	}
	var missing []string
	for _, part := range [][3]string{{"project", o.Key.Project, project}, {"location", o.Key.Location, location}} {
		if part[1] == "" && part[2] == "" {
			missing = append(missing, part[0])
		}
	}
	if len(missing) > 0 {
		c.fault("name", "does not give the "+strings.Join(missing, " and the ")+", and nothing else does", "projects/PROJECT/locations/LOCATION/modelDevelopmentClusters/ID")
	}
	c.key = cluster.Key{
		Project:  c.agreed("project", o.Key.Project, project, projectID, projectForms),
		Location: c.agreed("location", o.Key.Location, location, region, "a region such as us-central1"),
	}
	switch {
	case o.Key.ID != "" || id != "":
		c.key.ID = c.agreed("id", o.Key.ID, id, clusterID, clusterIDForm)
	case clusterID.MatchString(c.spec.DisplayName):
		c.key.ID = c.spec.DisplayName
	case c.spec.DisplayName == "":
		c.fault("displayName", "is missing, and nothing else gives the cluster's id", clusterIDForm)
	default:
		c.fault("displayName", shown(c.spec.DisplayName)+" cannot be the cluster's id, and nothing else gives it", "an id in name, or "+clusterIDForm)
	}
	c.spec.Name = c.key.String()
}

// agreed is one part of the cluster's name, of which what is known from outside and what the spec's name says must not
// differ.
func (c *checker) agreed(what, outside, inside string, form *regexp.Regexp, allowed string) string {
	switch {
	case outside != "" && !form.MatchString(outside):
		c.add(found{Fault: Fault{Problem: "the " + what + " given outside the spec is " + shown(outside), Allowed: allowed}, beyond: true})
	case outside != "" && inside != "" && outside != inside:
		c.fault("name", "names the "+what+" "+shown(inside), outside+", as given outside the spec")
	case inside != "" && !form.MatchString(inside):
		c.fault("name", "has the "+what+" "+shown(inside), allowed)
	}
	return cmp.Or(outside, inside)
}

// cutName takes the spec's name apart. Its form has been checked; each part may be empty.
func cutName(name string) (project, location, id string) {
	p := strings.Split(name, "/")
	if len(p) < 5 {
		return "", "", ""
	}
	if len(p) > 5 {
		id = p[5]
	}
	return p[1], p[3], id
}

// network fills in the default network, and keeps a subnetwork to the cluster's region.
func (c *checker) network() {
	n := &c.spec.Network
	if n.Network == "" && !c.ok("network") {
		n.Network = "projects/" + c.key.Project + "/global/networks/default"
	}
	if parts := strings.Split(n.Subnetwork, "/"); len(parts) == 6 && parts[3] != c.key.Location && c.key.Location != "" {
		c.fault("network.subnetwork", "is in "+parts[3], "a subnetwork in "+c.key.Location+", where the cluster is")
	}
}

// poolIDs keeps pool ids apart from each other and from the controller. Nothing more is needed for node names: a cluster
// id has no hyphen and an index has none, so that CLUSTER-POOL-INDEX can only be read in one way.
func (c *checker) poolIDs() {
	seen := map[string]bool{}
	for i, p := range c.spec.NodePools {
		path := at("nodePools", i, "id")
		switch {
		case p.ID == "":
		case p.ID == "controller":
			c.fault(path, `"controller" is the name of the controller`, "another id")
		case seen[p.ID]:
			c.fault(path, shown(p.ID)+" is the id of another pool", "a different id for each pool")
		}
		seen[p.ID] = true
	}
}

// clusterSize bounds the whole cluster.
func (c *checker) clusterSize() {
	total := 0
	for _, p := range c.spec.NodePools {
		total += p.ScalingSpec.MaxNodeCount
	}
	if total > MaxNodes {
		c.fault("nodePools", "have "+strconv.Itoa(total)+" nodes together", "at most "+strconv.Itoa(MaxNodes))
	}
}

// poolRef checks a reference to a pool, which must be there and compute. When a pool's id could not be read nothing can
// be said.
func (c *checker) poolRef(path, id string) {
	if id == "" || !c.poolsKnown() {
		return
	}
	switch {
	case c.spec.Pool(id) == nil:
		c.fault(path, "there is no pool "+shown(id), choiceOf(c.computePools()))
	case c.spec.IsLogin(id):
		c.fault(path, shown(id)+" is the login pool, on which no jobs run", choiceOf(c.computePools()))
	}
}

func (c *checker) poolsKnown() bool {
	return c.ok("nodePools") && !slices.ContainsFunc(c.spec.NodePools, func(p cluster.NodePool) bool { return p.ID == "" })
}

func (c *checker) computePools() []string {
	var ids []string
	for _, p := range c.spec.NodePools {
		if !c.spec.IsLogin(p.ID) {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// choiceOf lists what there is to choose from; a long list is cut.
func choiceOf(names []string) string {
	const most = 20
	switch {
	case len(names) == 0:
		return ""
	case len(names) > most:
		return "one of " + strings.Join(names[:most], ", ") + " …"
	}
	return choice(names)
}

// loginPool: people's sessions live there, so it neither shrinks nor runs out.
func (c *checker) loginPool() {
	id := c.spec.Slurm().LoginNodePoolID
	if id == "" || !c.poolsKnown() {
		return
	}
	i := slices.IndexFunc(c.spec.NodePools, func(p cluster.NodePool) bool { return p.ID == id })
	if i < 0 {
		var ids []string
		for _, p := range c.spec.NodePools {
			ids = append(ids, p.ID)
		}
		c.fault("orchestratorSpec.slurmSpec.loginNodePoolId", "there is no pool "+shown(id), choiceOf(ids))
		return
	}
	pool := &c.spec.NodePools[i]
	switch low, high := pool.ScalingSpec.MinNodeCount, pool.ScalingSpec.MaxNodeCount; {
	case low > high: // said of every pool
	case low != high:
		c.fault(at("nodePools", i, "scalingSpec", "minNodeCount"), "is "+strconv.Itoa(low)+" of at most "+strconv.Itoa(high)+" nodes",
			"the same minimum and maximum, since this is the login pool")
	case low == 0:
		c.fault(at("nodePools", i, "scalingSpec", "minNodeCount"), "is 0", "at least 1, since this is the login pool")
	}
	if pool.ProvisioningModel == cluster.FlexStart {
		c.fault(at("nodePools", i, "provisioningModel"), "FLEX_START machines end after some days, with whoever is logged in", "ON_DEMAND, RESERVATION or SPOT, since this is the login pool")
	}
}

// partitions have ids of their own and consist of compute pools; the default one is one of them.
func (c *checker) partitions() {
	const base = "orchestratorSpec.slurmSpec"
	s := c.spec.Slurm()
	seen := map[string]bool{}
	var ids []string
	for i, p := range s.Partitions {
		path := at(base, "partitions", i, "id")
		switch {
		case strings.EqualFold(p.ID, "default"):
			c.fault(path, shown(p.ID)+" stands for every partition in slurm.conf", "another id")
		case p.ID != "" && seen[p.ID]:
			c.fault(path, shown(p.ID)+" is the id of another partition", "a different id for each partition")
		}
		seen[p.ID] = true
		ids = append(ids, p.ID)
		for j, pool := range p.NodePoolIDs {
			c.poolRef(at(base, "partitions", i, "nodePoolIds", j), pool)
		}
	}
	if s.DefaultPartitionID != "" && !seen[s.DefaultPartitionID] && !seen[""] {
		c.fault(base+".defaultPartitionId", "there is no partition "+shown(s.DefaultPartitionID), choiceOf(ids))
	}
}

// nodeSets: at most one for a compute pool.
func (c *checker) nodeSets() {
	seen := map[string]bool{}
	for i, n := range c.spec.Slurm().NodeSets {
		path := at("orchestratorSpec.slurmSpec.nodeSets", i, "nodePoolId")
		c.poolRef(path, n.NodePoolID)
		if n.NodePoolID != "" && seen[n.NodePoolID] {
			c.fault(path, "pool "+shown(n.NodePoolID)+" has another node set", "one for each pool")
		}
		seen[n.NodePoolID] = true
	}
}

// nodeFigures: Slurm must be told of a node's CPUs and memory before there is a node. For a machine type that is not in
// the catalog its pool's node set must say them.
func (c *checker) nodeFigures() {
	if !c.poolsKnown() {
		return
	}
	for i, p := range c.spec.NodePools {
		if p.MachineSpec.MachineType == "" || c.spec.IsLogin(p.ID) || slurm.GPUFamily(p.MachineSpec.MachineType) {
			continue
		}
		if _, ok := slurm.LookupMachine(p.MachineSpec.MachineType); ok {
			continue
		}
		stated := slices.ContainsFunc(c.spec.Slurm().NodeSets, func(n cluster.NodeSet) bool {
			return n.NodePoolID == p.ID && n.Config["CPUs"] != "" && n.Config["RealMemory"] != ""
		})
		if !stated {
			c.fault(at("nodePools", i, "machineSpec", "machineType"), "the CPUs and memory of "+shown(p.MachineSpec.MachineType)+" are not known, and Slurm needs them before there is a node",
				"an n2 machine type, or a node set for the pool whose config gives CPUs and RealMemory")
		}
	}
}

// storageRegion keeps what is mounted in the cluster's region.
func (c *checker) storageRegion() {
	c.inRegion("orchestratorSpec.slurmSpec.homeDirectoryStorage", c.spec.Slurm().HomeDirectoryStorage)
	for i, p := range c.spec.NodePools {
		for j, name := range p.Filestores {
			c.inRegion(at("nodePools", i, "filestores", j), name)
		}
		for j, name := range p.Lustres {
			c.inRegion(at("nodePools", i, "lustres", j), name)
		}
	}
}

func (c *checker) inRegion(path, name string) {
	parts := strings.Split(name, "/")
	if len(parts) == 6 && c.key.Location != "" && cluster.Region(parts[3]) != c.key.Location {
		c.fault(path, "is in "+parts[3], "an instance in "+c.key.Location+" or one of its zones, where the cluster is")
	}
}

// olderSettings: config supersedes scheduling and accounting and is refused together with them. What they set is held
// against the same table of parameters.
func (c *checker) olderSettings() {
	const base = "orchestratorSpec.slurmSpec"
	s := c.spec.Slurm()
	for _, name := range []string{"accounting", "scheduling"} {
		if len(s.Config) > 0 && c.places[join(base, name)] != nil {
			c.fault(join(base, name), "is given together with config, which supersedes it", "one of the two")
		}
	}
	if a := s.Accounting; a != nil {
		c.parameter(base+".accounting.accountingStorageEnforce", "AccountingStorageEnforce", a.AccountingStorageEnforce)
	}
	if s := s.Scheduling; s != nil {
		c.parameter(base+".scheduling.priorityType", "PriorityType", s.PriorityType)
		c.parameter(base+".scheduling.priorityWeightTres", "PriorityWeightTRES", s.PriorityWeightTRES)
		c.parameter(base+".scheduling.preemptType", "PreemptType", s.PreemptType)
		c.parameter(base+".scheduling.preemptMode", "PreemptMode", s.PreemptMode)
		c.parameter(base+".scheduling.preemptExemptTime", "PreemptExemptTime", s.PreemptExemptTime)
	}
}

func (c *checker) parameter(path, name, value string) {
	if value == "" {
		return
	}
	if _, refusal := slurm.CheckParameter(slurm.Global, name, value); refusal != nil {
		c.fault(path, refusal.Problem, refusal.Allowed)
	}
}

// lustreExport exports what is attached.
func (c *checker) lustreExport() {
	l := c.spec.LustreExportConfig
	if l == nil {
		return
	}
	for i, name := range l.Lustres {
		attached := name == c.spec.Slurm().HomeDirectoryStorage || slices.ContainsFunc(c.spec.NodePools, func(p cluster.NodePool) bool {
			return slices.Contains(p.Lustres, name)
		})
		if !attached {
			c.fault(at("lustreExportConfig", "lustres", i), "no pool mounts it", "one of the pools' lustres")
		}
	}
}
