// SPDX-License-Identifier: MIT
//
// Builds the text of a program for `run` from the operands of a command.
#pragma once

#include "cli/command.h"

enum { MMUL_LINE_TEXT = 64 << 10, MMUL_LINE_PATH = 4096 };

// A text under construction. If the capacity is reached, additions are dropped and mmul_line_run
// fails.
struct mmul_line {
    char text[MMUL_LINE_TEXT];
    size_t length;
};

void mmul_line_add(struct mmul_line *line, const char *text);

// Appends load("path"), or save("path", value) on a new line.
void mmul_line_add_load(struct mmul_line *line, const char *path);
void mmul_line_add_save(struct mmul_line *line, const char *path, const char *value);

// Runs the text. Collective. A failure that root already has in `err` ends it. Fails with
// MMUL_ERR_USAGE if the text is too long, else as the program does.
enum mmul_status mmul_line_run(const struct call *call, const struct mmul_line *line,
                               struct mmul_error *err);
