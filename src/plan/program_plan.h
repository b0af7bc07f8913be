// SPDX-License-Identifier: MIT
//
// The plan of a program: gives every operation one of its rules, so that the predicted seconds of
// all of them and of the moves between them are least; an operand that is elsewhere gets a move. A
// pure function of program, cluster and weights: every rank computes it for itself.
//
// Values that are split are split by the same weights, so equal ranges have equal offsets, and rows
// of one value meet rows (or, transposed, columns) of another.
#pragma once

#include "plan/moves.h"
#include "plan/plan.h"
#include "plan/program_cost.h"

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
};

// An operation that is done to what those before it in its step have made, part by part: nothing between them
// is a value that anybody has.
struct mmul_program_link {
    int operation;
    int operands[MMUL_OPERANDS]; // places; -1: none, or a number, or
    int before; // this one: what was made before; -1: this link is the first to make anything
};

enum mmul_program_step_kind { MMUL_STEP_MOVE, MMUL_STEP_COMPUTE, MMUL_STEP_GONE };

// Steps are carried out in order; none of them is gone when the plan is made.
struct mmul_program_step {
    enum mmul_program_step_kind kind;
    int operation;               // what is computed, or what the move is for
    int operands[MMUL_OPERANDS]; // places, -1: none, or a number; of a move the first
    int result;                  // a place
    // What is done to that, in the end: links of the plan's from `first_link` on. `made`: where `operation` leaves
    // its result, the same memory; of no links, and of operations that are a link themselves, the result.
    int first_link, link_count, made;
    bool by_rows;         // links have to do with rows of all matrices, one after the other
    double link_seconds;  // predicted, of `seconds`
    bool joined;          // a move, carried out with the product it is for, in panels
    int stage;            // of the run that carries it out
    double seconds;       // predicted; of joined moves 0: those of their product are all
    double network_bytes; // all links together
    // Of a product that is split by rows or columns: which, and its parts (borrowed; NULL: nothing of it
    // stays, they are its own plan's choice); then that plan (owned, or that of an equal product before) and, on root,
    // its files. Operands and result may be in files (MMUL_PLACE_FILE): it brings them itself.
    bool is_product,
        spreads; // spreads: its whole operand is in rows, and is relayed from the ranks
    bool turned[MMUL_FACTORS]; // of an operand in a file: it is the other way round there
    enum mmul_axis axis;
    const int64_t *offsets;
    struct mmul_plan *product;
    const struct mmul_program_step *same; // whose plan that is; NULL: its own
    struct mmul_matmul files;
};

struct mmul_program_offsets; // offsets of one range

// What its user allows: bytes of a node and of a device, 0: what is there; parts of products that idle ranks may claim.
struct mmul_program_limits {
    int64_t memory_bytes, device_memory_bytes;
    enum mmul_tail tail;
    double tail_share;
};

// What tables say of a rank, what it has of its device and what that needs of host memory.
struct mmul_program_rank {
    char host[64], device[64];
    bool host_memory;        // its device works there
    bool copies_on_host;     // its device, a CPU through OpenCL, copies what it works on
    bool is_sampled;         // what its device makes is looked at by samples
    int64_t device_bytes;    // of its memory that the rank may use
    int64_t link_tile_bytes; // of a tile that goes through the links of a step
};

