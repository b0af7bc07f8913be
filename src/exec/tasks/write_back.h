// SPDX-License-Identifier: MIT
//
// The write-back: while ranks of root's node compute into the mapped output, root's third thread has
// the disk take what is finished, so that little is left when the commit waits for it. Blocks of C
// that are many times larger than the operands are worked off in slices for that.
//
// Only where C's rows are split (a slice lies together in the file), the file is on a disk and the
// commit is going to wait for it. What it does is a hint: whatever fails here comes up in the commit.
#pragma once

#include "exec/steps/stage.h"
#include "plan/lists/tasks.h"

// Rows that are multiplied, checked and handed over together where there are twice as many; 0: slices
// are not worth while. Local.
int64_t mmul_write_back_slice(const struct mmul_stage *stage);

// Whether finished rows are handed over while others are computed. Local, on a node the same for all.
bool mmul_write_back_follows(const struct mmul_stage *stage);

// What the rank has is complete up to the end of this block of its own, in the width of the task. Local.
void mmul_write_back_tell(struct mmul_stage *stage, const struct mmul_task *task,
                          struct mmul_region block);

// All of the block of a rank of the node is. Local.
void mmul_write_back_end(struct mmul_stage *stage, int node_rank);

// Does this rank write back? Not where C is smaller than a slice. Then mmul_write_back runs on a thread of its own.
bool mmul_write_back_is_here(const struct mmul_stage *stage);

// Returns when the ranks of the node have computed all, or the run is cancelled.
void mmul_write_back(struct mmul_stage *stage);
