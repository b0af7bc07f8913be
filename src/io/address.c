// SPDX-License-Identifier: MIT
// Parses addresses. Does not check that a file has such a tensor: names of tensors may contain
// anything, also colons and brackets.
#include "io/address.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/integer.h"
#include "base/memory.h"
#include "io/standard_stream.h"

enum mmul_status mmul_address_find(const char *text, struct mmul_tensor_address *address,
                                   struct mmul_error *err) {
    struct stat file;
    struct mmul_tensor_address found = {0};
    enum mmul_status status = mmul_copy_text(text, &found.path, err);
    const bool is_path = mmul_path_is_stdin(text) || lstat(text, &file) == 0;
    char *colon = status == MMUL_OK && !is_path ? strchr(found.path, ':') : NULL;
    for (; colon != NULL; colon = strchr(colon + 1, ':')) {
        *colon = '\0';
        if (stat(found.path, &file) == 0 && S_ISREG(file.st_mode)) {
            status = mmul_copy_text(colon + 1, &found.tensor, err);
            break;
        }
        *colon = ':';
    }
    if (status == MMUL_OK)
        *address = found;
    else
        mmul_address_fini(&found);
    return status;
}

void mmul_address_fini(struct mmul_tensor_address *address) {
    mmul_free(address->path);
    mmul_free(address->tensor);
    *address = (struct mmul_tensor_address){0};
}

// Reads a number or nothing at *text and moves *text behind it. Returns false if it exceeds int64.
static bool scan_bound(const char **text, bool *has, int64_t *value) {
    char *end;
    *has = isdigit((unsigned char)**text) || (**text == '-' && isdigit((unsigned char)(*text)[1]));
    if (!*has)
        return true;
    errno = 0;
    *value = strtoll(*text, &end, 10);
    *text = end;
    return errno == 0;
}

bool mmul_address_range(const char *tensor, size_t *length, struct mmul_axis_range *range) {
    struct mmul_axis_range found = {0};
    const char *open = strrchr(tensor, '[');
    if (open == NULL)
        return false;
    const char *at = open + 1;
    if (!scan_bound(&at, &found.has_begin, &found.begin) || *at++ != ':' ||
        !scan_bound(&at, &found.has_end, &found.end) || strcmp(at, "]") != 0)
        return false;
    *length = (size_t)(open - tensor);
    *range = found;
    return true;
}

static int64_t resolve_bound(int64_t bound, int64_t size) {
    if (bound < 0)
        bound = bound < -size ? 0 : bound + size;
    return mmul_min(bound, size);
}

bool mmul_axis_range_resolve(const struct mmul_axis_range *range, int64_t size, int64_t *begin,
                             int64_t *end) {
    *begin = range->has_begin ? resolve_bound(range->begin, size) : 0;
    *end = range->has_end ? resolve_bound(range->end, size) : size;
    return *begin < *end;
}
