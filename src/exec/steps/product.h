// SPDX-License-Identifier: MIT
//
// State of a stage with a product that has a schedule. Its operands and result are in root's files,
// or are values. They arrive in pieces and panels while it computes, and its blocks leave
// (exec/traffic/mover.h). For any other stage these functions do nothing.
#pragma once

#include "exec/memory/layout.h"
#include "exec/memory/mappings.h"
#include "exec/steps/block.h"
#include "exec/steps/stage.h"
#include "plan/lists/schedule.h"

// First stored elements of matrices that the ranks of this node use in place. NULL: not mapped
// here.
struct mmul_mapped_matrices {
    const char *split, *whole, *c_in;
    char *c;
};

// Lines of another node's block of a pass, in a part of its width. A rank of root's node has stolen
// them and computes them into the mapped file (exec/tasks/node_steal.h). Data that the other node
// sends for them is ignored.
struct mmul_stolen_block_lines {
    int rank;     // owner of the block
    int64_t pass; // index of the pass
    struct mmul_range lines, width;
};

struct mmul_product_stage {
    const struct mmul_schedule_rank *me; // entry in the schedule
    struct mmul_layout layout;           // layout of lanes and slots
    struct mmul_mappings views;
    struct mmul_mapped_matrices mapped; // pointers of `views` by role
    int64_t mapped_bytes;               // root: bytes of C in its mapped file counted so far
    int64_t pieces_round;               // round of the pieces being multiplied
    int64_t bytes_read;                 // root: bytes of its files, as stored
    int64_t done_bytes, result_bytes;   // bytes of C as float32: finished so far, and in total
    // Borrowed: streams of the result do not write these lines.
    const struct mmul_stolen_block_lines *lent;
    int lent_count;
    // stages that ranks must finish before their rows of the spread operand leave
    int spread_wait_count;
};

// Returns the files that a product reads and writes itself.
struct mmul_product_files mmul_program_step_files(const struct mmul_program_plan *plan,
                                                  const struct mmul_program_step *step);

// Implement functions of a stage's kind (exec/steps/stage.h), and fail as described there.
enum mmul_status mmul_product_init(struct mmul_stage *stage, struct mmul_error *err);
enum mmul_status mmul_product_map_files(struct mmul_stage *stage, struct mmul_error *err);
enum mmul_status mmul_product_check_inputs(const struct mmul_stage *stage, struct mmul_error *err);
enum mmul_status mmul_product_check_files(const struct mmul_stage *stage, struct mmul_error *err);
void mmul_product_fini(struct mmul_stage *stage);
bool mmul_product_has_work(const struct mmul_stage *stage, int rank);
int mmul_product_list_needs(const struct mmul_stage *stage, struct mmul_pass pass,
                            struct mmul_need needs[static MMUL_NEEDS]);
struct mmul_block_owner mmul_product_find_part(const struct mmul_stage *stage, int rank,
                                               struct mmul_pass pass);
void mmul_product_forget_buffers(struct mmul_stage *stage, struct mmul_pass pass);
struct mmul_transfers mmul_product_list_transfers(const struct mmul_stage *stage, int node,
                                                  enum mmul_route route);
int mmul_product_source_wait_count(const struct mmul_stage *stage,
                                   const struct mmul_transfer *transfer);
void *mmul_product_locate(const struct mmul_stage *stage, const struct mmul_transfer *transfer);
void mmul_product_publish(const struct mmul_stage *stage, const int64_t *counters);

// Counts the finished elements of C in the mapped file. For root, if its node computes into that
// file.
void mmul_product_count_mapped_bytes(struct mmul_stage *stage);
