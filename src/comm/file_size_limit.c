// SPDX-License-Identifier: MIT
// Checks of the environment before MPI starts.
#include <stdlib.h>
#include <sys/resource.h>

#include "base/status.h"
#include "mpimatmul_local.h"

// PMIx's file for a host, and each rank's segment with its header (btl_vader_segment_size).
enum { SHARED_BYTES = (4 << 20) + 4096 };

enum mmul_status mmul_process_check_files(struct mmul_error *err) {
    char allowed[32];
    struct rlimit limit;
    if (getenv("PMIX_NAMESPACE") == NULL || getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
        limit.rlim_cur >= SHARED_BYTES)
        return MMUL_OK;
    mmul_fail(err, MMUL_ERR_SYSTEM,
              "cannot start MPI: the file size limit (ulimit -f) is %s, but Open MPI needs "
              "shared files of %d KiB",
              mmul_bytes_format((int64_t)limit.rlim_cur, allowed), SHARED_BYTES >> 10);
    mmul_hint(err, "ulimit -f unlimited");
    return err->status;
}
