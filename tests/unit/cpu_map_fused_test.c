// SPDX-License-Identifier: MIT
// Elementwise operations that the cpu device fuses, piece by piece, compared with the same ones one
// after the other: whole numbers, equal element by element, and no other memory changes. Results
// larger than the caches are written past them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "exec/worker/host_map.h"
#include "model/dtype.h"

enum { INPUTS = 3, MOST = 8, VALUES = INPUTS + MOST, ELEMENTS = 12000, GAP = -77 };

static uint32_t random_state;

static int draw(int count) {
    random_state = random_state * 1664525 + 1013904223;
    return (int)((random_state >> 8) % (uint32_t)count);
}

static const enum mmul_operation_kind KINDS[] = {MMUL_ADD, MMUL_SUBTRACT, MMUL_MAXIMUM, MMUL_NEG,
                                                 MMUL_ABS};

// Values in memory of their own: the inputs and each operation's result.
struct trial {
    enum mmul_dtype dtype;
    int64_t rows, cols, ld, offset; // offset: of (0, 0), in elements
    int count;
    struct mmul_host_map maps[MOST];
};

static void *element(const struct trial *t, void *memory, int value) {
    return mmul_dtype_advance(t->dtype, memory, value * (int64_t)ELEMENTS + t->offset);
}

static struct mmul_host_operand operand(const struct trial *t, void *memory, int value) {
    static const float number = 3;
    if (draw(8) == 0 && t->dtype == MMUL_F32)
        return (struct mmul_host_operand){.at = &number, .dtype = MMUL_F32, .rows = 1, .cols = 1};
    const bool is_row = value == 0 && draw(2) == 0; // one row repeated
    return (struct mmul_host_operand){.at = element(t, memory, value),
                                      .dtype = t->dtype,
                                      .row_step = is_row ? 0 : t->ld,
                                      .col_step = 1,
                                      .rows = is_row ? 1 : t->rows,
                                      .cols = t->cols};
}

// Builds the same operations for the same seed, in any memory.
static void build_operations(struct trial *t, void *memory, bool is_together, int64_t cache_bytes) {
    static const struct mmul_parameters none = {.axis = -1};
    for (int i = 0; i < t->count; i++) {
        const enum mmul_operation_kind kind = KINDS[draw(sizeof KINDS / sizeof *KINDS)];
        struct mmul_host_map *host = &t->maps[i];
        *host = (struct mmul_host_map){.map = {.kind = kind,
                                               .with = &none,
                                               .rows = t->rows,
                                               .cols = t->cols,
                                               .shape = {1, 1, t->rows, t->cols},
                                               .matrices = 1,
                                               .operand_count = mmul_operation_row(kind)->most,
                                               .parallel = {1, NULL},
                                               .cache_bytes = is_together ? cache_bytes : 0},
                                       .result = element(t, memory, INPUTS + i),
                                       .dtype = t->dtype,
                                       .ld = t->ld};
        for (int p = 0; p < host->map.operand_count; p++)
            host->operands[p] =
                operand(t, memory, draw(2) == 0 && i > 0 ? INPUTS + i - 1 : draw(INPUTS + i));
        host->map.is_intermediate = is_together && i + 1 < t->count && draw(3) == 0;
        if (!is_together)
            (void)(i + 1 < t->count && draw(3) == 0);
    }
}

static void fill(const struct trial *t, void *memory) {
    for (int64_t e = 0; e < VALUES * (int64_t)ELEMENTS; e++)
        mmul_dtype_set_real(t->dtype, memory, e, GAP);
    for (int v = 0; v < INPUTS; v++)
        for (int64_t e = 0; e < t->rows * t->ld; e++)
            mmul_dtype_set_real(t->dtype, element(t, memory, v), e, (double)(e * (v + 2) % 19 - 9));
}

static bool compare_with_separate(struct mmul_device *device, struct trial *t, uint32_t seed,
                                  int64_t cache_bytes, void *found, void *expected) {
    struct mmul_error err;
    fill(t, found);
    fill(t, expected);
    random_state = seed;
    build_operations(t, expected, false, 0);
    for (int i = 0; i < t->count; i++)
        assert_int_equal(mmul_host_map_make(&t->maps[i], device, &err), MMUL_OK);
    random_state = seed;
    build_operations(t, found, true, cache_bytes);
    assert_int_equal(mmul_host_map_make_together(t->maps, t->count, device, &err), MMUL_OK);
    bool right = true;
    for (int v = 0; v < VALUES; v++)
        for (int64_t e = 0; e < ELEMENTS; e++) {
            const int64_t at = v * (int64_t)ELEMENTS + e, inside = e - t->offset;
            const double is = mmul_dtype_get_real(t->dtype, found, at);
            const bool is_gap =
                inside < 0 || inside >= t->rows * t->ld || inside % t->ld >= t->cols;
            const bool passes =
                v >= INPUTS && v - INPUTS < t->count && t->maps[v - INPUTS].map.is_intermediate;
            right =
                right && ((passes && !is_gap) || is == mmul_dtype_get_real(t->dtype, expected, at));
        }
    return right;
}

static void fused_operations_equal_separate_ones(void **state) {
    static const int64_t sides[][2] = {{1, 1},   {1, 15},  {5, 16},   {7, 33},   {300, 1},
                                       {3, 255}, {2, 257}, {1, 5000}, {9, 1024}, {40, 70}};
    static double found[VALUES * ELEMENTS], expected[VALUES * ELEMENTS];
    struct mmul_device *device = NULL;
    struct mmul_error err;
    int trials = 0;
    (void)state;
    assert_int_equal(mmul_device_open("cpu", &device, &err), MMUL_OK);
    for (uint32_t seed = 1; seed <= 400; seed++)
        for (int is_past = 0; is_past < 2; is_past++) {
            const int64_t *side = sides[seed % (sizeof sides / sizeof *sides)];
            struct trial t = {.dtype = seed % 3 == 0 ? MMUL_F64 : MMUL_F32,
                              .rows = side[0],
                              .cols = side[1],
                              .ld = side[1] + seed % 2 * 3,
                              .offset = seed % 17,
                              .count = 1 + (int)(seed % MOST)};
            if (!compare_with_separate(device, &t, seed, is_past, found, expected)) {
                print_error("seed %u, cache_bytes %d, %d operations on %lld x %lld\n", seed,
                            is_past, t.count, (long long)t.rows, (long long)t.cols);
                fail();
            }
            trials++;
        }
    assert_int_equal(trials, 800);
    mmul_device_close(device);
    assert_int_equal(mmul_live_bytes(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_operations_equal_separate_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
