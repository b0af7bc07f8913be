// SPDX-License-Identifier: MIT
//
// Results that stay on a device with memory of its own: downloads of parts and their time;
// operations on the result there, or elsewhere if the device refuses them; and their loss with the
// device.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "exec/worker/host_map.h"

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

static void fill_values(float *values, int64_t count, int64_t step) {
    for (int64_t e = 0; e < count; e++)
        values[e] = step == 0 ? NAN : (float)(e * step % 9 - 4);
}

// Tiles of the product: one, or several in all dimensions.
#define ONE \
    { .m = M, .n = N, .k = K, .a_lanes = 1, .b_lanes = 1, .c_lanes = 1, .free_bytes = SPARE }
#define SEVERAL \
    { .m = 10, .n = 7, .k = 5, .a_lanes = 2, .b_lanes = 2, .c_lanes = 2, .free_bytes = SPARE }
enum { SPARE = 1 << 20, GEMMS = 5 * 4 * 2 }; // GEMMS: with several tiles
static const struct mmul_tile TILES[] = {ONE, SEVERAL};

// Sets up a bench without a product.
static struct bench *setup_tiles(const char *name, struct mmul_tile tile) {
    struct bench *t = calloc(1, sizeof *t);
    t->context = (struct mmul_context){.comm = &t->comm, .fallback_threads = 1};
    strcpy(t->context.device_name, name);
    assert_int_equal(mmul_device_open(name, &t->context.device, &t->err), MMUL_OK);
    fill_values(t->a, M * K, 5);
    fill_values(t->b, K * N, 7);
    fill_values(t->c, M * LD, 0);
    fill_values(t->first, M * N, 0);
    fill_values(t->second, M * N, 0);
    const struct mmul_worker_options options = {
        .tile = tile, .lasting = MMUL_LASTING_A | MMUL_LASTING_B | MMUL_LASTING_C};
    assert_int_equal(mmul_worker_init(&t->worker, &t->context, &options, &t->err), MMUL_OK);
    return t;
}

static void multiply(struct bench *t, int64_t extra_device_bytes) {
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
    assert_int_equal(mmul_worker_multiply_absent(&t->worker, &product, extra_device_bytes, &t->err),
                     MMUL_OK);
}

// Sets up a bench with a product that is on the device only.
static struct bench *setup(const char *name, struct mmul_tile tile) {
    struct bench *t = setup_tiles(name, tile);
    multiply(t, 1);
    assert_non_null(t->worker.absent[0]);
    return t;
}

static void teardown(struct bench *t) {
    mmul_worker_release_absent(&t->worker, NULL);
    mmul_worker_fini(&t->worker);
    mmul_device_close(t->context.device);
    mmul_text_fini(&t->context.warnings);
    assert_int_equal(mmul_live_bytes(), 0);
    free(t);
}

static bool is_unchanged(const float *values, int64_t count) {
    for (int64_t e = 0; e < count; e++)
        if (!isnan(values[e]))
            return false;
    return true;
}

// -2 |C|, or |C|, which may stay on the device as well.
static struct mmul_host_map make_operation(struct bench *t, bool is_second) {
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

static void assert_result(const struct bench *t, bool is_second) {
    const float *made = is_second ? t->second : t->first;
    for (int64_t e = 0; e < M * N; e++)
        assert_true((double)made[e] == (is_second ? -2 : 1) * fabs(product_at(t, e / N, e % N)));
}

// Checks that the first `rows` rows were downloaded, and nothing else.
static void assert_rows_are_downloaded(const struct bench *t, int64_t rows) {
    for (int64_t e = 0; e < M * LD; e++)
        assert_true(e % LD < N && e / LD < rows ? (double)t->c[e] == product_at(t, e / LD, e % LD)
                                                : isnan(t->c[e]) != 0);
}

static void assert_c_is_downloaded(const struct bench *t) {
    assert_rows_are_downloaded(t, M);
}

static void limit_device_memory(struct bench *t, int64_t bytes) {
    assert_int_equal(
        mmul_tile_cache_set_limit(&t->worker.kept, t->context.device, bytes, INT64_MAX, &t->err),
        MMUL_OK);
}

static const char *const OWN = "faulty:hang=1000000:cpu";

// --------------------------------------------------------------------------------------- downloads

static void download_parts_then_all(struct mmul_tile tile) {
    enum { PARTS = 5, WIDTH = 4 };
    static const int64_t places[PARTS][2] = {{9, 5}, {3, 19}, {3, 2}, {17, 11}, {M - 1, N - 4}};
    struct bench *t = setup(OWN, tile);
    struct mmul_host_tile parts[PARTS];
    assert_true(is_unchanged(t->c, M * LD));
    for (int i = 0; i < PARTS; i++)
        parts[i] = (struct mmul_host_tile){t->c + places[i][0] * LD + places[i][1], 1, WIDTH, LD,
                                           MMUL_F32};
    const int64_t before = mmul_worker_traffic(&t->worker).downloaded;
    assert_int_equal(mmul_worker_download_samples(&t->worker, parts, PARTS, &t->err), MMUL_OK);
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
    assert_int_equal(mmul_worker_download_absent(&t->worker, &t->err), MMUL_OK);
    assert_c_is_downloaded(t);
    assert_false(mmul_worker_is_absent(&t->worker, &parts[2]));
    assert_null(t->worker.absent[0]);
    teardown(t);
}

static void parts_are_downloaded_at_once_and_the_whole_on_request(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++)
        download_parts_then_all(TILES[i]);
}

