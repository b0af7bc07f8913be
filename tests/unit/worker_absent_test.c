// SPDX-License-Identifier: MIT
//
// Results that stay on a device with memory of its own: what comes home of them, and when; what is done to them there,
// or elsewhere where the device declines that; and that they are gone with it.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "exec/worker_map.h"

enum { M = 41, N = 23, K = 7, LD = N + 3, C_BYTES = M * N * (int)sizeof(float) };

struct bench {
    struct mmul_comm comm;
    struct mmul_context context;
    struct mmul_worker worker;
    float a[M * K], b[K * N], c[M * LD], first[M * N], second[M * N];
    struct mmul_error err;
};

static double product_at(const struct bench *t, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t q = 0; q < K; q++)
        sum += (double)t->a[i * K + q] * (double)t->b[q * N + j];
    return sum;
}

static void fill(float *values, int64_t count, int64_t step) {
    for (int64_t e = 0; e < count; e++)
        values[e] = step == 0 ? NAN : (float)(e * step % 9 - 4);
}

// The product is made, and is nowhere but on the device.
static struct bench *setup(const char *name) {
    struct bench *t = calloc(1, sizeof *t);
    t->context = (struct mmul_context){.comm = &t->comm, .fallback_threads = 1};
    strcpy(t->context.device_name, name);
    assert_int_equal(mmul_device_open(name, &t->context.device, &t->err), MMUL_OK);
    fill(t->a, M * K, 5);
    fill(t->b, K * N, 7);
    fill(t->c, M * LD, 0);
    fill(t->first, M * N, 0);
    fill(t->second, M * N, 0);
    const struct mmul_worker_options options = {.tile = {.m = M,
                                                         .n = N,
                                                         .k = K,
                                                         .a_lanes = 1,
                                                         .b_lanes = 1,
                                                         .c_lanes = 1,
                                                         .spare_bytes = 1 << 20},
                                                .lasting = MMUL_LASTING_A | MMUL_LASTING_B |
                                                           MMUL_LASTING_C};
    assert_int_equal(mmul_worker_init(&t->worker, &t->context, &options, &t->err), MMUL_OK);
    const struct mmul_product product = {.m = M,
                                         .n = N,
                                         .k = K,
                                         .alpha = 1,
                                         .a = t->a,
                                         .lda = K,
                                         .b = t->b,
                                         .ldb = N,
                                         .c = t->c,
                                         .ldc = LD};
    t->worker.may_leave = true;
    assert_int_equal(mmul_worker_multiply(&t->worker, &product, &t->err), MMUL_OK);
    t->worker.may_leave = false;
    assert_non_null(t->worker.absent[0]);
    return t;
}

static void teardown(struct bench *t) {
    mmul_worker_release(&t->worker, NULL);
    mmul_worker_fini(&t->worker);
    mmul_device_close(t->context.device);
    mmul_text_fini(&t->context.warnings);
    assert_int_equal(mmul_live_bytes(), 0);
    free(t);
}

static bool is_untouched(const float *values, int64_t count) {
    for (int64_t e = 0; e < count; e++)
        if (!isnan(values[e]))
            return false;
    return true;
}

// -2 |C|, or |C|: of which that may have been made.
static struct mmul_host_map map_of(struct bench *t, bool is_second) {
    static const struct mmul_parameters none;
    return (struct mmul_host_map){.map = {.kind = is_second ? MMUL_MULTIPLY : MMUL_ABS,
                                          .with = &none,
                                          .rows = M,
                                          .cols = N,
                                          .shape = {1, 1, M, N},
                                          .matrices = 1,
                                          .operand_count = is_second ? 2 : 1},
                                  .operands = {{.at = is_second ? t->first : t->c,
                                                .row_step = is_second ? N : LD,
                                                .col_step = 1,
                                                .rows = M,
                                                .cols = N},
                                               {.number = -2}},
                                  .result = is_second ? t->second : t->first,
                                  .ld = N};
}

static void assert_made(const struct bench *t, bool is_second) {
    const float *made = is_second ? t->second : t->first;
    for (int64_t e = 0; e < M * N; e++)
        assert_true((double)made[e] == (is_second ? -2 : 1) * fabs(product_at(t, e / N, e % N)));
}

static void assert_c_is_home(const struct bench *t) {
    for (int64_t e = 0; e < M * LD; e++)
        assert_true(e % LD < N ? (double)t->c[e] == product_at(t, e / LD, e % LD)
                               : isnan(t->c[e]) != 0);
}

static void leave_room(struct bench *t, int64_t bytes) {
    assert_int_equal(
        mmul_tile_cache_limit(&t->worker.kept, t->context.device, bytes, INT64_MAX, &t->err),
        MMUL_OK);
}

static const char *const OWN = "faulty:hang=1000000:cpu";

// -------------------------------------------------------------------------------------------- home

