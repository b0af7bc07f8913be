// SPDX-License-Identifier: MIT
// Simulated runs: seconds that can be added up on paper, properties that hold for any schedule, and
// random clusters compared with an independent event-driven simulation (simulated_run.h).
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "base/integer.h"
#include "plan/parts/panels.h"
#include "plan/replay/replay.h"
#include "schedules.h"
#include "simulated_run.h"

static bool near(double x, double y) {
    return fabs(x - y) <= 1e-9 * fmax(1e-3, fabs(y));
}

// A schedule with the cut given by the test, and its cost.
struct trial {
    struct mmul_problem problem;
    struct mmul_cluster *cluster;
    unsigned maps[RANKS_MOST];
    struct mmul_schedule *schedule;
    struct mmul_cost *cost;
    struct mmul_replay *replay;
};

static void set_cost(struct trial *t) {
    const struct mmul_schedule *schedule = t->schedule;
    struct mmul_error err;
    const struct mmul_cost_request request = {.problem = &t->problem,
                                              .axis = schedule->axis,
                                              .cluster = t->cluster,
                                              .node_maps = t->maps};
    struct mmul_cut cut = {.rounds = schedule->rounds,
                           .panels = mmul_schedule_panels(schedule),
                           .panel_units = schedule->panel_units,
                           .panel_matrices = schedule->panel_matrices,
                           .whole_stays = true};
    for (int i = 0; i < schedule->node_count; i++)
        cut.whole_stays &= mmul_schedule_nodes(schedule)[i].whole_stays;
    int64_t counts[RANKS_MOST];
    for (int rank = 0; rank < schedule->size; rank++)
        counts[rank] =
            mmul_schedule_ranks(schedule)[rank].end - mmul_schedule_ranks(schedule)[rank].begin;
    mmul_cost_destroy(t->cost);
    assert_int_equal(mmul_cost_create(&request, &t->cost, &err), MMUL_OK);
    mmul_cost_set(t->cost, &cut);
    mmul_cost_set_counts(t->cost, counts);
}

static struct mmul_schedule_node *node_of(struct mmul_schedule *schedule, int node) {
    return (struct mmul_schedule_node *)(uintptr_t)&mmul_schedule_nodes(schedule)[node];
}

// Equal shares; root's node maps its files; panels of `panel_units` columns, which all stay.
static void trial_init(struct trial *t, struct mmul_cluster *cluster, struct mmul_problem problem,
                       int64_t panel_units) {
    double weights[RANKS_MOST];
    *t = (struct trial){.problem = problem, .cluster = cluster, .maps = {ALL}};
    for (int rank = 0; rank < cluster->size; rank++)
        weights[rank] = 1;
    t->schedule = plan_or_die(&(struct mmul_schedule_request){.problem = &t->problem,
                                                              .cluster = cluster,
                                                              .node_maps = t->maps,
                                                              .weights = weights,
                                                              .split = MMUL_SPLIT_ROWS});
    t->schedule->panel_units = panel_units;
    for (int node = 1; node < t->schedule->node_count; node++)
        node_of(t->schedule, node)->whole_slots = node_of(t->schedule, node)->result_slots =
            mmul_schedule_panels(t->schedule);
    set_cost(t);
}

static void replay_several(struct trial *t, int count,
                           void (*tell)(void *, const struct mmul_replay_event *), void *context) {
    const struct mmul_stage_plan stages[2] = {{.seconds = 0}};
    const struct mmul_product_plan products[] = {{t->schedule, t->cost, 0, -1},
                                                 {t->schedule, t->cost, 1, -1}};
    const struct mmul_replay_request request = {.cluster = t->cluster,
                                                .stages = stages,
                                                .products = products,
                                                .count = count,
                                                .product_count = count,
                                                .tell = tell,
                                                .context = context};
    struct mmul_error err;
    mmul_replay_destroy(t->replay);
    t->replay = NULL;
    assert_int_equal(mmul_replay_make(&request, &t->replay, &err), MMUL_OK);
}

static void replay_one(struct trial *t) {
    replay_several(t, 1, NULL, NULL);
}

static void trial_fini(struct trial *t) {
    mmul_replay_destroy(t->replay);
    mmul_cost_destroy(t->cost);
    mmul_schedule_free(t->schedule);
    mmul_cluster_destroy(t->cluster);
}

// ------------------------------------------------------------------------------------- on paper

