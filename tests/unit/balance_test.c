// SPDX-License-Identifier: MIT
// Shares with which all ranks finish together, compared with an event-driven simulation
// (simulated_run.h).
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

// ------------------------------------------------------------------------------------------ tests

struct bench {
    struct mmul_problem problem;
    struct mmul_cluster *cluster;
    struct mmul_cost *cost;
    unsigned maps[RANKS_MOST];
    double units[RANKS_MOST];
};

// Sets up a bench; root's node maps all files.
static void bench_init(struct bench *b, struct mmul_cluster *cluster, struct mmul_problem problem) {
    struct mmul_error err;
    *b = (struct bench){.problem = problem, .cluster = cluster};
    b->maps[0] = MMUL_MAPS_A | MMUL_MAPS_B | MMUL_MAPS_C;
    const struct mmul_cost_request request = {
        .problem = &b->problem, .axis = MMUL_ROWS, .cluster = cluster, .node_maps = b->maps};
    assert_int_equal(mmul_cost_create(&request, &b->cost, &err), MMUL_OK);
}

static void bench_fini(struct bench *b) {
    mmul_cost_destroy(b->cost);
    mmul_cluster_destroy(b->cluster);
}

static double balance_panels(struct bench *b, int panels) {
    struct mmul_cut cut = mmul_panels_cut(&b->problem, MMUL_ROWS, panels);
    mmul_cost_set(b->cost, NULL, &cut);
    return mmul_balance(b->cost, (double)b->problem.m, NULL, b->units);
}

static double sum(const double *units, int size) {
    double all = 0;
    for (int rank = 0; rank < size; rank++)
        all += units[rank];
    return all;
}

// Returns the first finish time of a rank with units, as a fraction of the last one.
static double first_by_last(const struct mmul_cost *cost) {
    double first = INFINITY, last = 0;
    for (int rank = 0; rank < cost->size; rank++)
        if (cost->ranks[rank].finish > 0) {
            first = fmin(first, cost->ranks[rank].finish);
            last = fmax(last, cost->ranks[rank].finish);
        }
    return first / last;
}

static void test_random_clusters_finish_together(void **state) {
    (void)state;
    enum { ROUNDS = 300 };
    int shared = 0, close = 0;
    state_of_random = 1;
    for (int round = 0; round < ROUNDS; round++) {
        int size = 2 + (int)random_between(0, RANKS_MOST - 1);
        struct bench b;
        bench_init(&b, random_cluster(size),
                   make_problem(64 * (int64_t)random_between(200, 1000),
                                64 * (int64_t)random_between(32, 500),
                                64 * (int64_t)pow(500, random_between(0, 1))));
        double seconds = balance_panels(&b, 1 << (int)random_between(0, 7));
        assert_true(fabs(sum(b.units, size) / (double)b.problem.m - 1) < 1e-6);
        assert_true(first_by_last(b.cost) > 0.99);
        double off = fabs(simulate_run(b.cost, b.units) / seconds - 1);
        if (off > 0.25) // blocks that return all at once
            fail_msg("round %d: %g s predicted, off by %g", round, seconds, off);
        close += off < 0.03;
        for (int rank = 1; rank < size; rank++)
            shared += b.units[rank] > 1 && b.cluster->ranks[rank].node > 0;
        bench_fini(&b);
    }
    assert_true(close > ROUNDS * 0.97);
    assert_true(shared > 10 * ROUNDS); // most rounds give root company
}

static void test_equal_ranks_get_equal_shares(void **state) {
    (void)state;
    struct bench b;
    bench_init(&b, make_linked_cluster(4, 4, 1), make_problem(8192, 4096, 4096));
    b.cluster->ranks[3].speed_flops *= 2;
    balance_panels(&b, 1);
    assert_true(fabs(b.units[0] - b.units[1]) < 0.01 && fabs(b.units[1] - b.units[2]) < 0.01);
    assert_in_range((int)b.units[3], (int)(1.7 * b.units[0]), (int)(2 * b.units[0]));
    bench_fini(&b);
}

