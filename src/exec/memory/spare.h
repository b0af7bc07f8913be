// SPDX-License-Identifier: MIT
//
// Memory of a node that a program has left and one like it will want again: what takes it anew each time finds every
// page missing, which costs more than many a step. Kept from one run of a plan to the next one, small ones of others
// between them, and no longer: it goes when another plan is made.
#pragma once

#include "comm/shared_window.h"
#include "exec/setup/context.h"

// Of values; of held values; of runs: zeroed when it is taken again.
enum mmul_spare_kind { MMUL_SPARE_VALUES, MMUL_SPARE_HELD, MMUL_SPARE_RUN, MMUL_SPARE_KINDS };

// Local. Of several of a kind the first go: in the end all together are hardly larger than the largest.
void mmul_spare_put(struct mmul_context *context, enum mmul_spare_kind kind,
                    struct mmul_shared *shared);

// Collective over world, when no rank uses what was put there any more: `bytes` of this node's, where all ranks have as
// many of that kind, with what was in them; else new ones, zeroed. *is_new says which. Fails as mmul_shared_create;
// agree over world afterwards.
enum mmul_status mmul_spare_take(struct mmul_context *context, enum mmul_spare_kind kind,
                                 int64_t bytes, struct mmul_shared *shared, bool *is_new,
                                 struct mmul_error *err);

// Local. All of it goes.
void mmul_spares_drop(struct mmul_context *context);
