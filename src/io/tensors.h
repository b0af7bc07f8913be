// SPDX-License-Identifier: MIT
// The tensors of a file that may hold several: the list that `info` prints, and the search for one
// by its name.
#pragma once

#include <stdarg.h>

#include "io/address.h"
#include "io/archive.h"
#include "io/input_file.h"

struct mmul_tensor_entry {
    char *name;       // owned
    char type[16];    // as the file writes it, or our name if it is read
    bool is_readable; // `dtype` is valid
    enum mmul_dtype dtype;
    int dimensions;
    int64_t sizes[MMUL_TENSOR_DIMENSIONS];
    // Range of the elements in the file. npz: only bytes. pt: offset in the member or the file.
    int64_t offset, bytes;
    // npz, pt: index of the member in the archive, pt: -1 without a member. gguf: number of the
    // type.
    int64_t member;
    int64_t strides[MMUL_TENSOR_DIMENSIONS]; // pt
    bool is_big, is_latin1;                  // pt: big-endian; UTF-8 text, one character per byte
};

struct mmul_tensors {
    int references;
    struct mmul_input_file *file; // one reference; NULL: the bytes come from elsewhere
    struct mmul_archive *archive; // owned: the file as archive, for npz and pt, else NULL
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

// Creates a list with room for `capacity` entries. The caller has the only reference and gives it
// back with mmul_tensors_close.
enum mmul_status mmul_tensors_create(enum mmul_format format, int64_t file_bytes, int64_t capacity,
                                     struct mmul_tensors **tensors, struct mmul_error *err);

// Adds a reference and returns `tensors`.
struct mmul_tensors *mmul_tensors_retain(struct mmul_tensors *tensors);

// Finds the tensor named by `address`, or the only one if that is NULL. *range is the range of its
// first axis in the address, or all of it. `path` is for errors. Fails with MMUL_ERR_DATA: no such
// tensor (the hint gives the nearest name), several tensors but no name, or an element type that is
// not read.
enum mmul_status mmul_tensors_find(const struct mmul_tensors *tensors, const char *path,
                                   const char *address, const struct mmul_tensor_entry **entry,
                                   struct mmul_axis_range *range, struct mmul_error *err);

// Converts sizes of a file to a stack: () is 1 x 1; (c,) is a row 1 x c; (r,c); (d,r,c); (b,d,r,c).
// `kind` of file, as in "a valid .npy file", is for errors. Fails with MMUL_ERR_DATA: more than
// four dimensions, sizes of 0, or too many elements to count.
enum mmul_status mmul_shape_from_sizes(const int64_t *sizes, int dimensions, const char *name,
                                       const char *kind, struct mmul_shape *shape,
                                       struct mmul_error *err);

// Fails with MMUL_ERR_DATA if the element type is not read. `path` of the file is for the error.
enum mmul_status mmul_tensor_check_type(const struct mmul_tensor_entry *entry, const char *path,
                                        struct mmul_error *err);

// Makes this tensor the matrix, with its elements in place in the file. `kind` and failures as for
// mmul_shape_from_sizes.
enum mmul_status mmul_matrix_set_tensor(struct mmul_matrix *matrix,
                                        const struct mmul_tensor_entry *entry, const char *kind,
                                        struct mmul_error *err);
