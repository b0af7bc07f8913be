// SPDX-License-Identifier: MIT
// Parts of values as ranges of units, cut at the borders of matrices. Moves nothing and owns
// nothing.
#include "model/placement.h"

#include "base/integer.h"
#include "model/matrix.h"

static const char *const NAMES[] = {
    [MMUL_PLACE_FILE] = "file",           [MMUL_PLACE_ROWS] = "rows",
    [MMUL_PLACE_COLS] = "cols",           [MMUL_PLACE_GRID] = "grid",
    [MMUL_PLACE_REPLICATE] = "replicate", [MMUL_PLACE_PARTIAL] = "partial",
    [MMUL_PLACE_GRID_ROWS] = "grid rows", [MMUL_PLACE_GRID_COLS] = "grid cols",
    [MMUL_PLACE_CYCLIC] = "cyclic"};

const char *mmul_placement_name(enum mmul_placement_kind kind) {
    return NAMES[kind];
}

bool mmul_placement_is_whole(enum mmul_placement_kind kind) {
    return kind == MMUL_PLACE_FILE || kind == MMUL_PLACE_REPLICATE || kind == MMUL_PLACE_PARTIAL;
}

bool mmul_placement_is_mesh(enum mmul_placement_kind kind) {
    return kind == MMUL_PLACE_GRID || kind == MMUL_PLACE_GRID_ROWS || kind == MMUL_PLACE_GRID_COLS;
}

int mmul_placement_first(const struct mmul_placement *placement) {
    return placement->holders != NULL ? placement->holders->first : 0;
}

bool mmul_placement_covers_node(const struct mmul_placement *placement, int node) {
    return placement->holders == NULL || placement->holders->nodes[node];
}

struct mmul_part_copies mmul_placement_copies(const struct mmul_placement *placement, int rank) {
    const struct mmul_placement *p = placement;
    const int i = rank / p->col_parts, j = rank % p->col_parts;
    const bool holds = rank < p->row_parts * p->col_parts;
    if (p->kind == MMUL_PLACE_GRID_ROWS && holds)
        return (struct mmul_part_copies){i * p->col_parts, 1, p->col_parts};
    if (p->kind == MMUL_PLACE_GRID_COLS && holds)
        return (struct mmul_part_copies){j, p->col_parts, p->row_parts};
    return (struct mmul_part_copies){rank, 1, 1};
}

int mmul_placement_first_copy(const struct mmul_placement *placement, const int *rank_node,
                              int rank, int node) {
    const struct mmul_part_copies copies = mmul_placement_copies(placement, rank);
    for (int c = 0; c < copies.count; c++)
        if (rank_node[copies.first + c * copies.step] == node)
            return copies.first + c * copies.step;
    return -1;
}

static size_t format_offsets(const int64_t *offsets, int parts, char *text, size_t capacity) {
    size_t length = 0;
    for (int i = 0; i <= parts && length < capacity; i++)
        length +=
            (size_t)snprintf(text + length, capacity - length, " %lld", (long long)offsets[i]);
    return length;
}

static void format_holders(const struct mmul_holders *holders, char *text, size_t capacity) {
    enum { FEW = 8 };
    size_t length = (size_t)snprintf(text, capacity, " on");
    if (holders->count > FEW)
        snprintf(text + length, capacity - length, " %d ranks", holders->count);
    for (int rank = 0; holders->count <= FEW && rank < holders->size; rank++)
        if (holders->ranks[rank] && length < capacity)
            length += (size_t)snprintf(text + length, capacity - length, " %d", rank);
}

char *mmul_placement_format(const struct mmul_placement *placement, char text[static 96]) {
    const struct mmul_placement *p = placement;
    enum { FEW = 5, HALF = 44 };
    size_t length = (size_t)snprintf(text, 96, "%s", NAMES[p->kind]);
    if (p->kind == MMUL_PLACE_CYCLIC)
        length += (size_t)snprintf(text + length, 96 - length, " %lld", (long long)p->dealt.cols);
    if (mmul_placement_is_whole(p->kind) && p->holders != NULL)
        format_holders(p->holders, text + length, 96 - length);
    if (mmul_placement_is_whole(p->kind))
        return text;
    char rows[HALF] = "", cols[HALF] = "";
    size_t row_length = 0, col_length = 0;
    if (p->row_parts <= FEW && p->row_offsets != NULL)
        row_length = format_offsets(p->row_offsets, p->row_parts, rows, sizeof rows);
    if (p->col_parts <= FEW && p->col_offsets != NULL)
        col_length = format_offsets(p->col_offsets, p->col_parts, cols, sizeof cols);
    bool fits =
        p->row_parts <= FEW && p->col_parts <= FEW && row_length < HALF && col_length < HALF;
    if (p->kind == MMUL_PLACE_GRID && fits)
        snprintf(text + length, 96 - length, "%s x%s", rows, cols);
    else if (!fits && mmul_placement_is_mesh(p->kind))
        snprintf(text + length, 96 - length, " of %d x %d parts", p->row_parts, p->col_parts);
    else if (fits)
        snprintf(text + length, 96 - length, "%s%s", rows, cols);
    else
        snprintf(text + length, 96 - length, " in %d parts", p->row_parts * p->col_parts);
    return text;
}

