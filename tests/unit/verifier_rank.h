// SPDX-License-Identifier: MIT
//
// For tests of the verifier: a rank, its product in a bench, and panels of the product.
#pragma once

#include "check_bench.h"
#include "exec/worker/verify.h"

// One rank without MPI, on the CPU.
struct rank {
    struct mmul_comm comm;
    struct mmul_context context;
    struct mmul_worker worker;
    struct mmul_verifier verifier;
    struct mmul_verifier_memory room;
    struct mmul_error err;
};

// The bench holds the whole product; pieces are its rows (or columns), panels its columns (or
// rows).
enum { PIECE = 79, PANEL = 23, UNITS = 4 * PANEL + 7, K = 37 };

static struct mmul_product shape_for(enum mmul_axis axis, int variant) {
    return (struct mmul_product){.m = axis == MMUL_ROWS ? PIECE : UNITS,
                                 .n = axis == MMUL_ROWS ? UNITS : PIECE,
                                 .k = K,
                                 .alpha = 2,
                                 .beta = variant / 4 % 2 != 0 ? -1 : 0,
                                 .transpose_a = variant % 2 != 0,
                                 .transpose_b = variant / 2 % 2 != 0};
}

static void start_rank(struct rank *rank, struct bench *bench, enum mmul_axis axis) {
    const struct mmul_worker_options options = {
        .tile = {.m = bench->product.m, .n = bench->product.n, .k = K}};
    *rank = (struct rank){.comm = {.rank = 3}};
    rank->context.comm = &rank->comm;
    rank->context.fallback_threads = 1;
    strcpy(rank->context.device_name, "cpu");
    for (int64_t at = 0; at < bench->product.m * bench->product.ldc_in; at++)
        bench->c_in[at] = (float)(at % 7 - 3);
    assert_int_equal(mmul_device_open("cpu", &rank->context.device, &rank->err), MMUL_OK);
    assert_int_equal(mmul_worker_init(&rank->worker, &rank->context, &options, &rank->err),
                     MMUL_OK);
    const struct mmul_verifier_request request = {.axis = axis,
                                                  .piece_units_max = PIECE,
                                                  .panel_units_max = PANEL,
                                                  .k_max = K,
                                                  .piece_count = 1,
                                                  .seed = 5};
    assert_int_equal(mmul_verifier_init(&rank->verifier, &rank->room, &request, &rank->err),
                     MMUL_OK);
}

static void stop_rank(struct rank *rank) {
    mmul_verifier_room_fini(&rank->room);
    mmul_worker_fini(&rank->worker);
    mmul_device_close(rank->context.device);
    mmul_text_fini(&rank->context.warnings);
}

static float *c_of(const struct mmul_product *product) {
    return product->c;
}

// Returns units [begin, begin + PANEL) of the operand that arrives in panels, and their block of C.
static struct mmul_product panel_of(const struct bench *bench, enum mmul_axis axis, int64_t begin) {
    int64_t end = begin + PANEL < UNITS ? begin + PANEL : UNITS;
    if (axis == MMUL_COLS)
        return mmul_product_rows(&bench->product, begin, end);
    struct mmul_product panel = bench->product;
    panel.n = end - begin;
    panel.b = bench->b + begin * (panel.transpose_b ? panel.ldb : 1);
    panel.c = c_of(&panel) + begin;
    panel.c_in = (const float *)panel.c_in + begin;
    return panel;
}

// Checks a block of a product, as the row of products in exec/steps/checks.c does.
static enum mmul_status check_product(struct mmul_verifier *verifier, struct rank *rank,
                                      const struct mmul_verifier_block *block) {
    struct mmul_verification v = {.method = &mmul_product_check,
                                  .verifier = verifier,
                                  .worker = &rank->worker,
                                  .block = block,
                                  .place = block->place};
    return mmul_verification_run(&v, &rank->err);
}

static enum mmul_status check_block(struct rank *rank, const struct mmul_product *product) {
    const struct mmul_verifier_block block = {.product = product, .place = "rows 7-68 of matrix 2"};
    return check_product(&rank->verifier, rank, &block);
}

static void compute_block(struct rank *rank, const struct mmul_product *block) {
    assert_int_equal(mmul_worker_multiply(&rank->worker, block, &rank->err), MMUL_OK);
}

static void assert_exact(const struct bench *bench) {
    const struct mmul_product *p = &bench->product;
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < p->k; l++)
                sum += (double)*a_at(bench, i, l) * (double)*b_at(bench, l, j);
            double c_in = p->beta != 0 ? bench->c_in[i * p->ldc_in + j] : 0;
            assert_true((double)*c_at(bench, i, j) ==
                        (double)p->alpha * sum + (double)p->beta * c_in);
        }
    }
}

// Spoils one element each in lines 3, 4, 5 and 20 of the second panel.
static void spoil_lines(const struct mmul_product *block, enum mmul_axis axis) {
    static const int64_t lines[] = {3, 4, 5, 20};
    for (int64_t l = 0; l < 4; l++) {
        int64_t i = axis == MMUL_ROWS ? 11 * l : lines[l],
                j = axis == MMUL_ROWS ? lines[l] : 11 * l;
        c_of(block)[i * block->ldc + j] += 1;
    }
}
