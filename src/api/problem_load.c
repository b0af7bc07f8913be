// SPDX-License-Identifier: MIT
// Derives a product from the caller's arguments: its types, factors and shapes.
#include "api/problem_load.h"

#include "base/status.h"
#include "model/dtype.h"
#include "model/matrix.h"

enum mmul_dtype mmul_matmul_compute_type(const struct mmul_matmul *args) {
    const struct mmul_matrix *const inputs[] = {args->a, args->b, args->c_in};
    bool any = false, others = false;
    for (int i = 0; i < 3; i++) {
        if (inputs[i] == NULL)
            continue;
        const enum mmul_dtype stored = mmul_matrix_info(inputs[i]).stored;
        any |= stored == MMUL_F64;
        others |= stored != MMUL_F64 && !mmul_dtype_is_integer(stored);
    }
    if (args->compute != MMUL_COMPUTE_AUTO)
        return args->compute == MMUL_COMPUTE_F64 ? MMUL_F64 : MMUL_F32;
    return any && !others ? MMUL_F64 : MMUL_F32;
}

static double choose_factor(const struct mmul_matmul *args, float rounded, double exact) {
    return exact != 0 && mmul_matmul_compute_type(args) == MMUL_F64 ? exact : (double)rounded;
}

double mmul_matmul_alpha(const struct mmul_matmul *args) {
    return choose_factor(args, args->alpha, args->exact_alpha);
}

double mmul_matmul_beta(const struct mmul_matmul *args) {
    return choose_factor(args, args->beta, args->exact_beta);
}

enum mmul_dtype mmul_matmul_input_type(const struct mmul_matmul *args,
                                       const struct mmul_matrix *matrix) {
    return mmul_matmul_compute_type(args) == MMUL_F64 ? MMUL_F64
                                                      : mmul_matrix_info(matrix).delivered;
}

static struct mmul_problem_operand describe_operand(const struct mmul_matmul *args,
                                                    const struct mmul_matrix *matrix) {
    return (struct mmul_problem_operand){.shape = mmul_matrix_info(matrix).shape,
                                         .dtype = mmul_matmul_input_type(args, matrix),
                                         .name = mmul_matrix_name(matrix)};
}

enum mmul_status mmul_problem_load(const struct mmul_matmul *args, struct mmul_problem *problem,
                                   struct mmul_error *err) {
    if (args->a == NULL || args->b == NULL)
        return mmul_fail(err, MMUL_ERR_USAGE, "operand %s is missing", args->a ? "B" : "A");
    struct mmul_problem_operand c_in = {0};
    if (args->c_in != NULL)
        c_in = describe_operand(args, args->c_in);
    const struct mmul_problem_request request = {
        .a = describe_operand(args, args->a),
        .b = describe_operand(args, args->b),
        .c_in = args->c_in ? &c_in : NULL,
        .transpose_a = args->transpose_a,
        .transpose_b = args->transpose_b,
        .a_one_dimensional = mmul_matrix_info(args->a).one_dimensional,
        .b_one_dimensional = mmul_matrix_info(args->b).one_dimensional,
        .alpha = mmul_matmul_alpha(args),
        .beta = mmul_matmul_beta(args)};
    return mmul_problem_init(&request, problem, err);
}
