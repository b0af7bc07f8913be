// SPDX-License-Identifier: MIT
//
// A stage of a run: one operation, with what it alone needs. A run has them in the order in which they
// are carried out; most of what they need of the run is shared (exec/run.h).
//
//     product   a plan of its own: tasks and transfers. Each of its operands and its result is in files
//               of root's, or a value that is on the ranks already, or stays there
//     blocks    everything else that is computed: each rank makes its blocks of the result from what is
//               there (elements, sums of products)
//     move      a value gets another placement (plan/moves.h)
#pragma once

#include "comm/shared_window.h"
#include "exec/chain.h"
#include "exec/layout.h"
#include "exec/progress.h"
#include "exec/search.h"
#include "exec/streams.h"
#include "exec/values.h"
#include "exec/verify.h"
#include "exec/views.h"
#include "exec/work.h"
#include "exec/worker.h"
#include "plan/plan.h"
#include "plan/program_rooms.h"

enum mmul_stage_kind { MMUL_STAGE_PRODUCT, MMUL_STAGE_BLOCKS, MMUL_STAGE_MOVE };

// Places of values (plan/program_plan.h), by role; -1: in a file. spread: of a whole operand that comes in
// panels from the ranks that have rows of it.
struct mmul_stage_places {
    int split, whole, c, spread;
};

struct mmul_stage_request {
    enum mmul_stage_kind kind;
    const struct mmul_plan *plan;         // product
    const struct mmul_matmul *args;       // product: its files; NULL where a value is there instead
    struct mmul_stage_places places;      // product
    const struct mmul_program_step *step; // blocks, move
    const struct mmul_program_step
        *group; // blocks, product: its step where that has links; NULL: it has none
    const struct mmul_program_step *also; // move: another one that goes on beside it; NULL: none
    int index;                            // of blocks, moves and products: of the step in the plan
    int panels; // move: in so many panels (1: whole); blocks: whose terms come so from the stage before; 0
};

// Matrices that the ranks of this node use where they lie: their first stored element; NULL: not
// so here.
struct mmul_mapped {
    const char *split, *whole, *c_in;
    char *c;
};

struct mmul_run;

struct mmul_stage {
    struct mmul_run *run; // borrowed
    int index;
    struct mmul_stage_request is;         // what it was made from; borrowed pointers
    const struct mmul_plan *plan;         // the same; NULL: not a product
    const struct mmul_plan_rank *me;      // of the plan
    const struct mmul_matmul *args;       // the same
    struct mmul_layout layout;            // of its lanes and slots
    char *memory;                         // of these, in the run's segment: a part of it ...
    int memory_part;                      // ... that many stages have in turn: this one
    struct mmul_stage_progress *progress; // in the run's segment
    struct mmul_views views;
    struct mmul_mapped mapped; // the same, by role
    struct mmul_files files;   // root's
    int64_t mapped_bytes;      // root: of C in its mapped file, counted so far
    struct mmul_tile tile;     // of its products; m = 0: there are none
    int64_t kept_bytes;        // ... then, on a device with memory of its own: for values
    struct mmul_verifier verifier;
    struct mmul_chain chain;   // what is done to its result in the end
    struct mmul_search search; // of its tiles
    struct mmul_sums sums;     // what its ranks add up (exec/sums.h)
    struct mmul_works works;   // the compute thread's
    int64_t lines_most;        // of a task, at most: what the verifier has room for
    int64_t pieces_round;      // whose pieces are being multiplied
    int memory_needs;          // stages that must be over before its part of the memory is its own
    int spread_needs; // stages that they must have done before their rows of the spread operand leave
    int node_needs;   // stages that all ranks of the node must have done their part of before it
    bool is_begun;    // by the compute thread
};

// Local; an agreement must follow. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_stage_init(struct mmul_stage *stage, struct mmul_run *run, int index,
                                 const struct mmul_stage_request *request, struct mmul_error *err);

// What checks the stage's products, in the run's room. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_stage_create_verifier(struct mmul_stage *stage,
                                            const struct mmul_check_need *need, uint64_t seed,
                                            struct mmul_error *err);

// Collective over world: files that are used where they lie.
enum mmul_status mmul_stage_open_views(struct mmul_stage *stage, struct mmul_error *err);

// Local.
void mmul_stage_fini(struct mmul_stage *stage);

struct mmul_worker_options mmul_stage_worker_options(const struct mmul_stage *stage);

// The place that it makes; -1: none.
int mmul_stage_result(const struct mmul_stage *stage);
