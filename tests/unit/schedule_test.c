// SPDX-License-Identifier: MIT
// Plans for clusters defined by hand: shares, axis, clipping, tiles, and one of 4,096 ranks.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "clusters.h"
#include "plan/lists/program_plan.h"
#include "plan/parts/share.h"
#include "schedules.h"

// Checks that the parts are consecutive and cover the range.
static void assert_covers(const struct mmul_schedule *schedule) {
    int64_t at = 0;
    for (int rank = 0; rank < schedule->size; rank++) {
        assert_int_equal(mmul_schedule_ranks(schedule)[rank].begin, at);
        at = mmul_schedule_ranks(schedule)[rank].end;
    }
    assert_int_equal(at, schedule->total);
}

static int64_t units(const struct mmul_schedule *schedule, int rank) {
    return mmul_schedule_ranks(schedule)[rank].end - mmul_schedule_ranks(schedule)[rank].begin;
}

static void test_rows_follow_the_weights(void **state) {
    (void)state;
    struct mmul_problem problem = make_problem(4096, 100, 100);
    struct mmul_cluster *cluster = make_cluster(3, 1);
    const double weights[] = {0.5, 0.25, 0.25};
    const struct {
        enum mmul_split_rule rule;
        int64_t rows[3];
    } cases[] = {{MMUL_SPLIT_EXACT, {2048, 1024, 1024}}, {MMUL_SPLIT_HUNDRED, {2050, 1025, 1021}}};
    for (int i = 0; i < 2; i++) {
        struct mmul_schedule *schedule =
            plan_or_die(&(struct mmul_schedule_request){.problem = &problem,
                                                        .cluster = cluster,
                                                        .weights = weights,
                                                        .split = MMUL_SPLIT_ROWS,
                                                        .rule = cases[i].rule});
        assert_covers(schedule);
        for (int rank = 0; rank < 3; rank++)
            assert_int_equal(units(schedule, rank), cases[i].rows[rank]);
        mmul_schedule_free(schedule);
    }
    mmul_cluster_destroy(cluster);
}

static void test_ranks_beyond_the_rows_get_none(void **state) {
    (void)state;
    struct mmul_problem problem = make_problem(3, 2, 5);
    struct mmul_cluster *cluster = make_cluster(7, 2);
    const double weights[] = {1, 1, 1, 1, 1, 1, 1};
    struct mmul_schedule *schedule = plan_or_die(&(struct mmul_schedule_request){
        .problem = &problem, .cluster = cluster, .weights = weights, .split = MMUL_SPLIT_ROWS});
    int empty = 0;
    assert_covers(schedule);
    for (int rank = 0; rank < 7; rank++)
        if (units(schedule, rank) == 0) {
            empty++;
            assert_string_equal(mmul_schedule_ranks(schedule)[rank].why,
                                "its share rounds to zero");
            assert_int_equal(mmul_schedule_ranks(schedule)[rank].tile.m, 0);
        }
    assert_int_equal(empty, 4);
    mmul_schedule_free(schedule);
    mmul_cluster_destroy(cluster);
}

