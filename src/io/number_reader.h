// SPDX-License-Identifier: MIT
//
// Numbers as text, from files of any size with little memory: bytes are read through a buffer, of which cells and
// words are cut where they lie.
#pragma once

#include "mpimatmul_local.h"

struct mmul_number_reader {
    int fd;               // borrowed
    const char *name;     // borrowed, for errors
    char *buffer;         // owned
    const char *at, *end; // what has been read and is not used yet
    int64_t offset;       // of `end` in the file
    int64_t line;         // the caller's to count, from 1
    bool is_last;         // nothing follows `end`
};

// Begins at byte `offset`. Released with mmul_number_reader_fini, whatever follows. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_number_reader_init(struct mmul_number_reader *reader, int fd,
                                         const char *name, int64_t offset, struct mmul_error *err);
void mmul_number_reader_fini(struct mmul_number_reader *reader);

// Reads on, keeping what is not used: `at` and `end` move. Fails with MMUL_ERR_NO_INPUT, and with MMUL_ERR_DATA: what
// is not used fills the buffer (1 MiB).
enum mmul_status mmul_number_reader_more(struct mmul_number_reader *reader, struct mmul_error *err);

// Is there a byte at `at`? Reads on for it. 0 and *status MMUL_OK: the file has ended.
bool mmul_number_reader_has(struct mmul_number_reader *reader, enum mmul_status *status,
                            struct mmul_error *err);

// *stop: the first of the bytes from `at` on for which `stops` holds, or the end of the file; those between double
// quotes count only where the first byte is none, the end of a line always. Fails likewise.
enum mmul_status mmul_number_reader_find(struct mmul_number_reader *reader,
                                         const bool stops[static 256], const char **stop,
                                         struct mmul_error *err);

// Moves `at` behind the end of the line, and counts it. Fails with MMUL_ERR_NO_INPUT.
enum mmul_status mmul_number_reader_skip_line(struct mmul_number_reader *reader,
                                              struct mmul_error *err);

// All of [begin, end) as a decimal number, nan, inf or infinity (any case, a sign before it), rounded to the nearest
// double, whatever the locale. 'd' may stand for 'e'. Beyond float64 it is infinite, or 0. False: it is none.
bool mmul_number_parse(const char *begin, const char *end, double *value);

// The same of whole numbers, without an exponent. False: it is none, or beyond int64.
bool mmul_whole_number_parse(const char *begin, const char *end, int64_t *value);
