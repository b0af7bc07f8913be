// SPDX-License-Identifier: MIT
// Reads the source line again from the file. Failures come from the parser, the planner and any
// rank, and share only the position in front of the message.
#include "cli/source_line.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "mpimatmul_local.h"

enum { WIDTH = 120, INDENT = 4, TAB = 8 };

static bool begins_character(char c) {
    return ((unsigned char)c & 0xC0) != 0x80;
}

// Finds PATH:LINE:COLUMN at the beginning of the message or behind the name of a rank.
static bool find_place(const char *failure, const char *path, int *line, int *column) {
    const size_t length = strlen(path);
    for (const char *at = failure; (at = strstr(at, path)) != NULL; at++)
        if ((at == failure || at[-1] == ' ') &&
            sscanf(at + length, ":%9d:%9d: ", line, column) == 2)
            return true;
    return false;
}

// Returns a line without its newline; owned by the caller. NULL if there is no such line.
static char *read_line(const char *path, int number) {
    char *line = NULL;
    size_t room = 0;
    struct stat found;
    FILE *stream = stat(path, &found) == 0 && S_ISREG(found.st_mode) ? fopen(path, "re") : NULL;
    ssize_t length = -1;
    for (int i = 0; stream != NULL && i < number; i++)
        if ((length = getline(&line, &room, stream)) < 0)
            break;
    if (stream != NULL)
        fclose(stream);
    if (length < 0) {
        free(line);
        return NULL;
    }
    line[strcspn(line, "\r\n")] = '\0';
    return line;
}

static int width_of(const char *line) {
    int width = 0;
    for (; *line != '\0'; line++)
        width += *line == '\t' ? TAB - width % TAB : begins_character(*line);
    return width;
}

// Returns the byte offset of a character, counted from 0; the end of the line if it has fewer.
static size_t byte_of(const char *line, int character) {
    size_t at = 0;
    while (line[at] != '\0' && (!begins_character(line[at]) || character-- > 0))
        at++;
    return at;
}

// Shortens the line to `most` columns around *column and adjusts *column, which counts from 0.
static void cut_around(char *line, int *column, int most) {
    enum { DOTS = 2 };
    for (char *c = line; *c != '\0'; c++)
        *c = *c == '\t' ? ' ' : *c;
    const int width = width_of(line);
    int begin = *column - most / 2;
    begin = begin + most > width ? width - most : begin;
    begin = begin < 0 ? 0 : begin;
    const bool is_more = begin + most < width;
    line[byte_of(line, begin + most)] = '\0';
    char *kept = line + byte_of(line, begin + (begin > 0 ? DOTS : 0));
    if (is_more)
        kept[byte_of(kept, most - DOTS - (begin > 0 ? DOTS : 0))] = '\0';
    const size_t length = strlen(kept);
    const size_t dots = begin > 0 ? DOTS : 0;
    memmove(line + dots, kept, length + 1);
    memset(line, '.', dots);
    if (is_more)
        memcpy(line + dots + length, "..", DOTS + 1);
    *column -= begin;
}

void mmul_print_source_line(FILE *stream, const char *path, const char *failure) {
    int number = 0, column = 0;
    char *line = find_place(failure, path, &number, &column) ? read_line(path, number) : NULL;
    column--;
    if (line == NULL || column < 0 || line[strspn(line, " \t")] == '\0') {
        free(line);
        return;
    }
    if (INDENT + width_of(line) > WIDTH)
        cut_around(line, &column, WIDTH - INDENT);
    fprintf(stream, "%*s", INDENT, "");
    for (const char *at = line, *next = line; *at != '\0'; at = next) {
        // Control characters are replaced as elsewhere, except tabs, which appear in both lines.
        char character[8];
        do
            next++;
        while (!begins_character(*next));
        snprintf(character, sizeof character, "%.*s", (int)(next - at), at);
        fputs(*at == '\t' ? "\t" : mmul_make_printable(character), stream);
    }
    fprintf(stream, "\n%*s", INDENT, "");
    const size_t caret = byte_of(line, column);
    for (size_t i = 0; i < caret; i++)
        if (begins_character(line[i]))
            fputc(line[i] == '\t' ? '\t' : ' ', stream);
    fputs("^\n", stream);
    free(line);
}
