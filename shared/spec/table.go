package spec

import (
	"sync"

	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/slurm"
)

// Limits of our own, where the product documents none. A spec is kept in one document of at most 1 MiB together with the
// cluster's other fields, and a machine's metadata value holds 256 KiB.
const (
	MaxSize         = 512 << 10 // of the text
	MaxScript       = 64 << 10  // of one script
	maxScripts      = 16
	maxPools        = 100
	maxPartitions   = 100
	maxMounts       = 16
	maxValues       = 100
	maxParameters   = 200
	MaxNodes        = 10_000 // of a cluster: what one is built for
	defaultBootDisk = 100
	leastBootDisk   = 10
	mostBootDisk    = 65_536
)

// Forms of names that stand in several places.
const (
	projectForm  = `[a-z0-9][a-z0-9.:-]{0,99}`
	resourceForm = `[a-z]([a-z0-9-]{0,61}[a-z0-9])?`
	zoneForm     = `[a-z]+-[a-z]+[0-9]+-[a-z]`
)

func storageName() rule {
	return matching("projects/PROJECT/locations/LOCATION/instances/INSTANCE", `^projects/`+projectForm+`/locations/[a-z]+-[a-z]+[0-9]+(-[a-z])?/instances/`+resourceForm+`$`)
}

func poolID() rule {
	r := matching("1 to 30 lowercase letters, digits and hyphens, beginning with a letter and not ending with a hyphen", `^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$`)
	r.longest = cluster.MaxPoolIDLength
	return r
}

func partitionID() rule {
	return matching("1 to 63 letters, digits, hyphens and underscores, beginning with a letter", `^[A-Za-z][A-Za-z0-9_-]{0,62}$`)
}

func script() rule { return rule{biggest: MaxScript, lines: true} }

func jobScript() rule {
	r := matching("a script that begins with #!", `^#!`)
	r.biggest, r.lines = MaxScript, true
	return r
}

// specTable is the cluster spec, made once. The fields are in the order in which they are written.
var specTable = sync.OnceValue(func() *table { return clusterTable().indexed() })

func clusterTable() *table {
	return &table{
		name: "ClusterSpec",
		doc:  "A training cluster: its network, its pools of machines, and the Slurm that schedules on them.",
		fields: []field{
			textOf("name", "Resource name. The id at its end may be left out where it is given otherwise.",
				matching("projects/PROJECT/locations/LOCATION/modelDevelopmentClusters/ID", `^projects/`+projectForm+`/locations/[^/]+/modelDevelopmentClusters(/[^/]*)?$`),
				func(s *cluster.Spec) *string { return &s.Name }),
			textOf("displayName", "Name for people. Without an id elsewhere it is the id: 1 to 10 lowercase letters and digits, beginning with a letter.",
				rule{longest: 128}, func(s *cluster.Spec) *string { return &s.DisplayName }),
			labelsOf("labels", "Labels of the cluster.", func(s *cluster.Spec) *map[string]string { return &s.Labels }).atMost(64),
			partOf("network", networkTable(), func(s *cluster.Spec) *cluster.Network { return &s.Network }),
			objectsOf("nodePools", poolTable(), func(s *cluster.Spec) *[]cluster.NodePool { return &s.NodePools }).must().atMost(maxPools),
			partOf("orchestratorSpec", orchestratorTable(), func(s *cluster.Spec) *cluster.OrchestratorSpec { return &s.OrchestratorSpec }).must(),
			objectOf("runtimeSpec", runtimeTable(), func(s *cluster.Spec) *cluster.RuntimeSpec { return &s.RuntimeSpec }),
			optionOf("lustreExportConfig", lustreExportTable(), func(s *cluster.Spec) **cluster.LustreExportConfig { return &s.LustreExportConfig }),
			output("clusterStatus", "the cluster's state."),
			output("clusterEvents", "the 100 most recent events."),
			output("createTime", "when the cluster was created."),
			output("updateTime", "when the cluster was last updated."),
			output("startTime", "when the cluster was first RUNNING."),
			output("runtime", "training services that the cluster runs."),
		},
	}
}

