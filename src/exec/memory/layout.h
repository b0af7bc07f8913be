// SPDX-License-Identifier: MIT
// Where things of a product lie in a node's shared memory, and in which slot a pass finds its panel.
#pragma once

#include "plan/lists/transfers.h"

//   piece lanes (pieces, C_in) | slots of the whole operand | result slots
struct mmul_layout {
    const struct mmul_schedule *schedule; // borrowed
    const struct mmul_schedule_node *node;
    int node_index;
    int64_t lane_bytes, slots, slot_bytes, results; // offsets and distances, bytes
    int64_t bytes;                                  // in all; 0: the node has no work
    int64_t passes, panels;                         // of the schedule
    int64_t *slot; // (passes), owned: of the pass's panel; -1: none
};

// Local. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_layout_init(struct mmul_layout *layout, const struct mmul_schedule *schedule,
                                  int node, struct mmul_error *err);
void mmul_layout_fini(struct mmul_layout *layout);

// Byte offsets in that memory. Of the node's pieces and C_in in a round, the panel of a pass
// (which has a slot), the node's block of C of a pass; and of `rank`'s parts of these.
int64_t mmul_layout_pieces(const struct mmul_layout *layout, int64_t round);
int64_t mmul_layout_c_in(const struct mmul_layout *layout, int64_t round);
int64_t mmul_layout_panel(const struct mmul_layout *layout, int64_t pass);
int64_t mmul_layout_result(const struct mmul_layout *layout, int64_t pass);

// Units of the ranks of the node before `rank`: in a round, in a pass.
int64_t mmul_layout_units_before(const struct mmul_layout *layout, int rank, int64_t round);
int64_t mmul_layout_pass_units_before(const struct mmul_layout *layout, int rank,
                                      struct mmul_pass pass);
