// SPDX-License-Identifier: MIT
// Who started this process, and how MPI should start when nobody did.
#pragma once

#include <stdbool.h>

// What the environment says before MPI starts.
struct launcher {
    bool is_present; // started by mpirun, srun or the like
    bool is_first;   // no launcher, or its rank 0
    bool is_several; // one of several processes that MPI can bring together
    bool is_mixed;   // mpirun was given several command lines, `mpirun ... : ...`
};

struct launcher mmul_launcher_find(void);

// Settings of Open MPI and hwloc for a process that no launcher started: no daemon, no fabric, no
// drivers. In the environment from here to the next call; what the user set, there or in a file of
// Open MPI's, stays. Call it right before MPI_Init, and the other one right after.
enum { MMUL_ALONE_SETTINGS = 4 };
struct alone_settings {
    bool is_ours[MMUL_ALONE_SETTINGS];
};
void mmul_alone_begin(struct alone_settings *settings);
void mmul_alone_end(const struct alone_settings *settings);
