// SPDX-License-Identifier: MIT
// The first error of two threads, and a flag that the ranks of a node may share.
#include "comm/failure.h"

#include <stddef.h>

void mmul_failure_keep(struct mmul_failure *failure, const struct mmul_error *err) {
    if (failure == NULL)
        return;
    if (err->status != MMUL_ERR_STOPPED && atomic_exchange(&failure->is_kept, 1) == 0)
        failure->err = *err;
    mmul_failure_void_traffic(failure);
}

void mmul_failure_void_traffic(struct mmul_failure *failure) {
    if (failure == NULL)
        return;
    bool is_first =
        atomic_exchange(failure->shared != NULL ? failure->shared : &failure->own, 1) == 0;
    if (is_first && failure->wake_waiting_threads != NULL)
        failure->wake_waiting_threads(failure->context);
}

bool mmul_failure_is_void(const struct mmul_failure *failure) {
    return failure != NULL &&
           atomic_load(failure->shared != NULL ? failure->shared : &failure->own) != 0;
}
