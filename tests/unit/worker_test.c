// SPDX-License-Identifier: MIT
//
// Products cut into tiles, on a device that defers all work (deferring_device.h): values, uploads
// and their order, and writes to C by a lost device.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "deferring_device.h"
#include "exec/worker/worker.h"

// ------------------------------------------------------------------------------------ operands

struct sizes {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    float alpha, beta;
    enum mmul_dtype a_dtype, b_dtype; // float32 or bfloat16
    struct mmul_tile tile;
};

// Whole numbers, and a padding of NaN behind every row.
enum { PAD = 3 };

struct bench {
    struct mmul_comm comm;
    struct mmul_context context;
    struct mmul_worker worker;
    struct mmul_product product;
    float *a, *b, *c_in, *c; // as stored, in float32
    void *halves[2];
    struct mmul_error err;
};

static float *make_matrix(int64_t rows, int64_t cols, uint64_t seed) {
    float *values = malloc((size_t)(rows * (cols + PAD)) * sizeof *values);
    for (int64_t e = 0; e < rows * (cols + PAD); e++) {
        bool inside = e % (cols + PAD) < cols;
        values[e] = inside ? (float)((int64_t)(mmul_random_at(seed, (uint64_t)e) % 9) - 4) : NAN;
    }
    return values;
}

// Returns bfloat16 copies if requested, otherwise the values themselves.
static const void *stored_as(enum mmul_dtype dtype, const float *values, int64_t count,
                             void **memory) {
    if (dtype == MMUL_F32)
        return values;
    uint16_t *halves = malloc((size_t)count * sizeof *halves);
    for (int64_t e = 0; e < count; e++) {
        uint32_t bits;
        memcpy(&bits, &values[e], sizeof bits);
        halves[e] = (uint16_t)(bits >> 16);
    }
    return *memory = halves;
}

static void make_product(struct bench *t, const struct sizes *s, uint64_t seed) {
    int64_t a_rows = s->transpose_a ? s->k : s->m, a_cols = s->transpose_a ? s->m : s->k;
    int64_t b_rows = s->transpose_b ? s->n : s->k, b_cols = s->transpose_b ? s->k : s->n;
    t->a = make_matrix(a_rows, a_cols, seed);
    t->b = make_matrix(b_rows, b_cols, seed + 1);
    t->c_in = make_matrix(s->m, s->n, seed + 2);
    t->c = make_matrix(s->m, s->n, seed + 3);
    t->product = (struct mmul_product){
        .transpose_a = s->transpose_a,
        .transpose_b = s->transpose_b,
        .m = s->m,
        .n = s->n,
        .k = s->k,
        .alpha = s->alpha,
        .beta = s->beta,
        .a = stored_as(s->a_dtype, t->a, a_rows * (a_cols + PAD), &t->halves[0]),
        .a_dtype = s->a_dtype,
        .lda = a_cols + PAD,
        .b = stored_as(s->b_dtype, t->b, b_rows * (b_cols + PAD), &t->halves[1]),
        .b_dtype = s->b_dtype,
        .ldb = b_cols + PAD,
        .c_in = s->beta != 0 ? t->c_in : NULL,
        .ldc_in = s->n + PAD,
        .c = t->c,
        .ldc = s->n + PAD,
    };
}

static void setup(struct bench *t, const struct sizes *s) {
    late_reset();
    memset(t, 0, sizeof *t);
    struct mmul_device *device = NULL;
    assert_int_equal(MMUL_ALLOCATE(device, 1, "a device", &t->err), 0);
    device->table = &late_table;
    t->context = (struct mmul_context){
        .comm = &t->comm, .device = device, .device_name = "0:0", .fallback_threads = 1};
    make_product(t, s, 1);
    const struct mmul_worker_options options = {
        .tile = s->tile, .a_dtype = s->a_dtype, .b_dtype = s->b_dtype};
    assert_int_equal(mmul_worker_init(&t->worker, &t->context, &options, &t->err), MMUL_OK);
}

static void teardown(struct bench *t) {
    mmul_worker_fini(&t->worker);
    mmul_device_close(t->context.device);
    mmul_text_fini(&t->context.warnings);
    assert_int_equal(late.buffers, 0);
    assert_int_equal(mmul_live_bytes(), 0);
    late_reset();
    free(t->a);
    free(t->b);
    free(t->c_in);
    free(t->c);
    free(t->halves[0]);
    free(t->halves[1]);
}