// Without idle cores traffic costs both leaders the compute time that the model predicts.
static void test_traffic_costs_leaders_time(void **state) {
    (void)state;
    struct bench b;
    double idle, busy, stolen;
    for (int i = 0; i < 2; i++) {
        const double files = MMUL_FIRST_TOUCH_SECONDS_PER_BYTE; // root maps the files
        bench_init(&b, make_linked_cluster(2, 1, 10), make_problem(20000, 20000, 20000));
        b.cluster->nodes[0].cores_allowed = b.cluster->nodes[1].cores_allowed = i == 0 ? 64 : 4;
        mmul_cost_destroy(b.cost);
        bench_init(&b, b.cluster, b.problem);
        *(i == 0 ? &idle : &busy) = balance_panels(&b, 16);
        stolen = b.cost->ranks[0].traffic_cpu_seconds;
        double bytes = b.cost->root_out_bytes + b.cost->root_in_bytes;
        assert_true(fabs(bytes - 4.0 * 20000 * (20000 + 2 * b.units[1])) < 1e6);
        assert_true(
            i == 0 ? stolen == 0
                   : fabs(stolen - (MMUL_NETWORK_CPU_SECONDS_PER_BYTE + files) * bytes / 4) < 1e-3);
        assert_true(first_by_last(b.cost) > 0.999);
        stolen = b.cost->ranks[1].traffic_cpu_seconds; // equal bytes at the other end; B only once
        assert_true(i == 0 ? stolen == 0
                           : fabs(stolen - MMUL_NETWORK_CPU_SECONDS_PER_BYTE * bytes / 4) < 1e-3);
        bench_fini(&b);
    }
    assert_true(busy > idle);
}

// Measured costs of traffic replace the estimate from cores: for bytes sent and received, at each
// end.
static void test_measured_traffic_costs_replace_the_estimate(void **state) {
    (void)state;
    struct bench b;
    bench_init(&b, make_linked_cluster(2, 1, 10), make_problem(20000, 20000, 20000));
    for (int i = 0; i < 2; i++) {
        b.cluster->nodes[i].cores_allowed = 64;
        b.cluster->ranks[i].speed.send_seconds_per_byte = i == 0 ? 3e-10 : 5e-10;
        b.cluster->ranks[i].speed.receive_seconds_per_byte = i == 0 ? 1e-10 : 7e-10;
    }
    mmul_cost_destroy(b.cost);
    bench_init(&b, b.cluster, b.problem);
    balance_panels(&b, 16);
    double piece = 4.0 * 20000 * b.units[1], whole = 4.0 * 20000 * 20000;
    assert_true(b.units[1] > 1000);
    assert_true(fabs(b.cost->ranks[0].traffic_cpu_seconds -
                     (3e-10 * (whole + piece) + 1e-10 * piece)) < 1e-3);
    assert_true(fabs(b.cost->ranks[1].traffic_cpu_seconds -
                     (7e-10 * (whole + piece) + 5e-10 * piece)) < 1e-3);
    assert_true(first_by_last(b.cost) > 0.999);
    bench_fini(&b);
}

// A node with room for everything does not affect the balance among its ranks.
static void test_ample_capacity_changes_nothing(void **state) {
    (void)state;
    struct bench b;
    const int64_t ample[] = {8192};
    double free_units[3];
    bench_init(&b, make_linked_cluster(3, 3, 1), make_problem(8192, 8192, 8192));
    for (int rank = 0; rank < 2; rank++) { // fast but far away: the first estimate is too early
        struct mmul_rank_info *r = &b.cluster->ranks[rank];
        r->host_memory = false;
        r->speed_flops = 9e12;
        r->speed.upload_bytes_per_second = r->speed.download_bytes_per_second = 1e9;
    }
    struct mmul_cut cut = mmul_panels_cut(&b.problem, MMUL_ROWS, 1);
    mmul_cost_set(b.cost, NULL, &cut);
    double seconds = mmul_balance(b.cost, 8192, NULL, free_units);
    assert_true(free_units[0] > 3 * free_units[2]);
    assert_true(fabs(mmul_balance(b.cost, 8192, ample, b.units) / seconds - 1) < 1e-6);
    for (int rank = 0; rank < 3; rank++)
        assert_true(fabs(b.units[rank] - free_units[rank]) < 0.1);
    bench_fini(&b);
}

static void test_shares_stay_within_the_capacity_of_nodes(void **state) {
    (void)state;
    struct bench b;
    const int64_t capacity[] = {20000, 100, 3000}, too_little[] = {2000, 1000, 3000};
    bench_init(&b, make_linked_cluster(6, 2, 100), make_problem(20000, 8192, 8192));
    struct mmul_cut cut = mmul_panels_cut(&b.problem, MMUL_ROWS, 8);
    mmul_cost_set(b.cost, NULL, &cut);
    assert_true(mmul_balance(b.cost, 20000, capacity, b.units) > 0);
    assert_true(fabs(b.units[2] + b.units[3] - 100) < 0.01);
    assert_true(fabs(b.units[4] + b.units[5] - 3000) < 0.01);
    assert_true(fabs(sum(b.units, 6) - 20000) < 0.01);
    assert_true(mmul_balance(b.cost, 20000, too_little, b.units) == 0);
    bench_fini(&b);
}