// 1000 x 2400 (k) x 400 on two nodes: 500 rows each, a link of 1e8 bytes per second and 1 ms.
enum { M = 1000, K = 2400, N = 400 };
static const double RATE = 1e8, LATENCY = 1e-3, EXCHANGE = LATENCY + MMUL_RENDEZVOUS_SECONDS;
static const double A = 4.0 * M / 2 * K / 1e8, B = 4.0 * K * N / 1e8, C = 4.0 * M / 2 * N / 1e8;

static struct mmul_cluster *make_pair(double flops) {
    struct mmul_cluster *cluster = make_linked_cluster(2, 1, 1);
    cluster->nodes[1].root_link = (struct mmul_link){RATE, LATENCY};
    for (int rank = 0; rank < 2; rank++)
        cluster->ranks[rank].speed_flops = flops;
    return cluster;
}

// Returns the seconds of all passes of a rank by the formula of plan/cost/pass_cost.h, for panels
// of `width` columns.
static double computing_seconds(double flops, double width, bool at_once) {
    double panels = N / width, x = M / 2.0, wide = at_once ? N : width;
    double side = fmin(64, 3 / (1 / x + 1 / wide + 1. / K));
    double seconds = panels * 2 * x * width * K / (flops * side / 64) +
                     panels * (at_once ? 150e-6 / panels : 150e-6) +
                     4 * (panels * width * K + x * K * (at_once ? 1 : panels) + x * N) / 4e9;
    return seconds + (at_once ? 0.35e-9 * 4 * x * N : 0);
}

struct log {
    double begin[MMUL_ROUTES][8], end[MMUL_ROUTES][8];
    int count[MMUL_ROUTES];
};

static void record_event(void *context, const struct mmul_replay_event *event) {
    struct log *log = context;
    int route = (int)event->transfer->route;
    if (event->node != 1)
        return;
    log->begin[route][log->count[route]] = event->begin;
    log->end[route][log->count[route]++] = event->end;
}

// One after the other: pieces, the panel, the product, the block.
static void test_a_single_panel_runs_in_sequence(void **state) {
    (void)state;
    struct trial t;
    struct log log = {0};
    trial_init(&t, make_pair(1e10), make_problem(M, N, K), N);
    replay_several(&t, 1, record_event, &log);
    double tau = computing_seconds(1e10, N, false);
    assert_true(near(log.begin[MMUL_ROUTE_SCATTER][0], 0));
    assert_true(near(log.end[MMUL_ROUTE_SCATTER][0], A + EXCHANGE));
    assert_true(near(log.begin[MMUL_ROUTE_RELAY][0], A + EXCHANGE + LATENCY));
    assert_true(near(log.end[MMUL_ROUTE_RELAY][0], A + B + EXCHANGE + LATENCY));
    assert_true(near(log.begin[MMUL_ROUTE_GATHER][0], A + B + EXCHANGE + LATENCY + tau));
    assert_true(near(t.replay->ranks[1].finish, A + B + C + 2 * EXCHANGE + LATENCY + tau));
    assert_true(near(t.replay->ranks[1].compute_seconds, tau));
    assert_true(near(t.replay->ranks[0].finish, computing_seconds(1e10, N, true)));
    assert_true(near(t.replay->seconds, t.replay->ranks[1].finish));
    assert_true(near(t.replay->root_out_seconds, A + B + EXCHANGE));
    assert_true(near(t.replay->root_in_seconds, C + EXCHANGE));
    trial_fini(&t);
}

// Four panels: the slower of link and device is busy without a pause, and hides the other.
static void test_the_slower_of_link_and_device_is_always_busy(void **state) {
    (void)state;
    static const double flops[] = {1e12, 1e9};
    for (int slow = 0; slow < 2; slow++) {
        struct trial t;
        trial_init(&t, make_pair(flops[slow]), make_problem(M, N, K), N / 4);
        replay_one(&t);
        double tau = computing_seconds(flops[slow], N / 4., false) / 4, gather = C / 4 + EXCHANGE;
        assert_true(slow ? tau > B / 4 && tau > gather : tau < B / 4 && gather < B / 4);
        double end = slow ? A + B / 4 + 4 * tau : A + B + tau;
        assert_true(near(t.replay->ranks[1].finish, end + gather + EXCHANGE + LATENCY));
        trial_fini(&t);
    }
}