// Returns the number of elements of C that differ, including its padding.
static int64_t count_wrong(const struct bench *t) {
    const struct mmul_product *p = &t->product;
    const float *c = p->c;
    int64_t wrong = 0;
    for (int64_t e = 0; e < p->m * (p->n + PAD); e++) {
        int64_t i = e / p->ldc, j = e % p->ldc;
        if (j >= p->n) {
            wrong += !isnan(c[e]);
            continue;
        }
        float sum = 0;
        for (int64_t q = 0; q < p->k; q++) {
            sum += t->a[p->transpose_a ? q * p->lda + i : i * p->lda + q] *
                   t->b[p->transpose_b ? j * p->ldb + q : q * p->ldb + j];
        }
        wrong += c[e] != p->alpha * sum + (p->beta == 0 ? 0 : p->beta * t->c_in[e]);
    }
    return wrong;
}

static void multiply(struct bench *t) {
    assert_int_equal(mmul_worker_multiply(&t->worker, &t->product, &t->err), MMUL_OK);
    assert_int_equal(count_wrong(t), 0);
}

#define TILE(m, n, k, a, b, c) \
    { m, n, k, a, b, c, 1, 0 }

// -------------------------------------------------------------------------------------- values

static void every_way_of_cutting_gives_the_product(void **state) {
    (void)state;
    static const struct mmul_tile tiles[] = {
        TILE(37, 29, 23, 1, 1, 1), TILE(10, 29, 23, 2, 1, 2), TILE(37, 7, 23, 1, 2, 2),
        TILE(10, 7, 23, 2, 2, 2),  TILE(10, 7, 5, 2, 2, 2),   TILE(37, 29, 5, 2, 2, 1),
        TILE(10, 10, 6, 1, 1, 1),  TILE(10, 29, 23, 4, 1, 2), TILE(1, 1, 1, 2, 2, 2),
        TILE(13, 11, 12, 4, 4, 2), TILE(36, 28, 22, 2, 2, 2),
    };
    for (size_t i = 0; i < 8 * sizeof tiles / sizeof tiles[0]; i++) {
        int way = (int)(i % 8);
        struct sizes s = {.m = 37,
                          .n = 29,
                          .k = 23,
                          .transpose_a = (way & 1) != 0,
                          .transpose_b = (way & 2) != 0,
                          .alpha = way < 4 ? 1 : -2,
                          .beta = way % 3 == 0 ? 0 : 3,
                          .a_dtype = way >= 4 ? MMUL_BF16 : MMUL_F32,
                          .b_dtype = way == 5 ? MMUL_BF16 : MMUL_F32,
                          .tile = tiles[i / 8]};
        if (s.tile.m == 1)
            s.m = s.n = s.k = 6; // enough of them
        struct bench t;
        setup(&t, &s);
        multiply(&t);
        teardown(&t);
    }
}

// More elements than one download holds, in rows longer and shorter than that.
static void large_results_are_downloaded_in_pieces(void **state) {
    (void)state;
    enum { AT_ONCE = MMUL_STAGING_BUFFER_BYTES / sizeof(float) };
    static const int64_t sizes[][2] = {{3, AT_ONCE - 5}, {2, AT_ONCE + 7}, {AT_ONCE, 3}};
    for (int i = 0; i < 3; i++) {
        const struct sizes s = {.m = sizes[i][0],
                                .n = sizes[i][1],
                                .k = 1,
                                .alpha = 1,
                                .tile = {sizes[i][0], sizes[i][1], 1, 1, 1, 1, 1, 0}};
        struct bench t;
        setup(&t, &s);
        multiply(&t);
        teardown(&t);
    }
}

// --------------------------------------------------------------------------------------- order

