// SPDX-License-Identifier: MIT
//
// A stage of a run: one operation, with what it alone needs. A run has them in the order in which they are carried out;
// most of what they need of the run is shared (exec/conduct/run.h). What differs from kind to kind is a row of
// functions:
//
//     computing   (exec/tasks/computing.h) tasks, block by block. Of a product that has a schedule each operand
//                 and the result is in files of root's, or a value that is on the ranks already, or stays there
//     move        (exec/traffic/move.h) a value gets another placement (plan/parts/moves.h)
#pragma once

#include "comm/shared_window.h"
#include "exec/memory/progress.h"
#include "exec/memory/values.h"
#include "exec/memory/views.h"
#include "exec/steps/epilogue.h"
#include "exec/worker/verify.h"
#include "exec/worker/worker.h"
#include "plan/program/program_footprint.h"

struct mmul_site;
struct mmul_stage;
struct mmul_stage_kind;
struct mmul_product_stage; // exec/steps/product.h
struct mmul_works;         // exec/tasks/work.h
struct mmul_search;        // exec/steps/search.h

// Places of values (plan/lists/program_plan.h), by role; -1: in a file. spread: of a whole operand that comes in
// panels from the ranks that have rows of it.
struct mmul_stage_places {
    int split, whole, c, spread;
};

// What other nodes may compute of a stage (exec/tasks/lending.h): nothing; lines of files that root's node has mapped;
// lines of values, which move there and back.
enum mmul_lends { MMUL_LENDS_NOTHING, MMUL_LENDS_MAPPED, MMUL_LENDS_VALUES };

struct mmul_stage_request {
    const struct mmul_stage_kind *kind;
    const struct mmul_program_step *step;
    const struct mmul_schedule *schedule; // of a product that has one of its own; NULL
    struct mmul_product_files files;      // of such a product: root's
    struct mmul_stage_places places;      // the same
    const struct mmul_program_step *also; // move: another one that goes on beside it; NULL: none
    int index;                            // of the step in the plan
    int panels;    // move: in so many panels (1: whole); else: whose terms come so; 0
    int panels_of; // ... by this stage, a move; -1: none
    int due; // how many stages begin before it is over, but for the last of them; of a move before it has come
    bool is_early;  // move: others compute until then (plan/program/program_early.c)
    bool after_all; // all ranks of the node must have done their part of all stages before
};

// Asks for a counter of a node rank or of the traffic (exec/memory/progress.h): whether it has reached the goal, or
// until it has.
typedef bool mmul_reach(void *context, int rank, const _Atomic int64_t *counter, int64_t goal);

// Functions: NULL where a kind has nothing to do. Those of the compute thread are called for one stage after the other.
struct mmul_stage_kind {
    bool copies; // its work is copying: the report counts it so
    // Local; an agreement follows. Sizes, and memory of its own. Fails with MMUL_ERR_SYSTEM (memory).
    enum mmul_status (*init)(struct mmul_stage *stage, struct mmul_error *err);
    // Collective over world: files that are used where they lie.
    enum mmul_status (*open)(struct mmul_stage *stage, struct mmul_error *err);
    // Local, when its counters and the node's segment are there; an agreement follows.
    enum mmul_status (*prepare)(struct mmul_stage *stage, struct mmul_error *err);
    // Compute thread: its memory is free, and the values that it reads are complete.
    void (*begin)(struct mmul_stage *stage);
    // Compute thread: this rank's part of it, and whatever others have claimed of that. All of it again, or what was
    // at hand, when it is called again.
    enum mmul_status (*compute)(struct mmul_stage *stage, struct mmul_error *err);
    // Compute thread: its own part is done, and it waits for the stage to be over: what others have not begun of it.
    enum mmul_status (*help)(struct mmul_stage *stage, struct mmul_error *err);
    // Main thread: its device hangs, and may still write into what it was given.
    void (*abandon)(struct mmul_stage *stage);
    // Does nothing of it go on any more on this node? What was the first thing not reached ends it: false.
    bool (*is_over)(const struct mmul_stage *stage, mmul_reach *reach, void *context);
    // Of what comes by traffic alone: has all of it arrived?
    bool (*has_come)(const struct mmul_stage *stage, mmul_reach *reach, void *context);
    // Compute thread: its part of it is done, and it waits for all to arrive: is that right? Fails as a check does.
    enum mmul_status (*receive)(struct mmul_stage *stage, struct mmul_error *err);
    // Main thread: have all ranks of the node computed all of what leaves, has all of it left? For the report.
    bool (*note_computed)(struct mmul_stage *stage);
    bool (*has_left)(const struct mmul_stage *stage);
    // Compute thread, for numbers that cannot be: are the inputs what they were? Fails with MMUL_ERR_DATA.
    enum mmul_status (*look)(const struct mmul_stage *stage, struct mmul_error *err);
    // Local, when all is computed; an agreement follows. Was everything there that was read and written?
    enum mmul_status (*check)(const struct mmul_stage *stage, struct mmul_error *err);
    // Local.
    void (*fini)(struct mmul_stage *stage);
};

