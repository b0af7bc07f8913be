// SPDX-License-Identifier: MIT
// Checks, and second chances: rows found wrong are computed again by the next device of the chain
// (OpenCL: the CPU; the CPU: reference), which replaces the one that erred for the rest of the
// run. Counts what it saw; prints nothing.
#include "exec/verify.h"

#include "base/memory.h"
#include "base/status.h"

enum mmul_status mmul_verifier_init(struct mmul_verifier *verifier, int64_t m, int64_t n, int64_t k,
                                    uint64_t seed, struct mmul_error *err) {
    *verifier = (struct mmul_verifier){.seed = seed};
    enum mmul_status status = mmul_check_create(n, k, &verifier->check, err);
    if (status == MMUL_OK)
        status = mmul_allocate(m, 1, "verification", (void **)&verifier->wrong, err);
    return status;
}

void mmul_verifier_fini(struct mmul_verifier *verifier) {
    mmul_check_destroy(verifier->check);
    mmul_free(verifier->wrong);
    *verifier = (struct mmul_verifier){0};
}

// The product restricted to rows [begin, end).
static struct mmul_product product_rows(const struct mmul_product *p, int64_t begin, int64_t end) {
    struct mmul_product part = *p;
    int64_t skip =
        (p->transpose_a ? begin : begin * p->lda) * (int64_t)mmul_dtype_bytes(p->a_dtype);
    part.m = end - begin;
    part.a = p->a != NULL ? (const char *)p->a + skip : NULL;
    part.c = p->c + begin * p->ldc;
    part.c_in = p->c_in != NULL ? p->c_in + begin * p->ldc_in : NULL;
    return part;
}

// Computes every run of wrong rows again.
static enum mmul_status recompute(struct mmul_verifier *v, struct mmul_worker *worker,
                                  const struct mmul_product *p, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int64_t begin = 0; status == MMUL_OK && begin < p->m; begin++) {
        if (!v->wrong[begin])
            continue;
        int64_t end = begin + 1;
        while (end < p->m && v->wrong[end])
            end++;
        const struct mmul_product part = product_rows(p, begin, end);
        status = mmul_worker_multiply(worker, &part, err);
        v->rows_recomputed += end - begin;
        begin = end;
    }
    return status;
}

// B x is computed once per B, however many products share it.
static enum mmul_status begin_check(struct mmul_verifier *v, const struct mmul_product *p,
                                    struct mmul_error *err) {
    if (v->begun_b == p->b && v->begun_n == p->n && p->b != NULL)
        return MMUL_OK;
    enum mmul_status status = mmul_check_begin(v->check, p, v->seed, err);
    v->begun_b = status == MMUL_OK ? p->b : NULL;
    v->begun_n = p->n;
    return status;
}

enum mmul_status mmul_verifier_check(struct mmul_verifier *verifier, struct mmul_worker *worker,
                                     const struct mmul_product *product, const char *place,
                                     struct mmul_error *err) {
    char why[160];
    enum mmul_status status = begin_check(verifier, product, err);
    if (status != MMUL_OK)
        return status;
    int64_t wrong = mmul_check_rows(verifier->check, product, 0, product->m, verifier->wrong);
    verifier->rows_checked += product->m;
    verifier->rows_wrong += wrong;
    while (wrong > 0) {
        snprintf(why, sizeof why, "%lld wrong row%s in %s", (long long)wrong, wrong == 1 ? "" : "s",
                 place);
        if (mmul_worker_distrust(worker, why, err) != MMUL_OK) {
            mmul_fail(err, MMUL_ERR_WRONG,
                      "rank %d: result is wrong in %s, also after it was computed again",
                      worker->context->comm->rank, place);
            mmul_hint(err, "suspect the memory or the processor of that machine");
            return MMUL_ERR_WRONG;
        }
        status = recompute(verifier, worker, product, err);
        if (status != MMUL_OK)
            return status;
        wrong = mmul_check_rows(verifier->check, product, 0, product->m, verifier->wrong);
    }
    return MMUL_OK;
}
