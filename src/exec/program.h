// SPDX-License-Identifier: MIT
//
// Programs on a communicator: root's program to everybody, its plan, and the run, of which each step is a
// stage. A failure anywhere makes what follows void; one agreement at the end makes it everybody's.
#pragma once

#include "exec/values.h"

struct mmul_program_wishes {
    const char *weights; // (root) NULL: auto
    enum mmul_io io;
    struct mmul_program_limits limits;
    bool keep_values, no_verify, no_fallback, records, reproducible;
    double device_timeout_seconds;
    uint64_t verify_seed;                                   // 0: fresh
    void (*notice)(void *notice_context, const char *text); // (root)
    void *notice_context;
    void (*progress)(void *notice_context, const char *phase, int64_t done_bytes,
                     int64_t total_bytes);                                    // (root)
    enum mmul_status (*accept)(void *accept_context, struct mmul_error *err); // (root)
    void *accept_context;
};

// Collective. `program` and wishes are root's; the plan has a copy of the program. Fails as
// mmul_program_plan_create.
enum mmul_status mmul_program_prepare(struct mmul_context *context,
                                      const struct mmul_program *program,
                                      const struct mmul_program_wishes *wishes,
                                      struct mmul_program_plan **plan, struct mmul_error *err);

// Collective. Fails as mmul_program_run.
enum mmul_status mmul_program_carry_out(struct mmul_context *context,
                                        struct mmul_program_plan *plan, struct mmul_values **values,
                                        struct mmul_error *err);

// Collective. Plans of the products, on all ranks. balanced: shares that are free, and what is claimed,
// are the plans' choice. Fails as mmul_program_plan_create.
enum mmul_status mmul_program_plan_products(struct mmul_context *context,
                                            struct mmul_program_plan *plan, bool balanced,
                                            struct mmul_error *err);
