// SPDX-License-Identifier: MIT
//
// The check raises no false alarm on operations other than products: `map_alarm_test NAME`. Random
// operations on the device with random sizes and numbers. An operation with a wrong row in the
// check's sample is printed with its seed and its first wrong element. A trusted device is not
// checked, so it is not tested.
// ALARM_CASES sets the number of operations, ALARM_SEED the first seed.
#include "alarm_numbers.h"
#include "base/text.h"
#include "exec/steps/map_check.h"
#include "tap.h"

enum { OPERANDS = MMUL_OPERANDS, KINDS = MMUL_OPERATION_KINDS };

struct map_case {
    uint64_t seed;
    enum mmul_operation_kind kind;
    enum mmul_dtype dtype;
    enum numbers numbers[OPERANDS];
    int64_t rows, cols;            // sizes of the result
    int64_t operands[OPERANDS][2]; // rows, columns
    int64_t limits[OPERANDS];      // whole numbers below it; 0: other numbers
    int count;
    struct mmul_parameters with;
    struct mmul_host_map host;
    int64_t wrong, looked_at;
};

struct bench {
    struct mmul_comm comm;
    struct mmul_context context;
    struct mmul_worker worker;
    struct mmul_device *judge;
};

// ---------------------------------------------------------------------------------------- shapes

static void set_operand(struct map_case *c, int64_t rows, int64_t cols, int64_t limit) {
    c->operands[c->count][0] = rows;
    c->operands[c->count][1] = cols;
    c->limits[c->count++] = limit;
}

static void shape_attention(struct map_case *c, struct draws *d) {
    const int64_t queries = draw_size(d, 60), keys = draw_size(d, 80), depth = draw_size(d, 32),
                  cols = draw_size(d, 32);
    const bool is_sums = c->kind == MMUL_ATTENTION_SUMS,
               by_key = mmul_operation_row(c->kind)->parts[0] == 'a';
    set_operand(c, queries, depth, 0);
    set_operand(c, keys, depth, 0);
    set_operand(c, is_sums ? queries : keys, cols, 0);
    if (c->kind != MMUL_ATTENTION)
        set_operand(c, queries, cols, 0);
    if (c->kind != MMUL_ATTENTION && !is_sums)
        set_operand(c, queries, 2, 0);
    if (draw_below(d, 3) == 0)
        set_operand(c, queries, keys, 0);
    c->rows = by_key ? keys : queries;
    c->cols = is_sums                                                             ? 2
              : c->kind == MMUL_ATTENTION_BACKWARD_MASK                           ? keys
              : c->kind == MMUL_ATTENTION_BACKWARD_V || c->kind == MMUL_ATTENTION ? cols
                                                                                  : depth;
    c->with.scale = 1 / sqrt((double)depth);
    c->with.causal = draw_below(d, 2) == 0;
}

static void shape_rows(struct map_case *c, struct draws *d) {
    const struct mmul_operation_row *row = mmul_operation_row(c->kind);
    const int64_t rows = c->rows, cols = c->cols;
    set_operand(c, rows, c->kind == MMUL_ONE_HOT ? 1 : cols, c->kind == MMUL_ONE_HOT ? cols : 0);
    for (int i = 1; i < row->most; i++) {
        const bool is_index = row->indices == i + 1,
                   is_loss =
                       c->kind == MMUL_CROSS_ENTROPY || c->kind == MMUL_CROSS_ENTROPY_BACKWARD;
        if (i < row->by_row || draw_below(d, 2) == 0)
            set_operand(c, i < row->by_row ? rows : 1, is_loss ? 1 : cols, is_index ? cols : 0);
        else
            break;
    }
    c->with.axis = -1;
    c->with.count = c->kind == MMUL_TOPK ? 1 + draw_below(d, cols) : cols;
    if (c->kind == MMUL_TOPK)
        c->cols = 2 * c->with.count;
    if (c->kind == MMUL_ARGMAX || c->kind == MMUL_ARGMIN || c->kind == MMUL_CROSS_ENTROPY)
        c->cols = 1;
}