// Compares the order of queued operations with the drawing in worker.c.
static void a_download_overlaps_the_next_multiplication(void **state) {
    (void)state;
    static const struct {
        struct mmul_tile tile;
        float beta;
        const char *log;
    } cases[] = {
        {TILE(40, 8, 8, 1, 1, 1), 0, "UUGDW"},
        {TILE(10, 8, 8, 2, 1, 2), 0, "UUGUGUDWGUDWGDWDW"},
        {TILE(10, 8, 8, 1, 1, 1), 0, "UUGUDWGUDWGUDWGDW"},
        {TILE(10, 8, 8, 2, 1, 2), 1, "UUUGUUGUDWUGUDWUGDWDW"},
        {TILE(20, 4, 8, 2, 2, 2), 0, "UUGUGUDWGDWGDWDW"}, // 0,0  1,0  1,1  0,1: A is there already
        {TILE(14, 4, 8, 2, 2, 2), 0, "UUGUGUDWGUDWGDWGUDWGDWDW"}, // down, then up
        {TILE(40, 4, 3, 2, 2, 2), 0, "UUGUUGUUGUGUGUUGDWDW"},     // forth, then back
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct sizes s = {
            .m = 40, .n = 8, .k = 8, .alpha = 1, .beta = cases[i].beta, .tile = cases[i].tile};
        struct bench t;
        setup(&t, &s);
        multiply(&t);
        assert_string_equal(late.log, cases[i].log);
        assert_int_equal(late.most_buffers, s.tile.a_lanes + s.tile.b_lanes + s.tile.c_lanes);
        teardown(&t);
    }
}

static void cached_tiles_are_not_uploaded_again(void **state) {
    (void)state;
    const struct sizes s = {.m = 40, .n = 8, .k = 8, .alpha = 1, .tile = TILE(10, 8, 8, 4, 1, 2)};
    struct bench t;
    setup(&t, &s);
    multiply(&t);
    assert_int_equal(late.uploads, 4 + 1);
    multiply(&t);
    assert_int_equal(late.uploads, 4 + 1);
    float *b = t.b;
    t.b = make_matrix(s.k, s.n, 9); // another panel of B, the same A
    t.product.b = t.b;
    multiply(&t);
    assert_int_equal(late.uploads, 4 + 1 + 1);
    t.a[0] += 1; // in place: only the caller can know
    mmul_worker_invalidate_operands(&t.worker);
    multiply(&t);
    assert_int_equal(late.uploads, 4 + 1 + 1 + 4 + 1);
    free(b);
    teardown(&t);
}

// A tile at the same address with another row distance is another tile.
static void a_tile_is_known_by_its_row_distance_too(void **state) {
    (void)state;
    const struct sizes s = {.m = 16, .n = 6, .k = 6, .alpha = 1, .tile = TILE(16, 6, 6, 2, 2, 1)};
    struct bench t;
    setup(&t, &s);
    t.product.m = 8;
    multiply(&t);
    t.product.lda *= 2;
    multiply(&t);
    teardown(&t);
}

// ---------------------------------------------------------------------------------------- loss

// The CPU recomputes everything; later writes of the lost device do not matter.
static void a_lost_device_cannot_write_into_c(void **state) {
    (void)state;
    for (int call = 1; call <= 8; call++) {
        const struct sizes s = {
            .m = 40, .n = 8, .k = 8, .alpha = 1, .beta = 2, .tile = TILE(10, 8, 8, 2, 1, 2)};
        struct bench t;
        setup(&t, &s);
        *(call <= 4 ? &late.fail_wait : &late.fail_gemm) = call <= 4 ? call : call - 4;
        multiply(&t);
        assert_string_equal(t.context.device_name, "cpu");
        assert_int_equal(t.worker.fallback_products, 1);
        late_finish();
        assert_int_equal(count_wrong(&t), 0);
        teardown(&t);
    }
}

static void a_later_product_goes_to_the_device_that_took_over(void **state) {
    (void)state;
    const struct sizes s = {.m = 40,
                            .n = 8,
                            .k = 8,
                            .alpha = 1,
                            .beta = 2,
                            .a_dtype = MMUL_BF16,
                            .tile = TILE(10, 8, 8, 2, 1, 2)};
    struct bench t;
    setup(&t, &s);
    late.fail_gemm = 2;
    multiply(&t);
    memset(late.log, 0, sizeof late.log);
    multiply(&t);
    assert_string_equal(late.log, "");
    assert_int_equal(t.worker.products, 2);
    assert_int_equal(t.worker.fallback_products, 1);
    teardown(&t);
}

// ------------------------------------------------------------------------------------ other tiles

