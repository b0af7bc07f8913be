// SPDX-License-Identifier: MIT
// What an open matrix is made of, for the files of this folder that open, read and compare it.
#pragma once

#include "io/address.h"
#include "io/input_file.h"

struct mmul_matrix {
    char *name;   // owned, as the caller gave it
    char *path;   // owned, of the file; NULL: in memory
    char *tensor; // owned, the address in the file (io/address.h); NULL: none was given
    struct mmul_matrix_info info;
    struct mmul_input_file *file; // a reference; NULL: in memory
    int fd; // of the elements: the file's, or, of decoded elements, owned; -1: in memory
    int64_t data_offset;
    const void *memory;           // borrowed: `stored` elements in C order; NULL: a file
    void *turned;                 // owned: what `memory` is a part of; NULL: it is not ours
    void *fortran;                // owned: `stored` elements in Fortran order; NULL: C order
    struct mmul_axis_range range; // of the first axis, to be taken when it is open
    bool missing_is_nan;          // empty cells of a table as text are NaN
    struct timespec stored;       // of fd: when it was last written to, as it was opened
    int64_t overflows; // changed by several threads at once: only through __atomic builtins
};

struct mmul_tensors;
struct mmul_tensor_entry;

// A matrix that is nowhere yet: it has a name, no path and no file. Released with mmul_matrix_close.
enum mmul_status mmul_matrix_create(const char *name, struct mmul_matrix **matrix,
                                    struct mmul_error *err);

// Makes an open file the matrix's, which takes over the caller's reference. Its elements are not found yet.
void mmul_matrix_take_file(struct mmul_matrix *matrix, struct mmul_input_file *file);

// The tensors of the matrix's open file, of a format that may hold several; else NULL. Fails with MMUL_ERR_DATA,
// MMUL_ERR_NO_INPUT or MMUL_ERR_SYSTEM.
enum mmul_status mmul_matrix_list(const struct mmul_matrix *matrix, struct mmul_tensors **tensors,
                                  struct mmul_error *err);

// Of an open file with these tensors, or NULL: finds the elements of what is meant in it. Sizes of 0 are legal for rows
// and cols of a file of one matrix when `empty_allowed`. Fails likewise.
enum mmul_status mmul_matrix_load(struct mmul_matrix *matrix, const struct mmul_tensors *tensors,
                                  bool empty_allowed, struct mmul_error *err);

// Finds the elements of this tensor of its open file. Fails likewise.
enum mmul_status mmul_matrix_load_tensor(struct mmul_matrix *matrix,
                                         const struct mmul_tensors *tensors,
                                         const struct mmul_tensor_entry *entry,
                                         struct mmul_error *err);

// Is the file as long as its header, which is in info and data_offset, says? Fails with
// MMUL_ERR_DATA.
enum mmul_status mmul_matrix_check_length(const struct mmul_matrix *matrix, struct mmul_error *err);

// The matrix of the file at `path`, of which sizes of 0 are legal for rows and cols (a shard of a part without rows).
// Fails as mmul_matrix_open.
enum mmul_status mmul_matrix_open_shard(const char *path, struct mmul_matrix **matrix,
                                        struct mmul_error *err);

// Elements [first, first + count) as they lie in the file or the borrowed memory, converted to
// `target`, which is `stored`, MMUL_F32 or, of whole numbers, MMUL_F64. Fails as mmul_matrix_read does.
enum mmul_status mmul_matrix_read_run(struct mmul_matrix *matrix, int64_t first, int64_t count,
                                      enum mmul_dtype target, void *dst, struct mmul_error *err);

// mmul_matrix_read, as `stored`.
enum mmul_status mmul_matrix_read_stored(struct mmul_matrix *matrix, struct mmul_region region,
                                         int64_t begin, int64_t end, void *dst,
                                         struct mmul_error *err);

// Fails with MMUL_ERR_DATA: the file has lost its end since it was opened.
enum mmul_status mmul_matrix_fail_shorter(const char *name, int64_t end, int64_t expected,
                                          struct mmul_error *err);

// Fails with MMUL_ERR_DATA: the file changed while its elements were read, which may be partly old and partly new.
enum mmul_status mmul_matrix_fail_written(const char *name, struct mmul_error *err);

// What the matrix takes of this machine's memory beside buffers, as long as it is open: elements that have been turned
// round, and a file without a name (decoded elements, a pipe's) where $TMPDIR is in memory.
int64_t mmul_matrix_held_bytes(const struct mmul_matrix *matrix);

// Is this open file the input? Never for memory.
bool mmul_matrix_is_file(const struct mmul_matrix *matrix, const struct stat *file);
