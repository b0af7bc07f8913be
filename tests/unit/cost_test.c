// SPDX-License-Identifier: MIT
// The cost model piece by piece: cost of a step by the formula of its header, rates, the chain of
// leaders, stacks of matrices.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "plan/cost/cost.h"

struct stack {
    int64_t batch_a, batch_b;
};

static struct mmul_problem make_stack(int64_t m, int64_t n, int64_t k, struct stack stack) {
    struct mmul_problem problem;
    struct mmul_error err;
    struct mmul_problem_operand a = {{1, stack.batch_a, m, k}, MMUL_F32, "A.bin"};
    struct mmul_problem_operand b = {{1, stack.batch_b, k, n}, MMUL_F32, "B.bin"};
    assert_int_equal(mmul_problem_init(&(struct mmul_problem_request){.a = a, .b = b, .alpha = 1},
                                       &problem, &err),
                     MMUL_OK);
    return problem;
}

static struct mmul_problem make_problem(int64_t m, int64_t n, int64_t k) {
    return make_stack(m, n, k, (struct stack){1, 1});
}

static bool near(double x, double y, double share) {
    return fabs(x - y) <= share * fabs(y);
}

// ------------------------------------------------------------------------------------------ a step

static void test_steps_cost_more_with_more_units(void **state) {
    (void)state;
    struct mmul_problem problem = make_problem(30000, 3000, 5000);
    struct mmul_rank_info rank = {.host_memory = true,
                                  .speed.flops = {4e10, 9e10, 0, 2e11, 1.9e11}};
    for (int panels = 1; panels <= 64; panels *= 4) {
        struct mmul_cut cut = mmul_panels_cut(&problem, MMUL_ROWS, panels);
        struct mmul_pass_cost cost = mmul_pass_cost(&(struct mmul_pass_request){
            .problem = &problem, .axis = MMUL_ROWS, .cut = &cut, .rank = &rank});
        double before = 0;
        for (double units = 1; units < 40000; units *= 1.3) {
            double seconds = mmul_pass_seconds(&cost, units);
            assert_true(seconds > before);
            assert_true(fabs(mmul_pass_units(&cost, seconds) / units - 1) < 1e-6);
            before = seconds;
        }
        assert_true(mmul_pass_units(&cost, 1e-6) == 0); // less than the fixed cost of a step
    }
}

// A cube has the measured rate. Rates between sizes are linear in the logarithm; a missing point
// takes the rate of the next smaller one.
static void test_rates_between_measured_sizes_are_interpolated(void **state) {
    (void)state;
    const struct mmul_rank_info rank = {.speed.flops = {4e10, 8e10, 0, 2e11, 1e11}};
    static const struct {
        double m, n, k, flops;
    } cases[] = {{256, 256, 256, 4e10},     {512, 512, 512, 8e10},    {1024, 1024, 1024, 8e10},
                 {2048, 2048, 2048, 2e11},  {8192, 8192, 8192, 1e11}, {100, 100, 100, 4e10},
                 {32, 32, 32, 2e10},        {1e9, 1e9, 21.5, 4e10},   {362, 362, 362, 6e10},
                 {1e9, 1e9, 512 / 3., 8e10}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double flops = mmul_product_rate(&rank, MMUL_F32, 0, cases[i].m, cases[i].n, cases[i].k);
        assert_true(fabs(flops / cases[i].flops - 1) < 2e-3);
    }
    assert_true(mmul_product_rate(&(struct mmul_rank_info){.speed_flops = 7}, MMUL_F32, 0, 999, 999,
                                  999) == 7);
    assert_true(mmul_product_rate(&(struct mmul_rank_info){0}, MMUL_F32, 5, 999, 999, 999) == 5);
    const struct mmul_rank_info both = {
        .speed = {.flops = {8, 8, 8, 8, 8}, .double_flops = {3, 3, 3, 3, 3}}};
    assert_true(mmul_product_rate(&both, MMUL_F32, 0, 999, 999, 999) == 8);
    assert_true(mmul_product_rate(&both, MMUL_F64, 0, 999, 999, 999) == 3);
    // not the rate of float32
    assert_true(mmul_product_rate(&rank, MMUL_F64, 5, 999, 999, 999) == 5);
}

