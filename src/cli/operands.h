// SPDX-License-Identifier: MIT
// Converts options and operands of mul, plan and verify to the library's struct mmul_matmul.
#pragma once

#include "cli/command.h"
#include "mpimatmul.h"

// Checks that --beta other than 0 comes with --c-in. Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_operands_check(const struct call *call, struct mmul_error *err);

// Returns the fields that come from options. All ranks get equal fields, except those that the
// library reads on root only. Options that the command does not take have the library's defaults.
struct mmul_matmul mmul_operands_args(const struct call *call);

// Opens A, B and, if given, C, each file once through the set. Reports inputs that are converted to
// a narrower type. Local, for root. After a failure, args holds the matrices opened so far, so call
// mmul_operands_close in any case.
enum mmul_status mmul_operands_open(const struct call *call, struct mmul_inputs *inputs,
                                    struct mmul_matmul *args, struct mmul_error *err);

// Returns the path of -o, or <A>x<B>_combined in the current folder with the ending of --format or
// of the inputs' common format. Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_operands_output_path(const struct call *call,
                                           const enum mmul_format formats[2], char *path,
                                           size_t capacity, struct mmul_error *err);

// Closes the matrices of args except the output. Prints a notice for each with a header line.
void mmul_operands_close(const struct call *call, struct mmul_matmul *args);
