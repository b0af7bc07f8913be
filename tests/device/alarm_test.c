// SPDX-License-Identifier: MIT
//
// The check raises no false alarm on products: `alarm_test NAME`. Random products on the device:
// any types, sizes, orientations, factors and numbers, among them subnormal ones, some near
// overflow, NaN and Inf. A product with a wrong line is printed with its seed, and with its largest
// error as a part of the worst case of any order of summation. Above 1 the device is wrong, below
// the check is.
// ALARM_CASES sets the number of products, ALARM_SEED the first seed.
#include <float.h>

#include "alarm_numbers.h"
#include "base/text.h"
#include "exec/worker/verify.h"
#include "tap.h"

// A stored matrix of an operand.
struct operand {
    enum mmul_dtype dtype;
    int64_t rows, cols, ld;
    bool transposed; // rows and cols are those of op(X)
    double *exact;   // (rows, cols) of op(X)
    void *stored;
};

static void set_stored(struct operand *x, int64_t i, int64_t j, double value) {
    const int64_t at = x->transposed ? j * x->ld + i : i * x->ld + j;
    if (x->dtype == MMUL_F64 || x->dtype == MMUL_F32) {
        mmul_dtype_set_real(x->dtype, x->stored, at, value);
        x->exact[i * x->cols + j] = mmul_dtype_get_real(x->dtype, x->stored, at);
        return;
    }
    uint16_t *const halves = x->stored;
    const float single = (float)value;
    float back;
    mmul_dtype_narrow(x->dtype, &single, 1, &halves[at]);
    mmul_dtype_widen(x->dtype, &halves[at], 1, &back);
    x->exact[i * x->cols + j] = (double)back;
}

static struct operand make_operand(struct draws *d, enum numbers numbers, enum mmul_dtype dtype,
                                   int64_t rows, int64_t cols, bool transposed) {
    struct operand x = {dtype,      rows, cols, (transposed ? rows : cols) + draw_below(d, 3),
                        transposed, NULL, NULL};
    const uint64_t lines = mmul_random_at(d->seed, d->count++);
    const struct range range = range_of(dtype);
    x.exact = must_allocate(rows * cols, sizeof(double));
    x.stored = must_allocate((transposed ? cols : rows) * x.ld, sizeof(double));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            const int64_t line = numbers == COLS_SCALED ? rows + j : i;
            const double at = (double)(mmul_random_at(lines, (uint64_t)line) >> 11) * 0x1p-53;
            set_stored(&x, i, j, draw_number(d, numbers, range, at));
        }
    return x;
}

static void destroy_operand(struct operand *x) {
    free(x->exact);
    free(x->stored);
}

// Makes term 2 q + 1 of each sum nearly the negative of term 2 q.
static void make_cancelling(struct draws *d, struct operand *a, struct operand *b) {
    for (int64_t p = 1; p < a->cols; p += 2) {
        for (int64_t i = 0; i < a->rows; i++)
            set_stored(a, i, p, a->exact[i * a->cols + p - 1]);
        for (int64_t j = 0; j < b->cols; j++)
            set_stored(b, p, j, -b->exact[(p - 1) * b->cols + j] * (1 + draw_normal(d) * 0x1p-20));
    }
}

// ------------------------------------------------------------------------------------- a product

struct alarm_case {
    uint64_t seed;
    enum numbers a_numbers, b_numbers;
    enum mmul_axis axis;
    bool lasts; // the device keeps the operands
    struct operand a, b, c_in, c;
    struct mmul_product product;
    int64_t lines, wrong;
    double worst; // largest error, as a part of the worst case
};

static double draw_factor(struct draws *d) {
    static const double factors[] = {1, 1, 1, -1, 2.5, 0x1.333334p-2, 0x1p-70, 0x1p40};
    return factors[draw_below(d, 8)];
}

static void draw_types(struct draws *d, bool has_doubles, enum mmul_dtype types[3]) {
    static const enum mmul_dtype choices[][3] = {
        {MMUL_F32, MMUL_F32, MMUL_F32},   {MMUL_F32, MMUL_F32, MMUL_F32},
        {MMUL_F64, MMUL_F64, MMUL_F64},   {MMUL_F16, MMUL_F16, MMUL_F32},
        {MMUL_BF16, MMUL_BF16, MMUL_F32}, {MMUL_F16, MMUL_BF16, MMUL_F32},
        {MMUL_F32, MMUL_F32, MMUL_F16},   {MMUL_BF16, MMUL_BF16, MMUL_BF16}};
    int choice = (int)draw_below(d, 8);
    if (choice == 2 && !has_doubles)
        choice = 0;
    memcpy(types, choices[choice], 3 * sizeof *types);
}

