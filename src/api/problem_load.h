// SPDX-License-Identifier: MIT
//
// Problem of a caller's arguments: types, factors, shapes.
#pragma once

#include "model/problem.h"
#include "mpimatmul_local.h"

// Root: return the type in which C is computed, alpha and beta in it, and the type in which an
// input is read.
enum mmul_dtype mmul_matmul_compute_type(const struct mmul_matmul *args);
double mmul_matmul_alpha(const struct mmul_matmul *args);
double mmul_matmul_beta(const struct mmul_matmul *args);
enum mmul_dtype mmul_matmul_input_type(const struct mmul_matmul *args,
                                       const struct mmul_matrix *matrix);

// Local: makes the problem of the operands in args. Needs a and b.
enum mmul_status mmul_problem_load(const struct mmul_matmul *args, struct mmul_problem *problem,
                                   struct mmul_error *err);
