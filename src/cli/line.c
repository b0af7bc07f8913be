// SPDX-License-Identifier: MIT
// File names as strings of Python, and where the result went.
#include "cli/line.h"

#include <stdio.h>

#include "cli/failure.h"
#include "cli/print.h"
#include "cli/run_script.h"

void mmul_line_add(struct mmul_line *line, const char *text) {
    for (; *text != '\0' && line->length + 1 < MMUL_LINE_TEXT; text++)
        line->text[line->length++] = *text;
    line->text[line->length] = '\0';
}

// As a string of Python.
static void add_quoted(struct mmul_line *line, const char *text) {
    mmul_line_add(line, "\"");
    for (; *text != '\0'; text++) {
        const char one[] = {*text, '\0'};
        if (*text == '\n') {
            mmul_line_add(line, "\\n");
            continue;
        }
        if (*text == '"' || *text == '\\')
            mmul_line_add(line, "\\");
        mmul_line_add(line, one);
    }
    mmul_line_add(line, "\"");
}

void mmul_line_add_load(struct mmul_line *line, const char *path) {
    mmul_line_add(line, "load(");
    add_quoted(line, path);
    mmul_line_add(line, ")");
}

void mmul_line_add_save(struct mmul_line *line, const char *path, const char *value) {
    mmul_line_add(line, "\nsave(");
    add_quoted(line, path);
    mmul_line_add(line, ", ");
    mmul_line_add(line, value);
    mmul_line_add(line, ")");
}

static void tell(const struct call *call, const char *path) {
    struct mmul_matrix *made = NULL;
    char shape[96];
    if (call->options.values[OPT_QUIET].number != 0 ||
        call->options.values[OPT_CHECK].number != 0 || call->options.values[OPT_JSON].number != 0 ||
        mmul_path_is_stdout(path))
        return;
    if (mmul_kept_name(path) != NULL) {
        mmul_print_line(stdout, "%s: on %d rank%s", path, call->ranks, call->ranks == 1 ? "" : "s");
        return;
    }
    struct mmul_error ignored; // it was written; who takes it away at once may
    if (mmul_matrix_open(path, &made, &ignored) == MMUL_OK)
        mmul_print_line(stdout, "%s: %s", path,
                        mmul_shape_format(mmul_matrix_info(made).shape, shape));
    mmul_matrix_close(made);
}

enum mmul_status mmul_line_run(const struct call *call, const struct mmul_line *line,
                               const char *path, struct mmul_error *err) {
    if (err->status == MMUL_OK && line->length + 1 >= MMUL_LINE_TEXT)
        mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: file names are too long", call->command->name);
    const struct mmul_script_request request = {
        .text = line->text, .text_bytes = line->length, .common_types = true};
    enum mmul_status status = mmul_run_script(call, &request, err);
    if (status == MMUL_OK && call->is_root)
        tell(call, path);
    return status;
}
