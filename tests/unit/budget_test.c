// SPDX-License-Identifier: MIT
//
// Sizes of tiles and numbers of lanes: cuts that let transfers overlap, data that stay on the
// device, and the memory limit.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan/parts/budget.h"

static const int64_t GIB = INT64_C(1) << 30;

static struct mmul_tile choose_tile(int64_t m, int64_t n, int64_t k, int64_t memory_bytes) {
    const struct mmul_tile_request request = {.m = m,
                                              .n = n,
                                              .k = k,
                                              .a_bytes_each = 4,
                                              .b_bytes_each = 4,
                                              .memory_bytes = memory_bytes,
                                              .max_allocation_bytes = memory_bytes};
    struct mmul_tile tile;
    struct mmul_error err;
    assert_int_equal(mmul_tile_choose(&request, &tile, &err), MMUL_OK);
    return tile;
}

static void the_longer_side_of_c_is_cut_when_it_is_long_enough(void **state) {
    (void)state;
    static const struct {
        int64_t m, n, k;
        struct mmul_tile tile;
    } cases[] = {
        {1, 1, 1, {.m = 1, .n = 1, .k = 1, .a_lanes = 1, .b_lanes = 1, .c_lanes = 1}},
        {2047, 2000, 3000, {2047, 2000, 3000, 1, 1, 1, 0, 0}},
        {2048, 2000, 3000, {1024, 2000, 3000, 2, 1, 2, 0, 0}},
        {2049, 2000, 3000, {1152, 2000, 3000, 2, 1, 2, 0, 0}},
        {3500, 2000, 3000, {1280, 2000, 3000, 3, 1, 2, 0, 0}},
        {8192, 8192, 8192, {2048, 8192, 8192, 4, 1, 2, 0, 0}},
        {8191, 8193, 100, {8191, 2176, 100, 1, 4, 2, 0, 0}},
        {100, 20000, 64, {100, 5120, 64, 1, 4, 2, 0, 0}},
        {100, 100, 100000, {100, 100, 100000, 1, 1, 1, 0, 0}}, // C alone decides
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct mmul_tile *expected = &cases[i].tile;
        struct mmul_tile t = choose_tile(cases[i].m, cases[i].n, cases[i].k, 64 * GIB);
        assert_int_equal(t.m, expected->m);
        assert_int_equal(t.n, expected->n);
        assert_int_equal(t.k, expected->k);
        assert_int_equal(t.a_lanes, expected->a_lanes);
        assert_int_equal(t.b_lanes, expected->b_lanes);
        assert_int_equal(t.c_lanes, expected->c_lanes);
    }
}

static int64_t count_tiles(int64_t side, int64_t tile) {
    return (side + tile - 1) / tile;
}

// With ever less memory: buffers fit, each cut dimension has at least two tiles, and all of A and B
// stay as long as there is room.
static void lanes_fit_and_overlap_in_any_memory(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{8192, 4096, 4096}, {4096, 8192, 300},  {301, 203, 157},
                                       {1, 5000000, 70},   {9000, 9000, 9000}, {64, 64, 1 << 24}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
        for (int64_t memory = 8 * GIB; memory > INT64_C(400) << 10; memory = memory * 2 / 3) {
            struct mmul_tile t = choose_tile(m, n, k, memory);
            int64_t a = count_tiles(m, t.m) * count_tiles(k, t.k),
                    b = count_tiles(k, t.k) * count_tiles(n, t.n);
            int64_t c = count_tiles(m, t.m) * count_tiles(n, t.n);
            int64_t bytes = 4 * (t.a_lanes * t.m * t.k + t.b_lanes * t.k * t.n +
                                 t.c_lanes * t.m * t.n + t.m * t.k + t.k * t.n + t.m * t.n);
            assert_in_range(bytes, 1, t.device_bytes);
            assert_in_range(t.device_bytes, 1, memory);
            assert_int_equal(t.device_bytes + t.free_bytes, memory);
            assert_in_range(t.a_lanes, a < 2 ? a : 2, a < MMUL_TILE_LANES ? a : MMUL_TILE_LANES);
            assert_in_range(t.b_lanes, b < 2 ? b : 2, b < MMUL_TILE_LANES ? b : MMUL_TILE_LANES);
            assert_int_equal(t.c_lanes, c < 2 ? c : 2);
        }
    }
}

static void a_device_in_host_memory_has_one_lane_and_no_cuts(void **state) {
    (void)state;
    const struct mmul_tile_request request = {.m = 20000,
                                              .n = 20000,
                                              .k = 20000,
                                              .a_bytes_each = 2,
                                              .b_bytes_each = 4,
                                              .host_memory = true};
    struct mmul_tile t;
    struct mmul_error err;
    assert_int_equal(mmul_tile_choose(&request, &t, &err), MMUL_OK);
    assert_int_equal(t.a_lanes * t.b_lanes * t.c_lanes, 1);
    assert_int_equal(t.device_bytes, 0);
    assert_in_range(4 * t.m * t.k, MMUL_HOST_STAGING_BYTES / 8, MMUL_HOST_STAGING_BYTES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longer_side_of_c_is_cut_when_it_is_long_enough),
        cmocka_unit_test(lanes_fit_and_overlap_in_any_memory),
        cmocka_unit_test(a_device_in_host_memory_has_one_lane_and_no_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
