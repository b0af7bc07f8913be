// SPDX-License-Identifier: MIT
// Plans and runs as the public header offers them.
#include "base/options.h"
#include "exec/baseline.h"
#include "exec/matmul.h"
#include "mpimatmul.h"

enum mmul_status mmul_matmul_result(const struct mmul_matmul *args, struct mmul_shape *shape,
                                    enum mmul_dtype *dtype, struct mmul_error *err) {
    struct mmul_problem problem;
    struct mmul_matmul taken;
    enum mmul_status status = MMUL_OPTIONS_TAKE(mmul_matmul, args, &taken, err);
    if (status != MMUL_OK)
        return status;
    args = &taken;
    status = mmul_problem_load(args, &problem, err);
    if (status != MMUL_OK)
        return status;
    *shape = problem.c;
    *dtype = problem.c_dtype;
    return MMUL_OK;
}

// Collective.
static enum mmul_status take(const struct mmul_context *context, const struct mmul_matmul *args,
                             struct mmul_matmul *taken, struct mmul_error *err) {
    return mmul_comm_agree(context->comm, MMUL_OPTIONS_TAKE(mmul_matmul, args, taken, err), err);
}

enum mmul_status mmul_plan_create(struct mmul_context *context, const struct mmul_matmul *args,
                                  struct mmul_plan **plan, struct mmul_error *err) {
    struct mmul_matmul taken;
    enum mmul_status status = take(context, args, &taken, err);
    return status == MMUL_OK ? mmul_matmul_plan(context, &taken, plan, err) : status;
}

enum mmul_status mmul_run(struct mmul_context *context, const struct mmul_matmul *args,
                          const struct mmul_plan *plan, struct mmul_report **report,
                          struct mmul_error *err) {
    struct mmul_matmul taken;
    enum mmul_status status = take(context, args, &taken, err);
    if (status == MMUL_OK)
        return mmul_matmul_run(context, &taken, plan, report, err);
    if (context->comm->rank == 0)
        mmul_output_destroy(taken.output);
    return status;
}

enum mmul_status mmul_baseline_measure(struct mmul_context *context,
                                       const struct mmul_baseline *baseline, double *seconds,
                                       int *threads, struct mmul_error *err) {
    struct mmul_baseline taken;
    enum mmul_status status = mmul_comm_agree(
        context->comm, MMUL_OPTIONS_TAKE(mmul_baseline, baseline, &taken, err), err);
    return status == MMUL_OK ? mmul_baseline_run(context, &taken, seconds, threads, err) : status;
}
