package cluster

import (
	"fmt"
	"strings"
	"time"
)

// Spec is what a person asks for: the cluster spec of the product's v1beta1 API, read and defaulted (package spec does
// both). Its JSON form is the API's own, in lowerCamelCase. Output-only fields are not part of it.
type Spec struct {
	// Name is projects/P/locations/L/modelDevelopmentClusters/ID.
	Name               string              `json:"name"`
	DisplayName        string              `json:"displayName,omitempty"`
	Labels             map[string]string   `json:"labels,omitempty"`
	Network            Network             `json:"network"`
	NodePools          []NodePool          `json:"nodePools"`
	OrchestratorSpec   OrchestratorSpec    `json:"orchestratorSpec"`
	RuntimeSpec        RuntimeSpec         `json:"runtimeSpec,omitzero"`
	LustreExportConfig *LustreExportConfig `json:"lustreExportConfig,omitempty"`
}

// Network is where the VMs live. Network and Subnetwork are resource names (projects/P/global/networks/N,
// projects/P/regions/R/subnetworks/S). No Subnetwork: the regional one of an auto-mode network.
type Network struct {
	Network    string `json:"network"`
	Subnetwork string `json:"subnetwork,omitempty"`
}

// NodePool is a set of equal machines.
type NodePool struct {
	ID                         string                      `json:"id"`
	MachineSpec                MachineSpec                 `json:"machineSpec"`
	ProvisioningModel          ProvisioningModel           `json:"provisioningModel"`
	FlexStartMaxDuration       Duration                    `json:"flexStartMaxDuration,omitempty"`
	ScalingSpec                ScalingSpec                 `json:"scalingSpec"`
	EnablePublicIPs            bool                        `json:"enablePublicIps,omitempty"`
	Zone                       string                      `json:"zone"`
	BootDisk                   BootDisk                    `json:"bootDisk"`
	Filestores                 []string                    `json:"filestores,omitempty"`
	Lustres                    []string                    `json:"lustres,omitempty"`
	StartupScript              string                      `json:"startupScript,omitempty"`
	Labels                     map[string]string           `json:"labels,omitempty"`
	NodeImage                  string                      `json:"nodeImage,omitempty"`
	ConfidentialInstanceConfig *ConfidentialInstanceConfig `json:"confidentialInstanceConfig,omitempty"`
}

// MachineSpec is the kind of machine. AcceleratorType is the product's name (NVIDIA_H200_141GB).
type MachineSpec struct {
	MachineType         string               `json:"machineType"`
	AcceleratorType     string               `json:"acceleratorType,omitempty"`
	AcceleratorCount    int                  `json:"acceleratorCount,omitempty"`
	ReservationAffinity *ReservationAffinity `json:"reservationAffinity,omitempty"`
}

// ReservationAffinity names the reservation that a pool's machines consume.
type ReservationAffinity struct {
	Type   string   `json:"reservationAffinityType"`
	Key    string   `json:"key,omitempty"`
	Values []string `json:"values,omitempty"`
}

// ProvisioningModel is how capacity is obtained.
type ProvisioningModel string

// The provisioning models of the product.
const (
	OnDemand    ProvisioningModel = "ON_DEMAND"
	Reservation ProvisioningModel = "RESERVATION"
	Spot        ProvisioningModel = "SPOT"
	FlexStart   ProvisioningModel = "FLEX_START"
)

// ScalingSpec bounds a pool: nodes with an index below MinNodeCount are static, the others dynamic.
type ScalingSpec struct {
	MinNodeCount int `json:"minNodeCount"`
	MaxNodeCount int `json:"maxNodeCount"`
}

// BootDisk is the disk that a node starts from.
type BootDisk struct {
	Type   string `json:"bootDiskType"`
	SizeGB int    `json:"bootDiskSizeGb"`
}

// ConfidentialInstanceConfig asks for confidential computing: SEV, SEV_SNP or TDX.
type ConfidentialInstanceConfig struct {
	Type string `json:"confidentialInstanceType"`
}

// OrchestratorSpec holds the one orchestrator there is.
type OrchestratorSpec struct {
	SlurmSpec SlurmSpec `json:"slurmSpec"`
}

// SlurmSpec is the Slurm half of the spec.
type SlurmSpec struct {
	HomeDirectoryStorage string            `json:"homeDirectoryStorage"`
	LoginNodePoolID      string            `json:"loginNodePoolId"`
	Partitions           []Partition       `json:"partitions"`
	DefaultPartitionID   string            `json:"defaultPartitionId,omitempty"`
	Config               map[string]string `json:"config,omitempty"`
	NodeSets             []NodeSet         `json:"nodeSets,omitempty"`
	PrologBashScripts    []string          `json:"prologBashScripts,omitempty"`
	EpilogBashScripts    []string          `json:"epilogBashScripts,omitempty"`
	Accounting           *Accounting       `json:"accounting,omitempty"`
	Scheduling           *Scheduling       `json:"scheduling,omitempty"`
}

