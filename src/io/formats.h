// SPDX-License-Identifier: MIT
//
// The one table of file formats: what a file is called, how its first bytes are known, how its
// header is read and written. Everything that differs between formats is in a row, so a new format
// is a new row; formats that are only recognised, to be refused by their name, are rows too.
#pragma once

#include "io/output_file.h"

enum {
    MMUL_FORMAT_START_BYTES = 512, // of a file, enough for every probe
    MMUL_FORMAT_HEADER_MAX = 4096, // longest that is written
    MMUL_FORMAT_HINT_BYTES = 256,  // what an error has room for
};

struct mmul_tensors;
struct mmul_tensor_entry;

struct mmul_format_row {
    enum mmul_format format; // MMUL_FORMAT_BY_ENDING: only recognised
    const char *name;        // of --format, info and JSON; NULL: only recognised
    const char *called;      // "a safetensors file"
    const char *ending;      // ".npy"; NULL: only recognised
    bool is_text;      // numbers as text: a text that is no other format is this one by its ending
    const char *magic; // the first bytes, `magic_bytes` of them; NULL: the probe alone tells
    size_t magic_bytes;
    // Is it a file that starts so? `start` holds MMUL_FORMAT_START_BYTES or as many as there are,
    // the magic among them. NULL: the magic alone tells.
    bool (*probe)(const unsigned char *start, size_t count);
    // Which format a file that begins so is by all of it: its row is the file's. MMUL_FORMAT_BY_ENDING: this one. NULL:
    // this one.
    enum mmul_format (*content)(int fd, const unsigned char *start, size_t count);
    // How its owner makes a file of it that is read, <in>, <npy>, <npz> and <csv> being the names of both; NULL where
    // `load` or `list` is.
    const char *hint;
    // Finds the elements of the open file: fills info and data_offset and checks the length; those that do not lie
    // there as they are used (text, packed) it decodes (io/decoded.h). Sizes of 0 are legal for rows and cols when
    // `empty_allowed` (shards). NULL: not read, or `list` is. Fails with MMUL_ERR_DATA, MMUL_ERR_NO_INPUT or
    // MMUL_ERR_SYSTEM, and with MMUL_ERR_IO where decoded elements find no room.
    enum mmul_status (*load)(struct mmul_matrix *matrix, const unsigned char *start, size_t count,
                             bool empty_allowed, struct mmul_error *err);
    // The tensors of a format that may hold several. NULL: it holds one matrix. Fails as `load` does.
    enum mmul_status (*list)(const struct mmul_matrix *matrix, const unsigned char *start,
                             size_t count, struct mmul_tensors **tensors, struct mmul_error *err);
    // Where `list` is: the matrix of the file becomes this tensor, as `load` makes it one, or the matrix->range of it
    // that is left to take. Fails as `load` does.
    enum mmul_status (*take)(struct mmul_matrix *matrix, const struct mmul_tensors *tensors,
                             const struct mmul_tensor_entry *entry, struct mmul_error *err);
    // The header of a request in `dtype`, one of `dtypes`; elements follow it in C order. NULL: not
    // written. Fails with MMUL_ERR_USAGE or MMUL_ERR_DATA.
    enum mmul_status (*header)(const struct mmul_output_request *request, enum mmul_dtype dtype,
                               unsigned char bytes[static MMUL_FORMAT_HEADER_MAX], size_t *length,
                               struct mmul_error *err);
    // Makes of the files of an output and of those behind it (->next), each with header and elements, what is to be
    // stored, in the file `to`: several tensors in one file, where `list` is, and elements that are not stored as they
    // lie in memory. NULL: they are, and a file holds one matrix. Fails with MMUL_ERR_IO or MMUL_ERR_SYSTEM.
    enum mmul_status (*pack)(const struct mmul_output *output, int to, struct mmul_error *err);
    bool is_packed;  // one alone is packed, too
    unsigned dtypes; // 1U << dtype for each that is written
};

// The row of the open file `fd`, called `path`, which starts so; never NULL: what nobody knows is for .bin to refuse.
const struct mmul_format_row *mmul_format_of_input(int fd, const char *path,
                                                   const unsigned char *start, size_t count);

// The row's hint, with names made of `path`; with others where there is no room for them. Returns `text`.
const char *mmul_format_hint(const struct mmul_format_row *row, const char *path,
                             char text[static MMUL_FORMAT_HINT_BYTES]);

// The row of a format that is read or written.
const struct mmul_format_row *mmul_format_row(enum mmul_format format);

// The row in which `path` is written: `asked`, else by its ending; without an ending .bin. Fails
// with MMUL_ERR_USAGE: an ending that nobody knows.
enum mmul_status mmul_format_of_output(const char *path, enum mmul_format asked,
                                       const struct mmul_format_row **row, struct mmul_error *err);

// The dtype in which a format stores what is to be stored as `dtype`: float32 where it cannot.
enum mmul_dtype mmul_format_dtype(const struct mmul_format_row *row, enum mmul_dtype dtype);

// Length of the file's part of an output's path, which is `row`'s; the name of its tensor is behind it ("data" where
// none is given).
size_t mmul_format_file_length(const struct mmul_format_row *row, const char *path,
                               const char **tensor);

// The tensor's name in "FILE:NAME", FILE being so called as a format that holds several; NULL: it is not so.
const char *mmul_format_tensor(const char *path);

// Length of `name` without the ending of a format, of which it has `length` bytes.
size_t mmul_format_stem(const char *name, size_t length);
