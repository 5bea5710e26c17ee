package slurm

// parameterGroup is parameters of one scope that take the same values.
type parameterGroup struct {
	scope  Scope
	kind   Kind
	values []string
	names  string
}

// parameterGroups is what slurm.conf(5) of Slurm 22.05 to 24.11 knows, without what begins a line (NodeName …) and what
// no version of them reads any more.
func parameterGroups() []parameterGroup {
	yesNo := []string{"YES", "NO", "TRUE", "FALSE", "UP", "DOWN", "1", "0"}
	return []parameterGroup{
		{Global, Text, nil, `
			AccountingStorageTRES AccountingStorageExternalHost AccountingStorageHost AccountingStorageBackupHost AccountingStorageLoc
			AccountingStorageParameters AccountingStoragePass AccountingStorageType AccountingStorageUser AccountingStoreFlags
			AcctGatherEnergyType AcctGatherProfileType AcctGatherInterconnectType AcctGatherInfinibandType AcctGatherFilesystemType
			AuthAltTypes AuthAltParameters AuthInfo AuthType BackupAddr BackupController BcastExclude BcastParameters
			BurstBufferParameters BurstBufferType CertgenType CertgenParameters CertmgrType CertmgrParameters CliFilterPlugins
			ClusterName CommunicationParameters ControlAddr ControlMachine CoreSpecPlugin CpuFreqDef CpuFreqGovernors CredType
			CryptoType DataParserParameters DebugFlags DependencyParameters Epilog EpilogSlurmctld ExtSensorsType
			FederationParameters GpuFreqDef GresTypes HashPlugin HealthCheckNodeState HealthCheckProgram InteractiveStepOptions
			JobAcctGatherFrequency JobAcctGatherParams JobAcctGatherType JobCompHost JobCompLoc JobCompParams JobCompPass
			JobCompPassScript JobCompType JobCompUser JobContainerType JobCredentialPrivateKey JobCredentialPublicCertificate
			JobSubmitPlugins LaunchParameters LaunchType Licenses LogTimeFormat MailDomain MailProg MCSParameters MCSPlugin
			MpiDefault MpiParams NodeFeaturesPlugins PlugStackConfig PluginDir PowerParameters PowerPlugin PreemptParameters
			PrEpParameters PrEpPlugins PriorityFlags PriorityParameters PrioritySiteFactorParameters PrioritySiteFactorPlugin
			PriorityWeightTRES PrivateData ProctrackType Prolog PrologFlags PrologSlurmctld PropagateResourceLimits
			PropagateResourceLimitsExcept RebootProgram ReconfigFlags RequeueExit RequeueExitHold ResumeFailProgram ResumeProgram
			ResvEpilog ResvProlog RoutePlugin SallocDefaultCommand SbcastParameters SchedulerParameters ScronParameters
			SelectTypeParameters SlurmctldAddr SlurmctldDebug SlurmctldHost SlurmctldLogFile SlurmctldParameters SlurmctldPidFile
			SlurmctldPlugstack SlurmctldPort SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg SlurmctldSyslogDebug SlurmdDebug
			SlurmdLogFile SlurmdParameters SlurmdPidFile SlurmdSpoolDir SlurmdSyslogDebug SlurmdUser SlurmSchedLogFile SlurmUser
			SrunEpilog SrunPortRange SrunProlog StateSaveLocation SuspendExcNodes SuspendExcParts SuspendExcStates SuspendProgram
			SwitchParameters SwitchType TaskEpilog TaskPlugin TaskPluginParam TaskProlog TLSParameters TLSType TmpFS TopologyParam
			TopologyPlugin UnkillableStepProgram UrlParserType X11Parameters`},
		{Global, Number16, nil, `
			AccountingStoragePort AcctGatherNodeFreq BatchStartTimeout CompleteWait EioTimeout EpilogTimeout ExtSensorsFreq
			FairShareDampeningFactor FastSchedule GetEnvTimeout GroupUpdateForce GroupUpdateTime HealthCheckInterval InactiveLimit
			JobFileAppend JobRequeue KillOnBadExit KillWait MaxTasksPerNode MessageTimeout OverTimeLimit PrologEpilogTimeout
			PrologTimeout PropagatePrioProcess ResumeRate ResumeTimeout ResvOverRun ReturnToService SchedulerTimeSlice
			SlurmctldTimeout SlurmdTimeout SlurmSchedLogLevel SuspendRate SuspendTimeout TCPTimeout TreeWidth
			UnkillableStepTimeout VSizeFactor WaitTime`},
		{Global, Number32, nil, `
			EpilogMsgTime FirstJobId JobCompPort KeepAliveTime MaxArraySize MaxBatchRequeue MaxDBDMsgs MaxJobCount MaxJobId
			MaxNodeCount MaxStepCount MinJobAge PriorityWeightAge PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize
			PriorityWeightPartition PriorityWeightQOS SlurmdPort SuspendTime`},
		{Global, Number64, nil, `DefCPUPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode MaxMemPerCPU MaxMemPerNode`},
		{Global, Word, yesNo, `
			AccountingStoreJobComment AllowSpecResourcesUsage DisableRootJobs PriorityFavorSmall TrackWCKey UsePAM`},
		{Global, Time, nil, `PreemptExemptTime PriorityCalcPeriod PriorityDecayHalfLife PriorityMaxAge`},
		{Global, Words, []string{"all", "associations", "limits", "nojobs", "none", "nosteps", "qos", "safe", "wckeys", "0"}, `AccountingStorageEnforce`},
		{Global, Word, []string{"ALL", "ANY", "YES", "NO"}, `EnforcePartLimits`},
		{Global, Words, []string{"CANCEL", "GANG", "OFF", "PRIORITY", "REQUEUE", "SUSPEND", "WITHIN"}, `PreemptMode`},
		{Global, Word, []string{"preempt/none", "preempt/partition_prio", "preempt/qos"}, `PreemptType`},
		{Global, Word, []string{"priority/basic", "priority/multifactor"}, `PriorityType`},
		{Global, Word, []string{"NONE", "NOW", "MONTHLY", "QUARTERLY", "DAILY", "WEEKLY", "YEARLY"}, `PriorityUsageResetPeriod`},
		{Global, Word, []string{"sched/backfill", "sched/builtin"}, `SchedulerType`},
		{Global, Word, []string{"select/cons_res", "select/cons_tres", "select/linear"}, `SelectType`},

		{Partition, Text, nil, `
			AllocNodes AllowAccounts AllowGroups AllowQos Alternate CpuBind DenyAccounts DenyQos Nodes QOS SelectTypeParameters
			TRESBillingWeights`},
		{Partition, Number16, nil, `Priority PriorityJobFactor PriorityTier ResumeTimeout SuspendTimeout`},
		{Partition, Number32, nil, `
			GraceTime MaxCPUsPerNode MaxCPUsPerSocket MaxNodes MinNodes OverTimeLimit SuspendTime`},
		{Partition, Number64, nil, `DefCPUPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode MaxMemPerCPU MaxMemPerNode`},
		{Partition, Word, append([]string{"USER", "TOPO"}, yesNo...), `ExclusiveUser ExclusiveTopo`},
		{Partition, Word, yesNo, `Default DisableRootJobs Hidden LLN PowerDownOnIdle ReqResv RootOnly`},
		{Partition, Time, nil, `DefaultTime MaxTime`},
		{Partition, Word, []string{"EXCLUSIVE", "FORCE", "FORCE:*", "NO", "YES", "YES:*"}, `OverSubscribe Shared`},
		{Partition, Words, []string{"CANCEL", "GANG", "OFF", "PRIORITY", "REQUEUE", "SUSPEND", "WITHIN"}, `PreemptMode`},
		{Partition, Word, []string{"DOWN", "DRAIN", "INACTIVE", "UP"}, `State`},

		{Node, Text, nil, `
			BcastAddr CPUSpecList CpuBind Feature Features Gres NodeAddr NodeHostname Port Reason State TRESWeights`},
		{Node, Number16, nil, `
			Boards CoreSpecCount CoresPerSocket CPUs Procs RestrictedCoresPerGPU Sockets SocketsPerBoard ThreadsPerCore`},
		{Node, Number32, nil, `TmpDisk Weight`},
		{Node, Number64, nil, `MemSpecLimit RealMemory`},
	}
}

