// SPDX-License-Identifier: MIT
// The largest elements of a row on the cpu device, and the first of the smallest, compared with
// repeated linear search. Rows with few different values, NaN and infinities, rising and falling
// rows, shorter and longer than one chunk of the search.
#include "device/cpu_map_rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { LONGEST = 4200 };

// Returns the next column among those not yet taken: NaN first, the lower column of equal ones.
static int64_t find_next(const float *x, int64_t n, const bool *taken) {
    int64_t best = -1;
    for (int64_t j = 0; j < n; j++)
        if (!taken[j] && (best < 0 || x[j] > x[best] || (isnan(x[j]) && !isnan(x[best]))))
            best = j;
    return best;
}

// Returns the column of the first of the smallest, NaN first.
static int64_t find_smallest(const float *x, int64_t n) {
    int64_t best = 0;
    for (int64_t j = 1; j < n; j++)
        if (x[j] < x[best] || (isnan(x[j]) && !isnan(x[best])))
            best = j;
    return best;
}

static void compare(const float *x, int64_t n, int64_t k) {
    bool taken[LONGEST] = {false};
    float found[2 * LONGEST];
    mmul_cpu_topk(x, n, k, found);
    for (int64_t i = 0; i < k; i++) {
        const int64_t next = find_next(x, n, taken);
        taken[next] = true;
        assert_int_equal((int64_t)found[k + i], next);
        assert_true(found[i] == x[next] || (isnan(found[i]) && isnan(x[next])));
        assert_true(i > 0 || mmul_cpu_find_extreme(x, n, false) == next);
    }
    assert_int_equal(mmul_cpu_find_extreme(x, n, true), find_smallest(x, n));
}

static float element(int kind, uint32_t random, int64_t j) {
    static const float special[] = {NAN, INFINITY, -INFINITY, 0, -0.0f, 1, -1, 2};
    switch (kind) {
    case 0:
        return special[random % 8];
    case 1:
        return (float)(random % 5);
    case 2:
        return (float)j;
    case 3:
        return (float)-j;
    case 4:
        return -INFINITY;
    case 5:
        return NAN;
    default:
        return (float)(random % 100003) / 1024;
    }
}

static void test_the_largest_elements_are_found_in_order(void **state) {
    static const int64_t lengths[] = {1, 2, 63, 64, 65, 127, 128, 129, 200, 1024, 2049, LONGEST};
    static const int64_t counts[] = {1, 2, 3, 8, 31, 32, 33, 100};
    static float x[LONGEST];
    uint32_t random = 1;
    (void)state;
    for (int kind = 0; kind < 12; kind++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            for (int64_t j = 0; j < lengths[l]; j++) {
                random = random * 1664525 + 1013904223;
                x[j] = element(kind, random >> 8, j);
            }
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                if (counts[c] <= lengths[l])
                    compare(x, lengths[l], counts[c]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_largest_elements_are_found_in_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
