// SPDX-License-Identifier: MIT
// Fills the hint of a foreign format with the names of the user's own files, so that the printed
// command can be pasted. The hints themselves are in the table of formats.c.
#include <stdio.h>
#include <string.h>

#include "io/formats.h"

// Writes a file's name in quotes, its ending replaced by `ending` unless that is NULL. A name that
// quotes cannot hold, or standard input, becomes A. Returns the length as snprintf does.
static int write_quoted_name(char *text, size_t room, const char *path, const char *ending) {
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    const bool is_plain = strpbrk(path, "'\\") == NULL && !mmul_path_is_stdin(path);
    if (!is_plain)
        return snprintf(text, room, "'A%s'", ending != NULL ? ending : "");
    const size_t whole = strlen(path);
    const size_t length =
        ending != NULL && dot != NULL && dot > name ? (size_t)(dot - path) : whole;
    // The output must not be the input, such as a file called .npy that is not one.
    const bool is_itself = ending != NULL && strcmp(path + length, ending) == 0;
    return snprintf(text, room, "'%.*s%s%s'", (int)length, path, is_itself ? ".new" : "",
                    ending != NULL ? ending : "");
}

const char *mmul_format_fill_hint(const struct mmul_format_row *row, const char *path,
                                  char text[static MMUL_FORMAT_HINT_BYTES]) {
    static const struct {
        const char *mark, *ending;
    } names[] = {{"<in>", NULL}, {"<npy>", ".npy"}, {"<npz>", ".npz"}, {"<csv>", ".csv"}};
    size_t length = 0;
    for (const char *at = row->hint; *at != '\0' && length < MMUL_FORMAT_HINT_BYTES;) {
        size_t n = 0;
        while (n < sizeof names / sizeof *names &&
               strncmp(at, names[n].mark, strlen(names[n].mark)) != 0)
            n++;
        if (n < sizeof names / sizeof *names) {
            length += (size_t)write_quoted_name(text + length, MMUL_FORMAT_HINT_BYTES - length,
                                                path, names[n].ending);
            at += strlen(names[n].mark);
        } else {
            text[length++] = *at++;
        }
    }
    if (length >= MMUL_FORMAT_HINT_BYTES) // a truncated command could not be pasted
        return mmul_format_fill_hint(row, "-", text);
    text[length] = '\0';
    return text;
}
