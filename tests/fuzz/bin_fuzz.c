// SPDX-License-Identifier: MIT
// Reads any bytes as the header of a .bin file. Valid sizes are written again and must give the
// same bytes.
#include "fuzz.h"

#include <string.h>

#include "io/bin_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mmul_bin_header header;
    unsigned char bytes[MMUL_BIN_HEADER_BYTES];
    struct mmul_error err;
    for (int empty_allowed = 0; empty_allowed < 2; empty_allowed++) {
        if (mmul_bin_header_parse(data, size, "f", empty_allowed, &header, &err) != MMUL_OK)
            continue;
        FUZZ_EXPECT((size_t)header.header_bytes <= size);
        FUZZ_EXPECT(mmul_bin_header_format(header.shape, header.dtype, header.version, "f", bytes,
                                           &err) == MMUL_OK);
        FUZZ_EXPECT(header.header_bytes != MMUL_BIN_HEADER_BYTES ||
                    memcmp(bytes, data, sizeof bytes) == 0);
    }
    return 0;
}
