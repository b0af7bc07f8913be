// SPDX-License-Identifier: MIT
// Lists of transfers: as text for three small clusters, and simulated for many: every list comes to
// its end, and no buffer is overwritten while it is still needed.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/plan_output.h"
#include "base/integer.h"
#include "clusters.h"
#include "plan/lists/transfers.h"
#include "schedules.h"

// Equal shares; the test gives the cut and the slots, regardless of the planner.
struct cut {
    int64_t rounds, panel_units, whole_slots, result_slots;
    int piece_lanes;
    bool root_maps;
    bool spread; // the whole operand is spread over all ranks except every third
};

static struct mmul_schedule *make_plan(int nodes, int per_node, const struct mmul_problem *problem,
                                       const struct cut *cut) {
    struct mmul_cluster *cluster = make_cluster(nodes * per_node, per_node);
    double weights[64];
    int64_t rows[65] = {0};
    int ranks = nodes * per_node, owners = ranks - ranks / 3;
    for (int i = 0; i < 64; i++)
        weights[i] = 1;
    for (int i = 0; i < ranks; i++)
        rows[i + 1] = problem->k * (i + 1 - (i + 1) / 3) / owners;
    struct mmul_schedule *schedule =
        plan_or_die(&(struct mmul_schedule_request){.problem = problem,
                                                    .cluster = cluster,
                                                    .weights = weights,
                                                    .split = MMUL_SPLIT_ROWS,
                                                    .whole_offsets = cut->spread ? rows : NULL});
    mmul_cluster_destroy(cluster);
    schedule->rounds = cut->rounds;
    schedule->panel_units = cut->panel_units;
    for (int i = 0; i < schedule->node_count; i++) {
        struct mmul_schedule_node *node =
            (struct mmul_schedule_node *)(uintptr_t)&mmul_schedule_nodes(schedule)[i];
        bool maps = i == 0 && cut->root_maps;
        node->maps = maps ? ALL : 0;
        node->piece_lanes = maps ? 0 : cut->piece_lanes;
        node->maps &= cut->spread ? ~(unsigned)MMUL_MAPS_B : node->maps;
        node->whole_slots = maps && !cut->spread ? 0 : cut->whole_slots;
        node->whole_stays = cut->whole_slots >= mmul_schedule_panels(schedule);
        node->result_slots = maps ? 0 : cut->result_slots;
        node->chain_place = i;
    }
    return schedule;
}

static void check_text(struct mmul_schedule *schedule, const char *expected) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    mmul_transfers_print(schedule, stream);
    fclose(stream);
    assert_string_equal(text, expected);
    free(text);
    mmul_schedule_free(schedule);
}

// clang-format off
static const char ONE_NODE[] =
    "node  line   transfer     bytes  slot    from  to  waits for      brings\n"
    "   0  store  C of pass 0     96  mapped  -     -   passes done 1  results stored 1\n"
    "   0  store  C of pass 1     96  mapped  -     -   passes done 2  results stored 2\n";

static const char TWO_NODES[] =
    "node  line     transfer      bytes  slot    from  to  waits for      brings\n"
    "   0  scatter  A of round 0      0  -          -   -  -              rounds sent 1\n"
    "   0  relay    B of pass 0      64  -          -   1  rounds sent 1  passes sent 1\n"
    "   0  relay    B of pass 1      64  -          -   1  rounds sent 1  passes sent 2\n"
    "   0  gather   C of pass 0       0  -          -   -  -              results gathered 1\n"
    "   0  gather   C of pass 1       0  -          -   -  -              results gathered 2\n"
    "   0  store    C of pass 0      48  mapped     -   -  passes done 1  results stored 1\n"
    "   0  store    C of pass 1      48  mapped     -   -  passes done 2  results stored 2\n"
    "   1  scatter  A of round 0     48  0          -   -  -              rounds loaded 1\n"
    "   1  relay    B of pass 0      64  0          0   -  -              passes loaded 1, passes sent 1\n"
    "   1  relay    B of pass 1      64  1          0   -  -              passes loaded 2, passes sent 2\n"
    "   1  gather   C of pass 0      48  0          -   -  passes done 1  results stored 1\n"
    "   1  gather   C of pass 1      48  1          -   -  passes done 2  results stored 2\n";

