// SPDX-License-Identifier: MIT
//
// What the rows of the table of functions (builtins.c) do.
#pragma once

#include "tensor/evaluator.h"

// builtins_rows.c: elements, rows, reductions, and what has several of them
MMUL_BUILTIN(mmul_builtin_unary);
MMUL_BUILTIN(mmul_builtin_binary);
MMUL_BUILTIN(mmul_builtin_where);
MMUL_BUILTIN(mmul_builtin_gelu);
MMUL_BUILTIN(mmul_builtin_softmax);
MMUL_BUILTIN(mmul_builtin_norm);
MMUL_BUILTIN(mmul_builtin_row);
MMUL_BUILTIN(mmul_builtin_topk);
MMUL_BUILTIN(mmul_builtin_rope);
MMUL_BUILTIN(mmul_builtin_reduce);
MMUL_BUILTIN(mmul_builtin_attention);
MMUL_BUILTIN(mmul_builtin_linear);

// Over all elements: a matrix of one.
enum mmul_status mmul_reduce_all(struct mmul_evaluator *e, const struct mmul_node *at,
                                 const char *operation, const struct mmul_object *x,
                                 struct mmul_object *result);

// builtins_shape.c: elements that go elsewhere
MMUL_BUILTIN(mmul_builtin_reshape);
MMUL_BUILTIN(mmul_builtin_permute);
MMUL_BUILTIN(mmul_builtin_concat);
MMUL_BUILTIN(mmul_builtin_take);
MMUL_BUILTIN(mmul_builtin_place);
MMUL_BUILTIN(mmul_builtin_generate);

// builtins_files.c: what goes in and out
MMUL_BUILTIN(mmul_builtin_load);
MMUL_BUILTIN(mmul_builtin_save);
MMUL_BUILTIN(mmul_builtin_print);
MMUL_BUILTIN(mmul_builtin_assert_close);
