// SPDX-License-Identifier: MIT
// Looks at whole matrices: what values there are, and how two of them differ. One pass, in pieces,
// sums in double. What difference is acceptable, the caller says; what a product must equal is
// model/check's matter.
#include <assert.h>
#include <math.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "io/matrix_file.h"
#include "model/matrix.h"

enum { BUFFER_ELEMENTS = 1 << 18 };

enum kind { FINITE, PLUS_INF, MINUS_INF, NOT_A_NUMBER };

static enum kind classify(float value) {
    if (isfinite(value))
        return FINITE;
    if (isnan(value))
        return NOT_A_NUMBER;
    return value > 0 ? PLUS_INF : MINUS_INF;
}

static enum mmul_status allocate_values(const struct mmul_matrix *matrix, float **values,
                                        struct mmul_error *err) {
    int64_t each = mmul_region_count(mmul_region_whole(matrix->info.shape, 0));
    return MMUL_ALLOCATE_RAW(*values, mmul_smaller(each, BUFFER_ELEMENTS), "a compare buffer", err);
}

static void gather_statistics(struct mmul_statistics *statistics, double *sum, const float *values,
                              int64_t count) {
    for (int64_t e = 0; e < count; e++) {
        float value = values[e];
        if (isnan(value)) {
            statistics->nan_count++;
        } else if (isinf(value)) {
            statistics->inf_count++;
        } else {
            *sum += value;
            if (!(statistics->min <= value))
                statistics->min = value; // NaN: the first one
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
    float *values = NULL;
    enum mmul_status status = allocate_values(matrix, &values, err);
    for (int64_t m = 0; m < mmul_shape_matrices(shape) && status == MMUL_OK; m++) {
        struct mmul_region region = mmul_region_whole(shape, m);
        int64_t count = mmul_region_count(region);
        for (int64_t e = 0; e < count && status == MMUL_OK; e += BUFFER_ELEMENTS) {
            int64_t end = mmul_smaller(e + BUFFER_ELEMENTS, count);
            status = mmul_matrix_read_float(matrix, region, e, end, values, err);
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
    double tolerance, sum;
    int64_t finite; // pairs
};

static void compare_pair(struct comparison *comparison, float x, float y) {
    struct mmul_difference *found = &comparison->found;
    enum kind x_kind = classify(x), y_kind = classify(y);
    bool outside = x_kind != y_kind;
    if (x_kind == FINITE && fabs((double)x) > found->max_reference)
        found->max_reference = fabs((double)x);
    if (x_kind == FINITE && y_kind == FINITE) {
        double distance = fabs((double)x - (double)y);
        comparison->finite++;
        comparison->sum += distance;
        if (distance > found->max_absolute)
            found->max_absolute = distance;
        outside = distance > comparison->tolerance;
    }
    if (outside && found->outside++ == 0)
        found->first_outside = found->count;
    found->count++;
}

static enum mmul_status compare_matrix(struct comparison *comparison, struct mmul_matrix *x,
                                       struct mmul_matrix *y, int64_t matrix, float *x_values,
                                       float *y_values, struct mmul_error *err) {
    struct mmul_region region = mmul_region_whole(x->info.shape, matrix);
    int64_t count = mmul_region_count(region);
    for (int64_t begin = 0; begin < count; begin += BUFFER_ELEMENTS) {
        int64_t end = mmul_smaller(begin + BUFFER_ELEMENTS, count);
        enum mmul_status status = mmul_matrix_read_float(x, region, begin, end, x_values, err);
        if (status == MMUL_OK)
            status = mmul_matrix_read_float(y, region, begin, end, y_values, err);
        if (status != MMUL_OK)
            return status;
        for (int64_t e = 0; e < end - begin; e++)
            compare_pair(comparison, x_values[e], y_values[e]);
    }
    return MMUL_OK;
}

enum mmul_status mmul_diff(struct mmul_matrix *x, struct mmul_matrix *y, double tolerance,
                           struct mmul_difference *difference, struct mmul_error *err) {
    if (!(tolerance >= 0))
        return mmul_fail(err, MMUL_ERR_USAGE, "tolerance %g: expected zero or more", tolerance);
    struct comparison comparison = {.tolerance = tolerance, .found.first_outside = -1};
    comparison.found.same_shape = mmul_shape_equal(x->info.shape, y->info.shape);
    if (!comparison.found.same_shape) {
        *difference = comparison.found;
        return MMUL_OK;
    }
    float *x_values = NULL, *y_values = NULL;
    enum mmul_status status = allocate_values(x, &x_values, err);
    if (status == MMUL_OK)
        status = allocate_values(y, &y_values, err);
    int64_t matrices = mmul_shape_matrices(x->info.shape);
    for (int64_t m = 0; m < matrices && status == MMUL_OK; m++)
        status = compare_matrix(&comparison, x, y, m, x_values, y_values, err);
    mmul_free(x_values);
    mmul_free(y_values);
    if (status != MMUL_OK)
        return status;
    if (comparison.finite > 0)
        comparison.found.mean_absolute = comparison.sum / (double)comparison.finite;
    *difference = comparison.found;
    return MMUL_OK;
}