static const char SPREAD[] =
    "node  line     transfer      bytes  slot    from  to  waits for                     brings\n"
    "   0  scatter  A of round 0      0  -          -   -  -                             rounds sent 1\n"
    "   0  relay    B of pass 0      48  -          -   1  rounds sent 1                 relayed 0, passes sent 0\n"
    "   0  relay    B of pass 0      48  0          1   -  -                             relayed 1, passes sent 1\n"
    "   0  relay    B of pass 1      48  -          -   1  rounds sent 1                 relayed 1, passes sent 1\n"
    "   0  relay    B of pass 1      48  0          1   -  passes done 1, passes sent 1  relayed 2, passes sent 2\n"
    "   0  gather   C of pass 0       0  -          -   -  -                             results gathered 1\n"
    "   0  gather   C of pass 1       0  -          -   -  -                             results gathered 2\n"
    "   0  load     B of pass 0      48  0          -   -  -                             passes loaded 1\n"
    "   0  load     B of pass 1      48  0          -   -  passes done 1, passes sent 1  passes loaded 2\n"
    "   0  store    C of pass 0      72  mapped     -   -  passes done 1                 results stored 1\n"
    "   0  store    C of pass 1      72  mapped     -   -  passes done 2                 results stored 2\n"
    "   1  scatter  A of round 0     48  0          -   -  -                             rounds loaded 1\n"
    "   1  relay    B of pass 0      48  0          0   -  -                             relayed 0, passes sent 0\n"
    "   1  relay    B of pass 0      48  -          -   0  -                             relayed 1, passes sent 1\n"
    "   1  relay    B of pass 1      48  0          0   -  passes done 1, passes sent 1  relayed 1, passes sent 1\n"
    "   1  relay    B of pass 1      48  -          -   0  -                             relayed 2, passes sent 2\n"
    "   1  gather   C of pass 0      72  0          -   -  passes done 1                 results stored 1\n"
    "   1  gather   C of pass 1      72  1          -   -  passes done 2                 results stored 2\n"
    "   1  load     B of pass 0      48  0          -   -  -                             passes loaded 1\n"
    "   1  load     B of pass 1      48  0          -   -  passes done 1, passes sent 1  passes loaded 2\n";

