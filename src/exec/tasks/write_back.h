// SPDX-License-Identifier: MIT
//
// The write-back: while ranks of root's node compute into the mapped output, root's third thread
// starts the write of finished rows to the disk. Little is then left when the commit waits for the
// disk. Blocks of C that are many times larger than the operands are computed in slices for that.
//
// Applies only if C's rows are split, so that a slice is contiguous in the file. The file must be
// on a disk, and the commit must be going to wait for it. The calls are hints: a failed write shows
// up in the commit.
#pragma once

#include "exec/steps/stage.h"
#include "plan/lists/tasks.h"

// Returns the rows of a slice, which is multiplied, checked and written back as a whole. A block is
// sliced only if it has at least two slices. 0: slices are not worth their cost. Local.
int64_t mmul_write_back_slice_rows(const struct mmul_stage *stage);

// Returns the lines of a task, so that finished lines can be recorded at the interval of the
// journal. 0: no journal, or one task is short enough. Local, the same on all ranks of a node.
int64_t mmul_journal_task_lines(const struct mmul_stage *stage);

// Returns true if finished rows are written back while others are computed. Local, the same on all
// ranks of a node.
bool mmul_write_back_is_enabled(const struct mmul_stage *stage);

// Publishes that this rank's rows are complete up to the end of this block. Ignored unless the task
// spans the whole width. Local.
void mmul_write_back_publish_rows(struct mmul_stage *stage, const struct mmul_task *task,
                                  struct mmul_region block);

// Publishes that the whole block of a rank of the node is complete. Local.
void mmul_write_back_publish_all(struct mmul_stage *stage, int node_rank);

// Returns true if this rank writes back, which needs a C of at least one slice. mmul_write_back_run
// then runs on a thread of its own.
bool mmul_write_back_runs_here(const struct mmul_stage *stage);

// Returns when the ranks of the node have computed all, or the run is cancelled.
void mmul_write_back_run(struct mmul_stage *stage);
