// SPDX-License-Identifier: MIT
//
// The plan of a program: its steps, the places of its values, and figures predicted for both.
// program_make.h makes it.
#pragma once

#include "model/job_options.h"
#include "plan/cost/program_cost.h"
#include "plan/lists/schedule.h"
#include "plan/parts/moves.h"

// A place is one copy of a value: as it was made, or as a move left it.
struct mmul_program_place {
    int value;
    struct mmul_placement placement;
    int view_of;                 // place whose memory this place shares; -1: its own
    bool transposed;             // shows view_of transposed
    bool reshaped;               // shows the elements of view_of in order, with other sizes
    int operation;               // operation that made the place (file: load or save)
    bool is_elided;              // never materialised: the steps around the place pass it by
    bool stays;                  // memory is not reused: no step reads the place, or it is kept
    int first_stage, last_stage; // first and last stage with the place in memory
    int kept;                    // set of shards of the program that is its memory; -1: none
    // With is_elided: the tile, from 1 on, that a fused operation fills for other fused operations
    // of its step. They use tiles in turn. 0: the place is in no tile either.
    int tile;
};

// A fused operation is done part by part, after those before it in its step, on their results. A
// result that only its own step reads exists in a tile alone.
struct mmul_program_fused {
    int operation;
    int operands[MMUL_OPERANDS]; // places; -1: none, or a number
    bool within[MMUL_OPERANDS];  // the step makes the operand, before this operation
    int result;                  // place; for the last fused operation the step's result
};

// A product is split by rows or columns, and has a schedule once it is made. Any other operation is
// computed. A new kind is a row of the tables in plan/program/program_footprint.c and
// exec/job/program_run.c. A finished plan has no MMUL_STEP_REMOVED.
enum mmul_program_step_kind {
    MMUL_STEP_MOVE,
    MMUL_STEP_COMPUTE,
    MMUL_STEP_UNSCHEDULED,
    MMUL_STEP_PRODUCT,
    MMUL_STEP_REMOVED
};

// Steps are carried out in order.
struct mmul_program_step {
    enum mmul_program_step_kind kind;
    int operation;               // operation that is computed, or that needs the move
    int operands[MMUL_OPERANDS]; // places; -1: none, or a number; a move uses the first
    int result;                  // place
    // Fused operations of the step: `fused_count` from plan->fused[first_fused] on. `made` is the
    // place of the result of `operation` itself: in the step's memory, or in its own memory if
    // other steps read it. `made` is `result` if there are no fused operations, or if `operation`
    // is the first of them.
    int first_fused, fused_count, made;
    int tile_count;       // number of tiles that the fused operations use in turn
    bool by_rows;         // fused operations work on rows, counted over all matrices
    double fused_seconds; // predicted part of `seconds`
    bool joined;          // the step is a move, carried out in panels with its product
    // Steps of the moves joined with this product, in order.
    int joined_moves[MMUL_FACTORS], joined_count;
    int stage; // stage of the run that carries out the step
    // For a move: the first stage that waits for its arrival. If the move is not early, that is the
    // next stage. The move is over when the stage after that begins.
    int due;
    // Product without a schedule: share of a rank's rows, cut into tasks that other ranks of the
    // node may steal.
    double claim_share;
    double seconds; // predicted; 0 for joined moves: their product's seconds include them
    // Predicted part of `seconds` that a product with traffic takes without it.
    double compute_seconds;
    double network_bytes; // sum over the whole network
    // A product: its axis; the offsets of its parts (borrowed; NULL: its result is not kept in
    // memory, and its schedule chooses them); its schedule (owned, or the schedule of an equal
    // product before). Its operands and result may be in files (MMUL_PLACE_FILE), which it reads
    // and writes itself. relays_whole: its whole operand is split by rows, and ranks relay their
    // rows.
    bool relays_whole;
    bool transposed_factors[MMUL_FACTORS]; // the file has this operand transposed
    enum mmul_axis axis;
    const int64_t *offsets;
    struct mmul_schedule *schedule;
    const struct mmul_program_step *same; // step that owns the schedule; NULL: this step
};

