// SPDX-License-Identifier: MIT
// Work stealing between nodes: root's list of ranks that wait for work.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "exec/setup/context.h"
#include "exec/steps/rank_resources.h"
#include "exec/tasks/node_steal.h"

enum { RANKS = 3 };

// A rank that stopped waiting and asks again, as in a run that fails meanwhile, is refused once,
// like any other. Afterwards root looks for no work.
static void a_rank_that_asks_twice_is_refused_once(void **state) {
    (void)state;
    struct mmul_comm comm = {.size = RANKS};
    struct mmul_context context = {.comm = &comm};
    struct mmul_rank_resources rank_resources = {.context = &context};
    struct mmul_steal_request wants[RANKS] = {{0}};
    struct mmul_node_steal lending = {
        .rank_resources = &rank_resources, .wants = wants, .stage = -1};
    const int64_t words[MMUL_NODE_STEAL_WORDS] = {0};
    int64_t question[MMUL_NODE_STEAL_WORDS];
    mmul_node_steal_add_request(&lending, 1, words);
    mmul_node_steal_add_request(&lending, 2, words);
    mmul_node_steal_add_request(&lending, 1, words);
    assert_int_equal(lending.waiting, 2);
    mmul_node_steal_refuse_requests(&lending);
    assert_int_equal(lending.waiting, 0);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_false(wants[rank].waits);
        assert_int_equal(wants[rank].is_answered, rank > 0);
    }
    assert_int_equal(mmul_node_steal_choose_victim(&lending, question), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_rank_that_asks_twice_is_refused_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
