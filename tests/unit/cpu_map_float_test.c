// SPDX-License-Identifier: MIT
// Functions of floats on the cpu device, compared with the C library's doubles: every 1009th of all
// floats, with NaN, infinities and subnormal numbers among them; powers of all pairs of special
// values.
#include "device/cpu_map_float.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "model/element_formulas.h"

typedef float of_float(float x);
typedef double of_double(double x);

// Returns one unit in the last place of a float of this size.
static double ulp(double x) {
    int exponent;
    frexp(x, &exponent);
    return ldexp(1, (exponent < -125 || x == 0 ? -125 : exponent) - 24);
}

static bool is_within(float found, double expected, double most) {
    if (isnan(expected) || isnan(found))
        return isnan(expected) && isnan(found);
    return found == (float)expected || fabs((double)found - expected) <= most;
}

static bool agrees(float found, double expected, double ulps) {
    return is_within(found, expected, ulps * ulp(expected));
}

// If an argument of magnitude x^2 or more goes into an exponential, its rounding counts:
// ulps_of_square x^2 below -2. Slopes are 0 between -2 and 0, where rounding errors of their terms
// remain; below -87 a sigmoid is subnormal, and a slope has its rounding error times |x|. Angles
// are reduced in double, and that rounding error remains where a sine is near 0.
struct tolerance {
    double ulps, ulps_of_square, of_terms, of_angle;
};

static double allowed(double x, double expected, struct tolerance t) {
    const double square = x < -2 && x > -20 ? x * x : 0;
    const double subnormal = t.of_terms > 0 && x < -80 ? 64 * 0x1p-149 : 0;
    return (t.ulps + t.ulps_of_square * square) * ulp(expected) +
           (x < 0 && x > -2 ? t.of_terms : 0) + t.of_angle * fabs(x) + subnormal;
}

static bool compare_one(of_float *found, of_double *expected, float x, struct tolerance t) {
    const double want = expected((double)x);
    if (is_within(found(x), want, allowed((double)x, want, t)))
        return true;
    fail_msg("f(%.9g) is %.9g, expected %.9g", (double)x, (double)found(x), want);
    return false;
}

static void compare(of_float *found, of_double *expected, struct tolerance t) {
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 1009)
        compare_one(found, expected, mmul_from_bits((int32_t)(uint32_t)bits), t);
}

static float one_exp(float x) {
    return mmul_expf(x);
}
static float one_log(float x) {
    return mmul_logf(x);
}
static float one_log1p(float x) {
    return mmul_log1pf(x);
}
static float one_expm1(float x) {
    return mmul_expm1f(x);
}
static float one_erf(float x) {
    return mmul_erff(x);
}
static float one_erfinv(float x) {
    return mmul_erfinvf(x);
}
static float one_atan(float x) {
    return mmul_arctanf(x);
}
static float one_floor(float x) {
    return mmul_floorf(x);
}
static float one_rint(float x) {
    return mmul_roundf(x);
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

static float one_sin(float x) {
    return mmul_sinf(x);
}
static float one_cos(float x) {
    return mmul_cosf(x);
}
static float one_silu_slope(float x) {
    return mmul_silu_slopef(x);
}
static float one_gelu_slope(float x) {
    return mmul_gelu_slopef(x);
}
static float one_gelu_tanh_slope(float x) {
    return mmul_gelu_tanh_slopef(x);
}

static double sigmoid(double x) {
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double erfinv(double x) {
    return mmul_erfinv(x);
}

static double gelu(double x) {
    return 0.5 * x * erfc(-x / sqrt(2));
}

// Slopes by the product rule, with 1 - sigmoid(x) computed as sigmoid(-x); far from 0 the slope no
// longer depends on x.
static double within(double x) {
    return isnan(x) ? x : fmin(fmax(x, -1000), 1000);
}

static double silu_slope(double x) {
    x = within(x);
    return sigmoid(x) + x * sigmoid(x) * sigmoid(-x);
}

static double gelu_slope(double x) {
    x = within(x);
    return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
}

static double gelu_tanh_slope(double x) {
    x = within(x);
    const double c = 2 * sqrt(2 / acos(-1)), angle = c * (x + 0.044715 * x * x * x);
    return sigmoid(angle) + x * sigmoid(angle) * sigmoid(-angle) * c * (1 + 3 * 0.044715 * x * x);
}

static void test_functions_are_within_their_error_bounds(void **state) {
    (void)state;
    compare(one_exp, exp, (struct tolerance){2, 0, 0, 0});
    compare(one_log, log, (struct tolerance){2, 0, 0, 0});
    compare(one_log1p, log1p, (struct tolerance){4, 0, 0, 0});
    compare(one_expm1, expm1, (struct tolerance){5, 0, 0, 0});
    compare(one_erf, erf, (struct tolerance){4, 0, 0, 0});
    compare(one_erfinv, erfinv, (struct tolerance){6, 0, 0, 0});
    compare(one_atan, atan, (struct tolerance){4, 0, 0, 0});
    compare(one_floor, floor, (struct tolerance){0, 0, 0, 0});
    compare(one_rint, rint, (struct tolerance){0, 0, 0, 0});
    compare(one_tanh, tanh, (struct tolerance){3, 0, 0, 0});
    compare(one_sigmoid, sigmoid, (struct tolerance){4, 0, 0, 0});
    compare(one_gelu, gelu, (struct tolerance){12, 3, 0, 0});
    compare(one_silu_slope, silu_slope, (struct tolerance){9, 0, 5e-8, 0});
    compare(one_gelu_slope, gelu_slope, (struct tolerance){5, 0.5, 2.5e-7, 0});
    compare(one_gelu_tanh_slope, gelu_tanh_slope, (struct tolerance){24, 2.5, 1e-7, 0});
}

// Tests angles in the supported range. The function reports larger ones and non-numbers, which the
// C library then handles.
static void test_angles_in_range_are_reduced_in_double(void **state) {
    static float row[40];
    const struct tolerance t = {2, 0, 0, 0x1p-53};
    (void)state;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 1009) {
        const float x = mmul_from_bits((int32_t)(uint32_t)bits);
        const bool is_far = isnan(x) || fabsf(x) >= 0x1p27f;
        row[bits % 40] = x;
        assert_int_equal(mmul_is_farf(x) != 0, is_far);
        assert_int_equal(mmul_has_farf(row, 40) != 0, is_far);
        row[bits % 40] = 0;
        if (!is_far) {
            compare_one(one_sin, sin, x, t);
            compare_one(one_cos, cos, x, t);
        }
    }
}

static void test_powers_of_special_values_equal_the_c_library(void **state) {
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

// At multiples and the numbers next to them a quotient may round up to a whole number that it does
// not reach.
static void test_a_quotient_is_not_rounded_up_to_a_whole_number(void **state) {
    (void)state;
    for (int i = 0; i < 3000000; i++) {
        const float y = (float)(i % 2003 - 1001) / (float)(i % 97 + 1);
        const float multiple = y * (float)(i * INT64_C(7919) % 1999 * (i % 3 == 0 ? 487 : 1));
        const float x = i % 4 < 2 ? multiple : nextafterf(multiple, i % 4 == 2 ? -9e9f : 9e9f);
        if (mmul_is_long_divisionf(x, y))
            continue;
        const struct mmul_quotient found = mmul_dividef(x, y);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions_are_within_their_error_bounds),
        cmocka_unit_test(test_angles_in_range_are_reduced_in_double),
        cmocka_unit_test(test_powers_of_special_values_equal_the_c_library),
        cmocka_unit_test(test_a_quotient_is_not_rounded_up_to_a_whole_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
