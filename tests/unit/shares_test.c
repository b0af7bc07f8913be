// SPDX-License-Identifier: MIT
// Automatic shares: who takes part, and that all who do end together. A plan is compared with plans
// of the same job with given weights, which the same replay predicts.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "clusters.h"
#include "plan/product/participants.h"
#include "schedules.h"
#include "simulated_run.h"

struct trial {
    struct mmul_problem problem;
    struct mmul_cluster *cluster;
    unsigned maps[RANKS_MOST];
    struct mmul_schedule *schedule;
};

// Root's node maps all files.
static void trial_init(struct trial *t, struct mmul_cluster *cluster, struct mmul_problem problem) {
    *t = (struct trial){.problem = problem, .cluster = cluster, .maps = {ALL}};
}

static void trial_fini(struct trial *t) {
    mmul_schedule_free(t->schedule);
    mmul_cluster_destroy(t->cluster);
}

// Plans the product by rows with these weights; NULL: automatic ones. Returns the seconds.
static double plan_with(struct trial *t, const double *weights) {
    mmul_schedule_free(t->schedule);
    t->schedule = plan_or_die(&(struct mmul_schedule_request){.problem = &t->problem,
                                                              .cluster = t->cluster,
                                                              .node_maps = t->maps,
                                                              .weights = weights,
                                                              .split = MMUL_SPLIT_ROWS,
                                                              .panels = true});
    return t->schedule->predicted_seconds;
}

static int64_t units(const struct trial *t, int rank) {
    const struct mmul_schedule_rank *r = &mmul_schedule_ranks(t->schedule)[rank];
    return r->end - r->begin;
}

static const char *reason(const struct trial *t, int rank) {
    return mmul_schedule_ranks(t->schedule)[rank].why;
}

// Returns the first end of a rank with units, as a fraction of the last one.
static double first_by_last(const struct trial *t) {
    double first = INFINITY;
    for (int rank = 0; rank < t->schedule->size; rank++)
        if (units(t, rank) > 0)
            first = fmin(first, mmul_schedule_ranks(t->schedule)[rank].finish_seconds);
    return first / t->schedule->predicted_seconds;
}

// Automatic shares are no slower than root's node alone, than shares by speed among all ranks, and
// than shares by speed among the ranks that they use. More rounds have to save 5 % of the seconds,
// and more panels 1 %.
static void test_automatic_shares_are_no_slower_than_simple_ones(void **state) {
    (void)state;
    enum { ROUNDS = 100 };
    int together = 0, shared = 0;
    state_of_random = 1;
    for (int round = 0; round < ROUNDS; round++) {
        const int size = 2 + (int)random_between(0, 30);
        double alone[RANKS_MOST] = {0}, all[RANKS_MOST], used[RANKS_MOST];
        struct trial t;
        trial_init(&t, random_cluster(size),
                   make_problem(64 * (int64_t)random_between(200, 1000),
                                64 * (int64_t)random_between(32, 500),
                                64 * (int64_t)pow(500, random_between(0, 1))));
        const double seconds = plan_with(&t, NULL);
        int64_t sum = 0;
        together += first_by_last(&t) > 0.95;
        for (int rank = 0; rank < size; rank++) {
            all[rank] = t.cluster->ranks[rank].speed_flops;
            alone[rank] = t.cluster->ranks[rank].node == 0 ? all[rank] : 0;
            used[rank] = units(&t, rank) > 0 ? all[rank] : 0;
            sum += units(&t, rank);
            shared += units(&t, rank) > 0 && t.cluster->ranks[rank].node > 0;
        }
        assert_int_equal(sum, t.problem.m);
        const double others[] = {plan_with(&t, alone), plan_with(&t, all), plan_with(&t, used)};
        for (int i = 0; i < 3; i++)
            if (seconds > 1.06 * others[i])
                fail_msg("round %d: %g s against %g s of simple shares %d", round, seconds,
                         others[i], i);
        trial_fini(&t);
    }
    assert_true(together > ROUNDS * 0.9);
    assert_true(shared > 3 * ROUNDS); // most rounds give root company
}

