// SPDX-License-Identifier: MIT
//
// Faults that the check finds: `detection_test NAME`. Results of the device are spoiled in memory,
// one fault at a time, and checked as in a run. The table counts, for each kind of result and
// fault, those found, those not found but below the promised tolerance (`promise`), and those
// missed. A kind of result is required to miss none, unless its row says otherwise.
// DETECTION_FAULTS sets the number of faults of each kind.
#include "alarm_numbers.h"
#include "base/hash.h"
#include "base/text.h"
#include "exec/steps/map_check.h"
#include "exec/steps/sums.h"
#include "exec/worker/verify.h"
#include "tap.h"

// Bits of an element are flipped, or blocks of up to SIDE x SIDE elements replaced. STALE: by the
// same block of an earlier result.
enum fault {
    SIGN,
    EXPONENT_HIGH,
    EXPONENT_LOW,
    MANTISSA_HIGH,
    MANTISSA_MIDDLE,
    MANTISSA_LOW,
    ZERO,
    SWAPPED,
    STALE,
    FAULTS
};
enum { SIDE = 16, CHANGES = 2 * SIDE * SIDE };
static const char *const fault_names[FAULTS] = {"sign",       "exp. high", "exp. low",
                                                "mant. high", "mant. mid", "mant. low",
                                                "zero block", "swapped",   "stale"};

// First bits of the fields, from the lowest one on: mantissa low, middle, high, exponent low, high,
// sign; and the number of bits.
static const int *find_fields(enum mmul_dtype dtype) {
    static const int of_float[] = {0, 8, 20, 23, 27, 31, 32},
                     of_double[] = {0, 24, 49, 52, 58, 63, 64},
                     of_half[] = {0, 3, 7, 10, 12, 15, 16}, of_bfloat[] = {0, 2, 4, 7, 11, 15, 16};
    return dtype == MMUL_F64    ? of_double
           : dtype == MMUL_F16  ? of_half
           : dtype == MMUL_BF16 ? of_bfloat
                                : of_float;
}

struct cell {
    int64_t found, below, missed;
};

struct row {
    const char *name;
    double promise; // errors up to this part of the root mean square of the row may remain
    struct cell cells[FAULTS];
};

// ----------------------------------------------------------------------------------------- faults

// A result in memory, and an earlier one of the same size.
struct target {
    enum mmul_dtype dtype, file; // file: 16-bit type that it was rounded to, else the same as dtype
    int64_t rows, cols, ld;
    void *at;
    const void *earlier;
    double *rms; // rows of the right result
    // Changed elements and their old values.
    int64_t changed[CHANGES];
    double old[CHANGES];
    int count;
    int64_t row_begin, row_end; // changed rows
    double most;                // largest change, as a part of the root mean square of its row
};

static double get(const struct target *t, int64_t at) {
    return mmul_dtype_get_real(t->dtype, t->at, at);
}

// Computes the root mean squares of the rows; the caller frees t->rms.
static void find_rms(struct target *t) {
    t->rms = must_allocate(t->rows, sizeof(double));
    for (int64_t row = 0; row < t->rows; row++) {
        double squares = 0;
        for (int64_t j = 0; j < t->cols; j++)
            squares += get(t, row * t->ld + j) * get(t, row * t->ld + j);
        t->rms[row] = sqrt(squares / (double)t->cols);
    }
}

static void change(struct target *t, int64_t row, int64_t col, double value) {
    const int64_t at = row * t->ld + col;
    t->changed[t->count] = at;
    t->old[t->count++] = get(t, at);
    mmul_dtype_set_real(t->dtype, t->at, at, value);
    t->row_begin = row < t->row_begin ? row : t->row_begin;
    t->row_end = row >= t->row_end ? row + 1 : t->row_end;
}

static void restore(struct target *t) {
    for (int i = t->count - 1; i >= 0; i--)
        mmul_dtype_set_real(t->dtype, t->at, t->changed[i], t->old[i]);
    t->count = 0;
}

