// SPDX-License-Identifier: MIT
// The largest elements of a row. The k best so far are a heap with the last of them on top; most elements are
// not larger than that one, which a loop over a block of them sees at once.
#include <math.h>

#include "base/integer.h"
#include "device/cpu_map_rows.h"

enum { BLOCK = 64 };

struct best {
    float *values, *columns; // a heap: what is at (i - 1) / 2 comes after what is at i
    int64_t count;
};

// Whether (x, column i) comes before (y, column j).
static bool comes_before(float x, float i, float y, float j) {
    if (isnan(x) || isnan(y))
        return isnan(x) && (!isnan(y) || i < j);
    return x > y || (x == y && i < j);
}

static bool is_after(const struct best *best, int64_t i, int64_t j) {
    return comes_before(best->values[j], best->columns[j], best->values[i], best->columns[i]);
}

static void swap(struct best *best, int64_t i, int64_t j) {
    const float value = best->values[i], column = best->columns[i];
    best->values[i] = best->values[j];
    best->columns[i] = best->columns[j];
    best->values[j] = value;
    best->columns[j] = column;
}

static void sink(struct best *best, int64_t i) {
    for (int64_t child; (child = 2 * i + 1) < best->count; i = child) {
        if (child + 1 < best->count && is_after(best, child + 1, child))
            child++;
        if (!is_after(best, child, i))
            return;
        swap(best, i, child);
    }
}

// Whether one of them comes before all that are not larger than `least`; NaN is no `least`.
MMUL_CLONES static bool has_larger(const float *x, int64_t n, float least) {
    int found = 0;
#pragma omp simd reduction(| : found)
    for (int64_t j = 0; j < n; j++)
        found |= !(x[j] <= least);
    return found != 0;
}

// Columns rise, so that an equal element comes after those that are there.
static void scan(struct best *best, const float *x, int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; block += BLOCK) {
        const int64_t stop = mmul_smaller(end, block + BLOCK);
        if (!has_larger(x + block, stop - block, best->values[0]))
            continue;
        for (int64_t j = block; j < stop; j++)
            if (comes_before(x[j], (float)j, best->values[0], best->columns[0])) {
                best->values[0] = x[j];
                best->columns[0] = (float)j;
                sink(best, 0);
            }
    }
}

void mmul_cpu_topk(const float *x, int64_t n, int64_t k, float *out) {
    struct best best = {out, out + k, k};
    for (int64_t j = 0; j < k; j++) {
        best.values[j] = x[j];
        best.columns[j] = (float)j;
    }
    for (int64_t i = k / 2 - 1; i >= 0; i--)
        sink(&best, i);
    scan(&best, x, k, n);
    while (best.count > 1) { // the last one goes behind the others
        swap(&best, 0, --best.count);
        sink(&best, 0);
    }
}

// The first of them that is y, or NaN where that is; n: none.
MMUL_CLONES static int32_t find_first(const float *x, int32_t n, float y) {
    int32_t first = n;
#pragma omp simd reduction(min : first)
    for (int32_t j = 0; j < n; j++) {
        const int32_t here = (x[j] == y) | ((x[j] != x[j]) & (y != y)) ? j : n;
        first = here < first ? here : first;
    }
    return first;
}

// Of a row only the stretch is looked at again in which its largest element came first.
static void find_largest(const float *x, int64_t rows, int64_t row_step, int64_t n, float *out,
                         int64_t ld) {
    float most[MMUL_CPU_TOGETHER];
    int64_t at[MMUL_CPU_TOGETHER] = {0};
    for (int64_t r = 0; r < rows; r++)
        most[r] = -INFINITY;
    for (int64_t j = 0; j < n; j += MMUL_CPU_STRETCH)
        for (int64_t r = 0; r < rows; r++) {
            const float y =
                mmul_cpu_largest(x + r * row_step + j, mmul_smaller(MMUL_CPU_STRETCH, n - j));
            if (y > most[r] || (y != y && most[r] == most[r])) {
                most[r] = y;
                at[r] = j;
            }
        }
    for (int64_t r = 0; r < rows; r++) {
        const int64_t some = mmul_smaller(MMUL_CPU_STRETCH, n - at[r]);
        out[r * ld] = (float)(at[r] + find_first(x + r * row_step + at[r], (int32_t)some, most[r]));
    }
}

void mmul_cpu_argmax(const float *x, int64_t rows, int64_t row_step, int64_t n, float *out,
                     int64_t ld) {
    for (int64_t i = 0; i < rows; i += MMUL_CPU_TOGETHER)
        find_largest(x + i * row_step, mmul_smaller(MMUL_CPU_TOGETHER, rows - i), row_step, n,
                     out + i * ld, ld);
}
