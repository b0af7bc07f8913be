// SPDX-License-Identifier: MIT
// Sorting of a row on the cpu device, compared with ranks found by counting smaller elements. Rows
// with few different values, NaN and infinities, zeros of either sign, rising and falling rows,
// lengths on both sides of the limit for element-wise sorting, and bits that differ in a single
// digit.
#include "device/cpu_map_rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { LONGEST = 1500, KINDS = 8 };

// NaN last; of equal elements the lower column first.
static bool is_before(const float *x, int64_t i, int64_t j, bool descending) {
    if (isnan(x[i]) || isnan(x[j]))
        return !isnan(x[i]) || (isnan(x[j]) && i < j);
    return (descending ? x[i] > x[j] : x[i] < x[j]) || (x[i] == x[j] && i < j);
}

static void compare(const float *x, int64_t n, bool descending) {
    struct mmul_cpu_sort_entry room[2 * LONGEST];
    struct mmul_cpu_sort_options how = {descending, false, room};
    float elements[LONGEST], columns[LONGEST];
    mmul_cpu_sort(&how, x, n, elements);
    how.wants_columns = true;
    mmul_cpu_sort(&how, x, n, columns);
    for (int64_t j = 0; j < n; j++) {
        int64_t place = 0;
        for (int64_t i = 0; i < n; i++)
            place += i != j && is_before(x, i, j, descending);
        assert_int_equal((int64_t)columns[place], j);
        assert_memory_equal(&elements[place], &x[j], sizeof *x); // bits are unchanged
    }
}

static float element(int kind, uint32_t random, int64_t j) {
    static const float special[] = {NAN, INFINITY, -INFINITY, 0, -0.0f, 1, -1, 1e-42f};
    const uint32_t digit = UINT32_C(0x3f800000) | random % 256 << 8 * (j % 3);
    float of_digit;
    memcpy(&of_digit, &digit, sizeof digit);
    switch (kind) {
    case 0:
        return special[random % 8];
    case 1:
        return (float)(random % 5) - 2;
    case 2:
        return (float)j;
    case 3:
        return (float)-j;
    case 4:
        return NAN;
    case 5:
        return (float)(random % 2) * -0.0f;
    case 6:
        return of_digit;
    default:
        return ((float)random - 8e6f) / 1024;
    }
}

static void test_rows_are_sorted_stably(void **state) {
    static const int64_t lengths[] = {1, 2, 3, 47, 48, 49, 64, 257, LONGEST};
    static float x[LONGEST];
    uint32_t random = 1;
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            for (int64_t j = 0; j < lengths[l]; j++) {
                random = random * 1664525 + 1013904223;
                x[j] = element(kind, random >> 8, j);
            }
            compare(x, lengths[l], false);
            compare(x, lengths[l], true);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_are_sorted_stably)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
