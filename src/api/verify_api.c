// SPDX-License-Identifier: MIT
// mmul_verify: applies the check of a run to three files, one matrix of the stack after another.
// Each of the three is in memory whole while its matrix is checked. Local.
#include "api/problem_load.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/random.h"
#include "base/status.h"
#include "model/check.h"
#include "model/matrix.h"
#include "model/product.h"

struct verification {
    struct mmul_problem problem;
    struct mmul_check *check;
    void *a, *b;
    void *c;
    enum mmul_dtype c_dtype; // as stored
    unsigned char *wrong;
};

static void verification_fini(struct verification *v) {
    mmul_check_destroy(v->check);
    MMUL_FREE_ALL(v->a, v->b, v->c, v->wrong);
}

// Allocates one matrix of a stack.
static enum mmul_status matrix_allocate(struct mmul_shape shape, enum mmul_dtype dtype,
                                        const char *what, void **matrix, struct mmul_error *err) {
    *matrix = mmul_allocate_raw(shape.rows * shape.cols, mmul_dtype_bytes(dtype), what, err);
    return *matrix != NULL ? MMUL_OK : err->status;
}

static enum mmul_status verification_init(struct verification *v, struct mmul_error *err) {
    const struct mmul_problem *p = &v->problem;
    enum mmul_status status = mmul_check_create(p->n, p->k, &v->check, err);
    if (status == MMUL_OK)
        status = matrix_allocate(p->a, p->a_dtype, "A", &v->a, err);
    if (status == MMUL_OK)
        status = matrix_allocate(p->b, p->b_dtype, "B", &v->b, err);
    if (status == MMUL_OK)
        status = matrix_allocate(p->c, mmul_problem_result_dtype(p), "C", &v->c, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE_RAW(v->wrong, p->m, "verification", err);
    return status;
}

static enum mmul_status read_whole(struct mmul_matrix *from, struct mmul_shape shape, int64_t index,
                                   enum mmul_dtype dtype, void *to, struct mmul_error *err) {
    struct mmul_region region = mmul_region_whole(shape, index);
    if (dtype == MMUL_F64)
        return mmul_matrix_read_double(from, region, 0, mmul_region_count(region), to, err);
    return mmul_matrix_read(from, region, 0, mmul_region_count(region), to, err);
}

static enum mmul_status read_matrix(struct verification *v, const struct mmul_matmul *args,
                                    struct mmul_matrix *c, int64_t t, struct mmul_error *err) {
    const struct mmul_problem *p = &v->problem;
    struct mmul_region region = mmul_region_whole(p->c, t);
    enum mmul_status status =
        read_whole(args->a, p->a, mmul_problem_a_matrix(p, t), p->a_dtype, v->a, err);
    if (status == MMUL_OK)
        status = read_whole(args->b, p->b, mmul_problem_b_matrix(p, t), p->b_dtype, v->b, err);
    if (status != MMUL_OK)
        return status;
    return mmul_problem_result_dtype(p) == MMUL_F64
               ? mmul_matrix_read_double(c, region, 0, mmul_region_count(region), v->c, err)
               : mmul_matrix_read_float(c, region, 0, mmul_region_count(region), v->c, err);
}

static struct mmul_product matrix_product(const struct verification *v) {
    const struct mmul_problem *p = &v->problem;
    return (struct mmul_product){.transpose_a = p->transpose_a,
                                 .transpose_b = p->transpose_b,
                                 .m = p->m,
                                 .n = p->n,
                                 .k = p->k,
                                 .alpha = p->alpha,
                                 .a = v->a,
                                 .a_dtype = p->a_dtype,
                                 .lda = p->a.cols,
                                 .b = v->b,
                                 .b_dtype = p->b_dtype,
                                 .ldb = p->b.cols,
                                 .c = v->c,
                                 .ldc = p->n,
                                 .c_dtype = v->c_dtype};
}

static void count_wrong(const struct verification *v, int64_t t, int64_t wrong,
                        struct mmul_verdict *verdict) {
    verdict->rows_checked += v->problem.m;
    verdict->rows_wrong += wrong;
    for (int64_t i = 0; wrong > 0 && verdict->first_wrong_row < 0; i++)
        if (v->wrong[i]) {
            verdict->first_wrong_matrix = t;
            verdict->first_wrong_row = i;
        }
}

static enum mmul_status check_shape(const struct mmul_problem *p, struct mmul_matrix *c,
                                    struct mmul_error *err) {
    struct mmul_shape have = mmul_matrix_info(c).shape;
    char found[96], expected[96];
    if (mmul_shape_equal(have, p->c))
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_DATA, "'%s' is %s, but '%s' x '%s' is %s", mmul_matrix_name(c),
                     mmul_shape_format(have, found), p->a_name, p->b_name,
                     mmul_shape_format(p->c, expected));
}

enum mmul_status mmul_verify(const struct mmul_matmul *args, struct mmul_matrix *c,
                             struct mmul_verdict *verdict, struct mmul_error *err) {
    struct verification v = {0};
    struct mmul_verdict made = {.first_wrong_matrix = -1, .first_wrong_row = -1};
    struct mmul_matmul plain;
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_matmul, args, &plain, err);
    if (status != MMUL_OK)
        return status;
    uint64_t seed = mmul_random_resolve_seed(plain.verify_seed);
    plain.c_in = NULL;
    plain.beta = 0;
    plain.exact_beta = 0;
    if (plain.compute == MMUL_COMPUTE_AUTO && mmul_matrix_info(c).stored != MMUL_F64)
        plain.compute = MMUL_COMPUTE_F32; // checked to C's precision
    status = mmul_problem_load(&plain, &v.problem, err);
    if (status == MMUL_OK)
        status = check_shape(&v.problem, c, err);
    v.c_dtype = mmul_matrix_info(c).delivered;
    if (status == MMUL_OK)
        status = verification_init(&v, err);
    for (int64_t t = 0; status == MMUL_OK && t < v.problem.matrices; t++) {
        status = read_matrix(&v, &plain, c, t, err);
        const struct mmul_product product = matrix_product(&v);
        if (status == MMUL_OK)
            status = mmul_check_begin(v.check, &product, seed, err);
        if (status == MMUL_OK)
            count_wrong(&v, t, mmul_check_rows(v.check, &product, 0, v.problem.m, v.wrong), &made);
    }
    verification_fini(&v);
    if (status == MMUL_OK)
        *verdict = made;
    return status;
}
