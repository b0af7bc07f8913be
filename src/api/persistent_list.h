// SPDX-License-Identifier: MIT
// Listing and removal of the sets of shards in the folders of all ranks.
#pragma once

#include "exec/setup/context.h"

// Collective over world. Lists the sets with these names; count 0: all sets. *text (root): a
// table with tabs, or JSON; released with mmul_free. Fails with MMUL_ERR_NO_INPUT (no rank has a
// set of that name) and the errors of mmul_shard_list.
enum mmul_status mmul_persistent_list(struct mmul_context *context, const char *const *names,
                                      int count, bool json, char **text, struct mmul_error *err);

// Collective over world. Removes sets from all folders. Fails with the errors of
// mmul_persistent_list or MMUL_ERR_IO.
enum mmul_status mmul_persistent_remove(struct mmul_context *context, const char *const *names,
                                        int count, struct mmul_error *err);
