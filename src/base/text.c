// SPDX-License-Identifier: MIT
// Growing text, and tables with aligned columns for people. Texts live in counted memory. The
// table counts code points, not bytes, so that a name with accents does not bend its column;
// double-width characters are not known to it.
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { COLUMNS_MAX = 64, CAPACITY_LEAST = 128 };

static bool reserve(struct mmul_text *text, size_t more) {
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

void mmul_text_add_list(struct mmul_text *text, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0) {
        text->failed = true;
        return;
    }
    if (!reserve(text, (size_t)length))
        return;
    vsnprintf(text->data + text->length, (size_t)length + 1, format, arguments);
    text->length += (size_t)length;
}

void mmul_text_add(struct mmul_text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    mmul_text_add_list(text, format, arguments);
    va_end(arguments);
}

const char *mmul_text_get(const struct mmul_text *text) {
    return text->data != NULL ? text->data : "";
}

void mmul_text_fini(struct mmul_text *text) {
    mmul_free(text->data);
    *text = (struct mmul_text){0};
}

void mmul_text_copy(char *target, size_t capacity, const char *source) {
    if (capacity == 0)
        return;
    size_t length = strnlen(source, capacity - 1);
    memcpy(target, source, length);
    target[length] = '\0';
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

// A number, perhaps with a unit behind it ("12", "-0.5", "3 %", "1.5 GiB").
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

static void measure(const char *tabbed, struct column *columns) {
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

static void print_cell(const struct column *column, const char *cell, size_t length, bool last,
                       FILE *stream) {
    int padding = column->width - display_width(cell, length);
    bool right = column->numeric && column->has_number;
    fprintf(stream, "%*s%.*s", right ? padding : 0, "", (int)length, cell);
    if (!last)
        fprintf(stream, "%*s", (right ? 0 : padding) + 2, "");
}

void mmul_text_print_table(const char *tabbed, FILE *stream) {
    static const struct column unaligned = {0};
    struct column columns[COLUMNS_MAX];
    for (int c = 0; c < COLUMNS_MAX; c++)
        columns[c] = (struct column){.numeric = true};
    measure(tabbed, columns);
    int at = 0;
    for (const char *cell = tabbed; *cell != '\0';) {
        size_t length = strcspn(cell, "\t\n");
        bool last = cell[length] != '\t';
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
