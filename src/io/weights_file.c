// SPDX-License-Identifier: MIT
// Weights from an option: a list of numbers, or @FILE with such a list over several lines and with
// comments. What weights are usable is model/weights'; what they mean is the planner's.
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/text_file.h"
#include "model/weights.h"

enum { NUMBER_MAX = 64 };

// '#' to the end of its line becomes blank.
static void blank_comments(char *text) {
    for (char *hash = strchr(text, '#'); hash != NULL; hash = strchr(hash, '#')) {
        size_t length = strcspn(hash, "\n");
        memset(hash, ' ', length);
        hash += length;
    }
}

// Numbers separated by any of `separators`: of blanks several in a row are one, of commas not.
// With weights NULL they are only counted.
static enum mmul_status scan(const char *text, const char *blanks, enum mmul_status failure,
                             const char *what, double *weights, int *count,
                             struct mmul_error *err) {
    char number[NUMBER_MAX];
    *count = 0;
    for (text += strspn(text, blanks); *text != '\0';) {
        size_t length = strcspn(text, ", \t\r\n");
        double value;
        mmul_text_copy(number, length < sizeof number ? length + 1 : sizeof number, text);
        if (mmul_parse_double(number, what, &value, err) != MMUL_OK || length >= sizeof number)
            return mmul_fail(err, failure, "%s: '%s' is not a number", what, number);
        if (weights != NULL)
            weights[*count] = value;
        ++*count;
        text += length;
        text += strspn(text, blanks);
        if (*text != ',')
            continue;
        text++;
        text += strspn(text, blanks);
        if (*text == '\0')
            return mmul_fail(err, failure, "%s: nothing after the last comma", what);
    }
    return MMUL_OK;
}

static enum mmul_status parse_list(const char *text, const char *blanks, enum mmul_status failure,
                                   const char *what, double **weights, int *count,
                                   struct mmul_error *err) {
    int found = 0;
    double *memory = NULL;
    enum mmul_status status = scan(text, blanks, failure, what, NULL, &found, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(memory, found, "weights", err);
    if (status == MMUL_OK)
        status = scan(text, blanks, failure, what, memory, &found, err);
    if (status != MMUL_OK)
        goto out;
    status = mmul_weights_check(memory, found, failure, err);
    if (status != MMUL_OK) {
        mmul_fail(err, status, "%s: %s", what, err->text);
        goto out;
    }
    *weights = memory;
    *count = found;
    return MMUL_OK;
out:
    mmul_free(memory);
    return status;
}

enum mmul_status mmul_weights_parse(const char *text, double **weights, int *count,
                                    struct mmul_error *err) {
    if (*text != '@')
        return parse_list(text, "", MMUL_ERR_USAGE, "weights", weights, count, err);
    char *list = NULL;
    enum mmul_status status = mmul_text_file_load(text + 1, "list of weights", &list, err);
    if (status != MMUL_OK)
        return status;
    blank_comments(list);
    status = parse_list(list, " \t\r\n", MMUL_ERR_DATA, text + 1, weights, count, err);
    mmul_free(list);
    return status;
}