static void test_equal_ranks_get_equal_shares(void **state) {
    (void)state;
    struct trial t;
    trial_init(&t, make_linked_cluster(4, 4, 1), make_problem(8192, 4096, 4096));
    t.cluster->ranks[3].speed_flops *= 2;
    plan_with(&t, NULL);
    assert_true(llabs(units(&t, 0) - units(&t, 1)) <= 8 && llabs(units(&t, 1) - units(&t, 2)) <= 8);
    assert_in_range(units(&t, 3), 17 * units(&t, 0) / 10, 2 * units(&t, 0));
    assert_true(first_by_last(&t) > 0.99);
    trial_fini(&t);
}

// Without idle cores traffic takes compute time from both leaders.
static void test_traffic_costs_leaders_time(void **state) {
    (void)state;
    double seconds[2];
    for (int i = 0; i < 2; i++) {
        struct trial t;
        trial_init(&t, make_linked_cluster(2, 1, 10), make_problem(20000, 20000, 20000));
        t.cluster->nodes[0].cores_allowed = t.cluster->nodes[1].cores_allowed = i == 0 ? 64 : 4;
        seconds[i] = plan_with(&t, NULL);
        assert_true(first_by_last(&t) > 0.99);
        trial_fini(&t);
    }
    assert_true(seconds[1] > 1.001 * seconds[0]);
}

// A fast device that is far away gets more than a slow one here; room for everything changes
// nothing.
static void test_ample_memory_changes_nothing(void **state) {
    (void)state;
    int64_t first[3];
    for (int i = 0; i < 2; i++) {
        struct trial t;
        trial_init(&t, make_linked_cluster(3, 3, 1), make_problem(8192, 8192, 8192));
        t.cluster->nodes[0].memory_available_bytes *= 1 + i;
        for (int rank = 0; rank < 2; rank++) {
            struct mmul_rank_info *r = &t.cluster->ranks[rank];
            r->host_memory = false;
            r->speed_flops = 9e12;
            r->speed.upload_bytes_per_second = r->speed.download_bytes_per_second = 1e9;
        }
        plan_with(&t, NULL);
        assert_true(units(&t, 0) > 3 * units(&t, 2));
        for (int rank = 0; rank < 3; rank++) {
            first[rank] = i == 0 ? units(&t, rank) : first[rank];
            assert_int_equal(units(&t, rank), first[rank]);
        }
        trial_fini(&t);
    }
}

static void test_shares_stay_within_the_memory_of_nodes(void **state) {
    (void)state;
    struct trial t;
    trial_init(&t, make_linked_cluster(6, 2, 100), make_problem(20000, 8192, 8192));
    plan_with(&t, NULL);
    const int64_t before = units(&t, 2) + units(&t, 3);
    // A row of A takes 32 KiB, and panels may pass instead of all of B and C. Half of A's rows of
    // before fit, without the other buffers.
    t.cluster->nodes[1].memory_available_bytes = before / 2 * 4 * 8192;
    plan_with(&t, NULL);
    const int64_t now = units(&t, 2) + units(&t, 3);
    assert_true(before > 4000 && now > 0 && now < before / 2);
    assert_string_equal(reason(&t, 2), "limited by the node's memory");
    assert_string_equal(reason(&t, 0), "");
    trial_fini(&t);
}

