// SPDX-License-Identifier: MIT
//
// The text of a program, places in it, and memory that lives as long as what is made of it.
#pragma once

#include "mpimatmul_local.h"

enum {
    MMUL_TEXT_BYTES_MOST = 1 << 20,
    MMUL_NESTING_MOST =
        100, // of expressions and blocks; of these and of calls while it is carried out
};

struct mmul_source {
    const char *name; // for errors: as its user called it; NULL: nobody has seen the text
    const char *text; // borrowed; not terminated
    int length;
};

// [begin, end) of the text, in bytes.
struct mmul_span {
    int begin, end;
};

// Writes "NAME:LINE:COLUMN: ..." (from 1, columns count characters). Returns MMUL_ERR_DATA.
enum mmul_status mmul_source_fail(const struct mmul_source *source, struct mmul_span at,
                                  struct mmul_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// "NAME:LINE:COLUMN", of a long name its end; "" where the text has no name. Returns `text`.
const char *mmul_source_place(const struct mmul_source *source, struct mmul_span at,
                              char text[static 96]);

// The same in front of an error that is there already, of which status and hint stay. Nothing where the text has
// no name.
void mmul_source_locate(const struct mmul_source *source, struct mmul_span at,
                        struct mmul_error *err);

// For errors about all of it, whether or not it has a name.
const char *mmul_source_name(const struct mmul_source *source);

// A line number, from 1.
int mmul_source_line(const struct mmul_source *source, int offset);

// What stands there, on one line: runs of blanks are one, and what is longer than 40 bytes is cut (".."). Returns
// `text`.
char *mmul_source_quote(const struct mmul_source *source, struct mmul_span at,
                        char text[static 48]);

// Memory that is released all at once.
struct mmul_arena_chunk;
struct mmul_arena {
    struct mmul_arena_chunk *chunks; // owned
    int64_t bytes;                   // of all
};

// Zeroed; NULL: failed with MMUL_ERR_SYSTEM, or MMUL_ERR_DATA (a program may have 256 MiB).
void *mmul_arena_allocate(struct mmul_arena *arena, size_t bytes, struct mmul_error *err);
// A copy of a text. NULL: failed likewise.
char *mmul_arena_copy_text(struct mmul_arena *arena, const char *text, struct mmul_error *err);
void mmul_arena_fini(struct mmul_arena *arena);
