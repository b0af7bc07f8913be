// SPDX-License-Identifier: MIT
//
// Where the values of a program lie on this node: one shared segment holds the parts of all its
// ranks, of every place that the plan has for a value; views (transposed, placed) share the memory of
// what they show. Values do not change once they are complete; when nobody reads one any more others have
// its memory.
#pragma once

#include "comm/shared_window.h"
#include "exec/memory/progress.h"
#include "exec/setup/context.h"
#include "plan/lists/program_plan.h"

struct mmul_values {
    struct mmul_context *context;   // borrowed
    struct mmul_program_plan *plan; // borrowed
    int rank, node, node_rank, node_size;
    struct mmul_shared segment;
    int64_t run_segment_bytes;   // that the run which made them had beside them
    struct mmul_waits run_waits; // the same: how its compute thread waited
    int64_t *offsets; // owned: place * node_size + node rank: bytes into the segment; -1: no memory
    struct mmul_report *report; // owned: of the run that made them
    struct mmul_kept_use *kept; // owned: sets of shards (exec/memory/kept.h); NULL: there are none
    char **
        kept_parts; // owned: place * node_size + node rank: the rank's part of a set; NULL: it is none
    struct mmul_held_segment *
        *held; // owned; of held values (exec/memory/held.h) that were read, then made
    int held_count;
    double begin;      // when the clock of the run that made them started
    bool is_abandoned; // MPI, or a device that hangs, may still read and write the segment
};

// A rectangle of a value in memory: what a holder has of one matrix. Element (i, j) of the matrix is so many
// elements behind `at`: (i - row_begin) * ld + j - col_begin, or, transposed, (j - col_begin) * ld + i - row_begin.
struct mmul_view {
    void *at;
    enum mmul_dtype
        dtype; // float32, float64; of a file that is mapped, or has come in pieces, its own
    int64_t ld;
    bool transposed;
    struct mmul_region region;
};

// Collective over world: the segment; no sets are open yet. Fails with MMUL_ERR_SYSTEM (memory), everywhere alike.
enum mmul_status mmul_values_create(struct mmul_context *context, struct mmul_program_plan *plan,
                                    struct mmul_values **values, struct mmul_error *err);

// What `rank`, which is on this node, holds of a matrix; any rank for what is whole on the node. A
// part without this matrix has an empty region.
struct mmul_view mmul_values_view(const struct mmul_values *values, int place, int rank,
                                  int64_t matrix);

// What a place takes of this node's memory, with all its parts; nothing where it has none.
struct mmul_memory {
    const char *begin, *end;
};
struct mmul_memory mmul_values_memory(const struct mmul_values *values, int place);

// Where an element of the view's region is.
void *mmul_view_element(const struct mmul_view *view, int64_t row, int64_t col);

// Elements [begin, end) of a region in C order, of a place that is split by rows and of which the ranks of
// this node have them.
void mmul_values_read_rows(const struct mmul_values *values, int place, struct mmul_region region,
                           int64_t begin, int64_t end, void *to);

// Is it still there after the run?
bool mmul_values_has(const struct mmul_values *values, int place);

// Where `region`, which lies inside the view's, is in one run of memory; NULL: it is not.
void *mmul_view_run(const struct mmul_view *view, struct mmul_region region);

// Elements of `region`, which lies inside the view's, to C order, or from it, of the view's type; `add`: to what is
// there.
void mmul_view_read(const struct mmul_view *view, struct mmul_region region, bool add, void *to);
void mmul_view_write(const struct mmul_view *view, struct mmul_region region, bool add,
                     const void *from);
