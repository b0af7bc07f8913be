// SPDX-License-Identifier: MIT
//
// Memory of a program's nodes and ranks: values, shards and rooms, against what there is.
#pragma once

#include "plan/lists/program_plan.h"

// Finds what a run has beside the values, by the limits and options that the plan has by now; where that is more than
// there is, without the sums that several products' checks could share. Products that have no schedules yet
// are not among it. True: it fits.
bool mmul_program_fit_footprint(struct mmul_program_plan *plan, const struct mmul_cluster *cluster);

// Of a node: of the run's segment and its ranks' own.
int64_t mmul_program_node_footprint(const struct mmul_program_plan *plan, int node);

// What values, shards and rooms leave of what a node has, or the plan's limit allows there; negative: they do not fit.
int64_t mmul_program_left(const struct mmul_program_plan *plan, const struct mmul_cluster *cluster,
                          int node);

// The limit for nodes that would allow all of that, with what their processes have already.
int64_t mmul_program_needs(const struct mmul_program_plan *plan,
                           const struct mmul_cluster *cluster);

// Do values and rooms fit into what the nodes have, and the plan's limit allows? Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_program_check_memory(const struct mmul_program_plan *plan,
                                           const struct mmul_cluster *cluster,
                                           struct mmul_error *err);

// Bytes that a rank has in the memory of its node while each step goes on (one per step): of values, those
// that are whole on the node being its first rank's, its share of the run's segment, and what is its own.
// device: what a product's tiles take of a device with memory of its own, else 0.
void mmul_program_rank_memory(const struct mmul_program_plan *plan, int rank, int64_t *bytes,
                              int64_t *device);
