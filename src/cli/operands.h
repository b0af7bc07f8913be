// SPDX-License-Identifier: MIT
// Options and operands of mul, plan, bench and verify as the library takes them: the product, and
// the options of its program.
#pragma once

#include "cli/command.h"
#include "mpimatmul.h"

// Checks that --beta other than 0 comes with --c-in. Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_operands_check(const struct call *call, struct mmul_error *err);

// Returns the options for planning and running a program that the command line gives, without
// callbacks and records. Options that the command does not take have the library's defaults.
struct mmul_program_options mmul_operands_options(const struct call *call);

// A product of files as the program of mmul_program_product. All but `args` is root's.
struct operands {
    struct mmul_matmul args; // factors, types and transposes; owns A, B and C_in
    struct mmul_program *program;
    int value; // the result
    struct mmul_shape shape;
    enum mmul_dtype dtype; // natural type of the result's file
};

// Returns the factors, types and transposes of the command line, without files and program.
struct operands mmul_operands_product(const struct call *call);

// Opens A, B and, if given, C_in, each file once through the set, and builds the program. Reports
// inputs that are converted when read. Local, for root. Call mmul_operands_close in any case. Fails
// as mmul_inputs_open_matrix and mmul_program_product.
enum mmul_status mmul_operands_open(const struct call *call, struct mmul_inputs *inputs,
                                    struct operands *operands, struct mmul_error *err);

// Builds the program of the open matrices. Fails as mmul_program_product.
enum mmul_status mmul_operands_build(struct operands *operands, struct mmul_error *err);

// Returns the path of -o, or <A>x<B>_combined in the current folder with the ending of --format or
// of the inputs' common format. Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_operands_output_path(const struct call *call,
                                           const enum mmul_format formats[2], char *path,
                                           size_t capacity, struct mmul_error *err);

// Closes the matrices and the program. Prints a notice for each matrix with a header line.
void mmul_operands_close(const struct call *call, struct operands *operands);
