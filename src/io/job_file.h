// SPDX-License-Identifier: MIT
//
// How a job stands (struct mmul_job_state, include/mpimatmul_local.h), as a file that others of the same user read:
// written anew each time, under another name first, so that nobody meets half of it.
#pragma once

#include "mpimatmul_local.h"

enum { MMUL_JOB_PATH_BYTES = 512 };

// A folder is used where it is this user's alone (mode 0700, no link). Those that may have files of jobs: whether there
// is one of that index, 0 or 1, in `path`; index 0 is where a job of this process puts its own.
bool mmul_job_folder(int index, char path[static MMUL_JOB_PATH_BYTES]);

// *is_there: it exists. Fails with MMUL_ERR_CREATE where it may not be used.
enum mmul_status mmul_job_folder_check(const char *path, bool *is_there, struct mmul_error *err);

// The first field of /proc/<pid>/stat that tells one process from the next of that number: when it began. 0: there is
// no such process.
int64_t mmul_process_started(int64_t pid);

struct mmul_job_file {
    char path[MMUL_JOB_PATH_BYTES]; // "": there is none yet
    char id[24];
    int64_t started; // mmul_process_started of this process
    double begin;    // clock: of the job
};

// A name that no other job of this process has, in the folder, which is made where it is missing. Fails with
// MMUL_ERR_CREATE.
enum mmul_status mmul_job_file_open(struct mmul_job_file *file, double begin,
                                    struct mmul_error *err);

// Elapsed and silent seconds follow from the clock when it is read. Fails with MMUL_ERR_IO, MMUL_ERR_SYSTEM.
enum mmul_status mmul_job_file_store(const struct mmul_job_file *file,
                                     const struct mmul_job_state *job, double now,
                                     struct mmul_error *err);

// Nothing where there is none.
void mmul_job_file_remove(struct mmul_job_file *file);
