// SPDX-License-Identifier: MIT
// One of each kind.
#include "exec/memory/spare.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"

static void drop(struct mmul_spare *spare) {
    mmul_shared_destroy(&spare->shared);
    *spare = (struct mmul_spare){.plan = NULL};
}

void mmul_spare_put(struct mmul_context *context, struct mmul_spare_owner owner,
                    struct mmul_shared *shared) {
    struct mmul_error ignored;
    if (context->spares == NULL &&
        MMUL_ALLOCATE(context->spares, MMUL_SPARES, "spare memory", &ignored) != MMUL_OK) {
        mmul_shared_destroy(shared);
        return;
    }
    drop(&context->spares[owner.kind]);
    context->spares[owner.kind] = (struct mmul_spare){*shared, owner.plan};
    *shared = (struct mmul_shared){.data = NULL};
}

enum mmul_status mmul_spare_take(struct mmul_context *context, struct mmul_spare_owner owner,
                                 int64_t bytes, struct mmul_shared *shared, bool *is_new,
                                 struct mmul_error *err) {
    struct mmul_spare *spare = context->spares != NULL ? &context->spares[owner.kind] : NULL;
    const bool has = spare != NULL && spare->plan == owner.plan && spare->shared.data != NULL &&
                     spare->shared.bytes == bytes;
    struct mmul_error missing = {.status = MMUL_OK};
    if (has && owner.kind == MMUL_SPARE_RUN && context->comm->node_rank == 0)
        memset(spare->shared.data, 0, (size_t)bytes);
    if (!has)
        mmul_fail(&missing, MMUL_ERR_SYSTEM, "no spare memory");
    *is_new = mmul_comm_agree(context->comm, missing.status, &missing) != MMUL_OK;
    if (!*is_new) {
        *shared = spare->shared;
        spare->shared = (struct mmul_shared){.data = NULL};
        return MMUL_OK;
    }
    if (spare != NULL) // before as much is taken again
        drop(spare);
    return mmul_shared_create(context->comm, bytes, shared, err);
}

void mmul_spares_drop(struct mmul_context *context) {
    for (int kind = 0; context->spares != NULL && kind < MMUL_SPARES; kind++)
        drop(&context->spares[kind]);
    mmul_free(context->spares);
    context->spares = NULL;
}
