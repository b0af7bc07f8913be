// SPDX-License-Identifier: MIT
// A rank that makes no progress ends its job. A rank that only waits for others is not stalled, and
// a slow one is not either. The rules, with `limit` seconds (--stall-timeout):
// - Files: some read or write has not returned for `limit`, and no other one has returned. Each
//   call moves up to 64 MiB (io/transfer.h), so a slow disk makes progress. Pipes, flushes and
//   mapped files are not watched.
// - Tasks: a product or an operation takes `limit` longer than the time after which a device counts
//   as hung (exec/worker/watchdog.h), 20 times its prediction and at least 30 s. A device other
//   than a CPU has been replaced by then.
// - Messages: during a run a rank has sent no heartbeat for `limit` (exec/conduct/heartbeat.h). Its
//   main thread sends them even while its device computes or its files are slow.
// Only time in which the observer itself was running counts: a job may be suspended and continued.
#pragma once

#include <stdbool.h>

// Starts a thread that watches the calls of mmul_stall_enter. Calls `last` before it ends the
// process. seconds 0: nothing is watched. Later calls change the seconds only.
void mmul_stall_watch(double seconds, void (*last)(void));

// Returns the seconds after which a rank counts as stalled; 0: never.
double mmul_stall_limit(void);

// Marks the begin and the end of a call that accesses the file `fd`. From any thread.
int mmul_stall_enter(int fd);
void mmul_stall_leave(int place);

// Returns true if a call has not returned for the limit.
bool mmul_stall_is_in_call(void);

// Ends the process with 75 and the line "mpimatmul: rank R on HOST has made no progress for S s: "
// and `reason`, and a hint. The launcher then ends the other ranks.
_Noreturn void mmul_stall_end_job(int rank, const char *host, const char *reason);

// Returns true if this process itself was stopped for half the limit until a moment ago: another
// rank has reported it then. Async-signal-safe.
bool mmul_stall_was_stopped(void);
