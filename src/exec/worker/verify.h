// SPDX-License-Identifier: MIT
// The flow of verification on one rank: check every block of the result, compute what is wrong again
// on the next device, check again. The maths are in model/check.
//
// A rank holds a piece of the split operand and meets the whole operand in panels. The piece is
// projected once, whatever the number of panels; what is judged are the panel's units. Where many
// pieces meet the same panels, the axis is the other one: panels are the pieces here, and several of
// them are remembered.
//
//                 piece             panel             units judged
//     MMUL_ROWS   rows of A         columns of B      columns of the block of C
//     MMUL_COLS   columns of B      rows of A         rows of the block of C
#pragma once

#include "exec/worker/worker.h"
#include "model/check.h"
#include "plan/lists/footprint.h"

// A piece that was projected.
struct mmul_projected {
    struct mmul_check *check; // owned
    const void *piece;        // NULL: none
    int64_t units, ld;
};

// A piece that was projected, and outlives the products of one verifier: others read the same value.
struct mmul_saved_sums {
    const void *begin, *end; // of its memory; NULL: none
    int64_t units, ld, k;
    enum mmul_dtype dtype;
    bool transposed, has_c_in;
    uint64_t seed;
    int64_t used;    // by the used-th request; the one with the least makes room
    double *numbers; // owned: (size.saved_numbers of the room)
};

// Who watches over a verifier. `look` is called before a device is distrusted, and between the parts
// of what is computed again, `done` of `total` lines so far. Anything but MMUL_OK ends the check
// with it: the operands are not what they were, or nobody needs the result any more.
struct mmul_verifier_watch {
    enum mmul_status (*look)(void *context, int64_t done, int64_t total, struct mmul_error *err);
    void *context;
};

struct mmul_verifier;

// What verifiers work in, one after the other: those of a run's stages, each as long as its stage is carried out.
// {0} has no memory yet; it grows with what they ask for.
struct mmul_verifier_room {
    struct mmul_projected *pieces;    // owned
    unsigned char *wrong;             // owned: a flag per unit of the largest panel
    int64_t piece_count, oldest;      // oldest: makes room for the next one
    struct mmul_check_size size;      // each piece's check is fitted to who uses it
    const struct mmul_verifier *user; // whose pieces these are
    struct mmul_saved_sums *saved;    // owned, (size.saved_count)
    int64_t requests;
};

struct mmul_verifier {
    struct mmul_verifier_room *room; // borrowed; NULL: it checks nothing
    enum mmul_axis axis;
    int64_t piece_units_max, k_max;
    bool piece_lasts; // until its memory is said to be forgotten
    bool
        is_excused; // what is wrong in the next block may be others': computed again on the same device first
    uint64_t seed; // of the x of the check; another one after a block with wrong lines
    struct mmul_verifier_watch watch;
    struct mmul_check_source source;                      // of the first look at a block
    int64_t lines_checked, lines_wrong, lines_recomputed; // units of panels, see above
    int64_t blocks_recomputed;                            // products with wrong lines
};

struct mmul_verifier_request {
    enum mmul_axis axis;
    int64_t piece_units_max, panel_units_max, k_max;
    int64_t piece_count; // that are remembered, at least 1
    int64_t saved_count; // pieces that last, of this one and of others; 0: its own do not
    uint64_t seed;
    struct mmul_verifier_watch watch; // look NULL: nobody
    struct mmul_parallel parallel;    // threads: those of the rank, the same for all of a room
};

// The room has the largest of what was asked for (mmul_check_size_add), of piece_count pieces. Fails with
// MMUL_ERR_SYSTEM; the room may have lost what it had then.
enum mmul_status mmul_verifier_init(struct mmul_verifier *verifier, struct mmul_verifier_room *room,
                                    const struct mmul_verifier_request *request,
                                    struct mmul_error *err);
void mmul_verifier_room_fini(struct mmul_verifier_room *room);

// The memory of pieces that do not last holds other numbers now: the next check projects again. A piece at
// another place, of other size or of another leading dimension is noticed without this.
void mmul_verifier_forget(struct mmul_verifier *verifier);

// [begin, end), where a piece that lasted may be, is used for another one.
void mmul_verifier_forget_memory(struct mmul_verifier_room *room, const void *begin,
                                 const void *end);

// A block that `worker` computed: `product` is C[piece, panel] when rows are split, C[panel, piece] when columns are.
// `place` names it in errors ("rows 100-200 of matrix 3"). `looked_at` is a part of it that may be wrong; NULL: all.
struct mmul_verifier_block {
    const struct mmul_product *product, *looked_at;
    const char *place;
};

// Checks the block, and makes all of it again where anything is wrong. What the device alone has of it is checked by
// the device's sums; what these call wrong, or cannot say, comes home first (fails as mmul_worker_bring_home). Fails
// with MMUL_ERR_WRONG when it stays wrong, and as the watch's look does.
enum mmul_status mmul_verifier_check(struct mmul_verifier *verifier, struct mmul_worker *worker,
                                     const struct mmul_verifier_block *block,
                                     struct mmul_error *err);
