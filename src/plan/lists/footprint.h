// SPDX-License-Identifier: MIT
//
// Memory of a run that is shared by its stages, and grows with the largest of them: the segment of a node, what checks
// work in, buffers of channels. Sizes alone, and pure: plans count what a run will take with the functions by which the
// run makes its rooms.
#pragma once

#include "plan/lists/transfers.h"

// ------------------------------------------------------------------------------------ the segment
//
//     counters | lanes and slots of every second product | of the others | vectors of every second other stage |
//              | of the others | vectors of moves that are under way for long, in turn
//
// So panels of a product travel while the one before, and all that is between them, is computed; of other stages,
// which add vectors up, two at most are under way, and so many early moves (plan/program/program_early.c).

enum { MMUL_SEGMENT_AHEAD = 8, MMUL_SEGMENT_PARTS = 4 + MMUL_SEGMENT_AHEAD };

// A product; an early move whose ranks add vectors up; any other stage.
enum mmul_segment_user { MMUL_SEGMENT_PRODUCT, MMUL_SEGMENT_EARLY, MMUL_SEGMENT_OTHER };

// Bytes of counters (exec/memory/progress.h, which asserts them): of the run and of a stage, and of each rank of the
// node.
enum {
    MMUL_RUN_COUNTERS = 64,
    MMUL_RUN_COUNTERS_EACH = 64,
    MMUL_STAGE_COUNTERS = 64,
    MMUL_STAGE_COUNTERS_EACH = 128
};

// {0}: no stage yet.
struct mmul_segment_size {
    int64_t sizes[MMUL_SEGMENT_PARTS];
    int products, early, stages;
};

// One stage more, which has so many bytes. Returns its part.
int mmul_segment_size_add(struct mmul_segment_size *size, enum mmul_segment_user user,
                          int64_t bytes);

// All of it, on a node of so many ranks; begins: of the parts, NULL: not wanted.
int64_t mmul_segment_size_bytes(const struct mmul_segment_size *size, int ranks,
                                int64_t begins[MMUL_SEGMENT_PARTS]);

// Where something that begins on a page of its own ends, in whole pages.
int64_t mmul_page_ceiling(int64_t bytes);

// Lanes and slots of a product, which begin on pages of their own (exec/memory/layout.h); 0: the node has no work.
int64_t mmul_schedule_lanes_bytes(const struct mmul_schedule_node *node);

// -------------------------------------------------------------------------------------- the check

// Rows of another node's ranks that a rank has room for, of A and C (exec/tasks/loans.h); 0: none come.
int64_t mmul_schedule_loan_lines(const struct mmul_schedule *schedule, int rank);
int64_t mmul_schedule_loan_bytes(const struct mmul_schedule *schedule, int rank);

// What the check of a stage's products asks for (exec/worker/verify.h).
struct mmul_check_need {
    enum mmul_axis axis;
    int64_t piece_units, panel_units, k; // at most; piece_units 0: nothing is checked
    int64_t saved; // pieces that last, of this stage and of others; 0: its own do not
};

// Lines of a task of the rank's, at most.
int64_t mmul_schedule_lines_most(const struct mmul_schedule *schedule, int rank);

// Of a product that is split by rows or columns, on a rank that has lines. whole_again, split_again: other products
// read that operand too, and `saved` such values there are; a piece is projected once for all of them, the larger
// one where that is so of both operands.
struct mmul_check_need mmul_schedule_check_need(const struct mmul_schedule *schedule, int rank,
                                                bool whole_again, bool split_again, int64_t saved);

// Room for all that was asked for, stage after stage. {0}: none.
struct mmul_check_size {
    int64_t
        check_bytes; // of the check of each piece that is remembered: mmul_check_bytes of the largest
    int64_t panel_units;  // a flag for each
    int64_t saved_wanted; // pieces that last,
    int64_t
        saved_count; // ... those that there is room for: half of what the check itself has, or one piece
    int64_t saved_numbers; // doubles, of each
};

void mmul_check_size_add(struct mmul_check_size *size, const struct mmul_check_need *need);

// Where one piece is remembered.
int64_t mmul_check_size_bytes(const struct mmul_check_size *size);

// -------------------------------------------------------------------------------------- channels

// A channel to a file passes so much at once, without a buffer of its own.
enum { MMUL_FILE_STRETCH_BYTES = 4 << 20 };

// Of a channel, for a product, or (NULL) values that move; the channel has that of the largest one of its run.
int64_t mmul_route_buffer_bytes(const struct mmul_schedule *schedule, enum mmul_route route);

// Buffers of a leader's channels. {0}: none.
struct mmul_channels_size {
    int64_t bytes[MMUL_ROUTES];
    bool is_used[MMUL_ROUTES], is_spread;
};

void mmul_channels_size_add(struct mmul_channels_size *size, const struct mmul_schedule *schedule,
                            int node);
void mmul_channels_size_add_moving(struct mmul_channels_size *size,
                                   const struct mmul_moving *moving, int node);
int64_t mmul_channels_size_bytes(const struct mmul_channels_size *size, bool is_root);
