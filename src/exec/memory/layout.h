// SPDX-License-Identifier: MIT
// Layout of a product's buffers in a node's shared memory, and the slot of each pass's panel.
//
// Where data lies during a run:
//   - Files that a node sees are mapped and used in place: A and B on any node, C on root's node
//     (exec/memory/mappings.h).
//   - Values of a program lie in one segment per node (exec/memory/values.h).
//   - All other data of a product lies in lanes and slots of the run's segment, laid out here. The
//     leader receives into it and sends from it; ranks compute in place.
//   - With little memory a product has rounds, and fewer lanes and slots are used in turn. In core
//     is the case of one round.
//   - A CPU uses operands in place. Other devices, and 16-bit operands, go through tile-sized
//     lanes. A device with its own memory caches values and results beside them
//     (exec/worker/worker.h).
// The plan fixes all sizes before the run begins (plan/lists/footprint.h).
#pragma once

#include "plan/lists/transfers.h"

//   piece lanes (pieces, C_in) | slots of the whole operand | result slots
struct mmul_layout {
    const struct mmul_schedule *schedule; // borrowed
    const struct mmul_schedule_node *node;
    int node_index;
    int64_t lane_bytes, slots, slot_bytes, results; // offsets and strides, bytes
    int64_t bytes;                                  // total size; 0: the node has no work
    int64_t passes, panels;                         // numbers in the schedule
    int64_t *slot; // (passes), owned: slot of the pass's panel; -1: none
};

// Computes the layout for one node. Local. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_layout_init(struct mmul_layout *layout, const struct mmul_schedule *schedule,
                                  int node, struct mmul_error *err);
void mmul_layout_fini(struct mmul_layout *layout);

// Return byte offsets in that memory. pieces, c_in: those of the node's ranks in a round. panel:
// that of a pass, which must have a slot. result: the node's block of C of a pass.
int64_t mmul_layout_pieces(const struct mmul_layout *layout, int64_t round);
int64_t mmul_layout_c_in(const struct mmul_layout *layout, int64_t round);
int64_t mmul_layout_panel(const struct mmul_layout *layout, int64_t pass);
int64_t mmul_layout_result(const struct mmul_layout *layout, int64_t pass);

// Return the units of the node's ranks before `rank`, in a round or in a pass. Its own part begins
// behind them.
int64_t mmul_layout_units_before(const struct mmul_layout *layout, int rank, int64_t round);
int64_t mmul_layout_pass_units_before(const struct mmul_layout *layout, int rank,
                                      struct mmul_pass pass);