// In rows of 2^24 + 1 elements, float32 cannot represent every index.
static void parts_beyond_float32_integers_are_found(void **state) {
    enum { ROWS = 3, COLS = (1 << 24) + 1, PARTS = 3 };
    static const int64_t places[PARTS] = {1, 12347, COLS - 2}; // in the last row
    struct bench *t = setup_tiles(OWN, (struct mmul_tile)ONE);
    float *result = malloc((size_t)ROWS * COLS * sizeof *result);
    float *row = malloc((size_t)COLS * sizeof *row);
    (void)state;
    fill_values(result, (int64_t)ROWS * COLS, 0);
    fill_values(row, COLS, 7);
    const struct mmul_tile tile = {
        .m = 1, .n = COLS, .k = 1, .a_lanes = 2, .b_lanes = 1, .c_lanes = 2, .free_bytes = 1 << 30};
    const struct mmul_worker_options options = {.tile = tile, .lasting = MMUL_LASTING_C};
    assert_int_equal(mmul_worker_reconfigure(&t->worker, &options, &t->err), MMUL_OK);
    const struct mmul_product product = {.m = ROWS,
                                         .n = COLS,
                                         .k = 1,
                                         .alpha = 1,
                                         .a = t->a,
                                         .lda = 1,
                                         .b = row,
                                         .ldb = COLS,
                                         .c = result,
                                         .ldc = COLS};
    assert_int_equal(mmul_worker_multiply_absent(&t->worker, &product, 1, &t->err), MMUL_OK);
    assert_non_null(t->worker.absent[0]);
    struct mmul_host_tile parts[PARTS];
    for (int i = 0; i < PARTS; i++)
        parts[i] = (struct mmul_host_tile){result + (int64_t)(ROWS - 1) * COLS + places[i], 1, 1,
                                           COLS, MMUL_F32};
    assert_int_equal(mmul_worker_download_samples(&t->worker, parts, PARTS, &t->err), MMUL_OK);
    for (int i = 0; i < PARTS; i++)
        assert_true(*(const float *)parts[i].at == t->a[ROWS - 1] * row[places[i]]);
    teardown(t);
    free(result);
    free(row);
}

static void a_result_without_readers_is_not_downloaded(void **state) {
    enum { LEFT = 18 };
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct bench *t = setup(OWN, TILES[i]);
        const struct mmul_host_tile above = {t->c, LEFT, N, LD, MMUL_F32},
                                    below = {t->c + LEFT * LD, M - LEFT, N, LD, MMUL_F32};
        mmul_worker_release_absent(&t->worker, &below);
        assert_false(mmul_worker_is_absent(&t->worker, &below));
        assert_true(mmul_worker_is_absent(&t->worker, &above));
        const int64_t before = mmul_worker_traffic(&t->worker).downloaded;
        assert_int_equal(mmul_worker_download_absent(&t->worker, &t->err), MMUL_OK);
        assert_rows_are_downloaded(t, LEFT);
        assert_int_equal(mmul_worker_traffic(&t->worker).downloaded - before,
                         LEFT * N * (int)sizeof(float));
        assert_null(t->worker.absent[0]);
        teardown(t);
    }
}

static void results_without_room_are_downloaded_at_once(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct bench *t = setup_tiles(OWN, TILES[i / 2]);
        const bool has_room = i % 2 == 0;
        multiply(t, t->worker.kept.max_bytes - C_BYTES + (has_room ? 0 : 1));
        assert_int_equal(t->worker.absent[0] != NULL, has_room);
        if (has_room)
            assert_true(is_unchanged(t->c, M * LD));
        else
            assert_c_is_downloaded(t);
        assert_string_equal(t->context.device_name, OWN);
        teardown(t);
    }
}

