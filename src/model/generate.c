// SPDX-License-Identifier: MIT
// Matrices from a seed. Element e is a function of (seed, e) alone, which makes the same matrix on
// any number of ranks. Normal values come in pairs (2q, 2q+1) from the draws at these positions.
// Writing to a file is part of io.
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "base/status.h"
#include "model/matrix.h"

static const char *const generators[] = {
    [MMUL_GENERATE_UNIFORM] = "uniform", [MMUL_GENERATE_NORMAL] = "normal",
    [MMUL_GENERATE_INTEGER] = "integer", [MMUL_GENERATE_IDENTITY] = "identity",
    [MMUL_GENERATE_ZEROS] = "zeros",     [MMUL_GENERATE_ONES] = "ones",
    [MMUL_GENERATE_RAND] = "rand",
};

enum mmul_status mmul_generator_parse(const char *text, enum mmul_generator *kind,
                                      struct mmul_error *err) {
    for (size_t g = 0; g < sizeof generators / sizeof *generators; g++) {
        if (strcmp(text, generators[g]) == 0) {
            *kind = (enum mmul_generator)g;
            return MMUL_OK;
        }
    }
    return mmul_fail(
        err, MMUL_ERR_USAGE,
        "unknown kind of matrix '%s': expected uniform, normal, integer, identity, zeros, ones or "
        "rand",
        text);
}

// Takes the upper 24 bits, every value of which is exact in float32.
static void generate_uniform(uint64_t seed, int64_t begin, int64_t end, float *dst) {
    for (int64_t e = begin; e < end; e++) {
        int32_t draw = (int32_t)(mmul_random_at(seed, (uint64_t)e) >> 40);
        dst[e - begin] = (float)(draw - (1 << 23)) * 0x1p-23F;
    }
}

// Uses the draws of uniform: half of each, plus 1/2.
static void generate_rand(uint64_t seed, int64_t begin, int64_t end, float *dst) {
    for (int64_t e = begin; e < end; e++)
        dst[e - begin] = (float)(mmul_random_at(seed, (uint64_t)e) >> 40) * 0x1p-24F;
}

// Multiply-shift onto 0..8 (Lemire 2019, without rejection: the bias is below 2^-28).
static void generate_integer(uint64_t seed, int64_t begin, int64_t end, float *dst) {
    for (int64_t e = begin; e < end; e++) {
        uint64_t draw = mmul_random_at(seed, (uint64_t)e) >> 32;
        dst[e - begin] = (float)((int32_t)(draw * 9 >> 32) - 4);
    }
}

// Box, Muller 1958: two uniform draws in (0,1] and [0,1) give two independent normal values. They
// are always computed as a pair, so that both come from the same library calls.
static void normal_pair(uint64_t seed, int64_t even, float pair[2]) {
    double u = (double)((mmul_random_at(seed, (uint64_t)even) >> 11) + 1) * 0x1p-53;
    double v = (double)(mmul_random_at(seed, (uint64_t)even + 1) >> 11) * 0x1p-53;
    double radius = sqrt(-2 * log(u));
    double angle = 6.283185307179586476925 * v;
    pair[0] = (float)(radius * cos(angle));
    pair[1] = (float)(radius * sin(angle));
}

static void generate_normal(uint64_t seed, int64_t begin, int64_t end, float *dst) {
    for (int64_t even = begin & ~INT64_C(1); even < end; even += 2) {
        float pair[2];
        normal_pair(seed, even, pair);
        if (even >= begin)
            dst[even - begin] = pair[0];
        if (even + 1 < end)
            dst[even + 1 - begin] = pair[1];
    }
}

static void generate_identity(struct mmul_shape shape, int64_t begin, int64_t end, float *dst) {
    int64_t col = begin % shape.cols, row = begin / shape.cols % shape.rows;
    for (int64_t e = begin; e < end; e++) {
        dst[e - begin] = row == col ? 1.0F : 0.0F;
        if (++col < shape.cols)
            continue;
        col = 0;
        if (++row == shape.rows)
            row = 0;
    }
}

void mmul_generate(enum mmul_generator kind, uint64_t seed, struct mmul_shape shape, int64_t begin,
                   int64_t end, float *dst) {
    if (begin >= end)
        return;
    switch (kind) {
    case MMUL_GENERATE_UNIFORM:
        generate_uniform(seed, begin, end, dst);
        break;
    case MMUL_GENERATE_NORMAL:
        generate_normal(seed, begin, end, dst);
        break;
    case MMUL_GENERATE_INTEGER:
        generate_integer(seed, begin, end, dst);
        break;
    case MMUL_GENERATE_IDENTITY:
        generate_identity(shape, begin, end, dst);
        break;
    case MMUL_GENERATE_RAND:
        generate_rand(seed, begin, end, dst);
        break;
    case MMUL_GENERATE_ZEROS:
    case MMUL_GENERATE_ONES:
        for (int64_t e = 0; e < end - begin; e++)
            dst[e] = kind == MMUL_GENERATE_ONES ? 1 : 0;
        break;
    }
}
