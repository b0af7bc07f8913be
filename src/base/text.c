// SPDX-License-Identifier: MIT
// Growing text, and tables with aligned columns for people. Texts live in counted memory. A table
// counts code points, not bytes, so that a name with accents keeps its column aligned. Double-width
// characters are not supported.
#include "base/text.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

enum { COLUMNS_MAX = 64, CAPACITY_LEAST = 128 };

static bool reserve_bytes(struct mmul_text *text, size_t more) {
    size_t needed = text->length + more + 1;
    if (needed <= text->capacity)
        return true;
    size_t capacity = text->capacity < CAPACITY_LEAST ? CAPACITY_LEAST : text->capacity * 2;
    if (capacity < needed)
        capacity = needed;
    struct mmul_error ignored;
    char *grown = mmul_allocate_raw((int64_t)capacity, 1, "a text", &ignored);
    if (grown == NULL) {
        text->failed = true;
        return false;
    }
    if (text->length > 0)
        memcpy(grown, text->data, text->length);
    grown[text->length] = '\0';
    mmul_free(text->data);
    text->data = grown;
    text->capacity = capacity;
    return true;
}

void mmul_text_add_va(struct mmul_text *text, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0) {
        text->failed = true;
        return;
    }
    if (!reserve_bytes(text, (size_t)length))
        return;
    vsnprintf(text->data + text->length, (size_t)length + 1, format, arguments);
    text->length += (size_t)length;
}

void mmul_text_add(struct mmul_text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    mmul_text_add_va(text, format, arguments);
    va_end(arguments);
}

void mmul_text_add_sibling_path(struct mmul_text *text, const char *path, const char *suffix) {
    enum { CHECKSUM_BYTES = 17 };
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    size_t length = strlen(name), more = strlen(suffix);
    if (length + more <= NAME_MAX) {
        mmul_text_add(text, "%s%s", path, suffix);
        return;
    }
    size_t kept = NAME_MAX - more - CHECKSUM_BYTES;
    mmul_text_add(text, "%.*s~%016llx%s", (int)((size_t)(name - path) + kept), path,
                  (unsigned long long)mmul_hash(name, length), suffix);
}

const char *mmul_text_get(const struct mmul_text *text) {
    return text->data != NULL ? text->data : "";
}

void mmul_text_fini(struct mmul_text *text) {
    mmul_free(text->data);
    *text = (struct mmul_text){0};
}

bool mmul_text_is_utf8(const char *text) {
    int length = 1;
    for (; *text != '\0' && length > 0; text += length)
        length = mmul_utf8_length(text);
    return length > 0;
}

void mmul_text_copy(char *target, size_t capacity, const char *source) {
    if (capacity == 0)
        return;
    size_t length = strnlen(source, capacity - 1);
    memcpy(target, source, length);
    target[length] = '\0';
}

void mmul_text_copy_shortened(char *target, size_t capacity, const char *source) {
    const size_t length = strlen(source), most = capacity - 1, head = (most - 2) / 2,
                 tail = most - 2 - head;
    if (length <= most) {
        memcpy(target, source, length + 1);
        return;
    }
    memcpy(target, source, head);
    memcpy(target + head, "..", 2);
    memcpy(target + head + 2, source + length - tail, tail + 1);
}

// ----------------------------------------------------------------------------------------- tables

struct column {
    int width; // code points
    bool numeric;
    bool has_number;
};

static int display_width(const char *cell, size_t length) {
    int width = 0;
    for (size_t i = 0; i < length; i++)
        if (((unsigned char)cell[i] & 0xC0) != 0x80)
            width++;
    return width;
}

// Returns true for a number, optionally with a unit behind it ("12", "-0.5", "3 %", "1.5 GiB").
static bool is_number(const char *cell, size_t length) {
    char copy[48];
    if (length == 0 || length >= sizeof copy)
        return false;
    memcpy(copy, cell, length);
    copy[length] = '\0';
    char *rest;
    strtod(copy, &rest);
    if (rest == copy)
        return false;
    if (*rest == ' ')
        rest++;
    while ((*rest >= 'a' && *rest <= 'z') || (*rest >= 'A' && *rest <= 'Z') || *rest == '%' ||
           *rest == '/')
        rest++;
    return *rest == '\0';
}

