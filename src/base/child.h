// SPDX-License-Identifier: MIT
// Child processes, for work in which a driver may crash or hang, and for other programs.
#pragma once

#include <sys/types.h>

#include "mpimatmul_local.h"

// Runs in the child and writes plain data to `result`, which is zeroed before.
typedef void mmul_child_work(const void *argument, void *result);

// A running child.
struct mmul_child {
    pid_t pid;  // 0: none
    int output; // the parent's end of the pipe
    size_t result_bytes;
};

// Outcome of a child.
enum mmul_child_end { MMUL_CHILD_DONE, MMUL_CHILD_CRASHED, MMUL_CHILD_EXITED, MMUL_CHILD_HUNG };

// Starts a child that calls `work` and ends. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_child_start(mmul_child_work *work, const void *argument, size_t result_bytes,
                                  struct mmul_child *child, struct mmul_error *err);

// Waits until the child is done or the clock (mmul_clock_now) reaches `deadline`, then ends and
// reaps it. `result` (result_bytes) is complete only for MMUL_CHILD_DONE. `*detail` gets the signal
// number or the exit status.
enum mmul_child_end mmul_child_finish(struct mmul_child *child, double deadline, void *result,
                                      int *detail);

// Runs a program (argv, found on PATH, ends with NULL) in `folder` until it ends or `seconds` are
// over. Its output goes to the file "log" there. `*detail` as in mmul_child_finish. A missing
// program exits with 127. Fails with MMUL_ERR_SYSTEM if no child can be started.
enum mmul_status mmul_child_run_executable(const char *const *argv, const char *folder,
                                           double seconds, enum mmul_child_end *end, int *detail,
                                           struct mmul_error *err);

// Finds an executable program: a name on PATH or in `more_folders` (":/sbin", or ""), or a path.
// Returns false and sets path to "" if there is none.
bool mmul_executable_find(const char *name, const char *more_folders, char *path, size_t capacity);

// A running program with pipes to its streams. Reads and writes on them do not block this process.
struct mmul_process {
    pid_t pid; // 0: none
    int input, output, errors;
};

// Starts a program (argv, found on PATH, ends with NULL). It is killed when this process ends. The
// caller must ignore SIGPIPE, because the program may end before it has read its input. A missing
// program exits with 127. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_process_start(const char *const *argv, struct mmul_process *program,
                                    struct mmul_error *err);

// Closes the program's input, waits `seconds` for its end, then kills it. Reaps it and closes its
// output. `*detail` as in mmul_child_finish.
enum mmul_child_end mmul_process_finish(struct mmul_process *program, double seconds, int *detail);