// Two slots for panels: the third panel waits until the first has been multiplied.
static void test_panels_wait_for_slots(void **state) {
    (void)state;
    struct trial t;
    struct log log = {0};
    trial_init(&t, make_pair(1e9), make_problem(M, N, K), N / 4);
    node_of(t.schedule, 1)->whole_slots = 2;
    node_of(t.schedule, 1)->whole_stays = false;
    set_cost(&t);
    replay_several(&t, 1, record_event, &log);
    double tau = computing_seconds(1e9, N / 4., false) / 4, first = A + B / 4 + EXCHANGE + LATENCY;
    assert_true(near(log.begin[MMUL_ROUTE_RELAY][1], first));
    assert_true(near(log.begin[MMUL_ROUTE_RELAY][2], first + tau));
    assert_true(near(log.begin[MMUL_ROUTE_RELAY][3], first + 2 * tau));
    assert_true(near(t.replay->ranks[1].finish, first + 4 * tau + C / 4 + EXCHANGE));
    trial_fini(&t);
}

// A panel reaches the third node one packet and one latency after the second.
static void test_a_chain_adds_a_packet_and_a_latency_per_node(void **state) {
    (void)state;
    struct trial t;
    struct mmul_cluster *cluster = make_linked_cluster(3, 1, 1);
    for (int node = 1; node < 3; node++)
        cluster->nodes[node].root_link = (struct mmul_link){RATE, LATENCY};
    trial_init(&t, cluster, make_problem(3 * 1000, 512, 2048), 512);
    replay_one(&t);
    double pieces = 2 * 4.0 * 1000 * 2048 / RATE, panel = 4.0 * 512 * 2048 / RATE;
    double block = 4.0 * 1000 * 512 / RATE, tau = t.replay->ranks[2].compute_seconds;
    double packet = MMUL_PACKET_BYTES / RATE,
           there = pieces + panel + packet + EXCHANGE + 2 * LATENCY;
    assert_true(near(t.replay->seconds,
                     there + tau + 2 * block + EXCHANGE)); // both blocks together
    assert_true(near(t.replay->ranks[2].finish, t.replay->seconds));
    assert_true(near(t.replay->ranks[1].finish, t.replay->seconds - packet - LATENCY));
    trial_fini(&t);
}

// Sending slows root's computing down while it computes. Receiving costs nothing for a rank that
// waits.
static void test_sending_slows_root_s_computing(void **state) {
    (void)state;
    struct trial t;
    struct mmul_cluster *cluster = make_pair(1e9);
    for (int rank = 0; rank < 2; rank++) {
        cluster->ranks[rank].speed.send_seconds_per_byte = 3e-9;
        cluster->ranks[rank].speed.receive_seconds_per_byte = 2e-9;
        cluster->nodes[rank].cores_allowed = 64;
    }
    trial_init(&t, cluster, make_problem(M, N, K), N);
    replay_one(&t);
    double lost = 3e-9 * (A + B) * RATE, own = computing_seconds(1e9, N, true);
    assert_true(own > A + B && own + lost < A + B + computing_seconds(1e9, N, false));
    assert_true(near(t.replay->ranks[0].finish, own + lost));
    assert_true(near(t.replay->ranks[1].compute_seconds, computing_seconds(1e9, N, false)));
    trial_fini(&t);
}

// While the first block goes back, the second panel arrives at a fraction of the rate.
static void test_a_link_is_slower_in_both_directions_at_once(void **state) {
    (void)state;
    const double duplex = 0.5;
    struct trial t;
    struct log log = {0};
    struct mmul_cluster *cluster = make_pair(1e12);
    cluster->ranks[0].speed.duplex = duplex;
    trial_init(&t, cluster, make_problem(M, N, 2 * K), N / 2);
    replay_several(&t, 1, record_event, &log);
    double gather = C / 2 + EXCHANGE,
           second = 2 * (A + B) + EXCHANGE + LATENCY + (1 / duplex - 1) * gather;
    double tau = log.begin[MMUL_ROUTE_GATHER][0] - log.end[MMUL_ROUTE_RELAY][0];
    assert_true(tau > 0 && gather < B - tau - LATENCY);
    assert_true(near(log.end[MMUL_ROUTE_RELAY][0], 2 * A + B + EXCHANGE + LATENCY));
    assert_true(near(log.end[MMUL_ROUTE_RELAY][1], second));
    assert_true(near(t.replay->ranks[1].finish, second + tau + gather));
    trial_fini(&t);
}

// The second of two products: its pieces arrive beside the first one's panel, its panel while that
// is computed.
static void test_operands_of_a_second_product_arrive_early(void **state) {
    (void)state;
    struct trial t;
    trial_init(&t, make_pair(1e9), make_problem(M, N, K), N);
    replay_several(&t, 2, NULL, NULL);
    double tau = computing_seconds(1e9, N, false);
    assert_true(B < A && tau > A + B && tau > C);
    assert_true(near(t.replay->ranks[1].finish, A + 2 * B + 2 * tau + C + 2 * EXCHANGE + LATENCY));
    assert_true(near(t.replay->ranks[1].compute_seconds, 2 * tau));
    assert_true(near(t.replay->ranks[0].finish, 2 * computing_seconds(1e9, N, true)));
    trial_fini(&t);
}

