// SPDX-License-Identifier: MIT
// What an owner of a foreign file can do, with that file's name in it.
#include <stdio.h>
#include <string.h>

#include "io/formats.h"

// A file's name in quotes, with the ending in place of its own one where that is not NULL. One that quotes do not hold,
// or that is no file's, is A. Returns the characters that it takes, as snprintf does.
static int put_name(char *text, size_t room, const char *path, const char *ending) {
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    const bool is_plain = strpbrk(path, "'\\") == NULL && !mmul_path_is_stdin(path);
    if (!is_plain)
        return snprintf(text, room, "'A%s'", ending != NULL ? ending : "");
    const size_t whole = strlen(path);
    const size_t length =
        ending != NULL && dot != NULL && dot > name ? (size_t)(dot - path) : whole;
    // Never the file itself: one that is called .npy and is none.
    const bool is_itself = ending != NULL && strcmp(path + length, ending) == 0;
    return snprintf(text, room, "'%.*s%s%s'", (int)length, path, is_itself ? ".new" : "",
                    ending != NULL ? ending : "");
}

const char *mmul_format_hint(const struct mmul_format_row *row, const char *path,
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
            length += (size_t)put_name(text + length, MMUL_FORMAT_HINT_BYTES - length, path,
                                       names[n].ending);
            at += strlen(names[n].mark);
        } else {
            text[length++] = *at++;
        }
    }
    if (length >= MMUL_FORMAT_HINT_BYTES) // what is cut off is nothing to paste
        return mmul_format_hint(row, "-", text);
    text[length] = '\0';
    return text;
}
