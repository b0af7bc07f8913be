// SPDX-License-Identifier: MIT
// Keeps up to four segments of each kind: a large one, and those of small programs that run between
// iterations.
#include "exec/memory/segment_cache.h"

#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"

enum { EACH = 4, SMALL_SHARE = 8 };

// By age, the oldest first.
struct mmul_segment_cache {
    struct mmul_shared kinds[MMUL_SEGMENT_CACHE_KINDS][EACH]; // owned
    int counts[MMUL_SEGMENT_CACHE_KINDS];
};

static struct mmul_shared remove_at(struct mmul_segment_cache *segment_cache,
                                    enum mmul_segment_cache_kind kind, int at) {
    struct mmul_shared *all = segment_cache->kinds[kind];
    const struct mmul_shared removed = all[at];
    memmove(all + at, all + at + 1, (size_t)(--segment_cache->counts[kind] - at) * sizeof *all);
    return removed;
}

static void drop_at(struct mmul_segment_cache *segment_cache, enum mmul_segment_cache_kind kind,
                    int at) {
    struct mmul_shared removed = remove_at(segment_cache, kind, at);
    mmul_shared_destroy(&removed);
}

// Evicts the oldest until `bytes` more fit: all together are then at most an eighth larger than the
// largest alone.
static void evict_oldest(struct mmul_segment_cache *segment_cache,
                         enum mmul_segment_cache_kind kind, int64_t bytes) {
    int64_t sum = bytes, largest = bytes;
    for (int i = 0; i < segment_cache->counts[kind]; i++) {
        sum += segment_cache->kinds[kind][i].bytes;
        largest = mmul_max(largest, segment_cache->kinds[kind][i].bytes);
    }
    while (segment_cache->counts[kind] > 0 && sum > largest + largest / SMALL_SHARE) {
        sum -= segment_cache->kinds[kind][0].bytes;
        drop_at(segment_cache, kind, 0);
    }
}

void mmul_segment_cache_put(struct mmul_context *context, enum mmul_segment_cache_kind kind,
                            struct mmul_shared *shared) {
    struct mmul_error ignored;
    if (context->segment_cache == NULL &&
        MMUL_ALLOCATE(context->segment_cache, 1, "spare memory", &ignored) != MMUL_OK) {
        mmul_shared_destroy(shared);
        return;
    }
    struct mmul_segment_cache *segment_cache = context->segment_cache;
    evict_oldest(segment_cache, kind, shared->bytes);
    if (segment_cache->counts[kind] == EACH)
        drop_at(segment_cache, kind, 0);
    segment_cache->kinds[kind][segment_cache->counts[kind]++] = *shared;
    *shared = (struct mmul_shared){.data = NULL};
}

// Returns the index of the newest segment of this size; -1: none.
static int find_segment(const struct mmul_segment_cache *segment_cache,
                        enum mmul_segment_cache_kind kind, int64_t bytes) {
    int at = segment_cache != NULL ? segment_cache->counts[kind] - 1 : -1;
    while (at >= 0 && segment_cache->kinds[kind][at].bytes != bytes)
        at--;
    return at;
}

enum mmul_status mmul_segment_cache_take(struct mmul_context *context,
                                         enum mmul_segment_cache_kind kind, int64_t bytes,
                                         struct mmul_shared *shared, bool *is_new,
                                         struct mmul_error *err) {
    struct mmul_segment_cache *segment_cache = context->segment_cache;
    const int at = find_segment(segment_cache, kind, bytes);
    struct mmul_error missing = {.status = MMUL_OK};
    if (at >= 0 && kind == MMUL_SEGMENT_CACHE_RUN && context->comm->node_rank == 0)
        memset(segment_cache->kinds[kind][at].data, 0, (size_t)bytes);
    if (at < 0)
        mmul_fail(&missing, MMUL_ERR_SYSTEM, "no spare memory");
    *is_new = mmul_comm_agree(context->comm, missing.status, &missing) != MMUL_OK;
    if (!*is_new) {
        *shared = remove_at(segment_cache, kind, at);
        return MMUL_OK;
    }
    if (at >= 0) // other ranks have none
        drop_at(segment_cache, kind, at);
    if (segment_cache != NULL)
        evict_oldest(segment_cache, kind, bytes);
    return mmul_shared_create(context->comm, bytes, shared, err);
}

void mmul_segment_cache_clear(struct mmul_context *context) {
    for (int kind = 0; context->segment_cache != NULL && kind < MMUL_SEGMENT_CACHE_KINDS; kind++)
        while (context->segment_cache->counts[kind] > 0)
            drop_at(context->segment_cache, kind, 0);
    mmul_free(context->segment_cache);
    context->segment_cache = NULL;
}