func networkTable() *table {
	return &table{
		name: "Network",
		doc:  "Network of the machines. Left out: the project's network \"default\".",
		fields: []field{
			textOf("network", "VPC network.", matching("projects/PROJECT/global/networks/NETWORK", `^projects/`+projectForm+`/global/networks/`+resourceForm+`$`),
				func(n *cluster.Network) *string { return &n.Network }).must(),
			textOf("subnetwork", "Subnetwork, in the cluster's region. Left out: the region's subnetwork of an auto-mode network.",
				matching("projects/PROJECT/regions/REGION/subnetworks/SUBNETWORK", `^projects/`+projectForm+`/regions/[a-z]+-[a-z]+[0-9]+/subnetworks/`+resourceForm+`$`),
				func(n *cluster.Network) *string { return &n.Subnetwork }),
		},
	}
}

func poolTable() *table {
	return &table{
		name: "NodePool",
		doc:  "Pools of equal machines. One is the login pool, the others compute.",
		fields: []field{
			textOf("id", "Id of the pool. Its machines are CLUSTER-POOL-0, CLUSTER-POOL-1 …", poolID(), func(p *cluster.NodePool) *string { return &p.ID }).must(),
			partOf("machineSpec", machineTable(), func(p *cluster.NodePool) *cluster.MachineSpec { return &p.MachineSpec }).must(),
			textOf("provisioningModel", "How capacity is obtained. Left out: ON_DEMAND for machines without GPUs, RESERVATION for GPUs with a reservation affinity; GPUs without one must name a model.",
				oneOf(string(cluster.OnDemand), string(cluster.Reservation), string(cluster.Spot), string(cluster.FlexStart)),
				func(p *cluster.NodePool) *string { return (*string)(&p.ProvisioningModel) }).unlessText("PROVISIONING_MODEL_UNSPECIFIED"),
			durationOf("flexStartMaxDuration", "With FLEX_START: how long a machine runs, whole seconds from 30s to 604800s (7 days), which is the default.",
				func(p *cluster.NodePool) *cluster.Duration { return &p.FlexStartMaxDuration }),
			output("effectiveFlexStartMaxDuration", "how long a FLEX_START machine runs."),
			partOf("scalingSpec", scalingTable(), func(p *cluster.NodePool) *cluster.ScalingSpec { return &p.ScalingSpec }).must(),
			textOf("zone", "Zone, in the cluster's region. Left out: that of the reservation, or the one that all other pools name.",
				matching("a zone such as us-central1-a", `^`+zoneForm+`$`), func(p *cluster.NodePool) *string { return &p.Zone }),
			flagOf("enablePublicIps", "Whether the machines have public addresses.", func(p *cluster.NodePool) *bool { return &p.EnablePublicIPs }),
			partOf("bootDisk", bootDiskTable(), func(p *cluster.NodePool) *cluster.BootDisk { return &p.BootDisk }),
			textsOf("filestores", "Filestore instances to mount under /mnt/filestore.", storageName(), func(p *cluster.NodePool) *[]string { return &p.Filestores }).atMost(maxMounts),
			textsOf("lustres", "Managed Lustre instances to mount under /mnt/lustre.", storageName(), func(p *cluster.NodePool) *[]string { return &p.Lustres }).atMost(maxMounts),
			textOf("startupScript", "Script that each machine runs at its start.", script(), func(p *cluster.NodePool) *string { return &p.StartupScript }),
			labelsOf("labels", "Labels of the machines.", func(p *cluster.NodePool) *map[string]string { return &p.Labels }).atMost(maxPoolLabels),
			textOf("nodeImage", "Image or image family of the boot disks. Left out: the default image. Changing it makes the nodes anew.",
				matching("projects/PROJECT/global/images/IMAGE or projects/PROJECT/global/images/family/FAMILY", `^projects/`+projectForm+`/global/images/(family/)?`+resourceForm+`$`),
				func(p *cluster.NodePool) *string { return &p.NodeImage }),
			optionOf("confidentialInstanceConfig", confidentialTable(), func(p *cluster.NodePool) **cluster.ConfidentialInstanceConfig {
				return &p.ConfidentialInstanceConfig
			}),
		},
	}
}