// Tiles of the next operation: buffers are allocated anew, and cached data are uploaded again.
static void the_worker_changes_to_tiles_of_other_sizes(void **state) {
    (void)state;
    const struct sizes s = {.m = 40, .n = 8, .k = 8, .alpha = 1, .tile = TILE(10, 8, 8, 4, 1, 2)};
    struct mmul_worker_options options = {.tile = s.tile};
    struct bench t;
    setup(&t, &s);
    multiply(&t);
    assert_int_equal(mmul_worker_reconfigure(&t.worker, &options, &t.err), MMUL_OK);
    assert_int_equal(late.made_count, 4 + 1 + 2); // no new buffers
    multiply(&t);
    assert_int_equal(late.uploads, 2 * (4 + 1));
    options.tile = (struct mmul_tile)TILE(20, 4, 8, 2, 2, 2);
    assert_int_equal(mmul_worker_reconfigure(&t.worker, &options, &t.err), MMUL_OK);
    multiply(&t);
    assert_int_equal(late.buffers, 2 + 2 + 2);
    assert_int_equal(t.worker.products, 3);
    options.tile = (struct mmul_tile){0}; // nothing to multiply
    assert_int_equal(mmul_worker_reconfigure(&t.worker, &options, &t.err), MMUL_OK);
    assert_int_equal(late.buffers, 2 + 2 + 2);
    teardown(&t);
}

// The device that takes over has tiles of its own from then on, at whatever turn.
static void a_device_without_memory_for_other_tiles_is_replaced(void **state) {
    (void)state;
    for (int turns = 1; turns <= 2; turns++) {
        const struct sizes s = {.m = 40,
                                .n = 8,
                                .k = 8,
                                .alpha = 1,
                                .a_dtype = MMUL_BF16,
                                .tile = TILE(10, 8, 8, 2, 1, 2)};
        struct mmul_worker_options options = {.a_dtype = MMUL_BF16};
        struct bench t;
        setup(&t, &s);
        late.fail_create = 5 + 2;
        for (int i = 0; i < turns; i++) {
            options.tile = (struct mmul_tile)TILE(2 + i, 2, 2, 1, 1, 1);
            assert_int_equal(mmul_worker_reconfigure(&t.worker, &options, &t.err), MMUL_OK);
        }
        assert_string_equal(t.context.device_name, "cpu");
        assert_true(t.worker.replaced);
        multiply(&t);
        assert_int_equal(t.worker.tile.m, s.m);
        assert_int_equal(late.buffers, 0);
        teardown(&t);
    }
}

// ----------------------------------------------------------------------------- persistent operands

enum { SIDE = 24, LD = SIDE + PAD, MATRICES = 12 };

// Square matrices, each written once: inputs, then products of parts of earlier ones.
struct pool {
    float *at[MATRICES];
    int level[MATRICES]; // number of inputs in its product: sums stay exact whole numbers up to 3
    int count;
};

static uint64_t draw(uint64_t *random, uint64_t most) {
    return mmul_random_at(7, ++*random) % most;
}

static double part_element(const float *at, bool transpose, int64_t row, int64_t col) {
    return (double)(transpose ? at[col * LD + row] : at[row * LD + col]);
}

// Draws the next matrix from two earlier ones, or from parts of them, transposed or not.
static struct mmul_product draw_product(struct pool *pool, uint64_t *random) {
    int x, y;
    do {
        x = (int)draw(random, (uint64_t)pool->count);
        y = (int)draw(random, (uint64_t)pool->count);
    } while (pool->level[x] + pool->level[y] > 3);
    pool->level[pool->count] = pool->level[x] + pool->level[y];
    int64_t begin = draw(random, 2) == 0 ? 0 : (int64_t)draw(random, SIDE / 2);
    return (struct mmul_product){.transpose_a = draw(random, 2) == 0,
                                 .transpose_b = draw(random, 2) == 0,
                                 .m = SIDE - begin,
                                 .n = SIDE,
                                 .k = SIDE - begin,
                                 .alpha = 1,
                                 .a = pool->at[x] + begin * LD + begin,
                                 .lda = LD,
                                 .b = pool->at[y],
                                 .ldb = LD,
                                 .c = pool->at[pool->count++],
                                 .ldc = LD};
}

static void assert_product(const struct mmul_product *p) {
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0;
            for (int64_t q = 0; q < p->k; q++)
                sum += part_element(p->a, p->transpose_a, i, q) *
                       part_element(p->b, p->transpose_b, q, j);
            assert_true((double)((const float *)p->c)[i * LD + j] == sum);
        }
}

