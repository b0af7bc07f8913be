// SPDX-License-Identifier: MIT
// Numbers as text, from files of any size with little memory. Bytes pass through a buffer of 1 MiB,
// in which cells and words are used in place.
#pragma once

#include "mpimatmul_local.h"

struct mmul_number_reader {
    int fd;               // borrowed
    const char *name;     // borrowed, for errors
    char *buffer;         // owned
    const char *at, *end; // bytes read but not used yet
    int64_t offset;       // position of `end` in the file
    int64_t line;         // counted by the caller, from 1
    bool is_last;         // nothing follows `end`
};

// Starts reading at byte `offset`. Released with mmul_number_reader_fini, after failure too. Fails
// with MMUL_ERR_SYSTEM.
enum mmul_status mmul_number_reader_init(struct mmul_number_reader *reader, int fd,
                                         const char *name, int64_t offset, struct mmul_error *err);
void mmul_number_reader_fini(struct mmul_number_reader *reader);

// Reads more bytes and keeps the unused ones: `at` and `end` move. Fails with MMUL_ERR_NO_INPUT,
// and with MMUL_ERR_DATA if unused bytes fill the buffer (1 MiB).
enum mmul_status mmul_number_reader_fill(struct mmul_number_reader *reader, struct mmul_error *err);

// Reads the first bytes of a text and skips a byte order mark of UTF-8. Fails as
// mmul_number_reader_fill does.
enum mmul_status mmul_number_reader_skip_mark(struct mmul_number_reader *reader,
                                              struct mmul_error *err);

// Returns true if there is a byte at `at`, and reads on to find out. False with *status MMUL_OK:
// end of the file.
bool mmul_number_reader_has_byte(struct mmul_number_reader *reader, enum mmul_status *status,
                                 struct mmul_error *err);

// Sets *stop to the first byte from `at` on with `stops` true, or to the end of the file. If the
// first byte is a double quote, stops inside quotes are ignored, but never the end of a line. Fails
// as mmul_number_reader_fill does.
enum mmul_status mmul_number_reader_find_stop(struct mmul_number_reader *reader,
                                              const bool stops[static 256], const char **stop,
                                              struct mmul_error *err);

// Moves `at` behind the end of the line and increments `line`. Fails with MMUL_ERR_NO_INPUT.
enum mmul_status mmul_number_reader_skip_line(struct mmul_number_reader *reader,
                                              struct mmul_error *err);

// Returns true if [begin, end) is this word, in any case.
bool mmul_is_word(const char *begin, const char *end, const char *word);

// Parses all of [begin, end) as a decimal number, nan, inf or infinity (any case, optional sign).
// The value is rounded to the nearest double in any locale, with any number of digits. 'd' may
// stand for 'e'. Beyond float64 it is infinite, or 0. Returns false if it is no number.
bool mmul_number_parse(const char *begin, const char *end, double *value);

// Parses a whole number without exponent. Returns false if it is none, or beyond int64.
bool mmul_whole_number_parse(const char *begin, const char *end, int64_t *value);

// Returns the first control character, NUL among them, but neither tab nor carriage return. NULL:
// there is none.
const char *mmul_find_control(const char *begin, const char *end);

#define MMUL_HINT_CONTROL "delete control bytes: tr -d '\\000-\\010\\013\\014\\016-\\037\\177'"
