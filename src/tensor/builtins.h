// SPDX-License-Identifier: MIT
//
// The table of built-in functions (builtins.c) and the functions of its rows, by file.
//
// To add a function of program texts: its row in builtins.c, the function that the row names, and
// its counterpart in tests/reference.py. Python has its own functions
// (python/mpimatmul/_operations.py). A function of elements with one argument is a row of
// model/operations.def alone.
#pragma once

#include "tensor/evaluator.h"

// Declared in tensor/script.h.
struct mmul_skipped_step;

// A built-in function. parameters: its signature as users write it, "x, axis=None".
struct mmul_builtin {
    const char *name, *parameters;
    enum mmul_status (*apply)(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                              const struct mmul_node *call, const struct mmul_argument *arguments,
                              struct mmul_object *result);
    const char *operation; // operation of the engine; NULL for none
};
#define MMUL_BUILTIN(function)                                                        \
    enum mmul_status function(struct mmul_evaluator *, const struct mmul_builtin *,   \
                              const struct mmul_node *, const struct mmul_argument *, \
                              struct mmul_object *)

// Returns the table; *count is its number of rows.
const struct mmul_builtin *mmul_builtins(int *count);

// builtins_rows.c: elements, rows, reductions, and functions made of several operations
MMUL_BUILTIN(mmul_builtin_unary);
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

// Reduces along an axis, counted from the end, or over all elements to a 1 x 1 matrix (axis 0).
enum mmul_status mmul_reduce(struct mmul_evaluator *e, const struct mmul_node *at,
                             const char *operation, int axis, const struct mmul_object *x,
                             struct mmul_object *result);

// Reads an axis of x, counted from 0. Refuses axis 0 of a matrix with one numpy axis, which is a
// row here; the error names the function.
enum mmul_status mmul_argument_get_axis_of(struct mmul_evaluator *e,
                                           const struct mmul_builtin *builtin,
                                           const struct mmul_argument *argument,
                                           const struct mmul_object *x, int *axis);

// Reads an axis or a tuple of axes of x, each once, as flags of the engine's axes. All are false
// before.
enum mmul_status mmul_argument_get_axes_of(struct mmul_evaluator *e,
                                           const struct mmul_builtin *builtin,
                                           const struct mmul_argument *argument,
                                           const struct mmul_object *x,
                                           bool is_given[static MMUL_AXES_MOST]);

// builtins_functions.c: slices, repeats, diagonals, einsum
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

// builtins_numbers.c: numbers known during evaluation
MMUL_BUILTIN(mmul_builtin_extreme);
MMUL_BUILTIN(mmul_builtin_round);
MMUL_BUILTIN(mmul_builtin_int);
MMUL_BUILTIN(mmul_builtin_float);

// builtins_shape.c: functions that rearrange or generate elements
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

// builtins_learning.c: losses, their parts, and gradients
MMUL_BUILTIN(mmul_builtin_one_hot);
MMUL_BUILTIN(mmul_builtin_add_at);
MMUL_BUILTIN(mmul_builtin_loss);
MMUL_BUILTIN(mmul_builtin_dropout);
MMUL_BUILTIN(mmul_builtin_grad);

// builtins_training.c: optimizers and learning rates
MMUL_BUILTIN(mmul_builtin_state);
MMUL_BUILTIN(mmul_builtin_adamw);
MMUL_BUILTIN(mmul_builtin_sgd);
MMUL_BUILTIN(mmul_builtin_nesterov);
MMUL_BUILTIN(mmul_builtin_clip_grad_norm);
MMUL_BUILTIN(mmul_builtin_schedule);

// local_training.c: local training on each node
MMUL_BUILTIN(mmul_builtin_apart);
MMUL_BUILTIN(mmul_builtin_average);

// builtins_data.c: windows of a text, ranges of numbers
MMUL_BUILTIN(mmul_builtin_tokens);
MMUL_BUILTIN(mmul_builtin_encode);
MMUL_BUILTIN(mmul_builtin_decode);
MMUL_BUILTIN(mmul_builtin_batch);
MMUL_BUILTIN(mmul_builtin_arange);
MMUL_BUILTIN(mmul_builtin_linspace);

// builtins_files.c: input and output files
MMUL_BUILTIN(mmul_builtin_load);
MMUL_BUILTIN(mmul_builtin_save);

// builtins_checkpoint.c: a saved state from which a later run continues
MMUL_BUILTIN(mmul_builtin_checkpoint);
MMUL_BUILTIN(mmul_builtin_restore);

// builtins_views.c: printed output and checks

// Fetches a one-element matrix into *number when the current program runs.
enum mmul_status mmul_view_number(struct mmul_evaluator *e, const struct mmul_node *at,
                                  const struct mmul_object *x, double *number);

// Requires finite gradients: if any is not, the step fails or is skipped. sums (1 x n) has one
// number per matrix of the argument, in order.
enum mmul_status mmul_view_gradient(struct mmul_evaluator *e, const struct mmul_node *at,
                                    const struct mmul_argument *gradient,
                                    const struct mmul_object *sums);

// Reports steps that nodes skipped inside apart(). marks (nodes x n) is the sum over all ranks,
// with one column per matrix of the list.
enum mmul_status mmul_view_skipped_steps(struct mmul_evaluator *e, const struct mmul_node *at,
                                         const struct mmul_skipped_step *all,
                                         const struct mmul_object *marks);

MMUL_BUILTIN(mmul_builtin_print);
MMUL_BUILTIN(mmul_builtin_assert_close);