struct mmul_program_plan {
    const struct mmul_program *program; // borrowed
    struct mmul_program *owned;         // the same, where the plan owns it; may be NULL
    bool keeps_values; // every value can be had after the run; else what no step reads
    enum mmul_io io;   // of the products
    struct mmul_program_limits limits;
    bool no_verify, no_fallback; // of the run
    bool records;                // of the run: what every rank does when is kept
    double device_timeout_seconds;
    uint64_t verify_seed;
    void (*notice)(void *notice_context, const char *text); // root's
    void *notice_context;
    void (*progress)(void *notice_context, const char *phase, int64_t done_bytes,
                     int64_t total_bytes);                                    // root's; NULL: none
    enum mmul_status (*accept)(void *accept_context, struct mmul_error *err); // root's; NULL: none
    void *accept_context;
    struct mmul_program_costs costs;   // who is where, and shares
    double *weights;                   // owned, of the ranks: those that the shares were made from
    struct mmul_program_place *places; // owned
    struct mmul_program_step *steps;   // owned
    struct mmul_program_link *links;   // owned
    int place_count, step_count, link_count;
    struct mmul_program_offsets *ranges; // owned list: what placements borrow
    double seconds, network_bytes;
    int64_t *offsets;     // owned: place * nodes + node: where its memory is among these; -1: none
    int64_t *node_bytes;  // owned: memory of the values on every node ...
    int64_t *shard_bytes; // owned: ... and of the shards that it is to keep, which no segment has
    int64_t node_bytes_most; // memory of both on the node that has most of it
    // Owned: what a run has beside them (plan/program_rooms.h), of the segment of every node, and of every rank's own;
    // 0 before mmul_program_fit_rooms.
    int64_t *segment_bytes, *own_bytes;
    bool saves_no_sums;   // of values that several products read: there is no room for them
    int *multiplied;      // owned, per place: products that read its memory
    int read_again_count; // places that several products read
    struct mmul_program_rank *ranks; // owned
};

// keeps values: see the plan. streams: products are of rows or columns, so that they can bring files and take them
// away in pieces, where a grid would have all of its operands in memory.
enum mmul_program_how { MMUL_PROGRAM_KEEPS_VALUES = 1, MMUL_PROGRAM_STREAMS = 2 };

// weights: one per rank. how: of enum mmul_program_how. Products have no plans of their own yet. Fails with
// MMUL_ERR_SYSTEM (memory; values do not fit into what a node has available), MMUL_ERR_USAGE (an empty
// program, a wish that no rule can follow).
enum mmul_status mmul_program_plan_make(const struct mmul_program *program,
                                        const struct mmul_cluster *cluster, const double *weights,
                                        unsigned how, struct mmul_program_plan **plan,
                                        struct mmul_error *err);

// The move of a step of that kind.
struct mmul_move mmul_program_plan_move(const struct mmul_program_plan *plan,
                                        const struct mmul_program_step *step);

// Seconds and bytes of the steps, into the plan's.
void mmul_program_plan_add_up(struct mmul_program_plan *plan);

// The place whose memory a place shares, or itself.
int mmul_program_base(const struct mmul_program_plan *plan, int place);

// How many ranks the node has, and the first of them.
int mmul_program_node_ranks(const struct mmul_program_plan *plan, int node, int *leader);

// Has a place memory of the node's segment? Not what is in files or shards, shown by a view, or gone.
bool mmul_program_place_has_memory(const struct mmul_program_place *place);

// Moves that are joined with the product of step `index`: their steps, in order; returns how many.
int mmul_program_plan_joined(const struct mmul_program_plan *plan, int index,
                             const struct mmul_program_step *moves[MMUL_FACTORS]);

// The panel of the inner range with which a node begins, of so many.
int mmul_program_plan_first_panel(const struct mmul_program_plan *plan, int node, int panels);

// Memory that a place takes for a rank's part, or (replicate) on a node; a multiple of 64.
#define MMUL_PLACE_ALIGN(bytes) (((bytes) + 63) / 64 * 64)
int64_t mmul_program_place_bytes(const struct mmul_program_plan *plan,
                                 const struct mmul_program_place *place, int rank);

// ------------------------------------------------------------------------------ program_memory.c

// Offsets and bytes of the places on every node. Memory of a place that does not stay is used again, by
// what is made two stages after the last one that reads it: then all ranks of the node, and its traffic,
// are through with that (exec/mover.h). Fails as above.
enum mmul_status mmul_program_lay_out(struct mmul_program_plan *plan,
                                      const struct mmul_cluster *cluster, struct mmul_error *err);

