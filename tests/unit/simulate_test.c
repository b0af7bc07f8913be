// SPDX-License-Identifier: MIT
// Described jobs: meaning of the JSON, refused JSON, formulas of other algorithms, and simulations
// of 1 to 4,096 ranks.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "plan/simulate/simulate.h"

static json_t *parse_json(const char *text) {
    json_error_t problem;
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
    if (value == NULL)
        fail_msg("%s: %s", text, problem.text);
    return value;
}

static bool near(double x, double y) {
    return fabs(x - y) <= 1e-9 * fabs(y);
}

static struct mmul_description *describe(const char *text) {
    struct mmul_description *description = NULL;
    struct mmul_error err = {.text = ""};
    json_t *value = parse_json(text);
    if (mmul_description_create(value, "job.json", &description, &err) != MMUL_OK)
        fail_msg("%s", err.text);
    json_decref(value);
    return description;
}

#define PROBLEM "\"problem\": {\"m\": 4000, \"n\": 3000, \"k\": 2000}"

static void test_a_description_is_read(void **state) {
    (void)state;
    struct mmul_description *d = describe(
        "{\"about\": \"two kinds\", \"problem\": {\"m\": 5, \"n\": 6, \"k\": 7, \"dtype\": "
        "\"bfloat16\"}, \"nodes\": [{\"name\": \"root\", \"memory_gib\": 2, \"cores\": 8, "
        "\"ranks\": "
        "[{\"device\": \"cpu\", \"gflops\": [1, 2, 3, 4, 5]}]}, {\"count\": 2, \"memory_gib\": 4, "
        "\"link_gbit\": 10, \"latency_us\": 30, \"ranks\": [{\"count\": 3, \"device\": \"gpu\", "
        "\"name\": \"card\", \"gflops\": 1000, \"gflops_float64\": 30, \"memory_gib\": 8, "
        "\"upload_gb\": 6}, {\"device\": "
        "\"cpu\", \"gflops\": 10, \"threads\": 5}]}]}");
    const struct mmul_cluster *c = d->cluster;
    assert_int_equal(d->problem.m * 100 + d->problem.n * 10 + d->problem.k, 567);
    assert_int_equal(d->problem.a_dtype, MMUL_BF16);
    assert_int_equal(c->size, 9);
    assert_int_equal(c->node_count, 3);
    assert_int_equal(d->kinds, 3);
    static const int nodes[] = {0, 1, 1, 1, 1, 2, 2, 2, 2}, kinds[] = {0, 1, 1, 1, 2, 1, 1, 1, 2};
    for (int rank = 0; rank < 9; rank++) {
        assert_int_equal(c->ranks[rank].node, nodes[rank]);
        assert_int_equal(d->rank_kind[rank], kinds[rank]);
        assert_int_equal(c->ranks[rank].host_memory, kinds[rank] != 1);
    }
    assert_int_equal(c->nodes[2].leader, 5);
    assert_int_equal(c->nodes[2].rank_count, 4);
    assert_string_equal(c->nodes[0].host, "root0");
    assert_string_equal(c->nodes[2].host, "node2");
    assert_true(c->nodes[1].root_link.bytes_per_second == 1.25e9);
    assert_true(near(c->nodes[1].root_link.latency_seconds, 30e-6));
    assert_true(c->nodes[1].memory_available_bytes == (int64_t)4 << 30);
    assert_true(c->ranks[0].speed.flops[1] == 2e9 && c->ranks[0].speed_flops == 5e9);
    assert_int_equal(c->ranks[0].threads, 8);
    assert_int_equal(c->ranks[4].threads, 5);
    assert_true(c->ranks[1].speed_flops == 1e12 && c->ranks[1].speed.flops[0] == 0);
    assert_true(c->ranks[1].speed.upload_bytes_per_second == 6e9);
    assert_true(c->ranks[1].speed.download_bytes_per_second == 12e9);
    assert_string_equal(c->ranks[1].device_name, "card");
    assert_true(c->ranks[0].speed.double_flops[1] == 1e9); // default: half of the other
    assert_true(mmul_rank_flops(&c->ranks[0], MMUL_F64) == 2.5e9);
    assert_true(mmul_rank_flops(&c->ranks[1], MMUL_F64) == 3e10);
    assert_int_equal(d->node_maps[0], MMUL_MAPS_A | MMUL_MAPS_B | MMUL_MAPS_C);
    assert_int_equal(d->node_maps[1], 0);
    mmul_description_destroy(d);
}

