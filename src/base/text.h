// SPDX-License-Identifier: MIT
// Growing text, and aligned tables.
#pragma once

#include <stdarg.h>

#include "mpimatmul_local.h"

// Starts as {0} and is released with mmul_text_fini. If memory runs out, the text keeps its content
// and `failed` is set.
struct mmul_text {
    char *data; // NULL when empty: use mmul_text_get
    size_t length, capacity;
    bool failed;
};

void mmul_text_add(struct mmul_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void mmul_text_add_va(struct mmul_text *text, const char *format, va_list arguments);
const char *mmul_text_get(const struct mmul_text *text);
void mmul_text_fini(struct mmul_text *text);

// Appends `path` and `suffix`: the name of a file beside `path`. If the file's own name would
// exceed the limit of file systems (255 bytes), it is cut and a checksum of all of it replaces the
// rest. Different paths therefore stay different.
void mmul_text_add_sibling_path(struct mmul_text *text, const char *path, const char *suffix);

// Returns the ending of a noun after a number: "" or "s".
static inline const char *mmul_text_plural(int64_t count) {
    return count == 1 ? "" : "s";
}

// Returns true if all of the text is valid UTF-8, as JSON requires.
bool mmul_text_is_utf8(const char *text);

// Copies at most `capacity - 1` bytes and terminates. Cuts the tail.
void mmul_text_copy(char *target, size_t capacity, const char *source);

// Like mmul_text_copy, but keeps the beginning and the end of a long text with ".." between. Two
// texts that differ at either end still differ. capacity: at least 8.
void mmul_text_copy_shortened(char *target, size_t capacity, const char *source);

// Prints rows of cells ('\t' between cells, '\n' after each row) with aligned columns, two blanks
// between them. The first row is the heading. A column is right-aligned if all its cells below the
// heading look like numbers.
void mmul_text_print_table(const char *tabbed, FILE *stream);

// Prints the table in lines of at most `most` columns, provided the columns of numbers leave room.
// The widest other cells keep their beginning and end, with ".." between.
enum { MMUL_TABLE_COLUMNS = 120 }; // the usual limit for such tables
void mmul_text_print_narrow_table(const char *tabbed, int most, FILE *stream);
