// SPDX-License-Identifier: MIT
//
// What a stage has whose step is a product with a schedule: its operands and result are in files of root's, or
// values; they come in pieces and panels while it computes, and its blocks leave (exec/traffic/mover.h). Of any other
// stage these functions do nothing.
#pragma once

#include "exec/memory/layout.h"
#include "exec/memory/views.h"
#include "exec/steps/stage.h"
#include "plan/lists/schedule.h"

// Matrices that the ranks of this node use where they lie: their first stored element; NULL: not
// so here.
struct mmul_mapped {
    const char *split, *whole, *c_in;
    char *c;
};

// Lines of another node's block of a pass, in a part of its width, which a rank of root's node computes into the
// mapped file (exec/tasks/lending.h): what comes for them from there means nothing.
struct mmul_lent {
    int rank;     // whose block
    int64_t pass; // its index
    struct mmul_range lines, width;
};

// Root's files; counts what went through.
struct mmul_files {
    struct mmul_matrix *split, *whole, *c_in; // borrowed
    struct mmul_output *output;               // borrowed
    int spread;                               // the value that the whole operand is; -1: `whole`
    int64_t bytes_read;                       // as stored
    int64_t done_bytes, result_bytes;         // of C as float32: what there is already, all of it
    const struct mmul_lent *lent;             // borrowed; the result's streams do not write them
    int lent_count;
};

struct mmul_product_stage {
    const struct mmul_schedule_rank *me; // of the plan
    struct mmul_layout layout;           // of its lanes and slots
    struct mmul_views views;
    struct mmul_mapped mapped; // the same, by role
    struct mmul_files files;   // root's
    int64_t mapped_bytes;      // root: of C in its mapped file, counted so far
    int64_t pieces_round;      // whose pieces are being multiplied
    int spread_needs; // stages that they must have done before their rows of the spread operand leave
};

// For functions of a kind of stages (exec/steps/stage.h), which fail alike.
enum mmul_status mmul_product_init(struct mmul_stage *stage, struct mmul_error *err);
enum mmul_status mmul_product_open(struct mmul_stage *stage, struct mmul_error *err);
enum mmul_status mmul_product_look(const struct mmul_stage *stage, struct mmul_error *err);
enum mmul_status mmul_product_check(const struct mmul_stage *stage, struct mmul_error *err);
void mmul_product_fini(struct mmul_stage *stage);

// Root, whose node computes into the mapped file: what there is of that is counted.
void mmul_product_count_mapped(struct mmul_stage *stage);

// Buffers of the stage may hold other numbers than when they were last looked at.
void mmul_product_forget_buffers(struct mmul_stage *stage, struct mmul_pass pass);
