// SPDX-License-Identifier: MIT
//
// Conformance test of a device, part 1, products: `conformance_test NAME`. Integers in [-4, 4] make
// every sum exact, so results equal the loops in this file element by element in any order of work.
// Gaps between rows hold NaN, so that reading one shows.
#include <sys/mman.h>

#include "base/random.h"
#include "problem.h"
#include "stored.h"

static float integer_at(uint64_t seed, int64_t e) {
    return (float)((int64_t)(mmul_random_at(seed, (uint64_t)e) % 9) - 4);
}

static float real_at(uint64_t seed, int64_t e) {
    return (float)((double)(mmul_random_at(seed, (uint64_t)e) >> 40) * 0x1p-23 - 1.0);
}

static double element(const struct stored *s, bool transpose, int64_t r, int64_t c) {
    return transpose ? s->host[s->offset + c * s->ld + r] : s->host[s->offset + r * s->ld + c];
}

// -------------------------------------------------------------------------------- exact products

// Returns the distance of the rows that are compared: 1 for a small product, for a large one about
// m / 40.
static int64_t row_step(const struct problem *p) {
    return p->m * p->n * p->k > INT64_C(50000000) && p->m > 40 ? p->m / 40 : 1;
}

static bool check_row(const struct problem *p, const struct stored *a, const struct stored *b,
                      const struct stored *c, const float *found, int64_t i, char *detail) {
    for (int64_t j = 0; j < p->n; j++) {
        double sum = 0.0;
        for (int64_t q = 0; q < p->k; q++)
            sum += element(a, p->transpose_a, i, q) * element(b, p->transpose_b, q, j);
        int64_t e = c->offset + i * c->ld + j;
        double old = p->beta == 0 ? 0.0 : p->beta * (double)c->host[e];
        float expected = (float)(p->alpha * sum + old);
        if (found[e] != expected) {
            snprintf(detail, 256,
                     "%lld x %lld x %lld, transposed %d %d, alpha %g, beta %g, pad %lld: "
                     "(%lld, %lld) is %g, expected %g",
                     (long long)p->m, (long long)p->n, (long long)p->k, p->transpose_a,
                     p->transpose_b, p->alpha, p->beta, (long long)p->pad, (long long)i,
                     (long long)j, (double)found[e], (double)expected);
            return false;
        }
    }
    return true;
}

static bool multiply_exactly(struct mmul_device *device, const struct problem *p, char *detail) {
    // The operands have different offsets, so that swapped offsets show.
    struct stored a = p->transpose_a ? store_matrix(device, p->k, p->m, p->pad, integer_at, 1, NAN)
                                     : store_matrix(device, p->m, p->k, p->pad, integer_at, 1, NAN);
    struct stored b = p->transpose_b
                          ? store_matrix(device, p->n, p->k, 2 * p->pad, integer_at, 2, NAN)
                          : store_matrix(device, p->k, p->n, 2 * p->pad, integer_at, 2, NAN);
    struct stored c =
        store_matrix(device, p->m, p->n, 3 * p->pad, p->beta == 0 ? NULL : integer_at, 3, NAN);
    multiply_problem(device, p, MMUL_F32, operand_of(&a), operand_of(&b), operand_of(&c));
    float *found = download_all(device, &c);
    bool ok = check_padding(&c, found, detail) && check_row(p, &a, &b, &c, found, p->m - 1, detail);
    for (int64_t i = 0; i < p->m && ok; i += row_step(p))
        ok = check_row(p, &a, &b, &c, found, i, detail);
    free(found);
    discard_matrix(device, &a);
    discard_matrix(device, &b);
    discard_matrix(device, &c);
    return ok;
}

// Tests all transposes, coefficients and paddings of one size; a large size has one set of
// coefficients.
static void test_size(struct mmul_device *device, int64_t m, int64_t n, int64_t k) {
    static const double coefficients[][2] = {{1, 0}, {-2, 1}, {3, -2}, {1, 1}, {0.5, 0}};
    bool is_large = m * n * k > INT64_C(10000000);
    char name[96], detail[256] = "";
    bool ok = true;
    for (int way = 0; way < 4 && ok; way++) {
        for (size_t i = 0; i < (is_large ? 2 : 5) && ok; i++) {
            for (int64_t pad = 0; pad <= 5 && ok; pad += 5) {
                const struct problem p = {
                    .m = m,
                    .n = n,
                    .k = k,
                    .transpose_a = (way & 1) != 0,
                    .transpose_b = (way & 2) != 0,
                    .alpha = coefficients[i][0],
                    .beta = coefficients[i][1],
                    .pad = pad,
                };
                ok = multiply_exactly(device, &p, detail);
            }
        }
    }
    snprintf(name, sizeof name, "exact product %lld x %lld x %lld", (long long)m, (long long)n,
             (long long)k);
    report_point(ok, name, detail);
}

// Returns the side of the smallest (nearly) cubic product that needs more temporary memory than a
// product of one element: the device takes another code path from there on. 0 if there is none.
static int64_t find_code_path_switch(struct mmul_device *device) {
    int64_t base = mmul_device_gemm_temporary_bytes(device, MMUL_F32, 1, 1, 1);
    for (int64_t s = 32; s <= 2048; s += 32)
        if (mmul_device_gemm_temporary_bytes(device, MMUL_F32, s, s, s) >= base + 12 * s * s)
            return s;
    return 0;
}

