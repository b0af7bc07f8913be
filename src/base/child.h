// SPDX-License-Identifier: MIT
//
// Work in a child process, where a driver may crash or hang; and other programs.
#pragma once

#include <sys/types.h>

#include "mpimatmul_local.h"

// Runs in the child; writes plain data to `result`, which is zeroed.
typedef void mmul_child_work(const void *argument, void *result);

// A child under way.
struct mmul_child {
    pid_t pid;  // 0: none
    int output; // our end of its pipe
    size_t result_bytes;
};

// How a child ended.
enum mmul_child_end { MMUL_CHILD_DONE, MMUL_CHILD_CRASHED, MMUL_CHILD_EXITED, MMUL_CHILD_HUNG };

// Starts a child that calls `work` and ends. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_child_start(mmul_child_work *work, const void *argument, size_t result_bytes,
                                  struct mmul_child *child, struct mmul_error *err);

// Waits until the child is done or the clock (mmul_clock_now) reaches `deadline`, then ends and
// reaps it. `result` (result_bytes) is complete when it is done; `*detail` gets the signal or the
// exit status.
enum mmul_child_end mmul_child_finish(struct mmul_child *child, double deadline, void *result,
                                      int *detail);

// Runs a program (argv, found on PATH, ends with NULL) in `folder`, where its output goes to the file
// "log", until it ends or `seconds` are over. `*detail` as above; a program that is not there exits
// with 127. Fails with MMUL_ERR_SYSTEM: no child.
enum mmul_status mmul_child_run(const char *const *argv, const char *folder, double seconds,
                                enum mmul_child_end *end, int *detail, struct mmul_error *err);

// Where a program is found: a name on PATH or in `more_folders` (":/sbin", or ""), a path if it can
// be run. false: nowhere, and path is "".
bool mmul_program_find(const char *name, const char *more_folders, char *path, size_t capacity);

// A program under way whose streams are ours: what is written to `input` it reads. None of them
// blocks us.
struct mmul_program {
    pid_t pid; // 0: none
    int input, output, errors;
};

// Starts a program (argv, found on PATH, ends with NULL). It is killed when this process ends. The
// caller ignores SIGPIPE: the program may end before it has read. A program that is not there exits
// with 127. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_program_start(const char *const *argv, struct mmul_program *program,
                                    struct mmul_error *err);

// Closes its input, gives it `seconds` to end, kills it then, reaps it and closes the rest.
// `*detail` as above.
enum mmul_child_end mmul_program_finish(struct mmul_program *program, double seconds, int *detail);
