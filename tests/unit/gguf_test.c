// SPDX-License-Identifier: MIT
// GGUF files: packed blocks compared bit for bit with the float32 that the Python package gguf
// produced (tests/data/make_gguf.py), as a whole and by ranges of rows; the table of types.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "folder.h"
#include "io/gguf_types.h"

static const char file[] = "tests/data/blocks.gguf";

// Every packed type that the library reads; `row`: elements of a row, `rows`: of all its matrices.
static const struct {
    const char *name;
    int row, rows;
} packed[] = {
    {"Q4_0", 64, 6},   {"Q4_1", 64, 6},    {"Q5_0", 64, 6},  {"Q5_1", 64, 6},   {"Q8_0", 64, 6},
    {"Q2_K", 256, 6},  {"Q3_K", 256, 6},   {"Q4_K", 256, 6}, {"Q5_K", 256, 6},  {"Q6_K", 256, 6},
    {"IQ4_NL", 64, 6}, {"IQ4_XS", 256, 6}, {"MXFP4", 64, 6}, {"stack", 256, 6},
};
enum { PACKED = sizeof packed / sizeof *packed, MOST = 6 * 256 };

// Reads the elements of the tensor at `address`; returns their number.
static int64_t read_all(const char *address, float values[MOST]) {
    struct mmul_matrix *matrix = NULL;
    struct mmul_error err;
    char path[64];
    snprintf(path, sizeof path, "%s:%s", file, address);
    assert_int_equal(mmul_matrix_open(path, &matrix, &err), MMUL_OK);
    const struct mmul_shape shape = mmul_matrix_info(matrix).shape;
    const int64_t each = shape.rows * shape.cols, matrices = shape.batch * shape.depth;
    assert_true(matrices * each <= MOST);
    for (int64_t m = 0; m < matrices; m++) {
        const struct mmul_region all = {m, 0, shape.rows, 0, shape.cols};
        assert_int_equal(mmul_matrix_read_float(matrix, all, 0, each, values + m * each, &err),
                         MMUL_OK);
    }
    mmul_matrix_close(matrix);
    return matrices * each;
}

// Expects equal bits; for a NaN only that the other is NaN.
static void expect_same(const char *name, const float *found, const float *expected,
                        int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!(isnan(found[i]) && isnan(expected[i])) &&
            memcmp(&found[i], &expected[i], sizeof *found) != 0)
            fail_msg("%s, element %d: found %a, expected %a", name, (int)i, (double)found[i],
                     (double)expected[i]);
}

static void whole_tensors_equal_the_python_package(void **state) {
    (void)state;
    for (int p = 0; p < PACKED; p++) {
        char name[64];
        float found[MOST], expected[MOST];
        const int64_t count = (int64_t)packed[p].rows * packed[p].row;
        snprintf(name, sizeof name, "%s.expected", packed[p].name);
        assert_int_equal(read_all(packed[p].name, found), count);
        assert_int_equal(read_all(name, expected), count);
        expect_same(packed[p].name, found, expected, count);
    }
}

static void ranges_of_the_first_axis_equal_parts_of_the_tensor(void **state) {
    (void)state;
    for (int p = 0; p < PACKED; p++) {
        char name[64];
        float found[MOST], expected[MOST];
        const int first_axis = strcmp(packed[p].name, "stack") == 0 ? 3 : 6;
        const int64_t each = (int64_t)packed[p].rows * packed[p].row / first_axis;
        snprintf(name, sizeof name, "%s.expected", packed[p].name);
        read_all(name, expected);
        for (int begin = 0; begin < first_axis; begin++) {
            for (int end = begin + 1; end <= first_axis; end++) {
                snprintf(name, sizeof name, "%s[%d:%d]", packed[p].name, begin, end);
                assert_int_equal(read_all(name, found), (end - begin) * each);
                expect_same(name, found, expected + begin * each, (end - begin) * each);
            }
        }
    }
}

static void an_empty_range_is_refused(void **state) {
    (void)state;
    struct mmul_matrix *matrix = NULL;
    struct mmul_error err;
    assert_int_equal(mmul_matrix_open("tests/data/blocks.gguf:stack[3:]", &matrix, &err),
                     MMUL_ERR_DATA);
    assert_string_equal(
        err.text, "'tests/data/blocks.gguf:stack[3:]' is empty: its first axis has 3 elements");
}

static void every_type_with_a_decoder_is_tested(void **state) {
    (void)state;
    int decoders = 0;
    for (uint32_t number = 0; number < 64; number++) {
        const struct mmul_gguf_type *type = mmul_gguf_type_get(number);
        if (type == NULL)
            continue;
        assert_in_range(type->elements, 1, MMUL_GGUF_BLOCK_ELEMENTS_MAX);
        assert_in_range(type->bytes, 1, MMUL_GGUF_BLOCK_BYTES_MAX);
        assert_int_equal(mmul_gguf_type_is_readable(type),
                         type->elements == 1 || type->decode != NULL);
        if (type->decode == NULL)
            continue;
        bool is_tested = false;
        for (int p = 0; p < PACKED; p++)
            is_tested |= strcmp(type->name, packed[p].name) == 0;
        if (!is_tested)
            fail_msg("%s is not tested", type->name);
        decoders++;
    }
    assert_int_equal(decoders, 13);
    assert_null(mmul_gguf_type_get(4));
    assert_null(mmul_gguf_type_get(UINT32_MAX));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_tensors_equal_the_python_package),
        cmocka_unit_test(ranges_of_the_first_axis_equal_parts_of_the_tensor),
        cmocka_unit_test(an_empty_range_is_refused),
        cmocka_unit_test(every_type_with_a_decoder_is_tested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
