// SPDX-License-Identifier: MIT
// The names of matrix files on the command line: what may be said before any of them is opened.
#pragma once

#include "cli/command.h"

// Does `path` say in which format it is to be written, or --format? `path` NULL: no output yet.
// Fails with MMUL_ERR_USAGE, MMUL_ERR_CREATE (a terminal).
enum mmul_status mmul_files_check_output(const struct call *call, const char *path,
                                         struct mmul_error *err);

// Standard input can be read once. NULL among the paths is legal. Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_files_check_inputs(const struct call *call, const char *const *paths,
                                         int count, struct mmul_error *err);

// The same of a command whose operands are all inputs.
enum mmul_status mmul_files_check_operands(const struct call *call, struct mmul_error *err);

// Can a text be written to `path`, beside a result? `what`: "the report". What can go wrong goes wrong before the work
// and not after it. Fails with MMUL_ERR_CREATE.
enum mmul_status mmul_files_check_beside(const char *path, const char *what,
                                         struct mmul_error *err);

// A set of inputs that is read as --missing says; a matrix of one file alone. Fail as mmul_inputs_create and
// mmul_matrix_open.
enum mmul_status mmul_files_create_inputs(const struct call *call, struct mmul_inputs **inputs,
                                          struct mmul_error *err);
enum mmul_status mmul_files_open(const struct call *call, const char *path,
                                 struct mmul_matrix **matrix, struct mmul_error *err);

// The format of a matrix file, .npy where that is only read. Fails as mmul_matrix_open.
enum mmul_status mmul_files_find_format(const struct call *call, const char *path,
                                        enum mmul_format *format, struct mmul_error *err);

// Of a result: as given, else <A><between><B><after> in the current folder, with the format's ending. b: NULL: without.
// Fails with MMUL_ERR_USAGE (too long).
struct mmul_result_name {
    const char *given, *a, *between, *b, *after;
    enum mmul_format format;
};
enum mmul_status mmul_files_name_result(const struct mmul_result_name *name, char *path,
                                        size_t capacity, struct mmul_error *err);

// Where tables go: standard output, unless the matrix is written there.
FILE *mmul_files_tables(const char *output);
