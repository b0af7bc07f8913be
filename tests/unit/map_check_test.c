// SPDX-License-Identifier: MIT
//
// Checks of operations' results by samples: all of a small block, some rows or pieces of rows of a
// large one, always including the first and the last. Results of the CPU pass; results spoiled in
// many places fail.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "exec/steps/map_check.h"

enum { OPERANDS = MMUL_OPERANDS };

struct block {
    enum mmul_operation_kind kind;
    int64_t rows, cols;            // size of the result
    int64_t operands[OPERANDS][2]; // rows, columns; 0: no such operand
    struct mmul_parameters with;
};

static const struct block blocks[] = {
    {MMUL_RELU, 7, 9, {{7, 9}}, {.count = 0}},
    {MMUL_RELU, 700, 900, {{700, 900}}, {.count = 0}},
    {MMUL_GELU, 700, 900, {{700, 900}}, {.count = 0}},
    {MMUL_EXP, 1, 200003, {{1, 200003}}, {.count = 0}},
    {MMUL_ADD, 300003, 1, {{300003, 1}, {300003, 1}}, {.count = 0}},
    {MMUL_SLICE, 513, 257, {{513, 257}}, {.count = 0}},
    {MMUL_SOFTMAX, 300, 700, {{300, 700}}, {.causal = true}},
    {MMUL_LAYER_NORM, 300, 700, {{300, 700}, {1, 700}, {1, 700}}, {.epsilon = 1e-5}},
    {MMUL_TOPK, 400, 6, {{400, 500}}, {.count = 3}},
    {MMUL_ARGMAX, 400, 1, {{400, 500}}, {.count = 0}},
    {MMUL_ARGMIN, 400, 1, {{400, 500}}, {.count = 0}},
    {MMUL_SORT, 300, 700, {{300, 700}}, {.descending = true}},
    {MMUL_ARGSORT, 300, 700, {{300, 700}}, {.count = 0}},
    {MMUL_SORT_BACKWARD, 300, 700, {{300, 700}, {300, 700}}, {.count = 0}},
    {MMUL_SIN, 700, 900, {{700, 900}}, {.count = 0}},
    {MMUL_COS, 7, 9, {{7, 9}}, {.count = 0}},
    {MMUL_SILU_BACKWARD, 700, 900, {{700, 900}, {700, 900}}, {.count = 0}},
    {MMUL_GELU_BACKWARD, 700, 900, {{700, 900}, {700, 900}}, {.count = 0}},
    {MMUL_GELU_TANH_BACKWARD, 700, 900, {{700, 900}, {700, 900}}, {.count = 0}},
    {MMUL_ERF, 700, 900, {{700, 900}}, {.count = 0}},
    {MMUL_ARCTAN, 7, 9, {{7, 9}}, {.count = 0}},
    {MMUL_EXPM1, 700, 900, {{700, 900}}, {.count = 0}},
    {MMUL_FLOOR, 700, 900, {{700, 900}}, {.count = 0}},
    {MMUL_ROUND, 7, 9, {{7, 9}}, {.count = 0}},
    {MMUL_LOG1P, 700, 900, {{700, 900}}, {.count = 0}},
    {MMUL_MULTIPLY_BACKWARD, 700, 900, {{700, 900}, {700, 900}}, {.count = 0}},
    {MMUL_DIVIDE_BACKWARD, 7, 9, {{7, 9}, {7, 9}}, {.count = 0}},
    {MMUL_CUMSUM, 300, 700, {{300, 700}}, {.axis = -1}},
    {MMUL_ONE_HOT, 900, 50, {{900, 1}}, {.count = 50}},
    {MMUL_CROSS_ENTROPY, 400, 1, {{400, 500}, {400, 1}}, {.count = 0}},
    {MMUL_CROSS_ENTROPY_BACKWARD, 300, 700, {{300, 700}, {300, 1}, {300, 1}}, {.count = 0}},
    {MMUL_SOFTMAX_BACKWARD, 300, 700, {{300, 700}, {300, 700}}, {.count = 0}},
    {MMUL_RMS_NORM_BACKWARD, 300, 700, {{300, 700}, {300, 700}}, {.epsilon = 1e-5}},
    {MMUL_RMS_NORM_BACKWARD, 9, 7, {{9, 7}, {9, 7}, {1, 7}}, {.epsilon = 1e-5}},
    {MMUL_LAYER_NORM_BACKWARD, 300, 700, {{300, 700}, {300, 700}, {1, 700}}, {.epsilon = 1e-5}},
    {MMUL_SUM_AT, 50, 300, {{900, 300}, {900, 1}}, {.axis = -2, .count = 50}},
    {MMUL_SUM_AT, 50, 3, {{9, 3}, {9, 1}}, {.axis = -2, .count = 50}},
    {MMUL_SUM, 900, 1, {{900, 300}}, {.axis = -1}},
    {MMUL_SUM, 1, 900, {{300, 900}}, {.axis = -2}},
    {MMUL_MEAN, 1, 5, {{90001, 5}}, {.axis = -2}},
    {MMUL_TAKE, 900, 300, {{50, 300}, {1, 900}}, {.count = 0}},
    {MMUL_ATTENTION, 100, 24, {{100, 16}, {300, 16}, {300, 24}, {100, 300}}, {.scale = 0.25}},
    {MMUL_ATTENTION_SUMS, 30, 2, {{30, 16}, {40, 16}, {30, 24}, {30, 24}}, {.scale = 0.25}},
    {MMUL_ATTENTION_BACKWARD_Q,
     100,
     16,
     {{100, 16}, {300, 16}, {300, 24}, {100, 24}, {100, 2}, {100, 300}},
     {.scale = 0.25}},
    {MMUL_ATTENTION_BACKWARD_K,
     300,
     16,
     {{100, 16}, {300, 16}, {300, 24}, {100, 24}, {100, 2}},
     {.scale = 0.25, .causal = true}},
    {MMUL_ATTENTION_BACKWARD_V,
     300,
     24,
     {{100, 16}, {300, 16}, {300, 24}, {100, 24}, {100, 2}, {100, 300}},
     {.scale = 0.25}},
    {MMUL_ATTENTION_BACKWARD_MASK,
     100,
     300,
     {{100, 16}, {300, 16}, {300, 24}, {100, 24}, {100, 2}},
     {.scale = 0.25}},
};
enum { BLOCKS = sizeof blocks / sizeof *blocks };