static void draw_case(struct alarm_case *c, uint64_t seed, bool has_doubles) {
    static const int64_t work = 3000000;
    struct draws d = {mmul_random_at(seed, 0), 0};
    enum mmul_dtype types[3];
    *c = (struct alarm_case){.seed = seed};
    draw_types(&d, has_doubles, types);
    c->a_numbers = (enum numbers)draw_below(&d, NUMBERS);
    c->b_numbers = draw_below(&d, 2) == 0 ? c->a_numbers : (enum numbers)draw_below(&d, NUMBERS);
    const int64_t k = draw_below(&d, 5) == 0 ? 1 + draw_below(&d, 6) : draw_size(&d, 6000),
                  m = draw_size(&d, work / k < 400 ? work / k : 400),
                  n = draw_size(&d, work / (k * m) < 400 ? work / (k * m) : 400);
    c->a = make_operand(&d, c->a_numbers, types[0], m, k, draw_below(&d, 2) == 0);
    c->b = make_operand(&d, c->b_numbers, types[1], k, n, draw_below(&d, 2) == 0);
    if (c->a_numbers == CANCELLING)
        make_cancelling(&d, &c->a, &c->b);
    const enum mmul_dtype computed = types[0] == MMUL_F64 ? MMUL_F64 : MMUL_F32;
    static const enum numbers added[] = {NORMAL, WHOLE, WIDE, SPECIAL, SUBNORMAL};
    c->c_in = make_operand(&d, added[draw_below(&d, 5)], computed, m, n, false);
    c->c = make_operand(&d, CONSTANT, computed, m, n, false);
    c->axis = draw_below(&d, 2) == 0 ? MMUL_ROWS : MMUL_COLS;
    c->lasts = types[0] == MMUL_F32 && types[2] == MMUL_F32 && draw_below(&d, 2) == 0;
    c->product = (struct mmul_product){.transpose_a = c->a.transposed,
                                       .transpose_b = c->b.transposed,
                                       .m = m,
                                       .n = n,
                                       .k = k,
                                       .alpha = draw_below(&d, 50) == 0 ? 0 : draw_factor(&d),
                                       .beta = draw_below(&d, 3) > 0 ? 0 : draw_factor(&d),
                                       .a = c->a.stored,
                                       .a_dtype = types[0],
                                       .lda = c->a.ld,
                                       .b = c->b.stored,
                                       .b_dtype = types[1],
                                       .ldb = c->b.ld,
                                       .c_in = c->c_in.stored,
                                       .ldc_in = c->c_in.ld,
                                       .c = c->c.stored,
                                       .ldc = c->c.ld,
                                       .c_dtype = types[2] == MMUL_F64 ? MMUL_F32 : types[2]};
}

static void destroy_case(struct alarm_case *c) {
    destroy_operand(&c->a);
    destroy_operand(&c->b);
    destroy_operand(&c->c_in);
    destroy_operand(&c->c);
}

// Rounds C to the 16-bit type of a file, and back.
static void round_result(struct alarm_case *c) {
    float *const result = c->c.stored;
    for (int64_t i = 0; i < c->product.m && c->product.c_dtype != MMUL_F32; i++) {
        float *const row = result + i * c->product.ldc;
        uint16_t *const halves = must_allocate(c->product.n, sizeof *halves);
        mmul_dtype_narrow(c->product.c_dtype, row, c->product.n, halves);
        mmul_dtype_widen(c->product.c_dtype, halves, c->product.n, row);
        free(halves);
    }
}

// Returns an element's error as a part of (k + 4) u times the size of its terms.
static double find_error(const struct alarm_case *c, int64_t i, int64_t j) {
    const struct mmul_product *p = &c->product;
    const bool is_double = p->a_dtype == MMUL_F64;
    long double sum = 0, size = 0;
    for (int64_t q = 0; q < p->k && p->alpha != 0; q++) {
        const long double term =
            (long double)c->a.exact[i * p->k + q] * c->b.exact[q * p->n + j] * p->alpha;
        sum += term;
        size += fabsl(term) * fmaxl(1, 1 / fabsl((long double)p->alpha));
    }
    if (p->beta != 0) {
        const long double added = (long double)p->beta * c->c_in.exact[i * p->n + j];
        sum += added;
        size += fabsl(added);
    }
    const double found =
        mmul_dtype_get_real(is_double ? MMUL_F64 : MMUL_F32, c->c.stored, i * p->ldc + j);
    const double largest = p->c_dtype == MMUL_F16 ? 65504 : is_double ? DBL_MAX : (double)FLT_MAX;
    if (!isfinite(sum) || size > largest)
        return 0;
    const double unit = p->c_dtype == MMUL_F16    ? 0x1p-11
                        : p->c_dtype == MMUL_BF16 ? 0x1p-8
                        : is_double               ? 0x1p-53
                                                  : 0x1p-24,
                 tiny = is_double ? DBL_MIN : (double)FLT_MIN;
    return (double)(fabsl(found - sum) /
                    (((double)p->k + 4) * ((long double)unit * size + (long double)tiny)));
}

