// SPDX-License-Identifier: MIT
//
// Values that are in files of root's: what is loaded, and slices and rows of it that are looked up, of which no
// more is read than is wanted. Root's.
#pragma once

#include "model/program.h"

// A region of such a value, in C order, of the value's type.
// Fails as mmul_matrix_read_float, and with MMUL_ERR_DATA (an index that is
// not in its table).
enum mmul_status mmul_loads_read(const struct mmul_program *program, int value,
                                 struct mmul_region region, void *to, struct mmul_error *err);