// Any memory, any tiles, any set of persistent operands; a lost device has no cached data.
static void persistent_operands_are_used_in_place(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 150; seed++) {
        uint64_t random = seed * 1000;
        const struct sizes any = {
            .m = 1, .n = 1, .k = 1, .alpha = 1, .tile = TILE(1, 1, 1, 1, 1, 1)};
        struct bench t;
        struct pool pool = {.count = 3, .level = {1, 1, 1}};
        setup(&t, &any);
        for (int i = 0; i < MATRICES; i++)
            pool.at[i] = make_matrix(SIDE, SIDE, seed + (uint64_t)i);
        late.fail_gemm = seed % 5 == 0 ? (int)draw(&random, 60) + 1 : 0;
        for (int i = 0; i < MATRICES - 3; i++) {
            const struct mmul_product p = draw_product(&pool, &random);
            int64_t m = 7 + (int64_t)draw(&random, 18), n = 7 + (int64_t)draw(&random, 18),
                    k = 7 + (int64_t)draw(&random, 18);
            struct mmul_worker_options options = {.tile = TILE(m, n, k, 2, 2, 2),
                                                  .lasting = (unsigned)draw(&random, 8)};
            options.tile.free_bytes = (int64_t)draw(&random, 3) * 4000;
            assert_int_equal(mmul_worker_reconfigure(&t.worker, &options, &t.err), MMUL_OK);
            assert_int_equal(mmul_worker_multiply(&t.worker, &p, &t.err), MMUL_OK);
            assert_product(&p);
            int64_t bytes = 0;
            for (int e = 0; e < MMUL_CACHED_TILES; e++)
                bytes += t.worker.kept.entries[e].capacity * (int64_t)sizeof(float);
            assert_in_range(bytes, 0, t.worker.kept.max_bytes);
            assert_true(!t.worker.replaced || late.buffers == 0);
        }
        for (int i = 0; i < MATRICES; i++)
            free(pool.at[i]);
        teardown(&t);
    }
}

// Computes x x, then that by x, and x by that: x is uploaded once. Reused memory is uploaded again.
static void a_result_is_an_operand_without_an_upload(void **state) {
    (void)state;
    const struct sizes s = {
        .m = 16, .n = 16, .k = 16, .alpha = 1, .tile = TILE(16, 16, 16, 1, 1, 1)};
    struct bench t;
    setup(&t, &s);
    struct mmul_worker_options options = {.tile = s.tile, .lasting = 7};
    options.tile.free_bytes = 1 << 20;
    assert_int_equal(mmul_worker_reconfigure(&t.worker, &options, &t.err), MMUL_OK);
    float *b = t.b, *c = t.c, *d = t.c_in;
    t.product.b = t.b = t.a;
    multiply(&t);
    t.product.a = t.a = c;
    t.product.c = t.c = d;
    t.product.ldc = t.product.lda;
    multiply(&t);
    assert_int_equal(late.uploads, 1);
    assert_int_equal(late.buffers, 3);
    mmul_worker_invalidate_operands(&t.worker); // drops operands that are not persistent
    multiply(&t);
    assert_int_equal(late.uploads, 1);
    mmul_worker_invalidate_memory(&t.worker, c, c + s.m * t.product.lda);
    c[0] += 1;
    multiply(&t);
    assert_int_equal(late.uploads, 2);
    t.a = t.b;
    t.b = b;
    t.c_in = c;
    teardown(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_of_cutting_gives_the_product),
        cmocka_unit_test(large_results_are_downloaded_in_pieces),
        cmocka_unit_test(a_download_overlaps_the_next_multiplication),
        cmocka_unit_test(cached_tiles_are_not_uploaded_again),
        cmocka_unit_test(a_tile_is_known_by_its_row_distance_too),
        cmocka_unit_test(a_lost_device_cannot_write_into_c),
        cmocka_unit_test(a_later_product_goes_to_the_device_that_took_over),
        cmocka_unit_test(the_worker_changes_to_tiles_of_other_sizes),
        cmocka_unit_test(a_device_without_memory_for_other_tiles_is_replaced),
        cmocka_unit_test(persistent_operands_are_used_in_place),
        cmocka_unit_test(a_result_is_an_operand_without_an_upload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