static void test_malformed_descriptions_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"[]", "the description is not an object"},
        {"{}", "problem is not an object"},
        {"{\"nodes\": [], \"job\": 1}", "the description.job is not a known key"},
        {"{\"problem\": {\"m\": 1, \"n\": 1}}", "problem.k is missing"},
        {"{\"problem\": {\"m\": 0, \"n\": 1, \"k\": 1}}",
         "problem.m is not a number from 1 to 1000000000"},
        {"{\"problem\": {\"m\": 1.5, \"n\": 1, \"k\": 1}}", "problem.m is not a whole number"},
        {"{\"problem\": {\"m\": 1, \"n\": 1, \"k\": 1, \"dtype\": \"complex64\"}}",
         "problem.dtype is not float32, float16, bfloat16 or float64"},
        {"{\"problem\": {\"m\": 1, \"n\": 1, \"k\": 1, \"dtype\": \"int8\"}}",
         "problem.dtype is not float32, float16, bfloat16 or float64"},
        {"{" PROBLEM "}", "nodes is not a list of nodes"},
        {"{" PROBLEM ", \"nodes\": []}", "nodes is not a list of nodes"},
        {"{" PROBLEM ", \"nodes\": [{\"ranks\": []}]}", "nodes[0].memory_gib is missing"},
        {"{" PROBLEM ", \"nodes\": [{\"memory_gib\": 1, \"ranks\": []}]}",
         "nodes[0].ranks is not a list of ranks"},
        {"{" PROBLEM ", \"nodes\": [{\"memory_gib\": \"1\"}]}",
         "nodes[0].memory_gib is not a number from 0.001 to 1000000"},
        {"{" PROBLEM ", \"nodes\": [{\"memory_gib\": 1, \"link\": 10}]}",
         "nodes[0].link is not a known key"},
        {"{" PROBLEM ", \"nodes\": [{\"memory_gib\": 1, \"maps_files\": 1}]}",
         "nodes[0].maps_files is not true or false"},
        {"{" PROBLEM ", \"nodes\": [{\"memory_gib\": 1, \"ranks\": [{\"gflops\": 1}]}]}",
         "nodes[0].ranks[0].device is missing"},
        {"{" PROBLEM ", \"nodes\": [{\"memory_gib\": 1, \"ranks\": [{\"device\": \"tpu\"}]}]}",
         "nodes[0].ranks[0].device is not \"cpu\" or \"gpu\""},
        {"{" PROBLEM ", \"nodes\": [{\"memory_gib\": 1, \"ranks\": [{\"device\": \"gpu\"}]}]}",
         "nodes[0].ranks[0].memory_gib is missing"},
        {"{" PROBLEM ", \"nodes\": [{\"memory_gib\": 1, \"ranks\": [{\"device\": \"cpu\"}]}]}",
         "nodes[0].ranks[0].gflops is missing"},
        {"{" PROBLEM ", \"nodes\": [{\"memory_gib\": 1, \"ranks\": [{\"device\": \"cpu\", "
         "\"gflops\": [1, 2]}]}]}",
         "nodes[0].ranks[0].gflops is not a list of five numbers"},
        {"{" PROBLEM ", \"nodes\": [{\"count\": 60000, \"memory_gib\": 1, \"ranks\": [{\"device\": "
         "\"cpu\", \"gflops\": 1, \"count\": 2}]}]}",
         "nodes[0] has too many ranks: at most 65536"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mmul_description *description = NULL;
        struct mmul_error err = {.text = ""};
        char text[160];
        json_t *value = parse_json(cases[i].json);
        assert_int_equal(mmul_description_create(value, "job.json", &description, &err),
                         MMUL_ERR_DATA);
        snprintf(text, sizeof text, "'job.json': %s", cases[i].text);
        assert_string_equal(err.text, text);
        json_decref(value);
    }
}