func machineTable() *table {
	return &table{
		name: "MachineSpec",
		doc:  "Kind of machine.",
		fields: []field{
			textOf("machineType", "Compute Engine machine type.", matching("a machine type such as n2-standard-8 or a3-ultragpu-8g", `^[a-z][a-z0-9]{0,9}(-[a-z0-9]{1,20}){1,4}$`),
				func(m *cluster.MachineSpec) *string { return &m.MachineType }).must(),
			textOf("acceleratorType", "GPU type. Left out: that of the machine type.", oneOf(slurm.Accelerators()...),
				func(m *cluster.MachineSpec) *string { return &m.AcceleratorType }).unlessText("ACCELERATOR_TYPE_UNSPECIFIED"),
			numberOf("acceleratorCount", "GPUs of a machine. Left out: those of the machine type.", upTo(8), func(m *cluster.MachineSpec) *int { return &m.AcceleratorCount }),
			optionOf("reservationAffinity", affinityTable(), func(m *cluster.MachineSpec) **cluster.ReservationAffinity { return &m.ReservationAffinity }),
		},
	}
}

// reservationKey is the one key of a reservation affinity.
const reservationKey = "compute.googleapis.com/reservation-name"

func affinityTable() *table {
	return &table{
		name: "ReservationAffinity",
		doc:  "Reservation that the machines consume. Needed for RESERVATION, refused for every other provisioning model.",
		fields: []field{
			textOf("reservationAffinityType", "How the reservation is chosen.", oneOf("SPECIFIC_RESERVATION"), func(a *cluster.ReservationAffinity) *string { return &a.Type }).must(),
			textOf("key", "What values holds; left out: "+reservationKey+".", oneOf(reservationKey), func(a *cluster.ReservationAffinity) *string { return &a.Key }),
			textsOf("values", "Reservations, or blocks or sub-blocks of them. A shared one is named with the project that owns it.",
				matching("projects/PROJECT/zones/ZONE/reservations/RESERVATION, with /reservationBlocks/BLOCK and /reservationSubBlocks/SUBBLOCK if wanted",
					`^projects/`+projectForm+`/zones/`+zoneForm+`/reservations/`+resourceForm+`(/reservationBlocks/`+resourceForm+`(/reservationSubBlocks/`+resourceForm+`)?)?$`),
				func(a *cluster.ReservationAffinity) *[]string { return &a.Values }).must().atMost(maxValues),
		},
	}
}

func scalingTable() *table {
	return &table{
		name: "ScalingSpec",
		doc:  "Bounds of the pool: nodes with an index below the minimum are static, the others come when a job needs them.",
		fields: []field{
			numberOf("minNodeCount", "Static nodes. For the login pool the same as maxNodeCount.", upTo(MaxNodes), func(s *cluster.ScalingSpec) *int { return &s.MinNodeCount }).shown(),
			numberOf("maxNodeCount", "Most nodes.", upTo(MaxNodes), func(s *cluster.ScalingSpec) *int { return &s.MaxNodeCount }).shown(),
		},
	}
}

func bootDiskTable() *table {
	return &table{
		name: "BootDisk",
		doc:  "Boot disk.",
		fields: []field{
			textOf("bootDiskType", "Type. Left out: pd-ssd, or hyperdisk-balanced for machines that start from nothing else.",
				oneOf(slurm.PDSSD, slurm.PDStandard, slurm.HyperdiskBalanced), func(d *cluster.BootDisk) *string { return &d.Type }),
			numberOf("bootDiskSizeGb", "Size in GB. Left out: 100.", upTo(mostBootDisk), func(d *cluster.BootDisk) *int { return &d.SizeGB }),
		},
	}
}

