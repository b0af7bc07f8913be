// SPDX-License-Identifier: MIT
// Functions of doubles on the cpu device, compared with the C library's long double. The result of
// an element does not depend on its place or on the row's length, bit for bit.
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

static long double sigmoid(long double x) {
    return 1 / (1 + expl(-x));
}
static long double silu(long double x) {
    return x * sigmoid(x);
}
static long double gelu(long double x) {
    return x / 2 * erfcl(-x / sqrtl(2));
}
static long double gelu_tanh(long double x) {
    return x * sigmoid(2 * sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x));
}

static long double erfinv(long double x) {
    return mmul_erfinv(x);
}

static long double silu_slope(long double x) {
    return sigmoid(x) + x * sigmoid(x) * sigmoid(-x);
}
static long double gelu_slope(long double x) {
    return erfcl(-x / sqrtl(2)) / 2 + x * expl(-x * x / 2) / sqrtl(2 * acosl(-1));
}
static long double gelu_tanh_slope(long double x) {
    const long double c = 2 * sqrtl(2 / acosl(-1)), s = sigmoid(c * (x + 0.044715L * x * x * x));
    return s + x * s * sigmoid(-c * (x + 0.044715L * x * x * x)) * c * (1 + 3 * 0.044715L * x * x);
}

// Slopes are 0 between -2 and 0, where rounding errors of their terms remain. Above 0 they have x
// times the error of 1 minus a sigmoid, which matters until the sigmoid is 1.
static const struct function {
    const char *name;
    enum mmul_operation_kind kind;
    of_long *expected;
    double least, most; // range of x
    double ulps, of_terms;
} functions[] = {
    {"exp", MMUL_EXP, expl, -745, 709, 4, 0},
    {"log", MMUL_LOG, logl, 0, 1e300, 4, 0},
    {"log1p", MMUL_LOG1P, log1pl, -1, 1e300, 4, 0},
    {"log1p", MMUL_LOG1P, log1pl, -1e-3, 1e-3, 4, 0},
    {"expm1", MMUL_EXPM1, expm1l, -40, 709, 4, 0},
    {"expm1", MMUL_EXPM1, expm1l, -1e-3, 1e-3, 4, 0},
    {"erf", MMUL_ERF, erfl, -6, 6, 4, 0},
    {"erfinv", MMUL_ERFINV, erfinv, -1, 1, 8, 0},
    {"erfinv", MMUL_ERFINV, erfinv, 1 - 1e-9, 1, 8, 0},
    {"erfinv", MMUL_ERFINV, erfinv, -1e-9, 1e-9, 8, 0},
    {"arctan", MMUL_ARCTAN, atanl, -1e3, 1e3, 4, 0},
    {"arctan", MMUL_ARCTAN, atanl, -3, 3, 4, 0},
    {"floor", MMUL_FLOOR, floorl, -1e3, 1e3, 0, 0},
    {"round", MMUL_ROUND, rintl, -1e3, 1e3, 0, 0},
    {"tanh", MMUL_TANH, tanhl, -25, 25, 5, 0},
    {"sigmoid", MMUL_SIGMOID, sigmoid, -700, 40, 8, 0},
    {"silu", MMUL_SILU, silu, -700, 40, 9, 0},
    {"gelu", MMUL_GELU, gelu, -5, 9, 40, 0},
    {"gelu_tanh", MMUL_GELU_TANH, gelu_tanh, -4, 9, 80, 0},
    {"sin", MMUL_SIN, sinl, -1e6, 1e6, 4, 0},
    {"sin", MMUL_SIN, sinl, -4, 4, 4, 0},
    {"sin", MMUL_SIN, sinl, -1e300, 1e300, 4, 0},
    {"cos", MMUL_COS, cosl, -1e6, 1e6, 4, 0},
    {"cos", MMUL_COS, cosl, -4, 4, 4, 0},
    {"cos", MMUL_COS, cosl, -1e300, 1e300, 4, 0},
    {"silu_backward", MMUL_SILU_BACKWARD, silu_slope, -700, 40, 40, 4},
    {"silu_backward", MMUL_SILU_BACKWARD, silu_slope, -9, 9, 16, 4},
    {"gelu_backward", MMUL_GELU_BACKWARD, gelu_slope, -9, 9, 40, 4},
    {"gelu_tanh_backward", MMUL_GELU_TANH_BACKWARD, gelu_tanh_slope, -4, 9, 80, 4},
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
            const double off = fmax(error - left, 0) / (double)ulp;
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
