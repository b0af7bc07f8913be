// SPDX-License-Identifier: MIT
// The largest elements of a row. The k best so far are a heap with the last of them on top; what cannot be among them
// is seen in a block at once: what is less than that, or than k that were found before by looking at classes.
#include <math.h>

#include "base/integer.h"
#include "device/cpu_map_rows.h"

enum { BLOCK = 64, CLASSES = 64, STRETCH = 8192 / sizeof(mmul_real) };

struct best {
    mmul_real *values, *columns; // a heap: what is at (i - 1) / 2 comes after what is at i
    int64_t count;
};

// Whether (x, column i) comes before (y, column j).
static bool comes_before(mmul_real x, mmul_real i, mmul_real y, mmul_real j) {
    if (isnan(x) || isnan(y))
        return isnan(x) && (!isnan(y) || i < j);
    return x > y || (x == y && i < j);
}

static bool is_after(const struct best *best, int64_t i, int64_t j) {
    return comes_before(best->values[j], best->columns[j], best->values[i], best->columns[i]);
}

static void swap(struct best *best, int64_t i, int64_t j) {
    const mmul_real value = best->values[i], column = best->columns[i];
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

// Whether one of them is not less than `least`.
MMUL_CLONES static bool has_some(const mmul_real *x, int64_t n, mmul_real least) {
    int found = 0;
#pragma omp simd reduction(| : found)
    for (int64_t j = 0; j < n; j++)
        found |= !(x[j] < least);
    return found != 0;
}

// What at least k of them are not less than: the k-th of the largest of each of some classes, of every so-manyth
// element. Where k is less than half the number of classes few others are as large.
MMUL_CLONES static mmul_real find_bound(const mmul_real *x, int64_t n, int64_t k) {
    mmul_real most[CLASSES], bound = INFINITY;
    if (n < 2 * CLASSES || 2 * k > CLASSES)
        return -INFINITY;
    for (int c = 0; c < CLASSES; c++)
        most[c] = -INFINITY;
    for (int64_t j = 0; j + CLASSES <= n; j += CLASSES)
        for (int c = 0; c < CLASSES; c++)
            most[c] = x[j + c] > most[c] ? x[j + c] : most[c];
    for (int32_t count = 0; count < k && bound > -INFINITY;) {
        mmul_real next = -INFINITY;
#pragma omp simd reduction(max : next)
        for (int c = 0; c < CLASSES; c++)
            next = most[c] < bound && most[c] > next ? most[c] : next;
        for (int c = 0; c < CLASSES; c++)
            count += most[c] == next;
        bound = next;
    }
    return bound;
}

// Columns rise, so that an equal element comes after those that are there.
static void insert(struct best *best, int64_t k, mmul_real x, int64_t j) {
    if (best->count < k) {
        best->values[best->count] = x;
        best->columns[best->count++] = (mmul_real)j;
        for (int64_t i = best->count < k ? -1 : k / 2 - 1; i >= 0; i--)
            sink(best, i);
    } else if (comes_before(x, (mmul_real)j, best->values[0], best->columns[0])) {
        best->values[0] = x;
        best->columns[0] = (mmul_real)j;
        sink(best, 0);
    }
}

void mmul_cpu_topk(const mmul_real *x, int64_t n, int64_t k, mmul_real *out) {
    struct best best = {out, out + k, 0};
    mmul_real least = find_bound(x, n, k);
    for (int64_t block = 0; block < n; block += BLOCK) {
        const int64_t end = mmul_smaller(n, block + BLOCK);
        if (!has_some(x + block, end - block, least))
            continue;
        for (int64_t j = block; j < end; j++)
            if (!(x[j] < least))
                insert(&best, k, x[j], j);
        if (best.count == k && best.values[0] > least)
            least = best.values[0];
    }
    while (best.count > 1) { // the last one goes behind the others
        swap(&best, 0, --best.count);
        sink(&best, 0);
    }
}

// The first of them that is y, or NaN where that is; n: none.
MMUL_CLONES static int32_t find_first(const mmul_real *x, int32_t n, mmul_real y) {
    int32_t first = n;
#pragma omp simd reduction(min : first)
    for (int32_t j = 0; j < n; j++) {
        const int32_t here = (x[j] == y) | ((x[j] != x[j]) & (y != y)) ? j : n;
        first = here < first ? here : first;
    }
    return first;
}

// Of a row only the stretch is looked at again in which its largest element came first: it is in the first cache.
int64_t mmul_cpu_argmax(const mmul_real *x, int64_t n) {
    mmul_real most = -INFINITY;
    int64_t at = 0;
    for (int64_t j = 0; j < n; j += STRETCH) {
        const mmul_real y = mmul_cpu_largest(x + j, mmul_smaller(STRETCH, n - j));
        if (y > most || (y != y && most == most)) {
            most = y;
            at = j;
        }
    }
    return at + find_first(x + at, (int32_t)mmul_smaller(STRETCH, n - at), most);
}