static void parts_come_at_once_and_all_when_asked_for(void **state) {
    enum { PARTS = 5, WIDTH = 4 };
    static const int64_t places[PARTS][2] = {{0, 0}, {3, 19}, {3, 2}, {17, 11}, {M - 1, N - 4}};
    struct bench *t = setup(OWN);
    struct mmul_host_tile parts[PARTS];
    (void)state;
    assert_true(is_untouched(t->c, M * LD));
    for (int i = 0; i < PARTS; i++)
        parts[i] = (struct mmul_host_tile){t->c + places[i][0] * LD + places[i][1], 1, WIDTH, LD,
                                           MMUL_F32};
    const int64_t before = mmul_worker_traffic(&t->worker).downloaded;
    assert_int_equal(mmul_worker_bring_parts(&t->worker, parts, PARTS, &t->err), MMUL_OK);
    assert_int_equal(mmul_worker_traffic(&t->worker).downloaded - before,
                     PARTS * WIDTH * (int)sizeof(float));
    int64_t here = 0;
    for (int64_t e = 0; e < M * LD; e++)
        here += !isnan(t->c[e]);
    assert_int_equal(here, PARTS * WIDTH);
    for (int i = 0; i < PARTS; i++)
        for (int64_t j = 0; j < WIDTH; j++)
            assert_true((double)((const float *)parts[i].at)[j] ==
                        product_at(t, places[i][0], places[i][1] + j));
    assert_true(mmul_worker_is_absent(&t->worker, &parts[2]));
    assert_int_equal(mmul_worker_bring_home(&t->worker, &t->err), MMUL_OK);
    assert_c_is_home(t);
    assert_false(mmul_worker_is_absent(&t->worker, &parts[2]));
    assert_null(t->worker.absent[0]);
    teardown(t);
}

// ------------------------------------------------------------------------------------- in a row

static void what_is_made_of_it_may_stay_too(void **state) {
    struct bench *t = setup(OWN);
    struct mmul_host_map first = map_of(t, false), second = map_of(t, true);
    (void)state;
    first.may_leave = true;
    const int64_t before = mmul_worker_traffic(&t->worker).downloaded;
    assert_int_equal(mmul_worker_map(&t->worker, &first, &t->err), MMUL_OK);
    assert_non_null(t->worker.absent[1]);
    mmul_worker_release(&t->worker, t->c);
    assert_int_equal(mmul_worker_map(&t->worker, &second, &t->err), MMUL_OK);
    assert_made(t, true);
    assert_true(is_untouched(t->c, M * LD) && is_untouched(t->first, M * N));
    assert_int_equal(mmul_worker_traffic(&t->worker).downloaded - before, C_BYTES);
    teardown(t);
}

// The device has no room for more than the rows of so many, with 0 for none.
static void what_does_not_fit_beside_it_is_cut_or_made_here(void **state) {
    (void)state;
    for (int rows = 0; rows <= 5; rows++) {
        struct bench *t = setup(OWN);
        const struct mmul_host_map first = map_of(t, false);
        leave_room(t, C_BYTES + rows * N * (int)sizeof(float));
        assert_int_equal(mmul_worker_map(&t->worker, &first, &t->err), MMUL_OK);
        assert_made(t, false);
        if (rows == 0)
            assert_c_is_home(t);
        assert_int_equal(t->worker.absent[0] == NULL, rows == 0);
        assert_int_equal(is_untouched(t->c, M * LD), rows > 0);
        int64_t bytes = 0;
        for (int e = 0; e < MMUL_CACHED_TILES; e++)
            bytes += t->worker.kept.entries[e].capacity * (int64_t)sizeof(float);
        assert_in_range(bytes, C_BYTES, t->worker.kept.bytes_most);
        assert_string_equal(t->context.device_name, OWN);
        teardown(t);
    }
}

static void both_come_home_for_what_is_made_here(void **state) {
    struct bench *t = setup(OWN);
    struct mmul_host_map first = map_of(t, false), second = map_of(t, true);
    (void)state;
    first.may_leave = true;
    assert_int_equal(mmul_worker_map(&t->worker, &first, &t->err), MMUL_OK);
    leave_room(t, 2 * C_BYTES);
    assert_int_equal(mmul_worker_map(&t->worker, &second, &t->err), MMUL_OK);
    assert_made(t, true);
    assert_made(t, false);
    assert_c_is_home(t);
    assert_null(t->worker.absent[0]);
    teardown(t);
}

// -------------------------------------------------------------------------------------------- lost

static enum mmul_status bring_a_part(struct bench *t) {
    const struct mmul_host_tile part = {t->c, 1, N, LD, MMUL_F32};
    return mmul_worker_bring_parts(&t->worker, &part, 1, &t->err);
}

static enum mmul_status make_first(struct bench *t) {
    const struct mmul_host_map first = map_of(t, false);
    return mmul_worker_map(&t->worker, &first, &t->err);
}

static enum mmul_status bring_all(struct bench *t) {
    return mmul_worker_bring_home(&t->worker, &t->err);
}

// The first operation is the product.
static void it_is_gone_with_its_device(void **state) {
    static const struct {
        const char *device;
        enum mmul_status (*lose)(struct bench *);
    } ways[] = {{"faulty:hang=1000000,fail=2:cpu", make_first},
                {"faulty:hang=1000000,fail=2:cpu", bring_a_part},
                {"faulty:hang=1000000,fail-upload=3:cpu", bring_a_part},
                {"faulty:hang=1000000,fail-download=1:cpu", bring_a_part},
                {"faulty:hang=1000000,fail-download=1:cpu", bring_all},
                {"faulty:hang=1000000,spoil-download=1:cpu", bring_all},
                {"faulty:hang=1000000,lie=1:cpu", bring_all}};
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct bench *t = setup(ways[i].device);
        assert_int_equal(ways[i].lose(t), MMUL_ERR_STOPPED);
        assert_true(t->worker.is_to_repeat);
        assert_null(t->worker.absent[0]);
        assert_string_not_equal(t->context.device_name, ways[i].device);
        teardown(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_come_at_once_and_all_when_asked_for),
        cmocka_unit_test(what_is_made_of_it_may_stay_too),
        cmocka_unit_test(what_does_not_fit_beside_it_is_cut_or_made_here),
        cmocka_unit_test(both_come_home_for_what_is_made_here),
        cmocka_unit_test(it_is_gone_with_its_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
