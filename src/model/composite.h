// SPDX-License-Identifier: MIT
//
// Operations of programs that are other operations, one after the other: reductions along any axis, var, std, mse, ...
// They are what mmul_program_apply does with a name that the table of operations has not, or has for fewer axes or for
// floats alone.
#pragma once

#include "model/build.h"

// What is asked for by name: operands and parameters as in the public struct mmul_call.
struct mmul_composite_call {
    const char *name;
    int operands[MMUL_OPERANDS];
    int operand_count;
    const struct mmul_parameters *with;
    const char *origin;
};

// Is it one of them, with the operands that the program has?
bool mmul_is_composite(const struct mmul_program *program, const struct mmul_composite_call *call);

// Adds its operations; `name` of the result as in mmul_program_append, which says what can fail; the program is as
// before then.
enum mmul_status mmul_composite_append(struct mmul_program *program,
                                       const struct mmul_composite_call *call, const char *name,
                                       int *value, struct mmul_error *err);

// The sum along an axis, or of all elements (axis 0).
int mmul_composite_sum(struct mmul_build *b, int x, int axis);

// The root of the sum of squares along an axis, or of all elements (axis 0): numpy's norm. Squares neither overflow nor
// vanish. Its slope is 0 where the root is 0, as torch has it.
int mmul_composite_norm(struct mmul_build *b, int x, int axis);

// The operation that draws for a value that dropout has made; NULL: dropout has not made it. The seed of that
// operation, of dropout's seed and turn, which are whole numbers from 0 on.
struct mmul_operation *mmul_composite_draw(const struct mmul_program *program, int value);
uint64_t mmul_composite_seed(double seed, double turn);
