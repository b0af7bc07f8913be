// SPDX-License-Identifier: MIT
//
// A device against plain loops. Every product is compared in some of its rows, the first and the
// last among them, and in all columns of those.
// Much shorter than the conformance tests: it runs where a user waits for it.
#include "device/self_test.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"

// A, B and C of one product, packed.
struct trial {
    struct mmul_device *device;
    struct mmul_gemm gemm;
    float *a, *b, *c, *found;
};

enum { ROWS_COMPARED = 24 };

static void trial_fini(struct trial *t) {
    mmul_device_buffer_destroy(t->device, t->gemm.a.buffer);
    mmul_device_buffer_destroy(t->device, t->gemm.b.buffer);
    mmul_device_buffer_destroy(t->device, t->gemm.c.buffer);
    mmul_free(t->a);
    mmul_free(t->b);
    mmul_free(t->c);
    mmul_free(t->found);
}

// Whole numbers from -4 to 4, on the host and begun to be sent.
static enum mmul_status fill(struct trial *t, int64_t count, uint64_t seed, float **host,
                             struct mmul_buffer **buffer, struct mmul_error *err) {
    enum mmul_status status = MMUL_ALLOCATE_RAW(*host, count, "a self-test", err);
    for (int64_t e = 0; status == MMUL_OK && e < count; e++)
        (*host)[e] = (float)((int64_t)(mmul_random_at(seed, (uint64_t)e) % 9) - 4);
    if (status == MMUL_OK)
        status = mmul_device_buffer_create(t->device, count, buffer, err);
    const struct mmul_operand to = {*buffer, 0, count};
    return status == MMUL_OK
               ? mmul_device_upload(
                     t->device, &(struct mmul_upload){to, 1, count, *host, count, MMUL_F32}, err)
               : status;
}

static enum mmul_status trial_init(struct trial *t, int64_t m, int64_t n, int64_t k, int way,
                                   struct mmul_error *err) {
    struct mmul_gemm *g = &t->gemm;
    *g = (struct mmul_gemm){.transpose_a = (way & 1) != 0,
                            .transpose_b = (way & 2) != 0,
                            .m = m,
                            .n = n,
                            .k = k,
                            .alpha = way < 2 ? 1 : -2,
                            .beta = way % 3 == 0 ? 0 : 3};
    g->a.ld = g->transpose_a ? m : k;
    g->b.ld = g->transpose_b ? k : n;
    g->c.ld = n;
    enum mmul_status status = fill(t, m * k, 1, &t->a, &g->a.buffer, err);
    if (status == MMUL_OK)
        status = fill(t, k * n, 2, &t->b, &g->b.buffer, err);
    if (status == MMUL_OK)
        status = fill(t, m * n, 3, &t->c, &g->c.buffer, err);
    return status == MMUL_OK ? MMUL_ALLOCATE_RAW(t->found, m * n, "a self-test", err) : status;
}

static double expected(const struct trial *t, int64_t i, int64_t j) {
    const struct mmul_gemm *g = &t->gemm;
    double sum = 0;
    for (int64_t p = 0; p < g->k; p++) {
        sum += (double)t->a[g->transpose_a ? p * g->m + i : i * g->k + p] *
               (double)t->b[g->transpose_b ? j * g->k + p : p * g->n + j];
    }
    return (double)g->alpha * sum + (double)g->beta * (double)t->c[i * g->n + j];
}

static enum mmul_status compare(const struct trial *t, struct mmul_error *err) {
    const struct mmul_gemm *g = &t->gemm;
    int64_t step = g->m > ROWS_COMPARED ? g->m / ROWS_COMPARED : 1;
    for (int64_t row = 0; row < g->m + step; row += step) {
        int64_t i = row < g->m ? row : g->m - 1;
        for (int64_t j = 0; j < g->n; j++) {
            double value = expected(t, i, j), found = (double)t->found[i * g->n + j];
            if (found != value) {
                return mmul_fail(err, MMUL_ERR_WRONG,
                                 "self-test: %lld x %lld x %lld, transposed %d %d: element (%lld, "
                                 "%lld) is %g, expected %g",
                                 (long long)g->m, (long long)g->n, (long long)g->k, g->transpose_a,
                                 g->transpose_b, (long long)i, (long long)j, found, value);
            }
        }
    }
    return MMUL_OK;
}

static enum mmul_status test_product(struct mmul_device *device, int64_t m, int64_t n, int64_t k,
                                     int way, struct mmul_error *err) {
    struct trial t = {.device = device};
    enum mmul_status status = trial_init(&t, m, n, k, way, err);
    if (status == MMUL_OK)
        status = mmul_device_gemm(device, &t.gemm, err);
    if (status == MMUL_OK)
        status =
            mmul_device_download(device, &(struct mmul_download){t.gemm.c, m, n, t.found, n}, err);
    if (status == MMUL_OK)
        status = mmul_device_wait(device, err);
    if (status == MMUL_OK)
        status = compare(&t, err);
    trial_fini(&t);
    return status;
}

// The side from which the device wants temporary memory, so takes another way; 0: none is found.
static int64_t find_switch(const struct mmul_device *device) {
    int64_t base = mmul_device_gemm_temporary_bytes(device, 1, 1, 1);
    for (int64_t s = 32; s <= 1024; s += 32)
        if (mmul_device_gemm_temporary_bytes(device, s, s, s) >= base + 12 * s * s)
            return s;
    return 0;
}

enum mmul_status mmul_device_self_test(struct mmul_device *device, struct mmul_error *err) {
    int64_t s = find_switch(device);
    const int64_t sizes[][3] = {
        {1, 1, 1},     {5, 1, 9},       {31, 67, 41},           {64, 128, 32},
        {127, 61, 97}, {131, 137, 139}, {s + 31, s + 3, s + 9}, {s + 128, s + 64, s + 32},
    };
    int count = s > 0 ? 8 : 6;
    enum mmul_status status = MMUL_OK;
    for (int i = 0; i < 4 * count && status == MMUL_OK; i++) {
        const int64_t *size = sizes[i / 4];
        status = test_product(device, size[0], size[1], size[2], i % 4, err);
    }
    return status;
}

enum mmul_status mmul_device_time_product(struct mmul_device *device, int64_t side, double *flops,
                                          struct mmul_error *err) {
    struct trial t = {.device = device};
    double least = 0;
    enum mmul_status status = trial_init(&t, side, side, side, 0, err);
    for (int i = 0; i < 4 && status == MMUL_OK; i++) {
        status = mmul_device_wait(device, err);
        double begin = mmul_clock_now();
        if (status == MMUL_OK)
            status = mmul_device_gemm(device, &t.gemm, err);
        if (status == MMUL_OK)
            status = mmul_device_wait(device, err);
        double seconds = mmul_clock_now() - begin;
        least = i <= 1 || seconds < least ? seconds : least;
    }
    double s = (double)side;
    *flops = 2 * s * s * s / (least > 1e-9 ? least : 1e-9);
    trial_fini(&t);
    return status;
}
