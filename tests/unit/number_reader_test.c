// SPDX-License-Identifier: MIT
// Numbers as text: each equals strtod's result, bit for bit, and a written number is read back
// unchanged. Text that is no number is refused. Buffered reading: cells that cross the end of the
// buffer.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "folder.h"
#include "io/csv.h"
#include "io/number_reader.h"

static bool parse(const char *text, double *value) {
    // The memory ends with the number: a sanitizer detects reads beyond it.
    const size_t length = strlen(text);
    char *exact = malloc(length + (length == 0));
    assert_non_null(exact);
    memcpy(exact, text, length);
    const bool is_number = mmul_number_parse(exact, exact + length, value);
    free(exact);
    return is_number;
}

static void expect_same(const char *text) {
    double value, expected = strtod(text, NULL);
    assert_true(parse(text, &value));
    if (memcmp(&value, &expected, sizeof value) != 0)
        fail_msg("'%s' is %.17g, expected %.17g", text, value, expected);
}

static void numbers_are_the_nearest_doubles(void **state) {
    (void)state;
    static const char *const texts[] = {"0",
                                        "-0",
                                        "+7",
                                        "1.",
                                        ".5",
                                        "1e5",
                                        "1E-5",
                                        "1e+22",
                                        "1e23",
                                        "9007199254740993",
                                        "123456789012345678901234567890",
                                        "0.1",
                                        "1e-22",
                                        "1e-23",
                                        "2.2250738585072011e-308",
                                        "4.9e-324",
                                        "1e-400",
                                        "1.7976931348623157e308",
                                        "0000000000000000000000000000001.5",
                                        "0.00000000000000000000000000000000001",
                                        "8.5e0000000001",
                                        "1.00000000000000011102230246251565404",
                                        "179769313486231570000000000000000000000e270"};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        expect_same(texts[t]);
    for (uint64_t i = 0; i < 60000; i++) {
        uint64_t bits = mmul_random_at(7, i);
        char text[512];
        double value;
        memcpy(&value, &bits, sizeof value);
        if (i % 3 == 0 || !isfinite(value))
            value = (double)(int64_t)bits / 0x1p40;
        const int digits = (int)(i % 26);
        if (i % 2 == 0)
            snprintf(text, sizeof text, "%.*g", digits, value);
        else
            snprintf(text, sizeof text, "%.*f", digits, value);
        expect_same(text);
    }
}

static void expect_number(const char *text, double expected) {
    double value;
    assert_true(parse(text, &value));
    if (memcmp(&value, &expected, sizeof value) != 0)
        fail_msg("'%s' is %.17g, expected %.17g", text, value, expected);
}

// A number of 3,000 zeros behind the midpoint of two doubles, then `last`.
static void expect_midpoint(char last, double expected) {
    static const char midpoint[] = "1.00000000000000011102230246251565404236316680908203125";
    enum { ZEROS = 3000 };
    char text[sizeof midpoint + ZEROS + 1];
    memset(text, '0', sizeof text);
    memcpy(text, midpoint, sizeof midpoint - 1);
    text[sizeof text - 2] = last;
    text[sizeof text - 1] = '\0';
    double value;
    assert_true(parse(text, &value));
    assert_true(value == expected);
}

static void numbers_of_thousands_of_digits_are_read(void **state) {
    (void)state;
    expect_midpoint('0', 1.0);
    expect_midpoint('1', 0x1.0000000000001p0);
    char text[6000];
    for (int digits = 767; digits < 2000; digits += 411) {
        memset(text, '9', sizeof text);
        snprintf(text + digits, sizeof text - (size_t)digits, "e-%d", digits);
        expect_same(text);
        text[digits / 2] = '.';
        expect_same(text);
        snprintf(text, sizeof text, "0.%0*d25e%d", digits, 0, digits + 2);
        expect_same(text);
        snprintf(text, sizeof text, "25%0*de-%d", digits, 0, digits);
        expect_same(text);
        snprintf(text, sizeof text, "-%.*f", digits, 4.9e-324 * digits);
        expect_same(text);
    }
}

static void fortran_exponents_are_read(void **state) {
    (void)state;
    expect_number("1d5", 1e5);
    expect_number("-2.5D+03", -2500);
    expect_number("1D-300", 1e-300);
    expect_number("123456789012345678901234567890d-10", 12345678901234567890.1234567890);
}

static void numbers_beyond_float64_are_infinite_or_0(void **state) {
    (void)state;
    expect_number("1e400", INFINITY);
    expect_number("-1e400", -INFINITY);
    expect_number("1.7976931348623159e308", INFINITY);
    expect_number("-1D99999999999999999999", -INFINITY);
    expect_number("1e-400", 0.0);
    expect_number("-1e-400", -0.0);
}

