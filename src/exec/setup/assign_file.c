// SPDX-License-Identifier: MIT
// Reads the text of `--device @FILE`. Several lines may name the same host; their devices follow
// one another. Looks up one rank at a time: such files have tens of lines.
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "exec/setup/assign.h"

enum { LINE_BYTES = 1024 };

struct line {
    char host[64], devices[LINE_BYTES];
    double weight; // negative: none
};

static enum mmul_status malformed(const char *path, int number, struct mmul_error *err) {
    return mmul_fail(err, MMUL_ERR_DATA, "'%s' line %d is not 'host device[,device...] [weight]'",
                     path, number);
}

// Splits one line; an empty one has an empty host.
static enum mmul_status parse_line(const char *path, int number, char *text, struct line *line,
                                   struct mmul_error *err) {
    char *words[4] = {NULL}, *rest = NULL;
    int count = 0;
    text[strcspn(text, "#")] = '\0';
    for (char *word = strtok_r(text, " \t\r", &rest); word != NULL && count < 4;
         word = strtok_r(NULL, " \t\r", &rest))
        words[count++] = word;
    *line = (struct line){.weight = -1};
    if (count == 0)
        return MMUL_OK;
    if (count == 1 || count > 3)
        return malformed(path, number, err);
    mmul_text_copy(line->host, sizeof line->host, words[0]);
    mmul_text_copy(line->devices, sizeof line->devices, words[1]);
    struct mmul_error ignored;
    if (count == 3 && (mmul_parse_double(words[2], "weight", &line->weight, &ignored) != MMUL_OK ||
                       line->weight < 0))
        return malformed(path, number, err);
    return MMUL_OK;
}

// The index-th device of the comma list, or NULL; `index` goes down by those passed over.
static const char *pick_device(char *devices, int *index) {
    char *rest = NULL;
    for (char *one = strtok_r(devices, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest))
        if ((*index)-- == 0)
            return one;
    return NULL;
}

enum mmul_status mmul_assign_from_file(const char *text, const char *path, const char *host,
                                       int node_rank, struct mmul_assign_line *line,
                                       struct mmul_error *err) {
    char copy[LINE_BYTES];
    struct line parsed;
    int index = node_rank;
    for (int number = 1; *text != '\0'; number++) {
        size_t length = strcspn(text, "\n");
        if (length >= sizeof copy)
            return malformed(path, number, err);
        memcpy(copy, text, length);
        copy[length] = '\0';
        text += length + (text[length] == '\n');
        enum mmul_status status = parse_line(path, number, copy, &parsed, err);
        if (status != MMUL_OK)
            return status;
        const char *found =
            strcmp(parsed.host, host) == 0 ? pick_device(parsed.devices, &index) : NULL;
        if (found == NULL)
            continue;
        mmul_text_copy(line->device, sizeof line->device, found);
        line->weight = parsed.weight;
        return MMUL_OK;
    }
    mmul_fail(err, MMUL_ERR_DATA, "'%s' has no device for rank %d of host '%s'", path, node_rank,
              host);
    mmul_hint(err, "list one device per rank of each host, by the name `hostname` prints there");
    return MMUL_ERR_DATA;
}
