// SPDX-License-Identifier: MIT
// Names of matrix files on the command line: checks before any file is opened, and derived names.
#pragma once

#include "cli/command.h"

// Checks that the format of `path` is known from its ending or --format. NULL is allowed. Fails
// with MMUL_ERR_USAGE, or MMUL_ERR_CREATE for a terminal.
enum mmul_status mmul_files_check_output(const struct call *call, const char *path,
                                         struct mmul_error *err);

// Checks that standard input is used at most once. Paths may be NULL. Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_files_check_inputs(const struct call *call, const char *const *paths,
                                         int count, struct mmul_error *err);

// As above, for a command with input operands only.
enum mmul_status mmul_files_check_operands(const struct call *call, struct mmul_error *err);

// Checks early that a text can be written to `path`, so that a long run does not fail at its end.
// what: the text's name, such as "the report". Fails with MMUL_ERR_CREATE.
enum mmul_status mmul_files_check_text_path(const char *path, const char *what,
                                            struct mmul_error *err);

// Checks that a page does not replace an operand. Fails with MMUL_ERR_CREATE.
enum mmul_status mmul_files_check_page_path(const struct call *call, const char *path,
                                            struct mmul_error *err);

// Checks that --journal and --journal-seconds are given with --resume only. Fails with
// MMUL_ERR_USAGE.
enum mmul_status mmul_files_check_journal(const struct call *call, struct mmul_error *err);

// Creates a set of inputs that follows --missing, or opens a single matrix. Fail as
// mmul_inputs_create and mmul_matrix_open.
enum mmul_status mmul_files_create_inputs(const struct call *call, struct mmul_inputs **inputs,
                                          struct mmul_error *err);
enum mmul_status mmul_files_open(const struct call *call, const char *path,
                                 struct mmul_matrix **matrix, struct mmul_error *err);

// Returns the format of a matrix file, or .npy if its format is read-only. Fails as
// mmul_matrix_open.
enum mmul_status mmul_files_find_format(const struct call *call, const char *path,
                                        enum mmul_format *format, struct mmul_error *err);

// Builds the name of a result: as given, else <A><between><B><after> in the current folder, with
// the ending of the format. b: NULL to omit it. Fails with MMUL_ERR_USAGE if the name is too long.
struct mmul_result_name {
    const char *given, *a, *between, *b, *after;
    enum mmul_format format;
};
enum mmul_status mmul_files_name_result(const struct mmul_result_name *name, char *path,
                                        size_t capacity, struct mmul_error *err);

// Returns the stream for tables: standard output, or stderr if the matrix goes to standard output.
FILE *mmul_files_table_stream(const char *output);
