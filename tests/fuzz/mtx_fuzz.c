// SPDX-License-Identifier: MIT
// Reads any bytes as a Matrix Market file; refuses matrices of more than 1 MiB for lack of space.
#include "fuzz.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "io/mtx.h"
#include "io/transfer.h"
#include "model/dtype.h"

// Limits the size of written files. Active only in mmul_decoded_map, since a fuzzer writes files of
// its own.
static void limit_files(rlim_t bytes) {
    struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    FUZZ_EXPECT(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    FUZZ_EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mmul_decoded decoded;
    struct mmul_matrix_info info = {.version = 0};
    struct mmul_error err;
    const int file = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_EXPECT(file >= 0 && mmul_pwrite_all(file, data, size, 0) == 0);
    FUZZ_EXPECT(mmul_decoded_init(&decoded, "f", &err) == MMUL_OK);
    signal(SIGXFSZ, SIG_IGN);
    limit_files(1 << 20);
    if (mmul_mtx_decode(file, "f", &decoded, &info, &err) == MMUL_OK)
        FUZZ_EXPECT(decoded.bytes ==
                    info.shape.rows * info.shape.cols * (int64_t)mmul_dtype_bytes(info.stored));
    limit_files(RLIM_INFINITY);
    mmul_decoded_fini(&decoded);
    close(file);
    FUZZ_EXPECT(mmul_live_bytes() == 0);
    return 0;
}
