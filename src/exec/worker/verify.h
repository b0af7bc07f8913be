// SPDX-License-Identifier: MIT
// The check of results on one rank. Every block goes through one sequence:
//
//     look       compares the block with an independent computation of a part of it
//     look again if lines are wrong: compares the whole block by other random numbers
//     recompute  computes the block again: a CPU with other cuts, any other device by its
//                successor, which replaces it for the rest of the run. Then looks, until no line is
//                wrong or no device is left.
//     record     counts lines and blocks for the report
//
// A method is the functions for one kind of block. exec/steps/checks.c has the table of methods.
#pragma once

#include "exec/worker/worker.h"
#include "model/check.h"
#include "plan/lists/footprint.h"

struct mmul_verification;

// NULL: there is no such step. Functions fail with the status of the computation or of the watch.
struct mmul_check_method {
    bool trusts_cpu; // skips the check on a trusted device (device/device.h)
    // Sets `lines`, `wrong` and `line`. Fails with MMUL_ERR_WRONG if there is no recompute.
    enum mmul_status (*look)(struct mmul_verification *v, struct mmul_error *err);
    // Adds to `wrong` what the look before has missed.
    enum mmul_status (*look_again)(struct mmul_verification *v, struct mmul_error *err);
    // Compute the block again and set `recomputed`. recut: on the CPU that erred, with other cuts.
    enum mmul_status (*recut)(struct mmul_verification *v, struct mmul_error *err);
    enum mmul_status (*recompute)(struct mmul_verification *v, struct mmul_error *err);
};

// The check of one block.
struct mmul_verification {
    const struct mmul_check_method *method;
    struct mmul_verifier *verifier; // counts; borrowed
    struct mmul_worker *worker;     // has computed the block; borrowed
    const void *block;              // borrowed; its type is the method's
    const char *place;              // names the block in errors: "rows 100-200 of matrix 3"
    int64_t rows, cols;             // size of the block, for the trace
    // Errors may come from other ranks: the first repetition uses the same device.
    bool is_foreign;
    // Findings of the last look: lines that it read, wrong ones, and chunks of the result that
    // changed after they were computed. `line`: "row" or "column".
    int64_t lines, wrong, changed;
    const char *line;
    int64_t recomputed;       // lines that were computed again last
    bool is_recut;            // a CPU has computed the block again with other cuts
    struct mmul_check *check; // products: the check in use; NULL: before the first look
};

// Runs the sequence for a block that has been computed. Fails with MMUL_ERR_WRONG if the block
// stays wrong.
enum mmul_status mmul_verification_run(struct mmul_verification *v, struct mmul_error *err);

// Returns false if the device that computed the block needs no such check.
bool mmul_verification_is_needed(const struct mmul_verification *v);

// Calls `look` of the verifier's watch.
enum mmul_status mmul_verification_watch(const struct mmul_verification *v, int64_t done,
                                         int64_t total, struct mmul_error *err);

// ---------------------------------------------------------------------------------------- products
//
// The mathematics is in model/check. A rank holds a piece of the split operand, and multiplies it
// with the whole operand panel by panel. The piece is projected once for all panels. The check
// gives a verdict for each unit of the panel. If many pieces meet the same panels, the axis is
// swapped: panels are the pieces here, and several of them are cached.
//
//                 piece             panel             units checked
//     MMUL_ROWS   rows of A         columns of B      columns of the block of C
//     MMUL_COLS   columns of B      rows of A         rows of the block of C

extern const struct mmul_check_method mmul_product_check; // block: struct mmul_verifier_block

// The projection of a piece.
struct mmul_projection {
    struct mmul_check *check; // owned
    const void *piece;        // NULL: none
    int64_t units, ld;
};

// The projection of a piece that outlives the products of one verifier, for other products that
// read the same value.
// Without it the check of a program that reads one large operand again and again takes 3.8 times as
// long (bench/ledger.md).
struct mmul_saved_projection {
    const void *begin, *end; // its memory; NULL: none
    int64_t units, ld, k;
    enum mmul_dtype dtype;
    bool transposed, has_c_in;
    uint64_t seed;
    // Sequence number of the last request; the entry with the least is evicted first.
    int64_t used;
    double *numbers; // owned: (size.cached_numbers of the room)
};

// Callback of a verifier. `look` is called before a device is distrusted, and between the parts of
// a computation that is repeated, with `done` of `total` lines finished. A status other than
// MMUL_OK ends the check with that status: the operands have changed, or no rank needs the result
// any more.
struct mmul_verifier_callback {
    enum mmul_status (*look)(void *context, int64_t done, int64_t total, struct mmul_error *err);
    void *context;
};

struct mmul_verifier;

// Memory that verifiers share, one after the other: each stage of a run has a verifier while it is
// carried out. {0} has no memory yet. The memory grows as verifiers request it.
struct mmul_verifier_memory {
    struct mmul_projection *pieces;      // owned
    unsigned char *wrong;                // owned: a flag per unit of the largest panel
    int64_t piece_count, oldest;         // oldest: the next one to be evicted
    struct mmul_check_size size;         // each piece's check is resized for its current verifier
    const struct mmul_verifier *user;    // verifier that the pieces belong to
    struct mmul_saved_projection *saved; // owned, (size.cached_count)
    int64_t requests;
};

struct mmul_verifier {
    struct mmul_verifier_memory *room; // borrowed; NULL: no checks
    enum mmul_axis axis;
    int64_t piece_units_max, k_max;
    bool piece_lasts; // the piece stays valid until its memory is reported as forgotten
    uint64_t seed;    // seed of the check's vector x; changes after a block with wrong lines
    struct mmul_verifier_callback watch;
    int64_t lines_checked, lines_wrong, lines_recomputed; // units of panels, see above
    int64_t blocks_recomputed;                            // products with wrong lines
};

struct mmul_verifier_request {
    enum mmul_axis axis;
    int64_t piece_units_max, panel_units_max, k_max;
    int64_t piece_count;  // projections that are cached, at least 1
    int64_t cached_count; // capacity for lasting pieces, of all verifiers; 0: this one has none
    uint64_t seed;
    struct mmul_verifier_callback watch; // look NULL: no callback
    struct mmul_parallel parallel; // threads of the rank, the same for all verifiers of a room
};

// Initialises a verifier. The room grows to the largest request so far (mmul_check_size_add) and to
// piece_count pieces. Fails with MMUL_ERR_SYSTEM; the room may then have lost its previous memory.
enum mmul_status mmul_verifier_init(struct mmul_verifier *verifier,
                                    struct mmul_verifier_memory *room,
                                    const struct mmul_verifier_request *request,
                                    struct mmul_error *err);
void mmul_verifier_room_fini(struct mmul_verifier_memory *room);

// Invalidates the projections of pieces that do not last, because their memory holds other numbers.
// The next check projects again. A piece with another address, size or leading dimension is
// detected without this call.
void mmul_verifier_invalidate(struct mmul_verifier *verifier);

// Invalidates saved projections of pieces in [begin, end), because the memory is reused.
void mmul_verifier_invalidate_memory(struct mmul_verifier_memory *room, const void *begin,
                                     const void *end);

// A block of a product. A block that only the device has is checked by sums that the device
// computes. If these sums are wrong or missing, the block is downloaded first (fails as
// mmul_worker_download_absent). `product` is C[piece, panel] when rows are split, C[panel, piece]
// when columns are. `place` names it in errors ("rows 100-200 of matrix 3"). `looked_at` is the
// part of it that may be wrong; NULL: all.
struct mmul_verifier_block {
    const struct mmul_product *product, *looked_at;
    const char *place;
};
