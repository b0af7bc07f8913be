// SPDX-License-Identifier: MIT
// Operations that make every element by itself, on the host: the plainest way, by all threads of the
// rank.
#pragma once

#include "base/parallel.h"
#include "exec/values.h"

struct mmul_elements {
    const struct mmul_operation *operation;
    struct mmul_shape shape;                  // of the result
    struct mmul_region block;                 // what is made
    struct mmul_view result;                  // holds it, not transposed
    struct mmul_view operands[MMUL_OPERANDS]; // sizes of 1 repeat
};

void mmul_elements_make(const struct mmul_elements *elements, struct mmul_parallel parallel);
