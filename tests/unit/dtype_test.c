// SPDX-License-Identifier: MIT
// Element types: every 16-bit value there and back, rounding to nearest even compared with a
// reference that searches the two neighbours, and the special values.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "model/dtype.h"

static float widen(enum mmul_dtype dtype, uint16_t bits) {
    float value;
    mmul_dtype_widen(dtype, &bits, 1, &value);
    return value;
}

static uint16_t narrow(enum mmul_dtype dtype, float value) {
    uint16_t bits;
    mmul_dtype_narrow(dtype, &value, 1, &bits);
    return bits;
}

// Returns the value of a 16-bit pattern by the definition of the format; NaN and Inf as such.
static double value_of(enum mmul_dtype dtype, uint16_t bits) {
    int fraction_bits = dtype == MMUL_F16 ? 10 : 7, exponent_bits = 15 - fraction_bits;
    int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
    int exponent = bits >> fraction_bits & top, fraction = bits & ((1 << fraction_bits) - 1);
    double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == top)
        return fraction != 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

static void all_values_of(enum mmul_dtype dtype) {
    static uint16_t bits[65536], back[65536];
    static float values[65536];
    for (int i = 0; i < 65536; i++)
        bits[i] = (uint16_t)i;
    mmul_dtype_widen(dtype, bits, 65536, values);
    mmul_dtype_narrow(dtype, values, 65536, back);
    for (int i = 0; i < 65536; i++) {
        double expected = value_of(dtype, bits[i]);
        assert_int_equal(back[i], bits[i]);
        assert_true(isnan(expected) ? isnan(values[i]) : (double)values[i] == expected);
        assert_int_equal(signbit(values[i]) != 0, bits[i] >> 15);
    }
}

static void all_float16_values_survive_a_round_trip(void **state) {
    (void)state;
    all_values_of(MMUL_F16);
}

static void all_bfloat16_values_survive_a_round_trip(void **state) {
    (void)state;
    all_values_of(MMUL_BF16);
}

// Tests below, at and above the middle of every two neighbours.
static void ties_go_to_even(enum mmul_dtype dtype, uint16_t inf) {
    for (uint16_t low = 0; low + 1 < inf; low++) {
        uint16_t high = (uint16_t)(low + 1), even = low % 2 == 0 ? low : high;
        float middle = (float)((value_of(dtype, low) + value_of(dtype, high)) / 2);
        for (int sign = 0; sign < 2; sign++) {
            uint16_t bit = (uint16_t)(sign << 15);
            float s = sign != 0 ? -1.0F : 1.0F;
            assert_int_equal(narrow(dtype, s * middle), even | bit);
            assert_int_equal(narrow(dtype, s * nextafterf(middle, 0)), low | bit);
            assert_int_equal(narrow(dtype, s * nextafterf(middle, INFINITY)), high | bit);
        }
    }
}

static void half_ties_go_to_even(void **state) {
    (void)state;
    ties_go_to_even(MMUL_F16, 0x7C00);
}

static void bfloat_ties_go_to_even(void **state) {
    (void)state;
    ties_go_to_even(MMUL_BF16, 0x7F80);
}

static uint16_t narrow_double(enum mmul_dtype dtype, double value) {
    uint16_t bits;
    mmul_dtype_narrow_double(dtype, &value, 1, &bits);
    return bits;
}

// Tests every tie between two neighbours, including subnormal ones and the one to infinity, and
// doubles next to it that float32 would round to the tie.
static void doubles_round_once(enum mmul_dtype dtype, uint16_t infinity) {
    for (uint16_t bits = 0; bits < infinity; bits++) {
        const uint16_t next = bits + 1, even = bits % 2 == 0 ? bits : next;
        const double below = value_of(dtype, bits);
        const double above =
            next == infinity ? 2 * below - value_of(dtype, bits - 1) : value_of(dtype, next);
        const double tie = below + (above - below) / 2;
        const double beside[] = {nextafter(tie, 0), tie - (above - below) * 0x1p-30};
        const double beyond[] = {nextafter(tie, INFINITY), tie + (above - below) * 0x1p-30};
        assert_int_equal(narrow_double(dtype, below), bits);
        assert_int_equal(narrow_double(dtype, tie), even);
        assert_int_equal(narrow_double(dtype, -tie), even | 0x8000);
        assert_int_equal(mmul_dtype_overflows64(dtype, &tie, 1), next == infinity);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(narrow_double(dtype, beside[i]), bits);
            assert_int_equal(narrow_double(dtype, -beside[i]), bits | 0x8000);
            assert_int_equal(narrow_double(dtype, beyond[i]), next);
            assert_int_equal(narrow_double(dtype, -beyond[i]), next | 0x8000);
            assert_int_equal(mmul_dtype_overflows64(dtype, &beside[i], 1), 0);
        }
    }
    assert_int_equal(narrow_double(dtype, 0x1p-1074), 0);
    assert_int_equal(narrow_double(dtype, -0x1p-1074), 0x8000);
    assert_int_equal(narrow_double(dtype, 1e300), infinity);
    assert_int_equal(narrow_double(dtype, -INFINITY), infinity | 0x8000);
    assert_true(narrow_double(dtype, (double)NAN) > infinity);
}

