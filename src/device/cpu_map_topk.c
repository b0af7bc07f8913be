// SPDX-License-Identifier: MIT
// The largest elements of a row. The k best so far form a heap with the last of them on top. Whole
// blocks are compared with a lower bound first: the last of the heap, or a bound found earlier from
// k classes.
#include <math.h>

#include "base/integer.h"
#include "device/cpu_map.h"
#include "device/cpu_map_real.h"
#include "device/cpu_map_rows.h"

enum { BLOCK = 64, CLASSES_MOST = 64, STRETCH = 8192 / sizeof(mmul_real) };

struct best {
    mmul_real *values, *columns; // a heap: the element at (i - 1) / 2 comes after the one at i
    int64_t count;
};

// Returns true if (x, column i) comes before (y, column j).
static bool comes_before(mmul_real x, mmul_real i, mmul_real y, mmul_real j) {
    if (isnan(x) || isnan(y))
        return isnan(x) && (!isnan(y) || i < j);
    return x > y || (x == y && i < j);
}

static bool is_after(const struct best *best, int64_t i, int64_t j) {
    return comes_before(best->values[j], best->columns[j], best->values[i], best->columns[i]);
}

static void swap_places(struct best *best, int64_t i, int64_t j) {
    const mmul_real value = best->values[i], column = best->columns[i];
    best->values[i] = best->values[j];
    best->columns[i] = best->columns[j];
    best->values[j] = value;
    best->columns[j] = column;
}

static void sift_down(struct best *best, int64_t i) {
    for (int64_t child; (child = 2 * i + 1) < best->count; i = child) {
        if (child + 1 < best->count && is_after(best, child + 1, child))
            child++;
        if (!is_after(best, child, i))
            return;
        swap_places(best, i, child);
    }
}

// Sets a bit for each of up to BLOCK elements that is not less than `least`.
MMUL_TARGET_CLONES static uint64_t find_candidates(const mmul_real *x, int64_t n, mmul_real least) {
    uint64_t found = 0;
#pragma omp simd reduction(| : found)
    for (int64_t j = 0; j < n; j++)
        found |= (uint64_t) !(x[j] < least) << j;
    return found;
}

// Returns the k-th largest of the classes' maxima; class c has the elements c, c + classes, ...
MMUL_INLINE mmul_real find_kth(const mmul_real *x, int64_t n, int64_t k, int classes) {
    mmul_real most[CLASSES_MOST], bound = INFINITY;
    for (int c = 0; c < classes; c++)
        most[c] = -INFINITY;
    for (int64_t j = 0; j + classes <= n; j += classes) {
        mmul_cpu_prefetch(x + j, classes);
        MMUL_CPU_AS_VECTOR
        for (int c = 0; c < classes; c++)
            most[c] = x[j + c] > most[c] ? x[j + c] : most[c];
    }
    for (int32_t count = 0; count < k && bound > -INFINITY;) {
        mmul_real next = -INFINITY;
#pragma omp simd reduction(max : next)
        for (int c = 0; c < classes; c++)
            next = most[c] < bound && most[c] > next ? most[c] : next;
        MMUL_CPU_AS_VECTOR
        for (int c = 0; c < classes; c++)
            count += most[c] == next;
        bound = next;
    }
    return bound;
}

// Returns a bound that at least k elements and few others reach. Uses the fewest classes that are
// whole vectors and at least 2 k.
MMUL_TARGET_CLONES static mmul_real find_bound(const mmul_real *x, int64_t n, int64_t k) {
    if (n < 2 * CLASSES_MOST || 2 * k > CLASSES_MOST)
        return -INFINITY;
    return 2 * k <= 16 ? find_kth(x, n, k, 16) : find_kth(x, n, k, CLASSES_MOST);
}

// Columns rise, so that an equal element comes after the present ones.
static void insert_element(struct best *best, int64_t k, mmul_real x, int64_t j) {
    if (best->count < k) {
        best->values[best->count] = x;
        best->columns[best->count++] = (mmul_real)j;
        for (int64_t i = best->count < k ? -1 : k / 2 - 1; i >= 0; i--)
            sift_down(best, i);
    } else if (comes_before(x, (mmul_real)j, best->values[0], best->columns[0])) {
        best->values[0] = x;
        best->columns[0] = (mmul_real)j;
        sift_down(best, 0);
    }
}

void mmul_cpu_topk(const mmul_real *x, int64_t n, int64_t k, mmul_real *out) {
    struct best best = {out, out + k, 0};
    mmul_real least = find_bound(x, n, k);
    for (int64_t block = 0; block < n; block += BLOCK) {
        const int64_t end = mmul_min(n, block + BLOCK);
        for (uint64_t some = find_candidates(x + block, end - block, least); some != 0;
             some &= some - 1) {
            const int64_t j = block + __builtin_ctzll(some);
            insert_element(&best, k, x[j], j);
        }
        if (best.count == k && best.values[0] > least)
            least = best.values[0];
    }
    while (best.count > 1) { // the last one goes behind the others
        swap_places(&best, 0, --best.count);
        sift_down(&best, 0);
    }
}

// Returns the first index of y, which may be NaN; n: none.
MMUL_TARGET_CLONES static int32_t find_first(const mmul_real *x, int32_t n, mmul_real y) {
    int32_t first = n;
#pragma omp simd reduction(min : first)
    for (int32_t j = 0; j < n; j++) {
        const int32_t here = (x[j] == y) | ((x[j] != x[j]) & (y != y)) ? j : n;
        first = here < first ? here : first;
    }
    return first;
}

// Searches again only the part of the row in which the extreme first appeared: it is in the
// first-level cache.
int64_t mmul_cpu_find_extreme(const mmul_real *x, int64_t n, bool smallest) {
    mmul_real best = smallest ? INFINITY : -INFINITY;
    int64_t at = 0;
    for (int64_t j = 0; j < n; j += STRETCH) {
        const int64_t some = mmul_min(STRETCH, n - j);
        const mmul_real y =
            smallest ? mmul_cpu_smallest(x + j, some) : mmul_cpu_largest(x + j, some);
        const bool is_better = smallest ? y < best : y > best;
        if (is_better || (y != y && best == best)) {
            best = y;
            at = j;
        }
    }
    return at + find_first(x + at, (int32_t)mmul_min(STRETCH, n - at), best);
}
