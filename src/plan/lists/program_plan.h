// SPDX-License-Identifier: MIT
//
// The plan of a program: steps, the places of its values, and what is known of both. program_make.h makes it.
#pragma once

#include "model/job_options.h"
#include "plan/cost/program_cost.h"
#include "plan/lists/schedule.h"
#include "plan/parts/moves.h"

// A value where it was made, or where it was moved to.
struct mmul_program_place {
    int value;
    struct mmul_placement placement;
    int view_of;     // a place whose memory it shares; -1: its own
    bool transposed; // of view_of
    bool reshaped;   // of view_of: the same elements in the same order, in other sizes
    int operation;   // that made it (file: load or save)
    bool is_gone;    // what brings it, or takes it away, passes it by: nobody has it
    bool stays;      // its memory is its own to the end: no step reads it, or it is to be kept
    int first_stage, last_stage; // that have it in memory
    int kept; // its memory is that of a set of shards, of the program's; -1: it is not
    // is_gone: a fused operation makes it for others of its step, in that one of the tiles that these have in turn,
    // from 1 on; 0: it is not there either.
    int tile;
};

// An operation that is done part by part, with those before it in its step, to what these have made. What nobody else
// reads is no value that anybody has, but in a tile.
struct mmul_program_fused {
    int operation;
    int operands[MMUL_OPERANDS]; // places; -1: none, or a number
    bool within[MMUL_OPERANDS];  // the step makes it, before this operation
    int result;                  // a place; of the last one the step's
};

enum mmul_program_step_kind { MMUL_STEP_MOVE, MMUL_STEP_COMPUTE, MMUL_STEP_GONE };

// Steps are carried out in order; none of them is gone when the plan is made.
struct mmul_program_step {
    enum mmul_program_step_kind kind;
    int operation;               // what is computed, or what the move is for
    int operands[MMUL_OPERANDS]; // places, -1: none, or a number; of a move the first
    int result;                  // a place
    // What is done to that, in the end: fused operations of the plan's from `first_fused` on. `made`: where `operation`
    // leaves its result: the memory of the step's, or, where others read it, too, its own; of no fused operations, and
    // of operations that are a fused operation themselves, the result.
    int first_fused, fused_count, made;
    int tile_count; // that fused operations have in turn
    bool by_rows;   // fused operations have to do with rows of all matrices, one after the other
    double fused_seconds; // predicted, of `seconds`
    bool joined;          // a move, carried out with the product it is for, in panels
    int joined_moves[MMUL_FACTORS], joined_count; // of such a product: their steps, in order
    int stage;                                    // of the run that carries it out
    // Of a move: the first stage that waits until it has come; behind the next one where it is not early. It is over
    // when the stage after that begins.
    int due;
    // Of what a rank makes in it, in tasks that others on the node may claim; where there is a schedule that says so.
    double claim_share;
    double seconds;       // predicted; of joined moves 0: those of their product are all
    double network_bytes; // over all of the network
    // Of a product that is split by rows or columns: which, and its parts (borrowed; NULL: nothing of it stays, they
    // are its schedule's choice); then its schedule (owned, or that of an equal product before). Operands and result
    // may be in files (MMUL_PLACE_FILE): it brings them itself. spreads: its whole operand is in rows, and is relayed
    // from the ranks.
    bool is_product, spreads;
    bool turned[MMUL_FACTORS]; // of an operand in a file: it is the other way round there
    enum mmul_axis axis;
    const int64_t *offsets;
    struct mmul_schedule *schedule;
    const struct mmul_program_step *same; // whose schedule that is; NULL: its own
};

struct mmul_program_offsets; // offsets of one range

// What tables say of a rank, what it has of its device and what that needs of host memory.
struct mmul_program_rank {
    char host[64], device[64];
    bool host_memory;     // its device works there
    bool copies_on_host;  // its device, a CPU through OpenCL, copies what it works on
    bool is_sampled;      // what its device makes is looked at by samples
    int64_t device_bytes; // of its memory that the rank may use
    int tile_threads;     // each of which has tiles of its own
    // Of one thread's: in host memory of all tiles that the fused operations of a step have to do with, else of one.
    int64_t fused_tile_bytes;
};

