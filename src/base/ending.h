// SPDX-License-Identifier: MIT
// Termination of the process from outside: by a signal, or by the death of the launcher that
// started this rank. Once it has begun, no file is renamed to its final name: no result,
// checkpoint, kept set or report.
#pragma once

#include <stdbool.h>

#include "mpimatmul_local.h"

// Returns true if termination has begun: then no file may be renamed to its final name. Queries the
// launcher itself, because the thread of mmul_ending_watch may not have run yet.
bool mmul_ending_has_begun(void);

// Marks the termination as begun. Async-signal-safe.
void mmul_ending_begin(void);

// Starts a thread that ends the process (code 75, without exit handlers) once the launcher of this
// rank, such as a killed mpirun, has ended. Calls `last` before it ends the process. Open MPI
// itself lets ranks run on for a second. The launcher is the nearest ancestor process with an
// environment that lacks this job's PMIX_NAMESPACE. Scripts between launcher and rank have it.
//
// An mpirun on another host is watched, too: its local daemon sends SIGCONT when it has lost
// mpirun, and the thread then looks for the connection to mpirun. An mpirun on an unreachable host
// is treated as ended if it has sent no TCP acknowledgement for Open MPI's keep-alive time
// (OMPI_MCA_oob_tcp_keepalive_*; 11 s with scripts/mpimatmul.tune).
//
// Does nothing without PMIX_NAMESPACE, without pidfd_open (Linux before 5.3), and on later calls.
//
// Call this before MPI_Init. Later it cannot see a launcher that has already died: the rank then
// has another parent. MPI_Init itself ends a rank of a dead launcher.
void mmul_ending_watch(void (*last)(void));

// Copies `note`; mmul_ending_explanation returns the copy. Later calls do nothing. Call it on the
// main thread.
void mmul_ending_explain(const struct mmul_ending_note *note);

// Sets the text that mmul_ending_kept returns: the last checkpoint, or how to continue. Text beyond
// 255 bytes is cut.
void mmul_ending_keep(const char *text);

// Says that a thread of this process records finished work from now on, or no more.
void mmul_ending_set_recorded(bool is_recorded);

// Returns what a signal has asked of that thread since then.
enum mmul_ending_wish mmul_ending_wish(void);