static void shape_case(struct map_case *c, struct draws *d) {
    c->rows = draw_size(d, 300);
    c->cols = draw_size(d, 600);
    if (draw_below(d, 20) == 0) // larger than what is checked whole
        c->rows = 200 + draw_below(d, 2000);
    else if (draw_below(d, 50) == 0) {
        c->cols = 20000 + draw_below(d, 100000);
        c->rows = 1 + draw_below(d, 3);
    }
    c->with = (struct mmul_parameters){.epsilon = draw_below(d, 2) == 0 ? 1e-5 : 1e-6,
                                       .causal = draw_below(d, 2) == 0,
                                       .descending = draw_below(d, 2) == 0,
                                       .base = 10000,
                                       .scale = draw_below(d, 2) == 0 ? 1 : -1};
    switch (mmul_operation_row(c->kind)->class) {
    case MMUL_CLASS_ELEMENTS:
        for (int i = 0; i < mmul_operation_row(c->kind)->most; i++)
            set_operand(c, draw_below(d, 4) == 0 ? 1 : c->rows, draw_below(d, 4) == 0 ? 1 : c->cols,
                        0);
        break;
    case MMUL_CLASS_ROWS:
        c->cols += c->kind == MMUL_ROPE ? c->cols % 2 : 0;
        shape_rows(c, d);
        break;
    case MMUL_CLASS_REDUCE: {
        const bool is_down = draw_below(d, 2) == 0 || c->kind == MMUL_SUM_AT;
        const int64_t count = 1 + draw_below(d, 40);
        c->with.axis = is_down ? -2 : -1;
        c->with.count = count;
        set_operand(c, c->rows, c->cols, 0);
        if (c->kind == MMUL_SUM_AT)
            set_operand(c, c->rows, 1, count);
        c->rows = c->kind == MMUL_SUM_AT ? count : is_down ? 1 : c->rows;
        c->cols = is_down ? c->cols : 1;
        break;
    }
    case MMUL_CLASS_LOOKUP: {
        const int64_t table = 1 + draw_below(d, 50);
        set_operand(c, table, c->cols, 0);
        set_operand(c, 1, c->rows, table);
        break;
    }
    case MMUL_CLASS_ATTENTION:
        shape_attention(c, d);
        break;
    default:
        set_operand(c, c->rows, c->cols, 0);
    }
}

// ------------------------------------------------------------------------------------------ cases

// Attention takes numbers of moderate size. Its sums have to fit its other operands: their powers
// would overflow a float otherwise.
static double draw_element(const struct map_case *c, struct draws *d, int operand, double line) {
    const bool is_attention = mmul_operation_row(c->kind)->class == MMUL_CLASS_ATTENTION;
    const int least = mmul_operation_row(c->kind)->least;
    if (c->limits[operand] > 0)
        return (double)draw_below(d, c->limits[operand]);
    if (is_attention && operand == least) // the mask
        return draw_below(d, 4) == 0 ? -INFINITY : draw_unit(d);
    if (is_attention && operand == 4)
        return 1 + draw_unit(d);
    if (c->kind == MMUL_SOFTMAX_BACKWARD && operand == 0) // powers over their sum
        return draw_unit(d);
    return draw_number(d, c->numbers[operand], range_of(c->dtype), line);
}

static void fill_operand(struct map_case *c, struct draws *d, int i) {
    struct mmul_host_operand *o = &c->host.operands[i];
    const int64_t rows = c->operands[i][0], cols = c->operands[i][1];
    void *const at = must_allocate(rows * cols, mmul_dtype_bytes(c->dtype));
    const bool repeats_rows =
        rows == 1 && mmul_operation_row(c->kind)->class == MMUL_CLASS_ELEMENTS;
    const bool repeats_cols =
        cols == 1 && mmul_operation_row(c->kind)->class == MMUL_CLASS_ELEMENTS;
    for (int64_t row = 0; row < rows; row++) {
        const double line = draw_unit(d);
        double sum = 0;
        for (int64_t col = 0; col < cols; col++) {
            const double value = draw_element(c, d, i, line);
            mmul_dtype_set_real(c->dtype, at, row * cols + col, value);
            sum += value;
        }
        for (int64_t col = 0; c->kind == MMUL_SOFTMAX_BACKWARD && i == 0 && col < cols; col++)
            mmul_dtype_set_real(c->dtype, at, row * cols + col,
                                mmul_dtype_get_real(c->dtype, at, row * cols + col) / sum);
    }
    *o = (struct mmul_host_operand){.at = at,
                                    .dtype = c->dtype,
                                    .row_step = repeats_rows ? 0 : cols,
                                    .col_step = repeats_cols ? 0 : 1,
                                    .rows = repeats_rows ? c->rows : rows,
                                    .cols = repeats_cols ? c->cols : cols};
}

static bool is_tried(enum mmul_operation_kind kind) {
    const struct mmul_operation_row *row = mmul_operation_row(kind);
    const bool is_shaped_otherwise =
        kind == MMUL_CAST || kind == MMUL_CONCAT || kind == MMUL_PERMUTE || kind == MMUL_RESHAPE;
    return row->class != MMUL_CLASS_OWN && row->accuracy != MMUL_UNCHECKED && !is_shaped_otherwise;
}

static void draw_case(struct map_case *c, uint64_t seed) {
    static const enum numbers moderate[] = {UNIT, SIGNED, NORMAL, WHOLE, SPARSE, CONSTANT};
    struct draws d = {mmul_random_at(seed, 0), 0};
    *c = (struct map_case){.seed = seed};
    do
        c->kind = (enum mmul_operation_kind)draw_below(&d, KINDS);
    while (!is_tried(c->kind));
    c->dtype = draw_below(&d, 4) == 0 ? MMUL_F64 : MMUL_F32;
    for (int i = 0; i < OPERANDS; i++)
        c->numbers[i] = mmul_operation_row(c->kind)->class == MMUL_CLASS_ATTENTION
                            ? moderate[draw_below(&d, 6)]
                        : i > 0 && draw_below(&d, 3) == 0 ? c->numbers[0]
                                                          : (enum numbers)draw_below(&d, NUMBERS);
    shape_case(c, &d);
    c->host = (struct mmul_host_map){.map = {.kind = c->kind,
                                             .with = &c->with,
                                             .rows = c->rows,
                                             .cols = c->cols,
                                             .shape = {1, 1, c->rows, c->cols},
                                             .matrices = 1,
                                             .operand_count = c->count},
                                     .dtype = c->dtype,
                                     .ld = c->cols};
    c->host.result = must_allocate(c->rows * c->cols, mmul_dtype_bytes(c->dtype));
    for (int i = 0; i < c->count; i++)
        fill_operand(c, &d, i);
}

