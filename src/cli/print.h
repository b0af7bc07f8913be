// SPDX-License-Identifier: MIT
// Output of commands: results (tables, JSON) go to stdout, remarks to stderr unless --quiet.
#pragma once

#include "cli/command.h"

// Prints a line and replaces control characters by '?', because a file name may contain any byte.
void mmul_print_line(FILE *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Prints "mpimatmul: ..." on stderr; only on root and without --quiet.
void mmul_print_remark(const struct call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Prints "mpimatmul: warning: ..." on stderr, on root. For warnings about data, which --quiet
// keeps.
void mmul_print_data_warning(const struct call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Warns that `count` finite values became infinite in `dtype`. Prints nothing for 0.
void mmul_print_overflows(const struct call *call, const char *name, int64_t count,
                          enum mmul_dtype dtype);

// Prints a notice if the first line of the input is a header. NULL is allowed.
void mmul_print_header_notice(const struct call *call, const struct mmul_matrix *input);

// Prints "mpimatmul: warning: ..." for each line.
void mmul_print_warnings(const struct call *call, const char *const *lines, int count);

// Prints the warnings of a report. Warnings about data, such as an input that changed during the
// run, are printed even with --quiet.
void mmul_print_report_warnings(const struct call *call, const struct mmul_report *report,
                                bool are_about_data);

// Prints warnings that arose since the context was created, for commands without a report.
// Collective.
enum mmul_status mmul_print_new_warnings(const struct call *call, struct mmul_error *err);

// Warns about MPIMATMUL_ variables that no option reads. With --verbose also prints the options
// that differ from their defaults.
void mmul_print_options(const struct call *call);

// With --verbose, prints the origin of a plan's speeds and why stored ones were not used.
void mmul_print_speed_origin(const struct call *call);

// Prints a JSON string with quotes; bytes that are not UTF-8 become U+FFFD.
void mmul_print_json_string(const char *text, FILE *stream);

// Prints a JSON number in full precision; NaN and infinities become null.
void mmul_print_json_number(double value, FILE *stream);

// Prints aligned columns. `tabbed` has '\t' between cells and '\n' after each row, the heading
// first. alignment: 'l' or 'r' per column. `gap` separates columns. Cells of the last column may
// contain tabs.
void mmul_print_table(const char *tabbed, const char *alignment, const char *gap, FILE *stream);

// Prints a text made by the library if `status` is MMUL_OK, and frees it (NULL is allowed). Takes
// the address, so that the call that makes the text may be the first argument. Returns `status`.
enum mmul_status mmul_print_owned_text(enum mmul_status status, char **text, FILE *stream);

// Flushes stdout. Fails with MMUL_ERR_IO if any earlier output was lost.
enum mmul_status mmul_print_flush(struct mmul_error *err);