static float *make_values(int64_t count, uint64_t seed, int64_t below) {
    float *memory = malloc((size_t)count * sizeof *memory);
    for (int64_t e = 0; e < count; e++) {
        const uint64_t random = mmul_random_at(seed, (uint64_t)e);
        memory[e] = below > 0 ? (float)(random % (uint64_t)below)
                              : (float)((double)(random >> 40) * 0x1p-22 - 2);
    }
    return memory;
}

// Returns the number that an index operand counts or selects from; 0: the operand holds no indices.
// All tables and rows here have at least 50.
static int64_t index_limit(const struct block *b, int operand) {
    const bool is_take = b->kind == MMUL_TAKE && operand == 1;
    return is_take || operand + 1 == mmul_operation_row(b->kind)->indices ? 50 : 0;
}

// Computes the block on the CPU; the caller frees operands and result.
static struct mmul_host_map compute_block(const struct block *b, struct mmul_device *cpu,
                                          float *memory[OPERANDS]) {
    struct mmul_error err;
    struct mmul_host_map host = {.map = {.kind = b->kind,
                                         .with = &b->with,
                                         .rows = b->rows,
                                         .cols = b->cols,
                                         .shape = {1, 1, b->rows, b->cols},
                                         .matrices = 1},
                                 .result = malloc((size_t)(b->rows * b->cols) * sizeof(float)),
                                 .ld = b->cols};
    for (int i = 0; i < OPERANDS && b->operands[i][0] > 0; i++) {
        const int64_t rows = b->operands[i][0], cols = b->operands[i][1];
        memory[i] = make_values(rows * cols, (uint64_t)i, index_limit(b, i));
        host.operands[i] = (struct mmul_host_operand){
            .at = memory[i], .row_step = cols, .col_step = 1, .rows = rows, .cols = cols};
        host.map.operand_count = i + 1;
    }
    assert_int_equal(mmul_host_map_make(&host, cpu, &err), MMUL_OK);
    return host;
}