func confidentialTable() *table {
	return &table{
		name: "ConfidentialInstanceConfig",
		doc:  "Confidential computing.",
		fields: []field{
			textOf("confidentialInstanceType", "Technology.", oneOf("SEV", "SEV_SNP", "TDX"), func(c *cluster.ConfidentialInstanceConfig) *string { return &c.Type }).must(),
		},
	}
}

func orchestratorTable() *table {
	return &table{
		name: "OrchestratorSpec",
		doc:  "The orchestrator, which is Slurm.",
		fields: []field{
			partOf("slurmSpec", slurmTable(), func(o *cluster.OrchestratorSpec) *cluster.SlurmSpec { return &o.SlurmSpec }).must(),
		},
	}
}

func slurmTable() *table {
	return &table{
		name: "SlurmSpec",
		doc:  "Slurm.",
		fields: []field{
			textOf("homeDirectoryStorage", "Filestore or Managed Lustre instance in the cluster's region, mounted as /home on every node.", storageName(),
				func(s *cluster.SlurmSpec) *string { return &s.HomeDirectoryStorage }).must(),
			textOf("loginNodePoolId", "Pool whose machines people log in to.", poolID(), func(s *cluster.SlurmSpec) *string { return &s.LoginNodePoolID }).must(),
			objectsOf("partitions", partitionTable(), func(s *cluster.SlurmSpec) *[]cluster.Partition { return &s.Partitions }).must().atMost(maxPartitions),
			textOf("defaultPartitionId", "Partition of jobs that name none. Left out: the first.", partitionID(), func(s *cluster.SlurmSpec) *string { return &s.DefaultPartitionID }),
			configOf("config", "Global parameters of slurm.conf.", slurm.Global, func(s *cluster.SlurmSpec) *map[string]string { return &s.Config }).atMost(maxParameters),
			objectsOf("nodeSets", nodeSetTable(), func(s *cluster.SlurmSpec) *[]cluster.NodeSet { return &s.NodeSets }).atMost(maxPools),
			textsOf("prologBashScripts", "Scripts that run before each job on each of its nodes.", jobScript(), func(s *cluster.SlurmSpec) *[]string { return &s.PrologBashScripts }).atMost(maxScripts),
			textsOf("epilogBashScripts", "Scripts that run after each job on each of its nodes.", jobScript(), func(s *cluster.SlurmSpec) *[]string { return &s.EpilogBashScripts }).atMost(maxScripts),
			optionOf("accounting", accountingTable(), func(s *cluster.SlurmSpec) **cluster.Accounting { return &s.Accounting }),
			optionOf("scheduling", schedulingTable(), func(s *cluster.SlurmSpec) **cluster.Scheduling { return &s.Scheduling }),
		},
	}
}

func partitionTable() *table {
	return &table{
		name: "Partition",
		doc:  "Slurm partitions over whole compute pools.",
		fields: []field{
			textOf("id", "Name of the partition.", partitionID(), func(p *cluster.Partition) *string { return &p.ID }).must(),
			textsOf("nodePoolIds", "Its compute pools.", poolID(), func(p *cluster.Partition) *[]string { return &p.NodePoolIDs }).must().atMost(maxPools),
			configOf("config", "Parameters of its PartitionName line.", slurm.Partition, func(p *cluster.Partition) *map[string]string { return &p.Config }).atMost(maxParameters),
		},
	}
}

func nodeSetTable() *table {
	return &table{
		name: "NodeSet",
		doc:  "Settings of the nodes of compute pools, at most one set for each.",
		fields: []field{
			textOf("nodePoolId", "The compute pool.", poolID(), func(n *cluster.NodeSet) *string { return &n.NodePoolID }).must(),
			configOf("config", "Parameters of its NodeName lines.", slurm.Node, func(n *cluster.NodeSet) *map[string]string { return &n.Config }).atMost(maxParameters),
		},
	}
}