// A reduction that is too large to be checked whole: the device adds up the bits of its result.
static void a_spoiled_download_of_a_reduction_is_found(void **state) {
    enum { ROWS = 300, COLS = 400 };
    static const struct mmul_parameters with = {.axis = -1};
    static const char *const names[] = {"faulty:hang=1000000:cpu",
                                        "faulty:hang=1000000,spoil-download=1:cpu"};
    float *values = malloc((size_t)ROWS * COLS * sizeof *values), sums[ROWS];
    (void)state;
    fill_values(values, (int64_t)ROWS * COLS, 5);
    for (int i = 0; i < 2; i++) {
        struct bench *t = setup_tiles(names[i], (struct mmul_tile)ONE);
        uint32_t carried;
        const struct mmul_host_map host = {
            .map = {.kind = MMUL_SUM,
                    .with = &with,
                    .rows = ROWS,
                    .cols = 1,
                    .shape = {1, 1, ROWS, 1},
                    .matrices = 1,
                    .operand_count = 1,
                    .carried = &carried},
            .operands =
                {{.at = values, .row_step = COLS, .col_step = 1, .rows = ROWS, .cols = COLS}},
            .result = sums,
            .ld = 1};
        assert_int_equal(mmul_worker_map(&t->worker, &host, &t->err), MMUL_OK);
        assert_int_equal(t->worker.download_errors, i);
        teardown(t);
    }
    free(values);
}

// --------------------------------------------------------------------------- several operations

static void run_two_operations(struct mmul_tile tile) {
    struct bench *t = setup(OWN, tile);
    struct mmul_host_map first = make_operation(t, false), second = make_operation(t, true);
    const struct mmul_host_tile c = {t->c, M, N, LD, MMUL_F32};
    first.may_stay_on_device = true;
    const int64_t before = mmul_worker_traffic(&t->worker).downloaded;
    assert_int_equal(mmul_worker_map(&t->worker, &first, &t->err), MMUL_OK);
    assert_non_null(t->worker.absent[1]);
    mmul_worker_release_absent(&t->worker, &c);
    assert_int_equal(mmul_worker_map(&t->worker, &second, &t->err), MMUL_OK);
    assert_result(t, true);
    assert_true(is_unchanged(t->c, M * LD) && is_unchanged(t->first, M * N));
    assert_int_equal(mmul_worker_traffic(&t->worker).downloaded - before, C_BYTES);
    teardown(t);
}

static void an_operation_s_result_may_stay_on_the_device(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++)
        run_two_operations(TILES[i]);
}

// The device has room for this many rows beside C; 0: none.
static void operations_without_room_are_cut_or_run_on_the_host(void **state) {
    (void)state;
    for (int rows = 0; rows <= 5; rows++) {
        struct bench *t = setup(OWN, (struct mmul_tile)ONE);
        const struct mmul_host_map first = make_operation(t, false);
        limit_device_memory(t, C_BYTES + rows * N * (int)sizeof(float));
        assert_int_equal(mmul_worker_map(&t->worker, &first, &t->err), MMUL_OK);
        assert_result(t, false);
        if (rows == 0)
            assert_c_is_downloaded(t);
        assert_int_equal(t->worker.absent[0] == NULL, rows == 0);
        assert_int_equal(is_unchanged(t->c, M * LD), rows > 0);
        int64_t bytes = 0;
        for (int e = 0; e < MMUL_CACHED_TILES; e++)
            bytes += t->worker.kept.entries[e].capacity * (int64_t)sizeof(float);
        assert_in_range(bytes, C_BYTES, t->worker.kept.max_bytes);
        assert_string_equal(t->context.device_name, OWN);
        teardown(t);
    }
}

static void both_results_are_downloaded_for_an_operation_on_the_host(void **state) {
    struct bench *t = setup(OWN, (struct mmul_tile)SEVERAL);
    struct mmul_host_map first = make_operation(t, false), second = make_operation(t, true);
    (void)state;
    first.may_stay_on_device = true;
    assert_int_equal(mmul_worker_map(&t->worker, &first, &t->err), MMUL_OK);
    limit_device_memory(t, 2 * C_BYTES);
    assert_int_equal(mmul_worker_map(&t->worker, &second, &t->err), MMUL_OK);
    assert_result(t, true);
    assert_result(t, false);
    assert_c_is_downloaded(t);
    assert_null(t->worker.absent[0]);
    teardown(t);
}