// ---------------------------------------------------------------------------------------- formulas

// 16 nodes of 1 TFLOP/s on 10 Gbit/s; 40,000 cubed, 6.4 GB each. Sums done by hand.
static void test_formulas_agree_with_sums_by_hand(void **state) {
    (void)state;
    struct mmul_description *d = describe(
        "{\"problem\": {\"m\": 40000, \"n\": 40000, \"k\": 40000}, \"nodes\": [{\"count\": "
        "16, \"memory_gib\": 64, \"link_gbit\": 10, \"latency_us\": 10, \"ranks\": "
        "[{\"device\": \"cpu\", \"gflops\": 1000}]}]}");
    struct mmul_grids grids[MMUL_GRIDS];
    struct mmul_error err;
    assert_int_equal(mmul_grids(&d->problem, d->cluster, grids, &err), MMUL_OK);
    assert_string_equal(grids[0].name, "1-D");
    assert_int_equal(grids[0].in_place.rows, 16);
    assert_true(near(grids[0].in_place.bytes, 6.4e9 * 15 / 16));
    assert_true(near(grids[0].in_place.seconds, 8)); // computing; moving takes 4.8
    assert_int_equal(grids[0].from_root.rows, 14);   // 9.5 s out, 9.1 s computing, 4.8 s back
    assert_true(near(grids[0].from_root.seconds, 19.2e9 / 1.25e9 * 13 / 14));
    assert_int_equal(grids[1].in_place.rows * grids[1].in_place.cols, 16);
    assert_true(near(grids[1].in_place.seconds, 8));
    assert_true(near(grids[2].in_place.seconds, 8));
    // Ten times as fast: the links decide, and the best grid is square.
    for (int rank = 0; rank < 16; rank++)
        d->cluster->ranks[rank].speed_flops = 1e13;
    assert_int_equal(mmul_grids(&d->problem, d->cluster, grids, &err), MMUL_OK);
    assert_int_equal(grids[1].in_place.rows, 4);
    assert_int_equal(grids[1].in_place.cols, 4);
    assert_true(near(grids[1].in_place.bytes, 2 * 6.4e9 / 4 * 3 / 4));
    assert_true(near(grids[1].in_place.seconds,
                     2 * 6.4e9 / 4 * 3 / 4 / 1.25e9 + (40000 / 256. + 8) * 10e-6));
    assert_int_equal(grids[2].in_place.copies, 1);
    assert_true(near(grids[2].in_place.bytes, 12.8e9 / 4));
    mmul_description_destroy(d);
}

// With enough nodes, copies save more than they cost, unless memory cannot hold them.
static void test_copies_pay_off_with_enough_nodes(void **state) {
    (void)state;
    struct mmul_description *d = describe(
        "{\"problem\": {\"m\": 40000, \"n\": 40000, \"k\": 40000}, \"nodes\": [{\"count\": "
        "4096, \"memory_gib\": 64, \"link_gbit\": 1, \"latency_us\": 1, \"ranks\": "
        "[{\"device\": \"cpu\", \"gflops\": 100000}]}]}");
    struct mmul_grids grids[MMUL_GRIDS];
    struct mmul_error err;
    assert_int_equal(mmul_grids(&d->problem, d->cluster, grids, &err), MMUL_OK);
    const struct mmul_grid *best = &grids[2].in_place;
    double used = (double)best->rows * best->cols * best->copies;
    assert_true(best->copies > 1 && best->rows == best->cols && used <= 4096);
    assert_true(
        near(best->bytes, 12.8e9 / sqrt(best->copies * used) + 19.2e9 * best->copies / used));
    assert_true(best->seconds < grids[1].in_place.seconds);
    for (int node = 0; node < 4096; node++)
        d->cluster->nodes[node].memory_available_bytes = 6000000; // one copy is 4.7 MB
    assert_int_equal(mmul_grids(&d->problem, d->cluster, grids, &err), MMUL_OK);
    assert_int_equal(grids[2].in_place.copies, 1);
    mmul_description_destroy(d);
}