// Node 1 delays all nodes behind it, so it is left out; the others end earlier without it.
static void test_a_slow_link_is_left_out(void **state) {
    (void)state;
    struct trial t;
    trial_init(&t, make_linked_cluster(6, 2, 10), make_problem(16384, 16384, 16384));
    t.cluster->nodes[1].root_link.bytes_per_second = 1e6;
    plan_with(&t, NULL);
    for (int rank = 0; rank < 6; rank++) {
        const bool slow = t.cluster->ranks[rank].node == 1;
        assert_true(slow ? units(&t, rank) == 0 : units(&t, rank) > 1000);
        assert_string_equal(reason(&t, rank), slow ? "slows the job: slow link" : "");
    }
    assert_int_equal(mmul_schedule_nodes(t.schedule)[1].chain_place, 0);
    assert_int_equal(mmul_schedule_nodes(t.schedule)[2].chain_place, 1);
    trial_fini(&t);
}

static void test_no_network_pays_for_a_small_product(void **state) {
    (void)state;
    struct trial t;
    trial_init(&t, make_linked_cluster(24, 1, 1), make_problem(512, 512, 512));
    plan_with(&t, NULL);
    for (int rank = 1; rank < 24; rank++) {
        assert_int_equal(units(&t, rank), 0);
        assert_string_equal(reason(&t, rank), "its link is too slow: data would arrive too late");
    }
    assert_int_equal(units(&t, 0), 512);
    trial_fini(&t);
}

static void test_a_device_slower_than_a_core_is_left_out(void **state) {
    (void)state;
    static const struct {
        double flops, bytes_per_second;
        const char *why;
    } cases[] = {{1e12, 2e10, ""},
                 {1e12, 1e7, "slows the job: slow transfers to its device"},
                 {1e10, 2e10, "slows the job: device slower than one CPU core"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct trial t;
        trial_init(&t, make_linked_cluster(2, 2, 1), make_problem(4096, 4096, 4096));
        struct mmul_rank_info *gpu = &t.cluster->ranks[1];
        gpu->device.type = MMUL_DEVICE_GPU;
        gpu->host_memory = false;
        gpu->speed_flops = cases[i].flops;
        gpu->speed.upload_bytes_per_second = gpu->speed.download_bytes_per_second =
            cases[i].bytes_per_second;
        plan_with(&t, NULL);
        assert_string_equal(reason(&t, 1), cases[i].why);
        assert_true((units(&t, 1) > 0) == (cases[i].why[0] == '\0'));
        trial_fini(&t);
    }
}

// With more nodes than pay off, the chosen number is better than half of it and twice as many.
static void test_the_best_number_of_nodes_is_chosen(void **state) {
    (void)state;
    struct trial t;
    trial_init(&t, make_linked_cluster(64, 1, 10), make_problem(4096, 4096, 16384));
    const double seconds = plan_with(&t, NULL);
    int used = 0;
    for (int rank = 0; rank < 64; rank++)
        used += units(&t, rank) > 0;
    assert_true(used > 2 && used < 64);
    for (int number = used / 2; number <= 2 * used && number <= 64; number += used / 2) {
        double weights[RANKS_MOST] = {0};
        for (int rank = 0; rank < number; rank++)
            weights[rank] = 1;
        assert_true(plan_with(&t, weights) >= 0.99 * seconds);
    }
    trial_fini(&t);
}

static void test_absent_ranks_are_named(void **state) {
    (void)state;
    static const struct {
        bool out[10];
        const char *text;
    } cases[] = {{{[3] = true}, "rank 3"},
                 {{[3] = true, [7] = true}, "ranks 3, 7"},
                 {{1, 1, 1, 1, 1, 1, 1, 1, 1}, "ranks 0, 1, 2, 3, 4, 5 and 3 more"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];
        assert_string_equal(mmul_ranks_format(cases[i].out, 10, text), cases[i].text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_automatic_shares_are_no_slower_than_simple_ones,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_equal_ranks_get_equal_shares, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_traffic_costs_leaders_time, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_ample_memory_changes_nothing, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_shares_stay_within_the_memory_of_nodes,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_a_slow_link_is_left_out, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_no_network_pays_for_a_small_product, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_a_device_slower_than_a_core_is_left_out,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_the_best_number_of_nodes_is_chosen, assert_no_live_bytes),
        cmocka_unit_test(test_absent_ranks_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
