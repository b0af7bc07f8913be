// SPDX-License-Identifier: MIT
//
// Loops and apart() for --check. The program contains one iteration of each; this module scales its
// cost to all iterations and prints it beside the plan (mmul_script_print_loops).
#pragma once

#include "tensor/evaluator.h"

struct mmul_loop_cost {
    int line;
    int64_t first, end;         // range of iterations
    bool may_break;             // the loop may end early
    int value_begin, value_end; // values of the planned iteration
    const char *carried;        // names of carried values, with sizes
    struct mmul_loop_cost *next;
};

// An `if` on a computed number, which --check takes for false.
struct mmul_unplanned_block {
    int line;
    struct mmul_unplanned_block *next;
};

// Lists the `if` unless its block only leaves or continues a loop.
enum mmul_status mmul_unplanned_block_add(struct mmul_evaluator *e, const struct mmul_node *branch);

// A call of apart(): the planned iteration, evaluated as if all nodes worked together.
struct mmul_local_training_cost {
    int line;
    int64_t turns;
    int value_begin, value_end;
    int matrices; // number of matrices in its state
    struct mmul_local_training_cost *next;
};

// A matrix that average() takes the mean of, or that it would if the nodes trained apart (a
// parameter of an optimizer).
struct mmul_mean_cost {
    // The value, and the number of values that the program had before it.
    int value, at;
    bool is_taken;
    struct mmul_mean_cost *next;
};

enum mmul_status mmul_local_training_cost_begin(struct mmul_evaluator *e,
                                                const struct mmul_node *call, int64_t turns,
                                                struct mmul_local_training_cost **apart);
void mmul_local_training_cost_end(struct mmul_evaluator *e, struct mmul_local_training_cost *apart,
                                  const struct mmul_object *state);

// Adds all matrices of x.
enum mmul_status mmul_loop_cost_add_mean(struct mmul_evaluator *e, const struct mmul_object *x,
                                         bool is_taken);

// Encloses the evaluation of the one iteration.
enum mmul_status mmul_loop_cost_begin(struct mmul_evaluator *e, const struct mmul_node *node,
                                      const int64_t bounds[2], struct mmul_loop_cost **loop);
void mmul_loop_cost_end(struct mmul_evaluator *e, struct mmul_loop_cost *loop);
