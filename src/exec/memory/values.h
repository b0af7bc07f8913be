// SPDX-License-Identifier: MIT
//
// Memory of a program's values on this node. One shared segment holds the parts of all the node's
// ranks, for every place of the plan. Views (transposed, placed) share the memory of their
// original. Values do not change once they are complete. After its last read a value's memory goes
// to other values.
//
// A cache of keys and values can be carried by a loop, which copies it in each turn. To add a value
// that changes in place, add an operation that changes it (head of model/operation.h) and change
// these. Today a value is made once.
//
//     order of its writers, readers   plan/program/program_make.c: a value has one place per
//                                     placement, and a place stays valid (place_of).
//                                     program_early_moves.c and program_fuse_operations.c
//                                     reorder steps, and know one maker per place.
//     waits of its readers            exec/steps/stage.c: producing_stages has one maker per place.
//     lifetime of its memory          plan/program/program_memory.c: up to its last reader; held.c:
//                                     from program to program.
//     its size in a plan              exec/job/plan_cache.c: the key has all sizes, and begin and
//                                     end of slices. A position must be a value or a number.
//     positions                       rope counts rows from 0: it needs an offset.
//     caches by address               exec/worker/tile_cache.c, host_map.c.
//     checks of its readers           exec/worker/product_check.c and steps/map_check.c read
//                                     operands again; product_check.c keeps their sums.
//     texts                           tensor/jobs.c, builtins.c; model/operation.h.
#pragma once

#include "comm/shared_memory.h"
#include "exec/memory/progress.h"
#include "exec/setup/context.h"
#include "plan/lists/program_plan.h"

struct mmul_values {
    struct mmul_context *context;   // borrowed
    struct mmul_program_plan *plan; // borrowed
    int rank, node, node_rank, node_size;
    struct mmul_shared segment;
    int64_t run_segment_bytes;   // size of the run's own segment, beside these values
    struct mmul_waits run_waits; // wait statistics of the run's compute thread
    // Owned: byte offset in the segment by place * node_size + node rank; -1: no memory.
    int64_t *offsets;
    struct mmul_report *report; // owned: of the run that made the values
    // owned: sets of shards (exec/memory/persistent.h); NULL: none
    struct mmul_persistent_set *kept;
    // Owned, by place * node_size + node rank: a rank's part of a set of shards or of a held value;
    // NULL: neither.
    char **persistent_parts;
    // Owned: segments of held values (exec/memory/held.h), first those that were read, then those
    // that were made.
    struct mmul_held_segment **held;
    int held_count;
    double begin;      // start of the report's clock in the run that made the values
    bool is_abandoned; // MPI or a hanging device may still access the segment
};

// Part of a matrix in memory, as one holder has it. Element (i, j) of the matrix is this many
// elements behind `at`: (i - row_begin) * ld + j - col_begin, or if transposed (j - col_begin) * ld
// + i - row_begin.
struct mmul_view {
    void *at;
    enum mmul_dtype dtype; // float32 or float64; the file's type if mapped or received in pieces
    int64_t ld;
    bool transposed;
    struct mmul_region region;
};

// Creates the segment; opens no sets yet. Collective over world. Fails with MMUL_ERR_SYSTEM
// (memory), on all ranks alike.
enum mmul_status mmul_values_create(struct mmul_context *context, struct mmul_program_plan *plan,
                                    struct mmul_values **values, struct mmul_error *err);

// Returns the part of a matrix that `rank` holds. The rank is on this node; any rank will do for a
// replicated value. The region is empty if the part does not contain this matrix.
struct mmul_view mmul_values_view(const struct mmul_values *values, int place, int rank,
                                  int64_t matrix);

// Memory of a place on this node, with the parts of all ranks; NULL if it has none.
struct mmul_memory {
    const char *begin, *end;
};
struct mmul_memory mmul_values_memory(const struct mmul_values *values, int place);

// Returns the address of an element of the view's region.
void *mmul_view_element(const struct mmul_view *view, int64_t row, int64_t col);

// Copies elements [begin, end) of a region, counted in C order. The place is split by rows, and the
// ranks of this node have these elements.
void mmul_values_read_rows(const struct mmul_values *values, int place, struct mmul_region region,
                           int64_t begin, int64_t end, void *to);

// Returns true if the place still has its value after the run.
bool mmul_values_has_place(const struct mmul_values *values, int place);

// Returns the address of `region` if it is contiguous in memory; NULL if not. The region lies
// inside the view's.
void *mmul_view_contiguous(const struct mmul_view *view, struct mmul_region region);

// Copy `region`, which lies inside the view's, from the view to packed rows (read) or back (write),
// in the view's type. add: adds to the present contents.
void mmul_view_read(const struct mmul_view *view, struct mmul_region region, bool add, void *to);
void mmul_view_write(const struct mmul_view *view, struct mmul_region region, bool add,
                     const void *from);
