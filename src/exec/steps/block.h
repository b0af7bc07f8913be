// SPDX-License-Identifier: MIT
//
// Where what a block is made from lies, and the block itself (plan/lists/blocks.h): the one way from a task to memory.
// A matrix is a value on the ranks, a file that the node has mapped, or what has come into the stage's memory.
#pragma once

#include "exec/steps/stage.h"
#include "plan/lists/blocks.h"

// Rows of another node's rank that were brought here, packed, and where those of C are put; a NULL: none.
struct mmul_brought {
    const char *a;
    char *c;
    int64_t row_begin, row_end; // of the matrix
};

// Whose blocks, and where what belongs to them is in the stage's memory: pieces and C_in of a product's round, full in
// the other axis, C of the pass; not looked at where these are mapped or values, nor of what is no product.
struct mmul_part {
    int rank;
    struct mmul_pass pass;
    struct mmul_range range;
    const char *pieces, *c_in;
    char *c; // packed, line after line
    struct mmul_brought brought;
};

// Of a rank of this node, in a pass of a product; this rank's of what is none.
struct mmul_part mmul_block_part(const struct mmul_stage *stage, int rank, struct mmul_pass pass);
struct mmul_part mmul_block_own(const struct mmul_stage *stage);

// What there is of an operand, as the operation has it, of the matrix that meets matrix t of the result.
struct mmul_view mmul_block_operand(const struct mmul_stage *stage, const struct mmul_part *part,
                                    int index, int64_t t);

// What the part has of a matrix of the result; a product's, whose C is a value.
struct mmul_view mmul_block_result(const struct mmul_stage *stage, const struct mmul_part *part,
                                   int64_t t);

// The block, with all of its terms.
struct mmul_product mmul_block_product(const struct mmul_stage *stage, const struct mmul_part *part,
                                       const struct mmul_block *block);

// "rows 100-200 of matrix 3", and whose where the run has other steps: for errors. Returns `text`.
enum { MMUL_BLOCK_NAME_BYTES = 192 };
char *mmul_block_name(const struct mmul_stage *stage, struct mmul_region block,
                      char text[static MMUL_BLOCK_NAME_BYTES]);

// The check of a block by itself, of which these rows are looked at. Fails as a check does.
enum mmul_status mmul_block_check(struct mmul_stage *stage, const struct mmul_part *part,
                                  const struct mmul_block *block, struct mmul_panel rows,
                                  struct mmul_error *err);
