// SPDX-License-Identifier: MIT
// How much of the tail a rank is granted, and when nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exec/tail_root.h"

static void claims_shrink_towards_the_end(void **state) {
    (void)state;
    // Two ranks, one three times as fast: 3/4 of its fair share, in whole multiples of `least`.
    assert_int_equal(mmul_tail_size(1600, 300, 400, 10, 1000), 900);
    assert_int_equal(mmul_tail_size(1600, 100, 400, 10, 1000), 300);
    assert_int_equal(mmul_tail_size(1600, 300, 400, 16, 1000), 912);
    assert_int_equal(mmul_tail_size(1600, 300, 400, 10, 250), 250);
    assert_int_equal(mmul_tail_size(30, 300, 400, 10, 250), 20);
    assert_int_equal(mmul_tail_size(1600, 100, 0, 10, 5000), 1600); // nobody's rate is known
    int64_t left = 1600, last = left, count = 0;
    for (; left > 0; count++) {
        int64_t size = mmul_tail_size(left, 100, 200, 8, 500);
        assert_true(size >= 1 && size <= left &&
                    size < last + 8); // the last one takes a small rest along
        last = size;
        left -= size;
    }
    assert_in_range(count, 8, 16);
}

static void no_rest_is_smaller_than_a_claim_may_be(void **state) {
    (void)state;
    assert_int_equal(mmul_tail_size(25, 100, 200, 10, 250), 10);
    assert_int_equal(mmul_tail_size(19, 100, 200, 10, 250), 19); // not 10, and 9 for the next one
    assert_int_equal(mmul_tail_size(7, 100, 200, 10, 250), 7);
}

static void who_would_be_late_gets_nothing(void **state) {
    (void)state;
    assert_true(mmul_tail_is_worth(1000, 1, 100, 10, 0)); // nobody else is there
    assert_true(mmul_tail_is_worth(10, 100, 0, 100, 100));
    assert_false(mmul_tail_is_worth(10, 100, 1, 100, 100));  // its bytes travel too long
    assert_false(mmul_tail_is_worth(10, 5, 0, 100, 100));    // it is too slow
    assert_false(mmul_tail_is_worth(120, 100, 0, 100, 100)); // it has too much to do already
    assert_true(mmul_tail_is_worth(120, 100, 0, 300, 100));  // and so have the others
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_shrink_towards_the_end),
        cmocka_unit_test(no_rest_is_smaller_than_a_claim_may_be),
        cmocka_unit_test(who_would_be_late_gets_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
