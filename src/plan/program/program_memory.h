// SPDX-License-Identifier: MIT
//
// Memory of a program's nodes and ranks: values, shards and work space, against the available
// memory.
#pragma once

#include "plan/lists/program_plan.h"

// Computes the memory of a run beside the values, by the current limits and options of the plan. If
// it does not fit, drops work stealing between nodes, then the cached sums that checks of several
// products share. Ignores products that have no schedules yet. Returns true if it fits.
bool mmul_program_fit_footprint(struct mmul_program_plan *plan, const struct mmul_cluster *cluster);

// Returns the bytes of a node: the run's segment and the private memory of its ranks.
int64_t mmul_program_node_footprint(const struct mmul_program_plan *plan, int node);

// Returns the memory that values, shards and work space leave of a node's memory, or of the plan's
// limit there. Negative: they do not fit.
int64_t mmul_program_memory_left(const struct mmul_program_plan *plan,
                                 const struct mmul_cluster *cluster, int node);

// Returns the limit per node that would suffice, including the memory that its processes have
// already.
int64_t mmul_program_needed_limit(const struct mmul_program_plan *plan,
                                  const struct mmul_cluster *cluster);

// Checks that values and work space fit into the memory of the nodes and the plan's limit. Fails
// with MMUL_ERR_SYSTEM.
enum mmul_status mmul_program_check_memory(const struct mmul_program_plan *plan,
                                           const struct mmul_cluster *cluster,
                                           struct mmul_error *err);

// Writes the bytes that a rank has in its node's memory during each step (one per step): its
// values, its share of the run's segment, and its private memory. Values that are whole on the node
// count for its first rank. device: the tiles of products on a device with its own memory, else 0.
void mmul_program_rank_memory(const struct mmul_program_plan *plan, int rank, int64_t *bytes,
                              int64_t *device);
