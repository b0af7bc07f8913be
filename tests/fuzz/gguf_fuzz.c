// SPDX-License-Identifier: MIT
// Reads any bytes as a GGUF file: lists its tensors and decodes the packed ones.
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "io/gguf.h"
#include "io/transfer.h"

static void decode(int file, const struct mmul_tensor_entry *entry) {
    struct mmul_decoded decoded;
    struct mmul_error err;
    if (!mmul_gguf_is_packed(entry))
        return;
    FUZZ_EXPECT(mmul_decoded_init(&decoded, "f", &err) == MMUL_OK);
    FUZZ_EXPECT(mmul_gguf_decode(file, "f", entry, &decoded, &err) == MMUL_OK);
    FUZZ_EXPECT(decoded.bytes > entry->bytes || entry->bytes == 0);
    mmul_decoded_fini(&decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mmul_tensors *tensors = NULL;
    struct mmul_error err;
    const int file = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_EXPECT(file >= 0 && mmul_pwrite_all(file, data, size, 0) == 0);
    if (mmul_gguf_list(file, "f", (int64_t)size, &tensors, &err) == MMUL_OK) {
        for (int64_t t = 0; t < tensors->count; t++) {
            const struct mmul_tensor_entry *entry = &tensors->all[t];
            FUZZ_EXPECT(entry->offset >= 0 && entry->bytes >= 0 &&
                        entry->offset + entry->bytes <= (int64_t)size);
            if (t < 4)
                decode(file, entry);
        }
        mmul_tensors_close(tensors);
    }
    close(file);
    FUZZ_EXPECT(mmul_live_bytes() == 0);
    return 0;
}
