// SPDX-License-Identifier: MIT
// Growing text, and aligned tables.
#pragma once

#include <stdarg.h>

#include "mpimatmul_local.h"

// Starts as {0}; released with mmul_text_fini. When memory runs out it keeps what it has and
// `failed` is set.
struct mmul_text {
    char *data; // "" when empty: use mmul_text_get
    size_t length, capacity;
    bool failed;
};

void mmul_text_add(struct mmul_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void mmul_text_add_list(struct mmul_text *text, const char *format, va_list arguments);
const char *mmul_text_get(const struct mmul_text *text);
void mmul_text_fini(struct mmul_text *text);

// Appends the name of a file beside `path`: `path` and `suffix`. Where the file's own name would be
// longer than file systems take (255 bytes), it is cut and a checksum of all of it stands for the
// rest, so that different paths stay different.
void mmul_text_add_beside(struct mmul_text *text, const char *path, const char *suffix);

// Copies at most `capacity - 1` bytes and terminates; the tail is cut.
void mmul_text_copy(char *target, size_t capacity, const char *source);

// The same, but of what is too long the beginning and the end stay, with ".." between, so that two that differ at
// either still do. capacity: at least 8.
void mmul_text_copy_ends(char *target, size_t capacity, const char *source);

// Prints rows of cells ('\t' between cells, '\n' after each row) with columns aligned, two blanks
// between; the first row is the heading. Columns whose cells below the heading all look like
// numbers are right-aligned.
void mmul_text_print_table(const char *tabbed, FILE *stream);

// The same in lines of at most `most` columns, as long as those of numbers leave room: of the widest other cells the
// beginning and the end stay, with ".." between.
enum { MMUL_TABLE_COLUMNS = 120 }; // of tables that are so
void mmul_text_print_table_within(const char *tabbed, int most, FILE *stream);
