// SPDX-License-Identifier: MIT
// Positions in a text (line, column, quotes for error messages) and the arena. Positions are
// counted as editors count them. Knows nothing about the language.
#include "tensor/source.h"

#include <stdarg.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

static const int64_t ARENA_MOST = INT64_C(256) << 20;
enum { CHUNK_BYTES = 64 << 10, ALIGNMENT = 16 };

struct mmul_arena_chunk {
    struct mmul_arena_chunk *next;
    size_t capacity, used;
    _Alignas(ALIGNMENT) char bytes[];
};

const char *mmul_source_name(const struct mmul_source *source) {
    return source->name != NULL ? source->name : "the program";
}

int mmul_source_line(const struct mmul_source *source, int offset) {
    int line = 1;
    for (int i = 0; i < offset; i++)
        line += source->text[i] == '\n';
    return line;
}

// Continuation bytes of UTF-8 do not count as columns.
static int column_of(const struct mmul_source *source, int offset) {
    int begin = offset, column = 1;
    while (begin > 0 && source->text[begin - 1] != '\n')
        begin--;
    for (int i = begin; i < offset; i++)
        column += ((unsigned char)source->text[i] & 0xC0) != 0x80;
    return column;
}

const char *mmul_source_place(const struct mmul_source *source, struct mmul_span at,
                              char text[static 96]) {
    enum { NAME_MOST = 70 };
    text[0] = '\0';
    if (source->name == NULL)
        return text;
    size_t length = strlen(source->name);
    const char *end = source->name + (length > NAME_MOST ? length - NAME_MOST : 0);
    snprintf(text, 96, "%s%s:%d:%d", length > NAME_MOST ? ".." : "", end,
             mmul_source_line(source, at.begin), column_of(source, at.begin));
    return text;
}

void mmul_source_locate(const struct mmul_source *source, struct mmul_span at,
                        struct mmul_error *err) {
    char hint[sizeof err->hint];
    if (source->name == NULL)
        return;
    memcpy(hint, err->hint, sizeof hint);
    mmul_fail(err, err->status, "%s:%d:%d: %s", source->name, mmul_source_line(source, at.begin),
              column_of(source, at.begin), err->text);
    memcpy(err->hint, hint, sizeof hint);
}

enum mmul_status mmul_source_fail(const struct mmul_source *source, struct mmul_span at,
                                  struct mmul_error *err, const char *format, ...) {
    char text[sizeof err->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    mmul_fail(err, MMUL_ERR_DATA, "%s", text);
    mmul_source_locate(source, at, err);
    return MMUL_ERR_DATA;
}

enum { QUOTE_MOST = 42, QUOTE_HEAD = 20 };

// Appends a character. A text that is too long keeps its beginning and end, since both help to
// identify it.
static void append_character(char *text, int *length, char c) {
    if (*length < QUOTE_MOST) {
        text[(*length)++] = c;
        return;
    }
    text[QUOTE_HEAD] = text[QUOTE_HEAD + 1] = '.';
    memmove(text + QUOTE_HEAD + 2, text + QUOTE_HEAD + 3, QUOTE_MOST - QUOTE_HEAD - 3);
    text[QUOTE_MOST - 1] = c;
}

// Replaces load("A.npy") by A.npy in a text that a command generated, because the user only knows
// the file. Returns the end of the call in the source, or `begin` if there is no call.
static int quote_file(const struct mmul_source *source, int begin, int end, char *text,
                      int *length) {
    static const char load[] = "load(\"";
    int at = begin + (int)sizeof load - 1;
    if (at >= end || strncmp(source->text + begin, load, sizeof load - 1) != 0)
        return begin;
    for (; at < end && source->text[at] != '"'; at++) {
        at += source->text[at] == '\\'; // skip the backslash; newlines in names are not handled
        append_character(text, length, source->text[at]);
    }
    return at + (int)sizeof "\")" - 1;
}

char *mmul_source_quote(const struct mmul_source *source, struct mmul_span at,
                        char text[static 48]) {
    int length = 0;
    bool blank = false;
    for (int i = at.begin; i < at.end; i++) {
        const char c = source->text[i];
        bool is_blank = c == ' ' || c == '\n' || c == '\r';
        if (!is_blank && blank && length > 0)
            append_character(text, &length, ' ');
        blank = is_blank;
        if (is_blank)
            continue;
        const int after = source->name == NULL ? quote_file(source, i, at.end, text, &length) : i;
        if (after > i)
            i = after - 1;
        else
            append_character(text, &length, c);
    }
    text[length] = '\0';
    return mmul_make_printable(text);
}

void *mmul_arena_allocate(struct mmul_arena *arena, size_t bytes, struct mmul_error *err) {
    struct mmul_arena_chunk *chunk = arena->chunks;
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (chunk == NULL || chunk->capacity - chunk->used < rounded) {
        size_t capacity = rounded > CHUNK_BYTES ? rounded : CHUNK_BYTES;
        if (arena->bytes + (int64_t)capacity > ARENA_MOST) {
            mmul_fail(err, MMUL_ERR_DATA, "the program's own data needs more than %lld MiB",
                      (long long)(ARENA_MOST >> 20));
            return NULL;
        }
        chunk = mmul_allocate((int64_t)(sizeof *chunk + capacity), 1, "a program", err);
        if (chunk == NULL)
            return NULL;
        chunk->capacity = capacity;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->bytes += (int64_t)capacity;
    }
    chunk->used += rounded;
    return chunk->bytes + chunk->used - rounded;
}

char *mmul_arena_copy_text(struct mmul_arena *arena, const char *text, struct mmul_error *err) {
    const size_t bytes = strlen(text) + 1;
    char *copy = mmul_arena_allocate(arena, bytes, err);
    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

void mmul_arena_fini(struct mmul_arena *arena) {
    while (arena->chunks != NULL) {
        struct mmul_arena_chunk *next = arena->chunks->next;
        mmul_free(arena->chunks);
        arena->chunks = next;
    }
    arena->bytes = 0;
}