func accountingTable() *table {
	return &table{
		name: "Accounting",
		doc:  "Superseded by config, and refused together with it.",
		fields: []field{
			textOf("accountingStorageEnforce", "AccountingStorageEnforce of slurm.conf.", rule{}, func(a *cluster.Accounting) *string { return &a.AccountingStorageEnforce }),
		},
	}
}

func schedulingTable() *table {
	const most = 1<<31 - 1
	weight := func(name string, at func(*cluster.Scheduling) *int) field {
		return numberOf(name, "Of slurm.conf.", upTo(most), at)
	}
	parameter := func(name string, at func(*cluster.Scheduling) *string) field {
		return textOf(name, "Of slurm.conf.", rule{}, at)
	}
	return &table{
		name: "Scheduling",
		doc:  "Superseded by config, and refused together with it.",
		fields: []field{
			parameter("priorityType", func(s *cluster.Scheduling) *string { return &s.PriorityType }),
			weight("priorityWeightAge", func(s *cluster.Scheduling) *int { return &s.PriorityWeightAge }),
			weight("priorityWeightAssoc", func(s *cluster.Scheduling) *int { return &s.PriorityWeightAssoc }),
			weight("priorityWeightFairshare", func(s *cluster.Scheduling) *int { return &s.PriorityWeightFairshare }),
			weight("priorityWeightJobSize", func(s *cluster.Scheduling) *int { return &s.PriorityWeightJobSize }),
			weight("priorityWeightPartition", func(s *cluster.Scheduling) *int { return &s.PriorityWeightPartition }),
			weight("priorityWeightQos", func(s *cluster.Scheduling) *int { return &s.PriorityWeightQOS }),
			parameter("priorityWeightTres", func(s *cluster.Scheduling) *string { return &s.PriorityWeightTRES }),
			parameter("preemptType", func(s *cluster.Scheduling) *string { return &s.PreemptType }),
			parameter("preemptMode", func(s *cluster.Scheduling) *string { return &s.PreemptMode }),
			parameter("preemptExemptTime", func(s *cluster.Scheduling) *string { return &s.PreemptExemptTime }),
		},
	}
}

func runtimeTable() *table {
	return &table{
		name: "RuntimeSpec",
		doc:  "Identity of the machines.",
		fields: []field{
			textOf("serviceAccount", "Service account. Left out: the default one of Compute Engine.",
				matching("the e-mail address of a service account", `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?@[a-z0-9][a-z0-9.-]{0,120}\.gserviceaccount\.com$`),
				func(r *cluster.RuntimeSpec) *string { return &r.ServiceAccount }),
		},
	}
}

func lustreExportTable() *table {
	return &table{
		name: "LustreExportConfig",
		doc:  "Scheduled export of attached Lustre file systems to a bucket.",
		fields: []field{
			textOf("destinationBucket", "Bucket, without gs://.", matching("the name of a bucket, without gs://", `^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`),
				func(l *cluster.LustreExportConfig) *string { return &l.DestinationBucket }).must(),
			textsOf("lustres", "What to export. Left out: all that are attached.", storageName(), func(l *cluster.LustreExportConfig) *[]string { return &l.Lustres }).atMost(maxMounts),
			textsOf("daysOfWeek", "When to export. Left out: every day.", oneOf("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"),
				func(l *cluster.LustreExportConfig) *[]string { return &l.DaysOfWeek }).atMost(7),
			objectOf("startTime", timeOfDayTable(), func(l *cluster.LustreExportConfig) *cluster.TimeOfDay { return &l.StartTime }),
		},
	}
}

func timeOfDayTable() *table {
	return &table{
		name: "TimeOfDay",
		doc:  "Time of day, in UTC.",
		fields: []field{
			numberOf("hours", "Hour.", upTo(23), func(t *cluster.TimeOfDay) *int { return &t.Hours }).shown(),
			numberOf("minutes", "Minute.", upTo(59), func(t *cluster.TimeOfDay) *int { return &t.Minutes }).shown(),
		},
	}
}
