// SPDX-License-Identifier: MIT
// Cuts the axis at the ends of all regions. Between two cuts all lines are alike.
#include "io/coverage.h"

#include <stdlib.h>

#include "base/integer.h"
#include "base/memory.h"
#include "model/matrix.h"

bool mmul_region_join(struct mmul_region *x, const struct mmul_region *y) {
    const bool same_rows = x->row_begin == y->row_begin && x->row_end == y->row_end;
    const bool same_cols = x->col_begin == y->col_begin && x->col_end == y->col_end;
    if (x->matrix != y->matrix)
        return false;
    if (same_cols && x->row_end == y->row_begin)
        x->row_end = y->row_end;
    else if (same_rows && x->col_end == y->col_begin)
        x->col_end = y->col_end;
    else
        return false;
    return true;
}

// A region: its lines, and the range of each line that it covers.
struct band_part {
    int64_t matrix;
    struct mmul_segment lines, across;
};

static int compare_numbers(const void *x, const void *y) {
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

static int compare_parts(const void *x, const void *y) {
    const struct band_part *a = x, *b = y;
    return compare_numbers(&a->across.begin, &b->across.begin);
}

// Returns true if the parts, ascending across the lines, cover [0, width) of this line.
static bool is_covered(const struct band_part *parts, int64_t count, int64_t matrix, int64_t line,
                       int64_t width) {
    int64_t reached = 0;
    for (int64_t i = 0; i < count && parts[i].across.begin <= reached; i++)
        if (parts[i].matrix == matrix && parts[i].lines.begin <= line && line < parts[i].lines.end)
            reached = mmul_max(reached, parts[i].across.end);
    return reached >= width;
}

static void add_missing(struct mmul_missing *missing, int64_t begin, int64_t end) {
    if (begin == end)
        return;
    missing->lines += end - begin;
    if (missing->count > 0 && missing->segments[missing->count - 1].end == begin)
        missing->segments[missing->count - 1].end = end;
    else
        missing->segments[missing->count++] = (struct mmul_segment){begin, end};
}

// The lines of a matrix, and room for two numbers per part and two more.
struct extent {
    int64_t lines, width; // width: elements of a line
    int64_t *cuts;
};

// Adds the missing lines of one matrix.
static void find_missing(const struct band_part *parts, int64_t count, int64_t matrix,
                         const struct extent *extent, struct mmul_missing *missing) {
    int64_t *cuts = extent->cuts;
    int64_t cut_count = 0;
    cuts[cut_count++] = 0;
    cuts[cut_count++] = extent->lines;
    for (int64_t i = 0; i < count; i++) {
        if (parts[i].matrix != matrix)
            continue;
        cuts[cut_count++] = parts[i].lines.begin;
        cuts[cut_count++] = parts[i].lines.end;
    }
    qsort(cuts, (size_t)cut_count, sizeof *cuts, compare_numbers);
    for (int64_t i = 0; i + 1 < cut_count; i++)
        if (cuts[i] < cuts[i + 1] && !is_covered(parts, count, matrix, cuts[i], extent->width))
            add_missing(missing, cuts[i], cuts[i + 1]);
}

enum mmul_status mmul_coverage_missing(enum mmul_selection_axis axis, struct mmul_shape shape,
                                       const struct mmul_region *regions, int64_t count,
                                       struct mmul_missing *missing, struct mmul_error *err) {
    const bool by_cols = axis == MMUL_SELECT_COLS;
    const int64_t lines = by_cols ? shape.cols : shape.rows,
                  width = by_cols ? shape.rows : shape.cols;
    const int64_t matrices = axis == MMUL_SELECT_MATRICES ? mmul_shape_matrices(shape) : 1;
    struct band_part *parts = NULL;
    struct mmul_segment *segments = NULL;
    int64_t *cuts = NULL;
    enum mmul_status status = MMUL_ALLOCATE_ALL("a journal", err, MMUL_ARRAY(parts, count),
                                                MMUL_ARRAY(cuts, 2 * count + 2),
                                                MMUL_ARRAY(segments, 2 * count + 1 + matrices));
    if (status != MMUL_OK) {
        MMUL_FREE_ALL(parts, cuts, segments);
        return status;
    }
    struct mmul_missing found = {.segments = segments,
                                 .total = axis == MMUL_SELECT_MATRICES ? matrices : lines};
    for (int64_t i = 0; i < count; i++) {
        const struct mmul_segment rows = {regions[i].row_begin, regions[i].row_end},
                                  cols = {regions[i].col_begin, regions[i].col_end};
        parts[i] =
            (struct band_part){regions[i].matrix, by_cols ? cols : rows, by_cols ? rows : cols};
    }
    qsort(parts, (size_t)count, sizeof *parts, compare_parts);
    const struct extent extent = {lines, width, cuts};
    if (axis != MMUL_SELECT_MATRICES)
        find_missing(parts, count, 0, &extent, &found);
    for (int64_t t = 0; axis == MMUL_SELECT_MATRICES && t < matrices; t++) {
        struct mmul_missing in_matrix = {.segments = segments + matrices};
        find_missing(parts, count, t, &extent, &in_matrix);
        if (in_matrix.lines > 0)
            add_missing(&found, t, t + 1);
    }
    MMUL_FREE_ALL(parts, cuts);
    *missing = found;
    return MMUL_OK;
}
