// SPDX-License-Identifier: MIT
// From the options and operands of mul, plan and verify to the library's struct mmul_matmul.
#pragma once

#include "cli/command.h"
#include "mpimatmul.h"

// --beta other than 0 needs --c-in. Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_operands_check(const struct call *call, struct mmul_error *err);

// The fields that come from options; the same on all ranks except those the library reads on root
// only. Options that the command does not take have the library's defaults.
struct mmul_matmul mmul_operands_args(const struct call *call);

// Opens A, B and, when given, C into args, and says which are read narrower than they are stored.
// Local, for root. Opens each file once, through the set. On failure the matrices that were opened are in args too:
// mmul_operands_close either way.
enum mmul_status mmul_operands_open(const struct call *call, struct mmul_inputs *inputs,
                                    struct mmul_matmul *args, struct mmul_error *err);

// -o, or <A>x<B>_combined in the current folder, with the ending of --format or of both inputs' formats.
// Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_operands_output_path(const struct call *call,
                                           const enum mmul_format formats[2], char *path,
                                           size_t capacity, struct mmul_error *err);

// Closes the matrices of args (not its output), after a notice of each whose first line is a header.
void mmul_operands_close(const struct call *call, struct mmul_matmul *args);
