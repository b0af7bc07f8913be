// SPDX-License-Identifier: MIT
//
// Cache of shared memory between programs. A program leaves its segment here, and a later one of
// the same size takes it. In a new segment every page must be faulted in, which costs more than
// many steps. The cache lasts from one run of a plan to the next, with small segments of other
// programs between; making another plan empties it.
// Without the cache a turn of ten operations on 8 x 8 takes 2.5 times as long (bench/ledger.md).
#pragma once

#include "comm/shared_memory.h"
#include "exec/setup/context.h"

// Memory of values, of held values, and of runs. Memory of runs is zeroed when it is taken again.
enum mmul_segment_cache_kind {
    MMUL_SEGMENT_CACHE_VALUES,
    MMUL_SEGMENT_CACHE_HELD,
    MMUL_SEGMENT_CACHE_RUN,
    MMUL_SEGMENT_CACHE_KINDS
};

// Puts a segment into the cache. Evicts the oldest ones of that kind, so that all together are
// hardly larger than the largest. Local.
void mmul_segment_cache_put(struct mmul_context *context, enum mmul_segment_cache_kind kind,
                            struct mmul_shared *shared);

// Takes a segment of `bytes` for this node, with its old contents, if every rank has one of that
// kind and size. Otherwise creates a zeroed one; *is_new tells. Collective over world; no rank may
// still use what was put into the cache. Fails as mmul_shared_create; agree over world afterwards.
enum mmul_status mmul_segment_cache_take(struct mmul_context *context,
                                         enum mmul_segment_cache_kind kind, int64_t bytes,
                                         struct mmul_shared *shared, bool *is_new,
                                         struct mmul_error *err);

// Empties the cache. Local.
void mmul_segment_cache_clear(struct mmul_context *context);
