// SPDX-License-Identifier: MIT
// Conversion between text and numbers for options, environment and files. A text is valid as a
// whole or not at all: no blanks, no "nan", no "inf", no hexadecimal. Also finds the nearest known
// word for a mistyped one.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { WORD_MAX = 63 };

static bool has_only(const char *text, const char *characters) {
    return *text != '\0' && text[strspn(text, characters)] == '\0';
}

enum mmul_status mmul_parse_int64(const char *text, const char *what, int64_t least, int64_t most,
                                  int64_t *value, struct mmul_error *err) {
    char *rest = NULL;
    bool valid = has_only(text, "-0123456789");
    errno = 0;
    long long parsed = valid ? strtoll(text, &rest, 10) : 0;
    if (!valid || rest == text || *rest != '\0' || errno != 0 || parsed < least || parsed > most) {
        return mmul_fail(err, MMUL_ERR_USAGE, "%s: '%s' is not a whole number from %lld to %lld",
                         what, text, (long long)least, (long long)most);
    }
    *value = parsed;
    return MMUL_OK;
}

enum mmul_status mmul_parse_double(const char *text, const char *what, double *value,
                                   struct mmul_error *err) {
    char *rest = NULL;
    bool valid = has_only(text, "+-.eE0123456789");
    double parsed = valid ? strtod(text, &rest) : 0;
    if (!valid || rest == text || *rest != '\0' || !isfinite(parsed))
        return mmul_fail(err, MMUL_ERR_USAGE, "%s: '%s' is not a number", what, text);
    *value = parsed;
    return MMUL_OK;
}

static bool find_unit(const char *unit, double *bytes) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {
        {"", 1},         {"B", 1},      {"K", 0x1p10},   {"KiB", 0x1p10}, {"M", 0x1p20},
        {"MiB", 0x1p20}, {"G", 0x1p30}, {"GiB", 0x1p30}, {"T", 0x1p40},   {"TiB", 0x1p40},
    };
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        if (strcmp(unit, units[u].name) == 0) {
            *bytes = units[u].bytes;
            return true;
        }
    }
    return false;
}

// Parses sizes such as "1.5GiB": digits, an optional fraction, then a unit. From 2^53 bytes on, the
// last digits are lost, which matters on no machine.
enum mmul_status mmul_parse_size(const char *text, const char *what, int64_t *bytes,
                                 struct mmul_error *err) {
    char number[32];
    double value = 0, unit = 0;
    size_t length = strspn(text, "0123456789.");
    bool valid = length > 0 && length < sizeof number && find_unit(text + length, &unit);
    if (valid) {
        char *rest;
        memcpy(number, text, length);
        number[length] = '\0';
        value = strtod(number, &rest) * unit;
        valid = *rest == '\0' && rest != number && value < 0x1p63;
    }
    if (!valid) {
        return mmul_fail(err, MMUL_ERR_USAGE, "%s: '%s' is not a size like 512MiB or 4GiB", what,
                         text);
    }
    *bytes = (int64_t)value;
    return MMUL_OK;
}

char *mmul_bytes_format(int64_t bytes, char text[static 32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    // 1023.95 would print as 1024.0
    while (fabs(value) >= (unit == 0 ? 1024.0 : 1023.95) &&
           unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

static int smaller_of(int a, int b) {
    return a < b ? a : b;
}

// Optimal string alignment distance: inserting, deleting or replacing a letter, or swapping two
// neighbours, costs 1. Three rolling rows are enough; the third is for the swap.
static int edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    int rows[3][WORD_MAX + 1];
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        const int *before = rows[(i + 1) % 3], *above = rows[(i + 2) % 3];
        int *row = rows[i % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = smaller_of(above[j], row[j - 1]) + 1;
            row[j] = smaller_of(row[j], above[j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped)
                row[j] = smaller_of(row[j], before[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

const char *mmul_nearest(const char *word, const char *const *candidates) {
    size_t length = strlen(word);
    if (length > WORD_MAX)
        return NULL;
    const char *nearest = NULL;
    int best = WORD_MAX;
    for (; *candidates != NULL; candidates++) {
        size_t candidate_length = strlen(*candidates);
        if (candidate_length > WORD_MAX)
            continue;
        int distance = edit_distance(word, length, *candidates, candidate_length);
        if (distance < best && 3 * (size_t)distance <= length) {
            best = distance;
            nearest = *candidates;
        }
    }
    return nearest;
}
