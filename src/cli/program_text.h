// SPDX-License-Identifier: MIT
//
// Builds the text of a program for `run` from the operands of a command.
#pragma once

#include "cli/command.h"

enum { MMUL_PROGRAM_TEXT_BYTES = 64 << 10, MMUL_PROGRAM_TEXT_PATH_BYTES = 4096 };

// A text under construction. If the capacity is reached, additions are dropped and
// mmul_program_text_run fails.
struct mmul_program_text {
    char text[MMUL_PROGRAM_TEXT_BYTES];
    size_t length;
};

void mmul_program_text_add(struct mmul_program_text *line, const char *text);

// Appends load("path"), or save("path", value) on a new line.
void mmul_program_text_add_load(struct mmul_program_text *line, const char *path);
void mmul_program_text_add_save(struct mmul_program_text *line, const char *path,
                                const char *value);

// Runs the text. Collective. A failure that root already has in `err` ends it. Fails with
// MMUL_ERR_USAGE if the text is too long, else as the program does.
enum mmul_status mmul_program_text_run(const struct call *call,
                                       const struct mmul_program_text *line,
                                       struct mmul_error *err);
