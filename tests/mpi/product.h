// SPDX-License-Identifier: MIT
// One product of integer matrices in memory, shared by the tests of this folder: operands of any
// dtype and orientation, and naive loops to compare with. With integers in [-4, 4] every float32
// sum is exact in any order.
#pragma once

#include <stdlib.h>
#include <string.h>

#include "mpimatmul_local.h"

struct shapes {
    int64_t a_batch, a_depth, b_batch, b_depth, m, n, k;
};

struct variant {
    struct shapes s;
    bool transpose_a, transpose_b;
    enum mmul_dtype a_dtype, b_dtype;
    float alpha, beta;
    enum mmul_split_choice split;
    int weighting; // index into the test's weightings
    double tail;   // fraction left to claims; 0: auto, negative: off
};

// ------------------------------------------------------------------------------------- operands

struct operand {
    struct mmul_shape shape;
    enum mmul_dtype dtype;
    void *stored;  // data passed to the library
    float *values; // numbers of `stored` as float32
};

static int64_t elements(struct mmul_shape s) {
    return s.batch * s.depth * s.rows * s.cols;
}

// Small integers are exact in 16 bits: bfloat16 is the upper half of a float32, float16 is looked
// up.
static uint16_t half_bits(enum mmul_dtype dtype, float value) {
    static const uint16_t f16[] = {0xC400, 0xC200, 0xC000, 0xBC00, 0x0000,
                                   0x3C00, 0x4000, 0x4200, 0x4400};
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return dtype == MMUL_BF16 ? (uint16_t)(bits >> 16) : f16[(int)value + 4];
}

static struct operand make_operand(struct mmul_shape shape, enum mmul_dtype dtype, uint64_t seed) {
    struct operand o = {.shape = shape, .dtype = dtype};
    int64_t count = elements(shape);
    o.values = malloc((size_t)count * sizeof(float));
    mmul_generate(MMUL_GENERATE_INTEGER, seed, shape, 0, count, o.values);
    if (dtype == MMUL_F32) {
        o.stored = o.values;
        return o;
    }
    uint16_t *half = malloc((size_t)count * sizeof *half);
    for (int64_t i = 0; i < count; i++)
        half[i] = half_bits(dtype, o.values[i]);
    o.stored = half;
    return o;
}

static void free_operand(struct operand *o) {
    if (o->stored != o->values)
        free(o->stored);
    free(o->values);
}

// ------------------------------------------------------------------------------------ reference

static const float *matrix_of(const struct operand *o, int64_t batch, int64_t depth) {
    int64_t b = o->shape.batch == 1 ? 0 : batch, d = o->shape.depth == 1 ? 0 : depth;
    return o->values + (b * o->shape.depth + d) * o->shape.rows * o->shape.cols;
}

static double dot(const struct variant *v, const float *a, const float *b, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t p = 0; p < v->s.k; p++)
        sum += (double)(v->transpose_a ? a[p * v->s.m + i] : a[i * v->s.k + p]) *
               (double)(v->transpose_b ? b[j * v->s.k + p] : b[p * v->s.n + j]);
    return sum;
}

// Returns the number of elements of C that differ from the loops.
static int64_t count_wrong(const struct variant *v, const struct operand *a,
                           const struct operand *b, const float *c_in, struct mmul_shape shape,
                           const float *c) {
    int64_t wrong = 0;
    for (int64_t batch = 0; batch < shape.batch; batch++)
        for (int64_t depth = 0; depth < shape.depth; depth++)
            for (int64_t i = 0; i < shape.rows; i++)
                for (int64_t j = 0; j < shape.cols; j++, c++, c_in++) {
                    double value = (double)v->alpha * dot(v, matrix_of(a, batch, depth),
                                                          matrix_of(b, batch, depth), i, j);
                    if (v->beta != 0)
                        value += (double)v->beta * (double)*c_in;
                    wrong += (double)*c != value;
                }
    return wrong;
}

// --------------------------------------------------------------------------------------- one job

struct job {
    struct operand a, b, c_in;
    struct mmul_matmul args;
    struct mmul_shape shape;
    float *c;
    char weights[128];
};

static void open_job(struct job *job, const struct variant *v) {
    const struct shapes *s = &v->s;
    struct mmul_shape a = {s->a_batch, s->a_depth, v->transpose_a ? s->k : s->m,
                           v->transpose_a ? s->m : s->k};
    struct mmul_shape b = {s->b_batch, s->b_depth, v->transpose_b ? s->n : s->k,
                           v->transpose_b ? s->k : s->n};
    struct mmul_error err;
    enum mmul_dtype dtype;
    job->a = make_operand(a, v->a_dtype, 1);
    job->b = make_operand(b, v->b_dtype, 2);
    job->shape = (struct mmul_shape){a.batch > b.batch ? a.batch : b.batch,
                                     a.depth > b.depth ? a.depth : b.depth, s->m, s->n};
    job->c_in = make_operand(job->shape, MMUL_F32, 3);
    job->c = malloc((size_t)elements(job->shape) * sizeof(float));
    for (int64_t i = 0; i < elements(job->shape); i++)
        job->c[i] = -12345;
    mmul_matrix_borrow(job->a.stored, a, v->a_dtype, "A", &job->args.a, &err);
    mmul_matrix_borrow(job->b.stored, b, v->b_dtype, "B", &job->args.b, &err);
    mmul_matrix_borrow(job->c_in.stored, job->shape, MMUL_F32, "C", &job->args.c_in, &err);
    if (mmul_matmul_result(&job->args, &job->shape, &dtype, &err) != MMUL_OK)
        fprintf(stderr, "# %s\n", err.text);
    mmul_output_borrow(job->c, job->shape, MMUL_F32, &job->args.output, &err);
}

static void close_job(struct job *job) {
    mmul_matrix_close(job->args.a);
    mmul_matrix_close(job->args.b);
    mmul_matrix_close(job->args.c_in);
    free_operand(&job->a);
    free_operand(&job->b);
    free_operand(&job->c_in);
    free(job->c);
}
