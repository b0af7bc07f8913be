// SPDX-License-Identifier: MIT
//
// The problem that a caller's arguments ask for: types, factors, shapes.
#pragma once

#include "model/problem.h"
#include "mpimatmul_local.h"

// Root: the type that C is computed in, alpha and beta in it, and the type in which an input is read.
enum mmul_dtype mmul_matmul_type(const struct mmul_matmul *args);
double mmul_matmul_alpha(const struct mmul_matmul *args);
double mmul_matmul_beta(const struct mmul_matmul *args);
enum mmul_dtype mmul_matmul_reads(const struct mmul_matmul *args, const struct mmul_matrix *matrix);

// Local: the problem that the operands of args make. Needs a and b.
enum mmul_status mmul_problem_load(const struct mmul_matmul *args, struct mmul_problem *problem,
                                   struct mmul_error *err);
