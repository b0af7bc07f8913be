// SPDX-License-Identifier: MIT
// Builds program texts; quotes file names as Python strings.
#include "cli/program_text.h"

#include "cli/failure.h"
#include "cli/run_script.h"

void mmul_program_text_add(struct mmul_program_text *line, const char *text) {
    for (; *text != '\0' && line->length + 1 < MMUL_PROGRAM_TEXT_BYTES; text++)
        line->text[line->length++] = *text;
    line->text[line->length] = '\0';
}

// Appends a string literal of Python.
static void add_quoted(struct mmul_program_text *line, const char *text) {
    mmul_program_text_add(line, "\"");
    for (; *text != '\0'; text++) {
        const char one[] = {*text, '\0'};
        if (*text == '\n') {
            mmul_program_text_add(line, "\\n");
            continue;
        }
        if (*text == '"' || *text == '\\')
            mmul_program_text_add(line, "\\");
        mmul_program_text_add(line, one);
    }
    mmul_program_text_add(line, "\"");
}

void mmul_program_text_add_load(struct mmul_program_text *line, const char *path) {
    mmul_program_text_add(line, "load(");
    add_quoted(line, path);
    mmul_program_text_add(line, ")");
}

void mmul_program_text_add_save(struct mmul_program_text *line, const char *path,
                                const char *value) {
    mmul_program_text_add(line, "\nsave(");
    add_quoted(line, path);
    mmul_program_text_add(line, ", ");
    mmul_program_text_add(line, value);
    mmul_program_text_add(line, ")");
}

enum mmul_status mmul_program_text_run(const struct call *call,
                                       const struct mmul_program_text *line,
                                       struct mmul_error *err) {
    if (err->status == MMUL_OK && line->length + 1 >= MMUL_PROGRAM_TEXT_BYTES)
        mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: file names are too long", call->command->name);
    const struct mmul_script_request request = {
        .text = line->text, .text_bytes = line->length, .common_types = true};
    return mmul_run_script(call, &request, err);
}