static void release_block(struct mmul_host_map *host, float *memory[OPERANDS]) {
    for (int i = 0; i < host->map.operand_count; i++)
        free(memory[i]);
    free(host->result);
}

static int64_t count_wrong(const struct mmul_host_map *host, struct mmul_device *judge,
                           uint64_t seed, int64_t *looked_at) {
    struct mmul_error err;
    int64_t wrong = -1;
    assert_int_equal(mmul_map_check_sample(host, judge, seed, &wrong, looked_at, &err), MMUL_OK);
    return wrong;
}

struct devices {
    struct mmul_device *cpu, *judge;
};

static int open_devices(void **state) {
    static struct devices devices;
    struct mmul_error err;
    *state = &devices;
    return mmul_device_open("cpu", &devices.cpu, &err) != MMUL_OK ||
           mmul_device_open("reference", &devices.judge, &err) != MMUL_OK;
}

static int close_devices(void **state) {
    struct devices *devices = *state;
    mmul_device_close(devices->cpu);
    mmul_device_close(devices->judge);
    return 0;
}

static void test_correct_blocks_pass(void **state) {
    const struct devices *d = *state;
    for (int i = 0; i < BLOCKS; i++) {
        float *memory[OPERANDS];
        int64_t looked_at = 0;
        struct mmul_host_map host = compute_block(&blocks[i], d->cpu, memory);
        for (uint64_t seed = 1; seed <= 5; seed++)
            assert_int_equal(count_wrong(&host, d->judge, seed, &looked_at), 0);
        assert_true(looked_at >= 1);
        release_block(&host, memory);
    }
}

// Spoils one element in a hundred by ten per cent of the typical size; or whole blocks are never
// written.
static void test_spoiled_blocks_fail(void **state) {
    const struct devices *d = *state;
    for (int i = 0; i < BLOCKS; i++)
        for (int turn = 0; turn < 2; turn++) {
            float *memory[OPERANDS];
            int64_t looked_at = 0;
            struct mmul_host_map host = compute_block(&blocks[i], d->cpu, memory);
            float *result = host.result;
            const int64_t count = host.map.rows * host.map.cols;
            double squares = 0;
            for (int64_t e = 0; e < count; e++)
                squares += (double)result[e] * (double)result[e];
            const float off = (float)(0.1 * sqrt(squares / (double)count));
            for (int64_t e = 0; e < count; e++)
                if (turn == 1)
                    result[e] = 0;
                else if (count < 100 ? e == count - 1 : e % 41 == 7)
                    result[e] += off;
            assert_true(count_wrong(&host, d->judge, 3, &looked_at) > 0);
            release_block(&host, memory);
        }
}

// First and last rows are always inspected: a kernel's last group, a download's last piece.
static void test_the_first_and_the_last_row_are_inspected(void **state) {
    const struct devices *d = *state;
    const struct block *b = &blocks[6];
    for (int last = 0; last < 2; last++) {
        float *memory[OPERANDS];
        int64_t looked_at = 0;
        struct mmul_host_map host = compute_block(b, d->cpu, memory);
        ((float *)host.result)[last ? b->rows * b->cols - 1 : 0] += 1;
        assert_int_equal(count_wrong(&host, d->judge, 1, &looked_at), 1);
        assert_true(looked_at < b->rows);
        release_block(&host, memory);
    }
}

