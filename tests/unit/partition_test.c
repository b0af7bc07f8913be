// SPDX-License-Identifier: MIT
// Splitting by weights: the examples of the format description, ties, zero weights, many parts, and
// weights as text.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "folder.h"
#include "plan/parts/share.h"

enum { PARTS_MAX = 8 };

struct split_case {
    int64_t total;
    enum mmul_split_rule rule;
    int parts;
    double weights[PARTS_MAX];
    int64_t sizes[PARTS_MAX];
};

static void known_splits_are_reproduced(void **state) {
    (void)state;
    static const struct split_case cases[] = {
        {4096, MMUL_SPLIT_EXACT, 3, {50, 25, 25}, {2048, 1024, 1024}},
        {4096, MMUL_SPLIT_HUNDRED, 3, {50, 25, 25}, {2050, 1025, 1021}},
        {4096, MMUL_SPLIT_HUNDRED, 3, {0.5, 0.25, 0.25}, {2050, 1025, 1021}},
        {10, MMUL_SPLIT_EXACT, 3, {1, 1, 1}, {4, 3, 3}},
        {10, MMUL_SPLIT_EXACT, 3, {0.1, 0.2, 0.7}, {1, 2, 7}},
        {3, MMUL_SPLIT_EXACT, 2, {0.1, 0.2}, {1, 2}},
        {2, MMUL_SPLIT_EXACT, 3, {0.25, 0.5, 0.25}, {1, 1, 0}},
        {25, MMUL_SPLIT_EXACT, 2, {0.3, 0.3}, {13, 12}},
        {5, MMUL_SPLIT_EXACT, 4, {0, 3, 0, 1}, {0, 4, 0, 1}},
        {1, MMUL_SPLIT_EXACT, 3, {0, 1, 1}, {0, 1, 0}},
        {0, MMUL_SPLIT_EXACT, 2, {1, 2}, {0, 0}},
        {0, MMUL_SPLIT_HUNDRED, 2, {1, 2}, {0, 0}},
        {7, MMUL_SPLIT_EXACT, 1, {1e-300}, {7}},
        {6, MMUL_SPLIT_EXACT, 3, {1e308, 1e308, 1e308}, {2, 2, 2}},
        {2147483647, MMUL_SPLIT_EXACT, 2, {1, 1}, {1073741824, 1073741823}},
        {7, MMUL_SPLIT_HUNDRED, 2, {1, 1}, {3, 4}},
        {101, MMUL_SPLIT_HUNDRED, 3, {1, 1, 1}, {34, 33, 34}},
        {1000, MMUL_SPLIT_HUNDRED, 3, {0.29, 0.71, 0}, {290, 710, 0}},
        {1000, MMUL_SPLIT_HUNDRED, 3, {0, 0, 1}, {0, 0, 1000}},
        {3, MMUL_SPLIT_HUNDRED, 4, {1, 1, 1, 1}, {0, 0, 0, 3}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err;
        int64_t offsets[PARTS_MAX + 1];
        assert_int_equal(mmul_split_offsets(cases[c].total, cases[c].parts, cases[c].weights,
                                            cases[c].rule, offsets, &err),
                         MMUL_OK);
        assert_int_equal(offsets[0], 0);
        for (int i = 0; i < cases[c].parts; i++) {
            if (offsets[i + 1] - offsets[i] != cases[c].sizes[i]) {
                fail_msg("case %zu, part %d: %lld, expected %lld", c, i,
                         (long long)(offsets[i + 1] - offsets[i]), (long long)cases[c].sizes[i]);
            }
        }
        assert_int_equal(offsets[cases[c].parts], cases[c].total);
    }
    assert_int_equal(mmul_live_bytes(), 0);
}

// Every size is the quota rounded down or up, and the sizes add up to the whole.
static void many_parts_differ_by_rounding_only(void **state) {
    (void)state;
    enum { PARTS = 4096 };
    static const int64_t totals[] = {1, 4095, 4097, 1000003, INT64_C(1) << 40};
    static double weights[PARTS];
    static int64_t offsets[PARTS + 1];
    struct mmul_error err;
    double sum = 0;
    for (int i = 0; i < PARTS; i++) {
        weights[i] = i % 7 * 0.1;
        sum += weights[i];
    }
    for (size_t t = 0; t < sizeof totals / sizeof *totals; t++) {
        assert_int_equal(
            mmul_split_offsets(totals[t], PARTS, weights, MMUL_SPLIT_EXACT, offsets, &err), 0);
        assert_true(offsets[PARTS] == totals[t]);
        for (int i = 0; i < PARTS; i++) {
            double size = (double)(offsets[i + 1] - offsets[i]);
            assert_true(fabs(size - (double)totals[t] * weights[i] / sum) <= 1.001);
            assert_true(weights[i] > 0 || size == 0);
        }
    }
    assert_int_equal(mmul_live_bytes(), 0);
}

static void unusable_weights_are_refused(void **state) {
    (void)state;
    static const struct {
        int parts;
        double weights[2];
        const char *text;
    } cases[] = {
        {2, {1, -1}, "weight 2 is -1"},        {2, {NAN, 1}, "weight 1 is nan"},
        {2, {1, INFINITY}, "weight 2 is inf"}, {2, {0, 0}, "all weights are zero"},
        {0, {0, 0}, "into 0 parts"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err;
        int64_t offsets[3];
        enum mmul_status status = mmul_split_offsets(10, cases[c].parts, cases[c].weights,
                                                     MMUL_SPLIT_EXACT, offsets, &err);
        assert_failure(status, MMUL_ERR_USAGE, err, cases[c].text);
    }
}

static void weights_are_read_from_text(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int count; // 0: refused
    } cases[] = {
        {"1", 1},    {"0.5,0.25,0.25", 3}, {"1e2,0", 2}, {"", 0},   {",", 0},   {"1,", 0},
        {",1", 0},   {"1,,2", 0},          {"1 2", 0},   {" 1", 0}, {"1,x", 0}, {"0,0", 0},
        {"-1,2", 0}, {"nan", 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err;
        double *weights = NULL;
        int count = 0;
        enum mmul_status status = mmul_weights_parse(cases[c].text, &weights, &count, &err);
        assert_int_equal(status, cases[c].count > 0 ? MMUL_OK : MMUL_ERR_USAGE);
        assert_int_equal(count, cases[c].count);
        mmul_free(weights);
    }
    assert_int_equal(mmul_live_bytes(), 0);
}

static void weights_are_read_from_a_file(void **state) {
    (void)state;
    static const struct {
        const char *content;
        int count; // 0: refused
    } cases[] = {
        {"# speeds\n1.5, 2 # two\n\n3\n", 3},
        {"1\n2\r\n", 2},
        {"4", 1},
        {"", 0},
        {"# none\n", 0},
        {"1,,2", 0},
        {"1 2,", 0},
        {"1 x", 0},
        {"0 0", 0},
        {"-1", 0},
        {"1.000000000000000000000000000000000000000000000000000000000000000000000000", 0},
    };
    struct folder folder;
    char name[600];
    folder_create(&folder);
    snprintf(name, sizeof name, "@%s", folder_path(&folder, "weights"));
    struct mmul_error err;
    double *weights = NULL;
    int count = 0;
    assert_int_equal(mmul_weights_parse(name, &weights, &count, &err), MMUL_ERR_NO_INPUT);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        weights = NULL;
        count = 0;
        file_store(name + 1, cases[c].content, strlen(cases[c].content));
        enum mmul_status status = mmul_weights_parse(name, &weights, &count, &err);
        assert_int_equal(status, cases[c].count > 0 ? MMUL_OK : MMUL_ERR_DATA);
        assert_int_equal(count, cases[c].count);
        if (count == 3)
            assert_true(weights[0] == 1.5 && weights[1] == 2 && weights[2] == 3);
        mmul_free(weights);
    }
    folder_destroy(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_splits_are_reproduced),
        cmocka_unit_test(many_parts_differ_by_rounding_only),
        cmocka_unit_test(unusable_weights_are_refused),
        cmocka_unit_test(weights_are_read_from_text),
        cmocka_unit_test(weights_are_read_from_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
