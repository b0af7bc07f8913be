// SPDX-License-Identifier: MIT
//
// Processor time and memory that control groups (versions 1 and 2) grant this process. A limit may
// be set at any level above the process's own group, so every level is read. Source: Linux,
// Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.
#pragma once

#include <stdint.h>

struct mmul_cgroup_limits {
    double cpu_quota;               // in cores; 0: no limit
    double cpu_period_seconds;      // period of the quota
    int64_t memory_bytes;           // INT64_MAX: no limit
    int64_t memory_available_bytes; // rest of that limit; reclaimable page cache counts as free
};

// Reads <root>/proc/self/... and the groups' folders below <root>: "" for this machine, a folder in
// tests. Unreadable files mean no limit.
void mmul_cgroup_read(const char *root, struct mmul_cgroup_limits *limits);
