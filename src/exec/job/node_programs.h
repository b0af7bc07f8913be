// SPDX-License-Identifier: MIT
//
// Runs a separate program on every node, on that node's ranks alone (local SGD). No value travels
// between nodes meanwhile. Root sends its programs to the leaders, which run them in the contexts
// of their nodes (exec/setup/node_context.h).
#pragma once

#include "exec/job/program.h"

// Creates the nodes' contexts and finds their shares. Collective over world; call it before the
// other functions, and again at any time. nodes: one per node, filled in on root only. Fails as
// mmul_apart_begin.
enum mmul_status mmul_node_programs_open(struct mmul_context *context, const struct mmul_job *job,
                                         struct mmul_apart_node *nodes, struct mmul_error *err);

// Releases what was kept between calls. Local, before the context is destroyed.
void mmul_node_programs_close(struct mmul_context *context);

// Runs one program per node. Collective over world. programs: root's, one per node. job: each
// leader's own; only its options count. Fails as mmul_apart_run.
enum mmul_status mmul_node_programs_run(struct mmul_context *context,
                                        const struct mmul_program *const *programs,
                                        const struct mmul_job *job, struct mmul_error *err);
