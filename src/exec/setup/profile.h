// SPDX-License-Identifier: MIT
// Stored profile of this rank's node, applied to the present cluster. Local, except for the choice
// of paths. calibrate.c and device_test.c make it a decision of all ranks.
#pragma once

#include "exec/setup/context.h"
#include "model/device_test.h"

// Data that this rank found in the profile. Plain data: sent as bytes.
struct mmul_profile_entries {
    struct mmul_speed speed; // origin MMUL_SPEED_NONE: none
    char unused[224];        // reason why a stored speed was not used; "": none stored, or used
    struct mmul_link root_link, ring_link; // on leaders; 0: none
};

// Reads the profile of this node. A missing profile is allowed. An unusable one is ignored, and the
// node's leader warns of it once.
void mmul_profile_look_up(struct mmul_context *context, struct mmul_profile_entries *recalled);

// Collective. Leaders create the folder of their profile, and nodes[].profile is set to its path on
// all ranks. Fails with MMUL_ERR_CREATE.
enum mmul_status mmul_profile_choose_paths(struct mmul_context *context, struct mmul_error *err);

// On leaders: adds the node's speeds and links from the cluster to the profile at nodes[].profile.
// Ranks with equal keys get the mean of their speeds. An unusable file is replaced, with a warning.
// Fails with MMUL_ERR_CREATE or MMUL_ERR_IO.
enum mmul_status mmul_profile_store_cluster(struct mmul_context *context, struct mmul_error *err);

// On leaders: adds the results of the node's devices from `tests` to the profile, and fails as
// above. A device that several ranks tested passes if it passed for all. A result that does not
// count removes the stored one.
enum mmul_status mmul_profile_store_tests(struct mmul_context *context,
                                          const struct mmul_device_test *tests, int count,
                                          struct mmul_error *err);