// ------------------------------------------------------------------------------------- simulations

static struct mmul_simulation *simulate(int nodes) {
    char text[512];
    struct mmul_simulation *simulation = NULL;
    struct mmul_error err = {.text = ""};
    snprintf(
        text, sizeof text,
        "{\"problem\": {\"m\": 32768, \"n\": 32768, \"k\": 32768}, \"nodes\": [{\"count\": %d, "
        "\"memory_gib\": 256, \"link_gbit\": 100, \"latency_us\": 5, \"cores\": 16, \"ranks\": "
        "[{\"device\": \"gpu\", \"gflops\": 8000, \"memory_gib\": 16}, {\"device\": \"gpu\", "
        "\"gflops\": 2000, \"memory_gib\": 8}, {\"count\": 2, \"device\": \"cpu\", \"gflops\": "
        "300, \"threads\": 6}]}]}",
        nodes);
    const struct mmul_schedule_request request = {.panels = true, .split = MMUL_SPLIT_AUTO};
    if (mmul_simulation_make(describe(text), &request, &simulation, &err) != MMUL_OK)
        fail_msg("%s", err.text);
    return simulation;
}

// More nodes are never slower, and the speedup is at most that of all devices together.
static void test_more_nodes_are_never_slower(void **state) {
    (void)state;
    double before = INFINITY, alone = 0;
    for (int nodes = 1; nodes <= 1024; nodes *= 4) {
        struct mmul_simulation *s = simulate(nodes);
        assert_int_equal(s->schedule->size, 4 * nodes);
        assert_true(s->schedule->predicted_seconds <= before * 1.01);
        assert_true(s->schedule->predicted_seconds > s->ideal_seconds);
        assert_true(near(s->ideal_seconds * nodes, 2 * pow(32768, 3) / 10.6e12));
        assert_true(nodes == 1 || near(s->best_alone_seconds, alone));
        assert_int_equal(s->best_alone, 0);
        assert_true(s->schedule->predicted_seconds < s->best_alone_seconds);
        assert_true((s->schedule->root_bytes > 0) == (nodes > 1));
        before = s->schedule->predicted_seconds;
        alone = s->best_alone_seconds;
        mmul_simulation_destroy(s);
    }
}

static void test_a_simulation_is_written_as_json(void **state) {
    (void)state;
    struct mmul_simulation *s = simulate(4);
    struct mmul_error err;
    char *text = NULL;
    assert_int_equal(mmul_simulation_json(s, &text, &err), MMUL_OK);
    json_t *value = parse_json(text);
    assert_string_equal(json_string_value(json_object_get(value, "schema")),
                        "mpimatmul-simulation");
    assert_int_equal(json_array_size(json_object_get(value, "kinds")), 3);
    assert_int_equal(json_array_size(json_object_get(value, "by_formula")), MMUL_GRIDS);
    const json_t *schedule = json_object_get(value, "plan");
    assert_int_equal(json_array_size(json_object_get(schedule, "ranks")), 16);
    assert_true(json_number_value(json_object_get(schedule, "predicted_seconds")) ==
                s->schedule->predicted_seconds);
    json_decref(value);
    mmul_free(text);
    mmul_simulation_destroy(s);
}

static int assert_no_live_bytes(void **state) {
    (void)state;
    return mmul_live_bytes() == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_description_is_read, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_malformed_descriptions_are_refused, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_formulas_agree_with_sums_by_hand, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_copies_pay_off_with_enough_nodes, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_more_nodes_are_never_slower, assert_no_live_bytes),
        cmocka_unit_test_teardown(test_a_simulation_is_written_as_json, assert_no_live_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
