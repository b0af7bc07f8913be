// SPDX-License-Identifier: MIT
// Several allocations at once: all succeed, or none is kept after the first failure.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/memory.h"
#include "schedules.h"

static void several_allocations_succeed_together(void **state) {
    (void)state;
    struct mmul_error err = {.status = MMUL_OK};
    double *numbers = NULL;
    int *places = NULL;
    assert_int_equal(
        MMUL_ALLOCATE_ALL("things", &err, MMUL_ARRAY(numbers, 100), MMUL_ARRAY(places, 3)),
        MMUL_OK);
    for (int i = 0; i < 100; i++)
        assert_true(numbers[i] == 0);
    assert_true(places[0] == 0 && places[2] == 0);
    mmul_free(numbers);
    mmul_free(places);
}

static void a_failed_allocation_frees_the_others(void **state) {
    (void)state;
    struct mmul_error err = {.status = MMUL_OK};
    double *numbers = NULL, *huge = (double *)&err;
    int *places = (int *)&err;
    assert_int_equal(MMUL_ALLOCATE_ALL("things", &err, MMUL_ARRAY(numbers, 100),
                                       MMUL_ARRAY(huge, INT64_MAX), MMUL_ARRAY(places, 3)),
                     MMUL_ERR_SYSTEM);
    assert_non_null(numbers);
    assert_null(huge);
    assert_null(places);
    assert_non_null(strstr(err.text, "things"));
    mmul_free(numbers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(several_allocations_succeed_together, assert_no_live_bytes),
        cmocka_unit_test_teardown(a_failed_allocation_frees_the_others, assert_no_live_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