// Compares with the header's formula, at a speed that is the same for all sizes.
static void test_a_pass_costs_the_sum_of_its_parts(void **state) {
    (void)state;
    static const struct {
        double up, down; // 0: in host memory
        unsigned maps;
        int64_t rounds;
        int panels;
    } cases[] = {{0, 0, 0, 1, 1},     {8e9, 5e9, 0, 1, 1},
                 {8e9, 5e9, 0, 1, 8}, {0, 0, MMUL_MAPS_A | MMUL_MAPS_B | MMUL_MAPS_C, 1, 4},
                 {0, 0, 0, 1, 4},     {0, 0, MMUL_MAPS_A, 3, 4}};
    struct mmul_problem problem = make_problem(30000, 4096, 5000);
    double n = 4096, k = 5000, x = 3000;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mmul_rank_info rank = {.host_memory = cases[i].up == 0, .speed_flops = 1e12};
        struct mmul_cut cut = mmul_panels_cut(&problem, MMUL_ROWS, cases[i].panels);
        cut.rounds = cases[i].rounds;
        rank.speed.upload_bytes_per_second = cases[i].up;
        rank.speed.download_bytes_per_second = cases[i].down;
        struct mmul_pass_cost cost =
            mmul_pass_cost(&(struct mmul_pass_request){.problem = &problem,
                                                       .axis = MMUL_ROWS,
                                                       .cut = &cut,
                                                       .rank = &rank,
                                                       .maps = cases[i].maps});
        double panels = (double)cut.panels, w = n / panels;
        double piece = 4 * x * k, panel = 4 * w * k, block = 4 * x * w;
        // All panels at once count once; each panel gets its part of the cost.
        double at_once = cases[i].maps & MMUL_MAPS_C ? panels : 1;
        double seconds =
            150e-6 / at_once + 2 * x * w * k / 1e12 + (piece / at_once + panel + block) / 4e9;
        if (cases[i].up > 0)
            seconds += (panel + piece / panels) / cases[i].up + block / cases[i].down;
        seconds += cases[i].maps & MMUL_MAPS_C ? 0.35e-9 * block : 0;
        assert_true(near(mmul_pass_seconds(&cost, x), seconds, 1e-6));
    }
}

// A unit of a stack needs the panels of its own matrix only. All panels together cost a rank with
// all units as much as one product of that size, and a rank with half of the units half as much.
static void test_a_unit_of_a_stack_costs_panels_of_its_matrix_only(void **state) {
    (void)state;
    struct mmul_problem stack = make_stack(1000, 512, 2000, (struct stack){32, 32});
    const struct mmul_rank_info rank = {.host_memory = true, .speed_flops = 1e12};
    for (int panels = 1; panels <= 64; panels *= 8) {
        struct mmul_cut cut = mmul_panels_cut(&stack, MMUL_ROWS, panels);
        struct mmul_pass_cost cost = mmul_pass_cost(&(struct mmul_pass_request){
            .problem = &stack, .axis = MMUL_ROWS, .cut = &cut, .rank = &rank});
        double steps = (double)cut.panels, a = 4.0 * 32000 * 2000, b = 4.0 * 32 * 512 * 2000;
        double per_matrix = steps > 32 ? steps / 32 : 1, c = 4.0 * 32000 * 512;
        double all =
            steps * 150e-6 + 2.0 * 32000 * 512 * 2000 / 1e12 + (a * per_matrix + b + c) / 4e9;
        assert_true(near(steps * mmul_pass_seconds(&cost, 32000), all, 0.01));
        assert_true(near(steps * mmul_pass_seconds(&cost, 16000), all / 2, 0.01));
    }
}

// ------------------------------------------------------------------------------------------- nodes

// Makes nodes of one CPU rank each, with these links to root.
static struct mmul_cluster *make_cluster(int nodes, const double *bytes_per_second) {
    struct mmul_cluster *cluster;
    struct mmul_error err;
    assert_int_equal(mmul_cluster_create(nodes, nodes, 0, &cluster, &err), MMUL_OK);
    for (int i = 0; i < nodes; i++) {
        cluster->ranks[i] =
            (struct mmul_rank_info){.node = i, .host_memory = true, .speed_flops = 1e12};
        cluster->nodes[i] = (struct mmul_node_info){.leader = i,
                                                    .rank_count = 1,
                                                    .cores_allowed = 8,
                                                    .root_link = {bytes_per_second[i], 1e-5}};
    }
    return cluster;
}

static struct mmul_cost *cost_or_die(const struct mmul_problem *problem,
                                     const struct mmul_cluster *cluster, const unsigned *maps) {
    struct mmul_cost *cost = NULL;
    struct mmul_error err;
    const struct mmul_cost_request request = {
        .problem = problem, .axis = MMUL_ROWS, .cluster = cluster, .node_maps = maps};
    assert_int_equal(mmul_cost_create(&request, &cost, &err), MMUL_OK);
    return cost;
}

