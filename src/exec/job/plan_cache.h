// SPDX-License-Identifier: MIT
//
// Plans of programs that were made before in a context, for those that are like them: the same operations on values of
// the same sizes, types and placements, whatever the numbers, names, seeds and outputs, under the same options and
// speeds. Root says which; every rank has its own of the same number. Not of products that bring their files: which of
// those a node can map, and in which type, is a matter of each file.
#pragma once

#include "exec/job/program.h"

// What of a job and its program, typed and folded, a plan depends on; 0: this one is not kept. Root.
uint64_t mmul_plan_key(const struct mmul_context *context, const struct mmul_program *program,
                       const struct mmul_job *job);

// Collective. A plan that was made for this key and that nobody is using, with `program` in place of its own: that is
// used up. key: root's. NULL: there is none; the program is as before. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_plan_cache_take(struct mmul_context *context, uint64_t key,
                                      struct mmul_program *program, struct mmul_program_plan **plan,
                                      struct mmul_error *err);

// Local, on all ranks alike. Keeps a plan that was made, where it may be kept, for others; its destruction is the
// context's then.
void mmul_plan_cache_add(struct mmul_context *context, uint64_t key,
                         struct mmul_program_plan *plan);

void mmul_plan_cache_destroy(struct mmul_context *context);
