// SPDX-License-Identifier: MIT
// Reads any bytes as a PyTorch file: lists its tensors and decodes some of them.
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "io/pt.h"
#include "io/transfer.h"

static void decode(int file, struct mmul_archive *archive, const struct mmul_tensor_entry *entry) {
    enum { DECODED_MAX = 1 << 20 };
    struct mmul_decoded decoded;
    struct mmul_error err;
    if (!entry->is_readable || entry->dimensions < 1 || entry->dimensions > 4 ||
        entry->bytes == 0 || entry->bytes > DECODED_MAX)
        return;
    FUZZ_EXPECT(mmul_decoded_init(&decoded, "f", &err) == MMUL_OK);
    if (mmul_pt_decode(file, archive, "f", entry, &decoded, &err) == MMUL_OK)
        FUZZ_EXPECT(decoded.bytes == entry->bytes);
    mmul_decoded_fini(&decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mmul_tensors *tensors = NULL;
    struct mmul_error err;
    const int file = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_EXPECT(file >= 0 && mmul_pwrite_all(file, data, size, 0) == 0);
    if (mmul_pt_list(file, "f", (int64_t)size, &tensors, &err) == MMUL_OK) {
        for (int64_t t = 0; t < tensors->count && t < 4; t++)
            decode(file, tensors->archive, &tensors->all[t]);
        mmul_tensors_close(tensors);
    }
    close(file);
    FUZZ_EXPECT(mmul_live_bytes() == 0);
    return 0;
}
