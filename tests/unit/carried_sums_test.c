// SPDX-License-Identifier: MIT
//
// Sums of partial results in float, in any order, agree with the sums in double that ranks carry
// along. One element more or less is detected.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "exec/steps/sums.h"

enum { LENGTH = 1000, SUMMANDS = 7 };

enum kind { SIGNED, POSITIVE, ALIKE, CANCELLING, SPREAD, KINDS };

static double number_at(enum kind kind, uint64_t seed, int summand, int at) {
    double x = (double)(mmul_random_at(seed, (uint64_t)(summand * LENGTH + at)) >> 11) * 0x1p-53;
    switch (kind) {
    case SIGNED:
        return 2 * x - 1;
    case POSITIVE:
        return x;
    case ALIKE:
        return 0.1;
    case CANCELLING: // the last summand is about minus the sum of the others
        return summand < SUMMANDS - 1 ? 1 + x : 1.5 - SUMMANDS * 1.5;
    default:
        return ldexp(2 * x - 1, (int)(mmul_random_at(seed + 1, (uint64_t)at) % 60) - 30);
    }
}

// A line: `found` is the float sum from summand `first` on, cyclically; the others are sums in
// double.
struct line {
    double expected, size, found;
    float changed; // element 0 of the line; `found` lacks it
};

static struct line add_line(enum kind kind, uint64_t seed, int first) {
    struct line line = {0};
    for (int at = 0; at < LENGTH; at++) {
        float sum = 0;
        for (int s = 0; s < SUMMANDS; s++) {
            float x = (float)number_at(kind, seed, (first + s) % SUMMANDS, at);
            sum += x;
            line.expected += mmul_move_sum_weight(at) * (double)x;
            line.size += fabs((double)x);
        }
        line.found += mmul_move_sum_weight(at) * (double)sum;
        line.changed = at == 0 ? sum : line.changed;
    }
    return line;
}

static bool agrees(double found, double expected, double size, int summands) {
    return mmul_move_sum_is_right(found, expected, size, summands, MMUL_F32, LENGTH);
}

static void correct_sums_pass(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (uint64_t seed = 0; seed < 200; seed++) {
            const struct line l = add_line((enum kind)kind, seed, (int)(seed % SUMMANDS));
            assert_true(agrees(l.found, l.expected, l.size, SUMMANDS));
        }
}

// One element is off by a hundredth of the mean size of a summand's elements.
static void one_element_more_or_less_is_found(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (uint64_t seed = 0; seed < 200; seed++) {
            const struct line l = add_line((enum kind)kind, seed, 0);
            const double mean = l.size / LENGTH / SUMMANDS;
            assert_false(agrees(l.found + 0.01 * mean, l.expected, l.size, SUMMANDS));
            assert_false(agrees(l.found - 0.01 * mean, l.expected, l.size, SUMMANDS));
            assert_false(agrees(NAN, l.expected, l.size, SUMMANDS));
            assert_false(agrees(INFINITY, l.expected, l.size, SUMMANDS));
        }
}

// Two runs of 16 elements of a line change places.
static void elements_that_change_places_are_found(void **state) {
    enum { RUN = 16, HALF = LENGTH / 2 };
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        const int from = (int)(mmul_random_at(seed, 0) % (HALF - RUN)),
                  to = HALF + (int)(mmul_random_at(seed, 1) % (HALF - RUN));
        double right = 0, wrong = 0, size = 0;
        for (int at = 0; at < LENGTH; at++) {
            const int source = at >= from && at < from + RUN ? at + to - from
                               : at >= to && at < to + RUN   ? at - to + from
                                                             : at;
            right += mmul_move_sum_weight(at) * number_at(POSITIVE, seed, 0, at);
            wrong += mmul_move_sum_weight(at) * number_at(POSITIVE, seed, 0, source);
            size += number_at(POSITIVE, seed, 0, at);
        }
        assert_true(agrees(right, right, size, 2));
        assert_false(agrees(wrong, right, size, 2));
    }
}

static void sums_that_may_overflow_are_not_judged(void **state) {
    (void)state;
    assert_true(agrees(NAN, NAN, NAN, 2));
    assert_true(agrees(INFINITY, INFINITY, INFINITY, 2));
    assert_true(agrees(INFINITY, 1e39, 1e39, 2));
    assert_false(agrees(INFINITY, 1e38, 1e38, 2));
    assert_true(agrees(0, 0, 0, 2));
}

// Sums in double, from any first summand on: an element off by 1e-9 of the mean is detected.
static void sums_in_double_have_the_tolerance_of_doubles(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (uint64_t seed = 0; seed < 200; seed++) {
            double expected = 0, size = 0, found = 0;
            for (int s = 0; s < SUMMANDS; s++)
                for (int at = 0; at < LENGTH; at++) {
                    expected += number_at(kind, seed, s, at);
                    size += fabs(number_at(kind, seed, s, at));
                }
            for (int at = 0; at < LENGTH; at++) {
                double sum = 0;
                for (int s = 0; s < SUMMANDS; s++)
                    sum += number_at(kind, seed, (s + (int)seed) % SUMMANDS, at);
                found += sum;
            }
            const double off = 1e-9 * size / LENGTH;
            assert_true(mmul_move_sum_is_right(found, expected, size, SUMMANDS, MMUL_F64, LENGTH));
            assert_false(
                mmul_move_sum_is_right(found + off, expected, size, SUMMANDS, MMUL_F64, LENGTH));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(correct_sums_pass),
        cmocka_unit_test(sums_in_double_have_the_tolerance_of_doubles),
        cmocka_unit_test(one_element_more_or_less_is_found),
        cmocka_unit_test(elements_that_change_places_are_found),
        cmocka_unit_test(sums_that_may_overflow_are_not_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
