// SPDX-License-Identifier: MIT
// Trials with values that outlive their program.
#pragma once

#include "trial.h"

// Keeps a value of the program after its end. Returns its number on root.
static int64_t hold_value(struct trial *t, int x) {
    int64_t number = 0;
    enum mmul_status status =
        rank == 0 ? mmul_program_hold(t->program, x, &number, &t->err) : MMUL_OK;
    check_built(t, status, 0, 0);
    t->is_read[x] = true;
    return number;
}

// Loads a value that an earlier trial kept.
static int load_held(struct mmul_context *context, struct trial *t, int64_t number,
                     const struct known *known) {
    int made = add_known(t, known->shape), value = -1;
    memcpy(t->known[made].at, known->at, (size_t)elements(known->shape) * sizeof(double));
    enum mmul_status status =
        rank == 0 ? mmul_program_load_held(t->program, context, number, "held", &value, &t->err)
                  : MMUL_OK;
    return check_built(t, status, value, made);
}

// Collective: true if `right` is true on all ranks.
static bool holds_on_all_ranks(bool right) {
    int all = right;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all != 0;
}

static void release_value(struct mmul_context *context, int64_t number) {
    if (rank == 0)
        mmul_context_release(context, number);
}