static void words_are_numbers_too(void **state) {
    (void)state;
    double value;
    assert_true(parse("nan", &value) && isnan(value));
    assert_true(parse("-NaN", &value) && isnan(value));
    assert_true(parse("inf", &value) && value == INFINITY);
    assert_true(parse("-Infinity", &value) && value == -INFINITY);
}

static void text_that_is_no_number_is_refused(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",    "-",   "+",     ".",        "-.", "e5", "1e",   "1e+", "1x", "0x10", "1 2",
        "1,5", "--1", "1.2.3", "infinite", "na", "1d", "1ed5", " 1",  "1 ", "1d5x", "1_000"};
    double value = 5;
    int64_t whole = 5;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        assert_false(parse(texts[t], &value));
        assert_false(mmul_whole_number_parse(texts[t], texts[t] + strlen(texts[t]), &whole));
    }
    assert_true(value == 5 && whole == 5);
}

static bool parse_whole(const char *text, int64_t *value) {
    return mmul_whole_number_parse(text, text + strlen(text), value);
}

static void whole_numbers_are_read_up_to_the_largest(void **state) {
    (void)state;
    int64_t value;
    assert_true(parse_whole("9223372036854775807", &value) && value == INT64_MAX);
    assert_true(parse_whole("-9223372036854775808", &value) && value == INT64_MIN);
    assert_true(parse_whole("+0012", &value) && value == 12);
    assert_false(parse_whole("9223372036854775808", &value));
    assert_false(parse_whole("-9223372036854775809", &value));
    assert_false(parse_whole("1.0", &value));
}

static void make_file_path(struct folder *folder, char path[static 512], const char *name) {
    folder_create(folder);
    snprintf(path, 512, "%s", folder_path(folder, name));
}

// Some MiB of cells of many lengths, so that the buffer ends anywhere within a cell.
static void cells_cross_the_end_of_the_buffer(void **state) {
    struct folder folder;
    char path[512];
    struct mmul_matrix *matrix;
    struct mmul_error err;
    double found[7];
    enum { ROWS = 40001, COLS = 7 };
    (void)state;
    make_file_path(&folder, path, "long.csv");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int64_t e = 0; e < ROWS * COLS; e++)
        fprintf(file, "%.*f%c", (int)(e % 23), (double)(e % 1000),
                e % COLS == COLS - 1 ? '\n' : ',');
    assert_int_equal(fclose(file), 0);
    assert_int_equal(mmul_matrix_open(path, &matrix, &err), MMUL_OK);
    const struct mmul_shape shape = mmul_matrix_info(matrix).shape;
    assert_int_equal(shape.rows, ROWS);
    assert_int_equal(shape.cols, COLS);
    for (int64_t i = 0; i < ROWS; i++) {
        const struct mmul_region row = {.row_begin = i, .row_end = i + 1, .col_end = COLS};
        assert_int_equal(mmul_matrix_read_double(matrix, row, 0, COLS, found, &err), MMUL_OK);
        for (int64_t j = 0; j < COLS; j++)
            assert_true(found[j] == (double)((i * COLS + j) % 1000));
    }
    mmul_matrix_close(matrix);
    assert_int_equal(mmul_live_bytes(), 0);
    folder_destroy(&folder);
}

static void a_cell_longer_than_the_buffer_is_refused(void **state) {
    struct folder folder;
    char path[512];
    struct mmul_matrix *matrix;
    struct mmul_error err;
    (void)state;
    make_file_path(&folder, path, "wide.csv");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("1,2\n3,", file);
    for (int i = 0; i < 1100000; i++)
        fputc('4', file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(mmul_matrix_open(path, &matrix, &err), MMUL_ERR_DATA);
    assert_non_null(strstr(err.text, "line 2 of '"));
    assert_non_null(strstr(err.text, "has 1048576 bytes without a separator"));
    assert_int_equal(mmul_live_bytes(), 0);
    folder_destroy(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_the_nearest_doubles),
        cmocka_unit_test(fortran_exponents_are_read),
        cmocka_unit_test(numbers_of_thousands_of_digits_are_read),
        cmocka_unit_test(numbers_beyond_float64_are_infinite_or_0),
        cmocka_unit_test(words_are_numbers_too),
        cmocka_unit_test(text_that_is_no_number_is_refused),
        cmocka_unit_test(whole_numbers_are_read_up_to_the_largest),
        cmocka_unit_test(cells_cross_the_end_of_the_buffer),
        cmocka_unit_test(a_cell_longer_than_the_buffer_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
