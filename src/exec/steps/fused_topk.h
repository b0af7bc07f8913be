// SPDX-License-Identifier: MIT
//
// Finds the k largest elements of each row of a product (MMUL_FUSED_TOPK) on one rank. The product
// is made tile by tile in memory of the search, multiplied and checked like any product. The best
// elements of a tile's rows are merged with those of the tiles to its left. Runs on the compute
// thread. Moves no data between ranks.
// The reason is memory: 60 MiB of values instead of 1527 for the top 5 of 20000 x 20000. No
// difference of time was found (bench/ledger.md).
#pragma once

#include "plan/program/program_footprint.h"

struct mmul_block_owner; // exec/steps/block.h
struct mmul_stage;

struct mmul_fused_topk {
    struct mmul_search_size is;
    // Buffers, owned, of the result's type. NULL: not allocated yet, or left to a hanging device.
    void *product; // one tile, rows x cols
    void *best;    // best of one tile, rows x 2k
    void *merged;  // one row of 2k
};

// Gives up a search's memory: the device hangs, and may still write to it. Does nothing for other
// stages.
void mmul_fused_topk_abandon(struct mmul_stage *stage);

// Frees the memory. The sizes stay, so it can be allocated again.
void mmul_fused_topk_release(struct mmul_fused_topk *search);

// Prepares the search of a stage in blocks of `rows` rows. fini accepts any stage. Local. Fails
// with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_fused_topk_init(struct mmul_stage *stage, int64_t rows,
                                      struct mmul_error *err);
void mmul_fused_topk_fini(struct mmul_stage *stage);

// Makes a block of the result. Fails as mmul_stage_multiply, mmul_stage_check_product and
// mmul_stage_run_map, and with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_fused_topk_make_block(struct mmul_stage *stage,
                                            const struct mmul_block_owner *part,
                                            const struct mmul_block *block, struct mmul_error *err);
