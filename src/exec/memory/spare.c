// SPDX-License-Identifier: MIT
// Keeps up to four segments of each kind: a large one, and those of small programs that run between
// iterations.
#include "exec/memory/spare.h"

#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"

enum { EACH = 4, SMALL_SHARE = 8 };

// By age, the oldest first.
struct mmul_spares {
    struct mmul_shared kinds[MMUL_SPARE_KINDS][EACH]; // owned
    int counts[MMUL_SPARE_KINDS];
};

static struct mmul_shared remove_at(struct mmul_spares *spares, enum mmul_spare_kind kind, int at) {
    struct mmul_shared *all = spares->kinds[kind];
    const struct mmul_shared removed = all[at];
    memmove(all + at, all + at + 1, (size_t)(--spares->counts[kind] - at) * sizeof *all);
    return removed;
}

static void drop_at(struct mmul_spares *spares, enum mmul_spare_kind kind, int at) {
    struct mmul_shared removed = remove_at(spares, kind, at);
    mmul_shared_destroy(&removed);
}

// Evicts the oldest until `bytes` more fit: all together are then at most an eighth larger than the
// largest alone.
static void evict_oldest(struct mmul_spares *spares, enum mmul_spare_kind kind, int64_t bytes) {
    int64_t sum = bytes, largest = bytes;
    for (int i = 0; i < spares->counts[kind]; i++) {
        sum += spares->kinds[kind][i].bytes;
        largest = mmul_larger(largest, spares->kinds[kind][i].bytes);
    }
    while (spares->counts[kind] > 0 && sum > largest + largest / SMALL_SHARE) {
        sum -= spares->kinds[kind][0].bytes;
        drop_at(spares, kind, 0);
    }
}

void mmul_spare_put(struct mmul_context *context, enum mmul_spare_kind kind,
                    struct mmul_shared *shared) {
    struct mmul_error ignored;
    if (context->spares == NULL &&
        MMUL_ALLOCATE(context->spares, 1, "spare memory", &ignored) != MMUL_OK) {
        mmul_shared_destroy(shared);
        return;
    }
    struct mmul_spares *spares = context->spares;
    evict_oldest(spares, kind, shared->bytes);
    if (spares->counts[kind] == EACH)
        drop_at(spares, kind, 0);
    spares->kinds[kind][spares->counts[kind]++] = *shared;
    *shared = (struct mmul_shared){.data = NULL};
}

// Returns the index of the newest segment of this size; -1: none.
static int find_segment(const struct mmul_spares *spares, enum mmul_spare_kind kind,
                        int64_t bytes) {
    int at = spares != NULL ? spares->counts[kind] - 1 : -1;
    while (at >= 0 && spares->kinds[kind][at].bytes != bytes)
        at--;
    return at;
}

enum mmul_status mmul_spare_take(struct mmul_context *context, enum mmul_spare_kind kind,
                                 int64_t bytes, struct mmul_shared *shared, bool *is_new,
                                 struct mmul_error *err) {
    struct mmul_spares *spares = context->spares;
    const int at = find_segment(spares, kind, bytes);
    struct mmul_error missing = {.status = MMUL_OK};
    if (at >= 0 && kind == MMUL_SPARE_RUN && context->comm->node_rank == 0)
        memset(spares->kinds[kind][at].data, 0, (size_t)bytes);
    if (at < 0)
        mmul_fail(&missing, MMUL_ERR_SYSTEM, "no spare memory");
    *is_new = mmul_comm_agree(context->comm, missing.status, &missing) != MMUL_OK;
    if (!*is_new) {
        *shared = remove_at(spares, kind, at);
        return MMUL_OK;
    }
    if (at >= 0) // other ranks have none
        drop_at(spares, kind, at);
    if (spares != NULL)
        evict_oldest(spares, kind, bytes);
    return mmul_shared_create(context->comm, bytes, shared, err);
}

void mmul_spares_drop(struct mmul_context *context) {
    for (int kind = 0; context->spares != NULL && kind < MMUL_SPARE_KINDS; kind++)
        while (context->spares->counts[kind] > 0)
            drop_at(context->spares, kind, 0);
    mmul_free(context->spares);
    context->spares = NULL;
}
