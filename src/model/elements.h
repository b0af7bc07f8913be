// SPDX-License-Identifier: MIT
//
// Elementwise operations on plain numbers, by the formulas of operations.def. The list of all of
// them is mmul_elements_get (mpimatmul_local.h). Pure.
#pragma once

#include "model/operation.h"

// Return the result of an elementwise operation of one or of two values in double. An operation
// without a formula is a copy of x.
double mmul_element_of_one(enum mmul_operation_kind kind, double x);
double mmul_element_of_two(enum mmul_operation_kind kind, double x, double y);
