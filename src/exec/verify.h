// SPDX-License-Identifier: MIT
// The flow of verification on one rank: check every product, compute wrong rows again on the next
// device, check again. The maths are in model/check.
#pragma once

#include "exec/worker.h"
#include "model/check.h"

struct mmul_verifier {
    struct mmul_check *check; // owned
    unsigned char *wrong;     // owned: a flag per row of the largest product
    uint64_t seed;
    const void *begun_b; // B x is known for this B ...
    int64_t begun_n;     // ... with as many columns
    int64_t rows_checked, rows_wrong, rows_recomputed;
};

// Room for products of up to m x n x k. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_verifier_init(struct mmul_verifier *verifier, int64_t m, int64_t n, int64_t k,
                                    uint64_t seed, struct mmul_error *err);
void mmul_verifier_fini(struct mmul_verifier *verifier);

// Checks a product that `worker` computed, repairing what is wrong. `place` names it in errors
// ("rows 100-200 of matrix 3"). Fails with MMUL_ERR_WRONG when it stays wrong.
enum mmul_status mmul_verifier_check(struct mmul_verifier *verifier, struct mmul_worker *worker,
                                     const struct mmul_product *product, const char *place,
                                     struct mmul_error *err);
