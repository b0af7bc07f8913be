// SPDX-License-Identifier: MIT
//
// Evaluates the syntax tree once, on root. Python loops are unrolled; loop(...) runs one job per
// iteration (tensor/jobs.h). Functions are inlined, numbers and strings are folded. Every operation
// on matrices is added to a program; only numbers are computed here.
//
// Expressions contain calls, calls run statements, and statements contain expressions. So these
// files and conditions.c call each other, while nothing below them (tensor/evaluator.h,
// tensor/builtins.h) calls back up.
#pragma once

#include "tensor/evaluator.h"

// ----------------------------------------------------------------------------------- statements.c

enum mmul_status mmul_evaluate_program(struct mmul_evaluator *e, const struct mmul_tree *tree);

// Evaluates a block. *returned: a return statement was reached; its value is *result.
enum mmul_status mmul_evaluate_block(struct mmul_evaluator *e, const struct mmul_node *block,
                                     bool *returned, struct mmul_object *result);

// ----------------------------------------------------------------------------------- conditions.c

// Evaluates the condition of an `if`. `and` and `or` stop early, as in Python.
enum mmul_status mmul_evaluate_condition(struct mmul_evaluator *e, const struct mmul_node *branch,
                                         bool *is_true);

// First reading only: returns true if the condition may get a value in this iteration that no
// earlier one had. Judged by the loop index and the values known now.
bool mmul_condition_may_differ(struct mmul_evaluator *e, const struct mmul_node *branch);

// ---------------------------------------------------------------------------------- expressions.c

enum mmul_status mmul_evaluate(struct mmul_evaluator *e, const struct mmul_node *node,
                               struct mmul_object *result);

// Reports that x, an operand of "and", "or" or "not", is no number.
enum mmul_status mmul_evaluate_fail_condition(struct mmul_evaluator *e,
                                              const struct mmul_node *node, const char *word,
                                              const struct mmul_object *x);

// Evaluates a tuple. `targets` (NULL for none) gives the matrices in it their display names, in
// order.
enum mmul_status mmul_evaluate_tuple(struct mmul_evaluator *e, const struct mmul_node *node,
                                     const struct mmul_node *targets, struct mmul_object *result);

// ---------------------------------------------------------------------------------------- calls.c

// Evaluates a call of a function of the program or of the language.
enum mmul_status mmul_evaluate_call(struct mmul_evaluator *e, const struct mmul_node *call,
                                    struct mmul_object *result);
