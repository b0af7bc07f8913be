// SPDX-License-Identifier: MIT
// Panels, rounds, lanes and slots: the memory that a schedule reserves on a node is what its steps
// need, and within the limit.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/integer.h"
#include "clusters.h"
#include "plan/lists/transfers.h"
#include "plan/parts/panels.h"
#include "schedules.h"

static const int64_t MIB = 1 << 20;

static uint64_t state_of_random;

static int64_t random_up_to(int64_t most) {
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return 1 + (int64_t)((state_of_random >> 33) % (uint64_t)most);
}

struct stack {
    int64_t batch_a, batch_b;
};

static struct mmul_problem make_stacked_problem(int64_t m, int64_t n, int64_t k, struct stack stack,
                                                float beta) {
    struct mmul_problem problem;
    struct mmul_error err;
    struct mmul_problem_operand a = {{1, stack.batch_a, m, k}, MMUL_F32, "A.bin"};
    struct mmul_problem_operand b = {{1, stack.batch_b, k, n}, MMUL_F32, "B.bin"};
    struct mmul_problem_operand c = {
        {1, mmul_max(stack.batch_a, stack.batch_b), m, n}, MMUL_F32, "C.bin"};
    assert_int_equal(
        mmul_problem_init(
            &(struct mmul_problem_request){.a = a, .b = b, .c_in = &c, .alpha = 1, .beta = beta},
            &problem, &err),
        MMUL_OK);
    return problem;
}

static struct mmul_problem one_product(int64_t m, int64_t n, int64_t k) {
    return make_stacked_problem(m, n, k, (struct stack){1, 1}, 0);
}

// Makes CPUs of 100 GFLOP/s; links of 10 Gbit/s.
static struct mmul_cluster *make_fast_cluster(int size, int per_node) {
    struct mmul_cluster *cluster = make_cluster(size, per_node);
    for (int rank = 0; rank < size; rank++) {
        cluster->ranks[rank].device_index = -1;
        cluster->ranks[rank].speed_flops = 1e11;
    }
    for (int node = 0; node < cluster->node_count; node++)
        cluster->nodes[node].root_link.bytes_per_second = 1.25e9;
    return cluster;
}

// ------------------------------------------------------------------------------------ invariants

static void assert_covers(const struct mmul_schedule *schedule) {
    int64_t at = 0;
    for (int rank = 0; rank < schedule->size; rank++) {
        assert_int_equal(mmul_schedule_ranks(schedule)[rank].begin, at);
        at = mmul_schedule_ranks(schedule)[rank].end;
    }
    assert_int_equal(at, schedule->total);
}

// Checks that every block of every step fits its slot; returns the number of steps with work for
// the node.
static int64_t assert_blocks_fit(const struct mmul_schedule *schedule, int index) {
    const struct mmul_schedule_node *node = &mmul_schedule_nodes(schedule)[index];
    int64_t panel_most = 0, works = 0, loads = 0;
    for (int64_t i = 0; i < mmul_schedule_passes(schedule); i++) {
        struct mmul_pass pass = mmul_schedule_pass(schedule, i);
        int64_t block = mmul_content_bytes(schedule, MMUL_CONTENT_RESULT, index, pass);
        works += block > 0;
        if (!(node->maps & MMUL_MAPS_C))
            assert_true(block <= node->result_slot_bytes);
        if (!mmul_schedule_loads(schedule, index, pass))
            continue;
        loads++;
        panel_most = mmul_max(panel_most, mmul_schedule_panel_bytes(schedule, pass));
    }
    assert_true(panel_most <= node->whole_slot_bytes && panel_most <= MMUL_PANEL_BYTES_MOST);
    if (node->whole_stays && !(node->maps & mmul_maps_whole_operand(schedule->axis)))
        assert_int_equal(loads, node->whole_slots);
    return works;
}

static void assert_lanes_fit(const struct mmul_schedule *schedule, int index) {
    const struct mmul_schedule_node *node = &mmul_schedule_nodes(schedule)[index];
    for (int64_t round = 0; round < schedule->rounds; round++) {
        struct mmul_pass pass =
            mmul_schedule_pass(schedule, round * mmul_schedule_panels(schedule));
        if (!(node->maps & mmul_maps_split_operand(schedule->axis)))
            assert_true(mmul_content_bytes(schedule, MMUL_CONTENT_PIECES, index, pass) <=
                        node->piece_lane_bytes);
        if (!(node->maps & MMUL_MAPS_C_IN))
            assert_true(mmul_content_bytes(schedule, MMUL_CONTENT_C_IN, index, pass) <=
                        node->c_in_lane_bytes);
    }
    assert_int_equal(node->piece_lanes, schedule->rounds > 1 ? 2 : 1);
}

