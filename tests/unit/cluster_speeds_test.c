// SPDX-License-Identifier: MIT
//
// Speeds of a cluster: corrections after a run, and the text about their origin. The cluster as
// JSON.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mpimatmul_local.h"

#include "api/texts.h"
#include "model/cluster.h"

static struct mmul_cluster *create(void) {
    struct mmul_cluster *cluster = NULL;
    struct mmul_error err;
    assert_int_equal(mmul_cluster_create(2, 1, 0, &cluster, &err), MMUL_OK);
    for (int rank = 0; rank < 2; rank++) {
        struct mmul_rank_info *info = &cluster->ranks[rank];
        info->speed = (struct mmul_speed){.flops = {1e9, 2e9, 4e9, 4e9, 4e9},
                                          .measured_points = 3,
                                          .origin = MMUL_SPEED_MEASURED};
        info->speed_flops = 4e9;
    }
    return cluster;
}

static void a_faster_run_raises_all_rates_of_its_rank(void **state) {
    (void)state;
    struct mmul_cluster *cluster = create();
    assert_true(mmul_rank_estimate_flops(&cluster->ranks[1], MMUL_F64, 7) == 2e9);
    assert_true(mmul_rank_estimate_flops(&(struct mmul_rank_info){0}, MMUL_F64, 7) == 3.5);
    assert_true(
        mmul_rank_estimate_flops(&(struct mmul_rank_info){.speed.double_flops = {1, 1, 1, 1, 1}},
                                 MMUL_F32, 7) == 2);
    mmul_cluster_raise_speed(cluster, 1, MMUL_F32, 12e9);
    const struct mmul_speed *speed = &cluster->ranks[1].speed;
    assert_true(speed->flops[0] == 3e9 && speed->flops[1] == 6e9 && speed->flops[2] == 12e9);
    assert_true(speed->flops[4] == 12e9 && cluster->ranks[1].speed_flops == 12e9);
    assert_true(cluster->ranks[0].speed.flops[0] == 1e9 && cluster->ranks[0].speed_flops == 4e9);
    mmul_cluster_destroy(cluster);
}

static void a_slower_run_or_no_measurement_changes_nothing(void **state) {
    (void)state;
    struct mmul_cluster *cluster = create();
    mmul_cluster_raise_speed(cluster, 0, MMUL_F32, 3.9e9);
    assert_true(cluster->ranks[0].speed.flops[0] == 1e9 && cluster->ranks[0].speed_flops == 4e9);
    cluster->ranks[1] = (struct mmul_rank_info){.speed_flops = 0};
    mmul_cluster_raise_speed(cluster, 1, MMUL_F32, 1e9);
    assert_true(cluster->ranks[1].speed.flops[0] == 0 && cluster->ranks[1].speed_flops == 0);
    mmul_cluster_destroy(cluster);
}

static void unstable_sizes_are_reported_without_transfers(void **state) {
    (void)state;
    struct mmul_cluster *cluster = create();
    char text[96];
    cluster->ranks[0].speed.unstable = MMUL_UNSTABLE_TRANSFERS;
    assert_string_equal(mmul_cluster_speed_origin(cluster, text), "measured now");
    cluster->ranks[1].speed.unstable = 4;
    assert_string_equal(mmul_cluster_speed_origin(cluster, text), "measured now, unstable");
    mmul_cluster_destroy(cluster);
}

static void each_type_has_unstable_sizes_of_its_own(void **state) {
    (void)state;
    struct mmul_cluster *cluster = create();
    char text[96];
    cluster->ranks[1].speed.unstable = 1U << MMUL_UNSTABLE_DOUBLES | MMUL_UNSTABLE_TRANSFERS;
    assert_false(mmul_speed_is_unstable(&cluster->ranks[1].speed, MMUL_F32));
    assert_true(mmul_speed_is_unstable(&cluster->ranks[1].speed, MMUL_F64));
    assert_string_equal(mmul_cluster_speed_origin(cluster, text), "measured now");
    for (int rank = 0; rank < 2; rank++)
        cluster->ranks[rank].speed.double_flops[0] = 1e9;
    assert_string_equal(mmul_cluster_speed_origin(cluster, text),
                        "measured now, unstable in float64");
    cluster->ranks[0].speed.unstable = 2;
    assert_string_equal(mmul_cluster_speed_origin(cluster, text), "measured now, unstable");
    cluster->ranks[1].speed.unstable = 0;
    assert_string_equal(mmul_cluster_speed_origin(cluster, text),
                        "measured now, unstable in float32");
    mmul_cluster_destroy(cluster);
}

// Only one of three ranks was measured in float64: the others do not slow the mean down.
static void the_mean_speed_counts_measured_ranks_only(void **state) {
    (void)state;
    struct mmul_speed speeds[3] = {{.flops = {1e9, 2e9, 2e9, 2e9, 2e9},
                                    .measured_points = 2,
                                    .upload_bytes_per_second = 3e9,
                                    .date = "2026-01-31T12:00:00Z",
                                    .origin = MMUL_SPEED_MEASURED},
                                   {.flops = {2e9, 3e9, 5e9, 5e9, 5e9},
                                    .measured_points = 3,
                                    .double_flops = {4e9, 6e9, 6e9, 6e9, 6e9},
                                    .double_points = 2,
                                    .unstable = 8,
                                    .send_seconds_per_byte = 2},
                                   {.upload_bytes_per_second = 6e9}};
    struct mmul_speed mean = mmul_speed_mean(speeds, 3);
    assert_true(mean.flops[0] == 1.5e9 && mean.flops[1] == 2.5e9 && mean.flops[4] == 3.5e9);
    assert_true(mean.double_flops[0] == 4e9 && mean.double_flops[4] == 6e9);
    assert_int_equal(mean.measured_points, 2);
    assert_int_equal(mean.double_points, 2);
    assert_true(mean.upload_bytes_per_second == 3e9 && mean.send_seconds_per_byte == 2);
    assert_int_equal(mean.unstable, 8);
    assert_string_equal(mean.date, "2026-01-31T12:00:00Z");
    assert_true(mmul_speed_has_types(&mean, 1U << MMUL_F32 | 1U << MMUL_F64));
    assert_false(mmul_speed_has_types(&speeds[0], 1U << MMUL_F64));
}

// A text truncated to its field may end within a UTF-8 character.
static void a_rank_with_invalid_utf8_stays_in_the_json(void **state) {
    (void)state;
    struct mmul_cluster *cluster = create();
    struct mmul_error err;
    char *text = NULL;
    strcpy(cluster->ranks[0].device.name, "card \xC3");
    strcpy(cluster->ranks[1].note, "shares \xE2\x82");
    assert_int_equal(mmul_cluster_json(cluster, &text, &err), MMUL_OK);
    assert_non_null(strstr(text, "\"rank\": 0"));
    assert_non_null(strstr(text, "\"name\": \"card ?\""));
    assert_non_null(strstr(text, "\"rank\": 1"));
    assert_non_null(strstr(text, "\"note\": \"shares ??\""));
    mmul_free(text);
    mmul_cluster_destroy(cluster);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_faster_run_raises_all_rates_of_its_rank),
        cmocka_unit_test(a_slower_run_or_no_measurement_changes_nothing),
        cmocka_unit_test(unstable_sizes_are_reported_without_transfers),
        cmocka_unit_test(each_type_has_unstable_sizes_of_its_own),
        cmocka_unit_test(the_mean_speed_counts_measured_ranks_only),
        cmocka_unit_test(a_rank_with_invalid_utf8_stays_in_the_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