static void measure_cell(struct column *column, bool heading, const char *cell, size_t length) {
    int width = display_width(cell, length);
    if (width > column->width)
        column->width = width;
    bool is_blank = length == 0 || (length == 1 && *cell == '-');
    if (heading || is_blank)
        return;
    if (is_number(cell, length))
        column->has_number = true;
    else
        column->numeric = false;
}

static void measure_columns(const char *tabbed, struct column *columns) {
    bool heading = true;
    int at = 0;
    for (const char *cell = tabbed; *cell != '\0';) {
        size_t length = strcspn(cell, "\t\n");
        if (at < COLUMNS_MAX)
            measure_cell(&columns[at], heading, cell, length);
        cell += length;
        at++;
        if (*cell == '\n') {
            at = 0;
            heading = false;
        }
        if (*cell != '\0')
            cell++;
    }
}

// Returns the bytes of the first `count` code points.
static size_t bytes_of_code_points(const char *text, int count) {
    size_t bytes = 0;
    for (; count > 0; count--)
        do
            bytes++;
        while (((unsigned char)text[bytes] & 0xC0) == 0x80);
    return bytes;
}

static void print_cell(const struct column *column, const char *cell, size_t length, bool last,
                       FILE *stream) {
    const int width = display_width(cell, length), padding = column->width - width;
    const bool right = column->numeric && column->has_number;
    if (padding < 0) { // keeps both ends of a cell that is too long
        const int head = (column->width - 2) / 2, tail = column->width - 2 - head;
        const size_t end = bytes_of_code_points(cell, width - tail);
        fprintf(stream, "%.*s..%.*s", (int)bytes_of_code_points(cell, head), cell,
                (int)(length - end), cell + end);
    } else {
        fprintf(stream, "%*s%.*s", right ? padding : 0, "", (int)length, cell);
    }
    if (!last)
        fprintf(stream, "%*s", (right || padding < 0 ? 0 : padding) + 2, "");
}

// Shrinks the widest column without numbers, one character at a time.
static void narrow_columns(struct column columns[COLUMNS_MAX], int most) {
    enum { LEAST = 8 };
    int total = -2;
    for (int c = 0; c < COLUMNS_MAX && columns[c].width > 0; c++)
        total += columns[c].width + 2;
    for (; total > most; total--) {
        struct column *widest = NULL;
        for (int c = 0; c < COLUMNS_MAX; c++)
            if (!(columns[c].numeric && columns[c].has_number) && columns[c].width > LEAST &&
                (widest == NULL || columns[c].width > widest->width))
                widest = &columns[c];
        if (widest == NULL)
            return;
        widest->width--;
    }
}

void mmul_text_print_table(const char *tabbed, FILE *stream) {
    mmul_text_print_narrow_table(tabbed, INT_MAX, stream);
}

void mmul_text_print_narrow_table(const char *tabbed, int most, FILE *stream) {
    struct column columns[COLUMNS_MAX];
    for (int c = 0; c < COLUMNS_MAX; c++)
        columns[c] = (struct column){.numeric = true};
    measure_columns(tabbed, columns);
    narrow_columns(columns, most);
    int at = 0;
    for (const char *cell = tabbed; *cell != '\0';) {
        size_t length = strcspn(cell, "\t\n");
        bool last = cell[length] != '\t';
        const struct column unaligned = {.width = display_width(cell, length)};
        const struct column *column = at < COLUMNS_MAX ? &columns[at] : &unaligned;
        print_cell(column, cell, length, last, stream);
        at = last ? 0 : at + 1;
        cell += length;
        if (last)
            fputc('\n', stream);
        if (*cell != '\0')
            cell++;
    }
}
