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

// A product of files, and operations on it, as a program. All but `args` is root's.
enum { OPERANDS_INPUTS = 5 }; // A, B, C_in, a bias, a residual
struct operands_input {
    const char *path;           // borrowed
    struct mmul_matrix *matrix; // owned; NULL: a persistent set of shards
    int value;
};
struct operands {
    struct mmul_matmul args; // factors, types and transposes; borrows A, B and C_in
    struct operands_input inputs[OPERANDS_INPUTS];
    int input_count;
    struct mmul_program *program;
    int value; // the result
};

// Returns the factors, types and transposes of the command line, without files and program.
struct operands mmul_operands_product(const struct call *call);

// Opens a matrix through the set, which may be NULL, and adds it to the inputs. Fails as
// mmul_inputs_open_matrix.
enum mmul_status mmul_operands_add(struct mmul_inputs *set, const char *path,
                                   struct operands *operands, struct mmul_error *err);

// Opens A, B and, if given, C_in, each file once through the set, and builds the program: the
// product alone. Reports inputs that are converted when read. Local, for root. Call
// mmul_operands_close in any case. Fails as mmul_inputs_open_matrix and mmul_program_product.
enum mmul_status mmul_operands_open(const struct call *call, struct mmul_inputs *set,
                                    struct operands *operands, struct mmul_error *err);

// Builds the program of the open matrices: the product alone. Fails as mmul_program_product.
enum mmul_status mmul_operands_build(struct operands *operands, struct mmul_error *err);

// Returns the type in files of a value that is computed in float32: that of --dtype, or the common
// 16-bit type of all inputs. Other values have the type of their arithmetic, indices int32.
enum mmul_dtype mmul_operands_dtype(const struct call *call, const struct operands *operands,
                                    int value);

// Returns the number of axes of the results in numpy.
int mmul_operands_axes(const struct operands *operands);

// Returns the path of -o, or <A>x<B>_combined in the current folder with the ending of --format or
// of the inputs' common format. Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_operands_output_path(const struct call *call, const struct operands *operands,
                                           char *path, size_t capacity, struct mmul_error *err);

// Closes the matrices and the program. Prints a notice for each matrix with a header line.
void mmul_operands_close(const struct call *call, struct operands *operands);
