// SPDX-License-Identifier: MIT
//
// The context of a node alone: its ranks compute apart from those of other nodes. Device and warnings are those of the
// whole, so one of the two computes at a time.
#pragma once

#include "exec/setup/context.h"

// Collective over the whole's world; once. weights: of all ranks, what each is worth; NULL: its speed. Fails with
// MMUL_ERR_SYSTEM (memory, MPI).
enum mmul_status mmul_node_context_create(struct mmul_context *whole, const double *weights,
                                          struct mmul_error *err);

// Local. Lends it the device, and what is known of ranks by now; takes it back, which may be another one.
void mmul_node_context_enter(struct mmul_context *whole);
void mmul_node_context_leave(struct mmul_context *whole);

// Of the node's: comm and cluster; what else it has is its user's. NULL is fine.
void mmul_node_context_destroy(struct mmul_context *node);
