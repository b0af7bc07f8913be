// SPDX-License-Identifier: MIT
//
// What a step does to its result in the end (plan/program_chain.c), on one rank: some rows after the other, each of
// which goes through all links while it is in the processor's caches. What is between two links is in memory of the
// chain's own, of a few rows. The compute thread's; moves nothing.
#pragma once

#include "plan/program_plan.h"

struct mmul_stage;

struct mmul_chain {
    const struct mmul_program_step *step; // borrowed; NULL: there are no links
    struct mmul_program_step blocks;      // a copy, whose blocks are those of the result
    int64_t elements;                     // of each of
    float *between[2];                    // owned; NULL: none yet, or left to a device that hangs
    int64_t done;                         // parts that have gone through all links
};

// step: of the stage; NULL, or one without links: nothing to do. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_chain_init(struct mmul_stage *stage, const struct mmul_program_step *step,
                                 struct mmul_error *err);
void mmul_chain_fini(struct mmul_chain *chain);

// Is the step's own operation one of the links?
bool mmul_chain_is_all(const struct mmul_stage *stage);

// Nothing has gone through it: what it begins with is made again.
void mmul_chain_restart(struct mmul_chain *chain);

// The device hangs, and may still write to what is between.
void mmul_chain_abandon(struct mmul_chain *chain);

// This rank's part, from where it was when it was called before. Fails as mmul_stage_map.
enum mmul_status mmul_chain_make(struct mmul_stage *stage, struct mmul_error *err);
