// SPDX-License-Identifier: MIT
// The table of file formats: name, recognition by the first bytes, reading and writing of headers.
// Everything that differs between formats is in a row. A new format is a row in formats.c, a file
// of its own in this folder, and a name in enum mmul_format of include/mpimatmul_local.h. Formats
// that are only recognised, to be refused by name, are rows too: to read one, complete its row
// (.format, .name, .ending, .load or .list and .take). Elements are read and written elsewhere.
// Help texts name formats in cli/cmd_convert.c, cmd_info.c and help.c.
#pragma once

#include "io/output_file.h"

enum {
    MMUL_FORMAT_START_BYTES = 512, // bytes from a file's start, enough for every probe
    MMUL_FORMAT_HEADER_MAX = 4096, // longest header that is written
    MMUL_FORMAT_HINT_BYTES = 256,  // room for the text of a hint
};

struct mmul_tensors;
struct mmul_tensor_entry;

struct mmul_format_row {
    enum mmul_format format; // MMUL_FORMAT_BY_ENDING: only recognised
    const char *name;        // name in --format, info and JSON; NULL: only recognised
    const char *called;      // name in messages: "a safetensors file"
    const char *ending;      // ".npy"; NULL: only recognised
    // True for numbers as text. A text file that fits no other row gets such a row by its ending.
    bool is_text;
    const char *magic; // first bytes, `magic_bytes` of them; NULL: the probe decides
    size_t magic_bytes;
    // Returns true if a file of this format can start so. `start` holds MMUL_FORMAT_START_BYTES
    // bytes, or the whole file if shorter, magic included. NULL: the magic decides.
    bool (*probe)(const unsigned char *start, size_t count);
    // Returns the format of a file that starts with this row's magic, judged by the whole content.
    // MMUL_FORMAT_BY_ENDING: this row's. NULL: always this row's.
    enum mmul_format (*content)(int fd, const unsigned char *start, size_t count);
    // Hint that says how the owner converts such a file into one that is read. <in>, <npy>, <npz>
    // and <csv> stand for the names of input and output. NULL if `load` or `list` is set.
    const char *hint;
    // Finds the elements of the open file: sets info and data_offset, and checks the file's length.
    // Decodes elements that are text or packed (io/decoded.h). Sizes of 0 are legal for rows and
    // cols if `empty_allowed` (shards). NULL: the format is not read, or `list` is set. Fails with
    // MMUL_ERR_DATA, MMUL_ERR_NO_INPUT or MMUL_ERR_SYSTEM, and with MMUL_ERR_IO if decoded elements
    // find no room.
    enum mmul_status (*load)(struct mmul_matrix *matrix, const unsigned char *start, size_t count,
                             bool empty_allowed, struct mmul_error *err);
    // Lists the tensors of the open file `fd`, called `name`, of a format that may hold several.
    // NULL: a file holds one matrix. Fails as `load` does.
    enum mmul_status (*list)(int fd, const char *name, int64_t file_bytes,
                             struct mmul_tensors **tensors, struct mmul_error *err);
    // Makes this tensor the matrix of the file, as `load` does. May apply matrix->range itself and
    // clear it, otherwise the caller does. NULL: the elements are used as they lie in the file.
    // Fails as `load` does.
    enum mmul_status (*take)(struct mmul_matrix *matrix, const struct mmul_tensors *tensors,
                             const struct mmul_tensor_entry *entry, struct mmul_error *err);
    // Writes the header of `request` for `dtype`, one of `dtypes`. The elements follow it in C
    // order. NULL: the format is not written. Fails with MMUL_ERR_USAGE or MMUL_ERR_DATA.
    enum mmul_status (*header)(const struct mmul_output_request *request, enum mmul_dtype dtype,
                               unsigned char bytes[static MMUL_FORMAT_HEADER_MAX], size_t *length,
                               struct mmul_error *err);
    // Packs the files of `output` and of the outputs behind it (->next), each with header and
    // elements, into the file `to`. Formats with `list` pack several tensors into one file. Formats
    // that do not store elements as they lie in memory encode them here. NULL: one matrix per file,
    // stored as it lies in memory. Fails with MMUL_ERR_IO or MMUL_ERR_SYSTEM.
    enum mmul_status (*pack)(const struct mmul_output *output, int to, struct mmul_error *err);
    bool is_packed;  // a single output is packed, too
    unsigned dtypes; // 1U << dtype for each that is written
};

// Returns the row of the open file `fd`, called `path`, that starts with `start`. Never NULL: an
// unknown file gets the row of .bin, and its reader refuses it.
const struct mmul_format_row *mmul_format_detect(int fd, const char *path,
                                                 const unsigned char *start, size_t count);

// Fills in the row's hint with names made from `path`, or with generic ones if those do not fit.
// Returns `text`.
const char *mmul_format_fill_hint(const struct mmul_format_row *row, const char *path,
                                  char text[static MMUL_FORMAT_HINT_BYTES]);

// Returns the row of a format that is read or written.
const struct mmul_format_row *mmul_format_row(enum mmul_format format);

// Finds the row in which `path` is written: the one of `asked`, else by its ending, or .bin without
// an ending. Fails with MMUL_ERR_USAGE: unknown ending, or one of a format that is only read.
enum mmul_status mmul_format_choose_output(const char *path, enum mmul_format asked,
                                           const struct mmul_format_row **row,
                                           struct mmul_error *err);

// Returns the dtype in which the format stores `dtype`: float32 if it cannot hold `dtype`.
enum mmul_dtype mmul_format_storable_dtype(const struct mmul_format_row *row,
                                           enum mmul_dtype dtype);

// Fails with MMUL_ERR_USAGE if `path`, in the format chosen as above, cannot store the dtype.
enum mmul_status mmul_format_check_dtype(const char *path, enum mmul_format asked,
                                         enum mmul_dtype dtype, struct mmul_error *err);

// Returns the length of the file's part of an output's path in the format `row`. *tensor: the name
// of the tensor behind it, "data" if the path gives none.
size_t mmul_format_file_length(const struct mmul_format_row *row, const char *path,
                               const char **tensor);

// Returns NAME of "FILE:NAME" if FILE has the ending of a format that holds several tensors, else
// NULL.
const char *mmul_format_tensor_name(const char *path);

// Returns the length of `name`, given as `length` bytes, without the ending of a format.
size_t mmul_format_stem_length(const char *name, size_t length);
