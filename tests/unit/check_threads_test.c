// SPDX-License-Identifier: MIT
// The check with several threads: correct products pass, a wrong element is found anywhere, on both
// sides of every cut between threads, in every orientation. The threads run every part once.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "exec/threads/compute_thread.h"
#include "model/check.h"
#include "model/dtype.h"

struct shape {
    int64_t m, n, k;
};

struct variant {
    enum mmul_dtype dtype; // type of A and B
    bool transpose_a, transpose_b, transpose_c;
};

// A product of small integers, exact in float32, and its memory. `c` is row-major unless
// transposed.
struct made {
    struct mmul_product product;
    void *a, *b;
    float *c, *wide_a, *wide_b; // wide: op(A), op(B), row-major
    unsigned char *wrong;
};

static void *allocate(int64_t count, size_t each) {
    void *memory = calloc((size_t)count, each);
    assert_non_null(memory);
    return memory;
}

// Makes op(X) in `wide` and X in `stored`.
static void make_operand(struct shape size, bool transposed, enum mmul_dtype dtype, uint64_t seed,
                         float **wide, void **stored) {
    int64_t rows = size.m, cols = size.n;
    float *in_order = allocate(rows * cols, sizeof(float));
    *wide = allocate(rows * cols, sizeof(float));
    *stored = allocate(rows * cols, sizeof(float));
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            float value = (float)(mmul_random_at(seed, (uint64_t)(i * cols + j)) % 9) - 4;
            (*wide)[i * cols + j] = value;
            in_order[transposed ? j * rows + i : i * cols + j] = value;
        }
    }
    if (dtype == MMUL_F32)
        memcpy(*stored, in_order, (size_t)(rows * cols) * sizeof(float));
    else
        mmul_dtype_narrow(dtype, in_order, rows * cols, *stored);
    free(in_order);
}

static float *element_of(const struct made *made, int64_t i, int64_t j) {
    const struct mmul_product *p = &made->product;
    return made->c + (p->transpose_c ? j * p->ldc + i : i * p->ldc + j);
}

static struct made make_product(struct shape s, struct variant v) {
    struct made made = {.product = {.transpose_a = v.transpose_a,
                                    .transpose_b = v.transpose_b,
                                    .transpose_c = v.transpose_c,
                                    .m = s.m,
                                    .n = s.n,
                                    .k = s.k,
                                    .alpha = 1,
                                    .a_dtype = v.dtype,
                                    .b_dtype = v.dtype,
                                    .lda = v.transpose_a ? s.m : s.k,
                                    .ldb = v.transpose_b ? s.k : s.n,
                                    .ldc = v.transpose_c ? s.m : s.n}};
    make_operand((struct shape){s.m, s.k, 0}, v.transpose_a, v.dtype, 1, &made.wide_a, &made.a);
    make_operand((struct shape){s.k, s.n, 0}, v.transpose_b, v.dtype, 2, &made.wide_b, &made.b);
    made.c = allocate(s.m * s.n, sizeof(float));
    made.wrong = allocate(s.m, 1);
    made.product.a = made.a;
    made.product.b = made.b;
    made.product.c = made.c;
    float *row = allocate(s.n, sizeof(float));
    for (int64_t i = 0; i < s.m; i++) {
        memset(row, 0, (size_t)s.n * sizeof *row);
        for (int64_t p = 0; p < s.k; p++)
            for (int64_t j = 0; j < s.n; j++)
                row[j] += made.wide_a[i * s.k + p] * made.wide_b[p * s.n + j];
        for (int64_t j = 0; j < s.n; j++)
            *element_of(&made, i, j) = row[j];
    }
    free(row);
    return made;
}

static void release_product(struct made *made) {
    free(made->a);
    free(made->b);
    free(made->c);
    free(made->wide_a);
    free(made->wide_b);
    free(made->wrong);
}

static _Atomic int parts_run; // parts that threads ran

static void share_among_threads(int parts, mmul_work *work, void *context) {
    atomic_fetch_add(&parts_run, parts);
    mmul_helper_threads_run(parts, work, context);
}

static struct mmul_check *begin_check(const struct made *made, int threads) {
    struct mmul_check *check = NULL;
    struct mmul_error err;
    const struct mmul_product *p = &made->product;
    assert_int_equal(mmul_check_create(p->n, p->k, &check, &err), MMUL_OK);
    mmul_check_set_parallel(check, (struct mmul_parallel){threads, share_among_threads});
    assert_int_equal(mmul_check_begin(check, p, 5, &err), MMUL_OK);
    return check;
}

