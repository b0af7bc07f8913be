// SPDX-License-Identifier: MIT
//
// Every node runs a program of its own, on its own ranks, and no value travels between nodes meanwhile: root's programs
// go out to the leaders, which carry them out in the contexts of their nodes (exec/setup/node_context.h).
#pragma once

#include "exec/job/program.h"

// Collective over world, before the first of the others; again as often as one likes. nodes: of all, filled in on root
// alone. Fails as mmul_apart_begin.
enum mmul_status mmul_apart_open(struct mmul_context *context, const struct mmul_job *job,
                                 struct mmul_apart_node *nodes, struct mmul_error *err);

// Local. Before the context goes.
void mmul_apart_close(struct mmul_context *context);

// Collective over world. programs: root's, one per node. job: each leader's, of which the options count. Fails as
// mmul_apart_run.
enum mmul_status mmul_apart_carry_out(struct mmul_context *context,
                                      const struct mmul_program *const *programs,
                                      const struct mmul_job *job, struct mmul_error *err);
