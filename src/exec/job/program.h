// SPDX-License-Identifier: MIT
//
// Programs on a communicator: root's program to everybody, its plan, and the run, of which each step is a
// stage. A failure anywhere makes what follows void; one agreement at the end makes it everybody's.
#pragma once

#include "exec/memory/values.h"
#include "exec/memory/views.h"

// What goes with a program. Of it the calls are each rank's own, all else is root's.
struct mmul_job {
    const char *weights; // NULL: auto
    struct mmul_job_options options;
    struct mmul_job_calls calls;
};

// Collective. `program` is root's; the plan has a copy of it. Fails as mmul_program_plan_create.
enum mmul_status mmul_program_prepare(struct mmul_context *context,
                                      const struct mmul_program *program,
                                      const struct mmul_job *job, struct mmul_program_plan **plan,
                                      struct mmul_error *err);

// Collective. Of all ranks, on all: root's job gives them, else a device file, else speeds, which are measured where
// nobody knows them. *are_given: not by speeds. *weights: owned. Fails with MMUL_ERR_USAGE, and as mmul_calibrate.
enum mmul_status mmul_program_weights(struct mmul_context *context,
                                      const struct mmul_program *program,
                                      const struct mmul_job *job, double **weights, int *are_given,
                                      struct mmul_error *err);

// Collective. Fails as mmul_program_run.
enum mmul_status mmul_program_carry_out(struct mmul_context *context,
                                        struct mmul_program_plan *plan, struct mmul_values **values,
                                        struct mmul_error *err);

// Which weights and shares the plans of products choose.
struct mmul_free_shares {
    bool is_automatic; // nobody gave any
    bool balanced;     // and speeds are known, so that all can finish together
};

// Collective. Schedules of the products, on all ranks. Fails as mmul_program_plan_create.
enum mmul_status mmul_program_plan_products(struct mmul_context *context,
                                            struct mmul_program_plan *plan,
                                            struct mmul_free_shares shares, struct mmul_error *err);

// What a product reads and writes itself.
struct mmul_product_files mmul_program_files(const struct mmul_program_plan *plan,
                                             const struct mmul_program_step *step);
