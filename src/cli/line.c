// SPDX-License-Identifier: MIT
// Builds program texts; quotes file names as Python strings.
#include "cli/line.h"

#include "cli/failure.h"
#include "cli/run_script.h"

void mmul_line_add(struct mmul_line *line, const char *text) {
    for (; *text != '\0' && line->length + 1 < MMUL_LINE_TEXT; text++)
        line->text[line->length++] = *text;
    line->text[line->length] = '\0';
}

// Appends a string literal of Python.
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

enum mmul_status mmul_line_run(const struct call *call, const struct mmul_line *line,
                               struct mmul_error *err) {
    if (err->status == MMUL_OK && line->length + 1 >= MMUL_LINE_TEXT)
        mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: file names are too long", call->command->name);
    const struct mmul_script_request request = {
        .text = line->text, .text_bytes = line->length, .common_types = true};
    return mmul_run_script(call, &request, err);
}
