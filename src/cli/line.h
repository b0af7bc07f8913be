// SPDX-License-Identifier: MIT
//
// A program of `run` that a command makes of its words.
#pragma once

#include "cli/command.h"

enum { MMUL_LINE_TEXT = 64 << 10, MMUL_LINE_PATH = 4096 };

// Grows; a full one stays full and is refused in the end.
struct mmul_line {
    char text[MMUL_LINE_TEXT];
    size_t length;
};

void mmul_line_add(struct mmul_line *line, const char *text);

// load("path"); and on a line of its own save("path", value).
void mmul_line_add_load(struct mmul_line *line, const char *path);
void mmul_line_add_save(struct mmul_line *line, const char *path, const char *value);

// Collective. Carries it out. An error that root has already ends it.
// Fails with MMUL_ERR_USAGE (a text that is too long) and as the program does.
enum mmul_status mmul_line_run(const struct call *call, const struct mmul_line *line,
                               struct mmul_error *err);