// newerParameters are not known to Slurm 22.05.
const newerParameters = `
	CertgenType CertgenParameters CertmgrType CertmgrParameters DataParserParameters EpilogTimeout ExclusiveTopo HashPlugin
	JobCompPassScript MaxBatchRequeue MaxCPUsPerSocket PowerDownOnIdle PreemptParameters PrologTimeout RestrictedCoresPerGPU
	SuspendExcStates TLSParameters TLSType UrlParserType`

// refusedParameters are those that a cluster spec may not set, by scope and reason. The managed service refuses the health
// checks, RequeueExit, Prolog, Epilog, a partition's Default and all of slurmdbd.conf; the others are what holds the
// cluster together, so that another value would cut it off from whoever keeps it whole.
func refusedParameters() map[Scope]map[string]string {
	return map[Scope]map[string]string{
		Global: {
			"node health is checked for you":                                   `HealthCheckProgram HealthCheckInterval HealthCheckNodeState`,
			"jobs of broken nodes are requeued for you":                        `RequeueExit`,
			"scripts are given as prolog_bash_scripts and epilog_bash_scripts": `Prolog Epilog`,
			"nodes are powered up and down for you": `
				ResumeProgram ResumeFailProgram SuspendProgram ResumeTimeout ResumeRate SuspendRate SuspendExcNodes SuspendExcParts
				SuspendExcStates RebootProgram`,
			"the controller, its addresses and its files are set up for you": `
				BackupAddr BackupController ClusterName ControlAddr ControlMachine SlurmctldAddr SlurmctldHost SlurmctldPidFile
				SlurmctldPort SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg SlurmdPidFile SlurmdPort SlurmdSpoolDir SlurmdUser
				SlurmUser StateSaveLocation PluginDir`,
			"authentication is set up for you": `
				AuthAltParameters AuthAltTypes AuthInfo AuthType CredType CryptoType JobCredentialPrivateKey
				JobCredentialPublicCertificate TLSParameters TLSType CertgenType CertgenParameters CertmgrType CertmgrParameters`,
			"accounting is stored for you": `
				AccountingStorageBackupHost AccountingStorageExternalHost AccountingStorageHost AccountingStorageLoc
				AccountingStoragePass AccountingStoragePort AccountingStorageType AccountingStorageUser`,
			"the nodes' machine types say which GPUs there are": `GresTypes`,
			"nodes return to service as their recovery needs":   `ReturnToService`,
		},
		Partition: {
			"the default partition is named by default_partition_id": `Default`,
			"the partition's nodes are those of its node_pool_ids":   `Nodes`,
			"nodes are powered up for you":                           `ResumeTimeout`,
		},
		Node: {
			"nodes' names, addresses and states are kept for you": `BcastAddr NodeAddr NodeHostname Port Reason State`,
			"the pool's machine type says which GPUs a node has":  `Gres`,
		},
	}
}

// slurmdbdParameters are those of slurmdbd.conf that slurm.conf does not have as well.
const slurmdbdParameters = `
	AllowNoDefAcct AllResourcesAbsolute ArchiveDir ArchiveEvents ArchiveJobs ArchiveResvs ArchiveScript ArchiveSteps
	ArchiveSuspend ArchiveTXN ArchiveUsage CommitDelay DbdAddr DbdBackupHost DbdHost DbdPort DebugLevel DebugLevelSyslog
	DefaultQOS DisableArchiveCommands DisableCoordDBD JobPurge LogFile MaxPurgeLimit MaxQueryTimeRange PidFile
	PurgeEventAfter PurgeEventMonths PurgeJobAfter PurgeJobMonths PurgeResvAfter PurgeStepAfter PurgeStepMonths
	PurgeSuspendAfter PurgeSuspendMonths PurgeTXNAfter PurgeTXNMonths PurgeUsageAfter PurgeUsageMonths StepPurge
	StorageBackupHost StorageHost StorageLoc StorageParameters StoragePass StoragePassScript StoragePort StorageType
	StorageUser TrackSlurmctldDown`
