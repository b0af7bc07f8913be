// SPDX-License-Identifier: MIT
// Where a benchmark's matrices lie while it runs: in memory where there is room.
#pragma once

#include "mpimatmul_local.h"

enum { BENCH_PATH_CAPACITY = 4096 };

struct bench_folder {
    char path[BENCH_PATH_CAPACITY - 16]; // room for a file's name
    int keeper_fd;                       // the keeper sees when it is closed
    long keeper_pid;
};

// A new folder with room for `bytes` below /dev/shm, else below $TMPDIR, else below /tmp. A process
// of its own removes it with all that is in it as soon as this one is gone, whatever ended it.
// Fails with MMUL_ERR_CREATE, or MMUL_ERR_IO when none has the room.
enum mmul_status mmul_bench_folder_create(double bytes, struct bench_folder *folder,
                                          struct mmul_error *err);

// Removes it; returns when it is gone. A folder that is {0} is legal.
void mmul_bench_folder_destroy(struct bench_folder *folder);
