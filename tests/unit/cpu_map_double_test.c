// SPDX-License-Identifier: MIT
// Functions of doubles on the cpu device, compared with the table's formulas in long double. The
// result of an element does not depend on its place or on the row's length, bit for bit.
#include "device/map.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <tgmath.h>

#define FORMULA_REAL long double
#include "model/element_formulas.h"

#include "exec/threads/compute_thread.h"

enum { COUNT = 4001 };

typedef long double of_long(long double x);

// The formula of each row of the table with one value, and those of slopes.
#define FUNCTION(KIND, NAME, FLOPS, ACCURACY, ULPS, FORMULA, ...) \
    static long double formula_##NAME(long double x) {            \
        return FORMULA;                                           \
    }
#define UNARY FUNCTION
#include "model/operations.def"

#define SLOPE(NAME)                                               \
    static long double formula_##NAME##_backward(long double x) { \
        return mmul_##NAME##_slope(x);                            \
    }
SLOPE(silu)
SLOPE(gelu)
SLOPE(gelu_tanh)

// Slopes are 0 between -2 and 0, where rounding errors of their terms remain. Above 0 they have x
// times the error of 1 minus a sigmoid, which matters until the sigmoid is 1.
static const struct function {
    const char *name;
    enum mmul_operation_kind kind;
    of_long *expected;
    double least, most; // range of x
    double ulps, of_terms;
} functions[] = {
#define CASE(KIND, NAME, ...) \
    { #NAME, MMUL_##KIND, formula_##NAME, __VA_ARGS__ }
#define FUNCTION(KIND, NAME, ...) CASE(KIND, NAME, -0.9, 0.9, 8, 0),
#define UNARY                     FUNCTION
#include "model/operations.def"
    CASE(EXP, exp, -745, 709, 4, 0),
    CASE(LOG, log, 0, 1e300, 4, 0),
    CASE(LOG1P, log1p, -1, 1e300, 4, 0),
    CASE(LOG1P, log1p, -1e-3, 1e-3, 4, 0),
    CASE(EXPM1, expm1, -40, 709, 4, 0),
    CASE(EXPM1, expm1, -1e-3, 1e-3, 4, 0),
    CASE(ERF, erf, -6, 6, 4, 0),
    CASE(ERFINV, erfinv, -1, 1, 8, 0),
    CASE(ERFINV, erfinv, 1 - 1e-9, 1, 8, 0),
    CASE(ERFINV, erfinv, -1e-9, 1e-9, 8, 0),
    CASE(ARCTAN, arctan, -1e3, 1e3, 4, 0),
    CASE(ARCTAN, arctan, -3, 3, 4, 0),
    CASE(FLOOR, floor, -1e3, 1e3, 0, 0),
    CASE(ROUND, round, -1e3, 1e3, 0, 0),
    CASE(TANH, tanh, -25, 25, 5, 0),
    CASE(SIGMOID, sigmoid, -700, 40, 8, 0),
    CASE(SILU, silu, -700, 40, 9, 0),
    CASE(GELU, gelu, -5, 9, 40, 0),
    CASE(GELU_TANH, gelu_tanh, -4, 9, 80, 0),
    CASE(SIN, sin, -1e6, 1e6, 4, 0),
    CASE(SIN, sin, -4, 4, 4, 0),
    CASE(SIN, sin, -1e300, 1e300, 4, 0),
    CASE(COS, cos, -1e6, 1e6, 4, 0),
    CASE(COS, cos, -4, 4, 4, 0),
    CASE(COS, cos, -1e300, 1e300, 4, 0),
    CASE(SILU_BACKWARD, silu_backward, -700, 40, 40, 4),
    CASE(SILU_BACKWARD, silu_backward, -9, 9, 16, 4),
    CASE(GELU_BACKWARD, gelu_backward, -9, 9, 40, 4),
    CASE(GELU_TANH_BACKWARD, gelu_tanh_backward, -4, 9, 80, 4),
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

// Computes a row of `count` elements; the incoming gradient of a slope is 1.
static void make_row(enum mmul_operation_kind kind, double *x, int64_t count, double *out) {
    static double ones[COUNT];
    double *const memory[] = {x, ones, out};
    struct mmul_device *cpu = NULL;
    struct mmul_buffer *buffers[3];
    struct mmul_error err;
    const struct mmul_parameters with = {.axis = -1};
    assert_int_equal(mmul_device_open("cpu", &cpu, &err), MMUL_OK);
    for (int64_t i = 0; i < count; i++)
        ones[i] = 1;
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            mmul_device_buffer_borrow(cpu, MMUL_F64, memory[i], count, &buffers[i], &err), MMUL_OK);
    const struct mmul_map_operand row = {
        .buffer = buffers[0], .row_step = count, .col_step = 1, .rows = 1, .cols = count};
    struct mmul_map_operand gradient = row;
    gradient.buffer = buffers[1];
    const struct mmul_map map = {.kind = kind,
                                 .with = &with,
                                 .rows = 1,
                                 .cols = count,
                                 .shape = {1, 1, 1, count},
                                 .matrices = 1,
                                 .operands = {row, gradient},
                                 .operand_count = mmul_operation_row(kind)->most,
                                 .result = {buffers[2], 0, count},
                                 .parallel = {1, mmul_helper_threads_run}};
    assert_int_equal(mmul_device_map(cpu, &map, &err), MMUL_OK);
    for (int i = 0; i < 3; i++)
        mmul_device_buffer_destroy(cpu, buffers[i]);
    mmul_device_close(cpu);
}

static void fill(const struct function *f, double *x) {
    for (int64_t i = 0; i < COUNT; i++) // evenly over magnitudes where the range spans many
        x[i] = f->kind == MMUL_LOG ? pow(10, 600.0 * (double)i / COUNT - 300)
                                   : f->least + (f->most - f->least) * (double)i / (COUNT - 1);
}

static void test_functions_are_within_their_error_bounds(void **state) {
    static double x[COUNT], found[COUNT];
    (void)state;
    for (const struct function *f = functions; f < functions + FUNCTIONS; f++) {
        double worst = 0;
        fill(f, x);
        make_row(f->kind, x, COUNT, found);
        for (int64_t i = 0; i < COUNT; i++) {
            const long double expected = f->expected((long double)x[i]);
            const long double ulp = fabsl(expected) * 0x1p-52L + 0x1p-1074L;
            const double left = x[i] > -2 && x[i] < 0 ? f->of_terms * 0x1p-52 : 0;
            const double error = (double)fabsl((long double)found[i] - expected);
            const double none = isnan(expected) != isnan(found[i]) ? INFINITY : 0;
            const double off = fmax(error - left, none) / (double)ulp;
            worst = off > worst ? off : worst;
            if (off > f->ulps)
                fail_msg("%s(%.17g) is %.17g, expected %.17Lg: %.3g units in the last place",
                         f->name, x[i], found[i], expected, off);
        }
        print_message("%s: %.2g units in the last place\n", f->name, worst);
    }
}

static void test_a_result_does_not_depend_on_its_place(void **state) {
    static double x[COUNT], all[COUNT], some[COUNT];
    (void)state;
    for (const struct function *f = functions; f < functions + FUNCTIONS; f++) {
        fill(f, x);
        make_row(f->kind, x, COUNT, all);
        for (int64_t count = 1; count < 80; count += 1 + count / 20)
            for (int64_t first = 0; first + count <= COUNT; first += 97) {
                make_row(f->kind, x + first, count, some);
                if (memcmp(some, all + first, (size_t)count * sizeof *some) != 0)
                    fail_msg("%s: elements %lld to %lld alone differ", f->name, (long long)first,
                             (long long)(first + count));
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions_are_within_their_error_bounds),
        cmocka_unit_test(test_a_result_does_not_depend_on_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