// The device holds C only as parts, as many as it can record.
static void many_parts_are_assembled(void **state) {
    struct bench *t = setup_tiles(OWN, (struct mmul_tile)ONE);
    const struct mmul_host_map first = make_operation(t, false);
    struct mmul_operand at;
    (void)state;
    fill_values(t->c, M * LD, 5);
    limit_device_memory(t, 3 * C_BYTES);
    for (int64_t i = 0; i < 2 * M; i++) {
        const int64_t half = N / 2, col = i % 2 * half;
        const struct mmul_host_tile part = {t->c + i / 2 * LD + col, 1,
                                            i % 2 == 0 ? half : N - half, LD, MMUL_F32};
        mmul_tile_cache_pin(&t->worker.kept);
        assert_int_equal(
            mmul_tile_cache_load(&t->worker.kept, t->context.device, &part, &at, &t->err), MMUL_OK);
    }
    assert_int_equal(mmul_worker_map(&t->worker, &first, &t->err), MMUL_OK);
    for (int64_t e = 0; e < M * N; e++)
        assert_true(t->first[e] == fabsf(t->c[e / N * LD + e % N]));
    assert_string_equal(t->context.device_name, OWN);
    teardown(t);
}

// ------------------------------------------------------------------------------------- lost device

static enum mmul_status download_part(struct bench *t) {
    const struct mmul_host_tile part = {t->c, 1, N, LD, MMUL_F32};
    return mmul_worker_download_samples(&t->worker, &part, 1, &t->err);
}

static enum mmul_status run_first_operation(struct bench *t) {
    const struct mmul_host_map first = make_operation(t, false);
    return mmul_worker_map(&t->worker, &first, &t->err);
}

static enum mmul_status download_all(struct bench *t) {
    return mmul_worker_download_absent(&t->worker, &t->err);
}

// The product takes the first operations.
static void a_result_is_lost_with_its_device(void **state) {
    static const struct {
        const char *device;
        enum mmul_status (*lose)(struct bench *);
        int tiles; // out of TILES
    } ways[] = {{"faulty:hang=1000000,fail=2:cpu", run_first_operation, 0},
                {"faulty:hang=1000000,fail=2:cpu", download_part, 0},
                {"faulty:hang=1000000,fail=41:cpu", run_first_operation, 1},
                {"faulty:hang=1000000,fail=41:cpu", download_part, 1},
                {"faulty:hang=1000000,fail-upload=3:cpu", download_part, 0},
                {"faulty:hang=1000000,fail-download=1:cpu", download_part, 1},
                {"faulty:hang=1000000,fail-download=1:cpu", download_all, 0},
                {"faulty:hang=1000000,fail-download=1:cpu", download_all, 1},
                {"faulty:hang=1000000,spoil-download=1:cpu", download_all, 1},
                {"faulty:hang=1000000,lie=1:cpu", download_all, 1}};
    (void)state;
    assert_int_equal(GEMMS, 40);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct bench *t = setup(ways[i].device, TILES[ways[i].tiles]);
        assert_int_equal(ways[i].lose(t), MMUL_ERR_STOPPED);
        assert_true(t->worker.must_repeat_product);
        assert_null(t->worker.absent[0]);
        assert_string_not_equal(t->context.device_name, ways[i].device);
        teardown(t);
    }
}

// Every value so far could be recomputed at once.
static void a_device_lost_during_the_product_leaves_nothing(void **state) {
    (void)state;
    for (int call = 1; call <= GEMMS; call += 13) {
        char name[64];
        snprintf(name, sizeof name, "faulty:hang=1000000,fail=%d:cpu", call);
        struct bench *t = setup_tiles(name, (struct mmul_tile)SEVERAL);
        multiply(t, 1);
        assert_null(t->worker.absent[0]);
        assert_false(t->worker.must_repeat_product);
        assert_c_is_downloaded(t);
        teardown(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_downloaded_at_once_and_the_whole_on_request),
        cmocka_unit_test(parts_beyond_float32_integers_are_found),
        cmocka_unit_test(a_result_without_readers_is_not_downloaded),
        cmocka_unit_test(results_without_room_are_downloaded_at_once),
        cmocka_unit_test(a_spoiled_download_of_a_reduction_is_found),
        cmocka_unit_test(an_operation_s_result_may_stay_on_the_device),
        cmocka_unit_test(operations_without_room_are_cut_or_run_on_the_host),
        cmocka_unit_test(both_results_are_downloaded_for_an_operation_on_the_host),
        cmocka_unit_test(many_parts_are_assembled),
        cmocka_unit_test(a_result_is_lost_with_its_device),
        cmocka_unit_test(a_device_lost_during_the_product_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
