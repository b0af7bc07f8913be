// SPDX-License-Identifier: MIT
// Computes statistics of a matrix, and the difference of two matrices. One pass, in chunks, with
// sums in double. The caller decides which difference is acceptable. For the check of a product see
// model/check.h.
#include <assert.h>
#include <math.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "io/matrix_file.h"
#include "model/matrix.h"

enum { BUFFER_ELEMENTS = 1 << 18 };

enum kind { FINITE, PLUS_INF, MINUS_INF, NOT_A_NUMBER };

static enum kind classify_value(double value) {
    if (isfinite(value))
        return FINITE;
    if (isnan(value))
        return NOT_A_NUMBER;
    return value > 0 ? PLUS_INF : MINUS_INF;
}

static double *allocate_values(const struct mmul_matrix *matrix, struct mmul_error *err) {
    int64_t each = mmul_region_count(mmul_region_whole(matrix->info.shape, 0));
    return mmul_allocate_raw(mmul_min(each, BUFFER_ELEMENTS), sizeof(double), "a compare buffer",
                             err);
}

static void gather_statistics(struct mmul_statistics *statistics, double *sum, const double *values,
                              int64_t count) {
    for (int64_t e = 0; e < count; e++) {
        double value = values[e];
        if (isnan(value)) {
            statistics->nan_count++;
        } else if (isinf(value)) {
            statistics->inf_count++;
        } else {
            *sum += value;
            if (!(statistics->min <= value))
                statistics->min = value; // min is NaN before the first value
            if (!(statistics->max >= value))
                statistics->max = value;
        }
    }
    statistics->count += count;
}

enum mmul_status mmul_statistics(struct mmul_matrix *matrix, struct mmul_statistics *statistics,
                                 struct mmul_error *err) {
    struct mmul_shape shape = matrix->info.shape;
    struct mmul_statistics found = {.min = NAN, .max = NAN, .mean = NAN};
    double sum = 0;
    double *values = allocate_values(matrix, err);
    enum mmul_status status = values != NULL ? MMUL_OK : err->status;
    for (int64_t m = 0; m < mmul_shape_matrices(shape) && status == MMUL_OK; m++) {
        struct mmul_region region = mmul_region_whole(shape, m);
        int64_t count = mmul_region_count(region);
        for (int64_t e = 0; e < count && status == MMUL_OK; e += BUFFER_ELEMENTS) {
            int64_t end = mmul_min(e + BUFFER_ELEMENTS, count);
            status = mmul_matrix_read_double(matrix, region, e, end, values, err);
            if (status == MMUL_OK)
                gather_statistics(&found, &sum, values, end - e);
        }
    }
    mmul_free(values);
    if (status != MMUL_OK)
        return status;
    int64_t finite = found.count - found.nan_count - found.inf_count;
    if (finite > 0)
        found.mean = sum / (double)finite;
    *statistics = found;
    return MMUL_OK;
}

struct comparison {
    struct mmul_difference found;
    struct mmul_matrix *x, *y;
    double *x_values, *y_values; // BUFFER_ELEMENTS
    double tolerance, relative, sum;
    int64_t finite; // pairs of finite values
};

static void compare_pair(struct comparison *comparison, double x, double y) {
    struct mmul_difference *found = &comparison->found;
    enum kind x_kind = classify_value(x), y_kind = classify_value(y);
    bool outside = x_kind != y_kind;
    if (x_kind == FINITE && fabs(x) > found->max_reference)
        found->max_reference = fabs(x);
    if (x_kind == FINITE && y_kind == FINITE) {
        double distance = fabs(x - y);
        comparison->finite++;
        comparison->sum += distance;
        if (distance > found->max_absolute)
            found->max_absolute = distance;
        if (x != 0 && distance / fabs(x) > found->max_relative)
            found->max_relative = distance / fabs(x);
        outside = distance > comparison->tolerance + comparison->relative * fabs(x);
    }
    if (outside && found->outside++ == 0)
        found->first_outside = found->count;
    found->count++;
}

static enum mmul_status compare_matrix(struct comparison *comparison, int64_t matrix,
                                       struct mmul_error *err) {
    struct mmul_region region = mmul_region_whole(comparison->x->info.shape, matrix);
    int64_t count = mmul_region_count(region);
    double *x = comparison->x_values, *y = comparison->y_values;
    for (int64_t begin = 0; begin < count; begin += BUFFER_ELEMENTS) {
        int64_t end = mmul_min(begin + BUFFER_ELEMENTS, count);
        enum mmul_status status =
            mmul_matrix_read_double(comparison->x, region, begin, end, x, err);
        if (status == MMUL_OK)
            status = mmul_matrix_read_double(comparison->y, region, begin, end, y, err);
        if (status != MMUL_OK)
            return status;
        for (int64_t e = 0; e < end - begin; e++)
            compare_pair(comparison, x[e], y[e]);
    }
    return MMUL_OK;
}

enum mmul_status mmul_diff(struct mmul_matrix *x, struct mmul_matrix *y, double tolerance,
                           double relative, struct mmul_difference *difference,
                           struct mmul_error *err) {
    if (!(tolerance >= 0) || !(relative >= 0))
        return mmul_fail(err, MMUL_ERR_USAGE, "tolerance %g: expected zero or more",
                         tolerance >= 0 ? relative : tolerance);
    struct comparison comparison = {
        .x = x, .y = y, .tolerance = tolerance, .relative = relative, .found.first_outside = -1};
    comparison.found.same_shape = mmul_shape_equal(x->info.shape, y->info.shape);
    if (!comparison.found.same_shape) {
        *difference = comparison.found;
        return MMUL_OK;
    }
    comparison.x_values = allocate_values(x, err);
    comparison.y_values = comparison.x_values != NULL ? allocate_values(y, err) : NULL;
    enum mmul_status status = comparison.y_values != NULL ? MMUL_OK : err->status;
    int64_t matrices = mmul_shape_matrices(x->info.shape);
    for (int64_t m = 0; m < matrices && status == MMUL_OK; m++)
        status = compare_matrix(&comparison, m, err);
    mmul_free(comparison.x_values);
    mmul_free(comparison.y_values);
    if (status != MMUL_OK)
        return status;
    if (comparison.finite > 0)
        comparison.found.mean_absolute = comparison.sum / (double)comparison.finite;
    *difference = comparison.found;
    return MMUL_OK;
}