// Finds what a run has beside the values, by the limits and options that the plan has by now; where that is more than
// there is, without the sums that several products' checks could share. Products that have no plans of their own yet
// are not among it. True: it fits.
bool mmul_program_fit_rooms(struct mmul_program_plan *plan, const struct mmul_cluster *cluster);

// Of a node: of the run's segment and its ranks' own.
int64_t mmul_program_node_rooms(const struct mmul_program_plan *plan, int node);

// By how much values, shards and rooms exceed what a node has, or the plan's limit allows there; 0: they fit.
int64_t mmul_program_excess(const struct mmul_program_plan *plan,
                            const struct mmul_cluster *cluster, int node);

// Do values and rooms fit into what the nodes have, and the plan's limit allows? Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_program_check_memory(const struct mmul_program_plan *plan,
                                           const struct mmul_cluster *cluster,
                                           struct mmul_error *err);

// Bytes that a rank has in the memory of its node while each step goes on (one per step): of values, those
// that are whole on the node being its first rank's, its share of the run's segment, and what is its own.
// device: what a product's tiles take of a device with memory of its own, else 0.
void mmul_program_rank_memory(const struct mmul_program_plan *plan, int rank, int64_t *bytes,
                              int64_t *device);

// -------------------------------------------------------------------------------- program_fuse.c

// Finds the products that are split by rows or columns, and lets them bring from files, and take to
// them, what nobody else reads: the moves that did that are gone then. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_fuse(struct mmul_program_plan *plan, struct mmul_error *err);

// Steps that are gone have no place in the list.
void mmul_program_drop_gone(struct mmul_program_plan *plan);

// Places and steps have memory for what they are from now on, not for what they might have been. Fails with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_fit(struct mmul_program_plan *plan, struct mmul_error *err);

// ------------------------------------------------------------------------------- program_chain.c

// Lets operations that have to do with a row, or an element, of what a step makes be done with it, where nobody
// else reads that: their steps are gone then, and so are the values between. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_chain(struct mmul_program_plan *plan, struct mmul_error *err);

// Operands of a step and then of its links, MMUL_OPERANDS each: a place, or -1.
int mmul_program_step_operand(const struct mmul_program_plan *plan,
                              const struct mmul_program_step *step, int index);

// "matmul + add + gelu", "move". Returns `text`.
enum { MMUL_STEP_NAME_BYTES = 160 };
char *mmul_program_step_name(const struct mmul_program_plan *plan,
                             const struct mmul_program_step *step,
                             char text[static MMUL_STEP_NAME_BYTES]);

// ------------------------------------------------------------------------------ program_groups.c

// Between how many groups of rows the values may be split so that most of what the program does with groups
// stays on its rank, each of which gets one at least; 1: it does nothing of the kind; MMUL_ONE_RANK. Fails with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_find_groups(const struct mmul_program *program, int size,
                                          int64_t *groups, struct mmul_error *err);

// -------------------------------------------------------------------------------- program_kept.c

// Makes a place that of a set, where its shards are. network_bytes: of what would have to move to be as the plan's
// shares have it. True: it is so already.
bool mmul_program_take_shards(const struct mmul_program_plan *plan, int kept,
                              struct mmul_program_place *place, double *network_bytes);

// ------------------------------------------------------------------------------ program_choose.c

// One rule per operation, and the seconds of all. Fails as above.
enum mmul_status mmul_program_choose(const struct mmul_program *program,
                                     const struct mmul_program_costs *costs,
                                     const struct mmul_rule **rules, double *seconds,
                                     struct mmul_error *err);

// How a value that is in the placements of the set `have` (a bit per kind) gets into another one:
// from the nearest of them, directly or by way of rows.
struct mmul_program_path {
    enum mmul_placement_kind from;
    bool by_rows;
    double seconds;
};
struct mmul_program_path mmul_program_find_path(const struct mmul_program_costs *costs,
                                                const struct mmul_value *value, unsigned have,
                                                enum mmul_placement_kind to);
