// SPDX-License-Identifier: MIT
// Sorts a row by bits that increase in sorting order: a short row by insertion, a longer one by a
// stable radix sort from the last digit on. Digits that all elements share are skipped.
#include <math.h>
#include <string.h>

#include "device/cpu_map_rows.h"

enum { SHORT = 48, DIGIT_BITS = 8, DIGIT_VALUES = 1 << DIGIT_BITS };
enum { DIGITS = sizeof(mmul_bits) };

// NaN comes last; zeros of either sign are equal.
static mmul_bits bits_in_order(mmul_real x, bool descending) {
    const mmul_bits sign = (mmul_bits)1 << (8 * sizeof(mmul_bits) - 1);
    const mmul_real as_one = x == 0 ? 0 : x;
    mmul_bits bits;
    memcpy(&bits, &as_one, sizeof bits);
    bits = (bits & sign) != 0 ? ~bits : bits | sign;
    return isnan(x) ? ~(mmul_bits)0 : descending ? ~bits : bits;
}

static void insert_each(struct mmul_cpu_sort_entry *places, int64_t n) {
    for (int64_t j = 1; j < n; j++) {
        const struct mmul_cpu_sort_entry place = places[j];
        int64_t at = j;
        for (; at > 0 && places[at - 1].bits > place.bits; at--)
            places[at] = places[at - 1];
        places[at] = place;
    }
}

static int digit_of(mmul_bits bits, int digit) {
    return (int)(bits >> (digit * DIGIT_BITS) & (DIGIT_VALUES - 1));
}

// Distributes by one digit, with the given count of each value, from `from` to `to`.
static void distribute(const struct mmul_cpu_sort_entry *from, int64_t n, int digit,
                       const int64_t *counts, struct mmul_cpu_sort_entry *to) {
    int64_t next[DIGIT_VALUES], sum = 0;
    for (int value = 0; value < DIGIT_VALUES; value++) {
        next[value] = sum;
        sum += counts[value];
    }
    for (int64_t j = 0; j < n; j++)
        to[next[digit_of(from[j].bits, digit)]++] = from[j];
}

// Alternates between `places` and `room`. Returns the array that holds the result.
static struct mmul_cpu_sort_entry *sort_by_digits(struct mmul_cpu_sort_entry *places, int64_t n,
                                                  struct mmul_cpu_sort_entry *room) {
    int64_t counts[DIGITS][DIGIT_VALUES] = {{0}};
    for (int64_t j = 0; j < n; j++)
        for (int digit = 0; digit < DIGITS; digit++)
            counts[digit][digit_of(places[j].bits, digit)]++;
    for (int digit = 0; digit < DIGITS; digit++) {
        if (counts[digit][digit_of(places[0].bits, digit)] == n)
            continue;
        distribute(places, n, digit, counts[digit], room);
        struct mmul_cpu_sort_entry *const made = room;
        room = places;
        places = made;
    }
    return places;
}

void mmul_cpu_sort(const struct mmul_cpu_sort_options *how, const mmul_real *x, int64_t n,
                   mmul_real *out) {
    struct mmul_cpu_sort_entry *places = how->room;
    for (int64_t j = 0; j < n; j++)
        places[j] = (struct mmul_cpu_sort_entry){bits_in_order(x[j], how->descending), (uint32_t)j};
    if (n <= SHORT)
        insert_each(places, n);
    else
        places = sort_by_digits(places, n, places + n);
    for (int64_t j = 0; j < n; j++)
        out[j] = how->wants_columns ? (mmul_real)places[j].column : x[places[j].column];
}
