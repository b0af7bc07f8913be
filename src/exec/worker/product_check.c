// SPDX-License-Identifier: MIT
// Check of products, and their second computation. After one wrong line, no part of the block from
// that device is trusted, because other errors may be below the tolerance.
// - A device with memory of its own: the next device (OpenCL: the CPU) computes the whole block
//   again.
// - A CPU: it computes the whole block again with other cuts. Plain loops then compute the lines
//   (rows or columns) that are still wrong; a whole large block would take them hours.
// In this file, lines are rows of a product with the rank's piece as B; if rows are split, that is
// the transposed product.
#include "exec/worker/verify.h"

#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"

static void drop_pieces(struct mmul_verifier_memory *room) {
    for (int64_t i = 0; i < room->piece_count; i++)
        mmul_check_destroy(room->pieces[i].check);
    mmul_free(room->pieces);
    mmul_free(room->wrong);
    room->pieces = NULL;
    room->wrong = NULL;
    room->piece_count = room->oldest = 0;
}

static void drop_saved(struct mmul_verifier_memory *room) {
    for (int64_t i = 0; room->saved != NULL && i < room->size.cached_count; i++)
        mmul_free(room->saved[i].numbers);
    mmul_free(room->saved);
    room->saved = NULL;
}

static enum mmul_status create_pieces(struct mmul_verifier_memory *room, int64_t count,
                                      struct mmul_parallel parallel, struct mmul_error *err) {
    enum mmul_status status =
        MMUL_ALLOCATE(room->wrong, room->size.panel_units, "verification", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(room->pieces, count, "verification", err);
    while (status == MMUL_OK && room->piece_count < count) {
        struct mmul_check **check = &room->pieces[room->piece_count].check;
        status = mmul_check_create_room(room->size.check_bytes, check, err);
        if (status != MMUL_OK)
            break;
        mmul_check_set_parallel(*check, parallel);
        room->piece_count++;
    }
    return status;
}

// Grows the room to the largest request so far.
static enum mmul_status reserve(struct mmul_verifier_memory *room,
                                const struct mmul_verifier_request *r, struct mmul_error *err) {
    const struct mmul_check_need need = {r->axis, r->piece_units_max, r->panel_units_max, r->k_max,
                                         r->cached_count};
    const int64_t pieces = mmul_max(room->piece_count, r->piece_count);
    struct mmul_check_size size = room->size;
    mmul_check_size_add(&size, &need);
    const bool is_larger = pieces > room->piece_count ||
                           size.check_bytes > room->size.check_bytes ||
                           size.panel_units > room->size.panel_units,
               saves_others = size.cached_count != room->size.cached_count ||
                              size.cached_numbers != room->size.cached_numbers;
    if (is_larger)
        drop_pieces(room);
    if (saves_others)
        drop_saved(room);
    room->size = size;
    enum mmul_status status = is_larger ? create_pieces(room, pieces, r->parallel, err) : MMUL_OK;
    if (status == MMUL_OK && saves_others)
        status = MMUL_ALLOCATE(room->saved, size.cached_count, "verification", err);
    for (int64_t i = 0; status == MMUL_OK && saves_others && i < size.cached_count; i++)
        status =
            MMUL_ALLOCATE_RAW(room->saved[i].numbers, size.cached_numbers, "verification", err);
    return status;
}

enum mmul_status mmul_verifier_init(struct mmul_verifier *verifier,
                                    struct mmul_verifier_memory *room,
                                    const struct mmul_verifier_request *request,
                                    struct mmul_error *err) {
    const struct mmul_verifier_request *r = request;
    *verifier = (struct mmul_verifier){.room = room,
                                       .axis = r->axis,
                                       .piece_units_max = r->piece_units_max,
                                       .k_max = r->k_max,
                                       .piece_lasts = r->cached_count > 0,
                                       .seed = r->seed,
                                       .watch = r->watch};
    room->user = NULL;
    return reserve(room, r, err);
}

void mmul_verifier_room_fini(struct mmul_verifier_memory *room) {
    drop_pieces(room);
    drop_saved(room);
    *room = (struct mmul_verifier_memory){0};
}

void mmul_verifier_invalidate(struct mmul_verifier *verifier) {
    if (verifier->room != NULL)
        verifier->room->user = NULL;
}

// Returns the product with the piece as B. The function is its own inverse.
static struct mmul_product turn(const struct mmul_verifier *v, const struct mmul_product *product) {
    return v->axis == MMUL_ROWS ? mmul_product_transpose(product) : *product;
}

// ---------------------------------------------------------------------------------- lasting pieces

void mmul_verifier_invalidate_memory(struct mmul_verifier_memory *room, const void *begin,
                                     const void *end) {
    for (int64_t i = 0; room->saved != NULL && i < room->size.cached_count; i++) {
        struct mmul_saved_projection *s = &room->saved[i];
        if ((const char *)s->begin < (const char *)end &&
            (const char *)s->end > (const char *)begin)
            s->begin = s->end = NULL;
    }
}

// Returns the key of a product's piece.
static struct mmul_saved_projection key_of(const struct mmul_verifier *v,
                                           const struct mmul_product *p) {
    const int64_t lines = p->transpose_b ? p->n : p->k, length = p->transpose_b ? p->k : p->n;
    const int64_t span = ((lines - 1) * p->ldb + length) * (int64_t)mmul_dtype_bytes(p->b_dtype);
    return (struct mmul_saved_projection){.begin = p->b,
                                          .end = (const char *)p->b + span,
                                          .units = p->n,
                                          .ld = p->ldb,
                                          .k = p->k,
                                          .dtype = p->b_dtype,
                                          .transposed = p->transpose_b,
                                          .has_c_in = p->beta != 0,
                                          .seed = v->seed};
}

static bool are_same(const struct mmul_saved_projection *a, const struct mmul_saved_projection *b) {
    return a->begin == b->begin && a->units == b->units && a->ld == b->ld && a->k == b->k &&
           a->dtype == b->dtype && a->transposed == b->transposed && a->has_c_in == b->has_c_in &&
           a->seed == b->seed;
}

// Begins a check with the saved projection of the piece. Without one, projects the piece and saves
// the result.
static enum mmul_status begin_lasting(struct mmul_verifier *v, const struct mmul_product *p,
                                      struct mmul_check *check, struct mmul_error *err) {
    struct mmul_verifier_memory *room = v->room;
    struct mmul_saved_projection key = key_of(v, p), *oldest = &room->saved[0];
    key.used = ++room->requests;
    for (int64_t i = 0; i < room->size.cached_count; i++) {
        struct mmul_saved_projection *s = &room->saved[i];
        if (are_same(s, &key)) {
            s->used = key.used;
            mmul_check_resume(check, p, v->seed, s->numbers);
            return MMUL_OK;
        }
        if (s->begin == NULL || (oldest->begin != NULL && s->used < oldest->used))
            oldest = s;
    }
    enum mmul_status status = mmul_check_begin(check, p, v->seed, err);
    key.numbers = oldest->numbers;
    if (status == MMUL_OK && mmul_check_save(check, key.numbers))
        *oldest = key;
    return status;
}

// Begins a check, or returns the one with the cached projection of the piece. On success *check is
// the check begun with it, which uses the source.
static enum mmul_status begin_check(struct mmul_verifier *v, const struct mmul_product *p,
                                    struct mmul_check_source source, struct mmul_check **check,
                                    struct mmul_error *err) {
    struct mmul_verifier_memory *room = v->room;
    for (int64_t i = 0; room->user != v && i < room->piece_count; i++) {
        room->pieces[i].piece = NULL;
        mmul_check_fit(room->pieces[i].check, v->piece_units_max, v->k_max);
    }
    room->user = v;
    for (int64_t i = 0; p->b != NULL && i < room->piece_count; i++) {
        const struct mmul_projection *known = &room->pieces[i];
        if (known->piece != p->b || known->units != p->n || known->ld != p->ldb)
            continue;
        *check = known->check;
        mmul_check_set_source(*check, source);
        return MMUL_OK;
    }
    struct mmul_projection *next = &room->pieces[room->oldest];
    mmul_check_set_source(next->check, source);
    room->oldest = (room->oldest + 1) % room->piece_count;
    *check = next->check;
    enum mmul_status status = v->piece_lasts && p->b != NULL
                                  ? begin_lasting(v, p, *check, err)
                                  : mmul_check_begin(*check, p, v->seed, err);
    next->piece = status == MMUL_OK ? p->b : NULL;
    next->units = p->n;
    next->ld = p->ldb;
    return status;
}

// ------------------------------------------------------------------------------------------- looks

static const struct mmul_check_source no_source;

// Checks a block for the first time. A device that caches the operands or the block supplies sums.
// If these show wrong lines, or are incomplete, the host downloads the block and repeats the check
// alone: lines called right may not be in host memory. All later checks are the host's alone, too.
static enum mmul_status look_first(struct mmul_verification *v, const struct mmul_product *p,
                                   struct mmul_error *err) {
    const struct mmul_check_source device = {mmul_worker_compute_sums, v->worker};
    const bool helps = !mmul_worker_uses_in_place(v->worker, MMUL_F32);
    unsigned char *wrong = v->verifier->room->wrong;
    enum mmul_status status =
        begin_check(v->verifier, p, helps ? device : no_source, &v->check, err);
    if (status != MMUL_OK)
        return status;
    v->wrong = mmul_check_rows(v->check, p, 0, p->m, wrong);
    mmul_check_set_source(v->check, no_source);
    if (mmul_worker_has_check_sums(v->worker) &&
        (v->wrong == 0 || !mmul_check_used_source(v->check)))
        return MMUL_OK;
    status = mmul_worker_download_absent(v->worker, err);
    if (status != MMUL_OK)
        return status;
    mmul_verifier_invalidate(v->verifier);
    status = begin_check(v->verifier, p, no_source, &v->check, err);
    if (status == MMUL_OK)
        v->wrong = mmul_check_rows(v->check, p, 0, p->m, wrong);
    return status;
}

static enum mmul_status look(struct mmul_verification *v, struct mmul_error *err) {
    const struct mmul_verifier_block *block = v->block;
    const struct mmul_product p = turn(v->verifier, block->product);
    if (v->check != NULL) { // computed again
        v->wrong = mmul_check_rows(v->check, &p, 0, p.m, v->verifier->room->wrong);
        return MMUL_OK;
    }
    const struct mmul_product part =
        block->looked_at != NULL ? turn(v->verifier, block->looked_at) : p;
    v->line = v->verifier->axis == MMUL_ROWS ? "column" : "row";
    v->lines = part.m;
    return look_first(v, &part, err);
}

// Checks a block with wrong lines with a second x as well. A single wrong element always shows. The
// errors of several elements in a line may cancel for one x, and among the very many that a broken
// device leaves some do.
static enum mmul_status look_again(struct mmul_verification *v, struct mmul_error *err) {
    const struct mmul_verifier_block *block = v->block;
    const struct mmul_product p = turn(v->verifier, block->product);
    unsigned char found[256], *wrong = v->verifier->room->wrong;
    const int64_t seen = v->wrong;
    if (block->looked_at != NULL && !v->is_recut) { // the flags count lines of the part
        memset(wrong, 0, (size_t)p.m);
        v->wrong = 0;
    }
    v->verifier->seed = mmul_random_at(v->verifier->seed, 0);
    mmul_verifier_invalidate(v->verifier);
    enum mmul_status status = begin_check(v->verifier, &p, no_source, &v->check, err);
    for (int64_t begin = 0; status == MMUL_OK && begin < p.m; begin += (int64_t)sizeof found) {
        int64_t end = mmul_min(begin + (int64_t)sizeof found, p.m);
        mmul_check_rows(v->check, &p, begin, end, found);
        for (int64_t line = begin; line < end; line++) {
            v->wrong += found[line - begin] && !wrong[line];
            wrong[line] |= found[line - begin];
        }
    }
    v->wrong = mmul_max(v->wrong, seen);
    return status;
}

// ---------------------------------------------------------------------------- second computation

// Returns the lines to compute again between two callbacks: about one second of plain loops.
static int64_t lines_at_once(const struct mmul_worker *worker, const struct mmul_product *p) {
    static const double flops = 4e8;
    if (!mmul_device_is_plain(worker->context->device))
        return p->m;
    double lines = flops / (2.0 * (double)p->n * (double)p->k);
    return lines >= (double)p->m ? p->m : (int64_t)lines + 1;
}

// Computes all lines again; after a recut only those that are still wrong, run by run.
static enum mmul_status recompute(struct mmul_verification *v, struct mmul_error *err) {
    const struct mmul_verifier_block *block = v->block;
    const struct mmul_product p = turn(v->verifier, block->product);
    unsigned char *wrong = v->verifier->room->wrong;
    if (!v->is_recut) {
        memset(wrong, 1, (size_t)p.m);
        v->wrong = p.m;
    }
    enum mmul_status status = MMUL_OK;
    const int64_t most = lines_at_once(v->worker, &p);
    for (int64_t begin = 0; status == MMUL_OK && begin < p.m; begin++) {
        if (!wrong[begin])
            continue;
        int64_t end = begin + 1;
        while (end < p.m && wrong[end] && end - begin < most)
            end++;
        const struct mmul_product lines = mmul_product_rows(&p, begin, end);
        const struct mmul_product part = turn(v->verifier, &lines);
        status = mmul_worker_multiply(v->worker, &part, err);
        v->recomputed += end - begin;
        if (status == MMUL_OK)
            status = mmul_verification_watch(v, v->recomputed, v->wrong, err);
        begin = end - 1;
    }
    return status;
}

// Computes the whole block again on the device that erred, such as OpenBLAS, in four parts with odd
// cuts. Rows and columns after a cut fall elsewhere in the kernel's tiles, and so do the tile ends,
// which have kernels of their own. All parts are smaller than the block, so panels end elsewhere
// and threads, on their cores, get other shares. The check finds an error that still occurs at the
// same place.
static enum mmul_status recut(struct mmul_verification *v, struct mmul_error *err) {
    const struct mmul_verifier_block *block = v->block;
    const struct mmul_product p = turn(v->verifier, block->product);
    const int64_t ends[2] = {3 * p.m / 8 | 1, 5 * p.n / 8 | 1};
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < 4; i++) {
        const bool below = i / 2 == 1, right = i % 2 == 1;
        const int64_t row = below ? ends[0] : 0, row_end = below ? p.m : ends[0],
                      col = right ? ends[1] : 0, col_end = right ? p.n : ends[1];
        if (row == row_end || col == col_end)
            continue;
        const struct mmul_product rows = mmul_product_rows(&p, row, row_end),
                                  across = mmul_product_transpose(&rows),
                                  cols = mmul_product_rows(&across, col, col_end),
                                  lines = mmul_product_transpose(&cols),
                                  part = turn(v->verifier, &lines);
        status = mmul_worker_multiply(v->worker, &part, err);
    }
    v->recomputed = p.m;
    return status == MMUL_OK ? mmul_verification_watch(v, p.m, p.m, err) : status;
}

const struct mmul_check_method mmul_product_check = {
    .look = look, .look_again = look_again, .recut = recut, .recompute = recompute};
