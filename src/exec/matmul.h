// SPDX-License-Identifier: MIT
// The story: problem, cluster, plan, run, report. The collective functions of mpimatmul.h are
// thin covers of these.
#pragma once

#include "exec/context.h"
#include "model/report.h"
#include "plan/plan.h"

// Root: the type that C is computed in, alpha and beta in it, and the type in which an input is read.
enum mmul_dtype mmul_matmul_type(const struct mmul_matmul *args);
double mmul_matmul_alpha(const struct mmul_matmul *args);
double mmul_matmul_beta(const struct mmul_matmul *args);
enum mmul_dtype mmul_matmul_reads(const struct mmul_matmul *args, const struct mmul_matrix *matrix);

// Local: the problem that the operands of args make. Needs a and b.
enum mmul_status mmul_problem_load(const struct mmul_matmul *args, struct mmul_problem *problem,
                                   struct mmul_error *err);

// Collective, see mmul_plan_create.
enum mmul_status mmul_matmul_plan(struct mmul_context *context, const struct mmul_matmul *args,
                                  struct mmul_plan **plan, struct mmul_error *err);

// Collective. Root's plan to everybody; others' is not looked at, and made.
enum mmul_status mmul_plan_send(const struct mmul_comm *comm, struct mmul_plan **plan,
                                struct mmul_error *err);

// Collective, see mmul_run.
enum mmul_status mmul_matmul_run(struct mmul_context *context, const struct mmul_matmul *args,
                                 const struct mmul_plan *plan, struct mmul_report **report,
                                 struct mmul_error *err);
