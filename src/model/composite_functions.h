// SPDX-License-Identifier: MIT
//
// Functions of numpy and torch as composites (model/composite.h): parts of matrices, products of
// elements, truth values, sums of products by axes. Each is a row of the table of composite.c and
// has the signature of its rows.
#pragma once

#include "model/composite.h"

// Returns the axis of the call, -4 to -1, or 0 if all axes are allowed; fails for others.
int mmul_composite_axis(struct mmul_build *b, const struct mmul_composite_call *call,
                        bool takes_all);

// Swaps an axis with the last one; its own inverse.
int mmul_composite_swap(struct mmul_build *b, int value, int axis);

// Keep elements on and above (triu) or on and below (tril) diagonal `count`: 0 is the main one, k
// is k columns to the right.
int mmul_composite_triu(struct mmul_build *b, const struct mmul_composite_call *call);
int mmul_composite_tril(struct mmul_build *b, const struct mmul_composite_call *call);

// Make a matrix (n + |k| square) with a row of n on diagonal k, or a row of a matrix's diagonal k.
// count: k.
int mmul_composite_diag(struct mmul_build *b, const struct mmul_composite_call *call);
int mmul_composite_diagonal(struct mmul_build *b, const struct mmul_composite_call *call);

// Repeats x as a whole; shape: the number of repetitions along each of the four sizes.
int mmul_composite_tile(struct mmul_build *b, const struct mmul_composite_call *call);

// Repeats every element along the axis `count` times.
int mmul_composite_repeat(struct mmul_build *b, const struct mmul_composite_call *call);

// Multiplies all pairs of elements, in C order: a matrix with a row per element of the first
// operand.
int mmul_composite_outer(struct mmul_build *b, const struct mmul_composite_call *call);

// Reduce along axis (0: all): the product, 1 if all elements are not 0, 1 if any is not 0.
int mmul_composite_prod(struct mmul_build *b, const struct mmul_composite_call *call);
int mmul_composite_all(struct mmul_build *b, const struct mmul_composite_call *call);
int mmul_composite_any(struct mmul_build *b, const struct mmul_composite_call *call);

int mmul_composite_isnan(struct mmul_build *b, const struct mmul_composite_call *call);
int mmul_composite_ceil(struct mmul_build *b, const struct mmul_composite_call *call);
int mmul_composite_sign(struct mmul_build *b, const struct mmul_composite_call *call);

// Sums products of elements with equal labels. begin, end, axes: a label (above 0) of each of the
// four sizes of x, of y and of the result; 0: the size is 1 and has no label.
int mmul_composite_einsum(struct mmul_build *b, const struct mmul_composite_call *call);

// Returns true if one of the labels is `label`.
bool mmul_einsum_has_label(const int64_t labels[static 4], int64_t label);
