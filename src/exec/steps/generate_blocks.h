// SPDX-License-Identifier: MIT
//
// A block of a matrix that is generated, by the threads of the rank. The compute thread's.
#pragma once

#include "exec/memory/values.h"

// Makes `block` of a value of that shape, of which `view` has it.
void mmul_blocks_generate(const struct mmul_operation *operation, struct mmul_shape shape,
                          const struct mmul_view *view, struct mmul_region block, int threads);
