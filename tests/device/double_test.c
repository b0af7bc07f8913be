// SPDX-License-Identifier: MIT
//
// Conformance test of a device, products in float64: `double_test NAME`. Whole numbers up to 2^20
// make every sum exact in a double and inexact in float32, so results equal the loops in this file
// element by element. A device without doubles refuses float64 and is not lost by that.
#include "base/random.h"
#include "problem.h"

#include <math.h>

// A matrix in a buffer of its own, surrounded by NaN.
struct stored64 {
    int64_t rows, cols, offset, ld, count;
    double *host;
    struct mmul_buffer *buffer;
};

static double whole_at(uint64_t seed, int64_t e) {
    return (double)((int64_t)(mmul_random_at(seed, (uint64_t)e) % (1 << 21)) - (1 << 20));
}

static struct stored64 store64(struct mmul_device *device, int64_t rows, int64_t cols, int64_t pad,
                               uint64_t seed) {
    struct stored64 s = {.rows = rows, .cols = cols, .offset = 3 * pad, .ld = cols + pad};
    struct mmul_error err;
    s.count = s.offset + rows * s.ld + pad;
    s.host = must_allocate(s.count, sizeof(double));
    for (int64_t e = 0; e < s.count; e++) {
        const int64_t inside = e - s.offset;
        s.host[e] = inside >= 0 && inside / s.ld < rows && inside % s.ld < cols
                        ? whole_at(seed, inside)
                        : NAN;
    }
    must_succeed(mmul_device_buffer_create(device, MMUL_F64, s.count, &s.buffer, &err), &err);
    must_succeed(
        mmul_device_upload(
            device,
            &(struct mmul_upload){{s.buffer, 0, s.count}, 1, s.count, s.host, s.count, MMUL_F64},
            &err),
        &err);
    return s;
}

static void discard64(struct mmul_device *device, struct stored64 *s) {
    mmul_device_buffer_destroy(device, s->buffer);
    free(s->host);
}

static double element(const struct stored64 *s, bool transposed, int64_t r, int64_t c) {
    return s->host[s->offset + (transposed ? c * s->ld + r : r * s->ld + c)];
}

static bool is_right(const struct problem *p, const struct stored64 *a, const struct stored64 *b,
                     const struct stored64 *c, const double *found) {
    for (int64_t e = 0; e < c->count; e++) {
        const int64_t inside = e - c->offset, i = inside / c->ld, j = inside % c->ld;
        double expected = c->host[e];
        if (inside >= 0 && i < p->m && j < p->n) {
            double sum = 0;
            for (int64_t q = 0; q < p->k; q++)
                sum += element(a, p->transpose_a, i, q) * element(b, p->transpose_b, q, j);
            expected = p->alpha * sum + (p->beta == 0 ? 0 : p->beta * expected);
        }
        if (found[e] != expected && !(isnan(found[e]) && isnan(expected)))
            return false;
    }
    return true;
}

static bool multiply(struct mmul_device *device, const struct problem *p) {
    struct mmul_error err;
    struct stored64 a = p->transpose_a ? store64(device, p->k, p->m, p->pad, 1)
                                       : store64(device, p->m, p->k, p->pad, 1);
    struct stored64 b = p->transpose_b ? store64(device, p->n, p->k, 2 * p->pad, 2)
                                       : store64(device, p->k, p->n, 2 * p->pad, 2);
    struct stored64 c = store64(device, p->m, p->n, 3 * p->pad, 3);
    double *found = must_allocate(c.count, sizeof(double));
    multiply_problem(device, p, MMUL_F64, (struct mmul_operand){a.buffer, a.offset, a.ld},
                     (struct mmul_operand){b.buffer, b.offset, b.ld},
                     (struct mmul_operand){c.buffer, c.offset, c.ld});
    must_succeed(
        mmul_device_download(
            device,
            &(struct mmul_download){{c.buffer, 0, c.count}, 1, c.count, found, c.count, MMUL_F64},
            &err),
        &err);
    must_succeed(mmul_device_wait(device, &err), &err);
    const bool right = is_right(p, &a, &b, &c, found);
    free(found);
    discard64(device, &a);
    discard64(device, &b);
    discard64(device, &c);
    return right;
}