static double flip_bit(double value, enum mmul_dtype dtype, int bit) {
    float single = (float)value;
    uint64_t bits;
    uint32_t word;
    uint16_t half;
    if (dtype == MMUL_F64) {
        memcpy(&bits, &value, sizeof bits);
        bits ^= UINT64_C(1) << bit;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    if (dtype == MMUL_F32) {
        memcpy(&word, &single, sizeof word);
        word ^= UINT32_C(1) << bit;
        memcpy(&single, &word, sizeof single);
        return (double)single;
    }
    mmul_dtype_narrow(dtype, &single, 1, &half);
    half = (uint16_t)(half ^ (1U << bit));
    mmul_dtype_widen(dtype, &half, 1, &single);
    return (double)single;
}

// Flips a bit of an element of typical size: between half and twice the root mean square of its
// row, if there is one.
static bool flip_element(struct target *t, enum fault fault, struct draws *d) {
    const int *fields = find_fields(t->file), field = 5 - (int)fault;
    int64_t row = 0, col = 0;
    bool is_typical = false;
    for (int try = 0; !is_typical && try < 100; try++) {
        row = draw_below(d, t->rows);
        col = draw_below(d, t->cols);
        const double size = fabs(get(t, row * t->ld + col)), rms = t->rms[row];
        is_typical = rms > 0 && size >= rms / 2 && size <= 2 * rms;
    }
    if (!is_typical)
        return false;
    const int bit = fields[field] + (int)draw_below(d, fields[field + 1] - fields[field]);
    change(t, row, col, flip_bit(get(t, row * t->ld + col), t->file, bit));
    return true;
}

static void replace_block(struct target *t, enum fault fault, struct draws *d) {
    const int64_t height = t->rows < 2 * SIDE ? (t->rows + 1) / 2 : SIDE,
                  width = t->cols < 2 * SIDE ? (t->cols + 1) / 2 : SIDE,
                  row = draw_below(d, t->rows - height + 1),
                  col = draw_below(d, t->cols - width + 1);
    int64_t other_row = row, other_col = col;
    const bool in_rows = t->cols >= 2 * width && draw_below(d, 2) == 0;
    if (fault == SWAPPED && t->rows >= 2 * height && !in_rows)
        other_row = row < height ? row + height + draw_below(d, t->rows - row - 2 * height + 1)
                                 : draw_below(d, row - height + 1);
    else if (fault == SWAPPED && t->cols >= 2 * width)
        other_col = col < width ? col + width + draw_below(d, t->cols - col - 2 * width + 1)
                                : draw_below(d, col - width + 1);
    for (int64_t i = 0; i < height; i++)
        for (int64_t j = 0; j < width; j++) {
            const int64_t at = (row + i) * t->ld + col + j;
            const double here = get(t, at);
            if (fault != SWAPPED) {
                change(t, row + i, col + j,
                       fault == ZERO ? 0 : mmul_dtype_get_real(t->dtype, t->earlier, at));
                continue;
            }
            change(t, row + i, col + j, get(t, (other_row + i) * t->ld + other_col + j));
            change(t, other_row + i, other_col + j, here);
        }
}

// Spoils the result. Returns false, and changes nothing, if the elements are the same afterwards.
static bool spoil(struct target *t, enum fault fault, struct draws *d) {
    t->count = 0;
    t->row_begin = t->rows;
    t->row_end = 0;
    t->most = 0;
    if (fault <= MANTISSA_LOW && !flip_element(t, fault, d))
        return false;
    if (fault > MANTISSA_LOW)
        replace_block(t, fault, d);
    bool differs = false;
    for (int i = 0; i < t->count; i++) {
        const double now = get(t, t->changed[i]), was = t->old[i];
        mmul_dtype_set_real(t->dtype, t->at, t->changed[i], was);
        const double part = fabs(now - was) / t->rms[t->changed[i] / t->ld];
        mmul_dtype_set_real(t->dtype, t->at, t->changed[i], now);
        differs |= now != was;
        t->most = now == was ? t->most : isfinite(part) ? fmax(t->most, part) : INFINITY;
    }
    if (!differs)
        restore(t);
    return differs;
}

typedef bool finder(void *context, const struct target *t);

enum { EACH = 10, EACH_OF_MANY = 100 }; // faults of each kind between two results

static int64_t each_of(int64_t count) {
    return count < 1000 ? EACH : EACH_OF_MANY;
}

// Tries faults of each kind, as many as go with one result.
static void try_faults(struct row *row, struct target *t, struct draws *d, finder *find,
                       void *context, int64_t count) {
    find_rms(t);
    for (int64_t at = 0; at < each_of(count) * FAULTS; at++) {
        const int f = (int)(at % FAULTS);
        int tries = 0;
        while (!spoil(t, (enum fault)f, d))
            if (++tries == 20)
                break;
        if (tries == 20)
            continue;
        struct cell *const cell = &row->cells[f];
        if (find(context, t))
            cell->found++;
        else if (t->most <= row->promise)
            cell->below++;
        else
            cell->missed++;
        restore(t);
    }
    free(t->rms);
}

// --------------------------------------------------------------------------------------- products

struct bench {
    struct mmul_comm comm;
    struct mmul_context context;
    struct mmul_worker worker;
    struct mmul_device *judge;
    bool has_doubles;
    int64_t count;
};

struct problem {
    struct mmul_product product;
    void *a, *b, *c, *earlier;
    struct mmul_check *check;
    unsigned char wrong[512];
};

static void *draw_matrix(struct draws *d, enum numbers numbers, enum mmul_dtype dtype, int64_t rows,
                         int64_t cols) {
    void *const to = must_allocate(rows * cols, mmul_dtype_bytes(dtype));
    for (int64_t i = 0; i < rows; i++) {
        const double line = draw_unit(d);
        for (int64_t j = 0; j < cols; j++)
            mmul_dtype_set_real(dtype, to, i * cols + j,
                                draw_number(d, numbers, range_of(MMUL_F16), line));
    }
    return to;
}

static enum numbers draw_kind(struct draws *d) {
    static const enum numbers kinds[] = {UNIT, SIGNED, NORMAL, WHOLE, ROWS_SCALED};
    return kinds[draw_below(d, 5)];
}

static void multiply(struct bench *b, const struct mmul_product *p) {
    const struct mmul_worker_options options = {
        .tile = {.m = p->m, .n = p->n, .k = p->k, .a_lanes = 1, .b_lanes = 1, .c_lanes = 1},
        .a_dtype = p->a_dtype,
        .b_dtype = p->b_dtype};
    struct mmul_worker worker;
    struct mmul_error err;
    must_succeed(mmul_worker_init(&worker, &b->context, &options, &err), &err);
    must_succeed(mmul_worker_multiply(&worker, p, &err), &err);
    mmul_worker_fini(&worker);
}

static void round_to(enum mmul_dtype file, float *values, int64_t count) {
    uint16_t *const halves = must_allocate(count, sizeof *halves);
    mmul_dtype_narrow(file, values, count, halves);
    mmul_dtype_widen(file, halves, count, values);
    free(halves);
}

// Makes a product and an earlier one, of the same B.
static void make_problem(struct bench *b, struct draws *d, enum mmul_dtype dtype,
                         enum mmul_dtype file, int64_t k_most, struct problem *x) {
    const int64_t m = 20 + draw_below(d, 180), n = 20 + draw_below(d, 180),
                  k = 1 + draw_below(d, k_most);
    void *const first = draw_matrix(d, draw_kind(d), dtype, m, k);
    *x = (struct problem){.a = draw_matrix(d, draw_kind(d), dtype, m, k),
                          .b = draw_matrix(d, draw_kind(d), dtype, k, n),
                          .c = must_allocate(m * n, mmul_dtype_bytes(dtype)),
                          .earlier = must_allocate(m * n, mmul_dtype_bytes(dtype))};
    x->product = (struct mmul_product){.m = m,
                                       .n = n,
                                       .k = k,
                                       .alpha = 1,
                                       .a = first,
                                       .a_dtype = dtype,
                                       .lda = k,
                                       .b = x->b,
                                       .b_dtype = dtype,
                                       .ldb = n,
                                       .c = x->earlier,
                                       .ldc = n};
    multiply(b, &x->product);
    x->product.a = x->a;
    x->product.c = x->c;
    multiply(b, &x->product);
    free(first);
    if (file != dtype) {
        round_to(file, x->c, m * n);
        round_to(file, x->earlier, m * n);
        x->product.c_dtype = file;
    }
    struct mmul_error err;
    const int64_t most = n > m ? n : m; // for parts of a mesh
    must_succeed(mmul_check_create(most > k ? most : k, k > most ? k : most, &x->check, &err),
                 &err);
}

static void destroy_problem(struct problem *x) {
    mmul_check_destroy(x->check);
    free(x->a);
    free(x->b);
    free(x->c);
    free(x->earlier);
}

static bool find_in_product(void *context, const struct target *t) {
    struct problem *x = context;
    return mmul_check_rows(x->check, &x->product, t->row_begin, t->row_end, x->wrong) > 0;
}

static struct target target_of(const struct problem *x, enum mmul_dtype dtype,
                               enum mmul_dtype file) {
    return (struct target){.dtype = dtype,
                           .file = file,
                           .rows = x->product.m,
                           .cols = x->product.n,
                           .ld = x->product.ldc,
                           .at = x->c,
                           .earlier = x->earlier};
}

static void try_products(struct bench *b, struct row *row, enum mmul_dtype dtype,
                         enum mmul_dtype file, int64_t k_most) {
    struct draws d = {mmul_random_at(5, (uint64_t)dtype * 8 + (uint64_t)file + (uint64_t)k_most),
                      0};
    for (int64_t done = 0; done < b->count; done += each_of(b->count)) {
        struct problem x;
        struct mmul_error err;
        make_problem(b, &d, dtype, file, k_most, &x);
        struct target t = target_of(&x, dtype, file);
        must_succeed(mmul_check_begin(x.check, &x.product, d.count, &err), &err);
        try_faults(row, &t, &d, find_in_product, &x, b->count);
        destroy_problem(&x);
    }
}

// A mesh of 2 x 2 ranks: loops in place of ranks.
struct mesh {
    struct problem *x;
    double *sizes, *bx, *squares, *residuals, *norms; // (n) (k) (n) (m) (m)
};

static struct mmul_product part_of(const struct mmul_product *p, int row, int col, bool has_c) {
    const int64_t i = row * (p->m / 2), i_end = row == 0 ? p->m / 2 : p->m, j = col * (p->n / 2),
                  j_end = col == 0 ? p->n / 2 : p->n;
    struct mmul_product part = *p;
    part.m = i_end - i;
    part.n = j_end - j;
    part.a = (const float *)p->a + i * p->lda;
    part.b = (const float *)p->b + j;
    part.c = has_c ? (float *)p->c + i * p->ldc + j : NULL;
    return part;
}

// Judges as the ranks do: the sums of rows over all blocks, then doubtful rows of a block alone.
static bool find_in_mesh(void *context, const struct target *t) {
    const struct mesh *g = context;
    const struct mmul_product *p = &g->x->product;
    struct mmul_error err;
    (void)t;
    memset(g->residuals, 0, (size_t)p->m * sizeof(double));
    memset(g->norms, 0, (size_t)p->m * sizeof(double));
    double mine[256], norms[256];
    for (int at = 0; at < 4; at++) { // the ranks of a row of the mesh share its columns of A
        struct mmul_product part = part_of(p, at / 2, at % 2, true);
        const int64_t begin = at % 2 * (p->k / 2), end = at % 2 == 0 ? p->k / 2 : p->k;
        const struct mmul_check_part of = {
            p->n, p->k, at % 2 * (p->n / 2), 7 + (uint64_t)at % 2, g->sizes, g->squares};
        (void)mmul_check_part_begin(g->x->check, &part, &of);
        part.a = (const float *)part.a + begin;
        part.k = end - begin;
        mmul_check_part_rows(g->x->check, &part, g->bx + begin, mine, norms);
        for (int64_t i = 0; i < part.m; i++) {
            g->residuals[at / 2 * (p->m / 2) + i] += mine[i];
            g->norms[at / 2 * (p->m / 2) + i] += norms[i];
        }
    }
    for (int at = 0; at < 4; at++) {
        const struct mmul_product part = part_of(p, at / 2, at % 2, true);
        const struct mmul_check_part of = {
            p->n, p->k, at % 2 * (p->n / 2), 7 + (uint64_t)at % 2, g->sizes, g->squares};
        const int64_t row = at / 2 * (p->m / 2);
        bool is_doubtful = !mmul_check_part_begin(g->x->check, &part, &of);
        for (int64_t i = 0; i < part.m && !is_doubtful; i++)
            is_doubtful = !mmul_check_part_is_right(g->x->check, &part, g->residuals[row + i],
                                                    g->norms[row + i]);
        if (!is_doubtful)
            continue;
        must_succeed(mmul_check_begin(g->x->check, &part, 9, &err), &err);
        if (mmul_check_rows(g->x->check, &part, 0, part.m, g->x->wrong) > 0)
            return true;
    }
    return false;
}

static void begin_mesh(struct mesh *g, struct problem *x) {
    const struct mmul_product *p = &x->product;
    *g = (struct mesh){x,
                       must_allocate(p->n, 8),
                       must_allocate(p->k, 8),
                       must_allocate(p->n, 8),
                       must_allocate(p->m, 8),
                       must_allocate(p->m, 8)};
    double other[256];
    double *const bx = must_allocate(p->k, 8);
    for (int round = 0; round < 2; round++)
        for (int at = 0; at < 2; at++) {
            const struct mmul_product part = part_of(p, 0, at, false);
            const int64_t begin = at * (p->n / 2);
            const struct mmul_check_part of = {p->n, p->k, begin, 7 + (uint64_t)at, g->sizes, NULL};
            if (round == 0) {
                mmul_check_part_sizes(x->check, &part, g->sizes + begin);
                continue;
            }
            mmul_check_part_project(x->check, &part, &of, bx, other);
            memcpy(g->squares + begin, other, (size_t)part.n * sizeof *other);
            for (int64_t q = 0; q < p->k; q++)
                g->bx[q] += bx[q];
        }
    free(bx);
}

static void try_mesh(struct bench *b, struct row *row) {
    struct draws d = {mmul_random_at(6, 0), 0};
    for (int64_t done = 0; done < b->count; done += each_of(b->count)) {
        struct problem x;
        struct mesh g;
        make_problem(b, &d, MMUL_F32, MMUL_F32, 400, &x);
        struct target t = target_of(&x, MMUL_F32, MMUL_F32);
        begin_mesh(&g, &x);
        try_faults(row, &t, &d, find_in_mesh, &g, b->count);
        free(g.sizes);
        free(g.bx);
        free(g.squares);
        free(g.residuals);
        free(g.norms);
        destroy_problem(&x);
    }
}

// ------------------------------------------------------------------------------------- operations

// A result other than a product's, in memory, with what the device said about it.
struct made {
    struct bench *bench;
    struct mmul_host_map host;
    uint32_t bits; // right result
    struct mmul_parameters with;
    float *operands[4];
};

struct operation {
    enum mmul_operation_kind kind;
    int64_t rows, cols, operands[4][2]; // 0 rows: no such operand
    enum numbers numbers;
};

static void make_result(struct bench *b, struct draws *d, const struct operation *o,
                        struct made *made) {
    struct mmul_error err;
    *made = (struct made){.bench = b, .with = {.axis = -1, .scale = 0.25, .epsilon = 1e-5}};
    made->host = (struct mmul_host_map){.map = {.kind = o->kind,
                                                .with = &made->with,
                                                .rows = o->rows,
                                                .cols = o->cols,
                                                .shape = {1, 1, o->rows, o->cols},
                                                .matrices = 1},
                                        .ld = o->cols};
    made->host.result = must_allocate(o->rows * o->cols, sizeof(float));
    for (int i = 0; i < 4 && o->operands[i][0] > 0; i++) {
        const int64_t rows = o->operands[i][0], cols = o->operands[i][1];
        made->operands[i] = draw_matrix(d, o->numbers, MMUL_F32, rows, cols);
        made->host.operands[i] = (struct mmul_host_operand){
            .at = made->operands[i], .row_step = cols, .col_step = 1, .rows = rows, .cols = cols};
        made->host.map.operand_count = i + 1;
    }
    must_succeed(mmul_host_map_make(&made->host, b->judge, &err), &err);
    const struct mmul_host_tile all = {made->host.result, o->rows, o->cols, o->cols, MMUL_F32};
    made->bits = mmul_worker_sum_host_bits(&all);
}

static void destroy_result(struct made *made) {
    for (int i = 0; i < 4; i++)
        free(made->operands[i]);
    free(made->host.result);
}

// The kernel has erred: its sum of bits is that of the wrong result, and the sample decides.
static bool find_in_sample(void *context, const struct target *t) {
    struct made *made = context;
    int64_t wrong, looked_at;
    struct mmul_error err;
    must_succeed(mmul_map_check_sample(&made->host, made->bench->judge,
                                       (uint64_t)(t->changed[0] + 1), &wrong, &looked_at, &err),
                 &err);
    return wrong > 0;
}

// The result has changed after the kernel: the sum of bits decides.
static bool find_in_bits(void *context, const struct target *t) {
    const struct made *made = context;
    const struct mmul_host_tile all = {t->at, t->rows, t->cols, t->ld, MMUL_F32};
    return mmul_worker_sum_host_bits(&all) != made->bits;
}

static void try_operation(struct bench *b, struct row *row, const struct operation *o, finder *find,
                          int64_t count) {
    struct draws d = {mmul_random_at(8, (uint64_t)o->kind), 0};
    for (int64_t done = 0; done < count; done += each_of(count)) {
        struct made made, earlier;
        make_result(b, &d, o, &earlier);
        make_result(b, &d, o, &made);
        struct target t = {.dtype = MMUL_F32,
                           .file = MMUL_F32,
                           .rows = o->rows,
                           .cols = o->cols,
                           .ld = o->cols,
                           .at = made.host.result,
                           .earlier = earlier.host.result};
        try_faults(row, &t, &d, find, &made, count);
        destroy_result(&made);
        destroy_result(&earlier);
    }
}

// ------------------------------------------------------------------------------- sums and bytes

enum { RANKS = 4 };

// Summands of ranks, and the lines of their sum.
struct summands {
    int64_t rows, cols;
    double *expected, *sizes; // (rows)
    enum mmul_dtype dtype;
    uint64_t hash;
};

static bool find_in_lines(void *context, const struct target *t) {
    const struct summands *s = context;
    for (int64_t i = t->row_begin; i < t->row_end; i++) {
        double found = 0;
        for (int64_t j = 0; j < t->cols; j++)
            found += mmul_move_sum_weight(j) * get(t, i * t->ld + j);
        if (!mmul_move_sum_is_right(found, s->expected[i], s->sizes[i], RANKS, s->dtype, t->cols))
            return true;
    }
    return false;
}

static bool find_in_hash(void *context, const struct target *t) {
    const struct summands *s = context;
    return mmul_hash(t->at, (size_t)(t->rows * t->cols) * mmul_dtype_bytes(t->dtype)) != s->hash;
}

// Adds up the ranks' summands into a new matrix.
static void *add_up(struct draws *d, struct summands *s) {
    void *const sum = must_allocate(s->rows * s->cols, mmul_dtype_bytes(s->dtype));
    memset(s->expected, 0, (size_t)s->rows * sizeof(double));
    memset(s->sizes, 0, (size_t)s->rows * sizeof(double));
    for (int rank = 0; rank < RANKS; rank++) {
        void *const summand = draw_matrix(d, draw_kind(d), s->dtype, s->rows, s->cols);
        for (int64_t at = 0; at < s->rows * s->cols; at++) {
            const double value = mmul_dtype_get_real(s->dtype, summand, at);
            s->expected[at / s->cols] += mmul_move_sum_weight(at % s->cols) * value;
            s->sizes[at / s->cols] += fabs(value);
            mmul_dtype_set_real(s->dtype, sum, at, mmul_dtype_get_real(s->dtype, sum, at) + value);
        }
        free(summand);
    }
    s->hash = mmul_hash(sum, (size_t)(s->rows * s->cols) * mmul_dtype_bytes(s->dtype));
    return sum;
}

static void try_sums(struct bench *b, struct row *row, enum mmul_dtype dtype, finder *find) {
    struct draws d = {mmul_random_at(9, (uint64_t)dtype), 0};
    for (int64_t done = 0; done < b->count; done += each_of(b->count)) {
        struct summands s = {
            20 + draw_below(&d, 180), 20 + draw_below(&d, 180), NULL, NULL, dtype, 0};
        s.expected = must_allocate(s.rows, sizeof(double));
        s.sizes = must_allocate(s.rows, sizeof(double));
        void *const earlier = add_up(&d, &s), *const sum = add_up(&d, &s);
        struct target t = {.dtype = dtype,
                           .file = dtype,
                           .rows = s.rows,
                           .cols = s.cols,
                           .ld = s.cols,
                           .at = sum,
                           .earlier = earlier};
        try_faults(row, &t, &d, find, &s, b->count);
        free(earlier);
        free(sum);
        free(s.expected);
        free(s.sizes);
    }
}

// ---------------------------------------------------------------------------------------- report

static void print_row(const struct row *row) {
    printf("# %-44s", row->name);
    for (int f = 0; f < FAULTS; f++) {
        const struct cell *c = &row->cells[f];
        char text[64];
        snprintf(text, sizeof text, "%lld/%lld/%lld", (long long)c->found, (long long)c->below,
                 (long long)c->missed);
        printf(" %15s", text);
    }
    printf("\n");
}

// Reports a row that must miss nothing; `samples`: it may.
static void report_row(const struct row *row, bool samples) {
    char detail[256];
    int64_t missed = 0, found = 0;
    for (int f = 0; f < FAULTS; f++) {
        missed += row->cells[f].missed;
        found += row->cells[f].found;
    }
    print_row(row);
    snprintf(detail, sizeof detail, "%lld faults missed", (long long)missed);
    if (!samples)
        report_point(missed == 0 && found > 0, row->name, detail);
}

static void test_products(struct bench *b) {
    struct row rows[] = {
        {"product float32", 0.1, {{0}}},           {"product float32, k <= 4", 1e-4, {{0}}},
        {"product float64", 1e-6, {{0}}},          {"product, file of float16", 0.1, {{0}}},
        {"product, file of bfloat16", 0.5, {{0}}}, {"product of a grid, float32", 0.1, {{0}}}};
    try_products(b, &rows[0], MMUL_F32, MMUL_F32, 700);
    try_products(b, &rows[1], MMUL_F32, MMUL_F32, 4);
    if (b->has_doubles)
        try_products(b, &rows[2], MMUL_F64, MMUL_F64, 700);
    try_products(b, &rows[3], MMUL_F32, MMUL_F16, 300);
    try_products(b, &rows[4], MMUL_F32, MMUL_BF16, 300);
    try_mesh(b, &rows[5]);
    for (int i = 0; i < 6; i++)
        if (i != 2 || b->has_doubles)
            report_row(&rows[i], false);
}

static void test_operations(struct bench *b) {
    static const struct {
        const char *name;
        struct operation operation;
        bool is_large; // sampled by the check
    } operations[] = {
        {"gelu 90 x 110", {MMUL_GELU, 90, 110, {{90, 110}}, NORMAL}, false},
        {"gelu 700 x 900", {MMUL_GELU, 700, 900, {{700, 900}}, NORMAL}, true},
        {"relu of whole numbers 512 x 512", {MMUL_RELU, 512, 512, {{512, 512}}, WHOLE}, true},
        {"softmax 80 x 120", {MMUL_SOFTMAX, 80, 120, {{80, 120}}, NORMAL}, false},
        {"softmax 700 x 900", {MMUL_SOFTMAX, 700, 900, {{700, 900}}, NORMAL}, true},
        {"sum 60 x 512", {MMUL_SUM, 60, 1, {{60, 512}}, UNIT}, false},
        {"sum 4000 x 256", {MMUL_SUM, 4000, 1, {{4000, 256}}, UNIT}, true},
        {"attention 40 x 48",
         {MMUL_ATTENTION, 40, 16, {{40, 16}, {48, 16}, {48, 16}}, NORMAL},
         false},
    };
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        const struct operation *o = &operations[i].operation;
        char name[96];
        struct row row = {.name = name, .promise = 0.05};
        snprintf(name, sizeof name, "%s: wrong kernel", operations[i].name);
        try_operation(b, &row, o, find_in_sample, (b->count + 9) / 10);
        report_row(&row, operations[i].is_large);
        row = (struct row){.name = name};
        snprintf(name, sizeof name, "%s: changed later", operations[i].name);
        try_operation(b, &row, o, find_in_bits,
                      operations[i].is_large ? (b->count + 3) / 4 : b->count);
        report_row(&row, false);
    }
}