static void destroy_case(struct map_case *c) {
    for (int i = 0; i < c->count; i++)
        free((void *)(uintptr_t)c->host.operands[i].at);
    free(c->host.result);
}

// Prints the first element that differs by more than a millionth.
static void print_alarm(struct map_case *c, struct mmul_device *judge) {
    struct mmul_host_map again = c->host;
    struct mmul_error err;
    again.result = must_allocate(c->rows * c->cols, mmul_dtype_bytes(c->dtype));
    must_succeed(mmul_host_map_make(&again, judge, &err), &err);
    int64_t at = 0;
    double found = 0, expected = 0, squares = 0, most = 0;
    for (int64_t e = 0; e < c->rows * c->cols; e++) {
        const double x = mmul_dtype_get_real(c->dtype, again.result, e),
                     y = mmul_dtype_get_real(c->dtype, c->host.result, e);
        const bool is_same = x == y || (isnan(x) && isnan(y));
        const double error = is_same ? 0 : isfinite(x) && isfinite(y) ? fabs(x - y) : INFINITY;
        squares += isfinite(x) ? x * x : 0;
        if (error <= most)
            continue;
        at = e;
        most = error;
        found = y;
        expected = x;
    }
    printf("# seed %llu: %s, %lld x %lld, %s and %s, float%d: %lld of %lld rows; element %lld is "
           "%.9g, "
           "not %.9g, root mean square %.3g; first operand %lld x %lld\n",
           (unsigned long long)c->seed, mmul_operation_row(c->kind)->name, (long long)c->rows,
           (long long)c->cols, numbers_names[c->numbers[0]], numbers_names[c->numbers[1]],
           c->dtype == MMUL_F64 ? 64 : 32, (long long)c->wrong, (long long)c->looked_at,
           (long long)at, found, expected, sqrt(squares / (double)(c->rows * c->cols)),
           (long long)c->operands[0][0], (long long)c->operands[0][1]);
    free(again.result);
}

static void run_case(struct bench *bench, struct map_case *c) {
    uint32_t carried;
    struct mmul_error err;
    const struct mmul_worker_options options = {.kept_bytes = 1 << 26};
    must_succeed(mmul_worker_init(&bench->worker, &bench->context, &options, &err), &err);
    c->host.map.carried =
        c->dtype == MMUL_F32 && mmul_map_supports_checksum(c->kind) ? &carried : NULL;
    must_succeed(mmul_worker_map(&bench->worker, &c->host, &err), &err);
    must_succeed(
        mmul_map_check_sample(&c->host, bench->judge, c->seed, &c->wrong, &c->looked_at, &err),
        &err);
    c->wrong += bench->worker.download_errors;
    mmul_worker_fini(&bench->worker);
    c->host.map.carried = NULL;
}

int main(int argc, char **argv) {
    struct mmul_device *device = open_device(argc, argv);
    struct bench bench = {.context = {.device = device, .fallback_threads = 1}};
    struct mmul_error err;
    bench.context.comm = &bench.comm;
    snprintf(bench.context.device_name, sizeof bench.context.device_name, "%s", argv[1]);
    must_succeed(mmul_device_open("reference", &bench.judge, &err), &err);
    const int64_t first = number_from("ALARM_SEED", 1);
    const int64_t count = mmul_device_is_trusted(device) ? 0 : number_from("ALARM_CASES", 200);
    int64_t cases[KINDS] = {0}, alarms[KINDS] = {0}, all = 0;
    for (int64_t at = 0; at < count; at++) {
        struct map_case c;
        draw_case(&c, (uint64_t)(first + at));
        run_case(&bench, &c);
        cases[c.kind]++;
        alarms[c.kind] += c.wrong > 0;
        all += c.wrong > 0;
        if (c.wrong > 0)
            print_alarm(&c, bench.judge);
        destroy_case(&c);
    }
    for (int kind = 0; kind < KINDS; kind++)
        if (alarms[kind] > 0)
            printf("# %s: %lld alarms in %lld\n",
                   mmul_operation_row((enum mmul_operation_kind)kind)->name,
                   (long long)alarms[kind], (long long)cases[kind]);
    printf("# %lld operations, %lld alarms\n", (long long)count, (long long)all);
    report_point(all == 0, "the check calls no row of a correct operation wrong",
                 "see the seeds above");
    mmul_device_close(bench.judge);
    mmul_text_fini(&bench.context.warnings);
    return close_device(device);
}