struct mmul_program_plan {
    const struct mmul_program *program; // borrowed
    struct mmul_program *owned;         // the same, where the plan owns it; may be NULL
    struct mmul_job_options options;
    struct mmul_job_calls calls;     // this rank's
    struct mmul_program_costs costs; // who is where, and shares
    // Owned: those of the program's teams, by team (model/teams.h); the first ones are of none.
    struct mmul_program_costs *team_costs;
    int team_count;                    // of these
    double *weights;                   // owned, of the ranks: those that the shares were made from
    struct mmul_program_place *places; // owned
    struct mmul_program_step *steps;   // owned
    struct mmul_program_fused *fused;  // owned
    int place_count, step_count, fused_count;
    struct mmul_program_offsets *ranges; // owned list: what placements borrow
    double seconds, network_bytes;
    int64_t *offsets;     // owned: place * nodes + node: where its memory is among these; -1: none
    int64_t *node_bytes;  // owned: memory of the values on every node ...
    int64_t *shard_bytes; // owned: ... and of the shards that it is to keep, which no segment has
    int64_t node_bytes_most; // memory of both on the node that has most of it
    // Owned: what a run has beside them (plan/program/program_footprint.h), of the segment of every node, and of every
    // rank's own; 0 before mmul_program_fit_footprint.
    int64_t *segment_bytes, *own_bytes;
    int64_t
        needed_bytes; // of a node, all its processes included, at least, where that is refused; 0: not known
    bool moves_early;     // what crosses the network does so while later steps compute
    bool saves_no_sums;   // of values that several products read: there is no room for them
    bool lends_nothing;   // to other nodes, the same
    int *multiplied;      // owned, per place: products that read its memory
    int read_again_count; // places that several products read
    struct mmul_program_rank *ranks; // owned
    // Owned, root's: seconds that the ranks were busy, in so many runs of so many seconds since shares were looked at;
    // nobody has given weights (exec/job/rebalance.h).
    double *busy_seconds, run_seconds;
    int runs;
    bool has_free_shares;
    // For other programs like it (exec/job/plan_cache.h); by somebody now; it was made for an earlier program.
    bool is_kept, is_used, is_repeated;
};

// What the public interface calls the plan of one product: its schedule, and the plan of which that is a step's.
struct mmul_plan {
    const struct mmul_schedule *schedule;
    struct mmul_program_plan *job; // owned; NULL: for machines that need not exist
};

// The move of a step of that kind.
struct mmul_move mmul_program_plan_move(const struct mmul_program_plan *plan,
                                        const struct mmul_program_step *step);

// Of a team; of the team that carries out an operation.
const struct mmul_program_costs *mmul_program_costs_of(const struct mmul_program_plan *plan,
                                                       int team);
const struct mmul_program_costs *mmul_program_step_costs(const struct mmul_program_plan *plan,
                                                         const struct mmul_program_step *step);

// Seconds and bytes of the steps, into the plan's.
void mmul_program_plan_add_up(struct mmul_program_plan *plan);

// The place whose memory a place shares, or itself.
int mmul_program_base(const struct mmul_program_plan *plan, int place);

// How many ranks the node has, and the first of them.
int mmul_program_node_ranks(const struct mmul_program_plan *plan, int node, int *leader);

// Has a place memory of the node's segment? Not what is in files or shards, shown by a view, or gone.
bool mmul_program_place_has_memory(const struct mmul_program_place *place);

// May it be under way while later steps compute? A move between the nodes, to where its value is in memory, by itself.
bool mmul_program_is_early(const struct mmul_program_plan *plan,
                           const struct mmul_program_step *step);

// Moves that are joined with the product of step `index`: their steps, in order; returns how many.
int mmul_program_plan_joined(const struct mmul_program_plan *plan, int index,
                             const struct mmul_program_step *moves[MMUL_FACTORS]);

// The panel of the inner range with which a node begins, of so many.
int mmul_program_plan_first_panel(const struct mmul_program_plan *plan, int node, int panels);

// Memory that a place takes for a rank's part, or (replicate) on a node; a multiple of 64.
#define MMUL_PLACE_ALIGN(bytes) (((bytes) + 63) / 64 * 64)
int64_t mmul_program_place_bytes(const struct mmul_program_plan *plan,
                                 const struct mmul_program_place *place, int rank);

// Where a value is, or was, that was loaded or computed: its first place in memory; -1: none.
int mmul_program_plan_place(const struct mmul_program_plan *plan, int value);

// What a step reads: operands of its own and then of its fused operations: a place, or -1; so many at most.
int mmul_program_operand_count(const struct mmul_program_step *step);
int mmul_program_step_operand(const struct mmul_program_plan *plan,
                              const struct mmul_program_step *step, int index);

// What it leaves in memory, or in a file: its result, then others: a place, or -1; so many at most.
int mmul_program_result_count(const struct mmul_program_step *step);
int mmul_program_step_result(const struct mmul_program_plan *plan,
                             const struct mmul_program_step *step, int index);

// Is the step's own operation the first of the fused ones?
bool mmul_program_is_all_fused(const struct mmul_program_plan *plan,
                               const struct mmul_program_step *step);

// Does the last fused operation read what lies where its result will be?
bool mmul_program_ends_apart(const struct mmul_program_plan *plan,
                             const struct mmul_program_step *step);

// "matmul + add + gelu", "move". Returns `text`.
enum { MMUL_STEP_NAME_BYTES = 160 };
char *mmul_program_step_name(const struct mmul_program_plan *plan,
                             const struct mmul_program_step *step,
                             char text[static MMUL_STEP_NAME_BYTES]);
