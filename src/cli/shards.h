// SPDX-License-Identifier: MIT
// The folder to which split writes and from which join reads.
#pragma once

#include "cli/command.h"

enum { SHARD_FOLDER_CAPACITY = 4096 };

// Returns --shard-dir, its environment variable, or the user's folder in RAM.
enum mmul_status mmul_shards_find_folder(const struct call *call,
                                         char folder[SHARD_FOLDER_CAPACITY],
                                         struct mmul_error *err);
