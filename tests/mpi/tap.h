// SPDX-License-Identifier: MIT
// TAP from rank 0 for tests that run on several ranks: a point passes when it holds on every rank.
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>

#include "mpimatmul.h"

static int tap_points, tap_failures;

// Collective.
static inline void tap_ok(bool holds, const char *what) {
    int rank, mine = holds, all = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!holds)
        fprintf(stderr, "# rank %d: %s\n", rank, what);
    tap_points++;
    tap_failures += !all;
    if (rank == 0)
        printf("%s %d - %s\n", all ? "ok" : "not ok", tap_points, what);
}

// Collective: no memory of the library is left, and the plan. Returns the exit status.
static inline int tap_end(void) {
    int rank;
    tap_ok(mmul_live_bytes() == 0, "no live bytes at the end");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("1..%d\n", tap_points);
    return tap_failures > 0;
}
