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
    int unmet_nodes; // of a job by srun whose nodes may not wait for each other when MPI starts; 0: they do
};

struct launcher mmul_launcher_find(void);

// Settings of Open MPI and hwloc from here to the next call; what the user set, in the environment or in
// a file of Open MPI's, stays. For a process that no launcher started: no daemon, no folder, no fabric, no drivers.
// For the ranks of a job: bytes that both directions of a cable carry at once, and no search for a fabric where there
// is none. Call it right before MPI_Init, and the other one right after.
enum { MMUL_SETTINGS_MOST = 6 };
struct mpi_settings {
    bool is_alone, is_ours[MMUL_SETTINGS_MOST];
};
void mmul_settings_begin(struct mpi_settings *settings, bool is_alone);
void mmul_settings_end(const struct mpi_settings *settings);

// What this process tells its launcher leaves at once. PMIx collects small messages until the launcher's system has
// acknowledged the one before, which waits 40 ms for an answer to send along: as long does MPI_Finalize. Call it
// right after MPI_Init, when the connection is there.
void mmul_launcher_send_at_once(void);