// --------------------------------------------------------------------------- whatever the schedule

static struct mmul_problem random_problem(void) {
    return make_problem(64 * (int64_t)random_between(200, 1000),
                        64 * (int64_t)random_between(32, 500),
                        64 * (int64_t)pow(500, random_between(0, 1)));
}

// With instant links no rank waits: a rank ends when its steps are computed. Faster links never
// delay it.
static void test_faster_links_never_delay_a_rank(void **state) {
    (void)state;
    state_of_random = 7;
    for (int turn = 0; turn < 30; turn++) {
        struct trial t;
        int size = 2 + (int)random_between(0, 14);
        trial_init(&t, random_cluster(size), random_problem(), 64 << (int)random_between(0, 5));
        double before = INFINITY;
        for (double speed_hint = 1; speed_hint < 1e12; speed_hint *= 1e3) {
            for (int node = 0; node < t.cluster->node_count; node++) {
                t.cluster->nodes[node].root_link.bytes_per_second *= speed_hint;
                t.cluster->nodes[node].root_link.latency_seconds /= speed_hint;
            }
            set_cost(&t);
            replay_one(&t);
            assert_true(t.replay->seconds <= before * (1 + 1e-9));
            before = t.replay->seconds;
        }
        for (int rank = 0; rank < size; rank++) {
            const struct mmul_schedule_rank *r = &mmul_schedule_ranks(t.schedule)[rank];
            double seconds = t.cost->passes * mmul_pass_seconds(&t.cost->ranks[rank].pass,
                                                                (double)(r->end - r->begin));
            assert_true(fabs(t.replay->ranks[rank].compute_seconds / seconds - 1) < 1e-6);
        }
        trial_fini(&t);
    }
}

// Rounds that the replay skips take as long as those it walks.
static void test_skipped_rounds_take_as_long_as_walked_ones(void **state) {
    (void)state;
    static const int64_t rounds[] = {4, 16, 100};
    double seconds[3];
    for (int i = 0; i < 3; i++) {
        struct trial t;
        trial_init(&t, make_pair(1e9), make_problem(2 * 800, 4096, K), 64);
        t.schedule->rounds = rounds[i];
        for (int node = 0; node < 2; node++)
            node_of(t.schedule, node)->piece_lanes = 2;
        set_cost(&t);
        replay_one(&t);
        const struct mmul_pass_cost *step = &t.cost->ranks[1].pass;
        double all = t.cost->passes * mmul_pass_seconds(step, 800. / (double)rounds[i]);
        assert_true(fabs(t.replay->ranks[1].compute_seconds / all - 1) < 1e-6);
        seconds[i] = t.replay->ranks[1].finish / all;
        assert_true(seconds[i] > 1 && seconds[i] < 1.2);
        trial_fini(&t);
    }
    assert_true(seconds[0] > seconds[1]); // the first round is shorter
}

// Steps other than products: a rank continues with the next step when done, unless it waits for
// others. Data of a product's transfers are available at once, or when they have been computed.
static void test_steps_without_a_product_run_back_to_back(void **state) {
    (void)state;
    static const double first = 0.25, last = 0.5;
    struct trial t;
    struct mmul_error err;
    double ends[3], seconds[2];
    trial_init(&t, make_pair(1e9), make_problem(M, N, K), N);
    replay_one(&t);
    const double alone = t.replay->seconds;
    double compute = fmax(t.replay->ranks[0].compute_seconds, t.replay->ranks[1].compute_seconds);
    for (int made = 0; made < 2; made++) { // the first step computes the data
        const struct mmul_stage_plan stages[] = {
            {.seconds = first}, {.seconds = 0}, {.seconds = last, .waits = MMUL_WAITS_ALL_RANKS}};
        const struct mmul_product_plan product = {t.schedule, t.cost, 1, made ? 0 : -1};
        const struct mmul_replay_request request = {.cluster = t.cluster,
                                                    .stages = stages,
                                                    .products = &product,
                                                    .count = 3,
                                                    .product_count = 1};
        mmul_replay_destroy(t.replay);
        assert_int_equal(mmul_replay_make(&request, &t.replay, &err), MMUL_OK);
        memcpy(ends, t.replay->ends, sizeof ends);
        seconds[made] = t.replay->seconds;
        assert_true(fabs(ends[0] - first) < 1e-9);
        assert_true(ends[1] >= first + compute - 1e-9);
        assert_true(fabs(ends[2] - ends[1] - last) < 1e-9);
    }
    assert_true(fabs(seconds[1] - (first + alone + last)) <
                C + EXCHANGE + 1e-9);            // blocks leave during the last step
    assert_true(seconds[0] < seconds[1] - 1e-3); // the operands arrived during the first step
    trial_fini(&t);
}

