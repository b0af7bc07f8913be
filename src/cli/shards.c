// SPDX-License-Identifier: MIT
// The default folder of shards. Callers check that the folder is safe.
#include "cli/shards.h"

#include "cli/failure.h"

enum mmul_status mmul_shards_find_folder(const struct call *call,
                                         char folder[SHARD_FOLDER_CAPACITY],
                                         struct mmul_error *err) {
    const char *given = call->options.values[OPT_SHARD_DIR].text;
    char standard[64];
    int length = snprintf(folder, SHARD_FOLDER_CAPACITY, "%s",
                          given != NULL ? given : mmul_shard_folder(standard));
    if (length < 0 || length >= SHARD_FOLDER_CAPACITY)
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "--shard-dir: the path is longer than %d bytes",
                             SHARD_FOLDER_CAPACITY - 1);
    return MMUL_OK;
}
