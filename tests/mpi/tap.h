// SPDX-License-Identifier: MIT
// TAP output of rank 0 for tests on several ranks: a point passes if it holds on every rank.
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

// Collective: checks that the library has freed all memory and prints the TAP plan. Returns the
// exit status.
static inline int tap_end(void) {
    int rank;
    tap_ok(mmul_live_bytes() == 0, "the library has freed all memory");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("1..%d\n", tap_points);
    return tap_failures > 0;
}
