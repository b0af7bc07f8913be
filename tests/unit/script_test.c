// SPDX-License-Identifier: MIT
// Texts of programs without a file: the name that errors use for them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "mpimatmul_local.h"

static void refuses(const char *text, const char *setting, const char *expected) {
    struct mmul_error err = {0};
    struct mmul_script *script = NULL;
    const struct mmul_script_request request = {.text = text,
                                                .text_bytes = strlen(text),
                                                .settings = &setting,
                                                .setting_count = setting != NULL};
    assert_int_not_equal(mmul_script_create(&request, &script, &err), MMUL_OK);
    assert_string_equal(err.text, expected);
    assert_null(script);
    assert_int_equal(mmul_live_bytes(), 0);
}

static void errors_name_a_text_without_a_file(void **state) {
    (void)state;
    refuses("x = 3", NULL, "the program: the program makes or reads no matrix");
    refuses("x = 3", "y=4", "'y=4': no line of 'the program' assigns a number or string to 'y'");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_name_a_text_without_a_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
