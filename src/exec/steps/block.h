// SPDX-License-Identifier: MIT
//
// Location of a block (plan/lists/blocks.h) and of its operands: the only way from a task to
// memory. A matrix is a value on the ranks, a file that the node has mapped, or data received into
// the stage's memory.
#pragma once

#include "exec/steps/stage.h"
#include "plan/lists/blocks.h"

// Rows of another node's rank that were moved here, packed, and the place for their rows of C.
// Pointer `a` is NULL if there are none.
struct mmul_stolen_rows {
    const char *a;
    char *c;
    int64_t row_begin, row_end; // rows of the matrix
};

// Owner of blocks, and the location of their data in the stage's memory: pieces and C_in of a
// product's round, full in the other axis, and C of the pass. Pointers are unused for mapped files
// and values, and for operations other than products.
struct mmul_block_owner {
    int rank;
    struct mmul_pass pass;
    struct mmul_range range;
    const char *pieces, *c_in;
    char *c; // packed, line after line
    struct mmul_stolen_rows brought;
};

// Returns this rank's part of an operation without a schedule.
struct mmul_block_owner mmul_block_owner_self(const struct mmul_stage *stage);

// Views the available part of an operand, in the operation's coordinates, for matrix t of the
// result.
struct mmul_view mmul_block_operand(const struct mmul_stage *stage,
                                    const struct mmul_block_owner *part, int index, int64_t t);

// Views the part's region of a matrix of the result. A product's C must be a value.
struct mmul_view mmul_block_result(const struct mmul_stage *stage,
                                   const struct mmul_block_owner *part, int64_t t);

// Returns the product that computes the block, with all of its terms.
struct mmul_product mmul_block_product(const struct mmul_stage *stage,
                                       const struct mmul_block_owner *part,
                                       const struct mmul_block *block);

// Writes "rows 100-200 of matrix 3" for errors, with the value's name for a result that is not in a
// file. Returns `text`.
enum { MMUL_BLOCK_NAME_BYTES = 192 };
char *mmul_block_name(const struct mmul_stage *stage, struct mmul_region block,
                      char text[static MMUL_BLOCK_NAME_BYTES]);
