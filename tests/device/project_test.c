// SPDX-License-Identifier: MIT
//
// Conformance test of a device, sums of the result check: `project_test NAME`. Sums of integers are
// exact; sums of reals are within the bound of device/matrix_sums.h of loops in long double. Gaps
// hold NaN, so that reading one shows. A second argument "small" leaves large cases out, for
// oclgrind.
#include <float.h>

#include "base/random.h"
#include "device/matrix_sums.h"
#include "stored.h"

static float integer_at(uint64_t seed, int64_t e) {
    return (float)((int64_t)(mmul_random_at(seed, (uint64_t)e) % 9) - 4);
}

static float real_at(uint64_t seed, int64_t e) {
    return (float)((double)(mmul_random_at(seed, (uint64_t)e) >> 40) * 0x1p-23 - 1.0);
}

// Returns numbers of very different magnitudes.
static float wide_at(uint64_t seed, int64_t e) {
    const int exponent = (int)(mmul_random_at(seed + 1, (uint64_t)e) % 60) - 30;
    return ldexpf(real_at(seed, e), exponent);
}

// All sums that can be requested of one matrix.
struct sums {
    double *row_sums, *row_squares, *col_sums, *col_squares;
    uint32_t bits;
};

static struct sums allocate_sums(int64_t rows, int64_t cols) {
    return (struct sums){must_allocate(rows, sizeof(double)), must_allocate(rows, sizeof(double)),
                         must_allocate(cols, sizeof(double)), must_allocate(cols, sizeof(double)),
                         0};
}

static void discard_sums(struct sums *s) {
    free(s->row_sums);
    free(s->row_squares);
    free(s->col_sums);
    free(s->col_squares);
}

// Returns true if `found` is the sum of `count` terms x[i * step] w[i] (w NULL: squares), exactly
// or within the bound.
static bool is_near(const float *x, int64_t count, int64_t step, const double *w, double found,
                    bool exact) {
    long double sum = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        const long double value = x[i * step],
                          term = value * (w != NULL ? (long double)w[i] : value);
        sum += term;
        size += fabsl(term);
    }
    const long double off = fabsl((long double)found - sum);
    return exact ? off == 0 : off <= 0x1p-40L * size;
}

static uint32_t mix_bits(uint32_t bits, uint32_t index) {
    bits += index * 0x9e3779b1U;
    bits = (bits ^ bits >> 16) * 0x85ebca6bU;
    return bits ^ bits >> 15;
}

// args->wanted has the bits of kernels/project.cl.
static bool compare_sums(const struct stored *s, const struct mmul_matrix_sums *args, bool exact,
                         char *detail) {
    const float *x = s->host + s->offset;
    uint32_t bits = 0;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t c = 0; c < s->cols; c++) {
            uint32_t element;
            memcpy(&element, &x[r * s->ld + c], sizeof element);
            bits += mix_bits(element, (uint32_t)(r * s->cols + c));
        }
    if (args->bits != NULL && *args->bits != bits) {
        snprintf(detail, 256, "bits are %08x, expected %08x", *args->bits, bits);
        return false;
    }
    const struct {
        const double *found, *weights;
        bool by_row;
        const char *name;
    } all[] = {{args->row_sums, args->along, true, "row sum"},
               {args->row_squares, NULL, true, "row square"},
               {args->col_sums, args->across, false, "column sum"},
               {args->col_squares, NULL, false, "column square"}};
    for (int k = 0; k < 4; k++)
        for (int64_t i = 0; all[k].found != NULL && i < (all[k].by_row ? s->rows : s->cols); i++) {
            const float *line = x + i * (all[k].by_row ? s->ld : 1);
            if (is_near(line, all[k].by_row ? s->cols : s->rows, all[k].by_row ? 1 : s->ld,
                        all[k].weights, all[k].found[i], exact))
                continue;
            snprintf(detail, 256, "%lld x %lld: %s %lld is %.17g", (long long)s->rows,
                     (long long)s->cols, all[k].name, (long long)i, all[k].found[i]);
            return false;
        }
    return true;
}

static double *draw_weights(int64_t count, uint64_t seed, bool exact) {
    double *weights = must_allocate(count, sizeof *weights);
    for (int64_t i = 0; i < count; i++)
        weights[i] = exact ? (double)integer_at(seed, i)
                           : (double)mmul_random_at(seed, (uint64_t)i) * 0x1p-63 - 1;
    return weights;
}

// `wanted`: bits 0 .. 4 as in kernels/project.cl.
static bool sums_are_right(struct mmul_device *device, int64_t rows, int64_t cols, fill *at,
                           unsigned wanted, char *detail) {
    const bool exact = at == integer_at;
    struct stored s = store_matrix(device, rows, cols, 3, at, 7, NAN);
    struct sums sums = allocate_sums(rows, cols);
    double *along = draw_weights(cols, 8, exact), *across = draw_weights(rows, 9, exact);
    struct mmul_error err = {0};
    const struct mmul_matrix_sums args = {.dtype = MMUL_F32,
                                          .x = operand_of(&s),
                                          .rows = rows,
                                          .cols = cols,
                                          .along = along,
                                          .across = across,
                                          .row_sums = wanted & 1 ? sums.row_sums : NULL,
                                          .row_squares = wanted & 2 ? sums.row_squares : NULL,
                                          .col_sums = wanted & 4 ? sums.col_sums : NULL,
                                          .col_squares = wanted & 8 ? sums.col_squares : NULL,
                                          .bits = wanted & 16 ? &sums.bits : NULL};
    bool ok = mmul_device_sum_matrix(device, &args, &err) == MMUL_OK;
    snprintf(detail, 256, "%.200s", err.text);
    ok = ok && compare_sums(&s, &args, exact, detail);
    free(across);
    free(along);
    discard_sums(&sums);
    discard_matrix(device, &s);
    return ok;
}