static void test_products(struct mmul_device *device) {
    static const int64_t sizes[][3] = {
        {1, 1, 1},    {1, 7, 3},     {5, 1, 9},     {11, 13, 1},     {3, 2, 1001},    {13, 17, 19},
        {31, 67, 41}, {64, 128, 32}, {127, 61, 97}, {131, 137, 139}, {257, 193, 211},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        test_size(device, sizes[i][0], sizes[i][1], sizes[i][2]);
    int64_t s = find_code_path_switch(device);
    printf("# the device changes its way near side %lld\n", (long long)s);
    if (s > 0) {
        test_size(device, s - 33, s - 31, s - 35);
        test_size(device, s + 31, s + 3, s + 9);
        test_size(device, s + 128 - s % 128, s + 256 - s % 128, s + 128 - s % 128);
    }
}

// ------------------------------------------------------------------------------- real numbers

static void test_residual(struct mmul_device *device) {
    const struct problem p = {
        .m = 129, .n = 67, .k = 301, .alpha = (double)0.7f, .beta = (double)-1.3f, .pad = 3};
    struct stored a = store_matrix(device, p.m, p.k, p.pad, real_at, 4, NAN);
    struct stored b = store_matrix(device, p.k, p.n, p.pad, real_at, 5, NAN);
    struct stored c = store_matrix(device, p.m, p.n, p.pad, real_at, 6, NAN);
    multiply_problem(device, &p, MMUL_F32, operand_of(&a), operand_of(&b), operand_of(&c));
    float *found = download_all(device, &c);
    double worst = 0.0;
    for (int64_t i = 0; i < p.m; i++) {
        for (int64_t j = 0; j < p.n; j++) {
            int64_t e = c.offset + i * c.ld + j;
            double sum = p.beta * (double)c.host[e], size = fabs(sum);
            for (int64_t q = 0; q < p.k; q++) {
                double term = p.alpha * element(&a, false, i, q) * element(&b, false, q, j);
                sum += term;
                size += fabs(term);
            }
            worst = fmax(worst, fabs(sum - (double)found[e]) / size);
        }
    }
    char detail[96];
    snprintf(detail, sizeof detail, "error %g of the sum of magnitudes", worst);
    // measured: below 1 x 2^-24
    report_point(worst < 16 * 0x1p-24, "real numbers agree to rounding", detail);
    free(found);
    discard_matrix(device, &a);
    discard_matrix(device, &b);
    discard_matrix(device, &c);
}

// A NaN or an infinity in A shows in its row of C and in no other row.
static void test_classes(struct mmul_device *device) {
    enum { M = 5, N = 7, K = 3 };
    struct mmul_error err;
    struct stored a = store_matrix(device, M, K, 0, integer_at, 7, 0);
    struct stored b = store_matrix(device, K, N, 0, NULL, 0, 1); // all ones
    struct stored c = store_matrix(device, M, N, 0, NULL, 0, NAN);
    a.host[1 * K + 2] = NAN;
    a.host[3 * K + 0] = -INFINITY;
    struct mmul_operand to = operand_of(&a);
    must_succeed(
        mmul_device_upload(device, &(struct mmul_upload){to, M, K, a.host, K, MMUL_F32}, &err),
        &err);
    const struct mmul_gemm args = {.m = M,
                                   .n = N,
                                   .k = K,
                                   .alpha = 1,
                                   .beta = 0,
                                   .a = to,
                                   .b = operand_of(&b),
                                   .c = operand_of(&c)};
    must_succeed(mmul_device_gemm(device, &args, &err), &err);
    float *found = download_all(device, &c);
    bool ok = true;
    for (int e = 0; e < M * N; e++) {
        ok = ok && (e / N == 1   ? isnan(found[e])
                    : e / N == 3 ? found[e] == -INFINITY
                                 : isfinite(found[e]));
    }
    report_point(ok, "NaN and infinity stay in their rows",
                 "another row is affected, or their own is not");
    free(found);
    discard_matrix(device, &a);
    discard_matrix(device, &b);
    discard_matrix(device, &c);
}

// ------------------------------------------------------------------------------- order and life

// Queues C += A B again and again without a wait, and replaces A in between.
static void test_order(struct mmul_device *device) {
    enum { S = 37, ROUNDS = 20 };
    struct mmul_error err;
    struct stored a = store_matrix(device, S, S, 0, NULL, 0, 1);
    struct stored b = store_matrix(device, S, S, 0, NULL, 0, 1);
    struct stored c = store_matrix(device, S, S, 0, NULL, 0, 0);
    float *values = must_allocate(ROUNDS * S * S, sizeof(float));
    for (int round = 0; round < ROUNDS; round++) {
        float *now = values + round * S * S; // borrowed until the wait
        for (int e = 0; e < S * S; e++)
            now[e] = (float)(round + 1);
        const struct mmul_gemm args = {.m = S,
                                       .n = S,
                                       .k = S,
                                       .alpha = 1,
                                       .beta = 1,
                                       .a = operand_of(&a),
                                       .b = operand_of(&b),
                                       .c = operand_of(&c)};
        must_succeed(
            mmul_device_upload(device,
                               &(struct mmul_upload){operand_of(&a), S, S, now, S, MMUL_F32}, &err),
            &err);
        must_succeed(mmul_device_gemm(device, &args, &err), &err);
    }
    float *found = download_all(device, &c);
    bool ok = true;
    for (int e = 0; e < S * S; e++)
        ok = ok && found[e] == (float)(S * ROUNDS * (ROUNDS + 1) / 2);
    report_point(ok, "operations run in the order of their calls", "a sum differs");
    free(found);
    free(values);
    discard_matrix(device, &a);
    discard_matrix(device, &b);
    discard_matrix(device, &c);
}

static void test_buffer_lifetime(struct mmul_device *device) {
    struct mmul_error err;
    int64_t before = mmul_live_bytes();
    for (int i = 0; i < 100; i++) {
        struct mmul_buffer *buffers[3];
        for (int b = 0; b < 3; b++)
            must_succeed(
                mmul_device_buffer_create(device, MMUL_F32, 1 + 1000 * b, &buffers[b], &err), &err);
        for (int b = 0; b < 3; b++)
            mmul_device_buffer_destroy(device, buffers[b]);
    }
    mmul_device_buffer_destroy(device, NULL);
    report_point(mmul_live_bytes() == before, "buffers are created and freed", "bytes are left");
    mmul_device_set_threads(device, 1);
    test_size(device, 101, 103, 107);
    mmul_device_set_threads(device, 2);
    test_size(device, 103, 107, 101);
}

// -------------------------------------------------------------------------------- host memory

// Multiplies 3 x 3 x 3; the rows of one operand are more than 2^31 elements apart. Only a few pages
// of that memory are touched.
static bool multiply_far_rows(struct mmul_device *device, float *memory, int64_t count, int way) {
    enum { M = 3, N = 3, K = 3 };
    const int64_t far = count / 3;
    const bool transpose_a = way == 1, transpose_b = way == 3;
    int64_t ld[3] = {way <= 1 ? far : K, way == 2 || way == 3 ? far : N, way == 4 ? far : N};
    float near[3][9];
    struct mmul_buffer *buffers[3];
    struct mmul_error err;
    for (int x = 0; x < 3; x++) {
        float *values = ld[x] == far ? memory : near[x];
        for (int e = 0; e < 9; e++)
            values[e / 3 * ld[x] + e % 3] = integer_at((uint64_t)x, e);
        must_succeed(mmul_device_buffer_borrow(device, MMUL_F32, values, ld[x] == far ? count : 9,
                                               &buffers[x], &err),
                     &err);
    }
    const struct mmul_gemm args = {
        .transpose_a = transpose_a,
        .transpose_b = transpose_b,
        .m = M,
        .n = N,
        .k = K,
        .alpha = 2,
        .beta = 3,
        .a = {buffers[0], 0, ld[0]},
        .b = {buffers[1], 0, ld[1]},
        .c = {buffers[2], 0, ld[2]},
    };
    must_succeed(mmul_device_gemm(device, &args, &err), &err);
    must_succeed(mmul_device_wait(device, &err), &err);
    bool ok = true;
    for (int e = 0; e < 9; e++) {
        int i = e / 3, j = e % 3;
        float sum = 3 * integer_at(2, e);
        for (int p = 0; p < K; p++) {
            sum += 2 * integer_at(0, transpose_a ? p * 3 + i : i * 3 + p) *
                   integer_at(1, transpose_b ? j * 3 + p : p * 3 + j);
        }
        ok = ok && (way == 4 ? memory : near[2])[i * ld[2] + j] == sum;
    }
    for (int x = 0; x < 3; x++)
        mmul_device_buffer_destroy(device, buffers[x]);
    return ok;
}

static void test_far_rows(struct mmul_device *device) {
    static const char *const names[] = {"A", "A transposed", "B", "B transposed", "C"};
    const int64_t count = 3 * ((INT64_C(1) << 31) + 5);
    if (!mmul_device_can_borrow(device))
        return; // a device with memory of its own never sees such distances
    void *memory = mmap(NULL, (size_t)count * sizeof(float), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int way = 0; way < 5; way++) {
        char name[96];
        snprintf(name, sizeof name, "rows more than 2^31 elements apart: %s", names[way]);
        if (memory == MAP_FAILED)
            printf("ok %d - %s # SKIP no address range of 26 GB is granted\n", ++points, name);
        else
            report_point(multiply_far_rows(device, memory, count, way), name, "elements differ");
    }
    if (memory != MAP_FAILED)
        munmap(memory, (size_t)count * sizeof(float));
}

int main(int argc, char **argv) {
    struct mmul_device *device = open_device(argc, argv);
    test_products(device);
    test_residual(device);
    test_classes(device);
    test_order(device);
    test_buffer_lifetime(device);
    test_far_rows(device);
    return close_device(device);
}
