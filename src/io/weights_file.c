// SPDX-License-Identifier: MIT
// Parses weights from an option: a list of numbers, or @FILE with such a list over several lines
// and with comments. model/weights checks the values, the planner applies them.
#include "io/weights_file.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/text_file.h"
#include "model/weights.h"

enum { NUMBER_MAX = 64 };

// Replaces '#' to the end of its line by blanks.
static void blank_comments(char *text) {
    for (char *hash = strchr(text, '#'); hash != NULL; hash = strchr(hash, '#')) {
        size_t length = strcspn(hash, "\n");
        memset(hash, ' ', length);
        hash += length;
    }
}

// A list of numbers, separated by commas or by one or more blanks.
struct list {
    const char *text, *blanks;
    const char *what; // name of the list in errors
    enum mmul_status failure;
};

// Parses the numbers, or only counts them if weights is NULL.
static enum mmul_status scan_numbers(const struct list *list, double *weights, int *count,
                                     struct mmul_error *err) {
    const char *text = list->text;
    char number[NUMBER_MAX];
    *count = 0;
    for (text += strspn(text, list->blanks); *text != '\0';) {
        size_t length = strcspn(text, ", \t\r\n");
        double value;
        mmul_text_copy(number, length < sizeof number ? length + 1 : sizeof number, text);
        if (mmul_parse_double(number, list->what, &value, err) != MMUL_OK ||
            length >= sizeof number)
            return mmul_fail(err, list->failure, "%s: '%s' is not a number", list->what, number);
        if (weights != NULL)
            weights[*count] = value;
        ++*count;
        text += length;
        text += strspn(text, list->blanks);
        if (*text != ',')
            continue;
        text++;
        text += strspn(text, list->blanks);
        if (*text == '\0')
            return mmul_fail(err, list->failure, "%s: nothing after the last comma", list->what);
    }
    return MMUL_OK;
}

static enum mmul_status parse_list(const struct list *list, double **weights, int *count,
                                   struct mmul_error *err) {
    int found = 0;
    double *memory = NULL;
    enum mmul_status status = scan_numbers(list, NULL, &found, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(memory, found, "weights", err);
    if (status == MMUL_OK)
        status = scan_numbers(list, memory, &found, err);
    if (status != MMUL_OK)
        goto out;
    status = mmul_weights_check(memory, found, list->failure, err);
    if (status != MMUL_OK) {
        mmul_fail(err, status, "%s: %s", list->what, err->text);
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
    if (*text != '@') {
        const struct list list = {text, "", "weights", MMUL_ERR_USAGE};
        return parse_list(&list, weights, count, err);
    }
    char *lines = NULL;
    enum mmul_status status = mmul_text_file_load(text + 1, "list of weights", &lines, err);
    if (status != MMUL_OK)
        return status;
    blank_comments(lines);
    const struct list list = {lines, " \t\r\n", text + 1, MMUL_ERR_DATA};
    status = parse_list(&list, weights, count, err);
    mmul_free(lines);
    return status;
}

enum mmul_status mmul_weights_parse_for_ranks(const char *text, int size, double *weights,
                                              struct mmul_error *err) {
    double *given = NULL;
    int count = 0;
    for (int rank = 0; rank < size; rank++)
        weights[rank] = 1;
    if (strcmp(text, "equal") == 0)
        return MMUL_OK;
    enum mmul_status status = mmul_weights_parse(text, &given, &count, err);
    if (status == MMUL_OK && count != size)
        status = mmul_fail(err, MMUL_ERR_USAGE, "--weights '%s' has %d number%s for %d rank%s",
                           text, count, mmul_text_plural(count), size, mmul_text_plural(size));
    if (status == MMUL_OK)
        memcpy(weights, given, (size_t)size * sizeof *weights);
    mmul_free(given);
    return status;
}
