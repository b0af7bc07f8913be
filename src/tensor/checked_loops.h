// SPDX-License-Identifier: MIT
//
// Loops that run, where a text is only checked: one turn of each stands in the program, and what is known of all turns
// is told beside the plan (mmul_script_print_loops).
#pragma once

#include "tensor/evaluator.h"

struct mmul_script_loop {
    int line;
    int64_t first, end;         // its turns
    int value_begin, value_end; // values of the turn that is planned
    const char *carried;        // names, with sizes
    struct mmul_script_loop *next;
};

// Around the one turn.
enum mmul_status mmul_checked_loop_begin(struct mmul_evaluator *e, const struct mmul_node *node,
                                         const int64_t bounds[2], struct mmul_script_loop **loop);
void mmul_checked_loop_end(struct mmul_evaluator *e, struct mmul_script_loop *loop);
