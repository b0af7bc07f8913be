// SPDX-License-Identifier: MIT
//
// Contexts of a part of the ranks: of one node, or of root alone. They compute apart from the other
// ranks. A part shares device and warnings with the whole context, so only one of the two computes
// at a time.
#pragma once

#include "exec/setup/context.h"

// Creates whole->node. Collective over the whole's world; once. weights: one per rank of the whole,
// NULL: the ranks' speeds. Fails with MMUL_ERR_SYSTEM (memory, MPI).
enum mmul_status mmul_node_context_create(struct mmul_context *whole, const double *weights,
                                          struct mmul_error *err);

// Creates whole->alone. Local, on root, once. Fails with MMUL_ERR_SYSTEM (memory, MPI).
enum mmul_status mmul_root_context_create(struct mmul_context *whole, struct mmul_error *err);

// Local. lend_device lends the part (node or root's context) the device and copies the present
// state of its ranks. return_device takes the device back, which may have been replaced.
void mmul_node_context_lend_device(struct mmul_context *whole, struct mmul_context *part);
void mmul_node_context_return_device(struct mmul_context *whole, struct mmul_context *part);

// Destroys the part's comm and cluster. All else belongs to its user. NULL is allowed.
void mmul_node_context_destroy(struct mmul_context *node);
