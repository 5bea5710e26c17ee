package spec

import (
	"fmt"
	"strings"
	"testing"
)

// TestRules breaks one rule at a time: the base spec with some text replaced, and the fault that follows.
func TestRules(t *testing.T) {
	const (
		gpuType    = `"machine_type": "a3-ultragpu-8g"`
		gpuModel   = `"provisioning_model": "FLEX_START",`
		gpuScaling = `"min_node_count": 0, "max_node_count": 2`
		loginScale = `"min_node_count": 1, "max_node_count": 1`
		network    = `"node_pools": [`
		slurmSpec  = `"login_node_pool_id": "login",`
		affinity   = `, "reservation_affinity": { "reservation_affinity_type": "SPECIFIC_RESERVATION", "values": [ "projects/p-1/zones/us-central1-a/reservations/r1" ] }`
	)
	for _, c := range []struct {
		about string
		edits []string
		want  string // the fault; empty: it is accepted
	}{
		// Fields.
		{"unknown field, snake", []string{`"zone": "us`, `"zones": "us`}, "node_pools[0].zones: is no field of a NodePool, did you mean zone?"},
		{"unknown field, camel", []string{gpuType, `"machinType": "x", ` + gpuType}, "node_pools[1].machine_spec.machinType: is no field of a MachineSpec, did you mean machineType?"},
		{"unknown field at the top", []string{network, `"region": "x", ` + network}, "region: is no field of a ClusterSpec; allowed: name, display_name, labels, network, node_pools, orchestrator_spec, runtime_spec, lustre_export_config"},
		{"a strange key", []string{network, `"a\nb c": "x", ` + network}, `["a\nb c"]: is no field of a ClusterSpec; allowed: name, display_name, labels, network, node_pools, orchestrator_spec, runtime_spec, lustre_export_config`},
		{"twice", []string{gpuType, gpuType + ", " + gpuType}, "node_pools[1].machine_spec.machine_type: is given twice"},
		{"in both spellings", []string{gpuType, `"machineType": "a3-ultragpu-8g", ` + gpuType}, "node_pools[1].machine_spec.machine_type: is given as machineType too"},
		{"not a boolean", []string{gpuModel, gpuModel + `"enable_public_ips": "yes",`}, `node_pools[1].enable_public_ips: is "yes"; allowed: true or false`},
		{"not a number", []string{gpuScaling, `"max_node_count": 2.5`}, "node_pools[1].scaling_spec.max_node_count: is 2.5; allowed: a whole number from 0 to 10000"},
		{"not a number either", []string{gpuScaling, `"max_node_count": "02"`}, `node_pools[1].scaling_spec.max_node_count: is "02"; allowed: a whole number from 0 to 10000`},
		{"negative", []string{gpuScaling, `"min_node_count": -1, "max_node_count": 2`}, "node_pools[1].scaling_spec.min_node_count: -1 is out of range; allowed: a whole number from 0 to 10000"},
		{"not an object", []string{network, `"network": "default",` + network}, "network: is a string; allowed: an object"},
		{"not a list", []string{`[ "gpu" ]`, `"gpu"`}, "orchestrator_spec.slurm_spec.partitions[0].node_pool_ids: is a string; allowed: a list"},
		{"null in a list", []string{`[ "gpu" ]`, `[ "gpu", null ]`}, "orchestrator_spec.slurm_spec.partitions[0].node_pool_ids[1]: is null; allowed: a string"},
		{"control character", []string{network, `"display_name": "a\tb",` + network}, `display_name: contains the control character '\t'; allowed: one line of text`},
		{"long display name", []string{network, `"display_name": "` + strings.Repeat("é", 129) + `",` + network}, "display_name: has 129 characters; allowed: at most 128"},
		{"display name of 128 characters", []string{network, `"display_name": "` + strings.Repeat("é", 128) + `",` + network}, ""},

		// Labels.
		{"labels", []string{network, `"labels": { "team": "a_b-1", "empty": "" },` + network}, ""},
		{"label key", []string{network, `"labels": { "Team": "a" },` + network}, `labels.Team: the key "Team" is not one of a label; allowed: 1 to 64 lowercase letters, digits, underscores and hyphens, beginning with a letter`},
		{"label value", []string{network, `"labels": { "team": "A" },` + network}, `labels.team: "A" is not the value of a label; allowed: at most 64 lowercase letters, digits, underscores and hyphens`},
		{"label number", []string{network, `"labels": { "team": 1 },` + network}, `labels.team: is 1; allowed: a string`},
		{"label twice", []string{network, `"labels": { "team": "a", "team": "b" },` + network}, `labels.team: is given twice`},
		{"many labels", []string{network, `"labels": { ` + entries(65, `"k%d": "v"`) + ` },` + network}, "labels: has 65 entries; allowed: at most 64"},
		{"our label on machines", []string{gpuModel, gpuModel + `"labels": { "convoke-pool": "x" },`}, "node_pools[1].labels.convoke-pool: labels that begin with convoke- or goog- are set for you; allowed: another key"},
		{"long label on machines", []string{gpuModel, gpuModel + `"labels": { "k": "` + strings.Repeat("v", 64) + `" },`}, "node_pools[1].labels.k: has a key or value of more than 63 characters; allowed: at most 63 on a machine"},

		// Network.
		{"network without a name", []string{network, `"network": {},` + network}, "network.network: is missing (VPC network); allowed: projects/PROJECT/global/networks/NETWORK"},
		{"bare network", []string{network, `"network": { "network": "default" },` + network}, `network.network: "default" does not have the right form; allowed: projects/PROJECT/global/networks/NETWORK`},
		{"subnetwork elsewhere", []string{network, `"network": { "network": "projects/my-project/global/networks/n", "subnetwork": "projects/my-project/regions/us-east1/subnetworks/s" },` + network},
			"network.subnetwork: is in us-east1; allowed: a subnetwork in us-central1, where the cluster is"},

		// Pools.
		{"no pools", []string{network, `"node_pools": [], "x": [`}, "node_pools: is empty (Pools of equal machines)\n" +
			"x: is no field of a ClusterSpec; allowed: name, display_name, labels, network, node_pools, orchestrator_spec, runtime_spec, lustre_export_config"},
		{"long pool id", []string{`"id": "gpu"`, `"id": "` + strings.Repeat("g", 31) + `"`}, `node_pools[1].id: has 31 characters; allowed: at most 30`},
		{"pool id with capitals", []string{`"id": "gpu"`, `"id": "GPU"`}, `node_pools[1].id: "GPU" does not have the right form; allowed: 1 to 30 lowercase letters, digits and hyphens, beginning with a letter and not ending with a hyphen`},
		{"pool called controller", []string{`"id": "gpu"`, `"id": "controller"`, `[ "gpu" ]`, `[ "controller" ]`}, `node_pools[1].id: "controller" is the name of the controller; allowed: another id`},
		{"pool twice", []string{`"id": "gpu"`, `"id": "login"`, `[ "gpu" ]`, `[ "login" ]`}, `node_pools[1].id: "login" is the id of another pool; allowed: a different id for each pool` + "\n" +
			`orchestrator_spec.slurm_spec.partitions[0].node_pool_ids[0]: "login" is the login pool, on which no jobs run`},
		{"empty pool id", []string{`"id": "gpu"`, `"id": ""`}, "node_pools[1].id: is empty (Id of the pool); allowed: 1 to 30 lowercase letters, digits and hyphens, beginning with a letter and not ending with a hyphen"},
		{"no machine", []string{`"machine_spec": { ` + gpuType + ` },`, ""}, "node_pools[1].machine_spec: is missing (Kind of machine)"},
		{"machine without a type", []string{gpuType, ""}, "node_pools[1].machine_spec.machine_type: is missing (Compute Engine machine type); allowed: a machine type such as n2-standard-8 or a3-ultragpu-8g"},
		{"unknown GPU machine", []string{gpuType, `"machine_type": "a3-highgpu-1g"`}, `node_pools[1].machine_spec.machine_type: "a3-highgpu-1g" is not a GPU machine type of training clusters; allowed: one of a3-highgpu-8g, a3-megagpu-8g, a3-ultragpu-8g, a4-highgpu-8g, a4x-highgpu-4g`},
		{"unknown CPU machine for people", []string{`"n2-standard-8"`, `"e2-standard-4"`}, ""},
		{"unknown CPU machine for jobs", []string{gpuType, `"machine_type": "c3-standard-88"`, gpuModel, ""}, `node_pools[1].machine_spec.machine_type: the CPUs and memory of "c3-standard-88" are not known, and Slurm needs them before there is a node; allowed: an n2 machine type, or a node set for the pool whose config gives CPUs and RealMemory`},
		{"unknown CPU machine that is described", []string{gpuType, `"machine_type": "c3-standard-88"`, gpuModel, "", slurmSpec, slurmSpec + `"node_sets": [ { "node_pool_id": "gpu", "config": { "cpus": "88", "real_memory": "340000" } } ],`}, ""},
		{"accelerator", []string{gpuType, gpuType + `, "accelerator_type": "NVIDIA_H200_141GB", "accelerator_count": 8`}, ""},
		{"unspecified accelerator", []string{gpuType, gpuType + `, "accelerator_type": "ACCELERATOR_TYPE_UNSPECIFIED", "accelerator_count": 0`}, ""},
		{"unknown accelerator", []string{gpuType, gpuType + `, "accelerator_type": "H200"`}, `node_pools[1].machine_spec.accelerator_type: "H200" is not known here; allowed: one of NVIDIA_B200, NVIDIA_GB200, NVIDIA_H100_80GB, NVIDIA_H100_MEGA_80GB, NVIDIA_H200_141GB`},
		{"wrong accelerator", []string{gpuType, gpuType + `, "accelerator_type": "NVIDIA_B200"`}, "node_pools[1].machine_spec.accelerator_type: a3-ultragpu-8g has no NVIDIA_B200; allowed: NVIDIA_H200_141GB"},
		{"wrong count", []string{gpuType, gpuType + `, "accelerator_count": 4`}, "node_pools[1].machine_spec.accelerator_count: a3-ultragpu-8g has 8 accelerators, not 4; allowed: 8"},
		{"accelerator without GPUs", []string{`"n2-standard-8"`, `"n2-standard-8", "accelerator_type": "NVIDIA_B200"`}, "node_pools[0].machine_spec.accelerator_type: n2-standard-8 has no accelerators; allowed: no accelerator type, or one of a3-highgpu-8g, a3-megagpu-8g, a3-ultragpu-8g, a4-highgpu-8g, a4x-highgpu-4g"},
		{"count without GPUs", []string{`"n2-standard-8"`, `"n2-standard-8", "accelerator_count": 1`}, "node_pools[0].machine_spec.accelerator_count: n2-standard-8 has no accelerators; allowed: 0"},

		// Provisioning.
		{"GPUs without a model", []string{gpuModel, ""}, "node_pools[1].provisioning_model: is missing, and a pool of GPUs has no default; allowed: FLEX_START, SPOT, ON_DEMAND, or RESERVATION with a reservation affinity"},
		{"GPUs with an unspecified model", []string{"FLEX_START", "PROVISIONING_MODEL_UNSPECIFIED"}, "node_pools[1].provisioning_model: is missing, and a pool of GPUs has no default; allowed: FLEX_START, SPOT, ON_DEMAND, or RESERVATION with a reservation affinity"},
		{"GPUs with a reservation", []string{gpuModel, "", gpuType, gpuType + affinity}, ""},
		{"unknown model", []string{"FLEX_START", "FLEXSTART"}, `node_pools[1].provisioning_model: "FLEXSTART" is not known here; allowed: one of ON_DEMAND, RESERVATION, SPOT, FLEX_START`},
		{"reservation without affinity", []string{"FLEX_START", "RESERVATION"}, "node_pools[1].machine_spec.reservation_affinity: is missing, and the provisioning model is RESERVATION; allowed: a reservation affinity, or another model"},
		{"affinity without reservation", []string{gpuType, gpuType + affinity}, "node_pools[1].machine_spec.reservation_affinity: is given, and the provisioning model is FLEX_START; allowed: the provisioning model RESERVATION, or no reservation affinity"},
		{"affinity on CPUs", []string{`"n2-standard-8"`, `"n2-standard-8"` + affinity}, "node_pools[0].machine_spec.reservation_affinity: is given, and the provisioning model is ON_DEMAND; allowed: the provisioning model RESERVATION, or no reservation affinity"},
		{"other affinity", []string{gpuModel, "", gpuType, gpuType + strings.Replace(affinity, "SPECIFIC_RESERVATION", "ANY_RESERVATION", 1)}, `node_pools[1].machine_spec.reservation_affinity.reservation_affinity_type: "ANY_RESERVATION" is not known here; allowed: SPECIFIC_RESERVATION`},
		{"other key", []string{gpuModel, "", gpuType, gpuType + strings.Replace(affinity, `"values"`, `"key": "k", "values"`, 1)}, `node_pools[1].machine_spec.reservation_affinity.key: "k" is not known here; allowed: compute.googleapis.com/reservation-name`},
		{"reservation elsewhere", []string{gpuModel, "", gpuType, gpuType + strings.Replace(affinity, `us-central1-a`, `us-central1-b`, 1)}, `node_pools[1].machine_spec.reservation_affinity.values[0]: is in us-central1-b; allowed: a reservation in us-central1-a, where the pool is`},
		{"block of a reservation", []string{gpuModel, "", gpuType, gpuType + strings.Replace(affinity, `/r1`, `/r1/reservationBlocks/b1/reservationSubBlocks/s1`, 1)}, ""},
		{"bare reservation", []string{gpuModel, "", gpuType, gpuType + strings.Replace(affinity, `projects/p-1/zones/us-central1-a/reservations/r1`, `r1`, 1)}, `node_pools[1].machine_spec.reservation_affinity.values[0]: "r1" does not have the right form; allowed: projects/PROJECT/zones/ZONE/reservations/RESERVATION, with /reservationBlocks/BLOCK and /reservationSubBlocks/SUBBLOCK if wanted`},
		{"flex start on CPUs", []string{gpuType, `"machine_type": "n2-standard-8"`}, "node_pools[1].provisioning_model: n2-standard-8 machines cannot be had by FLEX_START; allowed: another model, or a machine type with GPUs that are not A4X"},
		{"flex start of A4X", []string{gpuType, `"machine_type": "a4x-highgpu-4g"`, gpuScaling, `"max_node_count": 18`}, "node_pools[1].provisioning_model: a4x-highgpu-4g machines cannot be had by FLEX_START; allowed: another model, or a machine type with GPUs that are not A4X"},
		{"shortest flex start", []string{gpuModel, gpuModel + `"flex_start_max_duration": "30s",`}, ""},
		{"too short flex start", []string{gpuModel, gpuModel + `"flex_start_max_duration": "29s",`}, `node_pools[1].flex_start_max_duration: 29s is out of range; allowed: "30s" to "604800s"`},
		{"too long flex start", []string{gpuModel, gpuModel + `"flex_start_max_duration": "604801s",`}, `node_pools[1].flex_start_max_duration: 604801s is out of range; allowed: "30s" to "604800s"`},
		{"flex start in days", []string{gpuModel, gpuModel + `"flex_start_max_duration": "7d",`}, `node_pools[1].flex_start_max_duration: is "7d"; allowed: whole seconds, such as "604800s"`},
		{"flex start as a number", []string{gpuModel, gpuModel + `"flex_start_max_duration": 3600,`}, `node_pools[1].flex_start_max_duration: is 3600; allowed: whole seconds, such as "604800s"`},
		{"duration without flex start", []string{gpuModel, `"provisioning_model": "SPOT", "flex_start_max_duration": "3600s",`}, "node_pools[1].flex_start_max_duration: is given, and the provisioning model is SPOT; allowed: the provisioning model FLEX_START, or no duration"},

		// Size.
		{"minimum above maximum", []string{gpuScaling, `"min_node_count": 3, "max_node_count": 2`}, "node_pools[1].scaling_spec.min_node_count: 3 is more than the maximum, 2; allowed: 0 to the maximum"},
		{"a pool put to rest", []string{gpuScaling, ""}, ""},
		{"half a rack", []string{gpuType, `"machine_type": "a4x-highgpu-4g"`, "FLEX_START", "ON_DEMAND", gpuScaling, `"min_node_count": 18, "max_node_count": 20`}, "node_pools[1].scaling_spec.max_node_count: is 20; allowed: a multiple of 18, since a4x-highgpu-4g machines come by whole racks"},
		{"too many nodes", []string{gpuScaling, `"max_node_count": 10000`}, "node_pools: have 10001 nodes together; allowed: at most 10000"},
		{"zone elsewhere", []string{`"us-central1-a"`, `"us-east1-b"`}, `node_pools[0].zone: "us-east1-b" is not in us-central1, where the cluster is; allowed: a zone such as us-central1-a`},
		{"no zone", []string{`"zone": "us-central1-a"`, `"zone": null`, `"zone": "us-central1-a"`, `"zone": ""`}, "node_pools[0].zone: is missing, and neither a reservation nor the other pools tell it; allowed: a zone such as us-central1-a\n" +
			"node_pools[1].zone: is missing, and neither a reservation nor the other pools tell it; allowed: a zone such as us-central1-a"},

		// Disks, mounts, scripts, images.
		{"unknown disk", []string{gpuModel, gpuModel + `"boot_disk": { "boot_disk_type": "pd-balanced" },`}, `node_pools[1].boot_disk.boot_disk_type: "pd-balanced" is not known here; allowed: one of pd-ssd, pd-standard, hyperdisk-balanced`},
		{"disk of another family", []string{gpuModel, gpuModel + `"boot_disk": { "boot_disk_type": "pd-ssd" },`}, `node_pools[1].boot_disk.boot_disk_type: a3-ultragpu-8g machines do not start from pd-ssd; allowed: hyperdisk-balanced`},
		{"standard disk for A3", []string{gpuType, `"machine_type": "a3-megagpu-8g"`, gpuModel, gpuModel + `"boot_disk": { "boot_disk_type": "pd-standard" },`}, `node_pools[1].boot_disk.boot_disk_type: a3-megagpu-8g machines do not start from pd-standard; allowed: one of pd-ssd, hyperdisk-balanced`},
		{"small disk", []string{gpuModel, gpuModel + `"boot_disk": { "boot_disk_size_gb": 9 },`}, `node_pools[1].boot_disk.boot_disk_size_gb: 9 GB is less than an image needs; allowed: 10 to 65536`},
		{"filestore elsewhere", []string{gpuModel, gpuModel + `"filestores": [ "projects/my-project/locations/us-east1-b/instances/f" ],`}, "node_pools[1].filestores[0]: is in us-east1-b; allowed: an instance in us-central1 or one of its zones, where the cluster is"},
		{"lustre's name", []string{gpuModel, gpuModel + `"lustres": [ "l" ],`}, `node_pools[1].lustres[0]: "l" does not have the right form; allowed: projects/PROJECT/locations/LOCATION/instances/INSTANCE`},
		{"filestore twice", []string{gpuModel, gpuModel + `"filestores": [ "projects/my-project/locations/us-central1/instances/f", "projects/my-project/locations/us-central1/instances/f" ],`}, `node_pools[1].filestores[1]: "projects/my-project/locations/us-central1/instances/f" is there twice; allowed: each one once`},
		{"big start-up script", []string{gpuModel, gpuModel + `"startup_script": "` + strings.Repeat("x", MaxScript+1) + `",`}, "node_pools[1].startup_script: has 65537 bytes; allowed: at most 65536"},
		{"NUL in a script", []string{gpuModel, gpuModel + `"startup_script": "#!/bin/sh\n\u0000",`}, `node_pools[1].startup_script: contains the character '\x00'; allowed: text`},
		{"image", []string{gpuModel, gpuModel + `"node_image": "projects/p-1/global/images/family/f",`}, ""},
		{"bare image", []string{gpuModel, gpuModel + `"node_image": "debian-12",`}, `node_pools[1].node_image: "debian-12" does not have the right form; allowed: projects/PROJECT/global/images/IMAGE or projects/PROJECT/global/images/family/FAMILY`},
		{"confidential", []string{gpuModel, gpuModel + `"confidential_instance_config": { "confidential_instance_type": "SEV-SNP" },`}, `node_pools[1].confidential_instance_config.confidential_instance_type: "SEV-SNP" is not known here; allowed: one of SEV, SEV_SNP, TDX`},

		// Slurm.
		{"no orchestrator", []string{`"orchestrator_spec"`, `"orchestrator_spec": null, "clusterStatus"`}, "orchestrator_spec: is missing (The orchestrator, which is Slurm)"},
		{"home elsewhere", []string{"locations/us-central1-a/", "locations/us-east1-b/"}, "orchestrator_spec.slurm_spec.home_directory_storage: is in us-east1-b; allowed: an instance in us-central1 or one of its zones, where the cluster is"},
		{"home is a bucket", []string{"projects/my-project/locations/us-central1-a/instances/home", "gs://home"}, `orchestrator_spec.slurm_spec.home_directory_storage: "gs://home" does not have the right form; allowed: projects/PROJECT/locations/LOCATION/instances/INSTANCE`},
		{"no such login pool", []string{`"login_node_pool_id": "login"`, `"login_node_pool_id": "logins"`}, `orchestrator_spec.slurm_spec.login_node_pool_id: there is no pool "logins"; allowed: one of login, gpu`},
		{"elastic login pool", []string{loginScale, `"min_node_count": 1, "max_node_count": 2`}, "node_pools[0].scaling_spec.min_node_count: is 1 of at most 2 nodes; allowed: the same minimum and maximum, since this is the login pool"},
		{"empty login pool", []string{loginScale, `"max_node_count": 0`}, "node_pools[0].scaling_spec.min_node_count: is 0; allowed: at least 1, since this is the login pool"},
		{"partition of the login pool", []string{`[ "gpu" ]`, `[ "gpu", "login" ]`}, `orchestrator_spec.slurm_spec.partitions[0].node_pool_ids[1]: "login" is the login pool, on which no jobs run; allowed: gpu`},
		{"no partitions", []string{`[ { "id": "p1", "node_pool_ids": [ "gpu" ] } ]`, "[]"}, "orchestrator_spec.slurm_spec.partitions: is empty (Slurm partitions over whole compute pools)"},
		{"partition named DEFAULT", []string{`"p1"`, `"Default"`}, `orchestrator_spec.slurm_spec.partitions[0].id: "Default" stands for every partition in slurm.conf; allowed: another id`},
		{"partition with a space", []string{`"p1"`, `"p 1"`}, `orchestrator_spec.slurm_spec.partitions[0].id: "p 1" does not have the right form; allowed: 1 to 63 letters, digits, hyphens and underscores, beginning with a letter`},
		{"partition twice", []string{`[ { "id": "p1"`, `[ { "id": "p1", "node_pool_ids": [ "gpu" ] }, { "id": "p1"`}, `orchestrator_spec.slurm_spec.partitions[1].id: "p1" is the id of another partition; allowed: a different id for each partition`},
		{"default partition", []string{slurmSpec, slurmSpec + `"default_partition_id": "p1",`}, ""},
		{"no such default partition", []string{slurmSpec, slurmSpec + `"default_partition_id": "p2",`}, `orchestrator_spec.slurm_spec.default_partition_id: there is no partition "p2"; allowed: p1`},
		{"default partition of unknown ones", []string{`"p1"`, `"p 1"`, slurmSpec, slurmSpec + `"default_partition_id": "p1",`}, `orchestrator_spec.slurm_spec.partitions[0].id: "p 1" does not have the right form; allowed: 1 to 63 letters, digits, hyphens and underscores, beginning with a letter`},
		{"node set", []string{slurmSpec, slurmSpec + `"node_sets": [ { "node_pool_id": "gpu", "config": { "Weight": "10" } } ],`}, ""},
		{"node set of the login pool", []string{slurmSpec, slurmSpec + `"node_sets": [ { "node_pool_id": "login" } ],`}, `orchestrator_spec.slurm_spec.node_sets[0].node_pool_id: "login" is the login pool, on which no jobs run; allowed: gpu`},
		{"two node sets", []string{slurmSpec, slurmSpec + `"node_sets": [ { "node_pool_id": "gpu" }, { "node_pool_id": "gpu" } ],`}, `orchestrator_spec.slurm_spec.node_sets[1].node_pool_id: pool "gpu" has another node set; allowed: one for each pool`},
		{"script without an interpreter", []string{slurmSpec, slurmSpec + `"prolog_bash_scripts": [ "#!/bin/sh\n", "echo" ],`}, `orchestrator_spec.slurm_spec.prolog_bash_scripts[1]: "echo" does not have the right form; allowed: a script that begins with #!`},
		{"empty script", []string{slurmSpec, slurmSpec + `"epilog_bash_scripts": [ "" ],`}, `orchestrator_spec.slurm_spec.epilog_bash_scripts[0]: is empty; allowed: a script that begins with #!`},
		{"the same script twice", []string{slurmSpec, slurmSpec + `"epilog_bash_scripts": [ "#!/bin/sh", "#!/bin/sh" ],`}, ""},
		{"many scripts", []string{slurmSpec, slurmSpec + `"epilog_bash_scripts": [ ` + entries(17, `"#!/bin/sh %d"`) + ` ],`}, `orchestrator_spec.slurm_spec.epilog_bash_scripts: has 17 entries; allowed: at most 16`},

		// slurm.conf.
		{"misspelled parameter", []string{slurmSpec, slurmSpec + `"config": { "PriorityWeigthAge": "1" },`}, `orchestrator_spec.slurm_spec.config.PriorityWeigthAge: Slurm has no parameter "PriorityWeigthAge" in the cluster's config, did you mean PriorityWeightAge?`},
		{"parameter that is kept", []string{slurmSpec, slurmSpec + `"config": { "health_check_program": "/x" },`}, `orchestrator_spec.slurm_spec.config.health_check_program: HealthCheckProgram may not be set: node health is checked for you`},
		{"parameter as a number", []string{slurmSpec, slurmSpec + `"config": { "PriorityWeightAge": 1 },`}, `orchestrator_spec.slurm_spec.config.PriorityWeightAge: is 1; allowed: a string`},
		{"parameter twice", []string{slurmSpec, slurmSpec + `"config": { "MaxJobCount": "1", "max_job_count": "2" },`}, `orchestrator_spec.slurm_spec.config.max_job_count: is given as MaxJobCount too`},
		{"parameter's value", []string{slurmSpec, slurmSpec + `"config": { "MailDomain": "x\nResumeProgram=/y" },`}, `orchestrator_spec.slurm_spec.config.MailDomain: "x\nResumeProgram=/y" contains '\n'; allowed: one word of printable ASCII, or several in double quotes, without # and \`},
		{"partition's parameter", []string{`"id": "p1"`, `"id": "p1", "config": { "Weight": "1" }`}, `orchestrator_spec.slurm_spec.partitions[0].config.Weight: Weight is not a parameter of a partition's config, it belongs in a node set's config`},
		{"config and scheduling", []string{slurmSpec, slurmSpec + `"config": { "MaxJobCount": "1" }, "scheduling": { "priority_weight_age": 1 },`}, "orchestrator_spec.slurm_spec.scheduling: is given together with config, which supersedes it; allowed: one of the two"},
		{"config and accounting", []string{slurmSpec, slurmSpec + `"config": { "MaxJobCount": "1" }, "accounting": {},`}, "orchestrator_spec.slurm_spec.accounting: is given together with config, which supersedes it; allowed: one of the two"},
		{"older settings", []string{slurmSpec, slurmSpec + `"accounting": { "accounting_storage_enforce": "limits" }, "scheduling": { "preempt_mode": "REQUEUE", "priority_weight_qos": "5" },`}, ""},
		{"older setting's value", []string{slurmSpec, slurmSpec + `"scheduling": { "preempt_mode": "NICELY" },`}, `orchestrator_spec.slurm_spec.scheduling.preempt_mode: "NICELY" is not a value of PreemptMode; allowed: a list of CANCEL, GANG, OFF, PRIORITY, REQUEUE, SUSPEND, WITHIN`},

		// The rest.
		{"service account", []string{network, `"runtime_spec": { "service_account": "123-compute@developer.gserviceaccount.com" },` + network}, ""},
		{"some address", []string{network, `"runtime_spec": { "service_account": "me@example.com" },` + network}, `runtime_spec.service_account: "me@example.com" does not have the right form; allowed: the e-mail address of a service account`},
		{"export", []string{network, `"lustre_export_config": { "destination_bucket": "b-1", "days_of_week": [ "MONDAY" ], "start_time": { "hours": 3 } },` + network}, ""},
		{"export to a URL", []string{network, `"lustre_export_config": { "destination_bucket": "gs://b" },` + network}, `lustre_export_config.destination_bucket: "gs://b" does not have the right form; allowed: the name of a bucket, without gs://`},
		{"export of what is not there", []string{network, `"lustre_export_config": { "destination_bucket": "b-1", "lustres": [ "projects/my-project/locations/us-central1-a/instances/l" ] },` + network}, "lustre_export_config.lustres[0]: no pool mounts it; allowed: one of the pools' lustres"},
		{"export at no time", []string{network, `"lustre_export_config": { "destination_bucket": "b-1", "start_time": { "hours": 24 } },` + network}, "lustre_export_config.start_time.hours: 24 is out of range; allowed: a whole number from 0 to 23"},
		{"export on a strange day", []string{network, `"lustre_export_config": { "destination_bucket": "b-1", "days_of_week": [ "Monday" ] },` + network}, `lustre_export_config.days_of_week[0]: "Monday" is not known here; allowed: one of MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY, SATURDAY, SUNDAY`},
	} {
		t.Run(c.about, func(t *testing.T) {
			text := edited(t, c.edits...)
			_, faults := Parse([]byte(text), Options{})
			got := faults.Error()
			if got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
			for _, f := range faults {
				if f.Line == 0 || f.Column == 0 {
					t.Errorf("no place: %+v", f)
				}
			}
			checkAgainstSchema(t, text)
		})
	}
}

// entries is n members of an object or list, each made from the pattern and its number.
func entries(n int, pattern string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(pattern, i)
	}
	return strings.Join(list, ", ")
}
