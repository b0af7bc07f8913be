// SPDX-License-Identifier: MIT
// Generated matrices: the published first numbers of SplitMix64, the range of values of each kind,
// and equality of any part with that part of the whole.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "mpimatmul_local.h"

enum { COUNT = 2 * 3 * 97 * 101 };

static const struct mmul_shape shape = {.batch = 2, .depth = 3, .rows = 97, .cols = 101};
static float whole[COUNT], part[COUNT];

static const enum mmul_generator kinds[] = {
    MMUL_GENERATE_UNIFORM,
    MMUL_GENERATE_NORMAL,
    MMUL_GENERATE_INTEGER,
    MMUL_GENERATE_IDENTITY,
};

// Vigna's splitmix64.c with state 1234567 (the numbers of Rosetta Code).
static void numbers_equal_the_published_ones(void **state) {
    (void)state;
    static const uint64_t expected[] = {
        UINT64_C(6457827717110365317),  UINT64_C(3203168211198807973),
        UINT64_C(9817491932198370423),  UINT64_C(4593380528125082431),
        UINT64_C(16408922859458223821),
    };
    for (uint64_t i = 0; i < 5; i++)
        assert_true(mmul_random_at(1234567, i) == expected[i]);
    float value;
    mmul_generate(MMUL_GENERATE_UNIFORM, 1234567, shape, 0, 1, &value);
    assert_true(value == (float)(expected[0] >> 40) * 0x1p-23F - 1);
    mmul_generate(MMUL_GENERATE_INTEGER, 1234567, shape, 4, 5, &value);
    assert_true(value == floor((double)expected[4] * 0x1p-64 * 9) - 4);
}

static void parts_equal_the_whole(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        mmul_generate(kinds[k], 42, shape, 0, COUNT, whole);
        for (int64_t begin = 0; begin < COUNT; begin += 1789) {
            int64_t end = begin + 2011 < COUNT ? begin + 2011 : COUNT;
            memset(part, 0xFF, sizeof part);
            mmul_generate(kinds[k], 42, shape, begin, end, part);
            assert_memory_equal(part, whole + begin, (size_t)(end - begin) * sizeof *part);
            assert_true(isnan(part[end - begin])); // no write beyond the end
        }
        mmul_generate(kinds[k], 42, shape, 5, 5, NULL);
    }
}

static void measure_moments(double *mean, double *square) {
    *mean = 0;
    *square = 0;
    for (int e = 0; e < COUNT; e++) {
        *mean += whole[e] / COUNT;
        *square += (double)whole[e] * whole[e] / COUNT;
    }
}

// Means are within five standard errors.
static void values_fit_their_kind(void **state) {
    (void)state;
    double mean, square;
    mmul_generate(MMUL_GENERATE_UNIFORM, 7, shape, 0, COUNT, whole);
    for (int e = 0; e < COUNT; e++) {
        assert_true(whole[e] >= -1 && whole[e] < 1);
        assert_true(whole[e] * 0x1p23F == floorf(whole[e] * 0x1p23F));
    }
    measure_moments(&mean, &square);
    assert_true(fabs(mean) < 0.012 && fabs(square - 1 / 3.0) < 0.007);
    mmul_generate(MMUL_GENERATE_NORMAL, 7, shape, 0, COUNT, whole);
    measure_moments(&mean, &square);
    assert_true(fabs(mean) < 0.021 && fabs(square - 1) < 0.03);
    int seen[9] = {0};
    mmul_generate(MMUL_GENERATE_INTEGER, 7, shape, 0, COUNT, whole);
    for (int e = 0; e < COUNT; e++) {
        assert_true(whole[e] >= -4 && whole[e] <= 4);
        seen[(int)whole[e] + 4]++;
    }
    for (int v = 0; v < 9; v++)
        assert_true(abs(seen[v] - COUNT / 9) < 400);
    mmul_generate(MMUL_GENERATE_IDENTITY, 7, shape, 0, COUNT, whole);
    for (int e = 0; e < COUNT; e++)
        assert_true(whole[e] == (e % 101 == e / 101 % 97 ? 1 : 0));
}

static void seeds_differ(void **state) {
    (void)state;
    mmul_generate(MMUL_GENERATE_UNIFORM, 1, shape, 0, 100, whole);
    mmul_generate(MMUL_GENERATE_UNIFORM, 2, shape, 0, 100, part);
    int same = 0;
    for (int e = 0; e < 100; e++)
        same += whole[e] == part[e];
    assert_true(same < 3);
}

static void kinds_have_names(void **state) {
    (void)state;
    static const char *const texts[] = {"uniform", "normal", "integer", "identity"};
    struct mmul_error err;
    enum mmul_generator kind;
    for (size_t k = 0; k < 4; k++) {
        assert_int_equal(mmul_generator_parse(texts[k], &kind, &err), MMUL_OK);
        assert_int_equal(kind, kinds[k]);
    }
    assert_int_equal(mmul_generator_parse("random", &kind, &err), MMUL_ERR_USAGE);
    assert_int_equal(mmul_live_bytes(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_equal_the_published_ones),
        cmocka_unit_test(parts_equal_the_whole),
        cmocka_unit_test(values_fit_their_kind),
        cmocka_unit_test(seeds_differ),
        cmocka_unit_test(kinds_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
