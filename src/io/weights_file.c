// SPDX-License-Identifier: MIT
// Weights from an option: a list of numbers, or @FILE with such a list over several lines and with
// comments. What weights are usable is model/weights'; what they mean is the planner's.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/transfer.h"
#include "model/weights.h"

enum { FILE_BYTES_MAX = 1 << 20, NUMBER_MAX = 64 };

static enum mmul_status read_text(int fd, const char *path, char **text, struct mmul_error *err) {
    struct stat found;
    size_t got = 0;
    if (fstat(fd, &found) != 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot read '%s'", path);
    if (!S_ISREG(found.st_mode))
        return mmul_fail(err, MMUL_ERR_NO_INPUT, "cannot read '%s': not a regular file", path);
    if (found.st_size > FILE_BYTES_MAX) {
        return mmul_fail(err, MMUL_ERR_DATA, "'%s' is no list of weights: %lld bytes, at most %d",
                         path, (long long)found.st_size, FILE_BYTES_MAX);
    }
    char *memory = mmul_allocate(found.st_size + 1, 1, "weights", err);
    if (memory == NULL)
        return err->status;
    int errnum = mmul_pread_all(fd, memory, (size_t)found.st_size, 0, &got);
    if (errnum == 0) {
        *text = memory;
        return MMUL_OK;
    }
    mmul_free(memory);
    return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'", path);
}

static enum mmul_status load_text(const char *path, char **text, struct mmul_error *err) {
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot open '%s'", path);
    enum mmul_status status = read_text(fd, path, text, err);
    close(fd); // read only: nothing can be lost
    return status;
}

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
    enum mmul_status status = load_text(text + 1, &list, err);
    if (status != MMUL_OK)
        return status;
    blank_comments(list);
    status = parse_list(list, " \t\r\n", MMUL_ERR_DATA, text + 1, weights, count, err);
    mmul_free(list);
    return status;
}
