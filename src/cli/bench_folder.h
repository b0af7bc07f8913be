// SPDX-License-Identifier: MIT
// The folder for a benchmark's matrices, in memory if there is room.
#pragma once

#include "mpimatmul_local.h"

enum { BENCH_PATH_CAPACITY = 4096 };

struct bench_folder {
    char path[BENCH_PATH_CAPACITY - 16]; // leaves room for a file's name
    int keeper_fd;                       // the keeper process notices when this end closes
    long keeper_pid;
};

// Creates a folder with room for `bytes` below /dev/shm, else below $TMPDIR, else below /tmp. A
// keeper process removes the folder with its contents when this process ends for any reason. Fails
// with MMUL_ERR_CREATE, or MMUL_ERR_IO if no place has the room.
enum mmul_status mmul_bench_folder_create(double bytes, struct bench_folder *folder,
                                          struct mmul_error *err);

// Removes the folder and waits until it is gone. A zeroed struct is allowed.
void mmul_bench_folder_destroy(struct bench_folder *folder);
