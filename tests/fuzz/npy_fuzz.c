// SPDX-License-Identifier: MIT
// Reads any bytes as the header of a .npy file. A valid header is written and read again.
#include "fuzz.h"

#include <string.h>

#include "io/npy.h"
#include "io/tensors.h"
#include "model/matrix.h"

static void write_and_read_again(const struct mmul_npy_header *header) {
    unsigned char bytes[MMUL_NPY_WRITTEN_MAX];
    struct mmul_npy_header again;
    struct mmul_error err;
    size_t length = 0, written = mmul_npy_format(header->shape, 4, header->dtype, bytes);
    FUZZ_EXPECT(written <= sizeof bytes);
    FUZZ_EXPECT(mmul_npy_header_bytes(bytes, written, "f", &length, &err) == MMUL_OK);
    FUZZ_EXPECT(length == written);
    FUZZ_EXPECT(mmul_npy_parse(bytes, length, "f", false, &again, &err) == MMUL_OK);
    FUZZ_EXPECT(mmul_shape_equal(again.shape, header->shape) && again.dtype == header->dtype);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mmul_npy_header header;
    struct mmul_tensor_entry entry = {.name = NULL};
    struct mmul_error err;
    size_t length = 0;
    if (mmul_npy_header_bytes(data, size, "f", &length, &err) != MMUL_OK || length > size)
        return 0;
    enum mmul_status described = mmul_npy_describe(data, length, "f", &entry, &err);
    if (mmul_npy_parse(data, length, "f", false, &header, &err) != MMUL_OK)
        return 0;
    FUZZ_EXPECT(described == MMUL_OK && entry.is_readable && entry.dtype == header.dtype);
    write_and_read_again(&header);
    return 0;
}