static void test_small(struct mmul_device *device, bool is_watched) {
    static const int64_t sizes[][2] = {{1, 1}, {1, 200}, {200, 1}, {64, 64}, {65, 63}, {67, 130}};
    char detail[256] = "", name[64];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bool ok = true;
        for (unsigned wanted = 1; ok && wanted < 32; wanted += i == 5 && !is_watched ? 1 : 10)
            ok = sums_are_right(device, sizes[i][0], sizes[i][1], integer_at, wanted, detail);
        snprintf(name, sizeof name, "sums of %lld x %lld integers are exact",
                 (long long)sizes[i][0], (long long)sizes[i][1]);
        report_point(ok, name, detail);
    }
}

static void test_large(struct mmul_device *device) {
    static const int64_t sizes[][2] = {{701, 997}, {3, 100003}, {100003, 3}, {1500, 1100}};
    char detail[256] = "", name[64];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int turn = 0; turn < 3; turn++) {
            fill *const fills[] = {integer_at, real_at, wide_at};
            const bool ok =
                sums_are_right(device, sizes[i][0], sizes[i][1], fills[turn], 31, detail);
            snprintf(name, sizeof name, "sums of %lld x %lld, %s", (long long)sizes[i][0],
                     (long long)sizes[i][1],
                     turn == 0   ? "integers"
                     : turn == 1 ? "reals"
                                 : "sizes far apart");
            report_point(ok, name, detail);
        }
}

// NaN and infinity show in exactly the sums that contain them. A changed element shows in *bits.
static void test_classes(struct mmul_device *device) {
    static const float strange[] = {NAN, INFINITY, -INFINITY, 0x1.8p127f};
    const int64_t rows = 130, cols = 190;
    double *along = draw_weights(cols, 8, false);
    double row_sums[130], col_squares[190];
    uint32_t before = 0, after = 0;
    bool ok = true, changed = true;
    for (int i = 0; i < 4; i++) {
        struct stored s = store_matrix(device, rows, cols, 1, real_at, 3, NAN);
        struct mmul_error err;
        struct mmul_matrix_sums args = {.dtype = MMUL_F32,
                                        .x = operand_of(&s),
                                        .rows = rows,
                                        .cols = cols,
                                        .along = along,
                                        .bits = &before};
        must_succeed(mmul_device_sum_matrix(device, &args, &err), &err);
        struct mmul_operand at = args.x;
        at.offset += 70 * at.ld + 150;
        must_succeed(mmul_device_upload(
                         device, &(struct mmul_upload){at, 1, 1, &strange[i], 1, MMUL_F32}, &err),
                     &err);
        args.row_sums = row_sums;
        args.col_squares = col_squares;
        args.bits = &after;
        must_succeed(mmul_device_sum_matrix(device, &args, &err), &err);
        for (int64_t r = 0; r < rows && i < 3; r++)
            ok = ok && isfinite(row_sums[r]) == (r != 70);
        for (int64_t c = 0; c < cols && i < 3; c++)
            ok = ok && isfinite(col_squares[c]) == (c != 150);
        changed = changed && before != after;
        discard_matrix(device, &s);
    }
    report_point(ok, "NaN and Inf show in their own sums", "others are not finite, or theirs are");
    report_point(changed, "a changed element changes the sum of bits", "it did not");
    free(along);
}

// The sums wait for a product in flight and do not see a later upload.
static void test_order(struct mmul_device *device) {
    const int64_t size = 300;
    struct stored a = store_matrix(device, size, size, 0, integer_at, 1, 0),
                  b = store_matrix(device, size, size, 0, integer_at, 2, 0),
                  c = store_matrix(device, size, size, 0, NULL, 0, 0);
    double sums[300], along[300], worst = 0;
    struct mmul_error err;
    const struct mmul_gemm args = {.dtype = MMUL_F32,
                                   .m = size,
                                   .n = size,
                                   .k = size,
                                   .alpha = 1,
                                   .a = operand_of(&a),
                                   .b = operand_of(&b),
                                   .c = operand_of(&c)};
    for (int64_t j = 0; j < size; j++)
        along[j] = 1;
    must_succeed(mmul_device_gemm(device, &args, &err), &err);
    const struct mmul_matrix_sums of = {.dtype = MMUL_F32,
                                        .x = args.c,
                                        .rows = size,
                                        .cols = size,
                                        .along = along,
                                        .row_sums = sums};
    must_succeed(mmul_device_sum_matrix(device, &of, &err), &err);
    for (int64_t i = 0; i < size; i++) {
        double expected = 0;
        for (int64_t p = 0; p < size; p++)
            for (int64_t j = 0; j < size; j++)
                expected += (double)a.host[i * size + p] * (double)b.host[p * size + j];
        worst = fmax(worst, fabs(expected - sums[i]));
    }
    report_point(worst == 0, "sums wait for the product that makes the matrix",
                 "they are those of the previous matrix");
    discard_matrix(device, &c);
    discard_matrix(device, &b);
    discard_matrix(device, &a);
}

int main(int argc, char **argv) {
    const bool is_small = argc == 3;
    struct mmul_device *device = NULL;
    struct mmul_error err = {0};
    if (is_small) // no products: this test does not watch CLBlast's kernels
        must_succeed(mmul_device_open(argv[1], &device, &err), &err);
    else
        device = open_device(argc, argv);
    test_small(device, is_small);
    if (!is_small) {
        test_large(device);
        test_classes(device);
        test_order(device);
    }
    return close_device(device);
}
