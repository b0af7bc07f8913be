// SPDX-License-Identifier: MIT
//
// The problem, the first noun: the shapes and types of one multiplication, from file headers alone.
//
// The result is a stack of matrices t = 0 .. matrices-1, each m x n, inner size k. A and B are
// stacks of the same batch and depth, or of size 1 along either, which repeats.
//
//          A  (m, k)        B  (k, n)        C  (m, n)
//
// Split by rows, the rows of all matrices form one range [0, matrices * m); split by columns, the
// columns do, [0, matrices * n). The operand that is cut along that range is called the split
// operand (A by rows, B by columns), the other one the whole operand. A part [begin, end) of the
// range crosses matrices in stretches, one matrix each.
#pragma once

#include "mpimatmul_local.h"

enum { MMUL_NAME_BYTES = 128 };

// Plain data: sent as bytes.
struct mmul_problem {
    struct mmul_shape a, b, c; // as stored; c is the result
    enum mmul_dtype a_dtype, b_dtype, c_dtype;
    bool transpose_a, transpose_b;
    bool c_in_is_broadcast; // C_in is smaller than C: its sizes of 1 repeat
    double alpha, beta;     // float32 values if C is computed in float32
    int64_t m, n, k, matrices;
    char a_name[MMUL_NAME_BYTES], b_name[MMUL_NAME_BYTES];
};

// One operand of a new problem.
struct mmul_problem_operand {
    struct mmul_shape shape;
    enum mmul_dtype dtype;
    const char *name;
};

// C = alpha op(A) op(B) + beta C_in.
struct mmul_problem_request {
    struct mmul_problem_operand a, b;
    const struct mmul_problem_operand *c_in; // NULL: none
    bool transpose_a, transpose_b;
    // rows by default, because their files have one dimension
    bool a_one_dimensional, b_one_dimensional;
    double alpha, beta;
};

// Fits the shapes together; sizes of 1 of C_in repeat. Fails with MMUL_ERR_DATA (sizes that differ,
// products that do not fit), MMUL_ERR_USAGE (alpha or beta not finite, beta without c_in).
enum mmul_status mmul_problem_init(const struct mmul_problem_request *r,
                                   struct mmul_problem *problem, struct mmul_error *err);

// Return the index of the stored matrix of A or B that result matrix t multiplies.
int64_t mmul_problem_a_matrix(const struct mmul_problem *problem, int64_t t);
int64_t mmul_problem_b_matrix(const struct mmul_problem *problem, int64_t t);

// Returns the floating-point operations of the whole problem.
double mmul_problem_flops(const struct mmul_problem *problem);

// ---------------------------------------------------------------------- the split range, both axes

// Return the units (rows or columns of C) per matrix and in total.
int64_t mmul_problem_units(const struct mmul_problem *problem, enum mmul_axis axis);
int64_t mmul_problem_total(const struct mmul_problem *problem, enum mmul_axis axis);

// Returns the elements of C per unit: n (rows) or m (columns).
int64_t mmul_problem_result_width(const struct mmul_problem *problem, enum mmul_axis axis);

// Return the type in which C is computed and in which C and C_in are transferred, and the bytes of
// an element of it.
enum mmul_dtype mmul_problem_result_dtype(const struct mmul_problem *problem);
int64_t mmul_problem_result_each(const struct mmul_problem *problem);

// Return the dtype of the split operand, and of the whole operand the dtype, the stack and the
// index of the matrix that t uses.
enum mmul_dtype mmul_problem_split_dtype(const struct mmul_problem *problem, enum mmul_axis axis);
enum mmul_dtype mmul_problem_whole_dtype(const struct mmul_problem *problem, enum mmul_axis axis);
struct mmul_shape mmul_problem_whole_shape(const struct mmul_problem *problem, enum mmul_axis axis);
int64_t mmul_problem_whole_matrix(const struct mmul_problem *problem, enum mmul_axis axis,
                                  int64_t t);

// Returns the number of matrices of the whole operand.
int64_t mmul_problem_whole_matrices(const struct mmul_problem *problem, enum mmul_axis axis);

// Return bytes per unit: of the split operand and of C per unit of the split range, of the whole
// operand per row or column of a matrix. The operands count nothing if alpha is 0.
int64_t mmul_problem_split_unit_bytes(const struct mmul_problem *problem, enum mmul_axis axis);
int64_t mmul_problem_whole_unit_bytes(const struct mmul_problem *problem, enum mmul_axis axis);
int64_t mmul_problem_result_unit_bytes(const struct mmul_problem *problem, enum mmul_axis axis);

// Returns the bytes of the whole operand; 0 if alpha is 0.
int64_t mmul_problem_whole_bytes(const struct mmul_problem *problem, enum mmul_axis axis);

// Units [begin, end) of matrix t: the part of a part that lies in one matrix.
struct mmul_matrix_range {
    int64_t matrix;     // t
    int64_t begin, end; // rows or columns inside the matrix
};

// Return the number of stretches of the part [begin, end), and one of them; empty parts have none.
int64_t mmul_matrix_range_count(const struct mmul_problem *problem, enum mmul_axis axis,
                                int64_t begin, int64_t end);
struct mmul_matrix_range mmul_matrix_range_at(const struct mmul_problem *problem,
                                              enum mmul_axis axis, int64_t begin, int64_t end,
                                              int64_t index);

// Return the stretch's rectangle in the split operand's file, and in C (or C_in).
struct mmul_region mmul_matrix_range_operand(const struct mmul_problem *problem,
                                             enum mmul_axis axis, struct mmul_matrix_range stretch);
struct mmul_region mmul_matrix_range_result(const struct mmul_problem *problem, enum mmul_axis axis,
                                            struct mmul_matrix_range stretch);
