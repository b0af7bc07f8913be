// SPDX-License-Identifier: MIT
// The end of the process that something else decides: a signal, or the death of the launcher that has started this
// rank. From then on nothing is put in its place: no result, checkpoint, kept set or report.
#pragma once

#include <stdbool.h>

#include "mpimatmul_local.h"

// Has the end begun? Files are renamed to their own names only if not. Asks the system about the launcher, one call:
// the answer is right even before the thread of mmul_ending_watch has woken up.
bool mmul_ending_has_begun(void);

// Begins it. Async-signal-safe.
void mmul_ending_begin(void);

// Starts a thread that ends the process (code 75, without exit handlers) once the launcher of this rank has ended, such
// as an mpirun that was killed; `last` is called before. Open MPI itself lets ranks go on for a second. The launcher is
// the nearest ancestor outside of this job: the scripts between have the job's PMIX_NAMESPACE in their environment.
// mpirun on another host counts, too: its daemon here sends SIGCONT when it has lost mpirun, and then the connection to
// mpirun is looked for. An mpirun whose host is cut off counts as well, once it has not acknowledged anything for as
// long as Open MPI's keep-alive would take (OMPI_MCA_oob_tcp_keepalive_*; 11 s with scripts/mpimatmul.tune). Does
// nothing without PMIX_NAMESPACE, without pidfd_open (Linux before 5.3), and when called
// again.
//
// Call it before MPI_Init. If the launcher has died before, another process stands in for it here, and MPI_Init, which
// finds nothing to connect to, ends the process.
void mmul_ending_watch(void (*last)(void));

// Publishes what mmul_ending_explanation gives; the first call counts. Copies. On the thread that looks after the run.
void mmul_ending_explain(const struct mmul_ending_note *note);

// Publishes what mmul_ending_kept gives, in place of what was published before. Shortened to 255 bytes.
void mmul_ending_keep(const char *text);