// Early moves cross the network one after the other while later stages compute; the first reader of
// a move waits for it.
static void test_the_first_reader_waits_for_an_early_move(void **state) {
    (void)state;
    static const struct {
        int dues[2];
        double end;
    } cases[] = {{{4, 4}, 0.25 + 0.6 + 0.125},       // the last stage waits for both
                 {{3, 4}, 0.25 + 0.3 + 0.5 + 0.125}, // the first one before the long stage
                 {{3, 3}, 0.25 + 0.6 + 0.5 + 0.125}};
    struct trial t;
    struct mmul_error err;
    trial_init(&t, make_pair(1e9), make_problem(M, N, K), N);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct mmul_stage_plan stages[] = {{.seconds = 0.25},
                                                 {.seconds = 0.3, .due = cases[i].dues[0]},
                                                 {.seconds = 0.3, .due = cases[i].dues[1]},
                                                 {.seconds = 0.5},
                                                 {.seconds = 0.125}};
        const struct mmul_replay_request request = {
            .cluster = t.cluster, .stages = stages, .count = 5};
        mmul_replay_destroy(t.replay);
        assert_int_equal(mmul_replay_make(&request, &t.replay, &err), MMUL_OK);
        assert_true(fabs(t.replay->ends[4] - cases[i].end) < 1e-9);
        assert_true(fabs(t.replay->seconds - cases[i].end) < 1e-9);
    }
    trial_fini(&t);
}

// Tests the schedule's own predictions for up to 64 ranks: equal ranks share one prediction.
static void test_predictions_agree_with_a_full_simulation(void **state) {
    (void)state;
    enum { TURNS = 200 };
    int close = 0;
    state_of_random = 3;
    for (int turn = 0; turn < TURNS; turn++) {
        struct trial t = {.cluster = random_cluster(2 + (int)random_between(0, RANKS_MOST - 1)),
                          .problem = random_problem(),
                          .maps = {MMUL_MAPS_A | MMUL_MAPS_B | MMUL_MAPS_C}};
        double units[RANKS_MOST];
        for (int rank = 0; rank < t.cluster->size; rank++) {
            t.cluster->ranks[rank].device_index = -1;
            if (!t.cluster->ranks[rank].host_memory)
                t.cluster->ranks[rank].device.type = MMUL_DEVICE_GPU;
        }
        t.schedule = plan_or_die(&(struct mmul_schedule_request){.problem = &t.problem,
                                                                 .cluster = t.cluster,
                                                                 .node_maps = t.maps,
                                                                 .split = MMUL_SPLIT_ROWS,
                                                                 .panels = true});
        set_cost(&t);
        for (int rank = 0; rank < t.schedule->size; rank++)
            units[rank] = (double)(mmul_schedule_ranks(t.schedule)[rank].end -
                                   mmul_schedule_ranks(t.schedule)[rank].begin);
        bool is_played = t.schedule->rounds == 1 && mmul_schedule_panels(t.schedule) <= PANELS_MOST;
        double off =
            is_played ? fabs(t.schedule->predicted_seconds / simulate_run(t.cost, units) - 1) : 0;
        if (off > 0.25)
            fail_msg("turn %d: %g s predicted, off by %g", turn, t.schedule->predicted_seconds,
                     off);
        close += off < 0.03;
        trial_fini(&t);
    }
    if (close < TURNS * 0.95)
        fail_msg("%d of %d are close", close, TURNS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_single_panel_runs_in_sequence, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_the_slower_of_link_and_device_is_always_busy,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_panels_wait_for_slots, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_a_chain_adds_a_packet_and_a_latency_per_node,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_sending_slows_root_s_computing, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_a_link_is_slower_in_both_directions_at_once,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_operands_of_a_second_product_arrive_early,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_faster_links_never_delay_a_rank, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_skipped_rounds_take_as_long_as_walked_ones,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_steps_without_a_product_run_back_to_back,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_the_first_reader_waits_for_an_early_move,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_predictions_agree_with_a_full_simulation,
                                  assert_no_live_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
