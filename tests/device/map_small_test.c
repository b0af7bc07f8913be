// SPDX-License-Identifier: MIT
//
// Runs every operation once or twice on operands of a few work-groups, so that cli/oclgrind.bats
// can watch each memory access of each kernel. Results are compared only roughly: map_test.c tests
// their accuracy.
#include "map_trial.h"

static struct trial make_trial(enum mmul_operation_kind kind, int64_t rows, int64_t cols,
                               int sources, enum layout layout, enum flavour flavour) {
    struct trial t = {.kind = kind,
                      .with = {.epsilon = 1e-5, .base = 10000, .scale = 0.25, .axis = -1},
                      .rows = rows,
                      .cols = cols,
                      .shape = {1, 1, rows, cols},
                      .source_count = sources,
                      .pad = 3,
                      .tolerance = {64, 1e-5}};
    for (int i = 0; i < sources; i++)
        t.sources[i] = (struct source){
            .layout = i == 0 ? layout : PADDED, .flavour = flavour, .rows = rows, .cols = cols};
    return t;
}

static void test_elements(struct bench *b) {
    for (enum mmul_operation_kind kind = MMUL_NEG; kind <= MMUL_WHERE; kind++) {
        const int sources = mmul_operation_row(kind)->most;
        struct trial t = make_trial(kind, 3, 30, sources, (int)kind % 2 == 0 ? PLAIN : TRANSPOSED,
                                    sources == 1 ? POSITIVE : WHOLE);
        try_on_both(b, &t);
    }
    for (int turn = 0; turn < 2; turn++) { // copies of operands stored by rows and by columns
        struct trial t = make_trial(MMUL_PERMUTE, 19, 37, 1, turn == 0 ? PLAIN : TRANSPOSED, REAL);
        try_on_both(b, &t);
    }
    struct trial t = make_trial(MMUL_TAKE, 7, 20, 2, PADDED, REAL);
    t.sources[1] =
        (struct source){.layout = PLAIN, .flavour = INDICES, .limit = 7, .rows = 1, .cols = t.rows};
    try_on_both(b, &t);
}

static void test_rows(struct bench *b) {
    for (enum mmul_operation_kind kind = MMUL_SOFTMAX; kind <= MMUL_LAYER_NORM_BACKWARD; kind++)
        for (int turn = 0; turn < 2; turn++) {
            const struct mmul_operation_row *row = mmul_operation_row(kind);
            struct trial t =
                make_trial(kind, 3, 0, turn == 0 ? row->most : row->least, PADDED, REAL);
            t.with.causal = t.with.interleaved = t.with.descending = turn == 1;
            t.with.count = turn == 0 ? 6 : 3; // a large and a small count
            t.with.scale = kind == MMUL_ROPE && turn == 1 ? -1 : 1;
            shape_rows(&t, turn == 0 ? 70 : 6);
            try_on_both(b, &t);
        }
}

// Reductions along both axes: one group per line, neighbouring lines in one group, and slabs.
static void test_reductions(struct bench *b) {
    static const int64_t sizes[][2] = {{3, 70}, {70, 5}, {1, 2100}};
    for (enum mmul_operation_kind kind = MMUL_SUM; kind <= MMUL_MIN; kind++)
        for (int turn = 0; turn < 6; turn++) {
            const int64_t rows = sizes[turn / 2][0], cols = sizes[turn / 2][1];
            struct trial t = make_trial(kind, rows, cols, 1, PADDED, WHOLE);
            t.with.axis = -1 - turn % 2;
            t.rows = turn % 2 == 0 ? rows : 1;
            t.cols = turn % 2 == 0 ? 1 : cols;
            try_on_both(b, &t);
        }
    // the operand has more rows than the requested block, which begins at row 2
    for (int turn = 0; turn < 3; turn++) {
        struct trial t = make_trial(MMUL_SUM_AT, 4, sizes[turn][1], 2, PADDED, WHOLE);
        t.with.axis = -2;
        t.row = 2;
        t.shape.rows = t.with.count = 9;
        t.sources[0].rows = sizes[turn][0];
        t.sources[1] = (struct source){
            .layout = PADDED, .flavour = INDICES, .limit = 9, .rows = sizes[turn][0], .cols = 1};
        try_on_both(b, &t);
    }
}

