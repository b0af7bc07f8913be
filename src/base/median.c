// SPDX-License-Identifier: MIT
// The median of a few measurements: the lower of two middle ones, so that the result is always a
// measured value.
#include "base/median.h"

#include <stdlib.h>

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double mmul_median(double *x, int count) {
    qsort(x, (size_t)count, sizeof *x, compare_doubles);
    return x[(count - 1) / 2];
}
