// SPDX-License-Identifier: MIT
//
// The tensors of a file that may hold several: what info lists, and how one of them is found by its name.
#pragma once

#include <stdarg.h>

#include "io/address.h"
#include "io/archive.h"
#include "io/input_file.h"

struct mmul_tensor_entry {
    char *name;       // owned
    char type[16];    // as the file writes it, or our name of it where it is read
    bool is_readable; // `dtype` holds
    enum mmul_dtype dtype;
    int dimensions;
    int64_t sizes[MMUL_TENSOR_DIMENSIONS];
    int64_t offset,
        bytes;      // of the elements; npz: bytes alone; pt: offset in the member or the file
    int64_t member; // npz, pt: its number in the archive, pt: -1 without one; gguf: of its type
    int64_t strides[MMUL_TENSOR_DIMENSIONS]; // pt
    bool is_big, is_latin1;                  // pt: big-endian; a text in UTF-8, a character a byte
};

struct mmul_tensors {
    int references;
    struct mmul_input_file *file; // a reference; NULL: of bytes that lie elsewhere
    struct mmul_archive *archive; // owned: the file as an archive, of npz and pt; else NULL
    enum mmul_format format;
    int64_t file_bytes;
    int64_t count;
    struct mmul_tensor_entry *all; // owned, `capacity` of them
    int64_t capacity;
    struct json_t *metadata;              // owned: texts by name; NULL: none
    struct mmul_tensors_skipped *skipped; // owned, with their names: pt
    int64_t skipped_count;
};

#define MMUL_HINT_COMPLEX "save the real and the imaginary part as two matrices: x.real and x.imag"

// Room for at most `capacity` entries. The caller has the one reference, which mmul_tensors_close takes.
enum mmul_status mmul_tensors_create(enum mmul_format format, int64_t file_bytes, int64_t capacity,
                                     struct mmul_tensors **tensors, struct mmul_error *err);

// One reference more; returns `tensors`.
struct mmul_tensors *mmul_tensors_share(struct mmul_tensors *tensors);

// The one that is asked for in `path`, or the only one when `address` is NULL, and a range of its first
// axis where the address has one (else all of it). Fails with MMUL_ERR_DATA: no such tensor, with the
// nearest name; several and none is named; elements of a type that is not read.
enum mmul_status mmul_tensors_find(const struct mmul_tensors *tensors, const char *path,
                                   const char *address, const struct mmul_tensor_entry **entry,
                                   struct mmul_axis_range *range, struct mmul_error *err);

// Sizes of a file as a stack: () is 1 x 1; (c,) is a row 1 x c; (r,c); (d,r,c); (b,d,r,c). `kind` of file, as in
// "a valid .npy file", for what cannot be counted. Fails with MMUL_ERR_DATA: more than four, sizes of 0.
enum mmul_status mmul_shape_of_sizes(const int64_t *sizes, int dimensions, const char *name,
                                     const char *kind, struct mmul_shape *shape,
                                     struct mmul_error *err);

// Fails with MMUL_ERR_DATA: elements of a type that is not read. `path` of the file, for the line.
enum mmul_status mmul_tensor_check_type(const struct mmul_tensor_entry *entry, const char *path,
                                        struct mmul_error *err);

// The matrix becomes this tensor, whose elements are where the file has them. `kind` and failures as of
// mmul_shape_of_sizes.
enum mmul_status mmul_tensor_take(struct mmul_matrix *matrix, const struct mmul_tensor_entry *entry,
                                  const char *kind, struct mmul_error *err);
