// SPDX-License-Identifier: MIT
// Detects the launcher that started this process (mpirun, srun), and chooses settings of Open MPI
// and hwloc for the start of MPI.
#pragma once

#include <limits.h>
#include <stdbool.h>

// Findings from the environment before MPI starts.
struct launcher {
    bool is_present;           // started by mpirun, srun or similar
    bool is_first;             // no launcher, or rank 0
    bool is_one_of_several;    // one of several processes that MPI can connect
    bool has_several_commands; // mpirun was given several command lines, `mpirun ... : ...`
    // Number of nodes of an srun job without a barrier while MPI starts. 0 if there is a barrier.
    int nodes_without_barrier;
};

struct launcher mmul_launcher_find(void);

// Returns the name of this program for other machines. As with mpirun, a plain name is searched in
// their PATH and a path is used as it is.
const char *mmul_launcher_program_name(char path[static PATH_MAX]);

// Sets environment variables of Open MPI and hwloc until mmul_mpi_settings_restore. A value set by
// the user, in the environment or in a file of Open MPI, stays. Call directly before MPI_Init, and
// the other directly after it.
//
// Without a launcher: no daemon, no session folder, no fabric, no drivers. For the ranks of a job:
// both directions of a link at full rate, and no search for a fabric on a machine without one.
enum { MMUL_SETTINGS_MOST = 6 };
struct mpi_settings {
    bool is_alone, is_ours[MMUL_SETTINGS_MOST];
};
void mmul_mpi_settings_apply(struct mpi_settings *settings, bool is_alone);
void mmul_mpi_settings_restore(const struct mpi_settings *settings);

// Makes messages to the launcher leave at once. PMIx delays small messages until the launcher's
// system acknowledges the previous one, which takes 40 ms; MPI_Finalize waits as long. Call
// directly after MPI_Init, when the connection exists.
void mmul_launcher_disable_send_delay(void);
