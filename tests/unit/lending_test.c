// SPDX-License-Identifier: MIT
// Work stealing between nodes: root's list of ranks that wait for work.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "exec/setup/context.h"
#include "exec/steps/site.h"
#include "exec/tasks/lending.h"

enum { RANKS = 3 };

// A rank that stopped waiting and asks again, as in a run that fails meanwhile, is refused once,
// like any other. Afterwards root looks for no work.
static void a_rank_that_asks_twice_is_refused_once(void **state) {
    (void)state;
    struct mmul_comm comm = {.size = RANKS};
    struct mmul_context context = {.comm = &comm};
    struct mmul_site site = {.context = &context};
    struct mmul_want wants[RANKS] = {{0}};
    struct mmul_lending lending = {.site = &site, .wants = wants, .stage = -1};
    const int64_t words[MMUL_LENDING_WORDS] = {0};
    int64_t question[MMUL_LENDING_WORDS];
    mmul_lending_want(&lending, 1, words);
    mmul_lending_want(&lending, 2, words);
    mmul_lending_want(&lending, 1, words);
    assert_int_equal(lending.waiting, 2);
    mmul_lending_refuse(&lending);
    assert_int_equal(lending.waiting, 0);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_false(wants[rank].waits);
        assert_int_equal(wants[rank].is_answered, rank > 0);
    }
    assert_int_equal(mmul_lending_find(&lending, question), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_rank_that_asks_twice_is_refused_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
