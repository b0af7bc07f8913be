// SPDX-License-Identifier: MIT
//
// Stage of a run: one operation with its private state. A run has its stages in the order of
// execution, and they share most resources (exec/steps/rank_resources.h). Each kind is a row of
// functions:
//
// computing (exec/tasks/computing.h): tasks, block by block, on values in place.
// product (exec/tasks/computing.h): the same for a product with a schedule. Each operand and the
// result is in a file of root's, or is a value on the ranks. They travel while it computes.
// move (exec/traffic/move.h): a value gets another placement (plan/parts/moves.h).
#pragma once

#include "comm/shared_memory.h"
#include "exec/memory/mappings.h"
#include "exec/memory/progress.h"
#include "exec/memory/values.h"
#include "exec/steps/epilogue.h"
#include "exec/worker/verify.h"
#include "exec/worker/worker.h"
#include "plan/lists/tasks.h"
#include "plan/lists/transfers.h"
#include "plan/program/program_footprint.h"

struct mmul_rank_resources;
struct mmul_stage;
struct mmul_stage_kind;
struct mmul_product_stage; // exec/steps/product.h
struct mmul_works;         // exec/tasks/work.h
struct mmul_fused_topk;    // exec/steps/fused_topk.h
struct mmul_block_owner;   // exec/steps/block.h

// Places of values (plan/lists/program_plan.h) by role; -1: in a file. spread: of a whole operand
// that arrives in panels from the ranks that own its rows.
struct mmul_stage_places {
    int split, whole, c, spread;
};

// Parts of a stage that other nodes may compute (exec/tasks/node_steal.h): nothing, lines of files
// that root's node has mapped, or lines of values, which move there and back.
enum mmul_steal_scope { MMUL_STEAL_NOTHING, MMUL_STEAL_MAPPED, MMUL_STEAL_VALUES };

struct mmul_stage_request {
    const struct mmul_stage_kind *kind;
    const struct mmul_program_step *step;
    const struct mmul_program_step *also; // move: another move carried out beside it; NULL: none
    int index;                            // index of the step in the plan
    // move: number of panels (1: whole); else: panels of its terms, from a move; 0: none
    int panels;
    int panels_stage; // move stage that delivers these panels; -1: none
    int due;          // first stage that waits for this one: for its end, or the arrival of a move
    bool is_early;    // move: other stages compute meanwhile (plan/program/program_early_moves.c)
    // begins after all ranks of the node have done their part of all earlier stages
    bool waits_for_all;
};

// Tests or awaits a counter of a node rank or of the traffic (exec/memory/progress.h). Returns true
// if it has reached the goal.
typedef bool mmul_reach(void *context, int rank, const _Atomic int64_t *counter, int64_t goal);

// A need of a task before it begins: an input that has arrived, or room for its result.
enum { MMUL_NEEDS = 3, MMUL_NEEDS_SLOT = 2 }; // MMUL_NEEDS_SLOT: the need of a slot for C
struct mmul_need {
    const _Atomic int64_t *counter; // in the shared progress
    int64_t goal;                   // the need is met when the counter has this value
};

// Functions of a kind. NULL: nothing to do. The compute thread calls its functions for one stage
// after the other.
struct mmul_stage_kind {
    bool copies; // the report counts the work as copying
    // Other threads read the task lists of its ranks, with or without stealing.
    bool publishes_tasks;
    // Sets sizes and allocates memory. Local; an agreement follows. Fails with MMUL_ERR_SYSTEM
    // (memory).
    enum mmul_status (*init)(struct mmul_stage *stage, struct mmul_error *err);
    // Maps files that are used in place. Collective over world.
    enum mmul_status (*open)(struct mmul_stage *stage, struct mmul_error *err);
    // Prepares the stage once its counters and the node's segment exist. Local; an agreement
    // follows.
    enum mmul_status (*prepare)(struct mmul_stage *stage, struct mmul_error *err);
    // Returns true if a rank has anything to compute. The answer may be that of this rank.
    bool (*has_work)(const struct mmul_stage *stage, int rank);
    // Returns the tasks of a rank of this node.
    struct mmul_tasks (*list_tasks)(const struct mmul_stage *stage, int rank);
    // Lists the needs of a pass of this node, and returns their number.
    int (*list_needs)(const struct mmul_stage *stage, struct mmul_pass pass,
                      struct mmul_need needs[static MMUL_NEEDS]);
    // Finds the part of a rank of this node in a pass.
    struct mmul_block_owner (*find_part)(const struct mmul_stage *stage, int rank,
                                         struct mmul_pass pass);
    // Compute thread: drops device copies and check sums of memory that changes with this pass.
    void (*forget_buffers)(struct mmul_stage *stage, struct mmul_pass pass);
    // The traffic of the stage (exec/traffic/mover.h). Main thread of a leader.
    // list_transfers: returns the node's list of a route. source_wait_count: returns the number of
    // stages that all ranks of the node must have done before the bytes of a transfer may leave.
    // locate: returns the address of its bytes in the node's memory; NULL: they are elsewhere.
    // publish: publishes to the node's ranks what has arrived and left, from the counters.
    struct mmul_transfers (*list_transfers)(const struct mmul_stage *stage, int node,
                                            enum mmul_route route);
    int (*source_wait_count)(const struct mmul_stage *stage, const struct mmul_transfer *transfer);
    void *(*locate)(const struct mmul_stage *stage, const struct mmul_transfer *transfer);
    void (*publish)(const struct mmul_stage *stage, const int64_t *counters);
    // Compute thread: begins the stage. Its memory is free, and its operands are complete.
    void (*begin)(struct mmul_stage *stage);
    // Compute thread: computes this rank's part, and waits for lines of it that other ranks have
    // claimed. A repeated call computes all of it again, or the interrupted work.
    enum mmul_status (*compute)(struct mmul_stage *stage, struct mmul_error *err);
    // Compute thread: steals unstarted work of other ranks while it waits for the stage to end.
    // This rank's part is done.
    enum mmul_status (*help)(struct mmul_stage *stage, struct mmul_error *err);
    // Main thread: gives up memory that a hanging device may still write to.
    void (*abandon)(struct mmul_stage *stage);
    // Returns true if the stage has ended on this node. Returns false at the first counter that
    // `reach` reports as not reached.
    bool (*is_over)(const struct mmul_stage *stage, mmul_reach *reach, void *context);
    // Returns true if all incoming traffic has arrived, for stages with results from traffic alone.
    bool (*has_come)(const struct mmul_stage *stage, mmul_reach *reach, void *context);
    // Compute thread: checks the data that arrived, after this rank's part is done. Waits for all
    // of it. Fails as a check does.
    enum mmul_status (*receive)(struct mmul_stage *stage, struct mmul_error *err);
    // Main thread, for the report. note_computed: returns true if all ranks of the node have
    // computed their outgoing results. has_left: returns true if all of these have left.
    bool (*note_computed)(struct mmul_stage *stage);
    bool (*has_left)(const struct mmul_stage *stage);
    // Compute thread, for impossible results: checks that the inputs are unchanged. Fails with
    // MMUL_ERR_DATA.
    enum mmul_status (*look)(const struct mmul_stage *stage, struct mmul_error *err);
    // Checks that files were complete while they were read and written. Local, when all is
    // computed; an agreement follows.
    enum mmul_status (*check)(const struct mmul_stage *stage, struct mmul_error *err);
    // Local.
    void (*fini)(struct mmul_stage *stage);
};

