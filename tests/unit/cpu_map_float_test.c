// SPDX-License-Identifier: MIT
// Functions of floats on the cpu device, compared with the table's formulas in double: every 1009th
// of all floats, with NaN, infinities and subnormal numbers among them; powers of all pairs of
// special values.
#include "device/cpu_map_float.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "model/element_formulas.h"
#include "model/operation.h"

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

// A function of floats, its formula in double, and their tolerance, for each row of the table with
// one value.
#define FUNCTION(KIND, NAME, FLOPS, ACCURACY, ULPS, FORMULA, ...) \
    static float one_##NAME(float x) {                            \
        return mmul_##NAME##f(x);                                 \
    }                                                             \
    static double formula_##NAME(double x) {                      \
        return FORMULA;                                           \
    }
#define UNARY FUNCTION
#include "model/operations.def"

#define SLOPE(NAME)                          \
    static float one_##NAME(float x) {       \
        return mmul_##NAME##f(x);            \
    }                                        \
    static double formula_##NAME(double x) { \
        return mmul_##NAME(x);               \
    }
SLOPE(silu_slope)
SLOPE(gelu_slope)
SLOPE(gelu_tanh_slope)

static const struct function {
    enum mmul_operation_kind kind;
    of_float *found;
    of_double *expected;
    double ulps;
} functions[] = {
#define FUNCTION(KIND, NAME, FLOPS, ACCURACY, ULPS, ...) \
    {MMUL_##KIND, one_##NAME, formula_##NAME, ULPS},
#define UNARY FUNCTION
#include "model/operations.def"
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

// Tolerances where the CPU is more exact than the table requires of a device, or where an argument
// is rounded or a result subnormal.
static const struct tolerance tolerances[MMUL_OPERATION_KINDS] = {
    [MMUL_EXP] = {2, 0, 0, 0},     [MMUL_LOG] = {2, 0, 0, 0},
    [MMUL_ERF] = {4, 0, 0, 0},     [MMUL_ERFINV] = {6, 0, 0, 0},
    [MMUL_ARCTAN] = {4, 0, 0, 0},  [MMUL_TANH] = {3, 0, 0, 0},
    [MMUL_SIGMOID] = {4, 0, 0, 0}, [MMUL_SILU] = {9, 0, 0x1p-149, 0},
    [MMUL_GELU] = {12, 3, 0, 0},   [MMUL_GELU_TANH] = {16, 3, 0x1p-149, 0},
};

static void test_functions_are_within_their_error_bounds(void **state) {
    (void)state;
    for (const struct function *f = functions; f < functions + FUNCTIONS; f++) {
        const struct tolerance of_table = {f->ulps, 0, 0, 0}, own = tolerances[f->kind];
        if (f->kind != MMUL_SIN && f->kind != MMUL_COS) // angles are in range, below
            compare(f->found, f->expected, own.ulps > 0 ? own : of_table);
    }
    compare(one_silu_slope, formula_silu_slope, (struct tolerance){9, 0, 5e-8, 0});
    compare(one_gelu_slope, formula_gelu_slope, (struct tolerance){5, 0.5, 2.5e-7, 0});
    compare(one_gelu_tanh_slope, formula_gelu_tanh_slope, (struct tolerance){24, 2.5, 1e-7, 0});
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
            compare_one(one_sin, formula_sin, x, t);
            compare_one(one_cos, formula_cos, x, t);
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