static void doubles_round_once_to_float16(void **state) {
    (void)state;
    doubles_round_once(MMUL_F16, 0x7C00);
    assert_int_equal(narrow_double(MMUL_F16, 1 + 0x1p-11 + 0x1p-40), 0x3C01);
    assert_int_equal(narrow_double(MMUL_F16, 65519.99999999), 0x7BFF);
}

static void doubles_round_once_to_bfloat16(void **state) {
    (void)state;
    doubles_round_once(MMUL_BF16, 0x7F80);
    assert_int_equal(narrow_double(MMUL_BF16, 1 + 0x1p-8 + 0x1p-40), 0x3F81);
}

static void special_values_are_converted(void **state) {
    (void)state;
    static const struct {
        enum mmul_dtype dtype;
        uint32_t float_bits;
        uint16_t bits;
    } cases[] = {
        {MMUL_F16, 0x477FEFFF, 0x7BFF}, // just below 65520: the largest half
        {MMUL_F16, 0x477FF000, 0x7C00}, // 65520: the tie goes to Inf
        {MMUL_F16, 0x7F7FFFFF, 0x7C00}, // FLT_MAX
        {MMUL_F16, 0x7F800000, 0x7C00}, // Inf
        {MMUL_F16, 0xFF800000, 0xFC00}, // -Inf
        {MMUL_F16, 0x33000000, 0x0000}, // 2^-25: the tie goes to 0
        {MMUL_F16, 0x33000001, 0x0001}, // just above
        {MMUL_F16, 0x00000001, 0x0000}, // a float32 subnormal
        {MMUL_F16, 0x80000001, 0x8000}, // and its sign
        {MMUL_F16, 0x7F800001, 0x7E00}, // NaN with a payload that does not fit
        {MMUL_F16, 0xFFC00000, 0xFE00},  {MMUL_BF16, 0x7F7F7FFF, 0x7F7F}, // below the last tie
        {MMUL_BF16, 0x7F7F8000, 0x7F80},                                  // the tie goes to Inf
        {MMUL_BF16, 0x7F800001, 0x7FC0}, // NaN with a payload that does not fit
        {MMUL_BF16, 0xFF800000, 0xFF80}, {MMUL_BF16, 0x00008000, 0x0000}, // subnormal tie
        {MMUL_BF16, 0x00018000, 0x0002},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        float value;
        memcpy(&value, &cases[c].float_bits, sizeof value);
        assert_int_equal(narrow(cases[c].dtype, value), cases[c].bits);
    }
    assert_true(widen(MMUL_F16, 0x0001) == 0x1p-24F);
    assert_true(widen(MMUL_F16, 0x03FF) == 1023 * 0x1p-24F);
}

// float32 passes bit by bit, NaN payloads included; float64 rounds.
static void float32_is_copied_and_float64_rounds(void **state) {
    (void)state;
    static const uint32_t bits[] = {0x7F800001, 0xFFC12345, 0x80000000, 0x00000001, 0x3F800000};
    enum { COUNT = sizeof bits / sizeof *bits };
    float values[COUNT];
    uint32_t back[COUNT];
    mmul_dtype_widen(MMUL_F32, bits, COUNT, values);
    mmul_dtype_narrow(MMUL_F32, values, COUNT, back);
    assert_memory_equal(bits, back, sizeof bits);
    static const double doubles[] = {1 + 0x1p-24, 1 + 0x1.8p-23, 1e300, -0.0, 0x1p-149};
    static const float expected[] = {1, 1 + 0x1p-22F, INFINITY, -0.0F, 0x1p-149F};
    float rounded[5];
    double exact[5];
    mmul_dtype_widen(MMUL_F64, doubles, 5, rounded);
    assert_memory_equal(rounded, expected, sizeof expected);
    mmul_dtype_narrow(MMUL_F64, expected, 5, exact);
    for (int i = 0; i < 5; i++)
        assert_true(exact[i] == (double)expected[i]);
}