static const char THREE_NODES[] =
    "node  line     transfer      bytes  slot  from  to  waits for                     brings\n"
    "   0  scatter  A of round 0      0     -     -   -  -                             rounds sent 1\n"
    "   0  scatter  A of round 1      0     -     -   -  -                             rounds sent 2\n"
    "   0  scatter  A of round 2      0     -     -   -  -                             rounds sent 3\n"
    "   0  relay    B of pass 0      96     -     -   1  rounds sent 1                 passes sent 1\n"
    "   0  relay    B of pass 1      96     -     -   1  rounds sent 1                 passes sent 2\n"
    "   0  relay    B of pass 2      96     -     -   1  rounds sent 2                 passes sent 3\n"
    "   0  relay    B of pass 3      96     -     -   1  rounds sent 2                 passes sent 4\n"
    "   0  relay    B of pass 4      96     -     -   1  rounds sent 3                 passes sent 5\n"
    "   0  relay    B of pass 5      96     -     -   1  rounds sent 3                 passes sent 6\n"
    "   0  gather   C of pass 0       0     -     -   -  -                             results gathered 1\n"
    "   0  gather   C of pass 1       0     -     -   -  -                             results gathered 2\n"
    "   0  gather   C of pass 2       0     -     -   -  -                             results gathered 3\n"
    "   0  gather   C of pass 3       0     -     -   -  -                             results gathered 4\n"
    "   0  gather   C of pass 4       0     -     -   -  -                             results gathered 5\n"
    "   0  gather   C of pass 5       0     -     -   -  -                             results gathered 6\n"
    "   0  read     A of round 0     16     0     -   -  -                             rounds loaded 1\n"
    "   0  read     A of round 1     16     1     -   -  -                             rounds loaded 2\n"
    "   0  read     A of round 2     16     0     -   -  passes done 2                 rounds loaded 3\n"
    "   0  load     B of pass 0      96     0     -   -  -                             passes loaded 1\n"
    "   0  load     B of pass 1      96     0     -   -  passes done 1                 passes loaded 2\n"
    "   0  load     B of pass 2      96     0     -   -  passes done 2                 passes loaded 3\n"
    "   0  load     B of pass 3      96     0     -   -  passes done 3                 passes loaded 4\n"
    "   0  load     B of pass 4      96     0     -   -  passes done 4                 passes loaded 5\n"
    "   0  load     B of pass 5      96     0     -   -  passes done 5                 passes loaded 6\n"
    "   0  store    C of pass 0      24     0     -   -  passes done 1                 results stored 1\n"
    "   0  store    C of pass 1      24     0     -   -  passes done 2                 results stored 2\n"
    "   0  store    C of pass 2      24     0     -   -  passes done 3                 results stored 3\n"
    "   0  store    C of pass 3      24     0     -   -  passes done 4                 results stored 4\n"
    "   0  store    C of pass 4      24     0     -   -  passes done 5                 results stored 5\n"
    "   0  store    C of pass 5      24     0     -   -  passes done 6                 results stored 6\n"
    "   1  scatter  A of round 0     16     0     -   -  -                             rounds loaded 1\n"
    "   1  scatter  A of round 1     16     1     -   -  -                             rounds loaded 2\n"
    "   1  scatter  A of round 2     16     0     -   -  passes done 2                 rounds loaded 3\n"
    "   1  relay    B of pass 0      96     0     0   2  -                             passes loaded 1, passes sent 1\n"
    "   1  relay    B of pass 1      96     0     0   2  passes done 1, passes sent 1  passes loaded 2, passes sent 2\n"
    "   1  relay    B of pass 2      96     0     0   2  passes done 2, passes sent 2  passes loaded 3, passes sent 3\n"
    "   1  relay    B of pass 3      96     0     0   2  passes done 3, passes sent 3  passes loaded 4, passes sent 4\n"
    "   1  relay    B of pass 4      96     0     0   2  passes done 4, passes sent 4  passes loaded 5, passes sent 5\n"
    "   1  relay    B of pass 5      96     0     0   2  passes done 5, passes sent 5  passes loaded 6, passes sent 6\n"
    "   1  gather   C of pass 0      24     0     -   -  passes done 1                 results stored 1\n"
    "   1  gather   C of pass 1      24     0     -   -  passes done 2                 results stored 2\n"
    "   1  gather   C of pass 2      24     0     -   -  passes done 3                 results stored 3\n"
    "   1  gather   C of pass 3      24     0     -   -  passes done 4                 results stored 4\n"
    "   1  gather   C of pass 4      24     0     -   -  passes done 5                 results stored 5\n"
    "   1  gather   C of pass 5      24     0     -   -  passes done 6                 results stored 6\n"
    "   2  scatter  A of round 0     16     0     -   -  -                             rounds loaded 1\n"
    "   2  scatter  A of round 1     16     1     -   -  -                             rounds loaded 2\n"
    "   2  scatter  A of round 2     16     0     -   -  passes done 2                 rounds loaded 3\n"
    "   2  relay    B of pass 0      96     0     1   -  -                             passes loaded 1, passes sent 1\n"
    "   2  relay    B of pass 1      96     0     1   -  passes done 1, passes sent 1  passes loaded 2, passes sent 2\n"
    "   2  relay    B of pass 2      96     0     1   -  passes done 2, passes sent 2  passes loaded 3, passes sent 3\n"
    "   2  relay    B of pass 3      96     0     1   -  passes done 3, passes sent 3  passes loaded 4, passes sent 4\n"
    "   2  relay    B of pass 4      96     0     1   -  passes done 4, passes sent 4  passes loaded 5, passes sent 5\n"
    "   2  relay    B of pass 5      96     0     1   -  passes done 5, passes sent 5  passes loaded 6, passes sent 6\n"
    "   2  gather   C of pass 0      24     0     -   -  passes done 1                 results stored 1\n"
    "   2  gather   C of pass 1      24     0     -   -  passes done 2                 results stored 2\n"
    "   2  gather   C of pass 2      24     0     -   -  passes done 3                 results stored 3\n"
    "   2  gather   C of pass 3      24     0     -   -  passes done 4                 results stored 4\n"
    "   2  gather   C of pass 4      24     0     -   -  passes done 5                 results stored 5\n"
    "   2  gather   C of pass 5      24     0     -   -  passes done 6                 results stored 6\n";
// clang-format on

// One node that maps its files: blocks of C are in place and only counted.
static void test_lists_of_one_node(void **state) {
    (void)state;
    const struct mmul_problem problem = make_problem(6, 8, 4);
    check_text(make_plan(1, 2, &problem, &(struct cut){1, 4, 0, 0, 0, true, false}), ONE_NODE);
}

// Only root has the files: one round, every panel and block has a slot.
static void test_lists_of_two_nodes(void **state) {
    (void)state;
    const struct mmul_problem problem = make_problem(6, 8, 4);
    check_text(make_plan(2, 1, &problem, &(struct cut){1, 4, 2, 2, 1, true, false}), TWO_NODES);
}