struct mmul_stage {
    struct mmul_rank_resources *rank_resources; // borrowed
    const struct mmul_stage *panels_from;       // borrowed: stage is.panels_stage; NULL: none
    const struct mmul_comm *comm;               // borrowed: of rank_resources
    const struct mmul_program_plan *plan;       // borrowed: that of its values
    const struct mmul_operation *operation;     // borrowed: that of its step; NULL: a move
    int index;
    enum mmul_axis axis;                  // lines of its tasks are rows or columns of the result
    struct mmul_stage_request is;         // request it was made from; borrowed pointers
    const struct mmul_schedule *schedule; // borrowed: of kind product, like the next three
    struct mmul_product_files files;      // root's
    struct mmul_stage_places places;
    struct mmul_product_stage *product; // owned: its state
    int64_t passes;                     // passes of its task lists
    int64_t lines_most;                 // most lines of this rank in a block
    struct mmul_works *works; // tasks: owned, or those of rank_resources for now; NULL: none yet
    struct mmul_fused_topk *search;       // owned: state of its tiles; NULL: not a search
    int64_t bytes;                        // size of `memory`
    char *memory;                         // part of the segment that stages use in turn
    struct mmul_stage_progress *progress; // in the run's segment
    struct mmul_worker_options work;      // options for its products, without those of the run
    struct mmul_verifier verifier;
    struct mmul_epilogue epilogue; // fused operations on its result
    struct mmul_sums sums;         // vectors that its ranks sum (exec/steps/sums.h)
    enum mmul_steal_scope steal_scope;
    int memory_part;       // number of the part of the segment that `memory` is
    int memory_wait_count; // number of stages that must be over before it may use `memory`
    // the node's ranks must have done their part of this number of stages before it begins
    int node_wait_count;
    // Early moves that are due when the next stage begins: the first of them, and the one after
    // this. -1: none.
    int first_early, next_early;
    // move: by the leaders, or by root from or to a file; else the ranks copy all of it
    bool is_carried;
    bool is_begun;  // by the compute thread
    bool may_steal; // blocks are cut into stealable tasks
    bool claims;    // several ranks of the node have work that may be stolen
    // root: finished rows are handed to the disk (exec/tasks/write_back.h)
    bool writes_back;
    bool has_mapped_result; // this node computes into a mapped file
    bool has_unknown_speed; // no speed was measured, so predicted seconds are only assumed
    // Results reuse memory, and the check may have projected its former contents.
    bool reuses_results;
    // Operation that searched a row with a NaN for its largest or smallest elements. NULL: none.
    const struct mmul_operation *_Atomic nan_operation;
};

// Local; an agreement must follow. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_stage_init(struct mmul_stage *stage,
                                 struct mmul_rank_resources *rank_resources, int index,
                                 const struct mmul_stage_request *request, struct mmul_error *err);

// Local.
void mmul_stage_fini(struct mmul_stage *stage);

// Returns true if all ranks of the node have done their part of the stage.
bool mmul_stage_is_done(const struct mmul_stage *stage, mmul_reach *reach, void *context);

// Returns true if the stage has ended, and so have the early moves that are due when the next stage
// begins. For an early move: returns true if all ranks of the node have done their part of it.
bool mmul_stage_has_ended(const struct mmul_stage *stages, int index, mmul_reach *reach,
                          void *context);

struct mmul_worker_options mmul_stage_worker_options(const struct mmul_stage *stage);

// Returns the number of stages, from the first on, that must be done before a place is complete. 0:
// the place was complete before the run.
int mmul_stage_producer(const struct mmul_stage *stage, int place);

// Returns true if a rank has anything to compute. The answer may be that of this rank.
bool mmul_stage_has_work(const struct mmul_stage *stage, int rank);
