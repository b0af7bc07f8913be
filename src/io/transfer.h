// SPDX-License-Identifier: MIT
// Complete transfers at an offset. The only place that handles short transfers and signals.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "mpimatmul writes its files as they lie in memory: the host must be little-endian"
#endif

// Reads `count` bytes at `offset`, or fewer at the end of the file. *got: number of bytes read.
// Returns 0 or errno.
int mmul_pread_all(int fd, void *dst, size_t count, int64_t offset, size_t *got);

// Writes `count` bytes at `offset`. Returns 0 or errno.
int mmul_pwrite_all(int fd, const void *src, size_t count, int64_t offset);

// Copies `count` bytes from one file to another. Returns 0 or errno, EIO if `from` ends before.
int mmul_copy_file_bytes(int from, int64_t from_offset, int to, int64_t to_offset, int64_t count);
