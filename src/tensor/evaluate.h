// SPDX-License-Identifier: MIT
//
// Carries a tree out, once, on root: loops are unrolled, or each turn is a job (tensor/jobs.h), functions are inlined,
// numbers and strings are folded, and every operation on matrices is added to a program. Nothing is computed but
// numbers.
//
// Expressions hold calls, calls carry out statements, and statements hold expressions: the files of these, and of
// conditions, call each other, and nothing below them does (tensor/evaluator.h, tensor/builtins.h).
#pragma once

#include "tensor/evaluator.h"

// ----------------------------------------------------------------------------------- statements.c

enum mmul_status mmul_evaluate_program(struct mmul_evaluator *e, const struct mmul_tree *tree);

// A block of statements; *returned: one of them was a return, with *result.
enum mmul_status mmul_evaluate_block(struct mmul_evaluator *e, const struct mmul_node *block,
                                     bool *returned, struct mmul_object *result);

// ----------------------------------------------------------------------------------- conditions.c

// The condition of an `if`, as Python's: `and` and `or` look at no more than they need.
enum mmul_status mmul_evaluate_condition(struct mmul_evaluator *e, const struct mmul_node *branch,
                                         bool *is_true);

// Of a first reading, before a turn: may the condition come out as in no turn before, as far as the turn's number and
// what there is now tell?
bool mmul_condition_may_differ(struct mmul_evaluator *e, const struct mmul_node *branch);

// ---------------------------------------------------------------------------------- expressions.c

enum mmul_status mmul_evaluate(struct mmul_evaluator *e, const struct mmul_node *node,
                               struct mmul_object *result);

// x stands beside "and", "or" or "not", and is no number.
enum mmul_status mmul_evaluate_fail_truth(struct mmul_evaluator *e, const struct mmul_node *node,
                                          const char *word, const struct mmul_object *x);

// Matrices among them are called as the names in `targets` (NULL: none) say, in turn.
enum mmul_status mmul_evaluate_tuple(struct mmul_evaluator *e, const struct mmul_node *node,
                                     const struct mmul_node *targets, struct mmul_object *result);

// ---------------------------------------------------------------------------------------- calls.c

// `call` of a function of the program or of the language.
enum mmul_status mmul_evaluate_call(struct mmul_evaluator *e, const struct mmul_node *call,
                                    struct mmul_object *result);
