// SPDX-License-Identifier: MIT
// Hashes the beginning and samples of a file. The elements are cut into 64 equal stretches. One
// block is read at a random position of each, so no large part of a file is missed.
//
//   |header|..[block]......|......[block]..|.[block].......| ... |
#include "io/fingerprint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/integer.h"
#include "base/random.h"
#include "base/status.h"
#include "io/transfer.h"

enum { BLOCKS = 64, BLOCK_BYTES = 4096, HEAD_BYTES = 64 << 10 };

// Adds bytes [begin, end), as far as the file has them.
static int hash_bytes(int fd, int64_t begin, int64_t end, struct mmul_hasher *hasher) {
    unsigned char buffer[BLOCK_BYTES];
    size_t got;
    for (int64_t at = begin; at < end; at += BLOCK_BYTES) {
        size_t count = (size_t)mmul_min(BLOCK_BYTES, end - at);
        int errnum = mmul_pread_all(fd, buffer, count, at, &got);
        if (errnum != 0)
            return errnum;
        mmul_hasher_add(hasher, buffer, got);
    }
    return 0;
}

static int hash_samples(int fd, struct mmul_file_range part, uint64_t seed,
                        struct mmul_hasher *hasher) {
    int64_t stretch = (part.end - part.begin) / BLOCKS;
    int errnum = 0;
    for (int block = 0; errnum == 0 && block < BLOCKS; block++) {
        int64_t begin = part.begin + block * stretch;
        int64_t end = block == BLOCKS - 1 ? part.end : begin + stretch;
        int64_t room = end - begin - BLOCK_BYTES; // a block starts at begin + room at the latest
        if (room > 0)
            begin += (int64_t)(mmul_random_at(seed, (uint64_t)block) % (uint64_t)(room + 1));
        errnum = hash_bytes(fd, begin, mmul_min(end, begin + BLOCK_BYTES), hasher);
    }
    return errnum;
}

enum mmul_status mmul_fingerprint_compute(int fd, const char *name, struct mmul_file_range part,
                                          uint64_t seed, struct mmul_fingerprint *fingerprint,
                                          struct mmul_error *err) {
    struct stat found;
    struct mmul_hasher *hasher = NULL;
    if (fstat(fd, &found) != 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot read '%s'", name);
    enum mmul_status status = mmul_hasher_create(&hasher, err);
    if (status != MMUL_OK)
        return status;
    part.end = mmul_min(part.end, found.st_size);
    part.begin = mmul_min(part.begin, part.end);
    int errnum = hash_bytes(fd, 0, mmul_min(part.begin, HEAD_BYTES), hasher);
    if (errnum == 0)
        errnum = hash_samples(fd, part, seed, hasher);
    if (errnum == 0) {
        fingerprint->file_bytes = found.st_size;
        fingerprint->hash = mmul_hasher_value(hasher);
    } else {
        status = mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'", name);
    }
    mmul_hasher_destroy(hasher);
    return status;
}

static enum mmul_status check_same_file(int fd, const char *path, struct mmul_file_range part,
                                        uint64_t seed, const struct mmul_fingerprint *expected,
                                        struct mmul_error *err) {
    struct stat found;
    struct mmul_fingerprint here;
    if (fstat(fd, &found) != 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot read '%s'", path);
    if (!S_ISREG(found.st_mode))
        return mmul_fail(err, MMUL_ERR_NO_INPUT, "cannot read '%s': it is not a regular file",
                         path);
    if (found.st_size != expected->file_bytes)
        return mmul_fail(err, MMUL_ERR_NO_INPUT,
                         "'%s' is not the file that root reads: %lld bytes, expected %lld", path,
                         (long long)found.st_size, (long long)expected->file_bytes);
    enum mmul_status status = mmul_fingerprint_compute(fd, path, part, seed, &here, err);
    if (status == MMUL_OK && here.hash != expected->hash)
        status = mmul_fail(err, MMUL_ERR_NO_INPUT,
                           "'%s' is not the file that root reads: other bytes", path);
    return status;
}

enum mmul_status mmul_fingerprint_open(const char *path, struct mmul_file_range part, uint64_t seed,
                                       const struct mmul_fingerprint *expected, int *fd,
                                       struct mmul_error *err) {
    // O_NONBLOCK: do not wait for a FIFO's writer
    int opened = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (opened < 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot open '%s'", path);
    enum mmul_status status = check_same_file(opened, path, part, seed, expected, err);
    if (status == MMUL_OK)
        *fd = opened;
    else
        close(opened);
    return status;
}

enum mmul_status mmul_file_identity(int fd, const char *name,
                                    char identity[MMUL_AT_LEAST(MMUL_IDENTITY_BYTES)],
                                    struct mmul_error *err) {
    static const uint64_t seed = 44; // any, but the same in every run
    struct stat found;
    struct mmul_fingerprint samples;
    if (fstat(fd, &found) != 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot read '%s'", name);
    const struct mmul_file_range all = {0, found.st_size};
    enum mmul_status status = mmul_fingerprint_compute(fd, name, all, seed, &samples, err);
    if (status == MMUL_OK)
        snprintf(identity, MMUL_IDENTITY_BYTES, "%lld %lld.%09ld %016" PRIx64,
                 (long long)found.st_size, (long long)found.st_mtim.tv_sec,
                 (long)found.st_mtim.tv_nsec, samples.hash);
    return status;
}