static const struct variant variants[] = {
    {MMUL_F32, false, false, false}, {MMUL_F32, true, false, true},  {MMUL_F32, false, true, false},
    {MMUL_F32, true, true, true},    {MMUL_BF16, false, true, true}, {MMUL_F16, true, false, false},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

// B, C and A in turn are large enough to be shared; wider than long and longer than wide.
static const struct shape shapes[] = {
    {21, 1103, 1001}, {21, 901, 1203}, {1301, 1207, 11}, {1103, 1499, 7}, {1201, 19, 1107},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void a_correct_product_passes(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 3, 16, 100};
    for (int s = 0; s < SHAPES; s++) {
        for (int v = 0; v < VARIANTS; v++) {
            struct made made = make_product(shapes[s], variants[v]);
            for (int t = 0; t < 5; t++) {
                int before = atomic_load(&parts_run);
                struct mmul_check *check = begin_check(&made, threads[t]);
                assert_int_equal(mmul_check_rows(check, &made.product, 0, shapes[s].m, made.wrong),
                                 0);
                assert_true(threads[t] > 1 ? atomic_load(&parts_run) > before
                                           : atomic_load(&parts_run) == before);
                mmul_check_destroy(check);
            }
            release_product(&made);
        }
    }
}

// Spoils one element in every second row, each in another column, until every row and every column
// was spoiled once.
static void a_wrong_element_is_found_everywhere(void **state) {
    (void)state;
    for (int s = 2; s <= 3; s++) {
        struct shape shape = shapes[s];
        for (int v = 0; v < VARIANTS; v++) {
            struct made made = make_product(shape, variants[v]);
            struct mmul_check *check = begin_check(&made, 3);
            for (int64_t turn = 0; turn < 4; turn++) {
                int64_t altered = 0;
                for (int64_t i = turn % 2; i < shape.m; i += 2, altered++)
                    *element_of(&made, i, (i + turn / 2 * shape.n / 2) % shape.n) += 3;
                assert_int_equal(mmul_check_rows(check, &made.product, 0, shape.m, made.wrong),
                                 altered);
                for (int64_t i = 0; i < shape.m; i++)
                    assert_int_equal(made.wrong[i], i % 2 == turn % 2);
                for (int64_t i = turn % 2; i < shape.m; i += 2)
                    *element_of(&made, i, (i + turn / 2 * shape.n / 2) % shape.n) -= 3;
            }
            mmul_check_destroy(check);
            release_product(&made);
        }
    }
}

// Changes one element of A or B after the product: a pass that skips any element would miss it.
static void a_changed_operand_is_noticed_everywhere(void **state) {
    (void)state;
    struct shape shape = {21, 1103, 1001};
    for (int is_transposed = 0; is_transposed < 2; is_transposed++) {
        struct made made =
            make_product(shape, (struct variant){MMUL_F32, false, is_transposed == 1, false});
        float *b = made.b;
        for (int64_t p = 0; p < shape.k; p += 7) {
            int64_t j = p * 11 % shape.n, at = is_transposed ? j * shape.k + p : p * shape.n + j;
            float before = b[at];
            b[at] = before + 100;
            struct mmul_check *check = begin_check(&made, 4);
            int64_t uses = 0;
            for (int64_t i = 0; i < shape.m; i++)
                uses += made.wide_a[i * shape.k + p] != 0;
            assert_int_equal(mmul_check_rows(check, &made.product, 0, shape.m, made.wrong), uses);
            mmul_check_destroy(check);
            b[at] = before;
        }
        release_product(&made);
    }
}

// Columns of very different size, which a small sample misses: the result must not depend on the
// estimate.
static void small_columns_missed_by_a_sample_do_not_hide_errors(void **state) {
    (void)state;
    struct shape shape = {40, 300, 2000};
    for (int is_transposed = 0; is_transposed < 2; is_transposed++) {
        struct made made =
            make_product(shape, (struct variant){MMUL_F32, false, is_transposed == 1, false});
        float *b = made.b;
        // The last columns are 0 except for one element, 2^-20 of the others' size.
        for (int64_t p = 0; p < shape.k; p++)
            for (int64_t j = 290; j < shape.n; j++)
                b[is_transposed ? j * shape.k + p : p * shape.n + j] = p == 1999 ? 0x1p-20F : 0;
        for (int64_t i = 0; i < shape.m; i++)
            for (int64_t j = 290; j < shape.n; j++)
                *element_of(&made, i, j) = made.wide_a[i * shape.k + 1999] * 0x1p-20F;
        struct mmul_check *check = begin_check(&made, 2);
        assert_int_equal(mmul_check_rows(check, &made.product, 0, shape.m, made.wrong), 0);
        *element_of(&made, 7, 295) += 0x1p-10F;
        assert_int_equal(mmul_check_rows(check, &made.product, 0, shape.m, made.wrong), 1);
        assert_int_equal(made.wrong[7], 1);
        mmul_check_destroy(check);
        release_product(&made);
    }
}

static void count_part(void *context, int part) {
    _Atomic int *counts = context;
    atomic_fetch_add(&counts[part], 1);
}

static void every_part_is_done_once(void **state) {
    (void)state;
    _Atomic int counts[200] = {0};
    for (int parts = 1; parts <= 200; parts += 33) {
        memset(counts, 0, sizeof counts);
        mmul_helper_threads_run(parts, count_part, counts);
        for (int i = 0; i < 200; i++)
            assert_int_equal(atomic_load(&counts[i]), i < parts);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_correct_product_passes),
        cmocka_unit_test(a_wrong_element_is_found_everywhere),
        cmocka_unit_test(a_changed_operand_is_noticed_everywhere),
        cmocka_unit_test(small_columns_missed_by_a_sample_do_not_hide_errors),
        cmocka_unit_test(every_part_is_done_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
