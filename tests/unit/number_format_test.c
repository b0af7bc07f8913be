// SPDX-License-Identifier: MIT
// Formats of f-strings. Expected texts are CPython's (3.11); cli/strings compares random ones with
// the installed python3.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "tensor/number_format.h"

static void expect(const char *spec, struct mmul_object x, const char *expected) {
    char text[2048] = "|";
    const char *problem = mmul_format_write(spec, &x, text, sizeof text);
    if (problem != NULL || strcmp(text + 1, expected) != 0)
        fail_msg("'%s' gives '%s' (%s), expected '%s'", spec, text + 1,
                 problem != NULL ? problem : "no problem", expected);
}

static void reals_are_formatted_like_cpython(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        double x;
        const char *expected;
    } cases[] = {{"", 0.1, "0.1"},
                 {".3f", 2.0 / 3, "0.667"},
                 {".2e", 12345.678, "1.23e+04"},
                 {"E", 1e-7, "1.000000E-07"},
                 {"8.3f", -1.5, "  -1.500"},
                 {"<8.3f", 1.5, "1.500   "},
                 {"^9.3f", 1.5, "  1.500  "},
                 {"=+9.2f", 1.5, "+    1.50"},
                 {"*>8.1f", 1.5, "*****1.5"},
                 {"\xE2\x82\xAC<5.1f", 1.5, "1.5\xE2\x82\xAC\xE2\x82\xAC"},
                 {"09.3f", -1.5, "-0001.500"},
                 {"<09.3f", 1.5, "1.5000000"},
                 {",.2f", 1234567.891, "1,234,567.89"},
                 {"_.1f", 1234.5, "1_234.5"},
                 {"012,.1f", 1234.5, "00,001,234.5"},
                 {"011,.1f", 1234.5, "0,001,234.5"},
                 {" g", 0.0001, " 0.0001"},
                 {"g", 1e-5, "1e-05"},
                 {".3g", 1234.5, "1.23e+03"},
                 {".1%", 0.2567, "25.7%"},
                 {".3", 12.0, "12.0"},
                 {".3", 123.0, "1.23e+02"},
                 {".3", 100.0, "1e+02"},
                 {".1", 0.0, "0e+00"},
                 {".0", 3.7, "4e+00"},
                 {".4", 0.00001234567, "1.235e-05"},
                 {"10", 0.5, "       0.5"},
                 {",", 1234.5, "1,234.5"},
                 {".1f", -0.0, "-0.0"},
                 {"08.2f", INFINITY, "00000inf"},
                 {"F", NAN, "NAN"},
                 {".2%", -INFINITY, "-inf%"},
                 {".0f", 2.5, "2"},
                 {".0f", 1e22, "10000000000000000000000"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(cases[i].spec, mmul_object_from_real(cases[i].x), cases[i].expected);
}

static void whole_numbers_and_strings_are_formatted_like_cpython(void **state) {
    (void)state;
    expect("04d", mmul_object_from_integer(7), "0007");
    expect("+d", mmul_object_from_integer(7), "+7");
    expect("5", mmul_object_from_integer(-7), "   -7");
    expect("<5", mmul_object_from_integer(7), "7    ");
    expect(",", mmul_object_from_integer(INT64_MIN), "-9,223,372,036,854,775,808");
    expect("08,", mmul_object_from_integer(1234), "0,001,234");
    expect(".2f", mmul_object_from_integer(7), "7.00");
    expect("%", mmul_object_from_integer(1), "100.000000%");
    expect("", mmul_object_from_bool(true), "True");
    expect("3", mmul_object_from_bool(true), "  1");
    const struct mmul_object text = {.kind = MMUL_OBJECT_STRING, .text = "a\xC3\xA4z"};
    expect("5", text, "a\xC3\xA4z  ");
    expect(">5s", text, "  a\xC3\xA4z");
    expect("-^6.2", text, "--a\xC3\xA4--");
}

static void refuse(const char *spec, struct mmul_object x, const char *expected) {
    char text[64] = "|";
    const char *problem = mmul_format_write(spec, &x, text, sizeof text);
    assert_non_null(problem);
    assert_string_equal(problem, expected);
    assert_string_equal(text, "|");
}

static void formats_that_do_not_fit_are_refused(void **state) {
    (void)state;
    static const char form[] =
        "expected a format [[fill]align][sign][0][width][,][.precision][type]";
    const struct mmul_object text = {.kind = MMUL_OBJECT_STRING, .text = "a"},
                             none = {.kind = MMUL_OBJECT_NONE}, one = mmul_object_from_integer(1),
                             half = mmul_object_from_real(0.5);
    refuse("d", half, "format type d needs an integer");
    refuse(".2d", one, "an integer takes a precision only with type e, f, g or %");
    refuse("x", one, "the format type of a number must be d, e, f, g, %, or omitted");
    refuse("f", text, "the format type of a string must be s or omitted");
    refuse("+", text, "a format of a string cannot have a sign or grouping");
    refuse("5", none, "a format needs a number or a string");
    refuse(".f", half, "a precision must follow '.'");
    refuse("1000", half, "width and precision of a format must be below 1000");
    refuse(".99999999999f", half, "width and precision of a format must be below 1000");
    refuse("5.2ff", half, form);
    refuse("#.2f", half, form);
    refuse("!", half, form);
}

static void a_text_is_cut_at_the_end_of_its_memory(void **state) {
    (void)state;
    const struct mmul_object half = mmul_object_from_real(0.5);
    char text[8] = "ab";
    assert_null(mmul_format_write("900.3f", &half, text, sizeof text));
    assert_int_equal(strlen(text), 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reals_are_formatted_like_cpython),
        cmocka_unit_test(whole_numbers_and_strings_are_formatted_like_cpython),
        cmocka_unit_test(formats_that_do_not_fit_are_refused),
        cmocka_unit_test(a_text_is_cut_at_the_end_of_its_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
