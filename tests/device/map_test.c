// SPDX-License-Identifier: MIT
//
// Conformance test of a device, operations: compares every operation of programs on the device that
// the command line names with the reference device, element by element, for all operand layouts, in
// float32 and float64. map_numpy.py compares the reference device with numpy. Gaps between the rows
// of a result must keep their contents.
#include <unistd.h>

#include "map_attention.h"
#include "map_stacks.h"

// ------------------------------------------------------------------------------------- elements

static const int64_t sizes[][2] = {{1, 1},    {1, 7},    {7, 1},    {63, 65}, {65, 63},
                                   {3, 1001}, {1001, 3}, {130, 67}, {1, 5003}};
enum { SIZES = sizeof sizes / sizeof *sizes };

// Cases of the operations of the table, with the errors that it allows. More kinds of operands
// follow below.
struct element_case {
    enum mmul_operation_kind kind;
    enum flavour flavours[3];
    double ulps, absolute; // absolute: added to that of the operation, below
};
static const struct element_case table_cases[] = {
#define FUNCTION(KIND, NAME, FLOPS, ACCURACY, ULPS, ...)            \
    {MMUL_##KIND, {REAL}, ULPS, 0}, {MMUL_##KIND, {WIDE}, ULPS, 0}, \
        {MMUL_##KIND, {SPECIAL}, ULPS, 0},
#define UNARY(KIND, NAME, FLOPS, ACCURACY, ULPS, ...) \
    {MMUL_##KIND, {REAL}, ULPS, 0}, {MMUL_##KIND, {SPECIAL}, ULPS, 0},
#define BINARY(KIND, NAME, COUNT, FLOPS, ACCURACY, ULPS, ...) \
    {MMUL_##KIND, {REAL, REAL}, ULPS, 0}, {MMUL_##KIND, {SPECIAL, SPECIAL}, ULPS, 0},
#define BINARY_OWN(KIND, NAME, COUNT, FLOPS, ACCURACY, ULPS, ...) \
    {MMUL_##KIND, {REAL, REAL}, ULPS, 0}, {MMUL_##KIND, {SPECIAL, REAL}, ULPS, 0},
#include "model/operations.def"
    {MMUL_WHERE, {SPECIAL, REAL, SPECIAL}, 0, 0},
};
static const struct element_case more_cases[] = {
    {MMUL_LOG1P, {EDGES}, 4, 0},
    {MMUL_SIN, {ANGLES}, 4, 2e-8},
    {MMUL_COS, {ANGLES}, 4, 0},
    {MMUL_FLOOR_DIVIDE, {WHOLE, WHOLE}, 0, 0},
    {MMUL_FLOOR_DIVIDE, {SPECIAL, SPECIAL}, 2, 0},
    {MMUL_REMAINDER, {WHOLE, WHOLE}, 0, 0},
    {MMUL_REMAINDER, {SPECIAL, SPECIAL}, 1, 0},
    {MMUL_POWER, {POSITIVE, REAL}, 16, 0},
    {MMUL_POWER, {REAL, WHOLE}, 16, 0},
    {MMUL_POWER, {SPECIAL, SPECIAL}, 16, 0},
    {MMUL_EQUAL, {WHOLE, WHOLE}, 0, 0},
    {MMUL_SILU_BACKWARD, {WIDE, REAL}, 96, 0},
    {MMUL_SILU_BACKWARD, {EDGES, EDGES}, 96, 0},
    {MMUL_SILU_BACKWARD, {POSITIVE, SPECIAL}, 96, 0},
    {MMUL_GELU_BACKWARD, {WIDE, REAL}, 32, 0},
    {MMUL_GELU_BACKWARD, {EDGES, EDGES}, 32, 0},
    {MMUL_GELU_BACKWARD, {POSITIVE, SPECIAL}, 32, 0},
    {MMUL_GELU_TANH_BACKWARD, {WIDE, REAL}, 96, 0},
    {MMUL_GELU_TANH_BACKWARD, {EDGES, EDGES}, 96, 0},
    {MMUL_GELU_TANH_BACKWARD, {POSITIVE, SPECIAL}, 96, 0},
    {MMUL_MULTIPLY_BACKWARD, {WHOLE, SPECIAL}, 0, 0},
    {MMUL_DIVIDE_BACKWARD, {WHOLE, SPECIAL}, 2.5, 0},
};

// Absolute errors. Where 1 + erf or 1 + tanh come close to 0 (gelu below -3), their error counts as
// an absolute one. An angle is reduced at least in double, so near a multiple of pi 2e-8 is left
// over. Slopes have x times the error of 1 minus a sigmoid, up to 80 ulp in all. Where a slope is
// 0, the error is that of its terms (gelu_tanh: 1 + tanh and 1 - tanh^2 of the reference, times
// about x^3), times the gradient.
static const double absolute_errors[MMUL_OPERATION_KINDS] = {
    [MMUL_LOG] = 1e-7,
    [MMUL_GELU] = 2e-6,
    [MMUL_GELU_TANH] = 2e-6,
    [MMUL_COS] = 2e-8,
    [MMUL_SILU_BACKWARD] = 4e-6,
    [MMUL_GELU_BACKWARD] = 4e-6,
    [MMUL_GELU_TANH_BACKWARD] = 1e-5,
};

static void try_elements(struct bench *b, const struct element_case *c, int which, int turn) {
    const int count = mmul_operation_row(c->kind)->most;
    struct trial t = {.kind = c->kind,
                      .rows = sizes[which][0],
                      .cols = sizes[which][1],
                      .source_count = count,
                      .pad = turn % 3,
                      .tolerance = {c->ulps, absolute_errors[c->kind] + c->absolute}};
    t.shape = (struct mmul_shape){1, 1, t.rows, t.cols};
    for (int i = 0; i < count; i++) // not all alike, and another mixture each turn
        t.sources[i] = (struct source){.layout = (enum layout)((turn + i * (1 + turn / LAYOUTS)) %
                                                               (count == 1 ? NUMBER : LAYOUTS)),
                                       .flavour = c->flavours[i],
                                       .rows = t.rows,
                                       .cols = t.cols};
    try_on_both(b, &t);
}

// Large enough for several threads.
static void try_large(struct bench *b, const struct element_case *c) {
    static const enum layout layouts[][3] = {{PLAIN, PLAIN, NUMBER},
                                             {TRANSPOSED, ROW_AGAIN, PADDED}};
    const int count = mmul_operation_row(c->kind)->most;
    for (int which = 0; which < 2; which++) {
        struct trial t = {.kind = c->kind,
                          .rows = 503,
                          .cols = 601,
                          .source_count = count,
                          .shape = {1, 1, 503, 601},
                          .tolerance = {c->ulps, absolute_errors[c->kind] + c->absolute}};
        for (int i = 0; i < count; i++)
            t.sources[i] = (struct source){
                .layout = layouts[which][i], .flavour = c->flavours[i], .rows = 503, .cols = 601};
        try_on_both(b, &t);
    }
}

static void try_cases(struct bench *b, const struct element_case *cases, int count) {
    for (int c = 0; c < count; c++) {
        const struct element_case *now = &cases[c];
        if (c == 0 || now[-1].kind != now->kind)
            begin_operation(b);
        for (int turn = 0; turn < 2 * SIZES; turn++)
            try_elements(b, now, turn % SIZES, turn + c);
        if (now->kind == MMUL_ADD) // all pairs of layouts
            for (int turn = 0; turn < LAYOUTS * LAYOUTS; turn++)
                try_elements(b, now, 3 + turn % 2, turn);
        if (now->kind == MMUL_ADD || now->kind == MMUL_RELU || now->kind == MMUL_WHERE)
            try_large(b, now);
        if (c + 1 == count || now[1].kind != now->kind)
            end_operation(b, now->kind);
    }
}

static void test_elements(struct bench *b) {
    try_cases(b, table_cases, (int)(sizeof table_cases / sizeof *table_cases));
    try_cases(b, more_cases, (int)(sizeof more_cases / sizeof *more_cases));
}

// ----------------------------------------------------------------------------------------- rows

static const int64_t row_sizes[][2] = {{1, 1},    {7, 7},  {63, 65}, {65, 63},   {5, 1001},
                                       {3, 5003}, {40, 8}, {2, 256}, {1200, 301}};
enum { ROW_SIZES = sizeof row_sizes / sizeof *row_sizes };

static struct trial row_trial(enum mmul_operation_kind kind, int which, int turn,
                              enum flavour flavour, struct tolerance tolerance) {
    const int64_t rows = row_sizes[which][0], cols = row_sizes[which][1];
    struct trial t = {.kind = kind,
                      .rows = rows,
                      .cols = cols,
                      .shape = {1, 1, rows, cols},
                      .source_count = 1,
                      .pad = turn % 2 * 5,
                      .tolerance = tolerance};
    t.sources[0] = (struct source){
        .layout = (enum layout)(turn % ONE_AGAIN), .flavour = flavour, .rows = rows, .cols = cols};
    return t;
}

// exp of a difference has the error of the difference, half an ulp of up to 160: 2^-16 of the
// result. Sums of floats add little to it.
static void test_softmax(struct bench *b) {
    static const enum flavour flavours[] = {REAL, WIDE, LOW, SPECIAL};
    begin_operation(b);
    for (int turn = 0; turn < 6 * ROW_SIZES; turn++) {
        const enum flavour flavour = flavours[turn % 4];
        struct trial t = row_trial(MMUL_SOFTMAX, turn % ROW_SIZES, turn / 2, flavour,
                                   (struct tolerance){flavour == WIDE ? 128 : 32, 0});
        t.with.causal = turn % 3 != 0;
        if (turn % 3 ==
            2) { // a block in the middle of more rows: its first rows may be masked completely
            t.row = 2;
            t.shape.rows = t.rows + 9;
        }
        try_on_both(b, &t);
    }
    end_operation(b, MMUL_SOFTMAX);
}

// Sums of squares in float have errors of a few ulp, which the root halves. Subtracting a mean adds
// half an ulp of the mean (of 100: 4e-6), while the differences have size 1.
static void test_norms(struct bench *b) {
    static const struct {
        enum mmul_operation_kind kind;
        enum flavour flavour;
        struct tolerance tolerance;
    } cases[] = {{MMUL_RMS_NORM, REAL, {16, 0}},      {MMUL_RMS_NORM, WIDE, {16, 0}},
                 {MMUL_LAYER_NORM, REAL, {16, 4e-6}}, {MMUL_LAYER_NORM, OFFSET, {16, 5e-5}},
                 {MMUL_NORMALIZE, REAL, {16, 0}},     {MMUL_NORMALIZE, SPECIAL, {16, 0}}};
    for (int c = 0; c < 6; c++) {
        const int vectors = mmul_operation_row(cases[c].kind)->most - 1;
        if (c % 2 == 0)
            begin_operation(b);
        for (int turn = 0; turn < 3 * ROW_SIZES; turn++) {
            struct trial t = row_trial(cases[c].kind, turn % ROW_SIZES, turn / 3, cases[c].flavour,
                                       cases[c].tolerance);
            t.with.epsilon = turn % 2 == 0 ? 1e-5 : 1e-6;
            if (b->dtype == MMUL_F64) // in float64 the mean has no more bits than the elements
                t.tolerance.absolute *= 4;
            t.source_count = 1 + turn / 2 % (vectors + 1);
            for (int i = 1; i < t.source_count; i++)
                t.sources[i] = (struct source){.layout = turn % 5 == 0   ? SPREAD
                                                         : turn % 2 == 0 ? PADDED
                                                                         : PLAIN,
                                               .flavour = REAL,
                                               .rows = 1,
                                               .cols = t.cols};
            try_on_both(b, &t);
        }
        if (c % 2 == 1)
            end_operation(b, cases[c].kind);
    }
    begin_operation(b); // all zeros: no length to divide by
    struct trial t = row_trial(MMUL_NORMALIZE, 2, 0, REAL, (struct tolerance){0, 0});
    t.sources[0].flavour = INDICES;
    try_on_both(b, &t);
    end_operation(b, MMUL_NORMALIZE);
}

static void test_largest(struct bench *b) {
    static const enum flavour flavours[] = {REAL, TIES, SPECIAL, WHOLE};
    static const int64_t counts[] = {1, 2, 5, 8, 63, 1000};
    begin_operation(b);
    for (int turn = 0; turn < 6 * ROW_SIZES; turn++) {
        struct trial t = row_trial(MMUL_TOPK, turn % ROW_SIZES, turn / 2, flavours[turn / 3 % 4],
                                   (struct tolerance){0, 0});
        t.with.count = counts[turn / ROW_SIZES];
        if (t.with.count > t.cols || turn % 7 == 0)
            t.with.count = t.cols;
        t.cols = 2 * t.with.count;
        t.shape.cols = t.cols;
        try_on_both(b, &t);
    }
    end_operation(b, MMUL_TOPK);
    for (enum mmul_operation_kind kind = MMUL_ARGMAX; kind <= MMUL_ARGMIN; kind++) {
        begin_operation(b);
        for (int turn = 0; turn < 4 * ROW_SIZES; turn++) {
            struct trial t = row_trial(kind, turn % ROW_SIZES, turn / 2, flavours[turn / 3 % 4],
                                       (struct tolerance){0, 0});
            t.cols = t.shape.cols = 1;
            try_on_both(b, &t);
        }
        end_operation(b, kind);
    }
}

// Gives operands other than the first one another layout than that one's.
static void set_layouts(struct trial *t, int turn, enum flavour gradient) {
    t->source_count = mmul_operation_row(t->kind)->most;
    for (int i = 1; i < t->source_count; i++)
        t->sources[i] = (struct source){.layout = (enum layout)((turn + 3 * i) % ONE_AGAIN),
                                        .flavour = gradient};
    shape_rows(t, t->sources[0].cols);
}

// Rows shorter and longer than the limit up to which elements are sorted one by one.
static void test_sorting(struct bench *b) {
    static const enum flavour flavours[] = {REAL, TIES, SPECIAL, WHOLE, WIDE};
    for (enum mmul_operation_kind kind = MMUL_SORT; kind <= MMUL_ARGSORT; kind++) {
        begin_operation(b);
        for (int turn = 0; turn < 10 * ROW_SIZES; turn++) {
            struct trial t = row_trial(kind, turn % ROW_SIZES, turn / 2,
                                       flavours[turn / ROW_SIZES % 5], (struct tolerance){0, 0});
            t.with.descending = turn / (5 * ROW_SIZES) == 1;
            try_on_both(b, &t);
        }
        end_operation(b, kind);
    }
    begin_operation(b);
    for (int turn = 0; turn < 4 * ROW_SIZES; turn++) {
        struct trial t = row_trial(MMUL_SORT_BACKWARD, turn % ROW_SIZES, turn, SPECIAL,
                                   (struct tolerance){0, 0});
        set_layouts(&t, turn / 2, INDICES);
        try_on_both(b, &t);
    }
    end_operation(b, MMUL_SORT_BACKWARD);
}

// Prefix sums in floats have the tolerance of sums along an axis below. Sums of a constant row are
// always rounded the same way.
static void test_prefix_sums(struct bench *b) {
    static const enum flavour flavours[] = {WHOLE, REAL, SPECIAL};
    begin_operation(b);
    for (int turn = 0; turn < 6 * ROW_SIZES; turn++) {
        const enum flavour flavour = flavours[turn / ROW_SIZES % 3];
        struct trial t = row_trial(MMUL_CUMSUM, turn % ROW_SIZES, turn, flavour,
                                   (struct tolerance){flavour == WHOLE ? 0 : 3, 0});
        if (flavour == SPECIAL) // beside 1e30; 1e300 in float64
            t.tolerance.absolute = b->dtype == MMUL_F64 ? 1e298 : 1e24;
        else if (flavour == REAL)
            t.tolerance.absolute = 4 * 0x1p-24 * (double)t.cols *
                                   (t.sources[0].layout == COL_AGAIN ? (double)t.cols / 2 : 1);
        try_on_both(b, &t);
    }
    end_operation(b, MMUL_CUMSUM);
}

// A row contains no 1 if its index is beyond the last column or no index.
static void test_one_hot(struct bench *b) {
    static const enum flavour flavours[] = {INDICES, WHOLE, SPECIAL};
    begin_operation(b);
    for (int turn = 0; turn < 6 * ROW_SIZES; turn++) {
        struct trial t =
            row_trial(MMUL_ONE_HOT, turn % ROW_SIZES, turn / 2, INDICES, (struct tolerance){0, 0});
        t.with.count = t.cols;
        shape_rows(&t, t.cols);
        t.sources[0].flavour = flavours[turn / ROW_SIZES % 3];
        t.sources[0].limit = t.cols + turn % 2;
        try_on_both(b, &t);
    }
    end_operation(b, MMUL_ONE_HOT);
}

// A power has the error of softmax above, which becomes an absolute error of its logarithm. The
// difference to the largest element is rounded once. Both cancel where the loss is small. The
// gradient is less than 1 with the same errors, times an incoming gradient of up to 4.
static void test_losses(struct bench *b) {
    static const enum flavour flavours[] = {REAL, WIDE, SPECIAL, LOW};
    for (int which = 0; which < 2; which++) {
        const enum mmul_operation_kind kind =
            which == 0 ? MMUL_CROSS_ENTROPY : MMUL_CROSS_ENTROPY_BACKWARD;
        begin_operation(b);
        for (int turn = 0; turn < 8 * ROW_SIZES; turn++) {
            const enum flavour flavour = flavours[turn / ROW_SIZES % 4];
            struct trial t = row_trial(kind, turn % ROW_SIZES, turn, flavour,
                                       (struct tolerance){flavour == WIDE ? 128 : 32, 4e-6});
            // A power that only as a float is 0 would give 0 times infinity.
            set_layouts(&t, turn / 2, flavour == WIDE ? REAL : EDGES);
            try_on_both(b, &t);
        }
        end_operation(b, kind);
    }
}

// n products of up to 16 are added up, with the error of sums along an axis below; the result has
// that error times up to 4.
static void test_softmax_backward(struct bench *b) {
    begin_operation(b);
    for (int turn = 0; turn < 6 * ROW_SIZES; turn++) {
        const enum flavour flavour = turn / ROW_SIZES % 3 == 2 ? EDGES : REAL;
        struct trial t = row_trial(MMUL_SOFTMAX_BACKWARD, turn % ROW_SIZES, turn, flavour,
                                   (struct tolerance){16, 0});
        t.tolerance.absolute = 4 * 16 * 0x1p-24 * (double)(t.cols + 4);
        set_layouts(&t, turn / 2, flavour);
        try_on_both(b, &t);
    }
    end_operation(b, MMUL_SOFTMAX_BACKWARD);
}

// f (g - mean(g) - n mean(g n)) with g = dy w of up to 16; each term has a rounding error of a few
// ulp, times f. f is 1 / sqrt(epsilon) for a constant row or a row of one element, otherwise less
// than 2: a row of 7 reals has a deviation of more than 1/2. For elements of 100 to 101 f is 3.5,
// and the mean has an error of half an ulp of 100, as in the norms above. If squares overflow a
// float, f is about the inverse of the numbers.
static void test_norms_backward(struct bench *b) {
    static const enum flavour flavours[] = {REAL, WIDE, OFFSET, EDGES, LARGE};
    for (enum mmul_operation_kind kind = MMUL_RMS_NORM_BACKWARD; kind <= MMUL_LAYER_NORM_BACKWARD;
         kind++) {
        begin_operation(b);
        for (int turn = 0; turn < 10 * ROW_SIZES; turn++) {
            const enum flavour flavour = flavours[turn / ROW_SIZES % 5];
            struct trial t =
                row_trial(kind, turn % ROW_SIZES, turn, flavour, (struct tolerance){32, 0});
            t.with.epsilon = turn % 2 == 0 ? 1e-5 : 1e-6;
            const bool is_alike = t.cols == 1 || t.sources[0].layout == COL_AGAIN;
            // For equal large numbers the rounded mean may differ; doubles have room for the
            // squares.
            const bool is_large = flavour == LARGE && !is_alike && b->dtype == MMUL_F32;
            if (flavour == LARGE && !is_large)
                t.sources[0].flavour = REAL;
            const double factor = is_alike            ? 1 / sqrt(t.with.epsilon)
                                  : flavour == OFFSET ? 100
                                  : is_large          ? 2e-25
                                                      : 2;
            t.tolerance.absolute = 8 * 16 * 0x1p-24 * factor;
            if (b->dtype == MMUL_F64) // in float64 the mean has no more bits than the elements
                t.tolerance.absolute *= 4;
            set_layouts(&t, turn / 2, REAL);
            if (flavour == EDGES) { // and a gradient with NaN here and there
                t.sources[1].flavour = TIES;
                t.tolerance.absolute *= 10;
            }
            t.source_count = 2 + turn / 2 % 2;
            try_on_both(b, &t);
        }
        end_operation(b, kind);
    }
}

// An angle rounded to a float is off by up to 2^-24 of the position, and so are its sine and
// cosine, for elements of up to 4.
static void test_rope(struct bench *b) {
    begin_operation(b);
    for (int turn = 0; turn < 48; turn++) {
        const int64_t rows = row_sizes[turn % ROW_SIZES][0], cols = 2 + 2 * (turn * 13 % 80);
        struct trial t = {.kind = MMUL_ROPE,
                          .rows = rows,
                          .cols = cols,
                          .row = turn % 3 * 1000,
                          .shape = {1, 1, 4000, cols},
                          .with = {.base = turn % 2 == 0 ? 10000 : 500000,
                                   .interleaved = turn % 4 > 1,
                                   .scale = turn < 24 ? turn % 2 : -1}, // below 0: turned back
                          .source_count = 1,
                          .pad = turn % 2};
        t.tolerance.absolute = 8 * 0x1p-24 * (double)(t.row + rows + 8);
        t.sources[0] =
            (struct source){.layout = (enum layout)(turn % ONE_AGAIN), .rows = rows, .cols = cols};
        try_on_both(b, &t);
    }
    end_operation(b, MMUL_ROPE);
}

// ----------------------------------------------------------------------------------- reductions

// Sums of whole numbers are exact. n reals of up to 4, added one by one in floats, are off by up to
// n^2 / 2 times 4 2^-24; with lanes the error is far smaller on average, here 4 n 2^-24. Adding up
// to 64 lanes in pairs rounds six times more, by half an ulp each. A mean is the sum divided by n,
// rounded once more.
static void test_reductions(struct bench *b) {
    static const int64_t long_ones[][2] = {{1, 1},    {1, 7},    {7, 1},      {63, 65}, {65, 63},
                                           {3, 1001}, {1001, 3}, {5003, 130}, {1, 5003}};
    static const enum flavour flavours[] = {WHOLE, REAL, SPECIAL};
    for (enum mmul_operation_kind kind = MMUL_SUM; kind <= MMUL_MIN; kind++) {
        begin_operation(b);
        for (int turn = 0; turn < 6 * SIZES; turn++) {
            const int64_t rows = long_ones[turn % SIZES][0], cols = long_ones[turn % SIZES][1];
            const bool down = turn / SIZES % 2 == 1;
            const int64_t count = down ? rows : cols;
            struct trial t = {.kind = kind,
                              .rows = down ? 1 : rows,
                              .cols = down ? cols : 1,
                              .with = {.axis = down ? -2 : -1},
                              .source_count = 1,
                              .pad = turn % 3};
            const enum flavour flavour = flavours[turn / (2 * SIZES)];
            t.shape = (struct mmul_shape){1, 1, t.rows, t.cols};
            t.sources[0] = (struct source){.layout = (enum layout)(turn % NUMBER),
                                           .flavour = flavour,
                                           .rows = rows,
                                           .cols = cols};
            if (flavour == SPECIAL && kind <= MMUL_MEAN) // beside 1e30; 1e300 in float64
                t.tolerance.absolute = b->dtype == MMUL_F64 ? 1e298 : 1e24;
            else if (flavour == REAL && kind <= MMUL_MEAN)
                t.tolerance.absolute = 4 * 0x1p-24 * (double)(kind == MMUL_SUM ? count : 1);
            // equal elements are rounded the same way each time
            if (flavour == REAL && kind <= MMUL_MEAN && b->dtype == MMUL_F64 &&
                t.sources[0].layout >= ROW_AGAIN)
                t.tolerance.absolute *= (double)count / 2;
            t.tolerance.ulps = kind == MMUL_MEAN                      ? 2.5
                               : kind == MMUL_SUM && flavour != WHOLE ? 3
                                                                      : 0;
            try_on_both(b, &t);
        }
        end_operation(b, kind);
    }
}

// Tolerance as for sums over the rows that share an index (at most all rows); also for a block in
// the middle.
static void test_sums_at(struct bench *b) {
    static const int64_t numbers[] = {1, 3, 40, 700}; // row counts of the whole result
    static const enum flavour flavours[] = {WHOLE, REAL, SPECIAL};
    begin_operation(b);
    for (int turn = 0; turn < 8 * SIZES; turn++) {
        const int64_t count = sizes[turn % SIZES][0], all = numbers[turn / 2 % 4];
        const int64_t row = turn % 3 == 2 ? all / 3 : 0;
        const enum flavour flavour = flavours[turn / SIZES % 3];
        struct trial t = {.kind = MMUL_SUM_AT,
                          .rows = turn % 3 == 0 ? all : (all - row + 1) / 2,
                          .cols = sizes[turn % SIZES][1],
                          .row = row,
                          .with = {.axis = -2, .count = all},
                          .source_count = 2,
                          .pad = turn % 3};
        t.shape = (struct mmul_shape){1, 1, all, t.cols};
        t.sources[0] = (struct source){.layout = (enum layout)(turn % NUMBER),
                                       .flavour = flavour,
                                       .rows = count,
                                       .cols = t.cols};
        t.sources[1] = (struct source){.layout = (enum layout)(turn / 3 % NUMBER),
                                       .flavour = INDICES,
                                       .limit = all,
                                       .rows = count,
                                       .cols = 1};
        const bool is_alike = t.sources[0].layout == ROW_AGAIN || t.sources[0].layout == ONE_AGAIN;
        t.tolerance.ulps = flavour == WHOLE ? 0 : 3;
        if (flavour == SPECIAL) // beside 1e30; 1e300 in float64
            t.tolerance.absolute = b->dtype == MMUL_F64 ? 1e298 : 1e24;
        else if (flavour == REAL)
            t.tolerance.absolute =
                4 * 0x1p-24 * (double)count * (is_alike ? (double)(count + 1) / 2 : 1);
        try_on_both(b, &t);
    }
    end_operation(b, MMUL_SUM_AT);
}

// ---------------------------------------------------------------------------- copies and lookups

static void test_copies(struct bench *b) {
    for (enum mmul_operation_kind kind = MMUL_SLICE; kind <= MMUL_CONCAT; kind++) {
        begin_operation(b);
        for (int turn = 0; turn < 2 * SIZES * NUMBER; turn += 1 + (int)kind % 3) {
            struct trial t = {.kind = kind,
                              .rows = sizes[turn % SIZES][0],
                              .cols = sizes[turn % SIZES][1],
                              .source_count = 1,
                              .pad = turn % 3};
            t.shape = (struct mmul_shape){1, 1, t.rows, t.cols};
            t.sources[0] = (struct source){.layout = (enum layout)(turn % NUMBER),
                                           .flavour = SPECIAL,
                                           .rows = t.rows,
                                           .cols = t.cols};
            try_on_both(b, &t);
        }
        end_operation(b, kind);
    }
    begin_operation(b);
    for (int turn = 0; turn < 2 * SIZES; turn++) {
        struct trial t = {.kind = MMUL_TAKE,
                          .rows = sizes[turn % SIZES][0],
                          .cols = sizes[turn % SIZES][1],
                          .source_count = 2,
                          .pad = turn % 3};
        const int64_t table = 1 + turn * 17;
        t.shape = (struct mmul_shape){1, 1, t.rows, t.cols};
        t.sources[0] = (struct source){.layout = (enum layout)(turn % ROW_AGAIN),
                                       .flavour = SPECIAL,
                                       .rows = table,
                                       .cols = t.cols};
        t.sources[1] = (struct source){.layout = turn % 2 == 0 ? PADDED : SPREAD,
                                       .flavour = INDICES,
                                       .limit = table,
                                       .rows = 1,
                                       .cols = t.rows};
        try_on_both(b, &t);
    }
    end_operation(b, MMUL_TAKE);
}

// --------------------------------------------------------------------------------------- numpy

// Reports a point for every operation, from the lines that the script prints: "NAME ok" or "NAME"
// and the difference.
static void test_numpy(const char *path) {
    char command[512], line[512];
    int said = 0;
    snprintf(command, sizeof command, "/usr/bin/python3 tests/device/map_numpy.py %s", path);
    FILE *script = popen(command, "r");
    while (script != NULL && fgets(line, sizeof line, script) != NULL) {
        char name[64] = "", text[448] = "";
        sscanf(line, "%63s %447[^\n]", name, text);
        char title[96];
        snprintf(title, sizeof title, "numpy agrees: %s", name);
        report_point(strcmp(text, "ok") == 0, title, text);
        said++;
    }
    const int status = script != NULL ? pclose(script) : -1;
    report_point(status == 0 && said > 116, "numpy compared every operation",
                 "map_numpy.py failed");
}

static void test_operations(struct bench *b) {
    test_elements(b);
    test_stacks(b);
    test_softmax(b);
    test_norms(b);
    test_largest(b);
    test_sorting(b);
    test_prefix_sums(b);
    test_one_hot(b);
    test_losses(b);
    test_softmax_backward(b);
    test_norms_backward(b);
    test_rope(b);
    test_reductions(b);
    test_sums_at(b);
    test_copies(b);
    test_attention(b);
    test_attention_backward(b);
}

// Operations of float64 run in host memory: a device with memory of its own refuses them and is not
// lost by that.
static void test_refused(struct bench *b) {
    static const double zero = 0;
    const struct mmul_parameters with = {.axis = -1};
    struct mmul_error err;
    if (!mmul_device_has_dtype(b->device, MMUL_F64))
        return;
    struct mmul_buffer *x = put_elements(b->device, MMUL_F64, &zero, 1);
    const struct mmul_map map = {.kind = MMUL_NEG,
                                 .with = &with,
                                 .rows = 1,
                                 .cols = 1,
                                 .shape = {1, 1, 1, 1},
                                 .matrices = 1,
                                 .operands = {{.buffer = x, .rows = 1, .cols = 1}},
                                 .operand_count = 1,
                                 .result = {x, 0, 1}};
    report_point(mmul_device_map(b->device, &map, &err) == MMUL_ERR_DATA &&
                     strcmp(err.text,
                            "cannot compute 'neg' in float64 on a device with its own memory") == 0,
                 "operations in float64 are refused", err.text);
    mmul_device_buffer_destroy(b->device, x);
}

int main(int argc, char **argv) {
    struct bench b = {.device = open_device(argc, argv)};
    struct mmul_error err;
    char path[] = "/tmp/map_test_XXXXXX";
    if (b.device->table->map == NULL && !mmul_device_can_borrow(b.device)) {
        printf("1..0 # SKIP map: device '%s' has no operations of its own\n", argv[1]);
        mmul_device_close(b.device);
        return 0;
    }
    must_succeed(mmul_device_open("reference", &b.reference, &err), &err);
    if (strcmp(argv[1], "reference") == 0) {
        const int file = mkstemp(path);
        b.cases = file >= 0 ? fdopen(file, "wb") : NULL;
        report_point(b.cases != NULL, "a file for numpy is created", "it cannot be created");
    }
    test_operations(&b);
    if (mmul_device_can_borrow(b.device)) {
        b.dtype = MMUL_F64;
        test_operations(&b);
    } else {
        test_refused(&b);
    }
    if (b.cases != NULL) {
        fclose(b.cases);
        test_numpy(path);
        unlink(path);
    }
    mmul_device_close(b.reference);
    return close_device(b.device);
}
