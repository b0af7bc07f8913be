// SPDX-License-Identifier: MIT
//
// Part of map_test.c: operations on blocks of several matrices of a stack. The block starts at the
// first matrix or later. Operands repeat matrices, are shared by heads, or have another order of
// matrices.
#pragma once

#include "map_trial.h"

static const enum mmul_operation_kind stacked[] = {MMUL_ADD,
                                                   MMUL_GELU,
                                                   MMUL_SIN,
                                                   MMUL_SILU_BACKWARD,
                                                   MMUL_WHERE,
                                                   MMUL_SOFTMAX,
                                                   MMUL_LAYER_NORM,
                                                   MMUL_TOPK,
                                                   MMUL_ARGMIN,
                                                   MMUL_SORT,
                                                   MMUL_ARGSORT,
                                                   MMUL_ROPE,
                                                   MMUL_CUMSUM,
                                                   MMUL_ONE_HOT,
                                                   MMUL_CROSS_ENTROPY,
                                                   MMUL_SORT_BACKWARD,
                                                   MMUL_SOFTMAX_BACKWARD,
                                                   MMUL_CROSS_ENTROPY_BACKWARD,
                                                   MMUL_RMS_NORM_BACKWARD,
                                                   MMUL_LAYER_NORM_BACKWARD,
                                                   MMUL_MEAN,
                                                   MMUL_MAX,
                                                   MMUL_PERMUTE,
                                                   MMUL_SLICE,
                                                   MMUL_TAKE,
                                                   MMUL_ATTENTION,
                                                   MMUL_ATTENTION_SUMS,
                                                   MMUL_ATTENTION_BACKWARD_Q,
                                                   MMUL_ATTENTION_BACKWARD_K,
                                                   MMUL_ATTENTION_BACKWARD_V,
                                                   MMUL_ATTENTION_BACKWARD_MASK};

static struct trial stack_trial(enum mmul_operation_kind kind, int turn) {
    static const int64_t stack_sizes[][2] = {{5, 7}, {1, 64}, {70, 33}, {130, 1}, {257, 120}};
    const int64_t rows = stack_sizes[turn % 5][0], cols = stack_sizes[turn % 5][1];
    struct trial t = {.kind = kind,
                      .rows = rows,
                      .cols = cols,
                      .with = {.causal = turn % 2 == 1,
                               .descending = turn % 3 == 1,
                               .epsilon = 1e-5,
                               .base = 10000,
                               .scale = 0.25,
                               .count = 1,
                               .axis = turn % 2 == 0 ? -1 : -2},
                      .shape = {3, 4, rows, cols},
                      .matrix = turn % 3,
                      .matrices = turn % 4 == 0 ? 1 : 12 - turn % 3 - turn % 2,
                      .source_count = mmul_operation_row(kind)->most,
                      .pad = turn % 3,
                      .tolerance = {64, 1e-5}};
    for (int i = 0; i < t.source_count; i++)
        t.sources[i] = (struct source){.layout = (enum layout)((turn + i) % ROW_AGAIN),
                                       .rows = rows,
                                       .cols = cols,
                                       .batch = i == 1 && turn % 2 == 0 ? 1 : 3,
                                       .depth = i == 2 && turn % 2 == 1 ? 1 : 4,
                                       .is_turned = turn % 2 == i % 2};
    return t;
}

// Tolerances as in map_test.c, for 1 to 120 columns.
static void set_tolerance(struct trial *t, bool is_double) {
    switch (t->kind) {
    case MMUL_CUMSUM:
        t->tolerance.absolute = 1e-4;
        break;
    case MMUL_SOFTMAX_BACKWARD:
    case MMUL_ATTENTION_SUMS:
        t->tolerance.absolute = 1e-3;
        break;
    case MMUL_RMS_NORM_BACKWARD:
    case MMUL_LAYER_NORM_BACKWARD:
        t->tolerance.absolute = t->cols == 1 ? 1e-2 : 1e-4;
        break;
    case MMUL_ATTENTION:
        t->tolerance.absolute = 1e-4;
        break;
    case MMUL_ROPE: // angles of float32 operands are doubles
        if (is_double)
            t->tolerance.absolute = 8 * 0x1p-24 * (double)(t->rows + 8);
        break;
    default:
        break;
    }
}

// Two heads of q share one head of k and v. Other row counts are three more than those of the
// result.
static void shape_attention(struct trial *t) {
    const struct mmul_operation_row *row = mmul_operation_row(t->kind);
    // the gradient kernels keep no scores: each element computes as many again
    if (t->rows * t->cols > 5000) {
        t->rows = t->shape.rows = 67;
        t->cols = t->shape.cols = 66;
        for (int i = 0; i < t->source_count; i++)
            t->sources[i].cols = t->cols;
    }
    const bool is_sums = t->kind == MMUL_ATTENTION_SUMS, by_key = row->parts[0] == 'a';
    const int64_t rows = by_key ? t->rows + 3 : t->rows, keys = by_key ? t->rows : t->rows + 3;
    for (int i = 0; i < row->least; i++) {
        const bool is_shared = i == 1 || (i == 2 && !is_sums);
        t->sources[i].rows = is_shared ? keys : rows;
        t->sources[i].batch = 3;
        t->sources[i].depth = is_shared ? 2 : 4;
    }
    t->sources[row->least].rows = rows;
    t->sources[row->least].cols = keys;
    if (row->least == 5) {
        t->sources[4].cols = 2;
        t->sources[4].flavour = POSITIVE;
        t->with.scale = 0.1 / sqrt((double)t->cols);
        t->tolerance.absolute =
            1e-4 * (double)(rows + keys); // powers of about e^2, slopes of some hundred
    }
    if (is_sums || t->kind == MMUL_ATTENTION_BACKWARD_MASK)
        t->cols = t->shape.cols = is_sums ? 2 : keys;
}

// Sets the shapes of operands that differ from the shape of the result.
static void shape_sources(struct trial *t, int turn) {
    const enum mmul_operation_class class = mmul_operation_row(t->kind)->class;
    if (class == MMUL_CLASS_ROWS) {
        for (int i = mmul_operation_row(t->kind)->by_row; i < t->source_count; i++)
            t->sources[i] = (struct source){.layout = PADDED};
        shape_rows(t, t->cols + (t->kind == MMUL_ROPE ? t->cols % 2 : 0));
    }
    if (class == MMUL_CLASS_REDUCE) {
        t->rows = t->shape.rows = turn % 2 == 0 ? t->rows : 1;
        t->cols = t->shape.cols = turn % 2 == 0 ? 1 : t->cols;
    }
    if (t->kind == MMUL_TAKE) {
        t->sources[0].batch = t->sources[0].depth = 1;
        t->sources[1] = (struct source){.layout = PADDED,
                                        .flavour = INDICES,
                                        .limit = t->rows,
                                        .rows = 1,
                                        .cols = t->rows,
                                        .batch = 3,
                                        .depth = 4};
    }
    if (class == MMUL_CLASS_ATTENTION)
        shape_attention(t);
}

static inline void test_stacks(struct bench *b) {
    for (size_t k = 0; k < sizeof stacked / sizeof *stacked; k++) {
        begin_operation(b);
        for (int turn = 0; turn < 15; turn++) {
            struct trial t = stack_trial(stacked[k], turn);
            shape_sources(&t, turn);
            set_tolerance(&t, b->dtype == MMUL_F64);
            try_on_both(b, &t);
        }
        end_operation(b, stacked[k]);
    }
}
