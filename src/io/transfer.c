// SPDX-License-Identifier: MIT
// Repeats pread and pwrite until everything is transferred, in chunks.
// The file position does not change, so threads may share a descriptor. Callers report failures.
#include "io/transfer.h"

#include <errno.h>
#include <unistd.h>

#include "base/stall.h"

// Few enough that a slow disk returns from a call in time (base/stall.h).
static const size_t chunk_bytes = (size_t)64 << 20;

static size_t limit_to_chunk(size_t left) {
    return left < chunk_bytes ? left : chunk_bytes;
}

int mmul_pread_all(int fd, void *dst, size_t count, int64_t offset, size_t *got) {
    size_t moved = 0;
    while (moved < count) {
        const int place = mmul_stall_enter(fd);
        ssize_t n =
            pread(fd, (char *)dst + moved, limit_to_chunk(count - moved), offset + (int64_t)moved);
        mmul_stall_leave(place); // leaves errno as it is
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            break;
        moved += (size_t)n;
    }
    *got = moved;
    return 0;
}

int mmul_pwrite_all(int fd, const void *src, size_t count, int64_t offset) {
    size_t moved = 0;
    while (moved < count) {
        const int place = mmul_stall_enter(fd);
        ssize_t n = pwrite(fd, (const char *)src + moved, limit_to_chunk(count - moved),
                           offset + (int64_t)moved);
        mmul_stall_leave(place); // leaves errno as it is
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            return EIO; // POSIX leaves it open; retrying would not end
        moved += (size_t)n;
    }
    return 0;
}

int mmul_copy_file_bytes(int from, int64_t from_offset, int to, int64_t to_offset, int64_t count) {
    enum { BUFFER_BYTES = 256 << 10 };
    char buffer[BUFFER_BYTES];
    size_t got = 0;
    for (int64_t done = 0; done < count; done += (int64_t)got) {
        size_t wanted = count - done < BUFFER_BYTES ? (size_t)(count - done) : BUFFER_BYTES;
        int errnum = mmul_pread_all(from, buffer, wanted, from_offset + done, &got);
        if (errnum == 0 && got < wanted)
            errnum = EIO;
        if (errnum == 0)
            errnum = mmul_pwrite_all(to, buffer, got, to_offset + done);
        if (errnum != 0)
            return errnum;
    }
    return 0;
}
