// SPDX-License-Identifier: MIT
// Printing functions shared by the commands. Failures are printed in main.
#include "cli/print.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/failure.h"
#include "cli/progress.h"
#include "mpimatmul.h"

enum { COLUMNS_MAX = 48 };

static void print_list(FILE *stream, const char *before, const char *format, va_list arguments) {
    char *text = NULL;
    if (vasprintf(&text, format, arguments) >= 0)
        fprintf(stream, "%s%s\n", before, mmul_make_printable(text));
    free(text);
}

void mmul_print_line(FILE *stream, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_list(stream, "", format, arguments);
    va_end(arguments);
}

// Clears the progress bar, if there is one.
static void begin_line(const struct call *call) {
    if (call->progress != NULL)
        mmul_progress_clear(call->progress);
}

void mmul_print_remark(const struct call *call, const char *format, ...) {
    if (!call->is_root || call->options.values[OPT_QUIET].number != 0)
        return;
    begin_line(call);
    va_list arguments;
    va_start(arguments, format);
    print_list(stderr, "mpimatmul: ", format, arguments);
    va_end(arguments);
}

void mmul_print_data_warning(const struct call *call, const char *format, ...) {
    if (!call->is_root)
        return;
    begin_line(call);
    va_list arguments;
    va_start(arguments, format);
    print_list(stderr, "mpimatmul: warning: ", format, arguments);
    va_end(arguments);
}

void mmul_print_overflows(const struct call *call, const char *name, int64_t count,
                          enum mmul_dtype dtype) {
    if (count > 0)
        mmul_print_data_warning(call, "'%s': %lld value%s beyond %s became infinite", name,
                                (long long)count, count == 1 ? "" : "s", mmul_dtype_name(dtype));
}

void mmul_print_header_notice(const struct call *call, const struct mmul_matrix *input) {
    if (input != NULL && mmul_matrix_info(input).has_header)
        mmul_print_remark(call, "notice: the first line of '%s' is a header and was skipped",
                          mmul_matrix_name(input));
}

void mmul_print_warnings(const struct call *call, const char *const *lines, int count) {
    for (int i = 0; i < count; i++)
        mmul_print_remark(call, "warning: %s", lines[i]);
}

void mmul_print_report_warnings(const struct call *call, const struct mmul_report *report,
                                bool are_about_data) {
    const char *const *lines = NULL;
    const int count = mmul_report_warnings(report, &lines);
    if (!are_about_data)
        mmul_print_warnings(call, lines, count);
    for (int i = 0; are_about_data && i < count; i++)
        mmul_print_data_warning(call, "%s", lines[i]);
}

enum mmul_status mmul_print_new_warnings(const struct call *call, struct mmul_error *err) {
    const char *const *lines = NULL;
    enum mmul_status status = mmul_context_update_warnings(call->context, err);
    int count = status == MMUL_OK ? mmul_context_warnings(call->context, &lines) : 0;
    mmul_print_warnings(call, lines, count);
    return status;
}

void mmul_print_options(const struct call *call) {
    static const char prefix[] = "MPIMATMUL_";
    for (char **variable = environ; *variable != NULL; variable++) {
        char name[64], nearest[64];
        if (strncmp(*variable, prefix, sizeof prefix - 1) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*variable, "="), *variable);
        if (!mmul_option_check_variable(name, nearest))
            mmul_print_remark(call, "warning: no option reads the variable '%s'%s%s%s", name,
                              nearest[0] ? ", did you mean '" : "", nearest,
                              nearest[0] ? "'?" : "");
    }
    if (call->is_root && call->options.values[OPT_VERBOSE].number != 0)
        mmul_options_print(&call->options, stderr);
}

void mmul_print_speed_origin(const struct call *call) {
    char origin[96];
    if (call->options.values[OPT_VERBOSE].number != 0)
        mmul_print_remark(call, "speeds: %s", mmul_context_speed_origin(call->context, origin));
    const char *why = NULL;
    for (int rank = 0; (why = mmul_context_speed_unused(call->context, rank)) != NULL; rank++)
        if (call->options.values[OPT_VERBOSE].number != 0 && why[0] != '\0')
            mmul_print_remark(call, "the stored speed of rank %d is not used: %s", rank, why);
}

// ------------------------------------------------------------------------------------------ JSON

void mmul_print_json_string(const char *text, FILE *stream) {
    const unsigned char *at = (const unsigned char *)text;
    fputc('"', stream);
    while (*at != '\0') {
        int length = mmul_utf8_length((const char *)at);
        if (length == 0)
            fputs("\\ufffd", stream);
        else if (*at < 0x20 || *at == 0x7F)
            fprintf(stream, "\\u%04x", *at);
        else if (*at == 0xC2 && at[1] < 0xA0)
            fprintf(stream, "\\u%04x", at[1]);          // a control character encoded as two bytes
        else if (*at == 0xE2 && (at[1] & 0xFE) == 0x80) // U+2000 to U+207F: directions among them
            fprintf(stream, "\\u%04x", 0x2000 + ((at[1] & 0x3F) << 6) + (at[2] & 0x3F));
        else if (*at == '"' || *at == '\\')
            fprintf(stream, "\\%c", *at);
        else
            fwrite(at, 1, (size_t)length, stream);
        at += length == 0 ? 1 : length;
    }
    fputc('"', stream);
}

void mmul_print_json_number(double value, FILE *stream) {
    if (isfinite(value))
        fprintf(stream, "%.17g", value);
    else
        fputs("null", stream);
}

// ----------------------------------------------------------------------------------------- tables

// Returns the length of the cell at `text`; a cell of the last column ends with the row.
static size_t cell_length(const char *text, bool is_last) {
    return strcspn(text, is_last ? "\n" : "\t\n");
}

void mmul_print_table(const char *tabbed, const char *alignment, const char *gap, FILE *stream) {
    int widths[COLUMNS_MAX] = {0};
    int columns = (int)strlen(alignment);
    for (const char *at = tabbed; *at != '\0';) {
        for (int c = 0; c < columns; c++) {
            size_t length = cell_length(at, c == columns - 1);
            widths[c] = (int)length > widths[c] ? (int)length : widths[c];
            at += length + (at[length] != '\0');
        }
    }
    while (*tabbed != '\0') {
        for (int c = 0; c < columns; c++) {
            bool is_last = c == columns - 1;
            int length = (int)cell_length(tabbed, is_last);
            int blanks = widths[c] - length;
            bool is_right = alignment[c] == 'r';
            fprintf(stream, "%*s%.*s%*s", is_right ? blanks : 0, "", length, tabbed,
                    is_right || is_last ? 0 : blanks, "");
            fputs(is_last ? "\n" : gap, stream);
            tabbed += length + (tabbed[length] != '\0');
        }
    }
}

enum mmul_status mmul_print_owned_text(enum mmul_status status, char **text, FILE *stream) {
    if (status == MMUL_OK && *text != NULL)
        fputs(*text, stream);
    mmul_free(*text);
    return status;
}

enum mmul_status mmul_print_flush(struct mmul_error *err) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return MMUL_OK;
    return mmul_cli_fail_write(err, "to standard output", errno);
}
