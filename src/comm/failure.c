// SPDX-License-Identifier: MIT
// The first error of two threads, and a flag that may be shared by a node.
#include "comm/failure.h"

#include <stddef.h>

void mmul_failure_keep(struct mmul_failure *failure, const struct mmul_error *err) {
    if (failure == NULL)
        return;
    if (err->status != MMUL_ERR_STOPPED && atomic_exchange(&failure->is_kept, 1) == 0)
        failure->err = *err;
    mmul_failure_void(failure);
}

void mmul_failure_void(struct mmul_failure *failure) {
    if (failure != NULL)
        atomic_store(failure->shared != NULL ? failure->shared : &failure->own, 1);
}

bool mmul_failure_is_void(const struct mmul_failure *failure) {
    return failure != NULL &&
           atomic_load(failure->shared != NULL ? failure->shared : &failure->own) != 0;
}
