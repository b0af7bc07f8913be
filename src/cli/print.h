// SPDX-License-Identifier: MIT
// Where text goes: results to stdout (tables, JSON), remarks to stderr unless --quiet.
#pragma once

#include "cli/command.h"

// A line, in which control characters (a file's name may hold any byte) become '?'.
void mmul_print_line(FILE *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));

// "mpimatmul: ..." on stderr, on root and without --quiet only.
void mmul_print_remark(const struct call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// "mpimatmul: warning: ..." on stderr, on root: about the data, which --quiet does not hide.
void mmul_print_data_warning(const struct call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Such a warning: `count` finite values became infinite in `dtype`. Nothing when there are none.
void mmul_print_overflows(const struct call *call, const char *name, int64_t count,
                          enum mmul_dtype dtype);

// A notice: the first line of this input is a header. Nothing of others, and of NULL.
void mmul_print_header(const struct call *call, const struct mmul_matrix *input);

// "mpimatmul: warning: ..." for each line.
void mmul_print_warnings(const struct call *call, const char *const *lines, int count);

// The same of a report. Warnings about data, such as an input that was written to, are printed in spite of --quiet.
void mmul_print_report_warnings(const struct call *call, const struct mmul_report *report,
                                bool are_about_data);

// Collective: warnings that came up since the context was created, where no report tells them.
enum mmul_status mmul_print_new_warnings(const struct call *call, struct mmul_error *err);

// What the environment says: variables that no option reads; with --verbose also the options that
// are not at their default.
void mmul_print_options(const struct call *call);

// With --verbose: where the speeds of a plan are from, and why stored ones were not used.
void mmul_print_speed_origin(const struct call *call);

// A string of JSON, quotes included; bytes that are not UTF-8 become U+FFFD.
void mmul_print_json_string(const char *text, FILE *stream);

// A number of JSON in full precision; null for NaN and infinities, which JSON has not.
void mmul_print_json_number(double value, FILE *stream);

// Rows of cells ('\t' between cells, '\n' after a row, the heading first) with columns aligned:
// alignment has 'l' or 'r' per column, `gap` stands between two. The last column may hold tabs.
void mmul_print_table(const char *tabbed, const char *alignment, const char *gap, FILE *stream);

// A text of the library's, when `status` of making it is MMUL_OK; frees it (NULL: there is none).
// By address, so that the call that makes it may be the first argument. Returns `status`.
enum mmul_status mmul_print_made(enum mmul_status status, char **text, FILE *stream);

// Fails with MMUL_ERR_IO when something printed on stdout did not get there.
enum mmul_status mmul_print_flush(struct mmul_error *err);
