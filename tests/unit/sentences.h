// SPDX-License-Identifier: MIT
// A program shaped like a small sentence model: layers of attention and two products each, then the
// mean of a text's words. It reads no files.
#pragma once

#include <stdio.h>

#include "model/program.h"

enum { TEXTS = 64, WORDS = 128, WIDTH = 384, HEADS = 12, WIDE = 1536 };

static inline int sentence_call(struct mmul_program *p, enum mmul_operation_kind kind,
                                const int *operands, int count, struct mmul_parameters with) {
    struct mmul_operation o = {.kind = kind, .operand_count = count, .with = with};
    struct mmul_error err;
    int value = -1;
    for (int i = 0; i < count; i++)
        o.operands[i] = operands[i];
    o.shape = with.shape;
    if (mmul_program_append(p, &o, NULL, &value, &err) != MMUL_OK)
        fail_msg("%s", err.text);
    return value;
}

static inline int sentence_load(struct mmul_program *p, struct mmul_shape shape) {
    return sentence_call(p, MMUL_LOAD, NULL, 0, (struct mmul_parameters){.shape = shape});
}

static inline int sentence_one(struct mmul_program *p, enum mmul_operation_kind kind, int x,
                               struct mmul_parameters with) {
    return sentence_call(p, kind, &x, 1, with);
}

static inline int sentence_two(struct mmul_program *p, enum mmul_operation_kind kind, int x,
                               int y) {
    return sentence_call(p, kind, (const int[]){x, y}, 2, (struct mmul_parameters){.axis = 0});
}

// Adds x @ w.T + b, the form in which such models store weights.
static inline int sentence_linear(struct mmul_program *p, int x, int64_t from, int64_t to) {
    const struct mmul_parameters none = {.axis = 0};
    int w = sentence_load(p, (struct mmul_shape){1, 1, to, from});
    int b = sentence_load(p, (struct mmul_shape){1, 1, 1, to});
    w = sentence_one(p, MMUL_TRANSPOSE, w, none);
    return sentence_two(p, MMUL_ADD, sentence_two(p, MMUL_MATMUL, x, w), b);
}

static inline int sentence_norm(struct mmul_program *p, int x) {
    const struct mmul_shape vector = {1, 1, 1, WIDTH};
    int w = sentence_load(p, vector), b = sentence_load(p, vector);
    return sentence_call(p, MMUL_LAYER_NORM, (const int[]){x, w, b}, 3,
                         (struct mmul_parameters){.epsilon = 1e-12});
}

// Shapes: texts x words x width, or all words as the rows of one matrix.
static inline int sentence_layer(struct mmul_program *p, int x, bool flat) {
    const struct mmul_parameters apart = {.shape = {TEXTS, WORDS, HEADS, WIDTH / HEADS}},
                                 swap = {.axes = {0, 2, 1, 3}},
                                 together = {.shape = {1, flat ? 1 : TEXTS,
                                                       flat ? TEXTS * WORDS : WORDS, WIDTH}};
    int heads[3];
    for (int i = 0; i < 3; i++) {
        int part = sentence_linear(p, x, WIDTH, WIDTH);
        heads[i] = sentence_one(p, MMUL_PERMUTE, sentence_one(p, MMUL_RESHAPE, part, apart), swap);
    }
    int y = sentence_call(p, MMUL_ATTENTION, heads, 3, (struct mmul_parameters){.scale = 0.177});
    y = sentence_one(p, MMUL_RESHAPE, sentence_one(p, MMUL_PERMUTE, y, swap), together);
    y = sentence_norm(p, sentence_two(p, MMUL_ADD, sentence_linear(p, y, WIDTH, WIDTH), x));
    int wide = sentence_linear(p, y, WIDTH, WIDE);
    wide = sentence_one(p, MMUL_GELU, wide, (struct mmul_parameters){.axis = 0});
    return sentence_norm(p, sentence_two(p, MMUL_ADD, sentence_linear(p, wide, WIDE, WIDTH), y));
}

static inline void sentence_model(struct mmul_program *p, int layers, bool flat) {
    const struct mmul_parameters together = {.shape = {1, 1, TEXTS * WORDS, WIDTH}},
                                 texts = {.shape = {1, TEXTS, WORDS, WIDTH}}, down = {.axis = -2},
                                 none = {.axis = 0};
    int ids = sentence_load(p, (struct mmul_shape){1, 1, TEXTS, WORDS});
    int mask = sentence_load(p, (struct mmul_shape){1, TEXTS, WORDS, 1});
    int words = sentence_load(p, (struct mmul_shape){1, 1, 30522, WIDTH});
    int places = sentence_load(p, (struct mmul_shape){1, 1, WORDS, WIDTH});
    int x = sentence_two(p, MMUL_ADD, sentence_two(p, MMUL_TAKE, words, ids), places);
    x = sentence_norm(p, x);
    x = flat ? sentence_one(p, MMUL_RESHAPE, x, together) : x;
    for (int i = 0; i < layers; i++)
        x = sentence_layer(p, x, flat);
    x = flat ? sentence_one(p, MMUL_RESHAPE, x, texts) : x;
    x = sentence_one(p, MMUL_SUM, sentence_two(p, MMUL_MULTIPLY, x, mask), down);
    x = sentence_two(p, MMUL_DIVIDE, x, sentence_one(p, MMUL_SUM, mask, down));
    sentence_one(p, MMUL_SAVE, sentence_one(p, MMUL_NORMALIZE, x, none), none);
}