// The relay chain is ordered by class of speed, fastest first, and by neighbours within a class. A
// panel's gap is that of the slowest hop so far, which a panel passes as a whole; later hops relay
// packet by packet. Nodes that map the operand or take no part are skipped.
static void test_the_chain_goes_by_speed_class_and_neighbours(void **state) {
    (void)state;
    static const double links[] = {1e10, 1e8, 1.0e9, 1.1e9, 1e10, 1.05e9};
    static const unsigned maps[] = {15, 0, 0, 0, 0, MMUL_MAPS_B};
    static const int places[] = {0, 4, 2, 3, 1, 0};
    struct mmul_problem problem = make_problem(5000, 4096, 4096);
    struct mmul_cluster *cluster = make_cluster(6, links);
    cluster->nodes[2].ring_link = (struct mmul_link){4e9, 1e-5}; // measured with node 3
    struct mmul_cost *cost = cost_or_die(&problem, cluster, maps);
    struct mmul_cut cut = mmul_panels_cut(&problem, MMUL_ROWS, 8);
    double panel = 4.0 * 4096 * 512, packet = panel / 8;
    mmul_cost_set(cost, &cut);
    for (int i = 0; i < 6; i++)
        assert_int_equal(cost->nodes[i].chain_place, places[i]);
    assert_true(near(cost->nodes[4].begins, 1e-5, 1e-9));
    assert_true(near(cost->nodes[2].begins, packet * 1e-10 + 2e-5, 1e-9));
    assert_true(near(cost->nodes[3].begins, packet * 1.1e-9 + 3e-5, 1e-9));
    assert_true(near(cost->nodes[3].gap, panel * 1e-9, 1e-9)); // not its own hop's gap
    assert_true(near(cost->nodes[1].gap, panel * 1e-8, 1e-9));
    assert_true(cost->nodes[1].takes_panels && !cost->nodes[5].takes_panels);
    const int64_t counts[] = {1, 1, 0, 1, 1, 1};
    mmul_cost_set_counts(cost, counts);
    assert_int_equal(cost->nodes[2].chain_place, 0);
    assert_int_equal(cost->nodes[3].chain_place, 2);
    mmul_cost_destroy(cost);
    mmul_cluster_destroy(cluster);
}

// Measured costs of traffic replace the estimate from cores: for bytes sent and received, at each
// end. Root's leader also loses the cost of its files if it computes on busy cores.
static void test_measured_traffic_costs_replace_the_estimate(void **state) {
    (void)state;
    static const double links[] = {1e9, 1e9};
    static const unsigned maps[] = {15, 0};
    struct mmul_problem problem = make_problem(5000, 4096, 4096);
    struct mmul_cluster *cluster = make_cluster(2, links);
    cluster->nodes[0].cores_allowed = cluster->nodes[1].cores_allowed = 1; // no idle core
    struct mmul_cost *cost = cost_or_die(&problem, cluster, maps);
    assert_true(near(cost->nodes[1].sending, MMUL_NETWORK_CPU_SECONDS_PER_BYTE, 1e-9));
    assert_true(near(cost->nodes[0].receiving,
                     MMUL_NETWORK_CPU_SECONDS_PER_BYTE + MMUL_FIRST_TOUCH_SECONDS_PER_BYTE, 1e-9));
    mmul_cost_destroy(cost);
    cluster->nodes[0].cores_allowed = cluster->nodes[1].cores_allowed = 64;
    cluster->ranks[1].speed.send_seconds_per_byte = 5e-10;
    cluster->ranks[1].speed.receive_seconds_per_byte = 7e-10;
    cost = cost_or_die(&problem, cluster, maps);
    assert_true(near(cost->nodes[1].sending, 5e-10, 1e-9));
    assert_true(near(cost->nodes[1].receiving, 7e-10, 1e-9));
    assert_true(cost->nodes[0].sending == 0 && cost->nodes[0].receiving == 0);
    mmul_cost_destroy(cost);
    mmul_cluster_destroy(cluster);
}

static int assert_no_live_bytes(void **state) {
    (void)state;
    return mmul_live_bytes() == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_cost_more_with_more_units),
        cmocka_unit_test(test_rates_between_measured_sizes_are_interpolated),
        cmocka_unit_test(test_a_pass_costs_the_sum_of_its_parts),
        cmocka_unit_test(test_a_unit_of_a_stack_costs_panels_of_its_matrix_only),
        cmocka_unit_test_teardown(test_the_chain_goes_by_speed_class_and_neighbours,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_measured_traffic_costs_replace_the_estimate,
                                  assert_no_live_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