// Network bytes decide: the larger operand is split. One row cannot be split among ranks.
static void test_the_axis_with_fewer_network_bytes_is_split(void **state) {
    (void)state;
    static const struct {
        int64_t m, n, k;
        int ranks, per_node;
        enum mmul_axis axis;
    } cases[] = {
        {4000, 1000, 500, 4, 1, MMUL_ROWS}, {1000, 4000, 500, 4, 1, MMUL_COLS},
        {1000, 4000, 500, 4, 4, MMUL_ROWS}, // one node: no network traffic
        {1, 4000, 500, 4, 4, MMUL_COLS},    {4000, 1, 500, 4, 1, MMUL_ROWS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mmul_problem problem = make_problem(cases[i].m, cases[i].n, cases[i].k);
        struct mmul_cluster *cluster = make_cluster(cases[i].ranks, cases[i].per_node);
        const double weights[] = {1, 1, 1, 1};
        struct mmul_schedule *schedule = plan_or_die(&(struct mmul_schedule_request){
            .problem = &problem, .cluster = cluster, .weights = weights});
        assert_int_equal(schedule->axis, cases[i].axis);
        assert_covers(schedule);
        mmul_schedule_free(schedule);
        mmul_cluster_destroy(cluster);
    }
}

// 1000 x 1000 floats whole per node, 8000 bytes per row of A and C.
static void test_shares_are_clipped_to_memory(void **state) {
    (void)state;
    struct mmul_problem problem = make_problem(100000, 1000, 1000);
    struct mmul_cluster *cluster = make_cluster(3, 1);
    const double weights[] = {1, 2, 1};
    cluster->nodes[1].memory_available_bytes = 300 << 20;
    struct mmul_schedule *schedule = plan_or_die(&(struct mmul_schedule_request){
        .problem = &problem, .cluster = cluster, .weights = weights, .split = MMUL_SPLIT_ROWS});
    assert_covers(schedule);
    const struct mmul_schedule_node *node = &mmul_schedule_nodes(schedule)[1];
    assert_true(node->segment_bytes + node->private_bytes <= node->memory_bytes);
    assert_true(units(schedule, 1) > 20000 && units(schedule, 1) < 40000);
    assert_true(units(schedule, 0) - units(schedule, 2) <= 1 &&
                units(schedule, 2) <= units(schedule, 0));
    assert_string_equal(mmul_schedule_ranks(schedule)[1].why, "limited by the node's memory");
    mmul_schedule_free(schedule);
    mmul_cluster_destroy(cluster);
}

static void test_a_product_too_large_names_needed_and_available_memory(void **state) {
    (void)state;
    struct mmul_problem problem = make_problem(1000000, 1000, 1000);
    struct mmul_cluster *cluster = make_cluster(2, 1);
    const double weights[] = {1, 1};
    struct mmul_schedule *schedule;
    struct mmul_error err;
    const struct mmul_schedule_request request = {.problem = &problem,
                                                  .cluster = cluster,
                                                  .weights = weights,
                                                  .split = MMUL_SPLIT_ROWS,
                                                  .memory_limit_bytes = GIB};
    assert_int_equal(mmul_schedule_make(&request, &schedule, &err), MMUL_ERR_SYSTEM);
    assert_string_equal(err.text,
                        "cannot fit 'A.bin' x 'B.bin' into memory: 3.8 MiB on every node, "
                        "7.5 GiB shared among nodes and 8.8 MiB of work space needed, "
                        "2.0 GiB available on 2 nodes");
    mmul_cluster_destroy(cluster);
}

// Three kinds of device; the share follows the speed, tiles fit the device. A schedule exists with
// the least memory of a product, or a few percent more. With three quarters of it none exists,
// whatever the job's limit.
static void test_the_least_memory_is_enough_and_less_is_refused(void **state) {
    (void)state;
    const struct {
        int64_t m, n, k;
        int ranks, per_node;
        bool maps;
    } cases[] = {{4096, 4096, 4096, 1, 1, false}, {4096, 500, 9000, 3, 1, false},
                 {300, 20000, 700, 4, 2, false},  {4096, 4096, 4096, 4, 4, true},
                 {40, 30, 500000, 3, 3, true},    {20000, 64, 20000, 6, 2, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mmul_problem problem = make_problem(cases[i].m, cases[i].n, cases[i].k);
        struct mmul_cluster *cluster = make_cluster(cases[i].ranks, cases[i].per_node);
        const double weights[] = {3, 1, 2, 2, 1, 3};
        const unsigned maps[] = {MMUL_MAPS_A | MMUL_MAPS_B, 0, 0};
        struct mmul_schedule_request request = {.problem = &problem,
                                                .cluster = cluster,
                                                .weights = weights,
                                                .node_maps = cases[i].maps ? maps : NULL,
                                                .split = MMUL_SPLIT_ROWS,
                                                .panels = true,
                                                .memory_limit_bytes = 1 << 20};
        struct mmul_error err;
        struct mmul_schedule *schedule = NULL;
        int64_t least = 0, most[6];
        assert_int_equal(mmul_schedule_least_memory(&request, &least, &err), MMUL_OK);
        request.most_bytes = most;
        for (int node = 0; node < 6; node++)
            most[node] = least * 11 / 10;
        if (mmul_schedule_make(&request, &schedule, &err) != MMUL_OK)
            fail_msg("case %zu, least %lld: %s", i, (long long)least, err.text);
        assert_covers(schedule);
        mmul_schedule_free(schedule);
        for (int node = 0; node < 6; node++)
            most[node] = least * 3 / 4;
        assert_int_equal(mmul_schedule_make(&request, &schedule, &err), MMUL_ERR_SYSTEM);
        mmul_cluster_destroy(cluster);
    }
}

static void test_shares_of_4096_ranks_follow_the_speeds(void **state) {
    (void)state;
    static const double speeds[] = {1e12, 4e12, 1e11};
    struct mmul_problem problem = make_problem(1 << 20, 16384, 16384);
    struct mmul_cluster *cluster = make_cluster(4096, 4);
    for (int rank = 0; rank < 4096; rank++) {
        struct mmul_rank_info *r = &cluster->ranks[rank];
        r->speed_flops = speeds[rank % 3];
        r->host_memory = rank % 3 == 2;
        r->device.memory_bytes = rank % 3 == 0 ? 2 * GIB : 8 * GIB;
        r->device.max_allocation_bytes = r->device.memory_bytes / 4;
    }
    static double weights[4096];
    for (int rank = 0; rank < 4096; rank++)
        weights[rank] = speeds[rank % 3];
    struct mmul_schedule *schedule = plan_or_die(&(struct mmul_schedule_request){
        .problem = &problem, .cluster = cluster, .weights = weights});
    assert_covers(schedule);
    double sum = 1366 * speeds[0] + 1365 * speeds[1] + 1365 * speeds[2];
    for (int rank = 0; rank < 4096; rank++) {
        const struct mmul_schedule_rank *r = &mmul_schedule_ranks(schedule)[rank];
        double ideal = (1 << 20) * speeds[rank % 3] / sum;
        assert_true((double)units(schedule, rank) > ideal - 1 &&
                    (double)units(schedule, rank) < ideal + 1);
        if (rank % 3 == 2)
            assert_int_equal(r->tile.device_bytes, 0);
        else
            assert_in_range(r->tile.device_bytes, 1, cluster->ranks[rank].device.memory_bytes);
    }
    mmul_schedule_free(schedule);
    mmul_cluster_destroy(cluster);
}

static void test_tiles_fit_the_device(void **state) {
    (void)state;
    static const struct mmul_tile_request requests[] = {
        {1000, 900, 800, 4, 4, false, GIB, GIB / 4},
        {20000, 20000, 20000, 4, 4, false, GIB, GIB / 4},
        {1, 2000000000, 3, 4, 4, false, GIB, GIB / 4},
        {3, 1, 2000000000, 2, 2, false, GIB, GIB / 4},
        {100000, 100000, 100000, 4, 4, false, 512 * GIB, 512 * GIB},
        {20000, 20000, 20000, 2, 4, true, 0, 0},
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        const struct mmul_tile_request *r = &requests[i];
        struct mmul_tile t;
        struct mmul_error err;
        assert_int_equal(mmul_tile_choose(r, &t, &err), MMUL_OK);
        assert_in_range(t.m, 1, r->m);
        assert_in_range(t.n, 1, r->n);
        assert_in_range(t.k, 1, r->k);
        int64_t a = t.m * t.k, b = t.k * t.n, c = t.m * t.n;
        if (r->host_memory) {
            assert_in_range(4 * a, 1, MMUL_HOST_STAGING_BYTES);
            continue;
        }
        assert_in_range(4 * (a + b + c), 1, r->memory_bytes);
        assert_in_range(4 * (a + b + c), 1, r->max_allocation_bytes);
        assert_in_range(a + b + c, 1, INT32_MAX);
    }
    struct mmul_tile whole;
    struct mmul_error err;
    assert_int_equal(mmul_tile_choose(&requests[0], &whole, &err), MMUL_OK);
    assert_int_equal(whole.m * whole.n * whole.k, 1000 * 900 * 800);
}

static void test_a_device_too_small_for_a_tile_is_refused(void **state) {
    (void)state;
    struct mmul_tile tile;
    struct mmul_error err;
    const struct mmul_tile_request request = {1000, 1000, 1000, 4, 4, false, 1000, 1000};
    assert_int_equal(mmul_tile_choose(&request, &tile, &err), MMUL_ERR_SYSTEM);
    assert_string_equal(err.text, "cannot fit a tile of 64 x 64 x 64 into 1000 B of device memory");
}

static void test_unusable_weights_are_refused_and_zero_is_not(void **state) {
    (void)state;
    struct mmul_problem problem = make_problem(10, 10, 10);
    struct mmul_cluster *cluster = make_cluster(2, 1);
    static const double zero_first[] = {0, 1}, none[] = {0, 0}, negative[] = {1, -1};
    struct mmul_schedule_request request = {
        .problem = &problem, .cluster = cluster, .weights = zero_first, .split = MMUL_SPLIT_ROWS};
    struct mmul_schedule *schedule = plan_or_die(&request);
    struct mmul_error err;
    assert_int_equal(units(schedule, 0), 0);
    assert_string_equal(mmul_schedule_ranks(schedule)[0].why, "weight 0");
    assert_int_equal(mmul_schedule_nodes(schedule)[0].segment_bytes, 0);
    mmul_schedule_free(schedule);
    request.weights = none;
    assert_int_equal(mmul_schedule_make(&request, &schedule, &err), MMUL_ERR_USAGE);
    request.weights = negative;
    assert_int_equal(mmul_schedule_make(&request, &schedule, &err), MMUL_ERR_USAGE);
    mmul_cluster_destroy(cluster);
}

// ------------------------------------------------------------------------------ predicted seconds

// Without weights all ranks end together, and later than any would compute alone.
static void test_automatic_shares_end_together(void **state) {
    (void)state;
    unsigned maps[8];
    struct mmul_problem problem = make_problem(16000, 8000, 8000);
    struct mmul_cluster *cluster = make_measured_cluster(6, 2, maps);
    struct mmul_schedule *schedule = plan_or_die(&(struct mmul_schedule_request){
        .problem = &problem, .cluster = cluster, .node_maps = maps, .split = MMUL_SPLIT_ROWS});
    const struct mmul_schedule_rank *ranks = mmul_schedule_ranks(schedule);
    assert_covers(schedule);
    for (int rank = 0; rank < 6; rank++) {
        assert_true(ranks[rank].finish_seconds > 0.99 * schedule->predicted_seconds);
        assert_true(ranks[rank].finish_seconds <= schedule->predicted_seconds);
        assert_string_equal(ranks[rank].why, "");
    }
    assert_true(units(schedule, 0) > units(schedule, 2) &&
                units(schedule, 2) > 5 * units(schedule, 5));
    assert_true(schedule->compute_seconds > 0 && schedule->waiting_seconds >= 0);
    assert_true(fabs(schedule->compute_seconds + schedule->waiting_seconds -
                     schedule->predicted_seconds) < 1e-12);
    assert_true(ranks[schedule->last_rank].finish_seconds > 0);
    assert_memory_equal(schedule->limits, "compute on rank ", 16);
    assert_string_equal(schedule->speed_hint, "");
    int64_t piece = 4 * 8000, row = 4 * 8000, moved = 0;
    for (int rank = 2; rank < 6; rank++)
        moved += units(schedule, rank) * (piece + row);
    // B leaves root once, whichever node relays it
    assert_int_equal(schedule->root_bytes, moved + 4 * 8000 * 8000);
    mmul_schedule_free(schedule);
    mmul_cluster_destroy(cluster);
}

// A rank of unknown speed gets nothing if the others' speeds are known; if none is known, all get
// the same.
static void test_a_rank_of_unknown_speed_gets_no_share(void **state) {
    (void)state;
    unsigned maps[8];
    struct mmul_problem problem = make_problem(999, 1000, 1000);
    struct mmul_cluster *cluster = make_measured_cluster(3, 3, maps);
    const struct mmul_schedule_request request = {
        .problem = &problem, .cluster = cluster, .node_maps = maps, .split = MMUL_SPLIT_ROWS};
    cluster->ranks[1].speed_flops = 0;
    struct mmul_schedule *schedule = plan_or_die(&request);
    assert_int_equal(units(schedule, 1), 0);
    assert_string_equal(mmul_schedule_ranks(schedule)[1].why, "speed not measured");
    assert_true(schedule->predicted_seconds > 0);
    mmul_schedule_free(schedule);
    cluster->ranks[0].speed_flops = cluster->ranks[2].speed_flops = 0;
    schedule = plan_or_die(&request);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(units(schedule, rank), 333);
    assert_true(schedule->predicted_seconds == 0 &&
                mmul_schedule_ranks(schedule)[0].finish_seconds == 0);
    assert_true(schedule->compute_seconds == 0 && schedule->transfer_seconds > 0);
    mmul_schedule_free(schedule);
    mmul_cluster_destroy(cluster);
}

// Any data sent to rank 1 would delay the other ranks.
static void test_a_link_that_slows_the_job_is_named(void **state) {
    (void)state;
    static const double speeds[] = {3.3e10, 4.1e11, 1.7e11, 1.4e12}, links[] = {0, 3.5e7, 9e9, 9e9};
    unsigned maps[8];
    struct mmul_problem problem = make_problem(118783, 2637, 355);
    struct mmul_cluster *cluster = make_measured_cluster(4, 1, maps);
    double seconds = 0, against = 0;
    for (int i = 0; i < 4; i++) {
        cluster->ranks[i].speed_flops = speeds[i];
        cluster->nodes[i].root_link.bytes_per_second = links[i];
        cluster->nodes[i].cores_allowed = 64; // traffic takes no compute time
    }
    struct mmul_schedule *schedule =
        plan_or_die(&(struct mmul_schedule_request){.problem = &problem,
                                                    .cluster = cluster,
                                                    .node_maps = maps,
                                                    .split = MMUL_SPLIT_ROWS,
                                                    .panels = true});
    assert_int_equal(units(schedule, 1), 0);
    assert_string_equal(mmul_schedule_ranks(schedule)[1].why, "slows the job: slow link");
    assert_int_equal(sscanf(schedule->speed_hint, "faster without rank 1: %lf s against %lf s",
                            &seconds, &against),
                     2);
    assert_true(seconds < 0.5 * against && fabs(seconds / schedule->predicted_seconds - 1) < 0.1);
    mmul_schedule_free(schedule);
    mmul_cluster_destroy(cluster);
}

static void test_a_rank_that_slows_the_job_is_left_out_and_named(void **state) {
    (void)state;
    unsigned maps[8];
    struct mmul_problem problem = make_problem(16000, 8000, 8000);
    struct mmul_cluster *cluster = make_measured_cluster(4, 1, maps);
    double seconds, against;
    char end;
    cluster->nodes[1].root_link.bytes_per_second = 2e6;
    cluster->nodes[1].ring_link.bytes_per_second = 2e6;
    cluster->nodes[0].cores_allowed = 1; // sending takes compute time of root's CPU
    struct mmul_schedule *schedule = plan_or_die(&(struct mmul_schedule_request){
        .problem = &problem, .cluster = cluster, .node_maps = maps, .split = MMUL_SPLIT_ROWS});
    assert_int_equal(units(schedule, 1), 0);
    assert_true(strstr(mmul_schedule_ranks(schedule)[1].why, "too late") != NULL ||
                strstr(mmul_schedule_ranks(schedule)[1].why, "slow link") != NULL);
    assert_int_equal(mmul_schedule_nodes(schedule)[1].network_bytes, 0);
    assert_true(mmul_schedule_nodes(schedule)[2].chain_place == 1);
    mmul_schedule_free(schedule);
    // With given weights the rank stays, and a warning names it.
    const double equal[] = {1, 1, 1, 1};
    schedule = plan_or_die(&(struct mmul_schedule_request){.problem = &problem,
                                                           .cluster = cluster,
                                                           .node_maps = maps,
                                                           .weights = equal,
                                                           .split = MMUL_SPLIT_ROWS});
    for (int rank = 0; rank < 4; rank++)
        assert_int_equal(units(schedule, rank), 4000);
    assert_int_equal(sscanf(schedule->speed_hint, "faster without ranks 1, 3: %lf s against %lf %c",
                            &seconds, &against, &end),
                     3);
    assert_true(seconds < against && against > 0.94 * schedule->predicted_seconds);
    assert_string_equal(schedule->limits, "network, 0.016 Gbit/s to node1");
    mmul_schedule_free(schedule);
    mmul_cluster_destroy(cluster);
}

static void test_the_formula_is_printed_as_given(void **state) {
    (void)state;
    static const struct {
        bool transpose_a, transpose_b;
        float alpha, beta;
        const char *line;
    } cases[] = {
        {false, false, 1, 0, "C = A B: A.bin x B.bin -> 7 x 5, m n k = 7 5 9\n"},
        {true, false, -2, 1, "C = -2 A^T B + C: "},
        {false, true, -1, -0.5F, "C = -A B^T - 0.5 C: "},
        {false, false, 0, -3, "C = -3 C: "},
        {false, false, 0, 0, "C = 0: "},
    };
    unsigned maps[1];
    struct mmul_cluster *cluster = make_measured_cluster(1, 1, maps);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mmul_problem problem = make_problem(7, 5, 9);
        problem.transpose_a = cases[i].transpose_a;
        problem.transpose_b = cases[i].transpose_b;
        problem.alpha = cases[i].alpha;
        problem.beta = cases[i].beta;
        struct mmul_schedule *schedule = plan_or_die(&(struct mmul_schedule_request){
            .problem = &problem, .cluster = cluster, .node_maps = maps});
        char *text = NULL;
        size_t length = 0;
        FILE *stream = open_memstream(&text, &length);
        mmul_plan_print(&(struct mmul_plan){.schedule = schedule}, stream);
        assert_int_equal(fclose(stream), 0);
        assert_memory_equal(text, cases[i].line, strlen(cases[i].line));
        free(text);
        mmul_schedule_free(schedule);
    }
    mmul_cluster_destroy(cluster);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_rows_follow_the_weights, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_ranks_beyond_the_rows_get_none, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_the_axis_with_fewer_network_bytes_is_split,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_shares_are_clipped_to_memory, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_a_product_too_large_names_needed_and_available_memory,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_the_least_memory_is_enough_and_less_is_refused,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_shares_of_4096_ranks_follow_the_speeds,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_unusable_weights_are_refused_and_zero_is_not,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_automatic_shares_end_together, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_a_rank_of_unknown_speed_gets_no_share, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_a_link_that_slows_the_job_is_named, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_a_rank_that_slows_the_job_is_left_out_and_named,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_the_formula_is_printed_as_given, assert_no_live_bytes),
        cmocka_unit_test(test_tiles_fit_the_device),
        cmocka_unit_test(test_a_device_too_small_for_a_tile_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
