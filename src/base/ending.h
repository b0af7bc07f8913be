// SPDX-License-Identifier: MIT
// Termination of the process from outside: by a signal, or by the death of the launcher that
// started this rank. Once it has begun, no file is renamed to its final name: no result,
// checkpoint, kept set or report.
#pragma once

#include <stdbool.h>

#include "mpimatmul_local.h"

// Returns true if termination has begun. Files are renamed to their final names only if not. Asks
// the system about the launcher in one call, so that the answer is right even before the thread of
// mmul_ending_watch has woken up.
bool mmul_ending_has_begun(void);

// Marks the termination as begun. Async-signal-safe.
void mmul_ending_begin(void);

// Starts a thread that ends the process (code 75, without exit handlers) once the launcher of this
// rank, such as a killed mpirun, has ended. Calls `last` before that. Open MPI itself lets ranks
// run on for a second. The launcher is the nearest ancestor outside this job; scripts in between
// have the job's PMIX_NAMESPACE in their environment.
//
// An mpirun on another host counts, too: its local daemon sends SIGCONT when it has lost mpirun,
// and the thread then looks for the connection to mpirun. An mpirun on an unreachable host counts
// once it has acknowledged nothing for the time of Open MPI's keep-alive
// (OMPI_MCA_oob_tcp_keepalive_*; 11 s with scripts/mpimatmul.tune).
//
// Does nothing without PMIX_NAMESPACE, without pidfd_open (Linux before 5.3), and on later calls.
//
// Call this before MPI_Init. If the launcher has died before, another process takes its place as
// the parent here, and MPI_Init finds nothing to connect to and ends the process.
void mmul_ending_watch(void (*last)(void));

// Publishes the note that mmul_ending_explanation returns. Copies it. Only the first call counts.
// Called on the thread that supervises the run.
void mmul_ending_explain(const struct mmul_ending_note *note);

// Publishes the text that mmul_ending_kept returns, replacing the earlier one. Cuts it to 255
// bytes.
void mmul_ending_keep(const char *text);
