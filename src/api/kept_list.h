// SPDX-License-Identifier: MIT
// The sets of shards in the folders of all ranks: a table, and how they are removed.
#pragma once

#include "exec/setup/context.h"

// Collective over world. *text (root): a table with tabs, or JSON, of the sets of these names, or (count 0) of all;
// released with mmul_free. Fails with MMUL_ERR_NO_INPUT (nobody has a set of that name), and as mmul_shard_list.
enum mmul_status mmul_kept_list(struct mmul_context *context, const char *const *names, int count,
                                bool json, char **text, struct mmul_error *err);

// Collective over world. Removes sets from all folders. Fails as above, and with MMUL_ERR_IO.
enum mmul_status mmul_kept_remove(struct mmul_context *context, const char *const *names, int count,
                                  struct mmul_error *err);
