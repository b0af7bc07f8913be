// SPDX-License-Identifier: MIT
//
// What control groups (versions 1 and 2) grant this process: processor time and memory. A limit
// may stand at any level above the process's own group, so every level is read.
// Source: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.
#pragma once

#include <stdint.h>

struct mmul_cgroup_limits {
    double cpu_quota;               // cores' worth of time; 0: no limit
    double cpu_period_seconds;      // in which that is granted, anew each time
    int64_t memory_bytes;           // INT64_MAX: no limit
    int64_t memory_available_bytes; // of that limit, page cache that can go counted as free
};

// Reads <root>/proc/self/... and the groups' folders below <root>; "" is this machine, tests give
// a folder. What cannot be read is no limit.
void mmul_cgroup_read(const char *root, struct mmul_cgroup_limits *limits);