// Rows, keys, depth and columns: less than a tile of each, and slightly more than one. Larger sizes
// in all four at once would take minutes.
static const int64_t attention_sizes[][4] = {{3, 5, 66, 65}, {17, 33, 4, 2}};

static void test_attention(struct bench *b) {
    for (int turn = 0; turn < 4; turn++) {
        const int64_t *s = attention_sizes[turn / 2];
        struct trial t =
            make_trial(MMUL_ATTENTION, s[0], s[3], turn % 2 == 0 ? 3 : 4, PADDED, REAL);
        t.with.causal = turn == 3;
        t.sources[0].cols = t.sources[1].cols = s[2];
        t.sources[1].rows = t.sources[2].rows = s[1];
        t.sources[3].cols = s[1];
        t.tolerance.absolute = 1e-3; // scores of some hundred
        try_on_both(b, &t);
    }
}

static void test_attention_backward(struct bench *b, const int64_t *size) {
    const int64_t rows = size[0], keys = size[1], depth = size[2], cols = size[3];
    const int64_t sizes[][2] = {{rows, depth}, {keys, depth}, {keys, cols},
                                {rows, cols},  {rows, 2},     {rows, keys}};
    for (enum mmul_operation_kind kind = MMUL_ATTENTION_BACKWARD_Q;
         kind <= MMUL_ATTENTION_BACKWARD_MASK; kind++) {
        const bool by_key = mmul_operation_row(kind)->parts[0] == 'a';
        struct trial t = make_trial(kind, by_key ? keys : rows,
                                    kind == MMUL_ATTENTION_BACKWARD_V      ? cols
                                    : kind == MMUL_ATTENTION_BACKWARD_MASK ? keys
                                                                           : depth,
                                    by_key ? 6 : 5, PADDED, REAL);
        t.with.causal = true;
        t.with.scale = 0.01;
        for (int i = 0; i < t.source_count; i++) {
            t.sources[i].rows = sizes[i][0];
            t.sources[i].cols = sizes[i][1];
        }
        t.tolerance.absolute = 0.1; // slopes of some hundred, times as many powers of up to e^4
        try_on_both(b, &t);
    }
    struct trial t = make_trial(MMUL_ATTENTION_SUMS, rows, 2, 5, PADDED, REAL);
    const int of[] = {0, 1, 3, 3, 5};
    for (int i = 0; i < t.source_count; i++) {
        t.sources[i].rows = sizes[of[i]][0];
        t.sources[i].cols = sizes[of[i]][1];
    }
    t.tolerance.absolute = 1e-3;
    try_on_both(b, &t);
}

static void test_slopes(struct bench *b) {
    test_attention_backward(b, attention_sizes[0]);
    test_attention_backward(b, attention_sizes[1]);
}

int main(int argc, char **argv) {
    static const struct {
        void (*run)(struct bench *);
        const char *what;
    } tests[] = {{test_elements, "elements, copies, lookups"},
                 {test_rows, "rows"},
                 {test_reductions, "along an axis"},
                 {test_attention, "attention"},
                 {test_slopes, "gradients of attention"}};
    struct bench b = {.device = NULL};
    struct mmul_error err;
    enum mmul_status status = mmul_device_open(argc == 2 ? argv[1] : "", &b.device, &err);
    if (status == MMUL_ERR_UNAVAILABLE) {
        printf("1..0 # SKIP device: %s\n", err.text);
        return 0;
    }
    must_succeed(status, &err); // no warm-up: oclgrind would watch the kernels of products as well
    if (!mmul_device_can_map(b.device)) {
        printf("1..0 # SKIP map: device '%s' has no operations of its own\n", argv[1]);
        mmul_device_close(b.device);
        return 0;
    }
    must_succeed(mmul_device_open("reference", &b.reference, &err), &err);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        begin_operation(&b);
        tests[i].run(&b);
        report_point(b.worst <= 1 && b.trials > 0, tests[i].what, b.detail);
    }
    mmul_device_close(b.reference);
    mmul_device_close(b.device);
    printf("1..%d\n", points);
    return failures > 0;
}