static void test_sums(struct bench *b) {
    struct row rows[] = {{"summands of 4 ranks, float32", 2e-4, {{0}}},
                         {"summands of 4 ranks, float64", 1e-10, {{0}}},
                         {"bytes sent, of a shard or checkpoint", 0, {{0}}}};
    try_sums(b, &rows[0], MMUL_F32, find_in_lines);
    try_sums(b, &rows[1], MMUL_F64, find_in_lines);
    try_sums(b, &rows[2], MMUL_F32, find_in_hash);
    for (int i = 0; i < 3; i++)
        report_row(&rows[i], false);
}

int main(int argc, char **argv) {
    struct mmul_device *device = open_device(argc, argv);
    struct bench b = {.has_doubles = mmul_device_has_dtype(device, MMUL_F64),
                      .count = number_from("DETECTION_FAULTS", 20)};
    struct mmul_error err;
    b.context = (struct mmul_context){.comm = &b.comm, .device = device, .fallback_threads = 1};
    snprintf(b.context.device_name, sizeof b.context.device_name, "%s", argv[1]);
    must_succeed(mmul_device_open("reference", &b.judge, &err), &err);
    printf("# %-44s", "found/below the tolerance/missed");
    for (int f = 0; f < FAULTS; f++)
        printf(" %15s", fault_names[f]);
    printf("\n");
    test_products(&b);
    test_operations(&b);
    test_sums(&b);
    mmul_device_close(b.judge);
    mmul_text_fini(&b.context.warnings);
    return close_device(device);
}