// In a mapped file data starts at byte 20, and a count of 0 is legal anywhere.
static void unaligned_data_and_empty_ranges_are_converted(void **state) {
    (void)state;
    static const enum mmul_dtype dtypes[] = {MMUL_F32, MMUL_F16, MMUL_BF16, MMUL_F64};
    for (size_t d = 0; d < 4; d++) {
        unsigned char bytes[1 + 37 * 8];
        float values[37], back[37];
        for (int i = 0; i < 37; i++)
            values[i] = (float)(i - 18);
        mmul_dtype_narrow(dtypes[d], values, 37, bytes + 1);
        mmul_dtype_widen(dtypes[d], bytes + 1, 37, back);
        assert_memory_equal(values, back, sizeof values);
        mmul_dtype_widen(dtypes[d], NULL, 0, NULL);
        mmul_dtype_narrow(dtypes[d], NULL, 0, NULL);
    }
}

static void types_have_names_and_sizes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum mmul_dtype dtype;
        size_t bytes;
    } cases[] = {
        {"float32", MMUL_F32, 4}, {"f32", MMUL_F32, 4},       {"float16", MMUL_F16, 2},
        {"f16", MMUL_F16, 2},     {"bfloat16", MMUL_BF16, 2}, {"bf16", MMUL_BF16, 2},
        {"float64", MMUL_F64, 8}, {"f64", MMUL_F64, 8},       {"int32", MMUL_I32, 4},
        {"int64", MMUL_I64, 8},   {"uint8", MMUL_U8, 1},      {"int8", MMUL_I8, 1},
        {"int16", MMUL_I16, 2},   {"uint16", MMUL_U16, 2},    {"uint32", MMUL_U32, 4},
        {"bool", MMUL_BOOL, 1},
    };
    struct mmul_error err;
    enum mmul_dtype dtype = MMUL_F64;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        assert_int_equal(mmul_dtype_parse(cases[c].text, &dtype, &err), MMUL_OK);
        assert_int_equal(dtype, cases[c].dtype);
        assert_int_equal(mmul_dtype_bytes(dtype), cases[c].bytes);
        if (strlen(cases[c].text) > 4)
            assert_string_equal(mmul_dtype_name(dtype), cases[c].text);
    }
    assert_int_equal(mmul_dtype_parse("uint64", &dtype, &err), MMUL_ERR_USAGE);
    assert_int_equal(mmul_live_bytes(), 0);
}

// Counts numbers that the conversion itself makes infinite, on both sides of each limit.
static void overflows_are_counted(void **state) {
    (void)state;
    static const float values[] = {65504,           65519.996F,  65520,   -65520,
                                   0x1.FEFFFEp127F, 0x1.FFp127F, FLT_MAX, -FLT_MAX,
                                   INFINITY,        NAN,         -0.0F,   1e-45F};
    enum { COUNT = sizeof values / sizeof *values };
    for (enum mmul_dtype dtype = MMUL_F16; dtype <= MMUL_BF16; dtype++) {
        int64_t expected = 0;
        for (int e = 0; e < COUNT; e++) {
            bool is_infinite = isinf(widen(dtype, narrow(dtype, values[e])));
            assert_int_equal(mmul_dtype_overflows(dtype, values + e, 1),
                             is_infinite && isfinite(values[e]));
            expected += is_infinite && isfinite(values[e]);
        }
        assert_int_equal(expected, dtype == MMUL_F16 ? 6 : 3);
        assert_int_equal(mmul_dtype_overflows(dtype, values, COUNT), expected);
    }
    assert_int_equal(mmul_dtype_overflows(MMUL_F32, values, COUNT), 0);
    const double doubles[] = {0x1.FFFFFEFFFFFFFp127, 0x1.FFFFFFp127, -1e300,
                              (double)INFINITY,      (double)NAN,    0};
    for (int e = 0; e < 6; e++)
        assert_int_equal(mmul_dtype_overflows64(MMUL_F32, doubles + e, 1),
                         isinf((float)doubles[e]) && isfinite(doubles[e]));
    assert_int_equal(mmul_dtype_overflows64(MMUL_F32, doubles, 6), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_float16_values_survive_a_round_trip),
        cmocka_unit_test(all_bfloat16_values_survive_a_round_trip),
        cmocka_unit_test(half_ties_go_to_even),
        cmocka_unit_test(bfloat_ties_go_to_even),
        cmocka_unit_test(special_values_are_converted),
        cmocka_unit_test(float32_is_copied_and_float64_rounds),
        cmocka_unit_test(unaligned_data_and_empty_ranges_are_converted),
        cmocka_unit_test(types_have_names_and_sizes),
        cmocka_unit_test(overflows_are_counted),
        cmocka_unit_test(doubles_round_once_to_float16),
        cmocka_unit_test(doubles_round_once_to_bfloat16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
