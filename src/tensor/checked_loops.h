// SPDX-License-Identifier: MIT
//
// Loops that run, and what nodes do apart, where a text is only checked: one turn of each stands in the program, and
// what is known of all turns is told beside the plan (mmul_script_print_loops).
#pragma once

#include "tensor/evaluator.h"

struct mmul_script_loop {
    int line;
    int64_t first, end;         // its turns
    bool may_break;             // they may be fewer
    int value_begin, value_end; // values of the turn that is planned
    const char *carried;        // names, with sizes
    struct mmul_script_loop *next;
};

// What nodes do apart: the turn that is planned, which all of them make together there.
struct mmul_script_apart {
    int line;
    int64_t turns;
    int value_begin, value_end;
    int matrices; // of its state
    struct mmul_script_apart *next;
};

// A matrix whose mean nodes take (average), or would take if they trained apart (an optimiser's parameter).
struct mmul_script_mean {
    int value, at; // where in the program: so many values were there
    bool is_taken;
    struct mmul_script_mean *next;
};

enum mmul_status mmul_checked_apart_begin(struct mmul_evaluator *e, const struct mmul_node *call,
                                          int64_t turns, struct mmul_script_apart **apart);
void mmul_checked_apart_end(struct mmul_evaluator *e, struct mmul_script_apart *apart,
                            const struct mmul_object *state);

// Of all matrices of x.
enum mmul_status mmul_checked_mean(struct mmul_evaluator *e, const struct mmul_object *x,
                                   bool is_taken);

// Around the one turn.
enum mmul_status mmul_checked_loop_begin(struct mmul_evaluator *e, const struct mmul_node *node,
                                         const int64_t bounds[2], struct mmul_script_loop **loop);
void mmul_checked_loop_end(struct mmul_evaluator *e, struct mmul_script_loop *loop);
