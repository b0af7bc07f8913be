// SPDX-License-Identifier: MIT
// Converts regions of a selected stack to regions of the stored one, by arithmetic alone.
#include "io/selection.h"

#include "base/integer.h"
#include "base/memory.h"
#include "model/matrix.h"

struct mmul_selection {
    enum mmul_selection_axis axis;
    struct mmul_shape stored;
    int64_t count, total;
    struct mmul_segment *segments; // owned
    int64_t *firsts;               // owned: selected index of each segment's first line
};

enum mmul_status mmul_selection_create(enum mmul_selection_axis axis, struct mmul_shape stored,
                                       const struct mmul_segment *segments, int64_t count,
                                       struct mmul_selection **selection, struct mmul_error *err) {
    struct mmul_selection *made = NULL;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "a selection", err);
    if (status != MMUL_OK)
        return status;
    *made = (struct mmul_selection){.axis = axis, .stored = stored, .count = count};
    status = MMUL_ALLOCATE_ALL("a selection", err, MMUL_ARRAY(made->segments, count),
                               MMUL_ARRAY(made->firsts, count));
    if (status != MMUL_OK) {
        mmul_selection_destroy(made);
        return status;
    }
    for (int64_t i = 0; i < count; i++) {
        made->segments[i] = segments[i];
        made->firsts[i] = made->total;
        made->total += segments[i].end - segments[i].begin;
    }
    *selection = made;
    return MMUL_OK;
}

void mmul_selection_destroy(struct mmul_selection *selection) {
    if (selection != NULL)
        MMUL_FREE_ALL(selection->segments, selection->firsts, selection);
}

struct mmul_shape mmul_selection_shape(const struct mmul_selection *selection) {
    struct mmul_shape shape = selection->stored;
    if (selection->axis == MMUL_SELECT_ROWS) {
        shape.rows = selection->total;
    } else if (selection->axis == MMUL_SELECT_COLS) {
        shape.cols = selection->total;
    } else {
        shape.batch = 1;
        shape.depth = selection->total;
    }
    return shape;
}

struct mmul_shape mmul_selection_stored(const struct mmul_selection *selection) {
    return selection->stored;
}

bool mmul_selection_is_contiguous(const struct mmul_selection *selection, int64_t *first) {
    const struct mmul_shape s = selection->stored;
    const bool is_single = mmul_shape_matrices(s) == 1;
    const int64_t each = selection->axis == MMUL_SELECT_MATRICES ? s.rows * s.cols
                         : selection->axis == MMUL_SELECT_ROWS   ? s.cols
                                                                 : 1;
    const bool is_along = selection->axis == MMUL_SELECT_MATRICES ||
                          (is_single && (selection->axis == MMUL_SELECT_ROWS || s.rows == 1));
    *first = selection->segments[0].begin * each;
    return selection->count == 1 && is_along;
}

// Returns the segment with the selected line `line`.
static int64_t find_segment(const struct mmul_selection *selection, int64_t line) {
    int64_t low = 0, high = selection->count;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (selection->firsts[middle] <= line)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// Returns the stored range of selected lines [line, end), or of the first ones if they lie apart.
static struct mmul_segment stored_range(const struct mmul_selection *selection, int64_t line,
                                        int64_t end) {
    const int64_t i = find_segment(selection, line);
    const struct mmul_segment *segment = &selection->segments[i];
    const int64_t begin = segment->begin + line - selection->firsts[i];
    return (struct mmul_segment){begin, mmul_min(segment->end, begin + end - line)};
}

struct mmul_selected_piece mmul_selection_piece_at(const struct mmul_selection *selection,
                                                   struct mmul_region region, int64_t position,
                                                   int64_t end) {
    struct mmul_selected_piece piece = {region, position, end};
    const int64_t width = region.col_end - region.col_begin;
    const int64_t row = region.row_begin + position / width, col = position % width;
    struct mmul_segment range;
    if (selection == NULL)
        return piece;
    if (selection->axis == MMUL_SELECT_MATRICES) {
        piece.region.matrix = stored_range(selection, region.matrix, region.matrix + 1).begin;
        return piece;
    }
    if (selection->axis == MMUL_SELECT_ROWS) {
        range = stored_range(selection, row, region.row_end);
        piece.region.row_begin = range.begin;
        piece.region.row_end = range.end;
        piece.begin = col;
        piece.end = mmul_min(end - position + col, (range.end - range.begin) * width);
        return piece;
    }
    range = stored_range(selection, region.col_begin, region.col_end);
    if (range.end - range.begin == width) {
        piece.region.col_begin = range.begin;
        piece.region.col_end = range.end;
        return piece;
    }
    range = stored_range(selection, region.col_begin + col, region.col_end);
    piece.region.row_begin = row;
    piece.region.row_end = row + 1;
    piece.region.col_begin = range.begin;
    piece.region.col_end = range.end;
    piece.begin = 0;
    piece.end = mmul_min(end - position, range.end - range.begin);
    return piece;
}
