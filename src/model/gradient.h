// SPDX-License-Identifier: MIT
//
// Reverse-mode gradients: adds to a program the operations that compute the derivatives of one of
// its values by others. The rule of an operation is a function in model/gradient_rules.c, which
// applies other operations.
//
// During the traversal a gradient has sizes that repeat to those of its value: the gradient of a
// sum is one number for any number of elements. At the end it has all sizes.
#pragma once

#include "model/build.h"

// Traversal state at one operation.
struct mmul_gradient_traversal {
    struct mmul_build *b;
    struct mmul_operation operation; // a copy: the program grows
    int gradient;                    // gradient of its result
    const bool *is_wanted;      // for every value of the original program: its gradient is needed
    int *gradients;             // for the same values: known gradients; MMUL_NO_VALUE
    struct mmul_pieces *pieces; // pieces of these gradients (model/gradient_pieces.h)
};

typedef void mmul_gradient_rule(struct mmul_gradient_traversal *w);

// Returns the rule of an operation. NULL: there is none. Then *reason says why it cannot be
// differentiated, or is NULL if the result does not depend smoothly on any operand (comparisons,
// indices), or there is no operand.
mmul_gradient_rule *mmul_gradient_rule_of(enum mmul_operation_kind kind, const char **reason);

// Adds to the gradient of an operand a value with sizes that repeat to the operand's.
void mmul_gradient_add(struct mmul_gradient_traversal *w, int operand, int value);
// Adds to the gradient of a value of the original program.
void mmul_gradient_add_to(struct mmul_gradient_traversal *w, int to, int value);

// Adds to the gradient of an operand that repeats: sums along the axes where it does.
void mmul_gradient_add_summed(struct mmul_gradient_traversal *w, int operand, int value);
// Does so for a value with sizes from `shape` instead of the result.
void mmul_gradient_add_summed_from(struct mmul_gradient_traversal *w, int operand, int value,
                                   struct mmul_shape shape);

// Expands a value to `shape`, to which its sizes repeat.
int mmul_build_broadcast(struct mmul_build *b, int value, struct mmul_shape shape);

// Implements mmul_program_gradients of the public header.
enum mmul_status mmul_program_add_gradients(struct mmul_program *program,
                                            const struct mmul_gradient_request *request,
                                            int *gradients, struct mmul_error *err);
