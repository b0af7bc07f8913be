// SPDX-License-Identifier: MIT
//
// Sizes of the memory that the stages of a run share: the segment of a node, work space of checks,
// buffers of channels. Each grows with the largest stage. Pure: plans predict the memory of a run
// with the functions by which the run allocates it.
#pragma once

#include "plan/lists/transfers.h"

// ------------------------------------------------------------------------------------- the segment
//
//     counters | lanes and slots of even products | of odd products | vectors of even other stages
//              | of odd other stages | vectors of early moves, in turn
//
// Two parts per kind let panels of a product travel while the product before, and the stages
// between, are computed. Of the other stages, which sum vectors, at most two are in flight, plus
// MMUL_SEGMENT_EARLY_PARTS early moves (plan/program/program_early_moves.c).

enum { MMUL_SEGMENT_EARLY_PARTS = 8, MMUL_SEGMENT_PARTS = 4 + MMUL_SEGMENT_EARLY_PARTS };

// Users of the segment: a product, an early move that sums vectors of its ranks, any other stage.
enum mmul_segment_user { MMUL_SEGMENT_PRODUCT, MMUL_SEGMENT_EARLY, MMUL_SEGMENT_OTHER };

// Bytes of counters: of the run and of a stage, and the same for each rank of the node.
// exec/memory/progress.h asserts them.
enum {
    MMUL_RUN_COUNTERS = 64,
    MMUL_RUN_COUNTERS_EACH = 64,
    MMUL_STAGE_COUNTERS = 64,
    MMUL_STAGE_COUNTERS_EACH = 128
};

// Sizes of the segment's parts and numbers of their users. {0}: no stage yet.
struct mmul_segment_size {
    int64_t sizes[MMUL_SEGMENT_PARTS];
    int products, early, stages;
};

// Adds a stage of `bytes` bytes. Returns the part that the stage uses.
int mmul_segment_size_add(struct mmul_segment_size *size, enum mmul_segment_user user,
                          int64_t bytes);

// Returns the bytes of the segment of a node with `ranks` ranks. `begins` receives the begin of
// each part; it may be NULL.
int64_t mmul_segment_size_bytes(const struct mmul_segment_size *size, int ranks,
                                int64_t begins[MMUL_SEGMENT_PARTS]);

// Rounds up to whole pages.
int64_t mmul_page_ceiling(int64_t bytes);

// Returns the bytes of the lanes and slots of a product, each of which begins on its own page
// (exec/memory/layout.h). 0: the node has no work.
int64_t mmul_schedule_lanes_bytes(const struct mmul_schedule_node *node);

// --------------------------------------------------------------------------------------- the check

// Return the lines of A and C of another node that a rank has room for (exec/tasks/steals.h), and
// their bytes. 0: the rank takes none.
int64_t mmul_schedule_stolen_lines_most(const struct mmul_schedule *schedule, int rank);
int64_t mmul_schedule_stolen_bytes_most(const struct mmul_schedule *schedule, int rank);

// Size of the check of a stage's products (exec/worker/verify.h).
struct mmul_check_need {
    enum mmul_axis axis;
    int64_t piece_units, panel_units, k; // upper bounds; piece_units 0: no check
    // Cached projections of pieces, of this stage and of others; 0: its own are not cached.
    int64_t saved;
};

// Returns the largest number of lines of a task of the rank.
int64_t mmul_schedule_lines_most(const struct mmul_schedule *schedule, int rank);

// Returns the size of the check of a product that is split by rows or columns, on a rank with
// lines. whole_again and split_again state that other products read the same operand; `saved`
// counts such values. A piece is projected once for all of them. If both operands are read again,
// the larger one is projected.
struct mmul_check_need mmul_schedule_check_need(const struct mmul_schedule *schedule, int rank,
                                                bool whole_again, bool split_again, int64_t saved);

// Room for the checks of all stages. {0}: none.
struct mmul_check_size {
    // mmul_check_bytes of the largest stage.
    int64_t check_bytes;
    int64_t panel_units;   // one flag for each
    int64_t cached_wanted; // cached pieces that the stages ask for
    // Cached pieces that fit: into half of check_bytes, or one piece.
    int64_t cached_count;
    int64_t cached_numbers; // doubles of each
};

void mmul_check_size_add(struct mmul_check_size *size, const struct mmul_check_need *need);

// Returns the bytes of that room, in which one piece is remembered.
int64_t mmul_check_size_bytes(const struct mmul_check_size *size);

// ---------------------------------------------------------------------------------------- channels

// Buffers of a leader's channels. {0}: none.
struct mmul_channels_size {
    int64_t bytes[MMUL_ROUTES];
    bool is_used[MMUL_ROUTES], is_spread;
};

void mmul_channels_size_add(struct mmul_channels_size *size, const struct mmul_schedule *schedule,
                            int node);
void mmul_channels_size_add_moves(struct mmul_channels_size *size,
                                  const struct mmul_move_set *moving, int node);
int64_t mmul_channels_size_bytes(const struct mmul_channels_size *size, bool is_root);
