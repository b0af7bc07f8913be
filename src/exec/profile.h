// SPDX-License-Identifier: MIT
// The stored profile of this rank's node: what it knows of the cluster as it is now. All local;
// exec/calibrate makes it a decision of all ranks.
#pragma once

#include "exec/context.h"

// What this rank found in the profile. Plain data: sent as bytes.
struct mmul_recalled {
    struct mmul_speed speed;               // origin MMUL_SPEED_NONE: none
    struct mmul_link root_link, ring_link; // on leaders; 0: none
};

// Reads the profile of this node. There may be none, and one that cannot be used is ignored, with a
// warning by the node's leader, once.
void mmul_profile_recall(struct mmul_context *context, struct mmul_recalled *recalled);

// On leaders: makes the folder the profile goes to and writes its path to `path`; others get "".
// Fails with MMUL_ERR_CREATE.
enum mmul_status mmul_profile_choose_path(const struct mmul_context *context, char path[static 512],
                                          struct mmul_error *err);

// On leaders: adds the node's speeds and links, as the cluster has them, to the profile at
// nodes[].profile. Ranks that a profile cannot tell apart get their mean. A file that cannot be
// used is replaced, with a warning. Fails with MMUL_ERR_CREATE or MMUL_ERR_IO.
enum mmul_status mmul_profile_keep(struct mmul_context *context, struct mmul_error *err);