static void test_products(struct mmul_device *device) {
    static const int64_t sizes[][3] = {{1, 1, 1},     {3, 2, 101},    {13, 17, 19},
                                       {64, 128, 32}, {131, 67, 139}, {257, 193, 211}};
    static const double factors[][2] = {{1, 0}, {-2, 1}, {3, -2}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        char name[96];
        bool right = true;
        for (int way = 0; way < 24 && right; way++) {
            const struct problem p = {.m = sizes[s][0],
                                      .n = sizes[s][1],
                                      .k = sizes[s][2],
                                      .pad = way / 12 * 5,
                                      .transpose_a = (way & 1) != 0,
                                      .transpose_b = (way & 2) != 0,
                                      .alpha = factors[way / 4 % 3][0],
                                      .beta = factors[way / 4 % 3][1]};
            right = multiply(device, &p);
        }
        snprintf(name, sizeof name, "exact product %lld x %lld x %lld in float64",
                 (long long)sizes[s][0], (long long)sizes[s][1], (long long)sizes[s][2]);
        report_point(right, name, "an element differs");
    }
}

// 1 + 2^-40 rounds to 1 in float32, and so does every product with it.
static void test_precision(struct mmul_device *device) {
    struct mmul_error err;
    struct stored64 a = store64(device, 1, 1, 0, 1), b = store64(device, 1, 1, 0, 2),
                    c = store64(device, 1, 1, 0, 3);
    const double one = 1 + 0x1p-40, three = 3;
    double found = 0;
    const struct mmul_operand to_a = {a.buffer, 0, 1}, to_b = {b.buffer, 0, 1},
                              from_c = {c.buffer, 0, 1};
    must_succeed(
        mmul_device_upload(device, &(struct mmul_upload){to_a, 1, 1, &one, 1, MMUL_F64}, &err),
        &err);
    must_succeed(
        mmul_device_upload(device, &(struct mmul_upload){to_b, 1, 1, &three, 1, MMUL_F64}, &err),
        &err);
    const struct mmul_gemm args = {
        .dtype = MMUL_F64, .m = 1, .n = 1, .k = 1, .alpha = 0.1, .a = to_a, .b = to_b, .c = from_c};
    must_succeed(mmul_device_gemm(device, &args, &err), &err);
    must_succeed(mmul_device_download(
                     device, &(struct mmul_download){from_c, 1, 1, &found, 1, MMUL_F64}, &err),
                 &err);
    must_succeed(mmul_device_wait(device, &err), &err);
    report_point(fabs(found - 0.3 * one) <= 0x1p-52,
                 "elements and alpha keep the precision of a double", "digits are lost");
    discard64(device, &a);
    discard64(device, &b);
    discard64(device, &c);
}

static void test_device_without_doubles(void) {
    struct mmul_device *device = NULL;
    struct mmul_error err;
    must_succeed(mmul_device_open("faulty:no-float64:cpu", &device, &err), &err);
    struct mmul_buffer *buffer = NULL;
    report_point(mmul_device_warm_up(device, MMUL_F64, INFINITY, &err) == MMUL_ERR_UNAVAILABLE &&
                     mmul_device_buffer_create(device, MMUL_F64, 5, &buffer, &err) ==
                         MMUL_ERR_UNAVAILABLE &&
                     strstr(err.text, "does not support float64") != NULL,
                 "a device without doubles refuses float64", "float64 is not refused");
    must_succeed(mmul_device_buffer_create(device, MMUL_F32, 5, &buffer, &err), &err);
    mmul_device_buffer_destroy(device, buffer);
    report_point(!device->lost, "a device that refused float64 is not lost", "it is lost");
    mmul_device_close(device);
}

int main(int argc, char **argv) {
    struct mmul_device *device = open_device(argc, argv);
    struct mmul_error err;
    if (mmul_device_has_dtype(device, MMUL_F64)) {
        must_succeed(mmul_device_warm_up(device, MMUL_F64, INFINITY, &err), &err);
        test_products(device);
        test_precision(device);
    } else {
        printf("ok %d - products in float64 # SKIP the device has no doubles\n", ++points);
    }
    test_device_without_doubles();
    return close_device(device);
}
