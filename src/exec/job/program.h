// SPDX-License-Identifier: MIT
//
// Programs on a communicator: sends root's program to all ranks, plans it, and runs it with each
// step as a stage. After a failure on any rank the rest of the run is void, and one agreement at
// the end gives all ranks the error.
#pragma once

#include "exec/memory/mappings.h"
#include "exec/memory/values.h"

// Options and callbacks of a program. The callbacks are each rank's own, the rest is root's.
struct mmul_job {
    const char *weights;  // NULL: auto
    bool may_run_on_root; // exec/job/root_programs.h
    struct mmul_job_options options;
    struct mmul_job_calls calls;
};

// Plans a program. Collective. `program` is root's; the plan has a copy. Fails as
// mmul_program_plan_create.
enum mmul_status mmul_program_prepare(struct mmul_context *context,
                                      const struct mmul_program *program,
                                      const struct mmul_job *job, struct mmul_program_plan **plan,
                                      struct mmul_error *err);

// Finds the weights of all ranks, on all ranks. Collective. The weights come from root's job, else
// from a device file, else from speeds; unknown speeds are measured. *are_given: they do not come
// from speeds. *weights: owned by the caller. Fails with MMUL_ERR_USAGE, and as mmul_calibrate.
enum mmul_status mmul_program_weights(struct mmul_context *context,
                                      const struct mmul_program *program,
                                      const struct mmul_job *job, double **weights, int *are_given,
                                      struct mmul_error *err);

// Runs a planned program and commits its outputs. Collective. Fails as mmul_program_run.
enum mmul_status mmul_program_execute(struct mmul_context *context, struct mmul_program_plan *plan,
                                      struct mmul_values **values, struct mmul_error *err);

// Plans and runs a program and drops its report. Collective. The program has no outputs, and
// its values are dropped. Its warnings go into the next report. Fails as the two above.
enum mmul_status mmul_program_run_unseen(struct mmul_context *context,
                                         const struct mmul_program *program,
                                         const struct mmul_job_options *options,
                                         struct mmul_error *err);

// Freedom of the products' plans to choose weights and shares.
struct mmul_free_shares {
    bool is_automatic; // no weights were given
    bool balanced;     // speeds are known, too, so shares can make all ranks finish together
};

// Makes the schedules of the products, on all ranks. Collective. Fails as mmul_program_plan_create.
enum mmul_status mmul_program_plan_products(struct mmul_context *context,
                                            struct mmul_program_plan *plan,
                                            struct mmul_free_shares shares, struct mmul_error *err);
