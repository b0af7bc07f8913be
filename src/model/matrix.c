// SPDX-License-Identifier: MIT
// Shapes as numbers and as text: counts and byte sizes with their overflow checks, regions.
// Independent of the place of the elements: files belong to io, buffers to their owners.
#include "model/matrix.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "model/dtype.h"

enum { DIMENSIONS_MAX = 4 };

int64_t mmul_shape_matrices(struct mmul_shape shape) {
    return shape.batch * shape.depth;
}

void mmul_shape_to_sizes(struct mmul_shape shape, int64_t sizes[static 4]) {
    sizes[0] = shape.batch;
    sizes[1] = shape.depth;
    sizes[2] = shape.rows;
    sizes[3] = shape.cols;
}

struct mmul_shape mmul_sizes_to_shape(const int64_t sizes[static 4]) {
    return (struct mmul_shape){sizes[0], sizes[1], sizes[2], sizes[3]};
}

bool mmul_shape_count(struct mmul_shape shape, int64_t *count) {
    const int64_t sizes[] = {shape.batch, shape.depth, shape.rows, shape.cols};
    int64_t product = 1;
    for (int s = 0; s < 4; s++)
        if (!mmul_multiply_sizes(product, sizes[s], &product))
            return false;
    *count = product;
    return true;
}

enum mmul_status mmul_shape_bytes(struct mmul_shape shape, enum mmul_dtype dtype, int64_t *bytes,
                                  struct mmul_error *err) {
    int64_t count, product;
    char text[96];
    if (!mmul_shape_count(shape, &count) ||
        !mmul_multiply_sizes(count, (int64_t)mmul_dtype_bytes(dtype), &product)) {
        return mmul_fail(err, MMUL_ERR_DATA, "a matrix of %s elements of %s is too large",
                         mmul_shape_format(shape, text), mmul_dtype_name(dtype));
    }
    *bytes = product;
    return MMUL_OK;
}

int64_t mmul_region_count(struct mmul_region region) {
    return (region.row_end - region.row_begin) * (region.col_end - region.col_begin);
}

struct mmul_region mmul_region_whole(struct mmul_shape shape, int64_t matrix) {
    return (struct mmul_region){.matrix = matrix, .row_end = shape.rows, .col_end = shape.cols};
}

char *mmul_shape_format(struct mmul_shape shape, char text[static 96]) {
    const long long sizes[] = {shape.batch, shape.depth, shape.rows, shape.cols};
    int first = 0;
    while (first < 2 && sizes[first] == 1)
        first++;
    size_t length = 0;
    for (int s = first; s < DIMENSIONS_MAX; s++) {
        int added = snprintf(text + length, 96 - length, s > first ? " x %lld" : "%lld", sizes[s]);
        assert(added > 0 && length + (size_t)added < 96); // 4 * 20 digits and 3 * 3 separators
        length += (size_t)added;
    }
    return text;
}

// Splits "2x3x4" at the 'x' into at most four whole numbers; returns their number, 0 if malformed.
static int parse_sizes(const char *text, int64_t sizes[DIMENSIONS_MAX]) {
    struct mmul_error ignored;
    for (int found = 0; found < DIMENSIONS_MAX;) {
        char number[16];
        size_t length = strcspn(text, "x");
        if (length >= sizeof number)
            return 0;
        memcpy(number, text, length);
        number[length] = '\0';
        if (mmul_parse_int64(number, "", 1, INT32_MAX, &sizes[found], &ignored) != MMUL_OK)
            return 0;
        found++;
        text += length;
        if (*text == '\0')
            return found;
        text++;
    }
    return 0;
}

enum mmul_status mmul_shape_parse(const char *text, struct mmul_shape *shape,
                                  struct mmul_error *err) {
    int64_t sizes[DIMENSIONS_MAX];
    int found = parse_sizes(text, sizes);
    if (found < 2) {
        return mmul_fail(err, MMUL_ERR_USAGE,
                         "'%s' is not a shape like 4096x1024 (rows x cols, each from 1 to "
                         "2147483647, up to 4 sizes)",
                         text);
    }
    *shape = (struct mmul_shape){
        .batch = found > 3 ? sizes[found - 4] : 1,
        .depth = found > 2 ? sizes[found - 3] : 1,
        .rows = sizes[found - 2],
        .cols = sizes[found - 1],
    };
    return MMUL_OK;
}

int mmul_shape_axes(struct mmul_shape shape) {
    return shape.batch > 1 ? 4 : shape.depth > 1 ? 3 : 2;
}

int64_t mmul_shape_stored_matrix(struct mmul_shape stored, struct mmul_shape shape, int64_t t) {
    int64_t batch = stored.batch == 1 ? 0 : t / shape.depth;
    int64_t depth = stored.depth == 1 ? 0 : t % shape.depth;
    return batch * stored.depth + depth;
}

bool mmul_shape_equal(struct mmul_shape x, struct mmul_shape y) {
    return x.batch == y.batch && x.depth == y.depth && x.rows == y.rows && x.cols == y.cols;
}
