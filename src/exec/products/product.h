// SPDX-License-Identifier: MIT
//
// A stage that is a product with a plan of its own: its operands and result are in files of root's, or values; they
// come in pieces and panels while it computes, and its blocks leave (exec/traffic/mover.h). This rank computes its own
// tasks, then what it can claim (exec/products/work.h).
#pragma once

#include "exec/memory/layout.h"
#include "exec/memory/streams.h"
#include "exec/memory/views.h"
#include "exec/products/work.h"
#include "exec/steps/stage.h"
#include "plan/lists/plan.h"

// Matrices that the ranks of this node use where they lie: their first stored element; NULL: not
// so here.
struct mmul_mapped {
    const char *split, *whole, *c_in;
    char *c;
};

struct mmul_product_stage {
    const struct mmul_plan_rank *me; // of the plan
    struct mmul_layout layout;       // of its lanes and slots
    struct mmul_views views;
    struct mmul_mapped mapped; // the same, by role
    struct mmul_files files;   // root's
    int64_t mapped_bytes;      // root: of C in its mapped file, counted so far
    struct mmul_works works;   // the compute thread's
    int64_t lines_most;        // of a task, at most: what the verifier has room for
    int64_t pieces_round;      // whose pieces are being multiplied
    int spread_needs; // stages that they must have done before their rows of the spread operand leave
};

extern const struct mmul_stage_kind mmul_product_kind;
