// SPDX-License-Identifier: MIT
// The functions of floats that the cpu device is made of, against the C library's of doubles: every 1009th of all
// floats, with NaN, infinities and subnormal numbers among them; and all pairs of special values for powers.
#include "device/cpu_map_float.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

typedef float of_float(float x);
typedef double of_double(double x);

// One unit in the last place of a float of this size.
static double ulp(double x) {
    int exponent;
    frexp(x, &exponent);
    return ldexp(1, (exponent < -125 || x == 0 ? -125 : exponent) - 24);
}

static bool agrees(float found, double expected, double ulps) {
    if (isnan(expected) || isnan(found))
        return isnan(expected) && isnan(found);
    return found == (float)expected || fabs((double)found - expected) <= ulps * ulp(expected);
}

static void compare(of_float *found, of_double *expected, double ulps, double ulps_of_square) {
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 1009) {
        const float x = mmul_from_bits((int32_t)(uint32_t)bits);
        const double square = x < -2 && x > -20 ? (double)x * (double)x : 0;
        if (agrees(found(x), expected((double)x), ulps + ulps_of_square * square))
            continue;
        fail_msg("f(%.9g) is %.9g, expected %.9g", (double)x, (double)found(x),
                 expected((double)x));
    }
}

static float one_exp(float x) {
    return mmul_expf(x);
}
static float one_log(float x) {
    return mmul_logf(x);
}
static float one_tanh(float x) {
    return mmul_tanhf(x);
}
static float one_sigmoid(float x) {
    return mmul_sigmoidf(x);
}
static float one_gelu(float x) {
    return mmul_geluf(x);
}

static double sigmoid(double x) {
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double gelu(double x) {
    return 0.5 * x * erfc(-x / sqrt(2));
}

static void test_functions(void **state) {
    (void)state;
    compare(one_exp, exp, 2, 0);
    compare(one_log, log, 2, 0);
    compare(one_tanh, tanh, 3, 0);
    compare(one_sigmoid, sigmoid, 4, 0);
    compare(one_gelu, gelu, 12, 3);
}

static void test_powers(void **state) {
    static const float values[] = {
        0,        -0.0f,     1,          -1,          0.5f,       -0.5f,    2,         -2,
        3,        -3,        1e30f,      -1e30f,      1e-40f,     -1e-40f,  1e-30f,    -7.5f,
        INFINITY, -INFINITY, NAN,        8388607,     8388608,    16777215, -16777215, 4194303.5f,
        -8388607, 4194305,   0.9999999f, -0.9999999f, 1.0000001f, 33554432, 2.5f,      0.1f,
    };
    enum { COUNT = sizeof values / sizeof *values };
    (void)state;
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT; j++) {
            const float x = values[i], y = values[j], found = mmul_powf(x, y);
            const double expected = pow((double)x, (double)y);
            if (!agrees(found, expected, 1) ||
                (!isnan(expected) && !signbit(found) != !signbit(expected)))
                fail_msg("%.9g to the %.9g is %.9g, expected %.9g", (double)x, (double)y,
                         (double)found, expected);
        }
}

// Multiples, and what is next to them, are where a ratio is rounded to a whole number that it does not reach.
static void test_division(void **state) {
    (void)state;
    for (int i = 0; i < 3000000; i++) {
        const float y = (float)(i % 2003 - 1001) / (float)(i % 97 + 1);
        const float multiple = y * (float)(i * INT64_C(7919) % 1999 * (i % 3 == 0 ? 487 : 1));
        const float x = i % 4 < 2 ? multiple : nextafterf(multiple, i % 4 == 2 ? -9e9f : 9e9f);
        if (mmul_is_long_divisionf(x, y))
            continue;
        const struct mmul_divided found = mmul_dividef(x, y);
        double left = fmod((double)x, (double)y), quotient = ((double)x - left) / (double)y;
        if (left != 0 && (left < 0) != (y < 0)) {
            left += (double)y;
            quotient -= 1;
        }
        if ((double)found.quotient != quotient || found.left != (float)left ||
            !signbit(found.left) != !signbit(y))
            fail_msg("%.9g by %.9g is %.9g and %.9g, expected %.9g and %.9g", (double)x, (double)y,
                     (double)found.quotient, (double)found.left, quotient, left);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_functions),
                                       cmocka_unit_test(test_powers),
                                       cmocka_unit_test(test_division)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
