// SPDX-License-Identifier: MIT
//
// The k largest elements of every row of a product (MMUL_SEARCH), on one rank: tile by tile of the product, which is in
// memory of the search's own, multiplied and checked as other products are. The best of a tile's rows are merged with
// those of the tiles left of it. The compute thread's; moves nothing.
#pragma once

#include "plan/program/program_footprint.h"

struct mmul_part; // exec/steps/block.h
struct mmul_stage;

struct mmul_search {
    struct mmul_search_size is;
    // Owned, of the result's type; NULL: none yet, or left to a device that hangs.
    void *product; // of a tile, rows x cols
    void *best;    // of a tile, rows x 2k
    void *merged;  // one row of 2k
};

// The device hangs, and may still write to the memory of a stage that searches; of any other nothing happens.
void mmul_search_abandon(struct mmul_stage *stage);

// Its memory; sizes stay, and it can be made again.
void mmul_search_release(struct mmul_search *search);

// For a stage that searches in blocks of so many rows; fini: of any stage. Local. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_search_init(struct mmul_stage *stage, int64_t rows, struct mmul_error *err);
void mmul_search_fini(struct mmul_stage *stage);

// A block of the result. Fails as mmul_stage_multiply, mmul_stage_check and mmul_stage_map, and with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_search_make(struct mmul_stage *stage, const struct mmul_part *part,
                                  const struct mmul_block *block, struct mmul_error *err);