struct mmul_program_offsets; // offsets of one range

// Properties of a rank: names for tables, its device, the host memory that the device needs.
struct mmul_program_rank {
    char host[64], device[64];
    bool host_memory;     // the device works in host memory
    bool copies_on_host;  // the device is a CPU through OpenCL, which copies its operands
    bool is_sampled;      // results of the device are checked by samples
    int64_t device_bytes; // bytes of device memory that the rank may use
    int tile_threads;     // threads, each with its own tiles
    // Bytes per thread: of all tiles that the fused operations of a step use if the device works in
    // host memory, else of one tile.
    int64_t fused_tile_bytes;
};

// The plan of one product in the public interface: its schedule, and the program plan that has it
// in a step.
struct mmul_plan {
    const struct mmul_schedule *schedule;
    struct mmul_program_plan *job; // contains this struct; NULL: a simulation
};

struct mmul_program_plan {
    const struct mmul_program *program; // borrowed
    struct mmul_program *owned;         // program, if the plan owns it; may be NULL
    struct mmul_job_options options;
    struct mmul_job_calls calls;     // calls of this rank
    struct mmul_program_costs costs; // nodes of the ranks, and shares
    // Owned: costs of the program's groups of ranks, by group (model/rank_groups.h). The first
    // entries belong to no group.
    struct mmul_program_costs *rank_group_costs;
    int rank_group_count;              // entries of rank_group_costs
    double *weights;                   // owned, per rank: weights that the shares were made from
    struct mmul_program_place *places; // owned
    struct mmul_program_step *steps;   // owned
    struct mmul_program_fused *fused;  // owned
    int *products;                     // owned, in order: the steps that are products
    int place_count, step_count, fused_count, product_count;
    struct mmul_program_offsets *ranges; // owned list; placements borrow from it
    double seconds, network_bytes;
    int64_t *offsets;    // owned, [place * nodes + node]: begin of the place's memory; -1: none
    int64_t *node_bytes; // owned, per node: bytes of the values
    // Owned, per node: bytes of the shards to be kept, which are in no segment.
    int64_t *shard_bytes;
    int64_t node_bytes_most; // node_bytes + shard_bytes of the node with the largest sum
    // Owned: memory of a run beside the values (plan/program/program_footprint.h): segment bytes
    // per node, private bytes per rank. 0 before mmul_program_fit_footprint.
    int64_t *segment_bytes, *rank_private_bytes;
    // Smallest limit of a node, all its processes included, after a refusal; 0: not known.
    int64_t needed_bytes;
    bool moves_early;                // moves across the network run while later steps compute
    bool caches_no_sums;             // no room for sums of values that several products read
    bool steals_nothing;             // no room for work stealing between nodes
    int *multiplied;                 // owned, per place: number of products that read its memory
    int shared_operand_count;        // places that several products read
    struct mmul_program_rank *ranks; // owned
    // Owned by root: busy seconds of the ranks in `runs` runs of `run_seconds` seconds since shares
    // were last adjusted. has_free_shares: the user gave no weights (exec/job/rebalance.h).
    double *busy_seconds, run_seconds;
    int runs;
    bool has_free_shares;
    // The plan is cached for equal programs (exec/job/plan_cache.h); a program uses it now; it was
    // made for an earlier program.
    bool is_kept, is_used, is_repeated;
    bool is_on_root;          // root alone runs it, and the other ranks have no plan
    struct mmul_plan product; // for a program that is one product from files to a file
};

// Returns the operation of a step.
static inline const struct mmul_operation *mmul_step_operation(
    const struct mmul_program_plan *plan, const struct mmul_program_step *step) {
    return &plan->program->operations[step->operation];
}

// Returns the operation of fused operation i of a step.
static inline const struct mmul_operation *mmul_step_fused_operation(
    const struct mmul_program_plan *plan, const struct mmul_program_step *step, int i) {
    return &plan->program->operations[plan->fused[step->first_fused + i].operation];
}