// Units [begin, end) of the split range, with `per_matrix` units in each matrix, and the elements
// across: rows have the width of the matrix, columns its height.
struct extent {
    int64_t begin, end, per_matrix, across;
    int64_t across_begin;
};

// Returns true if the rank holds a value that is whole on its holders.
static bool has_whole(const struct mmul_placement *p, int rank) {
    return rank < 0 || p->holders == NULL ||
           (p->kind == MMUL_PLACE_PARTIAL ? p->holders->ranks : p->holders->ranks_of_nodes)[rank];
}

static struct extent extent_of(const struct mmul_placement *p, struct mmul_shape shape, int rank) {
    int64_t all = mmul_shape_matrices(shape);
    if (mmul_placement_is_whole(p->kind))
        return (struct extent){0, has_whole(p, rank) ? all * shape.rows : 0, shape.rows, shape.cols,
                               0};
    if (rank >= p->row_parts * p->col_parts)
        return (struct extent){.per_matrix = 1};
    int i = rank / p->col_parts, j = rank % p->col_parts;
    if (p->kind == MMUL_PLACE_COLS)
        return (struct extent){p->col_offsets[j], p->col_offsets[j + 1], shape.cols, shape.rows, 0};
    struct extent e = {0, all * shape.rows, shape.rows, shape.cols, 0};
    if (p->row_offsets != NULL) {
        e.begin = p->row_offsets[i];
        e.end = p->row_offsets[i + 1];
    }
    if (p->col_offsets != NULL) {
        e.across_begin = p->col_offsets[j];
        e.across = p->col_offsets[j + 1] - e.across_begin;
    }
    return e;
}

struct mmul_part_range mmul_placement_part(const struct mmul_placement *placement,
                                           struct mmul_shape shape, int rank) {
    const struct extent e = extent_of(placement, shape, rank);
    if (e.begin >= e.end || e.across == 0)
        return (struct mmul_part_range){0};
    return (struct mmul_part_range){.matrix_begin = e.begin / e.per_matrix,
                                    .matrix_end = (e.end - 1) / e.per_matrix + 1,
                                    .elements = (e.end - e.begin) * e.across};
}

struct mmul_region mmul_placement_region(const struct mmul_placement *placement,
                                         struct mmul_shape shape, int rank, int64_t matrix,
                                         int64_t *offset) {
    const struct extent e = extent_of(placement, shape, rank);
    int64_t first = matrix * e.per_matrix;
    int64_t begin = mmul_max(e.begin, first), end = mmul_min(e.end, first + e.per_matrix);
    *offset = (begin - e.begin) * e.across;
    struct mmul_region region = {matrix, begin - first, end - first, e.across_begin,
                                 e.across_begin + e.across};
    if (placement->kind == MMUL_PLACE_COLS)
        region = (struct mmul_region){matrix, 0, e.across, begin - first, end - first};
    return region;
}

// ------------------------------------------------------------------------ columns of the matrix

int64_t mmul_placement_rectangles(const struct mmul_placement *placement, int rank) {
    const int64_t *first = placement->dealt.first;
    return placement->kind == MMUL_PLACE_CYCLIC ? first[rank + 1] - first[rank] : 1;
}

struct mmul_region mmul_placement_rectangle(const struct mmul_placement *placement,
                                            struct mmul_shape shape, int rank, int64_t matrix,
                                            int64_t index) {
    const struct mmul_dealt_blocks *dealt = &placement->dealt;
    int64_t ignored;
    if (placement->kind != MMUL_PLACE_CYCLIC)
        return mmul_placement_region(placement, shape, rank, matrix, &ignored);
    const int64_t begin = dealt->blocks[dealt->first[rank] + index] * dealt->cols;
    return (struct mmul_region){matrix, 0, shape.rows, begin,
                                mmul_min(begin + dealt->cols, shape.cols)};
}

struct mmul_region mmul_placement_stored(const struct mmul_placement *placement, int rank,
                                         struct mmul_region region) {
    const struct mmul_dealt_blocks *dealt = &placement->dealt;
    if (placement->kind != MMUL_PLACE_CYCLIC)
        return region;
    const int64_t block = region.col_begin / dealt->cols, first = dealt->first[rank];
    int64_t low = first, high = dealt->first[rank + 1] - 1;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (dealt->blocks[middle] < block)
            low = middle + 1;
        else
            high = middle;
    }
    // Only the matrix's last block is narrower, and no block of its rank follows it.
    const int64_t stored = placement->col_offsets[rank] + (low - first) * dealt->cols,
                  moved = stored - block * dealt->cols;
    region.col_begin += moved;
    region.col_end += moved;
    return region;
}