// Gradients of 65536, as of a scaled loss, are all alike. Their differences cancel: the results are
// their rounding, and far smaller than they. A slip of a hundredth of them is found.
static void test_terms_that_cancel_raise_no_alarm(void **state) {
    static const struct block cancelling[] = {
        {MMUL_SOFTMAX_BACKWARD, 3, 50, {{3, 50}, {3, 50}}, {.count = 0}},
        {MMUL_CROSS_ENTROPY_BACKWARD, 3, 50, {{3, 50}, {3, 1}, {3, 1}}, {.count = 0}},
        {MMUL_LAYER_NORM_BACKWARD, 3, 50, {{3, 50}, {3, 50}}, {.epsilon = 1e-5}}};
    const struct devices *d = *state;
    for (int i = 0; i < 3; i++) {
        float *memory[OPERANDS];
        int64_t looked_at = 0;
        struct mmul_error err;
        const struct block *b = &cancelling[i];
        const bool is_loss = b->kind == MMUL_CROSS_ENTROPY_BACKWARD;
        struct mmul_host_map host = compute_block(b, d->cpu, memory);
        for (int64_t e = 0; e < 150; e++)
            memory[0][e] = is_loss ? (float)(e % 50 == 7 ? 18 : 0) : (float)(1 + e % 7) / 3;
        for (int64_t row = 0; row < 3; row++) {
            float sum = 0;
            for (int64_t e = 0; e < 50; e++)
                sum += memory[0][row * 50 + e];
            for (int64_t e = 0; !is_loss && e < 50; e++)
                memory[0][row * 50 + e] /= sum;
            memory[1][row] = is_loss ? 7 : memory[1][row];
        }
        float *const gradients = memory[is_loss ? 2 : 1];
        for (int64_t e = 0; e < (is_loss ? 3 : 150); e++)
            gradients[e] = 65536;
        assert_int_equal(mmul_host_map_make(&host, d->cpu, &err), MMUL_OK);
        assert_int_equal(count_wrong(&host, d->judge, 1, &looked_at), 0);
        // rounding of the device, in units of the largest term
        ((float *)host.result)[57] +=
            65536 * 0x1p-23F * (b->kind == MMUL_SOFTMAX_BACKWARD ? memory[0][57] : 1);
        assert_int_equal(count_wrong(&host, d->judge, 1, &looked_at), 0);
        ((float *)host.result)[57] += 655;
        assert_int_equal(count_wrong(&host, d->judge, 1, &looked_at), 1);
        release_block(&host, memory);
    }
}

// A sum in another order may overflow. The reference's does not, or becomes NaN.
static void test_overflow_of_a_sum_is_no_alarm(void **state) {
    static const struct block sums = {MMUL_SUM, 2, 1, {{2, 4}}, {.axis = -1}};
    const struct devices *d = *state;
    const float most = 3e38F, row[] = {most, most, -most, -most, 1, 2, 3, 4};
    float *memory[OPERANDS];
    int64_t looked_at = 0;
    struct mmul_host_map host = compute_block(&sums, d->cpu, memory);
    float *const result = host.result;
    memcpy(memory[0], row, sizeof row);
    result[0] = INFINITY;
    result[1] = 10;
    assert_int_equal(count_wrong(&host, d->judge, 1, &looked_at), 0);
    memory[0][0] = memory[0][1] = memory[0][2] = memory[0][3] = 1;
    assert_int_equal(count_wrong(&host, d->judge, 1, &looked_at), 1);
    release_block(&host, memory);
}

// The size of one row says nothing about another one, nor does an infinite element about the rest.
static void test_rows_have_tolerances_of_their_own(void **state) {
    static const struct block element = {MMUL_GELU, 2, 40, {{2, 40}}, {.count = 0}};
    const struct devices *d = *state;
    float *memory[OPERANDS];
    int64_t looked_at = 0;
    struct mmul_error err;
    struct mmul_host_map host = compute_block(&element, d->cpu, memory);
    for (int64_t e = 0; e < 40; e++)
        memory[0][e] *= 1e10F;
    memory[0][40] = INFINITY;
    assert_int_equal(mmul_host_map_make(&host, d->cpu, &err), MMUL_OK);
    assert_int_equal(count_wrong(&host, d->judge, 1, &looked_at), 0);
    ((float *)host.result)[45] += 0.1F;
    assert_int_equal(count_wrong(&host, d->judge, 1, &looked_at), 1);
    release_block(&host, memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_terms_that_cancel_raise_no_alarm),
        cmocka_unit_test(test_overflow_of_a_sum_is_no_alarm),
        cmocka_unit_test(test_rows_have_tolerances_of_their_own),
        cmocka_unit_test(test_correct_blocks_pass),
        cmocka_unit_test(test_spoiled_blocks_fail),
        cmocka_unit_test(test_the_first_and_the_last_row_are_inspected),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