static void assert_node(const struct mmul_schedule *schedule, int index) {
    const struct mmul_schedule_node *node = &mmul_schedule_nodes(schedule)[index];
    assert_true(node->segment_bytes + node->private_bytes <= node->memory_bytes);
    if (node->result_bytes == 0) {
        assert_int_equal(node->segment_bytes, 0);
        return;
    }
    assert_lanes_fit(schedule, index);
    int64_t works = assert_blocks_fit(schedule, index);
    if (!(node->maps & MMUL_MAPS_C))
        assert_true(node->result_slots >= mmul_min(2, works));
    if (!(node->maps & mmul_maps_whole_operand(schedule->axis)) && schedule->problem.alpha != 0)
        assert_true(node->whole_slots >= mmul_min(2, mmul_schedule_panels(schedule)) ||
                    node->whole_stays);
    assert_int_equal(node->segment_bytes,
                     node->piece_lanes * (node->piece_lane_bytes + node->c_in_lane_bytes) +
                         node->whole_slots * node->whole_slot_bytes +
                         node->result_slots * node->result_slot_bytes);
}

static void assert_plan(const struct mmul_schedule *schedule) {
    assert_covers(schedule);
    assert_true(schedule->panel_matrices == 1 ||
                schedule->panel_units ==
                    mmul_problem_result_width(&schedule->problem, schedule->axis));
    for (int node = 0; node < schedule->node_count; node++)
        assert_node(schedule, node);
    for (int node = 0; node < schedule->node_count; node++) // all data pass through root
        assert_true(schedule->root_bytes >= mmul_schedule_nodes(schedule)[node].network_bytes);
}

// ------------------------------------------------------------------------------------------ tests

static void test_random_plans_keep_their_invariants(void **state) {
    (void)state;
    static const struct stack stacks[] = {{1, 1}, {1, 1}, {1, 1}, {7, 1}, {1, 5}, {12, 12}};
    int in_rounds = 0, streamed = 0, did_not_fit = 0, with_claims = 0;
    state_of_random = 3;
    for (int i = 0; i < 600; i++) {
        int per_node = (int)random_up_to(3);
        struct mmul_cluster *cluster = make_fast_cluster((int)random_up_to(9), per_node);
        struct mmul_problem problem =
            make_stacked_problem(random_up_to(5000), random_up_to(3000), random_up_to(5000),
                                 stacks[random_up_to(6) - 1], random_up_to(4) == 1);
        unsigned maps[9] = {random_up_to(2) == 1 ? ALL : 0};
        static const double weights[] = {1, 2, 3, 1, 2, 3, 1, 2, 3};
        struct mmul_schedule *schedule = NULL;
        struct mmul_error err;
        const struct mmul_schedule_request request = {
            .problem = &problem,
            .cluster = cluster,
            .node_maps = maps,
            .weights = random_up_to(3) == 1 ? weights : NULL,
            .panels = true,
            .tail = random_up_to(2) == 1 ? MMUL_TAIL_AUTO : MMUL_TAIL_OFF,
            .journal_seconds = random_up_to(2) == 1 ? 1e-3 * (double)random_up_to(100) : 0,
            .memory_limit_bytes = random_up_to(3) == 1 ? 0 : random_up_to(300) * MIB};
        if (mmul_schedule_make(&request, &schedule, &err) != MMUL_OK) {
            assert_int_equal(err.status, MMUL_ERR_SYSTEM);
            did_not_fit++;
        } else {
            assert_plan(schedule);
            in_rounds += schedule->rounds > 1;
            with_claims += schedule->claim_share > 0;
            for (int node = 0; node < schedule->node_count; node++)
                streamed += !mmul_schedule_nodes(schedule)[node].whole_stays;
        }
        mmul_schedule_free(schedule);
        mmul_cluster_destroy(cluster);
    }
    assert_true(in_rounds > 30 && streamed > 10 && did_not_fit > 5 && with_claims > 30);
}

