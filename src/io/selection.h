// SPDX-License-Identifier: MIT
//
// A selection: parts of a stack along one axis, seen as a smaller stack. A resumed job computes an
// ordinary product of selections.
//
//     stored rows    0 1 2 3 4 5 6 7 8        segments [1, 3) and [6, 9)
//     selected rows    0 1       2 3 4
#pragma once

#include "mpimatmul_local.h"

enum mmul_selection_axis { MMUL_SELECT_ROWS, MMUL_SELECT_COLS, MMUL_SELECT_MATRICES };

struct mmul_segment {
    int64_t begin, end; // rows, columns or matrices of the stored stack
};

struct mmul_selection;

// Selects segments, in this order, of a stack with the shape `stored`; at least one, none of them
// empty. Selected matrices form a stack with a batch of 1. Copies the segments. Fails with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_selection_create(enum mmul_selection_axis axis, struct mmul_shape stored,
                                       const struct mmul_segment *segments, int64_t count,
                                       struct mmul_selection **selection, struct mmul_error *err);
void mmul_selection_destroy(struct mmul_selection *selection); // accepts NULL

// Return the shape of the selected stack and of the stored one.
struct mmul_shape mmul_selection_shape(const struct mmul_selection *selection);
struct mmul_shape mmul_selection_stored(const struct mmul_selection *selection);

// Returns true if the elements lie side by side in C order. *first: index of the first one.
bool mmul_selection_is_contiguous(const struct mmul_selection *selection, int64_t *first);

// Elements [begin, end) of a region of the stored stack, counted as in mmul_matrix_read.
struct mmul_selected_piece {
    struct mmul_region region;
    int64_t begin, end;
};

// Returns the stored place of elements [position, end) of a region of the selected stack, or of the
// first of them if they lie apart. selection NULL: all is selected. Walk with
// `for (p = begin; p < end; p += piece.end - piece.begin)`.
struct mmul_selected_piece mmul_selection_piece_at(const struct mmul_selection *selection,
                                                   struct mmul_region region, int64_t position,
                                                   int64_t end);