// Every rank has rows of B: its own node loads them, the other one receives them through one slot.
static void test_lists_of_a_spread_operand(void **state) {
    (void)state;
    const struct mmul_problem problem = make_problem(6, 12, 4);
    check_text(make_plan(2, 1, &problem, &(struct cut){1, 6, 1, 2, 1, true, true}), SPREAD);
}

// Little memory: three rounds through two lanes, panels that arrive again through two slots, and
// one slot for blocks of C.
static void test_lists_of_three_nodes_with_little_memory(void **state) {
    (void)state;
    const struct mmul_problem problem = make_problem(9, 12, 4);
    check_text(make_plan(3, 1, &problem, &(struct cut){3, 6, 1, 1, 2, false, false}), THREE_NODES);
}

// --------------------------------------------------------------------------------------- simulated

enum { NODES = 4 };

struct node {
    struct mmul_transfers lists[MMUL_ROUTES];
    struct mmul_transfer next[MMUL_ROUTES];
    bool has_next[MMUL_ROUTES];
    int64_t counters[MMUL_COUNTERS];
    // rounds, panels, steps in the buffers; -1: nothing
    int64_t lane_holds[2], slot_holds[16], result_holds[16];
    int64_t slot_of_panel[64];
    int64_t slot_step[16],
        slot_bytes[16]; // bytes present of the panel in each slot
};

static void take_next(struct node *node, int route) {
    node->has_next[route] = mmul_transfers_next(&node->lists[route], &node->next[route]);
}

static void raise_to(struct node *node, enum mmul_route route, int64_t reached) {
    const enum mmul_counter counters[] = {mmul_arrived_counter(route), mmul_sent_counter(route)};
    for (int i = 0; i < 2; i++) {
        assert_true(reached >= node->counters[counters[i]]);
        node->counters[counters[i]] = reached;
    }
}

static void start_node(struct node *node, const struct mmul_schedule *schedule, int index) {
    memset(node, 0xff, sizeof *node);
    memset(node->counters, 0, sizeof node->counters);
    if (mmul_schedule_nodes(schedule)[index].result_bytes == 0)
        node->counters[MMUL_PASSES_DONE] = mmul_schedule_passes(schedule);
    for (int route = 0; route < MMUL_ROUTES; route++) {
        struct mmul_transfers *list = &node->lists[route];
        *list = mmul_transfers_make(schedule, index, (enum mmul_route)route);
        raise_to(node, list->route, list->reached);
        take_next(node, route);
    }
}

static bool may_begin(const struct node *node, const struct mmul_transfer *transfer) {
    for (int i = 0; i < MMUL_TRANSFER_WAITS; i++)
        if (node->counters[transfer->waits[i].counter] < transfer->waits[i].value)
            return false;
    return true;
}

static void end_transfer(struct node *node, int route) {
    const struct mmul_transfer transfer = node->next[route];
    if (route == MMUL_ROUTE_READ || (route == MMUL_ROUTE_SCATTER && transfer.slot >= 0))
        node->lane_holds[transfer.slot] = transfer.pass.round;
    if (transfer.content == MMUL_CONTENT_PANEL && transfer.slot >= 0) {
        if (node->slot_step[transfer.slot] != transfer.pass.index)
            node->slot_bytes[transfer.slot] = 0;
        node->slot_step[transfer.slot] = transfer.pass.index;
        node->slot_bytes[transfer.slot] += transfer.bytes;
        node->slot_holds[transfer.slot] = transfer.pass.panel;
        node->slot_of_panel[transfer.pass.panel] = transfer.slot;
    }
    if (transfer.content == MMUL_CONTENT_RESULT && transfer.bytes > 0 && transfer.slot >= 0)
        assert_int_equal(node->result_holds[transfer.slot], transfer.pass.index);
    raise_to(node, transfer.route, transfer.reached);
    take_next(node, route);
}

