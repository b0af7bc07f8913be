// SPDX-License-Identifier: MIT
// The stored profile of this rank's node: what it knows of the cluster as it is now. Local, but for
// the choice of paths; exec/setup/calibrate and exec/setup/device_test make it a decision of all ranks.
#pragma once

#include "exec/setup/context.h"
#include "model/device_test.h"

// What this rank found in the profile. Plain data: sent as bytes.
struct mmul_recalled {
    struct mmul_speed speed; // origin MMUL_SPEED_NONE: none
    char unused[224];        // why a speed that is stored was not used; "": none is, or it was
    struct mmul_link root_link, ring_link; // on leaders; 0: none
};

// Reads the profile of this node. There may be none, and one that cannot be used is ignored, with a
// warning by the node's leader, once.
void mmul_profile_recall(struct mmul_context *context, struct mmul_recalled *recalled);

// Collective: leaders make the folder their profile goes to, and its path goes to nodes[].profile
// everywhere. Fails with MMUL_ERR_CREATE.
enum mmul_status mmul_profile_choose_paths(struct mmul_context *context, struct mmul_error *err);

// On leaders: adds the node's speeds and links, as the cluster has them, to the profile at
// nodes[].profile. Ranks that a profile cannot tell apart get their mean. A file that cannot be
// used is replaced, with a warning. Fails with MMUL_ERR_CREATE or MMUL_ERR_IO.
enum mmul_status mmul_profile_keep(struct mmul_context *context, struct mmul_error *err);

// The same with tests of the node's devices, of all that are given. A device that several ranks
// tested has passed when it did for all. What does not count is forgotten.
enum mmul_status mmul_profile_keep_tests(struct mmul_context *context,
                                         const struct mmul_device_test *tests, int count,
                                         struct mmul_error *err);