struct bench {
    struct mmul_comm comm;
    struct mmul_context context;
    struct mmul_verifier_memory room;
    bool has_doubles;
};

static void run_case(struct bench *bench, struct alarm_case *c) {
    const struct mmul_product *p = &c->product;
    const int64_t most = p->m > p->n ? p->m : p->n;
    const struct mmul_worker_options options = {
        .tile = {.m = p->m,
                 .n = p->n,
                 .k = p->k,
                 .a_lanes = 1,
                 .b_lanes = 1,
                 .c_lanes = 1,
                 .free_bytes = c->lasts ? 1 << 24 : 0},
        .a_dtype = p->a_dtype,
        .b_dtype = p->b_dtype,
        .lasting = c->lasts ? MMUL_LASTING_A | MMUL_LASTING_B | MMUL_LASTING_C : 0};
    struct mmul_worker worker;
    struct mmul_verifier verifier;
    struct mmul_error err;
    must_succeed(mmul_worker_init(&worker, &bench->context, &options, &err), &err);
    must_succeed(mmul_verifier_init(&verifier, &bench->room,
                                    &(struct mmul_verifier_request){.axis = c->axis,
                                                                    .piece_units_max = most,
                                                                    .panel_units_max = most,
                                                                    .k_max = p->k,
                                                                    .piece_count = 1,
                                                                    .seed = c->seed},
                                    &err),
                 &err);
    must_succeed(mmul_worker_multiply(&worker, p, &err), &err);
    round_result(c);
    const struct mmul_verifier_block block = {.product = p, .place = "a block"};
    struct mmul_verification v = {.method = &mmul_product_check,
                                  .verifier = &verifier,
                                  .worker = &worker,
                                  .block = &block,
                                  .place = block.place};
    must_succeed(mmul_product_check.look(&v, &err), &err);
    c->lines = v.lines;
    c->wrong = v.wrong;
    for (int64_t i = 0; c->wrong > 0 && i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++)
            c->worst = fmax(c->worst, find_error(c, i, j));
    mmul_worker_fini(&worker);
}

static void print_alarm(const struct alarm_case *c) {
    const struct mmul_product *p = &c->product;
    printf("# seed %llu: %lld x %lld by %lld, %s by %s, types %d %d %d, alpha %g, beta %g, "
           "%s: %lld of %lld lines, largest error %.3g of the worst case\n",
           (unsigned long long)c->seed, (long long)p->m, (long long)p->k, (long long)p->n,
           numbers_names[c->a_numbers], numbers_names[c->b_numbers], p->a_dtype, p->b_dtype,
           p->c_dtype, p->alpha, p->beta, c->axis == MMUL_ROWS ? "columns" : "rows",
           (long long)c->wrong, (long long)c->lines, c->worst);
}

int main(int argc, char **argv) {
    struct mmul_device *device = open_device(argc, argv);
    struct bench bench = {.has_doubles = mmul_device_has_dtype(device, MMUL_F64)};
    bench.context =
        (struct mmul_context){.comm = &bench.comm, .device = device, .fallback_threads = 1};
    snprintf(bench.context.device_name, sizeof bench.context.device_name, "%s", argv[1]);
    const int64_t count = number_from("ALARM_CASES", 100), first = number_from("ALARM_SEED", 1);
    int64_t cases[NUMBERS] = {0}, alarms = 0, lines = 0;
    for (int64_t at = 0; at < count; at++) {
        struct alarm_case c;
        draw_case(&c, (uint64_t)(first + at), bench.has_doubles);
        run_case(&bench, &c);
        cases[c.a_numbers]++;
        lines += c.lines;
        alarms += c.wrong > 0;
        if (c.wrong > 0)
            print_alarm(&c);
        destroy_case(&c);
    }
    for (int n = 0; n < NUMBERS; n++)
        printf("# %lld of A with %s numbers\n", (long long)cases[n], numbers_names[n]);
    printf("# %lld products, %lld lines, %lld alarms\n", (long long)count, (long long)lines,
           (long long)alarms);
    report_point(alarms == 0, "the check calls no line of a correct product wrong",
                 "see the seeds above");
    mmul_verifier_room_fini(&bench.room);
    mmul_text_fini(&bench.context.warnings);
    return close_device(device);
}
