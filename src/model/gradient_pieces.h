// SPDX-License-Identifier: MIT
//
// Gradients of slices of a value. Pieces that are adjacent along an axis, as when slices cut a
// value up, are joined once, when the value's gradient is needed. Otherwise each of them would be
// padded with zeros to the size of the value, and the results added.
#pragma once

#include "model/gradient.h"

struct mmul_piece {
    int of; // the sliced value
    int axis;
    int64_t begin, end; // range of that axis; all of the others
    int gradient;
};

// Pieces that are not yet joined.
struct mmul_pieces {
    struct mmul_piece *pieces; // room for one per traversed operation
    int count;
};

// Adds a piece of the gradient of an operand of the current operation; the rest is zeros. Joins
// earlier pieces first if they overlap.
void mmul_gradient_add_piece(struct mmul_gradient_traversal *w, int operand, int axis,
                             int64_t begin, int gradient);

// Joins the pieces of a value and adds the result to its gradient.
void mmul_gradient_join_pieces(struct mmul_gradient_traversal *w, int of);