static double choose_members(struct bench *b, int panels, struct mmul_participants *members) {
    static enum mmul_exclusion absence[RANKS_MOST];
    static bool in[RANKS_MOST];
    struct mmul_error err;
    struct mmul_cut cut = mmul_panels_cut(&b->problem, MMUL_ROWS, panels);
    *members = (struct mmul_participants){.absence = absence, .in = in, .units = b->units};
    assert_int_equal(
        mmul_participants_choose(b->cost, &cut, (double)b->problem.m, NULL, members, &err),
        MMUL_OK);
    return members->seconds;
}

// Node 1 delays all nodes behind it, so it is left out; the others finish earlier without it.
static void test_a_slow_link_is_left_out(void **state) {
    (void)state;
    struct bench b;
    struct mmul_participants members;
    bench_init(&b, make_linked_cluster(6, 2, 10), make_problem(16384, 16384, 16384));
    b.cluster->nodes[1].root_link.bytes_per_second = 1e6;
    mmul_cost_destroy(b.cost);
    bench_init(&b, b.cluster, b.problem);
    double seconds = choose_members(&b, 8, &members);
    for (int rank = 0; rank < 6; rank++) {
        bool slow = b.cluster->ranks[rank].node == 1;
        assert_int_equal(members.absence[rank], slow ? MMUL_EXCLUDED_SLOW_LINK : MMUL_NOT_EXCLUDED);
        assert_true(slow ? b.units[rank] == 0 : b.units[rank] > 1000);
    }
    assert_true(seconds > 0 && seconds <= balance_panels(&b, 8));
    choose_members(&b, 8, &members); // the relay chain consists of the members
    assert_true(b.cost->nodes[1].chain_place == 0 && b.cost->nodes[2].chain_place == 1);
    bench_fini(&b);
}

static void test_no_network_pays_for_a_small_product(void **state) {
    (void)state;
    struct bench b;
    struct mmul_participants members;
    bench_init(&b, make_linked_cluster(24, 1, 1), make_problem(512, 512, 512));
    choose_members(&b, 1, &members);
    for (int rank = 1; rank < 24; rank++)
        assert_true(members.absence[rank] == MMUL_EXCLUDED_SLOW_LINK && b.units[rank] == 0);
    assert_true(b.units[0] == 512);
    bench_fini(&b);
}

static void test_a_device_slower_than_a_core_is_left_out(void **state) {
    (void)state;
    static const struct {
        double flops, bytes_per_second;
        enum mmul_exclusion absence;
    } cases[] = {{1e12, 2e10, MMUL_NOT_EXCLUDED},
                 {1e12, 1e7, MMUL_EXCLUDED_SLOW_TRANSFERS},
                 {1e10, 2e10, MMUL_EXCLUDED_SLOW_DEVICE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench b;
        struct mmul_participants members;
        bench_init(&b, make_linked_cluster(2, 2, 1), make_problem(4096, 4096, 4096));
        struct mmul_rank_info *gpu = &b.cluster->ranks[1];
        gpu->device.type = MMUL_DEVICE_GPU;
        gpu->host_memory = false;
        gpu->speed_flops = cases[i].flops;
        gpu->speed.upload_bytes_per_second = gpu->speed.download_bytes_per_second =
            cases[i].bytes_per_second;
        choose_members(&b, 1, &members);
        assert_int_equal(members.absence[1], cases[i].absence);
        assert_true((b.units[1] > 0) == (cases[i].absence == MMUL_NOT_EXCLUDED));
        bench_fini(&b);
    }
}

// With more nodes than pay off, the chosen number is better than half of it and twice as many.
static void test_the_best_number_of_nodes_is_chosen(void **state) {
    (void)state;
    struct bench b;
    struct mmul_participants members;
    static bool in[RANKS_MOST];
    bench_init(&b, make_linked_cluster(64, 1, 10), make_problem(4096, 4096, 16384));
    double seconds = choose_members(&b, 16, &members);
    int used = 0;
    for (int rank = 0; rank < 64; rank++)
        used += members.in[rank];
    assert_true(used > 2 && used < 64);
    struct mmul_cut cut = mmul_panels_cut(&b.problem, MMUL_ROWS, 16);
    for (int number = used / 2; number <= 2 * used && number <= 64; number += used / 2) {
        for (int rank = 0; rank < 64; rank++)
            in[rank] = rank < number;
        mmul_cost_set(b.cost, in, &cut);
        assert_true(mmul_balance(b.cost, 4096, NULL, b.units) >= 0.999 * seconds);
    }
    bench_fini(&b);
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
        cmocka_unit_test_teardown(test_random_clusters_finish_together, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_equal_ranks_get_equal_shares, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_traffic_costs_leaders_time, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_measured_traffic_costs_replace_the_estimate,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_ample_capacity_changes_nothing, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_shares_stay_within_the_capacity_of_nodes,
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
