// SPDX-License-Identifier: MIT
// Tests by mapping memory: the limits of the process, of its user and of the system's accounting
// all apply.
#include "device/address_space.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"

bool mmul_address_space_is_limited(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

static int64_t used_bytes(void) {
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%lld", &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static enum mmul_status fail_mapping(int count, int64_t bytes, const char *what, int errnum,
                                     struct mmul_error *err) {
    char each[32], allowed[32], used[32];
    struct rlimit limit;
    mmul_bytes_format(bytes, each);
    if (!mmul_address_space_is_limited() || getrlimit(RLIMIT_AS, &limit) != 0)
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errnum, "cannot map %d x %s for %s", count,
                               each, what);
    mmul_fail(err, MMUL_ERR_SYSTEM,
              "cannot map %d x %s for %s: %s are in use, but the limit on address space (ulimit "
              "-v) is %s",
              count, each, what, mmul_bytes_format(used_bytes(), used),
              mmul_bytes_format((int64_t)limit.rlim_cur, allowed));
    mmul_hint(err, "raise that limit, or set OPENBLAS_NUM_THREADS=1");
    return err->status;
}

enum mmul_status mmul_address_space_check_total(int64_t bytes, const char *what,
                                                struct mmul_error *err) {
    struct rlimit limit;
    char needed[32], allowed[32];
    if (!mmul_address_space_is_limited() || getrlimit(RLIMIT_AS, &limit) != 0 ||
        limit.rlim_cur >= (uint64_t)bytes)
        return MMUL_OK;
    mmul_fail(err, MMUL_ERR_SYSTEM, "%s need %s of address space, but its limit (ulimit -v) is %s",
              what, mmul_bytes_format(bytes, needed),
              mmul_bytes_format((int64_t)limit.rlim_cur, allowed));
    mmul_hint(err, "raise that limit, or set OPENBLAS_NUM_THREADS=1");
    return err->status;
}

enum mmul_status mmul_address_space_check(int count, int64_t bytes, const char *what,
                                          struct mmul_error *err) {
    void **pieces = NULL;
    int made = 0, errnum = 0;
    enum mmul_status status = MMUL_ALLOCATE(pieces, count, "a list", err);
    if (status != MMUL_OK)
        return status;
    for (; errnum == 0 && made < count; made += errnum == 0) {
        pieces[made] =
            mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        errnum = pieces[made] == MAP_FAILED ? errno : 0;
    }
    if (errnum != 0)
        status = fail_mapping(count, bytes, what, errnum, err);
    for (int i = 0; i < made; i++)
        munmap(pieces[i], (size_t)bytes);
    mmul_free(pieces);
    return status;
}
