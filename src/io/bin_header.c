// SPDX-License-Identifier: MIT
// Parses and writes the header of a 4D .bin file: 3 to 5 little-endian int32. The first is the
// number of dimensions (version 1) or a negative dtype tag (version 2). Does not compare the file's
// length with the header: the caller that has the file does.
#include "io/bin_header.h"

#include <string.h>

#include "base/status.h"
#include "io/transfer.h" // refuses big-endian hosts
#include "model/matrix.h"

enum { TAG_FLOAT32 = -1, TAG_FLOAT16 = -2, TAG_BFLOAT16 = -3 };

static int32_t read_int32(const unsigned char *bytes, int index) {
    int32_t number;
    memcpy(&number, bytes + 4 * index, sizeof number);
    return number;
}

static bool is_valid_first_number(int32_t first) {
    return (first >= 2 && first <= 4) || (first >= TAG_BFLOAT16 && first <= TAG_FLOAT32);
}

bool mmul_is_bin(const unsigned char *bytes, size_t count) {
    return count >= 4 && is_valid_first_number(read_int32(bytes, 0));
}

static enum mmul_status fail_first_number(int32_t first, const char *name, struct mmul_error *err) {
    if (is_valid_first_number((int32_t)__builtin_bswap32((uint32_t)first))) {
        return mmul_fail(err, MMUL_ERR_DATA,
                         "'%s' is not a valid .bin matrix: its header looks big-endian, expected "
                         "little-endian",
                         name);
    }
    mmul_fail(err, MMUL_ERR_DATA,
              "'%s' is not a valid matrix file: it starts with the number %d, expected 2, 3 or 4 "
              "(dimensions) or -1, -2 or -3 (element type)",
              name, (int)first);
    mmul_hint(err, "no other known format begins like this; .bin (4D float), .npy, .npz, "
                   ".safetensors and numbers as text are read");
    return err->status;
}

static enum mmul_status fail_short(size_t count, int64_t least, const char *name,
                                   struct mmul_error *err) {
    if (count == 0)
        return mmul_fail(err, MMUL_ERR_DATA, "'%s' is not a valid matrix file: it is empty", name);
    return mmul_fail(err, MMUL_ERR_DATA,
                     "'%s' is not a valid .bin matrix: %zu bytes, but its header alone takes %lld",
                     name, count, (long long)least);
}

static enum mmul_status check_sizes(struct mmul_shape shape, const char *name, bool empty_allowed,
                                    struct mmul_error *err) {
    int64_t least = empty_allowed ? 0 : 1, ignored;
    char text[96];
    if (shape.batch < 1 || shape.depth < 1 || shape.rows < least || shape.cols < least) {
        return mmul_fail(err, MMUL_ERR_DATA,
                         "'%s' is not a valid .bin matrix: its sizes are %s, expected at least 1 "
                         "each",
                         name, mmul_shape_format(shape, text));
    }
    if (!mmul_shape_count(shape, &ignored)) {
        return mmul_fail(err, MMUL_ERR_DATA,
                         "'%s' is not a valid .bin matrix: %s elements are too many to count", name,
                         mmul_shape_format(shape, text));
    }
    return MMUL_OK;
}

enum mmul_status mmul_bin_header_parse(const unsigned char *bytes, size_t count, const char *name,
                                       bool empty_allowed, struct mmul_bin_header *header,
                                       struct mmul_error *err) {
    if (count < 4)
        return fail_short(count, 12, name, err);
    int32_t first = read_int32(bytes, 0);
    if (!is_valid_first_number(first))
        return fail_first_number(first, name, err);
    int dimensions = first > 0 ? first : 4;
    int64_t header_bytes = 4 + 4 * dimensions;
    if ((int64_t)count < header_bytes)
        return fail_short(count, header_bytes, name, err);
    // 2: rows, cols. 3: batch, rows, cols. 4: batch, depth, rows, cols.
    struct mmul_shape shape = {
        .batch = dimensions > 2 ? read_int32(bytes, 1) : 1,
        .depth = dimensions > 3 ? read_int32(bytes, 2) : 1,
        .rows = read_int32(bytes, dimensions - 1),
        .cols = read_int32(bytes, dimensions),
    };
    enum mmul_status status = check_sizes(shape, name, empty_allowed, err);
    if (status != MMUL_OK)
        return status;
    *header = (struct mmul_bin_header){
        .shape = shape,
        .dtype = first == TAG_FLOAT16    ? MMUL_F16
                 : first == TAG_BFLOAT16 ? MMUL_BF16
                                         : MMUL_F32,
        .version = first > 0 ? 1 : 2,
        .header_bytes = header_bytes,
    };
    return MMUL_OK;
}

enum mmul_status mmul_bin_header_format(struct mmul_shape shape, enum mmul_dtype dtype, int version,
                                        const char *name,
                                        unsigned char bytes[static MMUL_BIN_HEADER_BYTES],
                                        struct mmul_error *err) {
    const int64_t sizes[] = {shape.batch, shape.depth, shape.rows, shape.cols};
    const int32_t tag = dtype == MMUL_F16    ? TAG_FLOAT16
                        : dtype == MMUL_BF16 ? TAG_BFLOAT16
                                             : TAG_FLOAT32;
    int32_t numbers[5] = {version == 1 ? 4 : tag};
    char text[96];
    for (int s = 0; s < 4; s++) {
        if (sizes[s] < 0 || sizes[s] > INT32_MAX) {
            return mmul_fail(err, MMUL_ERR_DATA,
                             "cannot write '%s': a .bin file holds sizes up to 2147483647, not %s",
                             name, mmul_shape_format(shape, text));
        }
        numbers[s + 1] = (int32_t)sizes[s];
    }
    memcpy(bytes, numbers, sizeof numbers);
    return MMUL_OK;
}
