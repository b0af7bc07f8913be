// SPDX-License-Identifier: MIT
//
// Cache of plans in a context. A cached plan serves any program of the same structure: the same
// operations on values of the same sizes, types and placements, under the same options and speeds.
// Numbers, names, seeds and outputs may differ. Root chooses the plan; every rank has its own copy
// under the same number. Plans with products that read or write files themselves are not cached,
// because the mapping and the type depend on each file.
// Without the cache a turn of ten operations on 8 x 8 takes 6.0 times as long (bench/ledger.md).
#pragma once

#include "exec/job/program.h"

// Returns a hash of all that the plan of a job and its program depends on; 0: the plan is not
// cached. The program has its types and is folded. Root.
uint64_t mmul_plan_key(const struct mmul_context *context, const struct mmul_program *program,
                       const struct mmul_job *job);

// Takes a cached plan for this key that is not in use, and puts `program` into it; the program is
// consumed. Collective. key: root's. *plan is NULL if there is none; the program is unchanged then.
// Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_plan_cache_take(struct mmul_context *context, uint64_t key,
                                      struct mmul_program *program, struct mmul_program_plan **plan,
                                      struct mmul_error *err);

// Adds a new plan to the cache if it may be cached. The context then destroys it. Local, called on
// all ranks alike.
void mmul_plan_cache_add(struct mmul_context *context, uint64_t key,
                         struct mmul_program_plan *plan);

void mmul_plan_cache_destroy(struct mmul_context *context);