// 8.6 GB of A pass through two lanes; B and the multiplied blocks are small.
static void test_a_large_operand_streams(void **state) {
    (void)state;
    struct mmul_problem problem = one_product(131072, 64, 16400);
    struct mmul_cluster *cluster = make_fast_cluster(1, 1);
    const struct mmul_schedule_request request = {.problem = &problem,
                                                  .cluster = cluster,
                                                  .node_maps = &ALL,
                                                  .panels = true,
                                                  .memory_limit_bytes = 2 * GIB};
    struct mmul_schedule *schedule = plan_or_die(&request);
    const struct mmul_schedule_node *node = mmul_schedule_nodes(schedule);
    assert_plan(schedule);
    assert_int_equal(mmul_schedule_panels(schedule), 1);
    assert_in_range(schedule->rounds, 9, 10); // 2 x 8.6 GB / rounds below 2 GiB
    assert_int_equal(node->maps, 0);          // a mapping would touch all of A
    assert_int_equal(node->whole_bytes, 4 * 64 * 16400);
    assert_true(node->whole_stays && node->segment_bytes + node->private_bytes <= 2 * GIB);
    mmul_schedule_free(schedule);
    mmul_cluster_destroy(cluster);
}

// An explicit limit can disable parts of the mapping; without one the mapping stays.
static void test_mapping_ends_at_an_explicit_limit(void **state) {
    (void)state;
    struct mmul_problem problem = one_product(8192, 8192, 8192); // 256 MiB each
    static const struct {
        int64_t limit;
        unsigned maps;
    } cases[] = {{0, ALL}, {800 * MIB, ALL}, {760 * MIB, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mmul_cluster *cluster = make_fast_cluster(1, 1);
        if (cases[i].limit == 0) // page cache can be dropped
            cluster->nodes[0].memory_available_bytes = 700 * MIB;
        struct mmul_schedule *schedule =
            plan_or_die(&(struct mmul_schedule_request){.problem = &problem,
                                                        .cluster = cluster,
                                                        .node_maps = &ALL,
                                                        .panels = true,
                                                        .memory_limit_bytes = cases[i].limit});
        assert_plan(schedule);
        assert_int_equal(mmul_schedule_nodes(schedule)->maps, cases[i].maps);
        if (cases[i].maps == ALL) {
            assert_int_equal(mmul_schedule_nodes(schedule)->segment_bytes, 0);
            assert_int_equal(mmul_schedule_passes(schedule), 1); // no transfer to hide: one panel
        }
        mmul_schedule_free(schedule);
        mmul_cluster_destroy(cluster);
    }
}

// With less and less memory: everything stays, then fewer blocks of C, then panels in turn, then
// rounds.
static void test_memory_is_saved_in_order(void **state) {
    (void)state;
    struct mmul_problem problem = one_product(2048, 32768, 4096); // 32, 512, 256 MiB
    static const struct {
        int64_t mib;
        bool four_blocks, stays, one_round;
    } cases[] = {{900, true, true, true},
                 {590, false, true, true},
                 {400, false, false, true},
                 {40, false, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mmul_cluster *cluster = make_fast_cluster(1, 1);
        cluster->ranks[0].speed_flops = 5e12;
        cluster->nodes[0].cores_allowed = 64; // reading takes no compute time
        struct mmul_schedule *schedule =
            plan_or_die(&(struct mmul_schedule_request){.problem = &problem,
                                                        .cluster = cluster,
                                                        .panels = true,
                                                        .memory_limit_bytes = cases[i].mib * MIB});
        const struct mmul_schedule_node *node = mmul_schedule_nodes(schedule);
        assert_plan(schedule);
        // hides the reading of B behind the first panels
        assert_true(mmul_schedule_panels(schedule) >= 4);
        assert_true(node->result_slots >= 2);
        assert_int_equal(node->result_slots == 4, cases[i].four_blocks);
        if (cases[i].one_round)
            assert_int_equal(node->whole_stays, cases[i].stays);
        assert_int_equal(schedule->rounds == 1, cases[i].one_round);
        mmul_schedule_free(schedule);
        mmul_cluster_destroy(cluster);
    }
}

static void test_a_product_too_large_for_pieces_is_refused(void **state) {
    (void)state;
    struct mmul_problem problem = one_product(20000, 20000, 1000000);
    struct mmul_cluster *cluster = make_fast_cluster(1, 1);
    struct mmul_schedule *schedule;
    struct mmul_error err;
    const struct mmul_schedule_request request = {
        .problem = &problem, .cluster = cluster, .panels = true, .memory_limit_bytes = 300 * MIB};
    assert_int_equal(mmul_schedule_make(&request, &schedule, &err), MMUL_ERR_SYSTEM);
    assert_string_equal(
        err.text, "cannot fit 'A.bin' x 'B.bin' into memory, not even in pieces: 488.3 MiB of "
                  "panels on every node and 54.4 MiB of work space needed, 300.0 MiB "
                  "available on 1 node");
    mmul_cluster_destroy(cluster);
}

// ------------------------------------------------------------------------------------------ cuts

static void test_cuts_follow_size_and_memory(void **state) {
    (void)state;
    static const struct {
        int64_t n, k;
        struct stack stack;
        int64_t wanted, panels, units, matrices;
    } cases[] = {
        {4096, 100, {1, 1}, 1, 1, 4096, 1},
        {4096, 100, {1, 1}, 16, 16, 256, 1},
        {1000, 100, {1, 1}, 4, 4, 256, 1}, // multiples of 64
        {63, 100, {1, 1}, 64, 1, 63, 1},
        {65536, 65536, {1, 1}, 1, 16, 4096, 1}, // at most 1 GiB
        {40000, 40000, {1, 1}, 1, 7, 5760, 1},  // then made equal
        {100, 16000000, {1, 1}, 1, 7, 16, 1},   // 64 columns exceed 1 GiB
        {3, 1000000000, {1, 1}, 1, 3, 1, 1},    // one column does, too
        {512, 512, {64, 64}, 8, 8, 512, 8},     // small matrices share a panel
        {512, 512, {64, 64}, 1, 1, 512, 64},
        {512, 512, {6, 6}, 4, 6, 512, 1},
        {512, 512, {64, 1}, 8, 8, 64, 1},      // one B for all of A
        {8192, 8192, {3, 3}, 12, 12, 2048, 1}, // large ones are cut
        {8192, 8192, {9, 9}, 1, 3, 8192, 4},   // four in 1 GiB
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mmul_problem problem =
            make_stacked_problem(5, cases[i].n, cases[i].k, cases[i].stack, 0);
        struct mmul_cut cut = mmul_panels_cut(&problem, MMUL_ROWS, cases[i].wanted);
        assert_int_equal(cut.panels, cases[i].panels);
        assert_int_equal(cut.panel_units, cases[i].units);
        assert_int_equal(cut.panel_matrices, cases[i].matrices);
        assert_int_equal(cut.rounds, 1);
    }
}

static void test_candidate_cuts_differ(void **state) {
    (void)state;
    struct mmul_problem wide = one_product(5, 100000, 10), narrow = one_product(5, 150, 10);
    struct mmul_cut cuts[MMUL_PANEL_CANDIDATES];
    assert_int_equal(mmul_panels_candidates(&wide, MMUL_ROWS, cuts), 7);
    assert_int_equal(cuts[6].panels, 63); // panels of 1600 columns
    assert_int_equal(mmul_panels_candidates(&narrow, MMUL_ROWS, cuts), 3);
    assert_int_equal(cuts[2].panel_units, 64);
}

// A network to hide gives more panels, no network gives one. Without permission to cut there is one
// per round and matrix.
static void test_panels_are_cut_only_for_a_network(void **state) {
    (void)state;
    struct mmul_problem problem = one_product(16384, 16384, 16384);
    const unsigned maps[2] = {ALL, 0};
    for (int nodes = 1; nodes <= 2; nodes++) {
        struct mmul_cluster *cluster = make_fast_cluster(2, nodes == 1 ? 2 : 1);
        cluster->ranks[0].speed_flops = cluster->ranks[1].speed_flops = 1e12;
        for (int i = 0; i < nodes; i++)
            cluster->nodes[i].cores_allowed = 64; // receiving takes no compute time
        struct mmul_schedule_request request = {
            .problem = &problem, .cluster = cluster, .node_maps = maps, .panels = true};
        struct mmul_schedule *schedule = plan_or_die(&request);
        assert_plan(schedule);
        assert_true(nodes == 1 ? mmul_schedule_panels(schedule) == 1
                               : mmul_schedule_panels(schedule) > 1);
        assert_int_equal(mmul_schedule_passes_of(schedule, 1), mmul_schedule_passes(schedule));
        double seconds = schedule->predicted_seconds;
        mmul_schedule_free(schedule);
        request.panels = false;
        schedule = plan_or_die(&request);
        assert_int_equal(mmul_schedule_passes(schedule), 1);
        assert_true(nodes == 1 ? schedule->predicted_seconds == seconds
                               : schedule->predicted_seconds > seconds);
        mmul_schedule_free(schedule);
        mmul_cluster_destroy(cluster);
    }
}

// Thin B: computing cannot begin before the pieces arrive, so they arrive in rounds.
static void test_rounds_hide_the_pieces(void **state) {
    (void)state;
    struct mmul_problem problem = one_product(262144, 512, 1024);
    const unsigned maps[3] = {ALL, 0, 0};
    struct mmul_cluster *cluster = make_fast_cluster(3, 1);
    for (int rank = 0; rank < 3; rank++) {
        cluster->ranks[rank].speed_flops = 2e11;
        cluster->nodes[rank].cores_allowed = 64; // traffic takes no compute time
    }
    struct mmul_schedule *schedule = plan_or_die(&(struct mmul_schedule_request){
        .problem = &problem, .cluster = cluster, .node_maps = maps, .panels = true});
    assert_plan(schedule);
    assert_true(schedule->rounds > 1 && mmul_schedule_nodes(schedule)[1].whole_stays);
    mmul_schedule_free(schedule);
    mmul_cluster_destroy(cluster);
}

// Results that leave the node, or are converted, complete a round in each interval of a journal. A
// round has at least 1024 units.
static void test_rounds_follow_the_journal(void **state) {
    (void)state;
    static const struct {
        unsigned maps;
        double seconds;
        int64_t rounds, less;
    } cases[] = {{ALL & ~MMUL_MAPS_C, 0.5, 6, 4},
                 {ALL & ~MMUL_MAPS_C, 1e-9, 40, 0},
                 {ALL & ~MMUL_MAPS_C, 100, 1, 0},
                 {ALL & ~MMUL_MAPS_C, 0, 1, 0},
                 {ALL, 0.5, 1, 0},
                 {0, 0.5, 6, 4}};
    struct mmul_problem problem = one_product(40000, 1000, 4000); // 3.2 s at full speed
    struct mmul_cluster *cluster = make_fast_cluster(1, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mmul_schedule *schedule =
            plan_or_die(&(struct mmul_schedule_request){.problem = &problem,
                                                        .cluster = cluster,
                                                        .node_maps = &cases[i].maps,
                                                        .split = MMUL_SPLIT_ROWS,
                                                        .panels = true,
                                                        .journal_seconds = cases[i].seconds});
        assert_plan(schedule);
        assert_in_range(schedule->rounds, cases[i].rounds, cases[i].rounds + cases[i].less);
        mmul_schedule_free(schedule);
    }
    mmul_cluster_destroy(cluster);
}

// Four ranks of a node: two share one device, one has another device, one computes in host memory.
// The memory limit applies per device.
static void test_ranks_of_a_device_share_its_memory_limit(void **state) {
    static const int devices[] = {0, 0, 1, -1};
    static const int64_t shares[] = {400, 400, 800, 800}, limited[] = {100, 100, 200, 200};
    struct mmul_cluster *cluster = make_fast_cluster(4, 4);
    (void)state;
    for (int rank = 0; rank < 4; rank++) {
        cluster->ranks[rank].device_index = devices[rank];
        cluster->ranks[rank].device.memory_bytes = 1000;
    }
    for (int rank = 0; rank < 4; rank++) {
        assert_int_equal(mmul_rank_device_bytes(cluster, rank, 0), shares[rank]);
        assert_int_equal(mmul_rank_device_bytes(cluster, rank, 200), limited[rank]);
        assert_int_equal(mmul_rank_device_bytes(cluster, rank, 4000), shares[rank]);
    }
    mmul_cluster_destroy(cluster);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_random_plans_keep_their_invariants, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_ranks_of_a_device_share_its_memory_limit,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_a_large_operand_streams, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_mapping_ends_at_an_explicit_limit, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_memory_is_saved_in_order, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_a_product_too_large_for_pieces_is_refused,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_rounds_hide_the_pieces, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_rounds_follow_the_journal, assert_no_live_bytes),
        cmocka_unit_test(test_cuts_follow_size_and_memory),
        cmocka_unit_test(test_candidate_cuts_differ),
        cmocka_unit_test_teardown(test_panels_are_cut_only_for_a_network, assert_no_live_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
