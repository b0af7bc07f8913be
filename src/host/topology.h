// SPDX-License-Identifier: MIT
//
// This machine as one rank sees it: cores it may use, memory, binding.
#pragma once

#include "mpimatmul_local.h"

enum { MMUL_CORES_MAX = 1024 };

// A set of processing units (hardware threads) by the system's numbers. Plain data.
struct mmul_cpuset {
    uint64_t bits[MMUL_CORES_MAX / 64];
};

int mmul_cpuset_count(const struct mmul_cpuset *set);
bool mmul_cpuset_has(const struct mmul_cpuset *set, int unit);
void mmul_cpuset_add(struct mmul_cpuset *set, int unit);
bool mmul_cpuset_equal(const struct mmul_cpuset *a, const struct mmul_cpuset *b);

// "0-3,8"; returns `text`.
char *mmul_cpuset_format(const struct mmul_cpuset *set, char text[static 64]);

// Plain data: may be sent as bytes between like machines.
struct mmul_topology {
    char host[64];
    int packages, numa_nodes;
    int cores;               // physical cores of the machine
    int64_t cache_bytes;     // of second caches, a core's part; 256 KiB where it is not known
    int64_t all_cache_bytes; // of the machine's third caches; 0: it has none, or they are not known
    struct mmul_cpuset own;  // this process's mask when it started
    struct mmul_cpuset allowed;   // what the launcher may use on this node (its own mask)
    struct mmul_cpuset core_lead; // of `allowed`: the first unit of each physical core
    double cpu_quota;             // cores' worth of time the cgroup grants; 0: no limit
    bool user_binding;            // the user chose this process's mask: obey it
    int64_t memory_bytes;         // of the machine or the cgroup's limit, whichever is less
    int64_t memory_available_bytes;
    char cpu_name[64];
};

// Looks around. Local. Fails with MMUL_ERR_SYSTEM.
// `allowed`: under Open MPI's mpirun the mask of the parent process (mpirun or its daemon), which
// default binding does not narrow; otherwise this process's own. hwloc's "allowed" alone still
// shows every core after `taskset -c 0 mpirun`.
// `user_binding`: --bind-to (also none), --cpu-set, --cpu-list or a rankfile was given to mpirun, or
// another launcher than mpirun set a mask (Slurm's srun, taskset without mpirun). With
// `--bind-to none` it is true and own equals allowed: the caller divides the node then.
enum mmul_status mmul_topology_discover(struct mmul_topology *topology, struct mmul_error *err);

// Binds every thread of this process (also library threads that are already running) to `set`.
// Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_topology_bind(const struct mmul_cpuset *set, struct mmul_error *err);

// Resident memory of this process, shared pages divided among their users (Linux's Pss), but no more
// than `sharers` of them: other programs that use the same libraries now may end. 0: not known.
int64_t mmul_process_bytes(int sharers);

// The same without a look at every page, shared ones counted as any other. 0: not known.
int64_t mmul_process_resident_bytes(void);
