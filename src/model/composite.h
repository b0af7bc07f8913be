// SPDX-License-Identifier: MIT
//
// Composites: operations of programs that consist of other operations, such as reductions along any
// axis, var, std, mse. mmul_program_apply uses them for names that the table of operations does not
// have, or has for fewer axes or for floats alone.
#pragma once

#include "model/build.h"

// A call by name: operands and parameters as in the public struct mmul_call.
struct mmul_composite_call {
    const char *name;
    int operands[MMUL_OPERANDS];
    int operand_count;
    const struct mmul_parameters *with;
    const char *origin;
};

// Returns true if the call is a composite with these operands of the program.
bool mmul_is_composite(const struct mmul_program *program, const struct mmul_composite_call *call);

// Adds its operations. `name` of the result and failures are those of mmul_program_append; after a
// failure the program is as before.
enum mmul_status mmul_composite_append(struct mmul_program *program,
                                       const struct mmul_composite_call *call, const char *name,
                                       int *value, struct mmul_error *err);

// Adds a reduction along an axis, or over all elements (axis 0).
int mmul_composite_reduce(struct mmul_build *b, enum mmul_operation_kind kind, int x, int axis);

// Adds the root of the sum of squares along an axis, or of all elements (axis 0): numpy's norm.
// Squares neither overflow nor underflow. The slope is 0 where the root is 0, as in torch.
int mmul_composite_norm(struct mmul_build *b, int x, int axis);

// Return the operation that draws for a value that dropout has made (NULL: dropout has not made
// it), and its seed for dropout's seed and turn, which are whole numbers from 0 on.
struct mmul_operation *mmul_composite_find_draw(const struct mmul_program *program, int value);
uint64_t mmul_composite_draw_seed(double seed, double turn);
