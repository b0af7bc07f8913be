// SPDX-License-Identifier: MIT
//
// The text of a program, positions in it, and an arena for everything that is built from it. Knows
// nothing about the language.
#pragma once

#include "mpimatmul_local.h"

enum {
    MMUL_TEXT_BYTES_MOST = 1 << 20,
    // Limit on nested expressions and blocks. Calls count as well during evaluation.
    MMUL_NESTING_MOST = 100,
};

struct mmul_source {
    const char *name; // name in error messages; NULL if the user has not seen the text
    const char *text; // borrowed; not terminated
    int length;
};

// A half-open range [begin, end) of the text, in bytes.
struct mmul_span {
    int begin, end;
};

// Writes "NAME:LINE:COLUMN: ..." into `err`. Lines and columns start at 1; columns count
// characters. Returns MMUL_ERR_DATA.
enum mmul_status mmul_source_fail(const struct mmul_source *source, struct mmul_span at,
                                  struct mmul_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Formats "NAME:LINE:COLUMN"; a long name keeps its end. "" if the text has no name. Returns
// `text`.
const char *mmul_source_place(const struct mmul_source *source, struct mmul_span at,
                              char text[static 96]);

// Prepends "NAME:LINE:COLUMN: " to the error already in `err`; keeps its status and hint. Does
// nothing if the text has no name.
void mmul_source_locate(const struct mmul_source *source, struct mmul_span at,
                        struct mmul_error *err);

// Returns a name for errors about the whole text, also if it has none.
const char *mmul_source_name(const struct mmul_source *source);

// Returns the line number of `offset`, counted from 1.
int mmul_source_line(const struct mmul_source *source, int offset);

// Quotes `at` on one line: runs of blanks become one blank, and text longer than 40 bytes is
// shortened with "..". Returns `text`.
char *mmul_source_quote(const struct mmul_source *source, struct mmul_span at,
                        char text[static 48]);

// Memory that is released all at once.
struct mmul_arena_chunk;
struct mmul_arena {
    struct mmul_arena_chunk *chunks; // owned
    int64_t bytes;                   // total size of all chunks
};

// Returns zeroed memory. Returns NULL on failure: MMUL_ERR_SYSTEM, or MMUL_ERR_DATA above the limit
// of 256 MiB per program.
void *mmul_arena_allocate(struct mmul_arena *arena, size_t bytes, struct mmul_error *err);
// Copies a text into the arena. NULL on failure, as above.
char *mmul_arena_copy_text(struct mmul_arena *arena, const char *text, struct mmul_error *err);
void mmul_arena_fini(struct mmul_arena *arena);