// A collective ends when all nodes that list it have begun it; a relay on a node when the
// predecessor has the data.
static bool advance_route(struct node *nodes, int count, int index, int route) {
    struct node *node = &nodes[index];
    const struct mmul_transfer *own = &node->next[route];
    if (!node->has_next[route] || !may_begin(node, own))
        return false;
    if (route == MMUL_ROUTE_RELAY && own->from >= 0) {
        const struct node *before = &nodes[own->from];
        const struct mmul_transfer *its = &before->next[route];
        if (before->has_next[route] &&
            (its->pass.index < own->pass.index ||
             (its->pass.index == own->pass.index && its->offset <= own->offset)))
            return false;
    }
    if (route == MMUL_ROUTE_SCATTER || route == MMUL_ROUTE_GATHER) {
        for (int i = 0; i < count; i++) {
            const struct mmul_transfer *other = &nodes[i].next[route];
            if (!mmul_schedule_nodes(node->lists[route].schedule)[i].participates && i > 0)
                continue;
            assert_true(nodes[i].has_next[route]);
            assert_true(other->pass.index == own->pass.index && other->content == own->content);
            if (!may_begin(&nodes[i], other))
                return false;
        }
        for (int i = 0; i < count; i++)
            if (nodes[i].has_next[route])
                end_transfer(&nodes[i], route);
        return true;
    }
    end_transfer(node, route);
    return true;
}

// Runs the node's next step when its operands are present; all must still be in their buffers.
static bool compute_step(struct node *node, const struct mmul_schedule *schedule, int index) {
    const struct mmul_schedule_node *n = &mmul_schedule_nodes(schedule)[index];
    int64_t at = node->counters[MMUL_PASSES_DONE];
    if (n->result_bytes == 0 || at == mmul_schedule_passes(schedule))
        return false;
    struct mmul_pass pass = mmul_schedule_pass(schedule, at);
    int64_t slot = n->result_slots > 0 ? at % n->result_slots : -1;
    const struct mmul_product_arrivals here =
        mmul_product_arrivals(schedule, index, node->counters);
    if (here.rounds_loaded <= pass.round || here.passes_loaded <= at ||
        (slot >= 0 && here.results_stored < at - n->result_slots + 1))
        return false;
    int64_t units = 0;
    for (int rank = 0; rank < schedule->size; rank++)
        if (mmul_schedule_ranks(schedule)[rank].node == index)
            units += mmul_schedule_units(schedule, rank, pass);
    if (units > 0 && n->piece_lanes > 0)
        assert_int_equal(node->lane_holds[pass.round % n->piece_lanes], pass.round);
    if (units > 0 && n->whole_slots > 0) {
        int64_t holds = node->slot_of_panel[pass.panel];
        assert_int_equal(node->slot_holds[holds], pass.panel);
        assert_int_equal(node->slot_bytes[holds], mmul_schedule_panel_bytes(schedule, pass));
    }
    if (slot >= 0)
        node->result_holds[slot] = at;
    node->counters[MMUL_PASSES_DONE]++;
    return true;
}

static void simulate_lists(const struct mmul_schedule *schedule) {
    struct node nodes[NODES];
    int count = schedule->node_count;
    bool moved = true;
    for (int i = 0; i < count; i++)
        start_node(&nodes[i], schedule, i);
    while (moved) {
        moved = false;
        for (int i = 0; i < count; i++) {
            for (int route = 0; route < MMUL_ROUTES; route++)
                moved |= advance_route(nodes, count, i, route);
            moved |= compute_step(&nodes[i], schedule, i);
        }
    }
    for (int i = 0; i < count; i++) {
        for (int route = 0; route < MMUL_ROUTES; route++)
            assert_false(nodes[i].has_next[route]);
        assert_int_equal(nodes[i].counters[MMUL_PASSES_DONE], mmul_schedule_passes(schedule));
    }
}

static void test_every_list_ends_without_overwriting_buffers(void **state) {
    (void)state;
    int plans = 0;
    for (int nodes = 1; nodes <= NODES; nodes++)
        for (int64_t m = 3; m <= 17; m += 7)
            for (int64_t rounds = 1; rounds <= 5; rounds += 2)
                for (int64_t slots = 1; slots <= 6; slots += 2)
                    for (int flags = 0; flags < 16; flags++) {
                        const struct mmul_problem problem = make_problem(m, 13, 4);
                        struct mmul_schedule *schedule = make_plan(
                            nodes, 1 + flags % 2, &problem,
                            &(struct cut){rounds, 3, slots, 1 + slots / 2, 1 + flags / 2 % 2,
                                          flags / 4 % 2 != 0, flags / 8 != 0});
                        simulate_lists(schedule);
                        mmul_schedule_free(schedule);
                        plans++;
                    }
    assert_int_equal(plans, 4 * 3 * 3 * 3 * 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_lists_of_one_node, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_lists_of_two_nodes, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_lists_of_a_spread_operand, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_lists_of_three_nodes_with_little_memory,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(test_every_list_ends_without_overwriting_buffers,
                                  assert_no_live_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
