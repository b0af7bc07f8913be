// SPDX-License-Identifier: MIT
// How much of the range is claimed at run time, and in claims of which sizes.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "clusters.h"
#include "plans.h"

static void test_tail(void **state) {
    (void)state;
    static const struct {
        int size, per_node;
        int64_t rows, side;
        int threads; // of ranks on the CPU; 0: on cards
        double asked;
        int64_t units, least; // of the tail, of a claim
    } cases[] = {
        // 10 ms at 200 GFLOP/s are 15 rows of 2 x 8000 x 8000 operations
        {4, 4, 10000, 8000, 0, -1, 4000, 15}, // one node: two fifths
        {4, 2, 10000, 8000, 0, -1, 1000, 15}, // a network between them: a tenth
        {4, 4, 10000, 8000, 0, 0, 0, 0},      // not asked for
        {4, 4, 10000, 8000, 0, 0.5, 5000, 15},
        {1, 1, 10000, 8000, 0, -1, 0, 0}, // nobody to share with
        {4, 4, 1000, 200, 0, -1, 0, 0},   // over in no time
        // Packing 8000 x 8000 takes 15 ms on one core: twice that are 46 rows.
        {4, 4, 10000, 8000, 1, -1, 4000, 45},
        {4, 4, 10000, 8000, 2, -1, 4000, 23},
        {4, 4, 10000, 8000, 8, -1, 4000, 15},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned maps[8];
        struct mmul_problem problem = make_problem(cases[i].rows, cases[i].side, cases[i].side);
        struct mmul_cluster *cluster =
            make_measured_cluster(cases[i].size, cases[i].per_node, maps);
        for (int rank = 0; rank < cluster->size; rank++) {
            cluster->ranks[rank].host_memory = cases[i].threads > 0;
            cluster->ranks[rank].threads = cases[i].threads;
        }
        struct mmul_plan *plan = plan_or_die(&(struct mmul_plan_request){.problem = &problem,
                                                                         .cluster = cluster,
                                                                         .node_maps = maps,
                                                                         .split = MMUL_SPLIT_ROWS,
                                                                         .tail = cases[i].asked});
        int64_t tail = plan->total - plan->tail_begin;
        assert_int_equal(tail, cases[i].units);
        int64_t at = mmul_plan_ranks(plan)[plan->size - 1].end;
        assert_int_equal(at, plan->tail_begin); // the static part is what lies before
        if (tail > 0) {
            assert_in_range(plan->tail_least, cases[i].least - 1, cases[i].least + 1);
            assert_in_range(plan->tail_most, plan->tail_least, tail / 8 + 1);
            assert_true(plan->predicted_seconds > mmul_plan_ranks(plan)[0].finish_seconds);
            // The parts are those of the whole, claims included.
            assert_true(plan->compute_seconds >
                        mmul_plan_ranks(plan)[plan->last_rank].compute_seconds);
            assert_true(fabs(plan->compute_seconds + plan->waiting_seconds -
                             plan->predicted_seconds) < 1e-12);
            // Who ends last is who limits, not who has most of the static part.
            int limiting = -1;
            if (sscanf(plan->limits, "compute on rank %d", &limiting) == 1)
                assert_int_equal(limiting, plan->last_rank);
        } else {
            assert_int_equal(plan->tail_most, 0);
        }
        mmul_plan_destroy(plan);
        mmul_cluster_destroy(cluster);
    }
}

// Half of a fair share at most; no more than a round's bytes where claims go through buffers.
static void test_claims_are_limited(void **state) {
    (void)state;
    const int64_t side = 8000, round = MMUL_ROUND_BYTES / (4 * (side + side));
    const struct {
        unsigned maps;
        float beta;
        int64_t memory_limit, most;
    } cases[] = {
        {ALL, 0, 0, 500},
        {ALL & ~(unsigned)MMUL_MAPS_C, 0, 0, round},
        {ALL & ~(unsigned)MMUL_MAPS_A, 0, 0, round},
        {ALL & ~(unsigned)MMUL_MAPS_C_IN, 1, 0, round},
        {ALL & ~(unsigned)MMUL_MAPS_C_IN, 0, 0, 500},
        {ALL | MMUL_MAPS_C_IN, 1, 0, 500},
        {ALL, 0, 800 << 20, round}, // less than A, B and C: mapping is given up, the tail is not
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned maps[8];
        struct mmul_problem problem = make_problem(10000, side, side);
        struct mmul_cluster *cluster = make_measured_cluster(4, 4, maps);
        problem.beta = cases[i].beta;
        maps[0] = cases[i].maps;
        struct mmul_plan *plan =
            plan_or_die(&(struct mmul_plan_request){.problem = &problem,
                                                    .cluster = cluster,
                                                    .node_maps = maps,
                                                    .split = MMUL_SPLIT_ROWS,
                                                    .panels = true,
                                                    .memory_limit_bytes = cases[i].memory_limit,
                                                    .tail = -1});
        assert_int_equal(plan->total - plan->tail_begin, 4000);
        assert_int_equal(plan->tail_most, cases[i].most);
        assert_int_equal(mmul_plan_nodes(plan)[0].maps,
                         cases[i].memory_limit > 0 ? 0 : cases[i].maps);
        mmul_plan_destroy(plan);
        mmul_cluster_destroy(cluster);
    }
}

// A card that is as fast packs nothing, but the CPU beside it does.
static void test_claims_are_worth_their_packing_to_all(void **state) {
    (void)state;
    unsigned maps[8];
    struct mmul_problem problem = make_problem(10000, 8000, 8000);
    struct mmul_cluster *cluster = make_measured_cluster(4, 4, maps);
    for (int rank = 0; rank < 4; rank++)
        cluster->ranks[rank].host_memory = rank == 1;
    cluster->ranks[1].threads = 1;
    struct mmul_plan *plan = plan_or_die(&(struct mmul_plan_request){.problem = &problem,
                                                                     .cluster = cluster,
                                                                     .node_maps = maps,
                                                                     .split = MMUL_SPLIT_ROWS,
                                                                     .tail = -1});
    assert_in_range(plan->tail_least, 44, 46);
    mmul_plan_destroy(plan);
    mmul_cluster_destroy(cluster);
}

// Claims need room on nodes that map nothing: two of a rank at once.
static void test_tail_needs_memory(void **state) {
    (void)state;
    unsigned maps[8];
    struct mmul_problem problem = make_problem(10000, 8000, 8000);
    struct mmul_cluster *cluster = make_measured_cluster(4, 2, maps);
    struct mmul_plan_request request = {.problem = &problem,
                                        .cluster = cluster,
                                        .node_maps = maps,
                                        .split = MMUL_SPLIT_ROWS,
                                        .tail = 0.2};
    struct mmul_plan *with = plan_or_die(&request);
    request.tail = 0;
    struct mmul_plan *without = plan_or_die(&request);
    int64_t more[2];
    for (int node = 0; node < 2; node++)
        more[node] = mmul_plan_nodes(with)[node].private_bytes -
                     mmul_plan_nodes(without)[node].private_bytes;
    const int64_t check = 4 << 20; // with a tail it projects the other side
    int64_t claims = INT64_C(2) * 2 * with->tail_most * 4 * (8000 + 8000);
    assert_true(claims > 2 * check);
    assert_in_range(more[0] + check, 0, 2 * check);
    assert_in_range(more[1] - claims + check, 0, 2 * check);
    mmul_plan_destroy(with);
    mmul_plan_destroy(without);
    mmul_cluster_destroy(cluster);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_tail, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_claims_are_limited, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_claims_are_worth_their_packing_to_all, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_tail_needs_memory, assert_no_live_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
