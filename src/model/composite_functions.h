// SPDX-License-Identifier: MIT
//
// Functions that numpy and torch have, as composites (model/composite.h): parts of matrices, products of elements,
// truth values, sums of products by axes. Each is a row of the table of composite.c and has the signature of its rows.
#pragma once

#include "model/composite.h"

// What reductions along any axis, or of all elements (axis 0), are made of.
int mmul_composite_reduce(struct mmul_build *b, enum mmul_operation_kind kind, int x, int axis);

// An axis changes places with the last one, as often as it is called: its own inverse.
int mmul_composite_swap(struct mmul_build *b, int value, int axis);

// count: above which diagonal elements are kept (triu), or below which (tril): 0 is the main one, k is k columns on.
int mmul_composite_triu(struct mmul_build *b, const struct mmul_composite_call *call);
int mmul_composite_tril(struct mmul_build *b, const struct mmul_composite_call *call);

// count: which diagonal. A matrix (n + |k| square) of a row of n; a row of a matrix's diagonal.
int mmul_composite_diag(struct mmul_build *b, const struct mmul_composite_call *call);
int mmul_composite_diagonal(struct mmul_build *b, const struct mmul_composite_call *call);

// shape: how often each of the four sizes is repeated, as a whole.
int mmul_composite_tile(struct mmul_build *b, const struct mmul_composite_call *call);

// axis, count: every element along the axis so often, behind itself.
int mmul_composite_repeat(struct mmul_build *b, const struct mmul_composite_call *call);

// All pairs of elements, in C order: a matrix of as many rows as the first has elements.
int mmul_composite_outer(struct mmul_build *b, const struct mmul_composite_call *call);

// axis (0: all): the product; is every element, is any not 0?
int mmul_composite_prod(struct mmul_build *b, const struct mmul_composite_call *call);
int mmul_composite_all(struct mmul_build *b, const struct mmul_composite_call *call);
int mmul_composite_any(struct mmul_build *b, const struct mmul_composite_call *call);

int mmul_composite_isnan(struct mmul_build *b, const struct mmul_composite_call *call);
int mmul_composite_ceil(struct mmul_build *b, const struct mmul_composite_call *call);
int mmul_composite_sign(struct mmul_build *b, const struct mmul_composite_call *call);

// begin, end, axes: a label (above 0) of each of the four sizes of x, of y and of the result; 0: the size is 1 and has
// none. Sums over products of elements with equal labels.
int mmul_composite_einsum(struct mmul_build *b, const struct mmul_composite_call *call);
