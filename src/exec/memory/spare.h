// SPDX-License-Identifier: MIT
//
// Memory of a node that a program has left and one like it will want again: what takes it anew each time finds every
// page missing, which costs more than many a step. Kept from one run of a plan to the next one, and no longer: it goes
// when another plan is made.
#pragma once

#include "comm/shared_window.h"
#include "exec/setup/context.h"

// Of values, by their plan; of held values; of runs, by their plan: zeroed when it is taken again.
enum mmul_spare_kind { MMUL_SPARE_VALUES, MMUL_SPARE_HELD, MMUL_SPARE_RUN, MMUL_SPARES };

struct mmul_spare_owner {
    enum mmul_spare_kind kind;
    const void *plan; // NULL: any
};

struct mmul_spare {
    struct mmul_shared shared; // owned; data NULL: there is none
    const void *plan;
};

// Local. Takes the place of another one, which goes.
void mmul_spare_put(struct mmul_context *context, struct mmul_spare_owner owner,
                    struct mmul_shared *shared);

// Collective over world, when no rank uses what was put there any more: `bytes` of this node's, where all ranks have
// such of that owner; else new ones, zeroed. *is_new says which. Fails as mmul_shared_create; agree over world
// afterwards.
enum mmul_status mmul_spare_take(struct mmul_context *context, struct mmul_spare_owner owner,
                                 int64_t bytes, struct mmul_shared *shared, bool *is_new,
                                 struct mmul_error *err);

// Local. All of it goes.
void mmul_spares_drop(struct mmul_context *context);
