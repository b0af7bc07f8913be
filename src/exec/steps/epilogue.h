// SPDX-License-Identifier: MIT
//
// Epilogue of a step on one rank (plan/program/program_fuse_operations.c): fused operations on its
// result. Rows go through all of them, tile by tile, while they are in the processor's caches or on
// the device. Values that only fused operations read are in tiles, which all epilogues of a run
// reuse. Runs on the compute thread. Moves no data between ranks.
#pragma once

// Blocks of a product go through the fused operations as soon as they are checked, while later
// panels travel. In two cases the rank's whole part goes at the end instead: other ranks may steal
// lines of the product, or a fused operation needs whole rows and panels have parts of them
// (in_parts). Blocks are not made smaller for the caches: packing the other operand again for each
// of them costs more than reading C again.

#include "plan/lists/program_plan.h"

struct mmul_stage;

// Tiles of a run's epilogues. One per run.
struct mmul_epilogue_buffers {
    size_t bytes;
    void *tiles; // owned, `bytes` long; NULL: not needed, or left to a hanging device
};

struct mmul_epilogue {
    const struct mmul_program_step *step; // borrowed; NULL: there are no fused operations
    struct mmul_program_step blocks;      // copy of `step` with the blocks of its result
    int64_t elements;                     // most elements of a tile
    int64_t tile_bytes;                   // size of one tile in the room
    int tiles;                            // number of tiles per thread in the room
    // set by the stage's kind: each part of a product goes once it is made and checked; else all
    // goes at the end
    bool in_parts;
    int64_t all;  // elements of the rank's part
    int64_t done; // tiles that have passed all fused operations
};

// Prepares the epilogue of the stage, which carries out `step`. Without fused operations it does
// nothing. The run's room grows to the needed size. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_epilogue_init(struct mmul_stage *stage, const struct mmul_program_step *step,
                                    struct mmul_error *err);
void mmul_epilogue_buffers_fini(struct mmul_epilogue_buffers *room);

// Returns true if the stage consists of its epilogue only.
bool mmul_epilogue_is_whole_stage(const struct mmul_stage *stage);

// Gives up the tiles: the device hangs, and may still write to them.
void mmul_epilogue_buffers_abandon(struct mmul_epilogue_buffers *room);

// Returns the bytes needed on the device for a block of the stage's product to stay there: one tile
// and the results made of it. The block then goes through the epilogue once it is checked, and only
// samples of it are read here. The device must be able to make the first fused operation. 0: the
// block may not stay.
int64_t mmul_epilogue_bytes_on_device(const struct mmul_stage *stage, int64_t rows, int64_t cols);

// Applies the epilogue to a rectangle of the product that this rank has made and checked. Does
// nothing unless in_parts. A part that is made again goes through it again. Fails as
// mmul_stage_run_map.
enum mmul_status mmul_epilogue_apply_part(struct mmul_stage *stage, struct mmul_region part,
                                          struct mmul_error *err);

// Applies the epilogue to this rank's part, unless in_parts. A repeated call continues after the
// last finished tile. Fails as mmul_stage_run_map.
enum mmul_status mmul_epilogue_apply(struct mmul_stage *stage, struct mmul_error *err);
