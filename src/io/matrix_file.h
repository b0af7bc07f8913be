// SPDX-License-Identifier: MIT
// The structure of an open matrix, and the calls that only the library itself makes. Files of this
// folder open, read and compare matrices with it.
#pragma once

#include "io/address.h"
#include "io/input_file.h"
#include "io/selection.h"

struct mmul_matrix {
    char *name;   // owned, as the caller gave it
    char *path;   // owned, of the file; NULL: in memory
    char *tensor; // owned, the address in the file (io/address.h); NULL: none was given
    struct mmul_matrix_info info;
    struct mmul_input_file *file; // one reference; NULL: in memory
    // Descriptor of the elements: the file's, or owned if they were decoded. -1: in memory.
    int fd;
    int64_t data_offset;
    const void *memory;           // borrowed: `stored` elements in C order; NULL: a file
    void *reordered;              // owned: memory that contains `memory`; NULL: not ours
    void *fortran;                // owned: `stored` elements in Fortran order; NULL: C order
    struct mmul_axis_range range; // range of the first axis, applied after opening
    // Owned: the part of the stored stack that `info.shape` describes; NULL: all of it.
    struct mmul_selection *selection;
    bool missing_is_nan;    // empty cells of a table as text are NaN
    struct timespec stored; // last write to fd, as of opening
    // Changed by several threads at once: accessed only through __atomic builtins.
    int64_t overflows;
};

struct mmul_tensors;
struct mmul_tensor_entry;

// Creates a matrix with a name, but without path, file and elements. Released with
// mmul_matrix_close.
enum mmul_status mmul_matrix_create(const char *name, struct mmul_matrix **matrix,
                                    struct mmul_error *err);

// Gives the matrix an open file and takes over the caller's reference. Does not look for elements.
void mmul_matrix_attach_file(struct mmul_matrix *matrix, struct mmul_input_file *file);

// Lists the tensors of the matrix's open file. *tensors is NULL if its format holds one matrix.
// Fails with MMUL_ERR_DATA, MMUL_ERR_NO_INPUT or MMUL_ERR_SYSTEM.
enum mmul_status mmul_matrix_list_tensors(const struct mmul_matrix *matrix,
                                          struct mmul_tensors **tensors, struct mmul_error *err);

// Finds the elements that the matrix's name means in its open file. `tensors` lists the file, or is
// NULL. Sizes of 0 are legal for rows and cols in a file of one matrix if `empty_allowed`. Fails as
// mmul_matrix_list_tensors does.
enum mmul_status mmul_matrix_locate_elements(struct mmul_matrix *matrix,
                                             const struct mmul_tensors *tensors, bool empty_allowed,
                                             struct mmul_error *err);

// Finds the elements of this tensor in the matrix's open file. Fails as mmul_matrix_list_tensors
// does.
enum mmul_status mmul_matrix_locate_tensor(struct mmul_matrix *matrix,
                                           const struct mmul_tensors *tensors,
                                           const struct mmul_tensor_entry *entry,
                                           struct mmul_error *err);

// Narrows the open matrix to a selection of its stack, which it takes over. All reads deliver the
// selection from then on.
void mmul_matrix_select(struct mmul_matrix *matrix, struct mmul_selection *selection);

// Returns the shape of the stack in the file or memory: that of `info` without a selection.
struct mmul_shape mmul_matrix_stored_shape(const struct mmul_matrix *matrix);

// Checks the length of the file against the header in info and data_offset. Fails with
// MMUL_ERR_DATA.
enum mmul_status mmul_matrix_check_length(const struct mmul_matrix *matrix, struct mmul_error *err);

// Opens the file at `path` as a shard: sizes of 0 are legal for rows and cols (a shard without
// rows). Fails as mmul_matrix_open does.
enum mmul_status mmul_matrix_open_shard(const char *path, struct mmul_matrix **matrix,
                                        struct mmul_error *err);

// Reads elements [first, first + count), counted as they lie in the file or the borrowed memory,
// and converts them to `target`: `stored`, MMUL_F32 or, for whole numbers, MMUL_F64. Fails as
// mmul_matrix_read does.
enum mmul_status mmul_matrix_read_run(struct mmul_matrix *matrix, int64_t first, int64_t count,
                                      enum mmul_dtype target, void *dst, struct mmul_error *err);

// Reads as mmul_matrix_read does, but in the type `stored`.
enum mmul_status mmul_matrix_read_stored(struct mmul_matrix *matrix, struct mmul_region region,
                                         int64_t begin, int64_t end, void *dst,
                                         struct mmul_error *err);

// Fails with MMUL_ERR_DATA: the file has been truncated since it was opened.
enum mmul_status mmul_matrix_fail_truncated(const char *name, int64_t end, int64_t expected,
                                            struct mmul_error *err);

// Fails with MMUL_ERR_DATA: the file changed while it was read, so elements may be partly old and
// partly new.
enum mmul_status mmul_matrix_fail_changed(const char *name, struct mmul_error *err);

// Returns the memory that the open matrix holds on this machine besides buffers: elements converted
// to C order, and an unnamed file (decoded elements, input from a pipe) if $TMPDIR is in memory.
int64_t mmul_matrix_memory_bytes(const struct mmul_matrix *matrix);

// Returns true if this open file is the matrix's. False for a matrix in memory.
bool mmul_matrix_is_file(const struct mmul_matrix *matrix, const struct stat *file);
