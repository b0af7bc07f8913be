// SPDX-License-Identifier: MIT
// Plans and runs as the public header offers them.
#include "exec/baseline.h"
#include "exec/matmul.h"
#include "mpimatmul.h"

enum mmul_status mmul_matmul_result(const struct mmul_matmul *args, struct mmul_shape *shape,
                                    enum mmul_dtype *dtype, struct mmul_error *err) {
    struct mmul_problem problem;
    enum mmul_status status = mmul_problem_load(args, &problem, err);
    if (status != MMUL_OK)
        return status;
    *shape = problem.c;
    *dtype = problem.c_dtype;
    return MMUL_OK;
}

enum mmul_status mmul_plan_create(struct mmul_context *context, const struct mmul_matmul *args,
                                  struct mmul_plan **plan, struct mmul_error *err) {
    return mmul_matmul_plan(context, args, plan, err);
}

enum mmul_status mmul_run(struct mmul_context *context, const struct mmul_matmul *args,
                          const struct mmul_plan *plan, struct mmul_report **report,
                          struct mmul_error *err) {
    return mmul_matmul_run(context, args, plan, report, err);
}

enum mmul_status mmul_baseline_measure(struct mmul_context *context,
                                       const struct mmul_baseline *baseline, double *seconds,
                                       int *threads, struct mmul_error *err) {
    return mmul_baseline_run(context, baseline, seconds, threads, err);
}
