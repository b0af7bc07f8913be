// SPDX-License-Identifier: MIT
// The folder that split writes to and join reads from.
#pragma once

#include "cli/command.h"

enum { SHARD_FOLDER_CAPACITY = 4096 };

// --shard-dir, its environment name, or the user's folder in RAM.
enum mmul_status mmul_shards_folder(const struct call *call, char folder[SHARD_FOLDER_CAPACITY],
                                    struct mmul_error *err);