// Partition is a Slurm partition over whole pools.
type Partition struct {
	ID          string            `json:"id"`
	NodePoolIDs []string          `json:"nodePoolIds"`
	Config      map[string]string `json:"config,omitempty"`
}

// NodeSet carries NodeName-line settings for one compute pool.
type NodeSet struct {
	NodePoolID string            `json:"nodePoolId"`
	Config     map[string]string `json:"config,omitempty"`
}

// Accounting is the older way to set accounting parameters; Config supersedes it.
type Accounting struct {
	AccountingStorageEnforce string `json:"accountingStorageEnforce,omitempty"`
}

// Scheduling is the older way to set scheduling parameters; Config supersedes it.
type Scheduling struct {
	PriorityType            string `json:"priorityType,omitempty"`
	PriorityWeightAge       int    `json:"priorityWeightAge,omitempty"`
	PriorityWeightAssoc     int    `json:"priorityWeightAssoc,omitempty"`
	PriorityWeightFairshare int    `json:"priorityWeightFairshare,omitempty"`
	PriorityWeightJobSize   int    `json:"priorityWeightJobSize,omitempty"`
	PriorityWeightPartition int    `json:"priorityWeightPartition,omitempty"`
	PriorityWeightQOS       int    `json:"priorityWeightQos,omitempty"`
	PriorityWeightTRES      string `json:"priorityWeightTres,omitempty"`
	PreemptType             string `json:"preemptType,omitempty"`
	PreemptMode             string `json:"preemptMode,omitempty"`
	PreemptExemptTime       string `json:"preemptExemptTime,omitempty"`
}

// RuntimeSpec names the identity of the nodes. Empty: the project's default Compute Engine service account.
type RuntimeSpec struct {
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

// LustreExportConfig schedules a backup of attached Lustre file systems. Empty lists mean all, and every day.
type LustreExportConfig struct {
	DestinationBucket string    `json:"destinationBucket"`
	Lustres           []string  `json:"lustres,omitempty"`
	DaysOfWeek        []string  `json:"daysOfWeek,omitempty"`
	StartTime         TimeOfDay `json:"startTime,omitzero"`
}

// TimeOfDay is a time of day, in UTC.
type TimeOfDay struct {
	Hours   int `json:"hours"`
	Minutes int `json:"minutes"`
}

// Key is the cluster that the spec names. The spec has been validated, so its name has the right form.
func (s *Spec) Key() Key {
	k, _ := ParseKey(s.Name)
	return k
}

// Slurm is the Slurm half.
func (s *Spec) Slurm() *SlurmSpec { return &s.OrchestratorSpec.SlurmSpec }

// Pool finds a pool by its id; nil when the spec has none of that id.
func (s *Spec) Pool(id string) *NodePool {
	for i := range s.NodePools {
		if s.NodePools[i].ID == id {
			return &s.NodePools[i]
		}
	}
	return nil
}

// LoginPool is the pool whose machines people log in to.
func (s *Spec) LoginPool() *NodePool { return s.Pool(s.Slurm().LoginNodePoolID) }

// IsLogin reports whether a pool is the login pool, which Slurm does not schedule on.
func (s *Spec) IsLogin(pool string) bool { return pool == s.Slurm().LoginNodePoolID }

// DefaultPartition is the partition of jobs that name none: the one chosen, or the first.
func (s *Spec) DefaultPartition() string {
	sl := s.Slurm()
	if sl.DefaultPartitionID != "" {
		return sl.DefaultPartitionID
	}
	if len(sl.Partitions) > 0 {
		return sl.Partitions[0].ID
	}
	return ""
}

// GPU reports whether the pool's machines have accelerators.
func (p *NodePool) GPU() bool { return p.MachineSpec.AcceleratorCount > 0 }

// Static reports whether the node of that index exists whether or not a job waits.
func (p *NodePool) Static(index int) bool { return index < p.ScalingSpec.MinNodeCount }

// Duration is a length of time that is written as proto JSON has it: "604800s".
type Duration time.Duration

// D is the duration as the standard library has it.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String is the proto JSON form.
func (d Duration) String() string {
	s := fmt.Sprintf("%.9f", time.Duration(d).Seconds())
	s = strings.TrimRight(s, "0")
	return strings.TrimSuffix(s, ".") + "s"
}

// MarshalText writes the proto JSON form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the proto JSON form.
func (d *Duration) UnmarshalText(b []byte) error {
	s := string(b)
	if !strings.HasSuffix(s, "s") || strings.HasSuffix(s, "ms") || strings.HasSuffix(s, "µs") || strings.HasSuffix(s, "ns") {
		return fmt.Errorf("%q is not a duration in seconds such as \"3600s\"", s)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is not a duration in seconds such as \"3600s\"", s)
	}
	*d = Duration(v)
	return nil
}
