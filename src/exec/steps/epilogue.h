// SPDX-License-Identifier: MIT
//
// What a step does to its result in the end (plan/program/program_epilogue.c), on one rank: some rows after the other,
// each of which goes through all fused operations while it is in the processor's caches, or on the device. What only
// these read is in tiles, which all epilogues of a run have in turn. The compute thread's; moves nothing.
#pragma once

#include "plan/lists/program_plan.h"

struct mmul_stage;

// One per run.
struct mmul_epilogue_room {
    size_t bytes;
    void *tiles; // owned, so many bytes; NULL: nobody needs any, or left to a device that hangs
};

struct mmul_epilogue {
    const struct mmul_program_step *step; // borrowed; NULL: there are no fused operations
    struct mmul_program_step blocks;      // a copy, whose blocks are those of the result
    int64_t elements;                     // of a tile, at most
    int64_t tile_bytes;                   // of one in the room
    int tiles;                            // of the room that a thread has
    int64_t all;                          // elements of the rank's part
    int64_t done;                         // tiles that have gone through all fused operations
    bool in_parts; // of a product: what is made and checked goes at once; else when all is there
};

// step: of the stage; one without fused operations: nothing to do. The run's room grows with what is needed.
// Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_epilogue_init(struct mmul_stage *stage, const struct mmul_program_step *step,
                                    struct mmul_error *err);
void mmul_epilogue_room_fini(struct mmul_epilogue_room *room);

// Is all that the stage does in it?
bool mmul_epilogue_is_all(const struct mmul_stage *stage);

// The device hangs, and may still write to what is between.
void mmul_epilogue_abandon(struct mmul_epilogue_room *room);

// Will such a block of what the stage's product makes go through it at once when it is checked, and only samples of it
// be read here? Then it may stay on a device that can make the first fused operation and has so many bytes beside it,
// for a tile and what is made of that; 0: no.
int64_t mmul_epilogue_takes(const struct mmul_stage *stage, int64_t rows, int64_t cols);

// A rectangle of what the stage's product makes, which this rank has made and checked: in_parts, or nothing is done.
// Where it is made again it goes again. Fails as mmul_stage_map.
enum mmul_status mmul_epilogue_make_part(struct mmul_stage *stage, struct mmul_region part,
                                         struct mmul_error *err);

// This rank's part, not in_parts, from where it was when it was called before. Fails as mmul_stage_map.
enum mmul_status mmul_epilogue_make(struct mmul_stage *stage, struct mmul_error *err);