struct mmul_stage {
    struct mmul_site *site;                 // borrowed
    const struct mmul_stage *panels_from;   // borrowed: is.panels_of; NULL: none
    const struct mmul_comm *comm;           // borrowed: the site's
    const struct mmul_program_plan *plan;   // borrowed: that of its values
    const struct mmul_operation *operation; // borrowed: that of its step; NULL: it moves
    int index;
    struct mmul_stage_request is;       // what it was made from; borrowed pointers
    struct mmul_product_stage *product; // owned; NULL: it has no schedule
    struct mmul_works *works;   // owned, or the site's for now: its tasks; NULL: it has none yet
    struct mmul_search *search; // owned: of its tiles; NULL: it is none
    int64_t bytes;              // of memory in the run's segment
    char *memory;               // these: a part of it ...
    int memory_part;            // ... that many stages have in turn: this one
    struct mmul_stage_progress *progress; // in the run's segment
    struct mmul_worker_options work;      // of its products, without what is the run's
    struct mmul_verifier verifier;
    struct mmul_epilogue epilogue; // what is done to its result in the end
    struct mmul_sums sums;         // what its ranks add up (exec/steps/sums.h)
    enum mmul_lends lends;
    int memory_needs; // stages that must be over before its part of the memory is its own
    int node_needs;   // stages that all ranks of the node must have done their part of before it
    // Early moves that are due when the stage behind this one begins: the first; the next one of this one's; -1.
    int first_early, next_early;
    bool
        is_carried; // move: by the leaders, or by root's from or to a file; else ranks copy all of it
    bool is_begun; // by the compute thread
    // An operation that has looked for the largest or smallest elements of a row with NaN in it; NULL: none.
    const struct mmul_operation *_Atomic nan_in;
};

// Local; an agreement must follow. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_stage_init(struct mmul_stage *stage, struct mmul_site *site, int index,
                                 const struct mmul_stage_request *request, struct mmul_error *err);

// Local.
void mmul_stage_fini(struct mmul_stage *stage);

// Have all ranks of the node done their part of it?
bool mmul_stage_is_done(const struct mmul_stage *stage, mmul_reach *reach, void *context);

// Is nothing of a stage under way any more, and of early moves that are due when the one behind it begins? If it is
// such a move itself: have all ranks of the node done their part of it?
bool mmul_stage_is_behind(const struct mmul_stage *stages, int index, mmul_reach *reach,
                          void *context);

struct mmul_worker_options mmul_stage_worker_options(const struct mmul_stage *stage);

// How many stages, from the first on, must be there for a place to be complete; 0: it was there before.
int mmul_stage_maker(const struct mmul_stage *stage, int place);

// Has a rank anything to multiply? Where there is no plan for that the answer is this rank's.
bool mmul_stage_has_work(const struct mmul_stage *stage, int rank);
