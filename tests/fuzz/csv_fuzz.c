// SPDX-License-Identifier: MIT
// Reads any bytes as a table of numbers.
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "io/csv.h"
#include "io/transfer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mmul_decoded decoded;
    struct mmul_matrix_info info = {0};
    struct mmul_error err;
    const int file = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_EXPECT(file >= 0 && mmul_pwrite_all(file, data, size, 0) == 0);
    FUZZ_EXPECT(mmul_decoded_init(&decoded, "f", &err) == MMUL_OK);
    if (mmul_csv_decode(file, "f", size % 2 != 0, &decoded, &info, &err) == MMUL_OK) {
        const struct mmul_shape shape = info.shape;
        FUZZ_EXPECT(shape.batch == 1 && shape.depth == 1 && shape.rows > 0 && shape.cols > 0);
        FUZZ_EXPECT(decoded.bytes == shape.rows * shape.cols * (int64_t)sizeof(double));
    }
    mmul_decoded_fini(&decoded);
    close(file);
    FUZZ_EXPECT(!mmul_is_tsv(data, size) || mmul_is_csv(data, size));
    FUZZ_EXPECT(mmul_live_bytes() == 0);
    return 0;
}
