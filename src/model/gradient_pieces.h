// SPDX-License-Identifier: MIT
//
// Gradients that slices of a value give to it: those that lie beside each other along an axis, as slices that cut a
// value up do, are put together once, when its gradient is needed. Each by itself would be filled with zeros to all of
// the value's size, and these added up.
#pragma once

#include "model/gradient.h"

struct mmul_piece {
    int of; // the value
    int axis;
    int64_t begin, end; // of that axis; all of the others
    int gradient;
};

// All that have been given and not put together yet.
struct mmul_pieces {
    struct mmul_piece *pieces; // room for one of each operation that is gone back through
    int count;
};

// Of an operand of the operation under way; zeros are what is left. What it overlaps is put together before.
void mmul_give_piece(struct mmul_backward *w, int operand, int axis, int64_t begin, int gradient);

// Gives to a value what its pieces are together.
void mmul_join_pieces(struct mmul_backward *w, int of);