// Returns the value of a place.
static inline const struct mmul_value *mmul_place_value(const struct mmul_program_plan *plan,
                                                        int place) {
    return &plan->program->values[plan->places[place].value];
}

// Returns true if a place is in a file. False for -1.
static inline bool mmul_place_is_file(const struct mmul_program_plan *plan, int place) {
    return place >= 0 && plan->places[place].placement.kind == MMUL_PLACE_FILE;
}

// Returns the move of a step of kind MMUL_STEP_MOVE.
struct mmul_move mmul_program_step_move(const struct mmul_program_plan *plan,
                                        const struct mmul_program_step *step);

// Returns the costs of a group, and of the group that carries out a step's operation.
const struct mmul_program_costs *mmul_program_costs_of(const struct mmul_program_plan *plan,
                                                       int rank_group);
const struct mmul_program_costs *mmul_program_step_costs(const struct mmul_program_plan *plan,
                                                         const struct mmul_program_step *step);

// Sums the seconds and bytes of the steps into the plan.
void mmul_program_plan_sum_costs(struct mmul_program_plan *plan);

// Returns the place whose memory a place shares, or the place itself.
int mmul_program_base_place(const struct mmul_program_plan *plan, int place);

// Returns true if a view between the place and its memory is transposed.
bool mmul_program_is_read_transposed(const struct mmul_program_plan *plan, int place);

// Returns the number of ranks of a node, and writes its first rank to `leader`.
int mmul_program_node_ranks(const struct mmul_program_plan *plan, int node, int *leader);

// Returns true if a place has memory in the node's segment. False for places in files or shards,
// for views, and for places that are gone.
bool mmul_program_place_has_memory(const struct mmul_program_place *place);

// Returns true if a step may be in flight while later steps compute: an unjoined move between
// nodes, to a placement in memory that is not partial.
bool mmul_program_is_early(const struct mmul_program_plan *plan,
                           const struct mmul_program_step *step);

// Writes the moves joined with the product of step `index`, in order, and returns their number.
int mmul_program_joined_moves(const struct mmul_program_plan *plan, int index,
                              const struct mmul_program_step *moves[MMUL_FACTORS]);

// Returns the panel of the inner range, of `panels`, with which a node begins.
int mmul_program_plan_first_panel(const struct mmul_program_plan *plan, int node, int panels);

// Returns the bytes of a place for a rank's part, or (replicate) on a node; a multiple of 64.
#define MMUL_PLACE_ALIGN(bytes) (((bytes) + 63) / 64 * 64)
int64_t mmul_program_place_bytes(const struct mmul_program_plan *plan,
                                 const struct mmul_program_place *place, int rank);

// Returns the first place in memory of a value that was loaded or computed; -1: none.
int mmul_program_first_place(const struct mmul_program_plan *plan, int value);

// Return the operands of a step: its own, then those of its fused operations. The count is an upper
// bound; an entry is a place, or -1.
int mmul_program_operand_count(const struct mmul_program_step *step);
int mmul_program_step_operand(const struct mmul_program_plan *plan,
                              const struct mmul_program_step *step, int index);

// Return the results that a step leaves in memory or in a file: its own first, then others. The
// count is an upper bound; an entry is a place, or -1.
int mmul_program_result_count(const struct mmul_program_step *step);
int mmul_program_step_result(const struct mmul_program_plan *plan,
                             const struct mmul_program_step *step, int index);

// Returns true if the step's own operation is the first of its fused operations.
bool mmul_program_head_is_fused(const struct mmul_program_plan *plan,
                                const struct mmul_program_step *step);

// Returns true if the last fused operation reads the memory that its result will occupy.
bool mmul_program_needs_result_tile(const struct mmul_program_plan *plan,
                                    const struct mmul_program_step *step);

// Writes the name of a step, such as "matmul + add + gelu" or "move". Returns `text`.
enum { MMUL_STEP_NAME_BYTES = 160 };
char *mmul_program_step_name(const struct mmul_program_plan *plan,
                             const struct mmul_program_step *step,
                             char text[static MMUL_STEP_NAME_BYTES]);
