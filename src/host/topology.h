// SPDX-License-Identifier: MIT
//
// View of this machine for one rank: allowed cores, memory, binding.
#pragma once

#include "mpimatmul_local.h"

enum { MMUL_CORES_MAX = 1024 };

// Set of processing units (hardware threads) by the system's numbers. Plain data.
struct mmul_cpuset {
    uint64_t bits[MMUL_CORES_MAX / 64];
};

int mmul_cpuset_count(const struct mmul_cpuset *set);
bool mmul_cpuset_has(const struct mmul_cpuset *set, int unit);
void mmul_cpuset_add(struct mmul_cpuset *set, int unit);
bool mmul_cpuset_equal(const struct mmul_cpuset *a, const struct mmul_cpuset *b);

// Writes "0-3,8". Returns `text`.
char *mmul_cpuset_format(const struct mmul_cpuset *set, char text[static 64]);

// Plain data: may be sent as bytes between machines of one architecture.
struct mmul_topology {
    char host[64];
    int packages, numa_nodes;
    int cores;                           // physical cores of the machine
    int64_t cache_bytes;                 // second-level cache per core; 256 KiB if unknown
    int64_t all_cache_bytes;             // sum of third-level caches; 0: none or unknown
    struct mmul_cpuset own;              // mask of this process at its start
    struct mmul_cpuset allowed;          // mask of the launcher on this node
    struct mmul_cpuset core_first_units; // first unit in `allowed` of each physical core
    double cpu_quota;                    // CPU time that the cgroup grants, in cores; 0: no limit
    bool user_binding;                   // the user chose this process's mask: keep it
    int64_t memory_bytes; // the machine's memory or the cgroup's limit, the less of them
    int64_t memory_available_bytes;
    char cpu_name[64];
};

// Inspects the machine. Local. Fails with MMUL_ERR_SYSTEM.
// `allowed`: under Open MPI's mpirun the mask of the parent process (mpirun or its daemon), which
// default binding does not narrow; otherwise this process's own. hwloc's "allowed" alone still
// shows every core after `taskset -c 0 mpirun`.
// `user_binding`: --bind-to (also none), --cpu-set, --cpu-list or a rankfile was given to mpirun,
// or a launcher other than mpirun set a mask (Slurm's srun, taskset without mpirun). With
// `--bind-to none` it is true and own equals allowed: the caller divides the node then.
enum mmul_status mmul_topology_discover(struct mmul_topology *topology, struct mmul_error *err);

// Binds every thread of this process (also running library threads) to `set`. Fails with
// MMUL_ERR_SYSTEM.
enum mmul_status mmul_topology_bind(const struct mmul_cpuset *set, struct mmul_error *err);

// Returns the resident memory of this process. Shared pages are divided among their users (Linux's
// Pss), but at most among `sharers`, because other programs with the same libraries may end. 0:
// unknown.
int64_t mmul_process_memory_bytes(int sharers);

// Returns the resident memory with all shared pages counted in full, without reading every page's
// state. 0: unknown.
int64_t mmul_process_resident_bytes(void);
