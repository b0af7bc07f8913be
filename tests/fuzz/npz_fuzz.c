// SPDX-License-Identifier: MIT
// Reads any bytes as an .npz archive: lists its members and unpacks each.
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "io/npz.h"
#include "io/transfer.h"

static void unpack(struct mmul_archive *archive, const struct mmul_tensor_entry *entry) {
    struct mmul_error err;
    struct mmul_decoded decoded;
    FUZZ_EXPECT(mmul_decoded_init(&decoded, "f", &err) == MMUL_OK);
    (void)mmul_npz_unpack(archive, "f", entry, &decoded, &err);
    mmul_decoded_fini(&decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { UNPACKED_MAX = 1 << 20 };
    struct mmul_tensors *tensors = NULL;
    struct mmul_error err;
    int archive = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_EXPECT(archive >= 0 && mmul_pwrite_all(archive, data, size, 0) == 0);
    if (mmul_npz_list(archive, "f", (int64_t)size, &tensors, &err) == MMUL_OK) {
        for (int64_t t = 0; t < tensors->count && t < 4; t++)
            if (tensors->all[t].bytes < UNPACKED_MAX)
                unpack(tensors->archive, &tensors->all[t]);
        mmul_tensors_close(tensors);
    }
    close(archive);
    FUZZ_EXPECT(mmul_live_bytes() == 0);
    return 0;
}
