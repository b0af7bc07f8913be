// SPDX-License-Identifier: MIT
//
// Elementwise operations on plain numbers, by the formulas of operations.def, and the list of the
// functions of one value in programs. Pure.
#pragma once

#include "model/operation.h"

// Return the result of an elementwise operation of one or of two values in double. An operation
// without a formula is a copy of x.
double mmul_element_of_one(enum mmul_operation_kind kind, double x);
double mmul_element_of_two(enum mmul_operation_kind kind, double x, double y);

// A function of one value: an operation, or a composite (model/composite.c).
struct mmul_element_function {
    const char *name, *help; // help: "The sine"
    double (*compute)(double x);
};

// Returns the list; *count is its length.
const struct mmul_element_function *mmul_element_functions(int *count);

// Returns the function of this name; NULL: none.
const struct mmul_element_function *mmul_element_function_find(const char *name);
