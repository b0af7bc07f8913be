// SPDX-License-Identifier: MIT
// Zip archives, independent of what their members are. The only user of libzip.
#pragma once

#include "mpimatmul_local.h"

struct mmul_archive;
struct mmul_archive_stream;

// Opens the archive in the open file `fd`. `fd` is borrowed until the archive is closed, and its
// position does not change. `name` and `kind` ("a valid .npz file") are for errors. An archive is
// used by one thread at a time. Reading fails with MMUL_ERR_DATA (not an archive),
// MMUL_ERR_NO_INPUT (the disk) and MMUL_ERR_SYSTEM (memory), here and below. Closed with
// mmul_archive_close, NULL is legal.
enum mmul_status mmul_archive_open(int fd, const char *name, const char *kind,
                                   struct mmul_archive **archive, struct mmul_error *err);
void mmul_archive_close(struct mmul_archive *archive);

// mmul_archive_count returns the number of members. mmul_archive_member_name returns the name of
// one, valid until the archive is closed, and its unpacked length; NULL if it has no name or
// length.
int64_t mmul_archive_count(const struct mmul_archive *archive);
const char *mmul_archive_member_name(struct mmul_archive *archive, int64_t member, int64_t *bytes);

// Returns the first member of that name, -1 if there is none.
int64_t mmul_archive_find(struct mmul_archive *archive, const char *name);

// Returns true if the member's compression is not read, and writes its name: "LZMA" or "zip method
// N". Versions of libzip differ in their support for LZMA, so it is never read.
enum { MMUL_ARCHIVE_METHOD_BYTES = 24 };
bool mmul_archive_refuses(struct mmul_archive *archive, int64_t member,
                          char method[static MMUL_ARCHIVE_METHOD_BYTES]);

// Returns true if the member begins with these bytes, at most 16.
bool mmul_archive_member_begins_with(struct mmul_archive *archive, int64_t member,
                                     const unsigned char *bytes, int count);

// Opens a member for reading from its beginning. `name` is for errors and borrowed. Ended
// with mmul_archive_close_member, NULL is legal.
enum mmul_status mmul_archive_open_member(struct mmul_archive *archive, int64_t member,
                                          const char *name, struct mmul_archive_stream **stream,
                                          struct mmul_error *err);
void mmul_archive_close_member(struct mmul_archive_stream *stream);

// Reads the next `count` bytes, or fewer at the member's end. *got: number of bytes read. Reading
// to the end verifies the member's checksum.
enum mmul_status mmul_archive_read(struct mmul_archive_stream *stream, void *dst, int64_t count,
                                   int64_t *got, struct mmul_error *err);

// Writes an archive of `count` members to `to`, from its beginning. Each member stores the whole
// file `fd` uncompressed, under NAME followed by `ending`. `name` is for errors. Equal members give
// equal bytes. Fails with MMUL_ERR_IO and MMUL_ERR_SYSTEM.
struct mmul_archive_part {
    int fd;
    const char *name;
};
struct mmul_archive_content {
    const struct mmul_archive_part *parts; // borrowed, `count` of them
    int count;
    const char *ending;
};
enum mmul_status mmul_archive_write(const struct mmul_archive_content *content, int to,
                                    const char *name, struct mmul_error *err);
