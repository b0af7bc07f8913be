// SPDX-License-Identifier: MIT
//
// Gradients, in reverse: behind the operations of a program those that make the derivatives of one of its values by
// others. The rule of an operation is a function in model/gradient_rules.c, which calls other operations.
//
// A gradient on its way has sizes that repeat to those of its value: what a sum gives back is one number, whatever was
// added up. In the end it has all of them.
#pragma once

#include "model/build.h"

// An operation on the way back.
struct mmul_backward {
    struct mmul_build *b;
    struct mmul_operation operation; // a copy: the program grows
    int gradient;                    // of its result
    const bool *is_wanted;           // of every value of the program as it was: is its gradient?
    int *gradients;                  // of the same values: as far as they are known; MMUL_NO_VALUE
    struct mmul_pieces *pieces;      // that belong to them, too (model/gradient_pieces.h)
};

typedef void mmul_gradient_rule(struct mmul_backward *w);

// The rule of an operation. NULL: there is none; then *reason says why it cannot be differentiated, or is NULL: nothing
// of its result depends on its operands little by little (comparisons, indices), or it has no operands.
mmul_gradient_rule *mmul_gradient_rule_of(enum mmul_operation_kind kind, const char **reason);

// What a rule gives to an operand: a value of sizes that repeat to the operand's.
void mmul_give(struct mmul_backward *w, int operand, int value);
// The same to a value of the program as it was.
void mmul_give_to(struct mmul_backward *w, int to, int value);

// The same of an operation whose operands repeat: added up where the operand did.
void mmul_give_summed(struct mmul_backward *w, int operand, int value);
// ... and of sizes that are not the result's.
void mmul_give_summed_from(struct mmul_backward *w, int operand, int value,
                           struct mmul_shape shape);

// A value with all of these sizes, of one whose sizes repeat to them.
int mmul_to_shape(struct mmul_build *b, int value, struct mmul_shape shape);

// mmul_program_gradients of the public header.
enum mmul_status mmul_program_add_gradients(struct mmul_program *program,
                                            const struct mmul_gradient_request *request,
                                            int *gradients, struct mmul_error *err);
