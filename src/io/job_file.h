// SPDX-License-Identifier: MIT
// The state of a job (struct mmul_job_state, include/mpimatmul_local.h), as a file for other
// processes of the same user. Each version is written under another name first, so readers never
// see a partial one.
#pragma once

#include "mpimatmul_local.h"

enum { MMUL_JOB_PATH_BYTES = 512 };

// Returns the folder `index` of job files in `path`, or false if there is none: indices are 0 and
// 1. A job of this process puts its file in folder 0. A folder is used only if it belongs to this
// user alone (mode 0700, no link).
bool mmul_job_folder_path(int index, char path[static MMUL_JOB_PATH_BYTES]);

// Checks a folder. *is_there: it exists. Fails with MMUL_ERR_CREATE if it may not be used.
enum mmul_status mmul_job_folder_check(const char *path, bool *is_there, struct mmul_error *err);

// Returns the start time of a process, from /proc/<pid>/stat, which distinguishes processes with
// the same number. 0: no such process.
int64_t mmul_process_started(int64_t pid);

struct mmul_job_file {
    char path[MMUL_JOB_PATH_BYTES]; // "": no file yet
    char id[24];
    int64_t started; // mmul_process_started of this process
    double begin;    // start of the job, in clock time
};

// Chooses a name that no other job of this process has, and creates the folder if it is missing.
// Fails with MMUL_ERR_CREATE.
enum mmul_status mmul_job_file_choose_path(struct mmul_job_file *file, double begin,
                                           struct mmul_error *err);

// Writes the state. Readers compute elapsed and silent seconds from the clock. Fails with
// MMUL_ERR_IO, MMUL_ERR_SYSTEM.
enum mmul_status mmul_job_file_store(const struct mmul_job_file *file,
                                     const struct mmul_job_state *job, double now,
                                     struct mmul_error *err);

// Removes the file, if there is one.
void mmul_job_file_remove(struct mmul_job_file *file);
