// SPDX-License-Identifier: MIT
//
// Part of map_test.c: attention and its gradients.
#pragma once

#include <math.h>

#include "map_trial.h"

// rows, keys, depth, columns of v
static const int64_t attention_sizes[][4] = {{1, 1, 1, 1},      {7, 7, 3, 5},      {63, 65, 16, 17},
                                             {65, 63, 64, 33},  {5, 1001, 64, 64}, {300, 900, 8, 9},
                                             {450, 400, 33, 7}, {1, 700, 16, 16}};

// Skips large sizes when cases are written for numpy: the reference's plain loops have no blocks,
// so smaller sizes cover it, and large ones would take long.
static inline bool is_left_out(const struct bench *b, const int64_t *size) {
    return b->cases != NULL && size[0] * size[1] > 100000;
}

// A score is a sum of d products of up to 4 by 4, divided by sqrt d. Its error is about d 2^-24 16
// / sqrt d, and so is the relative error of its power and of the sum of values of up to 4. Rows
// with NaN or infinity are equal.
static inline void test_attention(struct bench *b) {
    begin_operation(b);
    for (int turn = 0; turn < 48; turn++) {
        const int64_t *size = attention_sizes[turn % 8];
        const int64_t rows = size[0], keys = size[1], depth = size[2], cols = size[3];
        const bool has_mask = turn / 8 % 3 == 1;
        if (is_left_out(b, size))
            continue;
        struct trial t = {.kind = MMUL_ATTENTION,
                          .rows = rows,
                          .cols = cols,
                          .shape = {1, 1, rows, cols},
                          .with = {.causal = turn / 8 % 2 == 1, .scale = 1 / sqrt((double)depth)},
                          .source_count = has_mask ? 4 : 3,
                          .pad = turn % 3};
        if (turn / 8 == 3) {
            t.row = 3;
            t.shape.rows = rows + 5;
        }
        const enum layout layout = (enum layout)(turn / 2 % ROW_AGAIN);
        t.sources[0] = (struct source){.layout = layout, .rows = rows, .cols = depth};
        t.sources[1] = (struct source){
            .layout = (enum layout)((layout + 3) % ROW_AGAIN), .rows = keys, .cols = depth};
        t.sources[2] = (struct source){.layout = (enum layout)((layout + 1) % ROW_AGAIN),
                                       .flavour = turn / 8 == 5 ? TIES : REAL,
                                       .rows = keys,
                                       .cols = cols};
        t.sources[3] = (struct source){
            .layout = (enum layout)(turn % ONE_AGAIN), .flavour = LOW, .rows = rows, .cols = keys};
        t.tolerance.absolute =
            4 * 0x1p-24 * (16 * sqrt((double)depth) + 16) * (turn / 8 == 5 ? 10 : 1);
        try_on_both(b, &t);
    }
    end_operation(b, MMUL_ATTENTION);
}

// Fills the sources of the gradients of attention: those of q, k, v, dy, sums, mask and sums of
// gradients that the kind has.
static void fill_sources(struct trial *t, const int64_t *size, int turn) {
    const bool is_sums = t->kind == MMUL_ATTENTION_SUMS;
    const bool by_key = mmul_operation_row(t->kind)->parts[0] == 'a';
    const int64_t rows = size[0], keys = size[1], depth = size[2], cols = size[3];
    const int64_t all[][2] = {{rows, depth}, {keys, depth}, {is_sums ? rows : keys, cols},
                              {rows, cols},  {rows, 2},     {rows, keys}};
    const int least = mmul_operation_row(t->kind)->least;
    const bool has_mask = turn / 8 % 3 == 1;
    t->source_count = least + has_mask;
    for (int i = 0; i < t->source_count; i++) {
        const bool is_mask = i == least;
        const int of = is_mask ? 5 : i;
        t->sources[i] = (struct source){
            .layout = (enum layout)((turn / 2 + i) % (is_mask ? ONE_AGAIN : ROW_AGAIN)),
            .flavour = is_mask   ? LOW
                       : of == 4 ? POSITIVE
                                 : REAL,
            .rows = all[of][0],
            .cols = all[of][1]};
    }
    t->rows = by_key ? keys : rows;
    t->cols = is_sums                                   ? 2
              : t->kind == MMUL_ATTENTION_BACKWARD_V    ? cols
              : t->kind == MMUL_ATTENTION_BACKWARD_MASK ? keys
                                                        : depth;
    t->shape = (struct mmul_shape){1, 1, t->rows, t->cols};
    if (turn / 8 == 3) {
        t->row = 3;
        t->shape.rows += 5;
    }
}

// A slope is a difference of sums of products of up to 4 by 4, times a power of up to about e^2; as
// many of these are added up.
static inline void test_attention_backward(struct bench *b) {
    for (int kind = MMUL_ATTENTION_SUMS; kind <= MMUL_ATTENTION_BACKWARD_MASK; kind++) {
        begin_operation(b);
        for (int turn = 0; turn < 48; turn++) {
            const int64_t *size = attention_sizes[turn % 8];
            const double scale = 0.1 / sqrt((double)size[2]);
            if (is_left_out(b, size))
                continue;
            struct trial t = {.kind = (enum mmul_operation_kind)kind,
                              .with = {.causal = turn / 8 % 2 == 1, .scale = scale},
                              .pad = turn % 3};
            fill_sources(&t, size, turn);
            const double slope = 0x1p-24 * 16 * (double)(size[3] + 8),
                         others = (double)(size[0] + size[1]);
            t.tolerance.absolute = kind == MMUL_ATTENTION_SUMS            ? slope
                                   : kind == MMUL_ATTENTION_BACKWARD_MASK ? 64 * slope
                                   : kind == MMUL_ATTENTION_BACKWARD_V    ? 0x1p-24 * 64 * others
                                                                       : 4 * slope * scale * others;
            try_on_both(b, &t);
        }
        end_operation(b, (enum mmul_operation_kind)kind);
    }
}
