// SPDX-License-Identifier: MIT
//
// Zip archives, whatever their members are. The door to libzip.
#pragma once

#include "mpimatmul_local.h"

struct mmul_archive;
struct mmul_archive_stream;

// Of the open file `fd`, which is borrowed until the archive is closed and whose position stays, called `name`, as
// `kind` ("a valid .npz file"). For one thread. Fails with MMUL_ERR_DATA and MMUL_ERR_SYSTEM. Closed with
// mmul_archive_close, NULL is legal.
enum mmul_status mmul_archive_open(int fd, const char *name, const char *kind,
                                   struct mmul_archive **archive, struct mmul_error *err);
void mmul_archive_close(struct mmul_archive *archive);

// How many members there are; the name of one, valid until the archive is closed, and its length unpacked. NULL: it has
// no name or length.
int64_t mmul_archive_count(const struct mmul_archive *archive);
const char *mmul_archive_member(struct mmul_archive *archive, int64_t member, int64_t *bytes);

// The first member of that name; -1: there is none.
int64_t mmul_archive_find(struct mmul_archive *archive, const char *name);

// Is it compressed with LZMA? Versions of libzip differ in what they make of it: it is not read.
bool mmul_archive_is_lzma(struct mmul_archive *archive, int64_t member);

// Does the member begin with these bytes?
bool mmul_archive_begins_with(struct mmul_archive *archive, int64_t member,
                              const unsigned char *bytes, int count);

// A member as it is read, from its beginning; `name` is for errors. Fails with MMUL_ERR_DATA. Ended with
// mmul_archive_end, NULL is legal.
enum mmul_status mmul_archive_begin(struct mmul_archive *archive, int64_t member, const char *name,
                                    struct mmul_archive_stream **stream, struct mmul_error *err);
void mmul_archive_end(struct mmul_archive_stream *stream);

// The next `count` bytes or fewer, where the member ends before: *got. A member that is read to its end is checked
// against its checksum. Fails with MMUL_ERR_DATA.
enum mmul_status mmul_archive_read(struct mmul_archive_stream *stream, void *dst, int64_t count,
                                   int64_t *got, struct mmul_error *err);

// Writes an archive with `count` members, stored, to `to` from its beginning: of each all of the file `fd`, called
// NAME and `ending`. `name` is for errors. The same bytes for the same members. Fails with MMUL_ERR_IO and
// MMUL_ERR_SYSTEM.
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
