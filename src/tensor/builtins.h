// SPDX-License-Identifier: MIT
//
// The table of functions (builtins.c), and what its rows do.
#pragma once

#include "tensor/evaluator.h"

struct mmul_left_out; // of tensor/apart.h

// A function of the language. parameters: as its user writes them, "x, axis=None".
struct mmul_builtin {
    const char *name, *parameters;
    enum mmul_status (*apply)(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                              const struct mmul_node *call, const struct mmul_argument *arguments,
                              struct mmul_object *result);
    const char *operation;      // of the engine; NULL: not one
    double (*number)(double x); // what it makes of a number; NULL: refuses numbers
};
#define MMUL_BUILTIN(function)                                                        \
    enum mmul_status function(struct mmul_evaluator *, const struct mmul_builtin *,   \
                              const struct mmul_node *, const struct mmul_argument *, \
                              struct mmul_object *)

// The table, of *count rows.
const struct mmul_builtin *mmul_builtins(int *count);

// builtins_rows.c: elements, rows, reductions, and what has several of them
MMUL_BUILTIN(mmul_builtin_unary);
MMUL_BUILTIN(mmul_builtin_isnan);
MMUL_BUILTIN(mmul_builtin_binary);
MMUL_BUILTIN(mmul_builtin_where);
MMUL_BUILTIN(mmul_builtin_gelu);
MMUL_BUILTIN(mmul_builtin_clip);
MMUL_BUILTIN(mmul_builtin_softmax);
MMUL_BUILTIN(mmul_builtin_norm);
MMUL_BUILTIN(mmul_builtin_row);
MMUL_BUILTIN(mmul_builtin_topk);
MMUL_BUILTIN(mmul_builtin_sort);
MMUL_BUILTIN(mmul_builtin_rope);
MMUL_BUILTIN(mmul_builtin_reduce);
MMUL_BUILTIN(mmul_builtin_cumsum);
MMUL_BUILTIN(mmul_builtin_attention);
MMUL_BUILTIN(mmul_builtin_linear);

// Over all elements: a matrix of one.
enum mmul_status mmul_reduce_all(struct mmul_evaluator *e, const struct mmul_node *at,
                                 const char *operation, const struct mmul_object *x,
                                 struct mmul_object *result);

// An axis of x, from 0; what has one axis has no first one here, and is refused with the function's name.
enum mmul_status mmul_take_axis_of(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_argument *argument,
                                   const struct mmul_object *x, int *axis);

// builtins_functions.c: parts, repeats, diagonals, sums of products by axes
MMUL_BUILTIN(mmul_builtin_argmax);
MMUL_BUILTIN(mmul_builtin_flip);
MMUL_BUILTIN(mmul_builtin_stack);
MMUL_BUILTIN(mmul_builtin_split);
MMUL_BUILTIN(mmul_builtin_tile);
MMUL_BUILTIN(mmul_builtin_repeat);
MMUL_BUILTIN(mmul_builtin_outer);
MMUL_BUILTIN(mmul_builtin_triu);
MMUL_BUILTIN(mmul_builtin_diag);
MMUL_BUILTIN(mmul_builtin_einsum);

// builtins_numbers.c: numbers that are known
MMUL_BUILTIN(mmul_builtin_extreme);
MMUL_BUILTIN(mmul_builtin_round);
MMUL_BUILTIN(mmul_builtin_int);
MMUL_BUILTIN(mmul_builtin_float);

// builtins_shape.c: elements that go elsewhere
MMUL_BUILTIN(mmul_builtin_reshape);
MMUL_BUILTIN(mmul_builtin_permute);
MMUL_BUILTIN(mmul_builtin_concat);
MMUL_BUILTIN(mmul_builtin_take);
MMUL_BUILTIN(mmul_builtin_place);
MMUL_BUILTIN(mmul_builtin_generate);
MMUL_BUILTIN(mmul_builtin_rand);
MMUL_BUILTIN(mmul_builtin_normal);
MMUL_BUILTIN(mmul_builtin_uniform);
MMUL_BUILTIN(mmul_builtin_eye);
MMUL_BUILTIN(mmul_builtin_filled);
MMUL_BUILTIN(mmul_builtin_len);

// builtins_learning.c: losses, what they are made of, and gradients
MMUL_BUILTIN(mmul_builtin_one_hot);
MMUL_BUILTIN(mmul_builtin_add_at);
MMUL_BUILTIN(mmul_builtin_loss);
MMUL_BUILTIN(mmul_builtin_dropout);
MMUL_BUILTIN(mmul_builtin_grad);

// builtins_training.c: optimisers, rates
MMUL_BUILTIN(mmul_builtin_state);
MMUL_BUILTIN(mmul_builtin_adamw);
MMUL_BUILTIN(mmul_builtin_sgd);
MMUL_BUILTIN(mmul_builtin_nesterov);
MMUL_BUILTIN(mmul_builtin_clip_grad_norm);
MMUL_BUILTIN(mmul_builtin_schedule);

// apart.c: what nodes do apart
MMUL_BUILTIN(mmul_builtin_apart);
MMUL_BUILTIN(mmul_builtin_average);

// builtins_data.c: windows of a text, numbers in a row
MMUL_BUILTIN(mmul_builtin_tokens);
MMUL_BUILTIN(mmul_builtin_encode);
MMUL_BUILTIN(mmul_builtin_decode);
MMUL_BUILTIN(mmul_builtin_batch);
MMUL_BUILTIN(mmul_builtin_arange);
MMUL_BUILTIN(mmul_builtin_linspace);

// builtins_files.c: what goes in and out
MMUL_BUILTIN(mmul_builtin_load);
MMUL_BUILTIN(mmul_builtin_save);

// builtins_checkpoint.c: a state that a later run goes on from
MMUL_BUILTIN(mmul_builtin_checkpoint);
MMUL_BUILTIN(mmul_builtin_restore);

// builtins_views.c: what is to be seen

// A matrix of one element comes to *number with the program at hand.
enum mmul_status mmul_view_number(struct mmul_evaluator *e, const struct mmul_node *at,
                                  const struct mmul_object *x, double *number);

// Gradients are to be finite, or no step is made: sums (1 x n) has a number for each matrix of the argument, in order.
enum mmul_status mmul_view_gradient(struct mmul_evaluator *e, const struct mmul_node *at,
                                    const struct mmul_argument *gradient,
                                    const struct mmul_object *sums);

// Steps that nodes have left out apart are to be told: marks (nodes x n) is the sum of what nodes' ranks have, of all
// of the list.
enum mmul_status mmul_view_left_out(struct mmul_evaluator *e, const struct mmul_node *at,
                                    const struct mmul_left_out *all,
                                    const struct mmul_object *marks);

MMUL_BUILTIN(mmul_builtin_print);
MMUL_BUILTIN(mmul_builtin_assert_close);
