// SPDX-License-Identifier: MIT
// Rings with one writer and one reader each.
#include "exec/memory/completed.h"

void mmul_completed_add(struct mmul_completed *queue, struct mmul_region region) {
    const int64_t added = atomic_load(&queue->added);
    if (added - atomic_load(&queue->taken) == MMUL_COMPLETED_MOST)
        return;
    queue->regions[added % MMUL_COMPLETED_MOST] = region;
    atomic_store(&queue->added, added + 1);
}

bool mmul_completed_take(struct mmul_completed *queue, struct mmul_region *region) {
    const int64_t taken = atomic_load(&queue->taken);
    if (taken == atomic_load(&queue->added))
        return false;
    *region = queue->regions[taken % MMUL_COMPLETED_MOST];
    atomic_store(&queue->taken, taken + 1);
    return true;
}

void mmul_completed_withdraw(struct mmul_completed *queue) {
    atomic_fetch_add(&queue->withdrawn, 1);
}
